# SPDX-License-Identifier: Apache-2.0
"""Numbers to which ONNX gives no meaning, and such as no kernel can hold: a message has them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aot.emit_c import ctext
from aot.errors import AotError
from aot.ir.dtypes import F8E4M3FN
from aot.options import Options
from aot.pipeline import compile_model

BIG = 1 << 40


def one(
    op: str,
    shapes: list[list[int]],
    consts: dict[int, np.ndarray] | None = None,
    kind: int = TensorProto.FLOAT,
    result: int | None = None,
    **attrs: object,
) -> onnx.ModelProto:
    """A model of one node; `consts` by the number of the input."""
    held = consts or {}
    names = [f"x{i}" for i in range(len(shapes) + len(held))]
    rest = iter(shapes)
    inputs = [
        helper.make_tensor_value_info(n, kind, next(rest))
        for i, n in enumerate(names)
        if i not in held
    ]
    y = helper.make_tensor_value_info("y", kind if result is None else result, None)
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attrs)],
        "g",
        inputs,
        [y],
        [numpy_helper.from_array(a, f"x{i}") for i, a in held.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", onnx.defs.onnx_opset_version())]
    )


QKV = [[1, 2, 4, 8]] * 3
CELL = [[5, 1, 3], [1, 2, 3], [1, 2, 2]]
FLOAT8 = np.ones((), F8E4M3FN.numpy)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (one("CumSum", [[2, 3]], {1: np.array(1)}, reverse=BIG), f"reverse {BIG} (needs 0 or 1)"),
        (one("Mod", [[3], [3]], fmod=-1), "fmod -1 (needs 0 or 1)"),
        (one("RNN", CELL, hidden_size=2, clip=-1.0), "clip -1.0 (needs more than 0)"),
        (one("RNN", CELL, hidden_size=2, clip=float("nan")), "clip nan (needs more than 0)"),
        (one("ReduceMax", [[3, 2]], keepdims=2), "keepdims 2 (needs 0 or 1)"),
        (
            one(
                "MaxUnpool", [[1, 1, 2]], {1: np.array([[[0, -1]]])}, kernel_shape=[2], strides=[2]
            ),
            "index [-1] (needs 0 to 3)",
        ),
        (
            one("QuantizeLinear", [[3], []], {2: FLOAT8}, result=TensorProto.FLOAT8E4M3FN),
            "a zero point of float8e4m3fn other than 0",
        ),
        (
            one("ReduceMean", [[0, 2]], {1: np.array([0])}, TensorProto.INT32),
            "the mean of no integers, of [0, 2]",
        ),
    ],
)
def test_a_message_has_the_number(model: onnx.ModelProto, says: str) -> None:
    with pytest.raises(AotError) as caught:
        compile_model(model, Options(name="n"))
    assert says in str(caught.value)


def test_windows_beyond_the_keys_are_no_windows() -> None:
    """They were cut to 32 bits."""
    for size in (1 << 31, (1 << 63) - 1):
        compiled = compile_model(one("Attention", QKV, left_window_size=size), Options(name="n"))
        fields = dict(compiled.program.calls[0].params.fields)  # type: ignore[union-attr]
        assert 0 < fields["left"] < 100


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (2**31 - 1, "int32_t", True),
        (2**31, "int32_t", False),
        (-(2**31), "int32_t", True),
        ((1, -(2**31) - 1), "int32_t", False),
        (2**31, "uint32_t", True),
        (-1, "uint32_t", False),
        (2**63, "int64_t", False),
        (1e30, "float", True),
    ],
)
def test_integers_fit_their_fields(value: int, kind: str, fits: bool) -> None:
    assert ctext.fits(value, kind) is fits


@pytest.mark.parametrize(
    ("op", "names", "reason"),
    [
        ("CumSum", ["x", "n"], "the axis is computed at run time"),
        ("DFT", ["x", "", "n"], "the axis is computed at run time"),
        ("Dropout", ["x", "half", "flag"], "training_mode is computed at run time"),
    ],
)
def test_what_a_run_decides_is_named(op: str, names: list[str], reason: str) -> None:
    """Of DFT and Dropout nothing was said but "no backend has this operator"."""
    node = helper.make_node(op, names, ["y"])
    info = helper.make_tensor_value_info
    ends = [info("x", TensorProto.FLOAT, [2, 6, 1])]
    ends += [info("n", TensorProto.INT64, [])] if "n" in names else []
    ends += [info("flag", TensorProto.BOOL, [])] if "flag" in names else []
    half = numpy_helper.from_array(np.float32(0.5), "half")
    outs = [info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "g", ends, outs, [half])
    opset = [helper.make_opsetid("", 21)]
    with pytest.raises(AotError) as caught:
        compile_model(helper.make_model(graph, opset_imports=opset, ir_version=10), Options())
    assert reason in str(caught.value)
