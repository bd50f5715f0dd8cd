# SPDX-License-Identifier: Apache-2.0
"""NAME_quantize_input and NAME_dequantize_output, by several compilers, against NumPy."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from graphs import model
from needs import need

#: Name in the model: type, scales, zero points, axis of the shape (2, 3).
ENDS = {
    "x": ("uint8", np.float32([0.0235]), [3], None),
    "v": ("int8", np.float32([0.5, 0.25, 2.0]), [1, 0, -2], 1),
    "w": ("int16", np.float32([0.001]), [-5], None),
}
USE = """
#include "net.h"
int quantize(int index, const float *numbers, void *quantised);
int dequantize(int index, const void *quantised, float *numbers);
int quantize(int index, const float *numbers, void *quantised) {
    return (int)net_quantize_input(index, numbers, quantised);
}
int dequantize(int index, const void *quantised, float *numbers) {
    return (int)net_dequantize_output(index, quantised, numbers);
}
"""
COMPILERS = {
    "gcc": (
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Wdouble-promotion",
        "-Werror",
        "-ffp-contract=off",
    ),
    "clang": ("-Wall", "-Wextra", "-Wconversion", "-Werror"),
    "g++": ("-std=c++11", "-x", "c++", "-Wall", "-Wextra", "-Werror"),
    "tcc": (),
}


def network() -> onnx.ModelProto:
    """The inputs of ENDS pass through to outputs y0, y1, y2 of the same parameters."""
    rows, constants = [], {}
    for i, (name, (kind, scales, zeros, axis)) in enumerate(ENDS.items()):
        shape = () if axis is None else (3,)
        constants[f"s{i}"] = scales.reshape(shape)
        constants[f"z{i}"] = np.array(zeros, kind).reshape(shape)
        attributes = {"axis": 1}
        rows.append(("DequantizeLinear", f"{name} s{i} z{i}", f"a{i}", attributes))
        rows.append(("Relu", f"a{i}", f"b{i}"))
        rows.append(("QuantizeLinear", f"b{i} s{i} z{i}", f"y{i}", attributes))
    kinds = [np.dtype(kind) for kind, *_ in ENDS.values()]
    dtypes = {
        name: onnx.helper.np_dtype_to_tensor_dtype(kind)
        for names in (ENDS, ("y0", "y1", "y2"))
        for name, kind in zip(names, kinds, strict=True)
    }
    ends = dict.fromkeys(ENDS, (2, 3))
    return model(rows, ends, dict.fromkeys(("y0", "y1", "y2")), constants, dtypes=dtypes, opset=21)


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ends")
    aot.compile(network(), out, name="net", target="x86-64", configure=False)
    return out / "bundle" / "include"


def numbers(index: int, scales: np.ndarray, zeros: list[int]) -> np.ndarray:
    """Rows of (2, 3): random ones, halves between two quantised values, limits, no numbers."""
    rng = np.random.default_rng(index)
    units = rng.uniform(-400, 400, (40, 2, 3)).astype(np.float32)
    units[10:20] = np.round(units[10:20]) + np.float32(0.5)
    found = units * scales
    found[0] = [[np.nan, np.inf, -np.inf], [np.nan, 3e38, -3e38]]
    found[1] = [[0.0, -0.0, 1e-40], [-1e-40, 1.0, -1.0]]
    return found.astype(np.float32)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_values_are_those_of_onnx(compiler: str, headers: Path, tmp_path: Path) -> None:
    source, library = tmp_path / "use.c", tmp_path / f"{compiler}.so"
    text = f'extern "C" {{{USE}}}' if compiler == "g++" else USE
    source.write_text(text)
    standard = () if compiler == "g++" else ("-std=c99", "-pedantic")
    words = [need(compiler), *standard, *COMPILERS[compiler], "-O1", "-fPIC", "-shared"]
    subprocess.run([*words, f"-I{headers}", "-o", library, source], check=True)
    calls = ctypes.CDLL(str(library))
    calls.quantize.argtypes = calls.dequantize.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 2]
    for index, (kind, scales, zeros, _) in enumerate(ENDS.values()):
        limits = np.iinfo(kind)
        for block in numbers(index, scales, zeros):
            got = np.zeros((2, 3), kind)
            assert calls.quantize(index, block.ctypes.data, got.ctypes.data) == 0
            with np.errstate(over="ignore"):
                units = np.rint(block / scales).astype(np.float64) + np.float64(zeros)
            wanted = np.clip(np.where(np.isnan(units), zeros, units), limits.min, limits.max)
            np.testing.assert_array_equal(got, wanted.astype(kind))
            back = np.zeros((2, 3), np.float32)
            assert calls.dequantize(index, got.ctypes.data, back.ctypes.data) == 0
            steps = got.astype(np.int32) - np.int32(zeros)
            np.testing.assert_array_equal(back, steps.astype(np.float32) * scales)
    nothing = ctypes.create_string_buffer(64)
    assert calls.quantize(3, nothing, nothing) == calls.dequantize(-1, nothing, nothing) == 17


def test_a_model_of_floats_has_no_such_functions(tmp_path: Path) -> None:
    proto = model([("Relu", "x", "y")], {"x": (2, 3)}, {"y": None})
    aot.compile(proto, tmp_path, name="net", target="x86-64", configure=False)
    include = tmp_path / "bundle" / "include"
    assert not (include / "aot" / "quantize.h").exists()
    assert "quantize" not in (include / "net.h").read_text()
