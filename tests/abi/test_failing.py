# SPDX-License-Identifier: Apache-2.0
"""Errors that show while a run is under way leave the outputs as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto

import aot
from abi import loader as L
from graphs import model


def outcome(out: Path, ins: list[np.ndarray], outs: list[np.ndarray]) -> int:
    """The status of a run of OUT."""
    lib = L.Library(out, "net")
    context = lib.context()
    assert lib.init_built_in(context) == L.OK
    status = lib.run(context, [L.dl(a) for a in ins], [L.dl(a) for a in outs])
    lib.shutdown(context)
    return int(status)


def texts(*rows: bytes) -> np.ndarray:
    """Strings of at most eight bytes, as a run takes them."""
    found = np.zeros((len(rows), 8), np.uint8)
    for row, text in zip(found, rows, strict=True):
        row[: len(text)] = list(text)
    return found


def test_a_string_that_becomes_too_long(tmp_path: Path) -> None:
    rows = [("Abs", "f", "a"), ("StringConcat", "s t", "u"), ("Identity", "s", "same")]
    kinds = dict.fromkeys(("s", "t", "u", "same"), TensorProto.STRING)
    ends = {"a": [4], "u": [2], "same": [2]}
    proto = model(rows, {"f": [4], "s": [2], "t": [2]}, ends, dtypes=kinds)
    out = aot.compile(proto, tmp_path / "o", name="net", max_string=8).build().out
    f, s = np.arange(-2, 2).astype(np.float32), texts(b"one", b"two")
    a, u, same = np.full(4, 7, np.float32), texts(b"?", b"?"), texts(b"?", b"?")
    before = [array.copy() for array in (a, u, same)]
    assert outcome(out, [f, s, texts(b"", b"eighty")], [a, u, same]) == L.TOO_LONG
    assert all(np.array_equal(x, y) for x, y in zip(before, (a, u, same), strict=True))
    assert outcome(out, [f, s, texts(b"", b"eight")], [a, u, same]) == L.OK
    assert np.array_equal(a, np.abs(f)) and np.array_equal(u, texts(b"one", b"twoeight"))
    assert np.array_equal(same, s)


def test_extents_that_do_not_fit(tmp_path: Path) -> None:
    rows = [("Abs", "x", "a"), ("Concat", "x x", "b", {"axis": 0}), ("Add", "b z", "y")]
    proto = model(rows, {"x": ["L"], "z": ["M"]}, {"a": ["L"], "y": None})
    ranges = {"L": (1, 4), "M": (1, 8)}
    out = aot.compile(proto, tmp_path / "o", name="net", dims=ranges).build().out
    x, z = np.arange(-2, 2).astype(np.float32), np.ones(8, np.float32)
    a, y = np.full(4, 7, np.float32), np.full(8, 7, np.float32)
    assert outcome(out, [x, z[:6]], [a, y]) == L.SHAPE
    assert (a == 7).all() and (y == 7).all()
    assert outcome(out, [x, z], [a, y]) == L.OK
    assert np.array_equal(a, np.abs(x)) and np.array_equal(y, np.concatenate([x, x]) + 1)
