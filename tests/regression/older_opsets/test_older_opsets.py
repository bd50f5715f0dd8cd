# SPDX-License-Identifier: Apache-2.0
"""Operators that meant something else in older opsets, where onnx's converter loses it.

Hardmax worked along one axis though its input was a matrix up to opset 12; the nearest Resize of
opset 10 rounded down where it shrank; masks of Dropout, operands named by an axis and numbers for
every element (spatial=0) were refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T, helper, numpy_helper

import aot
from aot.errors import AotError, ModelError, UnsupportedError

Array = np.ndarray[Any, Any]
X = np.random.default_rng(0).integers(-2, 3, (2, 3, 4, 5)).astype(np.float32)
NODE = helper.make_node


def info(name: str, shape: Sequence[int] | None, kind: int = T.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: list[onnx.NodeProto],
    outs: list[str],
    opset: int,
    consts: dict[str, Array] | None = None,
    shape: Sequence[int | str] = X.shape,
    more: Sequence[onnx.ValueInfoProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(v, k) for k, v in (consts or {}).items()]
    ends = [helper.make_tensor_value_info("x", T.FLOAT, shape), *more]
    graph = helper.make_graph(nodes, "g", ends, [info(o, None) for o in outs], tensors)
    imports = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(f.domain, 1) for f in functions),
    ]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=list(functions))


def wanted(built: onnx.ModelProto, **feed: Array) -> list[Array]:
    """What onnxruntime computes of the model as it is."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        built.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(v) for v in session.run(None, feed)]


def computed(built: onnx.ModelProto, folder: Path, dims: Any = None, **feed: Array) -> list[Array]:
    loaded = aot.compile(built, folder, name="n", **({"dims": dims} if dims else {})).load()
    found = loaded(**feed)
    return [np.asarray(v) for v in (found if isinstance(found, tuple) else (found,))]


def agree(built: onnx.ModelProto, folder: Path, **feed: Array) -> None:
    for got, want in zip(computed(built, folder, **feed), wanted(built, **feed), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("opset", "axes"), [(1, [0, 1, 2, 3]), (11, [0, 1, 2, 3, -1, -2, -4])])
def test_hardmax_of_a_matrix(opset: int, axes: list[int], tmp_path: Path) -> None:
    nodes = [NODE("Hardmax", ["x"], [f"y{i}"], axis=a) for i, a in enumerate(axes)]
    nodes.append(NODE("Hardmax", ["x"], ["y"]))
    nodes.append(NODE("Hardmax", ["k"], ["z"], axis=2))
    outs = [n.output[0] for n in nodes]
    agree(model(nodes, outs, opset, {"k": X[:, ::-1].copy()}), tmp_path, x=X)


def hardmax(kind: str) -> onnx.ModelProto:
    """A Hardmax of opset 11 within something else."""
    inner = NODE("Hardmax", ["x"], ["h"], axis=1)
    if kind == "function":
        imports = [helper.make_opsetid("", 11)]
        function = helper.make_function("own", "F", ["x"], ["h"], [inner], imports)
        call = NODE("F", ["x"], ["y"], domain="own")
        return model([call], ["y"], 11, functions=[function])
    if kind == "If":
        branches = [
            helper.make_graph([inner, NODE(op, ["h"], ["r"])], op, [], [info("r", None)])
            for op in ("Neg", "Abs")
        ]
        both = NODE("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
        return model([both], ["y"], 11, more=[info("c", [], T.BOOL)])
    steps = NODE("Hardmax", ["s"], ["h"], axis=1)
    body = helper.make_graph(
        [steps, NODE("Add", ["s", "x"], ["t"]), NODE("Identity", ["c"], ["d"])],
        "body",
        [info("i", [], T.INT64), info("c", [], T.BOOL), info("s", X.shape)],
        [info("d", [], T.BOOL), info("t", X.shape), info("h", X.shape)],
    )
    loop = NODE("Loop", ["m", "", "x"], ["z", "y"], body=body)
    return model([loop], ["z", "y"], 11, {"m": np.array(80)})


@pytest.mark.parametrize("kind", ["function", "If", "Loop"])
def test_hardmax_of_a_matrix_within(kind: str, tmp_path: Path) -> None:
    feed = {"x": X, **({"c": np.array(True)} if kind == "If" else {})}
    agree(hardmax(kind), tmp_path, **feed)


def test_hardmax_of_a_matrix_partitioned(tmp_path: Path) -> None:
    """What `aotc partition` writes is ONNX of today and means the same."""
    from aot.cli import main

    built = model([NODE("Hardmax", ["x"], ["y"], axis=1)], ["y"], 11)
    onnx.save(built, tmp_path / "m.onnx")
    assert main(["partition", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "p.onnx")]) == 0
    (got,) = wanted(onnx.load(tmp_path / "p.onnx"), x=X)
    np.testing.assert_array_equal(got, wanted(built, x=X)[0])


@pytest.mark.parametrize("axis", [0, 2])
def test_hardmax_of_a_matrix_of_any_size(axis: int, tmp_path: Path) -> None:
    built = model([NODE("Hardmax", ["x"], ["y"], axis=axis)], ["y"], 11, shape=["N", 3, 4, 5])
    (got,) = computed(built, tmp_path, {"N": (1, 4)}, x=X)
    np.testing.assert_array_equal(got, wanted(built, x=X)[0])


SCALES = [(0.6, 0.6), (0.7, 1.7), (2.3, 0.3), (1.0, 0.5), (1.5, 1.0), (0.9, 0.8), (2.0, 3.0)]


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_of_opset_10(mode: str, tmp_path: Path) -> None:
    nodes, consts = [], {}
    for i, (high, wide) in enumerate(SCALES):
        consts[f"s{i}"] = np.array([1, 1, high, wide], np.float32)
        nodes.append(NODE("Resize", ["x", f"s{i}"], [f"y{i}"], mode=mode))
    x = np.arange(2 * 11 * 13, dtype=np.float32).reshape(1, 2, 11, 13)
    outs = [n.output[0] for n in nodes]
    agree(model(nodes, outs, 10, consts, x.shape), tmp_path, x=x)


def test_the_node_test_of_opset_10(tmp_path: Path) -> None:
    node = NODE("Resize", ["x", "s"], ["y"], mode="nearest")
    scales = {"s": np.array([1, 1, 0.6, 0.6], np.float32)}
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    (got,) = computed(model([node], ["y"], 10, scales, x.shape), tmp_path, x=x)
    assert got.tolist() == [[[[1, 3]]]]


def test_scales_that_are_computed(tmp_path: Path) -> None:
    """Whether a Resize of opset 10 shrinks is known only after its scales have been folded."""
    nodes = [
        NODE("Mul", ["s", "half"], ["h"]),
        NODE("Resize", ["x", "h"], ["y"], mode="nearest"),
    ]
    scales = np.array([2, 2, 1.3, 3.4], np.float32)
    consts = {"s": scales, "half": np.full(1, 0.5, np.float32)}
    x = np.arange(2 * 11 * 13, dtype=np.float32).reshape(1, 2, 11, 13)
    agree(model(nodes, ["y"], 10, consts, x.shape), tmp_path, x=x)


@pytest.mark.parametrize("opset", [1, 6])
def test_operands_that_line_up_with_an_axis(opset: int, tmp_path: Path) -> None:
    """Not run by onnxruntime: NumPy says what is meant."""
    rng = np.random.default_rng(1)
    b, c = (rng.uniform(1, 2, s).astype(np.float32) for s in ((3,), (3, 4)))
    wide = {"b": b[:, None, None], "c": c[:, :, None]}
    ufuncs = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
    nodes = [
        NODE(op, ["x", k], [f"{op}_{k}"], broadcast=1, axis=1) for op in ufuncs for k in ("b", "c")
    ]
    nodes.append(NODE("Add", ["x", "b"], ["last"], broadcast=1, axis=-3))
    outs = [n.output[0] for n in nodes]
    want = [f(X, wide[k]) for f in ufuncs.values() for k in ("b", "c")] + [X + wide["b"]]
    got = computed(model(nodes, outs, opset, {"b": b, "c": c}), tmp_path, x=X)
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.parametrize("opset", [7, 9])
def test_masks_of_the_type_of_their_input(opset: int, tmp_path: Path) -> None:
    nodes = [NODE("Dropout", ["x"], ["y", "k"]), NODE("Mul", ["k", "x"], ["z"])]
    y, k, z = computed(model(nodes, ["y", "k", "z"], opset), tmp_path, x=X)
    assert k.dtype == np.float32 and (k == 1).all()
    assert (y == X).all() and (z == X).all()


@pytest.mark.parametrize("opset", [7, 8])
def test_numbers_for_every_element(opset: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    consts = {k: rng.uniform(0.5, 2, X.shape[1:]).astype(np.float32) for k in "sbmv"}
    node = NODE("BatchNormalization", ["x", *consts], ["y"], spatial=0, epsilon=0.01)
    agree(model([node], ["y"], opset, consts), tmp_path, x=X)


def test_nodes_of_inference_that_do_not_say_so(tmp_path: Path) -> None:
    consts = {k: np.full(3, 0.75, np.float32) for k in "sbmv"}
    nodes = [
        NODE("Dropout", ["x"], ["d"]),
        NODE("BatchNormalization", ["d", *"sbmv"], ["y"], epsilon=0.0),
    ]
    (got,) = computed(model(nodes, ["y"], 6, consts), tmp_path, x=X)
    np.testing.assert_allclose(got, (X - 0.75) / np.sqrt(0.75) * 0.75 + 0.75, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("node", "opset", "kind", "part"),
    [
        (NODE("Dropout", ["x"], ["y", "k"]), 6, UnsupportedError, "outputs of training"),
        (
            NODE("BatchNormalization", ["x", *"sbmv"], ["y"], is_test=1, spatial=0),
            6,
            UnsupportedError,
            "spatial 0 before opset 7",
        ),
        (NODE("Greater", ["x", "x"], ["y"]), 6, ModelError, "no rule for Greater"),
        (NODE("Tile", ["x", "s", "b"], ["y"]), 5, ModelError, "no rule for Tile"),
    ],
)
def test_what_is_refused(
    node: onnx.NodeProto, opset: int, kind: type[AotError], part: str, tmp_path: Path
) -> None:
    consts = {k: np.ones(X.shape[1:], np.float32) for k in "sbmv"}
    if node.op_type == "Tile":
        consts = {k: np.ones((), np.float32) for k in "sb"}
    with pytest.raises(kind) as caught:
        aot.compile(model([node], ["y"], opset, consts), tmp_path, name="n")
    assert part in str(caught.value)
