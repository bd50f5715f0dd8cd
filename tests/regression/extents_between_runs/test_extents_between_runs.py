# SPDX-License-Identifier: Apache-2.0
"""Sizes that one run leaves to the next, and shapes of outputs that no run has computed.

With inputs in the arena a run with tensors changed the size that NAME_set_input_shape had said for
runs without; NAME_output_shape gave bytes of the arena before the first run and after a failed one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import aot
from abi import loader as L
from abi.loader import Library, aligned, dl
from graphs import model

MOST = 5
#: y = softmax(x + z), where is it not zero; x has N rows, z has M, and every run compares them.
NODES = [
    ("Add", "x z", "s"),
    ("Softmax", "s", "y", {"axis": 0}),
    ("NonZero", "x", "where"),
    ("Relu", "w", "v"),
]


@pytest.fixture(scope="module", params=["caller", "arena"])
def out(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes: dict[str, list[int | str]] = {"x": ["N", 3], "z": ["M", 3], "w": [2]}
    ends: dict[str, list[int | str]] = {"y": ["N", 3], "where": [2, "k"], "v": [2]}
    proto = model(NODES, sizes, ends, dtypes={"where": TensorProto.INT64})
    folder = tmp_path_factory.mktemp(request.param)
    dims = {"N": (1, MOST), "M": (1, MOST)}
    return aot.compile(proto, folder, name="net", dims=dims, io=request.param).build().out


@pytest.fixture
def lib(out: Path) -> Library:
    return Library(out, "net")


@pytest.fixture
def ctx(lib: Library, out: Path) -> Iterator[ctypes.Array[ctypes.c_char]]:
    context = lib.context()
    arena = aligned(aot.Bundle(out).manifest["memory"]["arena_bytes"], 64)
    arena[:] = 0x5A  # what nobody wrote is seen
    assert lib.init(context, arena) == L.OK
    yield context
    lib.shutdown(context)


def run(lib: Library, ctx: object, rows: int, others: int) -> int:
    """A run with tensors: x has `rows`, z `others`."""
    x, z, w = np.ones((rows, 3), "f4"), np.ones((others, 3), "f4"), np.ones(2, "f4")
    outs = np.zeros((MOST, 3), "f4"), np.zeros((2, 3 * MOST), np.int64), np.zeros(2, "f4")
    return int(lib.run(ctx, [dl(a) for a in (x, z, w)], [dl(a) for a in outs]))


def shape(lib: Library, ctx: object, index: int) -> list[int] | int:
    """What NAME_output_shape gives, or its status; then nothing is written."""
    found = (ctypes.c_int64 * 2)(-7, -7)
    status = int(lib.output_shape(ctx, index, found))
    assert status == L.OK or list(found) == [-7, -7]
    return list(found) if status == L.OK else status


def test_shapes_are_those_of_a_run(lib: Library, ctx: object) -> None:
    assert [shape(lib, ctx, i) for i in (0, 1)] == [L.NOT_INIT, L.NOT_INIT]
    assert shape(lib, ctx, 2) == [2, -7]  # a static one at any time
    assert run(lib, ctx, 2, 2) == L.OK
    assert [shape(lib, ctx, i) for i in (0, 1)] == [[2, 3], [2, 6]]
    assert run(lib, ctx, MOST + 1, 2) == L.SHAPE  # refused before anything is written
    assert [shape(lib, ctx, i) for i in (0, 1)] == [[2, 3], [2, 6]]
    assert run(lib, ctx, 4, 3) == L.SHAPE  # shows while it computes
    assert [shape(lib, ctx, i) for i in (0, 1)] == [L.NOT_INIT, L.NOT_INIT]
    assert shape(lib, ctx, 2) == [2, -7]
    assert run(lib, ctx, 3, 3) == L.OK
    assert shape(lib, ctx, 0) == [3, 3]
    lib.shutdown(ctx)
    assert shape(lib, ctx, 0) == L.NOT_INIT


def test_sizes_of_runs_without_tensors_stay(lib: Library, ctx: object, out: Path) -> None:
    if out.name.startswith("caller"):
        pytest.skip("inputs are the caller's")

    def resident() -> list[int] | int:
        status = int(lib.c.net_run(ctx, None, None))
        return shape(lib, ctx, 0) if status == L.OK else status

    def say(index: int, rows: int) -> int:
        return int(lib.set_input_shape(ctx, index, (ctypes.c_int64 * 2)(rows, 3)))

    assert resident() == [MOST, 3]  # at first the largest
    assert [say(0, 2), say(1, 2)] == [L.OK, L.OK]
    assert resident() == [2, 3]
    assert run(lib, ctx, 4, 4) == L.OK
    assert shape(lib, ctx, 0) == [4, 3]
    assert resident() == [2, 3]
    assert run(lib, ctx, 4, 3) == L.SHAPE
    assert resident() == [2, 3]
    assert say(0, MOST + 1) == L.SHAPE
    assert resident() == [2, 3]
    assert say(0, 3) == L.OK
    assert resident() == L.SHAPE
    assert shape(lib, ctx, 0) == L.NOT_INIT
    assert say(1, 3) == L.OK
    assert resident() == [3, 3]
    # Outputs alone: the inputs are those in the arena, and of their size.
    outs = np.zeros((MOST, 3), "f4"), np.zeros((2, 3 * MOST), np.int64), np.zeros(2, "f4")
    assert lib.c.net_run(ctx, None, L.pointers([dl(a) for a in outs])) == L.OK
    assert shape(lib, ctx, 0) == [3, 3] and outs[0][2].all() and not outs[0][3:].any()
