# SPDX-License-Identifier: Apache-2.0
"""Graphs that are none, that nest or grow without end, and types nobody expects."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto as T, helper, numpy_helper

from hostile.case import Case, function, info, lazily, local, net, node, saved, with_functions

X, Y = [info("x", (2,))], [info("y", (2,))]


def cases() -> Iterator[Case]:
    yield from _graphs()
    yield from _opsets()
    yield from _functions()
    yield from _nesting()
    yield from _types()


def _invalid() -> dict[str, onnx.ModelProto]:
    """What is no graph, or not one of these operators."""
    one = np.ones(2, np.float32)
    relu = node("Relu", "x", "y")
    return {
        "cycle of one": net([node("Add", "x y", "y")], X, Y),
        "cycle of two": net(
            [node("Add", "x b", "a"), node("Relu", "a", "b")], X, [info("b", (2,))]
        ),
        "wrong order": net([node("Relu", "a", "y"), node("Exp", "x", "a")], X, Y),
        "two outputs of a name": net([relu, node("Neg", "x", "y")], X, Y),
        "output over an input": net([node("Relu", "x", "x")], X, X),
        "output over a constant": net([node("Relu", "x", "c")], X, [info("c", (2,))], {"c": one}),
        "two inputs of a name": net([relu], X + X, Y),
        "two constants of a name": _twice(net([node("Add", "x c", "y")], X, Y, {"c": one})),
        "input nowhere": net([node("Add", "x nowhere", "y")], X, Y),
        "output never produced": net([relu], X, [info("z", (2,))]),
        "output listed twice": net([relu], X, Y + Y),
        "output without a name": net([relu], X, [info("", (2,))]),
        "input without a name": net([relu], [*X, info("", (2,))], Y),
        "constant without a name": net([relu], X, Y, {"": one}),
        "no nodes": net([], X, X),
        "nothing at all": net([], [], []),
        "no outputs": net([relu], X, []),
        "node without an operator": net([helper.make_node("", ["x"], ["y"])], X, Y),
        "node without outputs": net([node("Relu", "x", "")], X, Y),
        "too many inputs": net([node("Relu", "x x x", "y")], X, Y),
        "too few inputs": net([node("Add", "x", "y")], X, Y),
        "too many outputs": net([node("Relu", "x", "y z")], X, Y),
        "required input omitted": net([node("Add", "- x", "y")], X, Y),
        "unknown operator": net([node("Frobnicate", "x", "y")], X, Y),
        "unknown domain": net([node("com.acme.Thing", "x", "y")], X, Y),
        "unknown domain, imported": net(
            [node("com.acme.Thing", "x", "y")], X, Y, imports=[helper.make_opsetid("com.acme", 1)]
        ),
        "unknown attribute": net([node("Relu", "x", "y", alpha=1.0)], X, Y),
        "attribute twice": _attribute_twice(),
        "attribute of another type": net([node("Softmax", "x", "y", axis="1")], X, Y),
        "attribute without a value": _empty_attribute(),
        "attribute refers to none": _ref_attribute(),
        "subgraph of a Relu": net([node("Relu", "x", "y", body=_branch("Exp"))], X, Y),
    }


def _graphs() -> Iterator[Case]:
    one = np.ones(2, np.float32)
    for name, model in _invalid().items():
        yield Case("graphs", name, saved(model), "refuse")
    others: dict[str, onnx.ModelProto] = {
        "input is output": net([node("Relu", "x", "y")], X, [*Y, *X]),
        "constant is output": net([node("Relu", "x", "y")], X, [*Y, info("c", (2,))], {"c": one}),
        "initialiser is input": net(
            [node("Add", "x c", "y")], [*X, info("c", (2,))], Y, {"c": one}
        ),
        "initialiser is input of another shape": net(
            [node("Add", "x c", "y")], [*X, info("c", (7, 7))], Y, {"c": one}
        ),
        "initialiser is input of another type": net(
            [node("Add", "x c", "y")], [*X, info("c", (2,), T.INT8)], Y, {"c": one}
        ),
        "unused everything": net(
            [node("Relu", "x", "y"), node("Exp", "u", "v")], [*X, info("u", (3,))], Y, {"c": one}
        ),
        "names that differ in case": net(
            [node("Relu", "x", "X"), node("Exp", "X", "y")], X, [*Y, info("X", (2,))]
        ),
        "names that clean to one": net(
            [node("Relu", "a-b", "a+b"), node("Exp", "a+b", "a.b")],
            [info("a-b", (2,))],
            [info("a.b", (2,)), info("a+b", (2,))],
        ),
        "the compiler's own names": net(
            [
                node("Relu", "x", "aot_0"),
                node("Exp", "aot_0", "arena"),
                node("Neg", "arena", "ctx"),
            ],
            X,
            [info("ctx", (2,))],
        ),
        "all nodes of one name": _same_names(),
        "sparse constant": _sparse([1, 3], [5]),
        "sparse, place out of range": _sparse([1, 7], [5]),
        "sparse, negative place": _sparse([1, -3], [5]),
        "sparse, huge": _sparse([1, 3], [1 << 40]),
        "sparse, negative shape": _sparse([1, 3], [-5]),
        "sparse, unsorted": _sparse([3, 1], [5]),
        "sparse, counts differ": _sparse([1], [5]),
        "gather of gathers": _shared(40),
        "metadata of a partition": _marked(),
    }
    for name, model in others.items():
        yield Case("graphs", name, saved(model))


def _twice(model: onnx.ModelProto) -> onnx.ModelProto:
    model.graph.initializer.append(model.graph.initializer[0])
    return model


def _attribute_twice() -> onnx.ModelProto:
    model = net([node("Softmax", "x", "y", axis=0)], X, Y)
    model.graph.node[0].attribute.append(model.graph.node[0].attribute[0])
    return model


def _empty_attribute() -> onnx.ModelProto:
    model = net([node("Softmax", "x", "y")], X, Y)
    model.graph.node[0].attribute.add(name="axis")
    return model


def _ref_attribute() -> onnx.ModelProto:
    model = net([node("Softmax", "x", "y")], X, Y)
    model.graph.node[0].attribute.add(name="axis", ref_attr_name="a", type=2)
    return model


def _same_names() -> onnx.ModelProto:
    nodes = [node("Exp", f"v{i}", f"v{i + 1}") for i in range(20)]
    for each in nodes:
        each.name = "same"
    return net(nodes, [info("v0", (2,))], [info("v20", (2,))])


def _sparse(places: list[int], dims: list[int]) -> onnx.ModelProto:
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    where = numpy_helper.from_array(np.array(places, np.int64), "i")
    model = net([node("Add", "x w", "y")], [info("x", (5,))], [info("y", None)])
    model.graph.sparse_initializer.append(
        onnx.SparseTensorProto(values=values, indices=where, dims=dims)
    )
    return model


def _shared(depth: int) -> onnx.ModelProto:
    """2^depth paths through `depth` nodes."""
    nodes = [node("Add", f"v{i} v{i}", f"v{i + 1}") for i in range(depth)]
    return net(nodes, [info("v0", (2,))], [info(f"v{depth}", (2,))])


def _marked() -> onnx.ModelProto:
    model = net([node("Relu", "x", "y")], X, Y)
    for key in ("aotc.backend", "aotc.region", "aotc.offset", "aotc.name", "pkg.aot.name"):
        model.graph.node[0].metadata_props.add(key=key, value="../../x*/")
        model.metadata_props.add(key=key, value="../../x*/")
    return model


def _branch(op: str) -> onnx.GraphProto:
    return helper.make_graph([node(op, "x", "r")], "b", [], [info("r", (2,))])


def _opsets() -> Iterator[Case]:
    for version in (-1, 0, 1, 6, 7, 22, 9999, 1 << 31, (1 << 63) - 1):
        model = net([node("Relu", "x", "y")], X, Y, opset=version)
        yield Case(
            "opsets", f"opset {version}", saved(model), "either" if 1 <= version < 50 else "refuse"
        )
    for version in (0, 1, 3, 9999, (1 << 63) - 1, -1):
        model = net([node("Relu", "x", "y")], X, Y)
        model.ir_version = version
        yield Case("opsets", f"IR version {version}", saved(model))
    twice = net([node("Relu", "x", "y")], X, Y, imports=[helper.make_opsetid("", 7)])
    yield Case("opsets", "two versions of a domain", saved(twice), "refuse")
    named = net([node("Relu", "x", "y")], X, Y, imports=[helper.make_opsetid("ai.onnx", 7)])
    yield Case("opsets", "two names of a domain", saved(named), "refuse")
    none = net([node("Relu", "x", "y")], X, Y)
    del none.opset_import[:]
    yield Case("opsets", "none", saved(none), "refuse")
    many = net(
        [node("Relu", "x", "y")],
        X,
        Y,
        imports=[helper.make_opsetid(f"d{i}", 1) for i in range(20000)],
    )
    yield Case("opsets", "20000 domains", saved(many))
    training = net([node("Relu", "x", "y")], X, Y)
    training.training_info.add().initialization.name = "t"
    yield Case("opsets", "training", saved(training))


def _functions() -> Iterator[Case]:
    def calls(*names: str) -> list[onnx.NodeProto]:
        chain = ["a", *[f"t{i}" for i in range(len(names) - 1)], "b"]
        return [node(n, chain[i], chain[i + 1]) for i, n in enumerate(names)]

    call = [node("own.F0", "x", "y")]
    bomb = [function(f"F{i}", calls(f"own.F{i + 1}", f"own.F{i + 1}")) for i in range(30)]
    bomb.append(function("F30", calls("Exp", "Exp")))
    models: dict[str, tuple[onnx.ModelProto, str]] = {
        "calls itself": (with_functions(call, [function("F0", calls("own.F0"))]), "refuse"),
        "calls in a circle": (
            with_functions(
                call, [function("F0", calls("own.F1")), function("F1", calls("own.F0"))]
            ),
            "refuse",
        ),
        "calls itself, unused": (
            with_functions([node("Relu", "x", "y")], [function("F0", calls("own.F0"))]),
            "either",
        ),
        "2^30 nodes": (with_functions(call, bomb), "refuse"),
        "2^30 nodes in a branch": (_hidden(bomb), "refuse"),
        "chain of 2000": (
            with_functions(
                call,
                [
                    *(function(f"F{i}", calls(f"own.F{i + 1}")) for i in range(2000)),
                    function("F2000", calls("Exp")),
                ],
            ),
            "either",
        ),
        "defined twice": (
            with_functions(call, [function("F0", calls("Exp")), function("F0", calls("Neg"))]),
            "either",
        ),
        "hides an operator": (
            with_functions([node("Relu", "x", "y")], [function("Relu", calls("Neg"), "")]),
            "refuse",
        ),
        "result never produced": (
            with_functions(call, [function("F0", calls("Exp"), out="z")]),
            "refuse",
        ),
        "reads what is nowhere": (
            with_functions(call, [function("F0", [node("Add", "a q", "b")])]),
            "refuse",
        ),
        "too many arguments": (
            with_functions([node("own.F0", "x x x", "y")], [function("F0", calls("Exp"))]),
            "refuse",
        ),
        "too many results": (
            with_functions([node("own.F0", "x", "y z")], [function("F0", calls("Exp"))]),
            "refuse",
        ),
        "no body": (with_functions(call, [function("F0", [])]), "refuse"),
        "cyclic body": (
            with_functions(
                call, [function("F0", [node("Add", "a b", "c"), node("Exp", "c", "b")])]
            ),
            "refuse",
        ),
        "names of the graph": (
            with_functions(call, [function("F0", [node("Exp", "a", "y"), node("Neg", "y", "b")])]),
            "either",
        ),
        "attribute nobody gives": (_needs_attribute(), "either"),
        "opset 9999": (_function_opset(9999), "refuse"),
        "domain not imported": (_function_opset(None), "refuse"),
    }
    for name, (model, expect) in models.items():
        yield Case("functions", name, saved(model), expect)  # type: ignore[arg-type]


def _hidden(functions: list[onnx.FunctionProto]) -> onnx.ModelProto:
    then = helper.make_graph([node("own.F0", "x", "r")], "t", [], [info("r", (2,))])
    model = with_functions(
        [node("If", "c", "y", then_branch=then, else_branch=_branch("Neg"))], functions
    )
    model.graph.input.append(info("c", (), T.BOOL))
    return model


def _needs_attribute() -> onnx.ModelProto:
    inner = node("Softmax", "a", "b")
    inner.attribute.add(name="axis", ref_attr_name="where", type=2)
    body = function("F0", [inner])
    body.attribute.append("where")
    return with_functions([node("own.F0", "x", "y")], [body])


def _function_opset(version: int | None) -> onnx.ModelProto:
    model = local()
    del model.functions[0].opset_import[:]
    if version is not None:
        model.functions[0].opset_import.append(helper.make_opsetid("", version))
    return model


def _nesting() -> Iterator[Case]:
    def nested(depth: int) -> onnx.ModelProto:
        graph = _branch("Exp")
        for i in range(depth):
            inner = node("If", "c", "r", then_branch=graph, else_branch=_branch("Neg"))
            graph = helper.make_graph([inner], f"b{i}", [], [info("r", (2,))])
        outer = node("If", "c", "y", then_branch=graph, else_branch=_branch("Neg"))
        return net([outer], [*X, info("c", (), T.BOOL)], Y)

    for depth in (3, 12, 23, 24, 25):
        yield Case("nesting", f"If, {depth} deep", lazily(lambda d=depth: nested(d)))  # type: ignore[misc]

    def wide(depth: int) -> onnx.ModelProto:
        """Both branches nest: 2^depth graphs."""
        graph = _branch("Exp")
        for i in range(depth):
            inner = node("If", "c", "r", then_branch=graph, else_branch=graph)
            graph = helper.make_graph([inner], f"b{i}", [], [info("r", (2,))])
        return net(
            [node("If", "c", "y", then_branch=graph, else_branch=graph)],
            [*X, info("c", (), T.BOOL)],
            Y,
        )

    for depth in (4, 8, 11):
        yield Case("nesting", f"If in both branches, {depth} deep", lazily(lambda d=depth: wide(d)))  # type: ignore[misc]

    def loops(depth: int, count: int) -> onnx.ModelProto:
        body = helper.make_graph(
            [node("Add", "v v", "w"), node("Identity", "go", "on")], "b", *_carried("v", "w")
        )
        for i in range(depth):
            inner = [node("Loop", "n t v", "w", body=body), node("Identity", "go", "on")]
            body = helper.make_graph(inner, f"b{i}", *_carried("v", "w"))
        consts = {"n": np.array(count), "t": np.array(True)}
        return net([node("Loop", "n t x", "y", body=body)], X, Y, consts)

    for depth, count in ((3, 3), (6, 10), (9, 10), (20, 2), (2, 1 << 40)):
        yield Case(
            "nesting",
            f"Loop of {count}, {depth} deep",
            lazily(lambda d=depth, c=count: loops(d, c)),  # type: ignore[misc]
            endless=count > 10**9,
        )


def _carried(old: str, new: str) -> tuple[list[onnx.ValueInfoProto], list[onnx.ValueInfoProto]]:
    ins = [info("i", (), T.INT64), info("go", (), T.BOOL), info(old, (2,))]
    return ins, [info("on", (), T.BOOL), info(new, (2,))]


def _types() -> Iterator[Case]:
    kinds = sorted(v for k, v in T.DataType.items())
    for dtype in [*kinds, 99, -1, 1 << 30]:
        model = net(
            [node("Identity", "x", "a"), node("Identity", "a", "y")],
            [info("x", (2,), 1)],
            [info("y", None)],
        )
        for end in (*model.graph.input, *model.graph.output):
            end.type.tensor_type.elem_type = dtype
        known = "either" if 0 < dtype <= 26 else "refuse"
        yield Case("types", f"element type {dtype}", saved(model), known)
        cast = net([node("Cast", "x", "y", to=dtype)], [info("x", (2,))], [info("y", None, 1)])
        cast.graph.output[0].type.tensor_type.elem_type = dtype
        yield Case("types", f"Cast to {dtype}", saved(cast), known)
        tensor = T(name="c", dims=[2], raw_data=bytes(8))
        tensor.data_type = dtype
        constant = net(
            [node("Cast", "c", "z", to=1), node("Add", "x z", "y")],
            X,
            [info("y", None)],
            {"c": tensor},
        )
        yield Case("types", f"constant of {dtype}, 8 bytes", saved(constant))
        fields = T(name="c", dims=[2], int32_data=[1 << 30, -5])
        fields.data_type = dtype
        constant = net(
            [node("Cast", "c", "z", to=1), node("Add", "x z", "y")],
            X,
            [info("y", None)],
            {"c": fields},
        )
        yield Case("types", f"constant of {dtype}, int32 beyond its range", saved(constant))
    both = T(name="c", data_type=T.FLOAT, dims=[2], raw_data=bytes(8), float_data=[1, 2])
    yield Case(
        "types", "raw and typed data", saved(net([node("Add", "x c", "y")], X, Y, {"c": both}))
    )
    segment = T(name="c", data_type=T.FLOAT, dims=[2], float_data=[1, 2])
    segment.segment.begin, segment.segment.end = 5, 1
    yield Case("types", "segments", saved(net([node("Add", "x c", "y")], X, Y, {"c": segment})))
    optional = net(
        [node("OptionalHasElement", "x", "y")], [info("x", (2,))], [info("y", (), T.BOOL)]
    )
    optional.graph.input[0].type.CopyFrom(
        helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2]))
    )
    yield Case("types", "optional", saved(optional))
    for depth in (1, 2, 30):
        kind = helper.make_tensor_type_proto(1, [2])
        for _ in range(depth):
            kind = helper.make_sequence_type_proto(kind)
        sequence = net([node("SequenceLength", "x", "y")], X, [info("y", (), T.INT64)])
        sequence.graph.input[0].type.CopyFrom(kind)
        yield Case("types", f"sequence, {depth} deep", saved(sequence))
    mapped = net([node("Identity", "x", "y")], X, Y)
    mapped.graph.input[0].type.map_type.key_type = T.STRING
    mapped.graph.input[0].type.map_type.value_type.tensor_type.elem_type = 1
    yield Case("types", "map", saved(mapped), "refuse")
    sparse = net([node("Identity", "x", "y")], X, Y)
    sparse.graph.input[0].type.sparse_tensor_type.elem_type = 1
    yield Case("types", "sparse input", saved(sparse), "refuse")
