# SPDX-License-Identifier: Apache-2.0
"""Dimensions that overflow, and small files that ask for more memory than there is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto as T, helper

from hostile.case import Case, info, lazily, net, node, saved

M = 1 << 20
ODD = [-1, -2, -3, 0, 1 << 31, 1 << 32, (1 << 32) + 1, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63)]


def cases() -> Iterator[Case]:
    yield from _dimensions()
    yield from _bombs()
    yield from _folding()
    yield from _indices()


def _dimensions() -> Iterator[Case]:
    for value in ODD:
        expect = "either" if value == 0 else "refuse"
        for place in ("input", "output", "inner", "attribute"):
            want = expect if place == "input" else "either"
            yield Case("dimensions", f"{value} in an {place}", saved(_placed(value, place)), want)
        for i in range(2):
            shape = [3, 3]
            shape[i] = value
            tensor = T(name="w", data_type=T.FLOAT, dims=shape, raw_data=bytes(36))
            model = net(
                [node("Add", "x w", "y")], [info("x", (3, 3))], [info("y", None)], {"w": tensor}
            )
            yield Case("dimensions", f"{value} in a constant, axis {i}", saved(model), "refuse")
    for shape in (
        [M] * 4,
        [1 << 16] * 4,
        [1 << 32, 1 << 32],
        [1 << 63 >> 1, 2, 2],
        [2] * 64,
        [0, 1 << 62],
    ):
        model = net([node("Relu", "x", "y")], [info("x", shape)], [info("y", None)])
        want = "either" if 0 in shape else "refuse"
        yield Case("dimensions", f"element count of {shape[:5]}…", saved(model), want)
    for rank in (9, 33, 65, 1000):
        model = net([node("Relu", "x", "y")], [info("x", [1] * rank)], [info("y", [1] * rank)])
        yield Case("dimensions", f"rank {rank}", saved(model))
        many = net(
            [node("Transpose", "x", "y", perm=list(range(rank))[::-1])],
            [info("x", [2, *[1] * (rank - 1)])],
            [info("y", None)],
        )
        yield Case("dimensions", f"rank {rank}, transposed", saved(many))
    unknown = net([node("Relu", "x", "y")], [info("x", None)], [info("y", None)])
    yield Case("dimensions", "unknown rank", saved(unknown), "refuse")
    untyped = net([node("Relu", "x", "y")], [onnx.ValueInfoProto(name="x")], [info("y", None)])
    yield Case("dimensions", "no type", saved(untyped), "refuse")
    lying = net([node("Relu", "x", "y")], [info("x", (2, 3))], [info("y", (7, 7))])
    yield Case("dimensions", "output declared otherwise", saved(lying), "refuse")
    inner = net(
        [node("Exp", "x", "a"), node("Relu", "a", "y")], [info("x", (2, 3))], [info("y", (2, 3))]
    )
    inner.graph.value_info.append(info("a", (M, M)))
    yield Case("dimensions", "inner value declared otherwise", saved(inner))
    huge = (1 << 30, "one float32 of 4 GiB"), (1 << 29, "2 GiB"), ((1 << 31) - 1, "8 GiB")
    for count, what in huge:
        chain = [node("Exp", "x", "a"), node("ReduceSum", "a", "s"), node("Div", "a s", "y")]
        model = net(chain, [info("x", (count,))], [info("y", None)])
        yield Case("dimensions", f"tensors of {what}", saved(model))


def _placed(value: int, place: str) -> onnx.ModelProto:
    shape = [2, value]
    if place == "input":
        return net([node("Relu", "x", "y")], [info("x", shape)], [info("y", None)])
    if place == "output":
        return net([node("Relu", "x", "y")], [info("x", (2, 3))], [info("y", shape)])
    if place == "inner":
        nodes = [node("Exp", "x", "a"), node("Relu", "a", "y")]
        model = net(nodes, [info("x", (2, 3))], [info("y", None)])
        model.graph.value_info.append(info("a", shape))
        return model
    conv = node("MaxPool", "x", "y", kernel_shape=[value, value], pads=[0, 0, value, 1])
    return net([conv], [info("x", (1, 1, 5, 5))], [info("y", None)])


def _one(
    op: str, consts: dict[str, object], shape: tuple[int, ...] = (1, 3), **attrs: object
) -> onnx.ModelProto:
    ins = " ".join(["x", *consts])
    return net([node(op, ins, "y", **attrs)], [info("x", shape)], [info("y", None)], consts)


def _bombs() -> Iterator[Case]:
    models = {**_spread(), **_windows(), **_made()}
    for name, model in models.items():
        yield Case("memory bombs", name, saved(model), endless=name.startswith("Loop of 2^"))
    for name in (
        "Range up",
        "Range tiny step",
        "Range step 0",
        "Range of NaN",
        "Range of infinity",
    ):
        yield Case("memory bombs", name, saved(_range(name)))
    for value in (M * M, -1, 1 << 62):
        yield Case("memory bombs", f"ConstantOfShape {value}", saved(_filled([value, value])))


def _spread() -> dict[str, onnx.ModelProto]:
    """Small tensors spread over much memory."""
    f = np.float32
    return {
        "Expand": _one("Expand", {"c": [M, M, 3]}),
        "Expand wraps 64 bits": _one("Expand", {"c": [1 << 32, 1 << 32, 1, 3]}),
        "Tile": _one("Tile", {"c": [M, M]}),
        "Tile wraps": _one("Tile", {"c": [1 << 62, 4]}),
        "Tile negative": _one("Tile", {"c": [-1, 2]}),
        "Pad": _one("Pad", {"c": [M, M, 0, 0]}),
        "Pad wraps": _one("Pad", {"c": [1 << 62, 0, 1 << 62, 0]}),
        "Pad takes all away": _one("Pad", {"c": [-5, 0, -5, 0]}),
        "OneHot": net(
            [node("OneHot", "x d v", "y")],
            [info("x", (M,), T.INT64)],
            [info("y", None)],
            {"d": [1 << 34], "v": np.array([0, 1], f)},
        ),
        "Resize": _one("Resize", {"r": np.array([], f), "s": np.array([1e9, 1e9], f)}),
        "Resize by infinity": _one("Resize", {"r": np.array([], f), "s": np.array([np.inf, 1], f)}),
        "Resize by NaN": _one("Resize", {"r": np.array([], f), "s": np.array([np.nan, 1], f)}),
        "Resize by 0": _one("Resize", {"r": np.array([], f), "s": np.array([0, 1], f)}),
        "Resize by -1": _one("Resize", {"r": np.array([], f), "s": np.array([-1, 1], f)}),
        "ConvTranspose strides": _one(
            "ConvTranspose",
            {"w": np.ones((1, 1, 2, 2), f)},
            (1, 1, 5, 5),
            strides=[1 << 30, 1 << 30],
        ),
        "ConvTranspose output_shape": _one(
            "ConvTranspose",
            {"w": np.ones((1, 1, 2, 2), f)},
            (1, 1, 5, 5),
            output_shape=[1 << 20, 1 << 20],
        ),
    }


def _windows() -> dict[str, onnx.ModelProto]:
    """Windows, blocks and steps beyond every tensor."""
    f = np.float32
    return {
        "MaxPool pads": _one("MaxPool", {}, (1, 1, 5, 5), kernel_shape=[2, 2], pads=[1 << 40] * 4),
        "MaxPool dilations": _one(
            "MaxPool", {}, (1, 1, 5, 5), kernel_shape=[2, 2], dilations=[1 << 40, 1]
        ),
        "AveragePool kernel": _one("AveragePool", {}, (1, 1, 5, 5), kernel_shape=[1 << 40, 1]),
        "Conv dilations": _one(
            "Conv", {"w": np.ones((1, 1, 2, 2), f)}, (1, 1, 5, 5), dilations=[1 << 62, 1]
        ),
        "Conv strides 0": _one(
            "Conv", {"w": np.ones((1, 1, 2, 2), f)}, (1, 1, 5, 5), strides=[0, 0]
        ),
        "Conv group 0": _one("Conv", {"w": np.ones((1, 1, 2, 2), f)}, (1, 1, 5, 5), group=0),
        "Conv pads -9": _one("Conv", {"w": np.ones((1, 1, 2, 2), f)}, (1, 1, 5, 5), pads=[-9] * 4),
        "DepthToSpace block": _one("DepthToSpace", {}, (1, 4, 2, 2), blocksize=1 << 40),
        "SpaceToDepth block 0": _one("SpaceToDepth", {}, (1, 4, 2, 2), blocksize=0),
        "Unsqueeze far": _one("Unsqueeze", {"a": [1 << 40]}),
        "Split into a million": _one("Split", {}, (M,), num_outputs=M, axis=0),
        "TopK of too many": _one("TopK", {"k": [1 << 40]}),
        "EyeLike": _one("EyeLike", {}, (1 << 17, 1 << 17)),
    }


def _made() -> dict[str, onnx.ModelProto]:
    """Results made of nothing, of products, of repetition."""
    f = np.float32
    return {
        "BlackmanWindow": _const("BlackmanWindow", 1 << 34),
        "MelWeightMatrix": net(
            [node("MelWeightMatrix", "a b c d e", "y")],
            [],
            [info("y", None)],
            {
                "a": np.array(1 << 30),
                "b": np.array(1 << 30),
                "c": np.array(8000),
                "d": np.array(0, f),
                "e": np.array(4000, f),
            },
        ),
        "RandomNormal": net([node("RandomNormal", "", "y", shape=[M, M])], [], [info("y", None)]),
        "Multinomial": net(
            [node("Multinomial", "x", "y", sample_size=1 << 40)],
            [info("x", (1, 3))],
            [info("y", None, T.INT32)],
        ),
        "outer product": net(
            [node("Mul", "x z", "y")], [info("x", (M, 1)), info("z", (1, M))], [info("y", None)]
        ),
        "outer MatMul": net(
            [node("MatMul", "x z", "y")], [info("x", (M, 1)), info("z", (1, M))], [info("y", None)]
        ),
        "Einsum": net(
            [node("Einsum", "x x x", "y", equation="a,b,c->abc")],
            [info("x", (1 << 12,))],
            [info("y", None)],
        ),
        "Concat doubling": _doubling("Concat", 40),
        "Add of broadcasts": _doubling("Tile", 40),
        "Loop of 2^40": _loop(1 << 40),
        "Loop of 2^63-1": _loop((1 << 63) - 1),
        "Loop of a million": _loop(M),
        "Loop that doubles 40 times": _loop(40, "Concat"),
        "Scan of a million": _scan(M),
        "NonMaxSuppression": net(
            [node("NonMaxSuppression", "b s m", "y")],
            [info("b", (1, M, 4)), info("s", (1, M, M))],
            [info("y", None, T.INT64)],
            {"m": np.array([1 << 40])},
        ),
        "StringSplit": _one("Identity", {}, (M, M)),
    }


def _const(op: str, size: int) -> onnx.ModelProto:
    return net([node(op, "s", "y")], [], [info("y", None)], {"s": np.array(size)})


def _doubling(op: str, times: int) -> onnx.ModelProto:
    nodes = []
    for i in range(times):
        ins = f"v{i} v{i}" if op == "Concat" else f"v{i} two"
        nodes.append(node(op, ins, f"v{i + 1}", **({"axis": 0} if op == "Concat" else {})))
    return net(nodes, [info("v0", (4,))], [info(f"v{times}", None)], {"two": [2]})


def _loop(count: int, op: str = "Add") -> onnx.ModelProto:
    more = {"axis": 0} if op == "Concat" else {}
    body = helper.make_graph(
        [node(op, "v v", "w", **more), node("Identity", "go", "on")],
        "body",
        [info("i", (), T.INT64), info("go", (), T.BOOL), info("v", None)],
        [info("on", (), T.BOOL), info("w", None)],
    )
    return net(
        [node("Loop", "n t x", "y", body=body)],
        [info("x", (2,))],
        [info("y", None)],
        {"n": np.array(count), "t": np.array(True)},
    )


def _scan(count: int) -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Add", "s e", "t"), node("Identity", "t", "o")],
        "body",
        [info("s", (2,)), info("e", (2,))],
        [info("t", (2,)), info("o", (2,))],
    )
    ends = [info("last", None), info("all", None)]
    return net(
        [node("Scan", "x z", "last all", body=body, num_scan_inputs=1)],
        [info("x", (2,)), info("z", (count, 2))],
        ends,
    )


def _range(what: str) -> onnx.ModelProto:
    values = {
        "Range up": (0, 1e18, 1),
        "Range tiny step": (0, 1, 1e-30),
        "Range step 0": (0, 5, 0),
        "Range of NaN": (0, np.nan, 1),
        "Range of infinity": (0, np.inf, 1),
    }[what]
    consts = {k: np.array(v, np.float32) for k, v in zip("abc", values, strict=True)}
    return net([node("Range", "a b c", "y")], [], [info("y", None)], consts)


def _filled(shape: list[int]) -> onnx.ModelProto:
    nodes = [node("ConstantOfShape", "s", "c"), node("Add", "c x", "y")]
    return net(nodes, [info("x", (1,))], [info("y", None)], {"s": shape})


def _folding() -> Iterator[Case]:
    """Constants only: nothing to compute at run time, everything to fold."""
    for bits in (24, 28, 31, 34):
        for op in ("Exp", "Softmax", "Transpose"):
            nodes = [
                node("ConstantOfShape", "s", "c"),
                node(op, "c", "d"),
                node("ReduceSum", "d", "y"),
            ]
            model = net(nodes, [], [info("y", None)], {"s": [1 << (bits - 12), 1 << 12]})
            yield Case("folding bombs", f"{op} of 2^{bits} zeros", saved(model))
    doubled = [node("ConstantOfShape", "s", "v0")]
    doubled += [node("Concat", f"v{i} v{i}", f"v{i + 1}", axis=0) for i in range(12)]
    doubled += [node("ReduceMax", "v12", "m"), node("Add", "m x", "y")]
    model = net(doubled, [info("x", (1,))], [info("y", None)], {"s": [M]})
    yield Case("folding bombs", "2^20 zeros doubled 12 times", saved(model))
    matmuls = [node("ConstantOfShape", "s", "v0")]
    matmuls += [node("MatMul", f"v{i} v{i}", f"v{i + 1}") for i in range(200)]
    matmuls += [node("Add", "v200 x", "y")]
    model = net(matmuls, [info("x", (1,))], [info("y", None)], {"s": [1500, 1500]})
    yield Case("folding bombs", "200 products of 1500 x 1500", saved(model))
    conv = [node("ConstantOfShape", "s", "a"), node("ConstantOfShape", "t", "w")]
    conv += [node("Conv", "a w", "c"), node("ReduceSum", "c", "m"), node("Add", "m x", "y")]
    consts = {"s": [1, 64, 300, 300], "t": [64, 64, 31, 31]}
    model = net(conv, [info("x", (1,))], [info("y", None)], consts)
    yield Case("folding bombs", "convolution of constants", saved(model))
    many = [node("ConstantOfShape", "s", f"c{i}") for i in range(400)]
    many += [node("Exp", f"c{i}", f"e{i}") for i in range(400)]
    many += [node("Sum", " ".join(f"e{i}" for i in range(400)) + " x", "y")]
    yield Case(
        "folding bombs",
        "400 constants of 4 MiB",
        lazily(lambda: net(many, [info("x", (1,))], [info("y", None)], {"s": [M]})),
    )
    text = T(name="w", data_type=T.STRING, dims=[1], string_data=[b"x" * (1 << 20)])
    joined = [node("StringConcat", f"v{i} v{i}", f"v{i + 1}") for i in range(16)]
    model = net([*joined], [], [info("v16", None, T.STRING)], {"v0": text})
    yield Case("folding bombs", "a text of 1 MiB doubled 16 times", saved(model))
    regex = net(
        [node("RegexFullMatch", "x", "y", pattern="(a*)*(a*)*(a*)*b" * 3)],
        [info("x", (1,), T.STRING)],
        [info("y", (1,), T.BOOL)],
    )
    yield Case("folding bombs", "pattern that explodes", saved(regex))
    counted = net(
        [node("RegexFullMatch", "x", "y", pattern="((((a{1,99}){1,99}){1,99}){1,99}){1,99}")],
        [info("x", (1,), T.STRING)],
        [info("y", (1,), T.BOOL)],
    )
    yield Case("folding bombs", "pattern that counts", saved(counted))


FAR, LEAST = 1 << 40, -(1 << 63)
ROWS: list[tuple[str, str, dict[str, object], dict[str, object]]] = [
    ("Gather", "Gather", {"i": [0, 2]}, {}),
    ("Gather below", "Gather", {"i": [-3]}, {}),
    ("Gather far", "Gather", {"i": [FAR]}, {}),
    ("Gather least", "Gather", {"i": [LEAST]}, {}),
    ("Gather axis", "Gather", {"i": [0]}, {"axis": 7}),
    ("Gather axis far", "Gather", {"i": [0]}, {"axis": LEAST}),
    ("GatherElements", "GatherElements", {"i": [[9, 9, 9]]}, {}),
    ("GatherND", "GatherND", {"i": [[5, 5]]}, {}),
    ("GatherND too wide", "GatherND", {"i": [[0, 0, 0]]}, {}),
    ("GatherND batch", "GatherND", {"i": [[0, 0]]}, {"batch_dims": 9}),
    ("ScatterElements", "ScatterElements", {"i": [[9]], "u": np.ones((1, 1), np.float32)}, {}),
    ("ScatterND", "ScatterND", {"i": [[9, 9]], "u": np.ones(1, np.float32)}, {}),
    ("Reshape 6 to 8", "Reshape", {"s": [4, 2]}, {}),
    ("Reshape two -1", "Reshape", {"s": [-1, -1]}, {}),
    ("Reshape -2", "Reshape", {"s": [-2, 3]}, {}),
    ("Reshape far", "Reshape", {"s": [FAR, -1]}, {}),
    ("Reshape wraps", "Reshape", {"s": [1 << 32, 1 << 32, 6]}, {}),
    ("Reshape copies an axis it lacks", "Reshape", {"s": [2, 3, 0]}, {}),
    ("Squeeze of 3", "Squeeze", {"a": [1]}, {}),
    ("Squeeze far", "Squeeze", {"a": [LEAST]}, {}),
    ("Slice step 0", "Slice", {"s": [0], "e": [2], "a": [0], "t": [0]}, {}),
    ("Slice least step", "Slice", {"s": [2], "e": [0], "a": [0], "t": [LEAST]}, {}),
    ("Slice axis twice", "Slice", {"s": [0, 0], "e": [1, 1], "a": [0, 0]}, {}),
    ("Slice axis far", "Slice", {"s": [0], "e": [1], "a": [99]}, {}),
    ("Slice of unequal lengths", "Slice", {"s": [0], "e": [1, 1], "a": [0, 1]}, {}),
    ("Split sums to less", "Split", {"s": [1]}, {"axis": 1}),
    ("Split negative", "Split", {"s": [-3]}, {"axis": 1}),
    ("Transpose twice", "Transpose", {}, {"perm": [0, 0]}),
    ("Transpose far", "Transpose", {}, {"perm": [0, 7]}),
    ("Transpose too long", "Transpose", {}, {"perm": [0, 1, 2]}),
    ("Concat axis", "Concat", {"c": np.ones((2, 3), np.float32)}, {"axis": 5}),
    ("Concat unequal", "Concat", {"c": np.ones((3, 4), np.float32)}, {"axis": 0}),
    ("ReduceSum axis", "ReduceSum", {"a": [7]}, {}),
    ("ReduceSum axis twice", "ReduceSum", {"a": [0, 0]}, {}),
    ("Softmax axis", "Softmax", {}, {"axis": 99}),
    ("Flatten axis", "Flatten", {}, {"axis": 9}),
    ("CumSum axis", "CumSum", {"a": np.array(9)}, {}),
    ("TopK -1", "TopK", {"k": [-1]}, {}),
    ("OneHot depth 0", "OneHot", {"d": [0], "v": np.array([0, 1], np.float32)}, {}),
    (
        "LayerNormalization axis",
        "LayerNormalization",
        {"s": np.ones(3, np.float32)},
        {"axis": 40},
    ),
    (
        "ReverseSequence lengths",
        "ReverseSequence",
        {"l": [9, 9, 9]},
        {"time_axis": 0, "batch_axis": 1},
    ),
    ("Compress", "Compress", {"c": np.ones(9, bool)}, {"axis": 0}),
    ("Trilu far", "Trilu", {"k": np.array(LEAST)}, {}),
    ("BitShift", "Mod", {"z": np.zeros((2, 3), np.float32)}, {"fmod": 1}),
    (
        "Clip least above most",
        "Clip",
        {"a": np.array(5, np.float32), "b": np.array(-5, np.float32)},
        {},
    ),
    (
        "scale 0",
        "QuantizeLinear",
        {"s": np.array(0, np.float32), "z": np.array(0, np.int8)},
        {},
    ),
    (
        "scale NaN",
        "QuantizeLinear",
        {"s": np.array(np.nan, np.float32), "z": np.array(0, np.int8)},
        {},
    ),
    (
        "scale infinite",
        "QuantizeLinear",
        {"s": np.array(np.inf, np.float32), "z": np.array(0, np.int8)},
        {},
    ),
    (
        "scale negative",
        "QuantizeLinear",
        {"s": np.array(-1, np.float32), "z": np.array(0, np.int8)},
        {},
    ),
    (
        "scale small",
        "QuantizeLinear",
        {"s": np.array(1e-7, np.float32), "z": np.array(0, np.int8)},
        {},
    ),
    ("scales of another axis", "QuantizeLinear", {"s": np.ones(7, np.float32)}, {"axis": 1}),
    (
        "BatchNormalization of NaN",
        "BatchNormalization",
        {k: np.full(3, np.nan, np.float32) for k in "sbmv"},
        {},
    ),
    ("epsilon -1", "LayerNormalization", {"s": np.ones(3, np.float32)}, {"epsilon": -1.0}),
]


def _indices() -> Iterator[Case]:
    for name, op, consts, attrs in ROWS:
        outs = "y z" if op in ("TopK", "Split") else "y"
        model = net(
            [node(op, " ".join(["x", *consts]), outs, **attrs)],
            [info("x", (2, 3))],
            [info("y", None)],
            consts,
        )
        if op in ("QuantizeLinear",):
            model.graph.output[0].type.tensor_type.elem_type = T.INT8 if "z" in consts else T.UINT8
        yield Case("indices and scales", name, saved(model))
        if consts and op not in ("QuantizeLinear", "BatchNormalization"):
            yield Case("indices and scales", f"{name}, all constant", saved(_constant(model)))
    for dtype, name in ((np.int32, "32"), (np.int64, "64")):
        low = np.array([np.iinfo(dtype).min], dtype)
        consts = {"a": low, "b": np.array([-1], dtype), "z": np.array([0], dtype)}
        for op, ins in (
            ("Div", "a b"),
            ("Div", "a z"),
            ("Mod", "a b"),
            ("Mod", "a z"),
            ("Abs", "a"),
            ("Neg", "a"),
        ):
            dt = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            model = net(
                [node(op, ins, "q"), node("Add", "q x", "y")],
                [info("x", (1,), dt)],
                [info("y", None, dt)],
                consts,
            )
            yield Case("indices and scales", f"{op} {ins} of {name} bits, constant", saved(model))


def _constant(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same with x a constant, so that it is folded."""
    from onnx import numpy_helper

    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.input[:]
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    changed.graph.initializer.append(numpy_helper.from_array(data, "x"))
    return changed
