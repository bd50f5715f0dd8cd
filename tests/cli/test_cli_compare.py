# SPDX-License-Identifier: Apache-2.0
"""The comparison of `verify`: tolerances by dtype, special values, ULP, cosine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from aot.tools.compare import Tolerance, compare
from aot.tools.verify import _narrow
from graphs import model

F = np.float32


def f32(*values: float) -> np.ndarray:
    return np.array(values, F)


def test_equal_arrays() -> None:
    d = compare("y", f32(1, -2, 0), f32(1, -2, -0.0), "float32")
    assert (d.passed, d.max_abs, d.max_ulp) == (True, 0.0, 0)
    assert d.cosine == pytest.approx(1.0)


def test_float32_tolerance_is_relative_of_max_and_absolute() -> None:
    reference = f32(100.0, 0.0)
    assert compare("y", f32(100.1, 0.01), reference, "float32").passed
    assert not compare("y", f32(100.2, 0.0), reference, "float32").passed
    wrong = compare("y", f32(100.0, 0.011), reference, "float32")
    assert not wrong.passed
    assert "at [1]: 0.01" in wrong.text()


def test_options_replace_the_tolerance() -> None:
    loose = Tolerance(rtol=0.5, of_max=0.0)
    assert compare("y", f32(1.4), f32(1.0), "float32", loose).passed
    assert compare("y", f32(100.9), f32(100.0), "float32", accuracy="fast").passed


@pytest.mark.parametrize("ours, theirs", [(np.nan, 1.0), (1.0, np.nan), (np.inf, 1e30)])
def test_special_values_must_be_the_same(ours: float, theirs: float) -> None:
    assert not compare("y", f32(ours), f32(theirs), "float32").passed
    assert compare("y", f32(ours), f32(ours), "float32").passed
    assert not compare("y", f32(np.inf), f32(-np.inf), "float32").passed


def test_integers_are_exact_unless_lsb() -> None:
    a, b = np.array([1, 2, 3], np.int8), np.array([1, 2, 4], np.int8)
    assert not compare("y", a, b, "int8").passed
    assert compare("y", a, b, "int8", Tolerance(lsb=1)).passed
    assert not compare("y", a, b + 1, "int8", Tolerance(lsb=1)).passed


def test_integers_beyond_float64() -> None:
    a = np.array([2**62], np.int64)
    assert not compare("y", a, a + 1, "int64").passed
    assert not compare("y", a, a + 1, "int64", Tolerance(lsb=0)).passed


def test_booleans_shapes_and_dtypes() -> None:
    yes, no = np.array([True]), np.array([False])
    assert not compare("y", yes, no, "bool").passed
    assert "shape [1]" in compare("y", f32(1), f32(1, 2), "float32").reason
    assert "dtype float64" in compare("y", np.ones(1), f32(1), "float32").reason


def test_ulp_counts_representable_numbers() -> None:
    one = f32(1.0)
    assert compare("y", np.nextafter(one, F(2)), one, "float32").max_ulp == 1
    tiny = np.nextafter(F(0), F(1))
    assert compare("y", f32(tiny), f32(-tiny), "float32").max_ulp == 2


def test_bfloat16_bits() -> None:
    one, next_one = np.array([0x3F80], np.uint16), np.array([0x3F82], np.uint16)
    assert compare("y", one, next_one, "bfloat16").passed
    assert not compare("y", one, np.array([0x3F90], np.uint16), "bfloat16").passed


def test_float64_is_tight_and_empty_is_equal() -> None:
    assert not compare("y", np.array([1 + 1e-6]), np.array([1.0]), "float64").passed
    assert compare("y", np.zeros((0, 3), F), np.zeros((0, 3), F), "float32").passed


def test_a_narrower_float_that_is_only_stored_wider(tmp_path: Path) -> None:
    """Cast to float64 as the last node: the tolerance is that of what was computed."""
    nodes = [
        ("Exp", "x", "e"),
        ("Cast", "e", "y", {"to": 11}),
        ("Cast", "x", "w", {"to": 11}),
        ("Exp", "w", "z"),
    ]
    proto = model(nodes, {"x": (2,)}, {"y": (2,), "z": (2,)})
    for output in proto.graph.output:
        output.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    onnx.save(proto, tmp_path / "m.onnx")
    assert _narrow(tmp_path / "m.onnx", proto.graph) == {"y": "float32"}
    like = Tolerance().like("float32")
    assert like.bounds("float64")[:2] == Tolerance().bounds("float32")[:2]
    assert Tolerance(rtol=1e-9).like("float32").bounds("float64")[0] == 1e-9
