# SPDX-License-Identifier: Apache-2.0
"""Inputs of `verify`, raw layouts, archives of objects, progress."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from aot.cli.progress import Progress
from aot.errors import AotError
from aot.tools.layerwise import stored_array as plain
from aot.tools.run import Spec
from aot.tools.samples import index_limits, random_sample, read_samples
from graphs import model

INPUTS = (Spec("x/a", (2,), "float32"), Spec("n", (), "int64"))
OUTPUTS = (Spec("y", (2,), "float32"),)


def test_seeded_inputs_repeat_and_respect_dtypes() -> None:
    specs = [Spec(t, (50,), t) for t in ("float32", "float16", "bool", "uint8", "int64", "float64")]
    specs.append(Spec("b", (3,), "bfloat16"))
    first, second = random_sample(specs, None), random_sample(specs, None)
    for spec, a, b in zip(specs, first.inputs, second.inputs, strict=True):
        assert a.dtype == spec.array_dtype and a.shape == spec.shape
        assert a.tobytes() == b.tobytes()
    assert np.abs(first.inputs[0]).max() <= 1 and set(first.inputs[4]) <= {0, 1}


def test_indices_are_valid_for_the_table_they_index() -> None:
    table = np.zeros((1000, 4), np.float32)
    proto = model(
        [("Unsqueeze", "ids axes", "u"), ("Gather", "table u", "y"), ("Gather", "small ids", "z")],
        {"ids": [8]},
        {"y": None, "z": None},
        {"table": table, "small": table[:7], "axes": np.array([0])},
        dtypes={"ids": TensorProto.INT64},
    )
    assert index_limits(proto.graph) == {"ids": 7}
    rows = [("Concat", "a b", "c", {"axis": 0}), ("GatherElements", "table c", "y", {"axis": 1})]
    shapes, kinds = {"a": [8, 4], "b": [2, 4]}, dict.fromkeys("ab", TensorProto.INT64)
    joined = model(rows, shapes, {"y": None}, {"table": table}, dtypes=kinds)
    assert index_limits(joined.graph) == {"a": 4, "b": 4}
    sample = random_sample([Spec("ids", (500,), "int64")], proto.graph)
    assert 2 < sample.inputs[0].max() < 7 and sample.inputs[0].min() >= 0


def test_indices_that_movers_carry_are_valid_where_they_are_read() -> None:
    """Through a Concat and a Cast to the elements of an input that is no constant."""
    proto = model(
        [
            ("Concat", "ids more", "all", {"axis": 1}),
            ("Cast", "all", "wide", {"to": TensorProto.INT64}),
            ("GatherElements", "x wide", "y", {"axis": 1}),
        ],
        {"ids": [2, 3], "more": [2, 1], "x": [2, 9]},
        {"y": None},
        dtypes={"ids": TensorProto.INT32, "more": TensorProto.INT32},
    )
    assert index_limits(proto.graph) == {"ids": 9, "more": 9}


def test_sample_keys(tmp_path: Path) -> None:
    x, n = np.ones(2, np.float32), np.array(3)
    file = tmp_path / "f.npz"
    for arrays in (
        {"x/a": x, "n": n, "y": x},
        {"s0/x/a": x, "s0/n": n, "s0/y": x},
        {"s4_in0": x, "s4_in1": n, "s4_out0": x},
    ):
        np.savez(file, **arrays)
        (sample,) = read_samples(file, INPUTS, OUTPUTS)
        assert [a.tolist() for a in sample.inputs] == [[1, 1], 3]
        assert list(sample.expected) == ["y"]


@pytest.mark.parametrize("tflite", [False, True])
def test_outputs_by_order_are_those_of_the_arithmetic(tflite: bool, tmp_path: Path) -> None:
    x, n = np.ones(2, np.float32), np.array(3)
    arrays = {"s0_in0": x, "s0_in1": n, "s0_out0": x, "s0_tflite_out0": 2 * x}
    np.savez(tmp_path / "f.npz", **arrays)
    (sample,) = read_samples(tmp_path / "f.npz", INPUTS, OUTPUTS, tflite=tflite)
    assert sample.expected["y"].tolist() == ([2, 2] if tflite else [1, 1])


def test_sample_errors(tmp_path: Path) -> None:
    file = tmp_path / "f.npz"
    x = np.ones(2, np.float32)
    for arrays, says in (
        ({"q": x}, "no key names an input"),
        ({"s1/x/a": x}, "input 'n' is missing"),
        ({"x/a": x, "n": np.float32(1)}, "int64"),
    ):
        np.savez(file, **arrays)
        with pytest.raises(AotError, match=says):
            read_samples(file, INPUTS, OUTPUTS)


@pytest.mark.parametrize("channels", [3, 4, 5, 8])
def test_blocked_storage_reads_back(channels: int) -> None:
    spec = Spec("t", (2, channels, 3, 2), "float32")
    array = np.arange(2 * channels * 6, dtype=np.float32).reshape(spec.shape)
    blocks = -(-channels // 4)
    padded = np.full((2, blocks * 4, 3, 2), np.nan, np.float32)
    padded[:, :channels] = array
    stored = padded.reshape(2, blocks, 4, 3, 2).transpose(0, 1, 3, 4, 2)
    np.testing.assert_array_equal(plain(stored.tobytes(), spec, "NC4"), array)
    np.testing.assert_array_equal(plain(array.tobytes(), spec, "plain"), array)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_appears_after_a_second_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for wait, seen in ((0.0, False), (1.6, True)):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        with Progress() as progress:
            progress("load")
            time.sleep(wait)
        assert ("load" in terminal.getvalue()) == seen
        assert terminal.getvalue().endswith("\x1b[2K") == seen  # the bar is gone


def test_progress_is_silent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for verbose, quiet, lines in ((False, False, 0), (True, False, 2), (True, True, 0)):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress(verbose, quiet) as progress:
            progress("load")
            progress("plan")
        assert len(stream.getvalue().splitlines()) == lines


def test_arrays_in_another_order_of_bytes_are_read_as_what_they_are(tmp_path: Path) -> None:
    x, n = np.array([1.5, -2], np.float32), np.array(258)
    np.savez(tmp_path / "f.npz", **{"x/a": x.astype(">f4"), "n": n.astype(">i8")})
    (sample,) = read_samples(tmp_path / "f.npz", INPUTS, OUTPUTS)
    for array, wanted in zip(sample.inputs, (x, n), strict=True):
        assert array.dtype.isnative and np.array_equal(array, wanted)
