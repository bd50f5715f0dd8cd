# SPDX-License-Identifier: Apache-2.0
"""Data movement: what becomes a view, what must be copied, and that the plan keeps both right."""

from pathlib import Path

import numpy as np
import pytest

import graphs
from aot.errors import AotError
from aot.ir.check_program import check_program
from aot.ir.program import Program
from aot.lower.lower import lower
from aot.options import Options
from aot.pipeline import partition_model
from aot.target import Target
from aot.vendor.strided_copy import Axis, collapse, is_view


def program(model, vlen: int = 4) -> Program:
    options = Options()
    normal, partition = partition_model(model, options)
    made = lower("t", normal.graph, partition, Target("t", "t", "x86_64", vlen=vlen), options)
    check_program(made)
    return made


def kernels(made: Program) -> list[str]:
    return [c.kernel for c in made.calls]


def views(made: Program) -> list[int]:
    """Byte offsets of the views, sorted."""
    return sorted(t.view.offset for t in made.tensors.values() if t.view is not None)


def moves(made: Program) -> list[str]:
    known = ("aot_copy", "aot_strided_copy", "aot_transpose", "aot_blocked_channels")
    return [k for k in kernels(made) if k in known]


def test_contiguous_slice_is_a_view() -> None:
    text = [("Relu", "x", "a"), ("Slice", "a s e ax", "b"), ("Relu", "b", "y")]
    consts = {"s": np.array([2]), "e": np.array([5]), "ax": np.array([0])}
    made = program(graphs.model(text, {"x": (6, 8)}, {"y": (3, 8)}, consts))
    assert not moves(made)
    assert views(made) == [2 * 8 * 4]


def test_columns_are_copied() -> None:
    text = [("Relu", "x", "a"), ("Slice", "a s e ax", "b"), ("Relu", "b", "y")]
    consts = {"s": np.array([2]), "e": np.array([5]), "ax": np.array([1])}
    made = program(graphs.model(text, {"x": (6, 8)}, {"y": (6, 3)}, consts))
    assert moves(made) == ["aot_strided_copy"]


def test_parts_are_made_inside_the_whole() -> None:
    text = [
        ("Relu", "x", "a"),
        ("Tanh", "x", "b"),
        ("Concat", "a b", "c", {"axis": 0}),
        ("Sigmoid", "c", "y"),
    ]
    made = program(graphs.model(text, {"x": (3, 4)}, {"y": (6, 4)}))
    assert not moves(made)
    assert views(made) == [0, 3 * 4 * 4]


@pytest.mark.parametrize("parts", ["x a", "a a"])
def test_parts_that_cannot_be_are_copied(parts: str) -> None:
    """The caller's input stays where it is; one value cannot be in two places."""
    text = [("Relu", "x", "a"), ("Concat", parts, "c", {"axis": 0}), ("Sigmoid", "c", "y")]
    made = program(graphs.model(text, {"x": (3, 4)}, {"y": (6, 4)}))
    assert moves(made) == ["aot_copy", "aot_copy"]


def test_moving_axes_of_extent_one_is_a_view() -> None:
    text = [("Relu", "x", "a"), ("Transpose", "a", "b", {"perm": [1, 2, 0]}), ("Relu", "b", "y")]
    made = program(graphs.model(text, {"x": (1, 5, 7)}, {"y": (5, 7, 1)}))
    assert not moves(made)


def test_constant_index_out_of_range_is_an_error() -> None:
    text = [("Gather", "x i", "y")]
    model = graphs.model(text, {"x": (4, 2)}, {"y": (2, 2)}, {"i": np.array([1, 9])})
    with pytest.raises(AotError, match="index 9"):
        program(model)


def test_collapse_keeps_the_elements() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        shape = tuple(int(n) for n in rng.integers(1, 4, rng.integers(1, 6)))
        perm = rng.permutation(len(shape))
        x = np.arange(np.prod(shape)).reshape(shape)
        y = np.ascontiguousarray(x.transpose(perm))
        axes = [
            Axis(n, sy // 8, sx // 8)
            for n, sy, sx in zip(y.shape, y.strides, x.transpose(perm).strides, strict=True)
        ]
        loops = collapse(axes) or [Axis(1, 1, 1)]
        index = np.indices([a.extent for a in loops]).reshape(len(loops), -1)
        to = (index * np.array([a.y for a in loops])[:, None]).sum(0).astype(int)
        source = (index * np.array([a.x for a in loops])[:, None]).sum(0).astype(int)
        got = np.zeros(x.size, int)
        got[to] = x.ravel()[source]
        assert (got == y.ravel()).all()
        assert is_view(loops) == bool((x.ravel() == y.ravel()).all())


def test_views_survive_planning(tmp_path: Path) -> None:
    """Splits, slices and concatenations of shared values through the planner, built and run."""
    from onnx.reference import ReferenceEvaluator

    import aot.api

    text = [
        ("Relu", "x", "a"),
        ("Split", "a", "p q r", {"axis": 0, "num_outputs": 3}),
        ("Concat", "r p", "rp", {"axis": 0}),
        ("Add", "q p", "s"),
        ("Concat", "rp s", "big", {"axis": 0}),
        ("Slice", "big b e", "part"),
        ("Tanh", "part", "t"),
        ("Add", "p r", "u"),
        ("Concat", "t u", "wide", {"axis": 1}),
        ("Reshape", "wide flat", "y"),
        ("Transpose", "big", "z"),
    ]
    consts = {"b": np.array([1]), "e": np.array([3]), "flat": np.array([-1])}
    model = graphs.model(text, {"x": (6, 5)}, {"y": (20,), "z": (5, 6)}, consts)
    x = np.random.default_rng(1).standard_normal((6, 5)).astype(np.float32)
    want = ReferenceEvaluator(model).run(None, {"x": x})
    got = aot.api.compile(model, tmp_path / "out", name="views").load()(x)
    for mine, reference in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [17, 22])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_windows_behind_the_input_are_not_counted(kind: str, opset: int) -> None:
    """onnx's inference before opset 22 counts a third window, which starts in the padding."""
    attrs = {"kernel_shape": [2], "strides": [3], "pads": [0, 1], "ceil_mode": 1}
    text = [(kind, "x", "t", attrs), ("Relu", "t", "y")]
    made = program(graphs.model(text, {"x": (1, 2, 5)}, {"y": (1, 2, 2)}, opset=opset))
    assert made.tensor(made.outputs[0]).shape == (1, 2, 2)
