# SPDX-License-Identifier: Apache-2.0
"""The gate of quantised models: what it compares, what it puts back, what it lets pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from aot.ir.layout import PLAIN, Layout
from aot.tools.compare import Tolerance, compare
from aot.tools.layerwise import (
    Layers,
    Written,
    chained,
    differences,
    is_quantised,
    known,
    place,
    written,
)

S8 = np.int8


def node(op: str, value: str, dtype: str = "int8", **more: object) -> dict:
    wrote = {"value": value, "shape": [1, 2, 1, 2], "dtype": dtype, "layout": "plain", "last": True}
    return {"op": op, "writes": [{**wrote, **more}]}


def test_quantised_is_what_quantises() -> None:
    assert is_quantised({"nodes": [node("DequantizeLinear + Conv + QuantizeLinear", "a")]})
    assert is_quantised({"nodes": [node("DynamicQuantizeLinear", "a", "uint8")]})
    assert not is_quantised({"nodes": [node("DequantizeLinear + Conv", "a", "float32")]})


def test_values_of_another_type_or_shape_are_not_compared() -> None:
    manifest = {"nodes": [node("Conv", "a"), node("Conv", "b"), node("Conv", "c", last=False)]}
    theirs = {"a": np.zeros((1, 2, 1, 2), S8), "b": np.zeros((1, 2, 1, 2), np.float32)}
    assert [w.value for w in known(written(manifest), theirs).values()] == ["a"]


def test_unsigned_quantised_values_are_stored_128_lower_and_channels_last(tmp_path: Path) -> None:
    w = Written("a", (1, 2, 1, 2), "int8", Layout(2), 128)
    theirs = np.array([[[[0, 1]], [[254, 255]]]], np.uint8)
    place(tmp_path, {(4, 0): w}, {"a": theirs})
    stored = np.frombuffer((tmp_path / "r4_0.bin").read_bytes(), S8)
    assert stored.tolist() == [-128, 126, -127, 127]
    assert np.array_equal(w.of_model((theirs.astype(np.int32) - 128).astype(S8)), theirs)


def compared(folder: Path, w: Written, ours: np.ndarray, theirs: np.ndarray) -> Layers:
    (folder / "0_0.bin").write_bytes(ours.tobytes())
    entry = {"call": 0, "k": 0, "file": "0_0.bin"}
    (folder / "index.jsonl").write_text(json.dumps(entry) + "\n")
    floats = lambda spec, a, b: compare(spec.value, a, b, spec.dtype, Tolerance())  # noqa: E731
    return differences(folder, {(0, 0): w}, {"a": theirs}, floats)


@pytest.mark.parametrize("op, off, passes", [("Conv", 1, True), ("Conv", 2, False)])
def test_quantised_values_may_differ_by_one(
    tmp_path: Path, op: str, off: int, passes: bool
) -> None:
    w = Written("a", (4,), "int8", PLAIN, 0)
    found = compared(tmp_path, w, np.array([1, 2, 3, 4 + off], S8), np.array([1, 2, 3, 4], S8))
    assert (found.quantised, found.equal) == (4, 3)
    assert [d.passed for d in found.differences] == [passes]


def test_two_roundings_in_one_call_may_differ_by_three() -> None:
    once, twice = (
        "Conv + QuantizeLinear",
        "QuantizeLinear + DequantizeLinear + Add + QuantizeLinear",
    )
    found = written({"nodes": [node(once, "a"), node(twice, "b")]})
    assert [w.lsb for w in found.values()] == [1, 3]


def test_integers_that_are_no_quantised_values_are_exact(tmp_path: Path) -> None:
    w = Written("a", (2,), "int64", PLAIN, 0)
    found = compared(tmp_path, w, np.array([1, 2]), np.array([1, 3]))
    assert not found.differences[0].passed and found.quantised == 0


def two_sums(path: Path) -> None:
    """y = q(q(x + x) + x): with a scale of half a code the first sum has ties everywhere."""
    consts = {"one": np.float32(1), "two": np.float32(2), "zero": S8(0)}
    rows = (
        ("DequantizeLinear", "x one zero", "a"),
        ("Mul", "a half", "b"),
        ("QuantizeLinear", "b one zero", "c"),
        ("DequantizeLinear", "c one zero", "d"),
        ("Add", "d a", "e"),
        ("QuantizeLinear", "e two zero", "y"),
    )
    consts["half"] = np.float32(0.5)
    nodes = [helper.make_node(op, i.split(), [o]) for op, i, o in rows]
    info = [helper.make_tensor_value_info(n, TensorProto.INT8, [3, 5]) for n in "xy"]
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in consts.items()]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], tensors)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))


def aotc(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aot", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_layer_that_is_wrong_is_found_and_named(tmp_path: Path) -> None:
    two_sums(tmp_path / "m.onnx")
    out = tmp_path / "out"
    assert aotc(tmp_path / "m.onnx", "-o", out, "-q").returncode == 0
    subprocess.run(["cmake", "--build", out], check=True, capture_output=True)
    good = aotc("verify", out, "--reference", "onnx")
    assert good.returncode == 0, good.stdout + good.stderr
    assert "layer by layer: 2 of 2 values agree, 30 of 30 quantised values are equal" in good.stdout
    # The table of the first layer, one entry moved by three: the second layer is fed the right one.
    source = next((out / "bundle" / "src" / "kernels").glob("aot_qtable.h"))
    text = source.read_text()
    broken = text.replace("entry[from[i]];", "(uint8_t)(entry[from[i]] + (i == 7 ? 3U : 0U));")
    assert broken != text
    source.write_text(broken)
    subprocess.run(["cmake", "--build", out], check=True, capture_output=True)
    bad = aotc("verify", out, "--reference", "onnx")
    assert bad.returncode == 1
    assert (
        "1 of 2 values agree, 29 of 30 quantised values" in bad.stdout
        and "c: max abs 3" in bad.stdout
    )


def test_quantised_values_of_several_layers_are_gated_by_distance_or_correlation() -> None:
    theirs = np.arange(-20, 20, dtype=S8)
    few, all_of_them = theirs.copy(), (theirs + 1).astype(S8)
    few[[3, 17]] += np.array([3, -4], S8)
    scattered = chained(compare("y", few, theirs, "int8", Tolerance(lsb=1)), few, theirs)
    assert scattered.passed and "2 of 40 differ" in scattered.text()
    within = compare("y", all_of_them, theirs, "int8", Tolerance(lsb=1))
    assert chained(within, all_of_them, theirs) == within  # one step each is what one layer may do
    noise = (theirs + np.tile(np.array([2, -2], S8), 20)).astype(S8)
    noisy = chained(compare("y", noise, theirs, "int8", Tolerance(lsb=1)), noise, theirs)
    assert noisy.passed and "40 of 40 differ" in noisy.text()
    other = theirs[::-1].copy()
    wrong = chained(compare("y", other, theirs, "int8", Tolerance(lsb=1)), other, theirs)
    assert not wrong.passed
    assert (
        "20.00 quantised values off on average (at most 0.5) and correlation -1.000" in wrong.text()
    )
    flat = np.full(40, 7, S8)
    none = chained(compare("y", flat, theirs, "int8", Tolerance(lsb=1)), flat, theirs)
    assert not none.passed and "correlation 0.000 (at least 0.98)" in none.text()
