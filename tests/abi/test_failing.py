# SPDX-License-Identifier: Apache-2.0
"""Errors that show while a run is under way leave the outputs as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


#: Per operator: its inputs by name with their shapes (indices are "i…"), attributes, and the sizes
#: of the axes that the indices count in.
INDEXED: dict[str, tuple[dict[str, list[int]], dict[str, Any], list[int]]] = {
    "Gather": ({"x": [4, 3], "i": [2]}, {}, [4]),
    "GatherElements": ({"x": [4, 3], "i": [2, 3]}, {"axis": 1}, [3]),
    "GatherND": ({"x": [4, 3], "i": [5, 2]}, {}, [4, 3]),
    "ScatterElements": ({"x": [4, 3], "i": [2, 3], "u": [2, 3]}, {}, [4]),
    "ScatterND": ({"x": [4, 3], "i": [5, 2], "u": [5]}, {}, [4, 3]),
    "RotaryEmbedding": ({"x": [1, 2, 2, 8], "c": [5, 4], "s": [5, 4], "i": [1, 2]}, {}, [5]),
    "TensorScatter": ({"x": [2, 6, 4], "u": [2, 2, 4], "i": [2]}, {}, [5]),
    "MaxUnpool": ({"x": [1, 1, 4], "i": [1, 1, 4]}, {"kernel_shape": [2], "strides": [2]}, [8]),
}


def test_an_index_beyond_its_axis(tmp_path: Path) -> None:
    """Every operator that reads at an index says so; indices that are proven right are not checked,
    and results that depend on all that is checked go straight to the caller's memory.
    """
    rows: list[Any] = [("Abs", "f", "a"), ("ArgMax", "f", "best", {"axis": 0, "keepdims": 0})]
    rows += [("Gather", "f best", "top")]
    shapes: dict[str, Any] = {"f": [4]}
    ends: dict[str, Any] = {"a": [4], "top": None}
    for name, (inputs, attributes, _) in INDEXED.items():
        own = {f"{n}_{name}": shape for n, shape in inputs.items()}
        rows.append((name, " ".join(own), f"y_{name}", attributes))
        shapes |= own
        ends[f"y_{name}"] = None
    kinds = {n: TensorProto.INT64 for n in shapes if n.startswith("i_")}
    proto = model(rows, shapes, ends, dtypes=kinds, opset=24)
    bundle = aot.compile(proto, tmp_path / "o", name="net").build()
    assert "AOT_OUT_OF_RANGE" in (bundle.out / "bundle/include/net.h").read_text()
    kernels = [n["kernel"] for n in bundle.manifest["nodes"]]
    assert kernels.count("aot_gather") == 1 and kernels.count("aot_gather_checked") == 1

    ins = [np.zeros(s["shape"], s["dtype"]) for s in bundle.manifest["inputs"]]
    outs = [np.full(s["shape"], 7, s["dtype"]) for s in bundle.manifest["outputs"]]
    names = [s["name"] for s in bundle.manifest["inputs"]]
    assert outcome(bundle.out, ins, outs) == L.OK
    for name, (_, _, sizes) in INDEXED.items():
        index = ins[names.index(f"i_{name}")].reshape(-1)
        for place, size in enumerate(sizes):
            least = 0 if name in ("TensorScatter", "MaxUnpool") else -size
            for value, status in (
                (size, L.OUT_OF_RANGE),
                (2**31 - 1, L.OUT_OF_RANGE),
                (least - 1, L.OUT_OF_RANGE),
                (least, L.OK),
            ):
                index[-len(sizes) + place] = value
                for out in outs:
                    out[...] = 7
                assert outcome(bundle.out, ins, outs) == status, (name, value)
                assert status == L.OK or all((out == 7).all() for out in outs)
            index[:] = 0


def test_an_index_beyond_the_elements_of_a_run(tmp_path: Path) -> None:
    """Of an axis whose size a run says, indices count in the elements there are."""
    rows = [("Gather", "x i", "y"), ("GatherND", "x j", "z")]
    kinds = {"i": TensorProto.INT64, "j": TensorProto.INT64}
    proto = model(rows, {"x": ["L"], "i": ["M"], "j": [1, 1]}, {"y": ["M"], "z": [1]}, dtypes=kinds)
    out = (
        aot.compile(proto, tmp_path / "o", name="net", dims={"L": (0, 6), "M": (0, 4)}).build().out
    )
    x, y, z = np.arange(6, dtype=np.float32), np.full(4, 7, np.float32), np.full(1, 7, np.float32)
    wanted = ((3, 2, L.OK), (3, -3, L.OK), (3, 3, L.OUT_OF_RANGE), (3, -4, L.OUT_OF_RANGE))
    for length, index, status in wanted:
        i, j = np.array([0, index]), np.array([[index]])
        assert outcome(out, [x[:length], i, np.zeros_like(j)], [y, z]) == status
        assert outcome(out, [x[:length], np.zeros_like(i), j], [y, z]) == status
        assert status != L.OK or (y[1], z[0]) == (0, x[:length][index])
    assert outcome(out, [x[:0], np.zeros(0, np.int64), np.zeros((1, 1), np.int64)], [y, z]) != L.OK


def test_an_index_of_a_scatter_that_is_what_padding_holds(tmp_path: Path) -> None:
    """Of as many indices as a run says, the largest int32 is out of range as any other."""
    kinds = {"i": TensorProto.INT64, "j": TensorProto.INT64}
    rows = [("ScatterElements", "x i u", "y"), ("ScatterND", "x j u", "z")]
    shapes: dict[str, Any] = {"x": [6], "i": ["M"], "j": ["M", 1], "u": ["M"]}
    proto = model(rows, shapes, {"y": [6], "z": [6]}, dtypes=kinds)
    out = aot.compile(proto, tmp_path / "o", name="net", dims={"M": (0, 4)}).build().out
    x, u, y, z = (np.arange(n, dtype=np.float32) for n in (6, 3, 6, 6))
    for index, status in ((5, L.OK), (-6, L.OK), (6, L.OUT_OF_RANGE), (2**31 - 1, L.OUT_OF_RANGE)):
        i = np.array([0, 1, index])
        for one in ([x, i, 0 * i[:, None], u], [x, 0 * i, i[:, None], u]):
            assert outcome(out, one, [y, z]) == status
    assert outcome(out, [x, i[:0], i[:0, None], u[:0]], [y, z]) == L.OK
    assert np.array_equal(y, x) and np.array_equal(z, x)
