# SPDX-License-Identifier: Apache-2.0
"""An input that comes by rows (`--push`): in all portions, refused where it must be."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from abi import loader as L
from abi.loader import Library, aligned
from aot.errors import ModelError, UnsupportedError, UsageError
from quant_graphs import Net, feeds_of
from streamed_graphs import Made

MORE, BAD_ROWS, BUSY, NULL = 21, 22, 12, 1


def network() -> onnx.ModelProto:
    """Three convolutions of 3 channels and their average: [1, 3, h, w] to [1, 8, 1, 1]."""
    made = Made(4)
    name, (channels, height, width) = made.values[0]
    for out in (8, 8, 8):
        real = made.net.add(
            "Conv", made.quantised_values(name), made.weights(out, channels, 3, 3), pads=[1] * 4
        )
        channels = out
        name, _ = made.made(real, (channels, height, width))
    real = made.net.add("GlobalAveragePool", made.quantised_values(name))
    name, _ = made.made(real, (channels, 1, 1))
    return made.net.model(**{name: np.int8})


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> aot.Bundle:
    return aot.compile(network(), tmp_path_factory.mktemp("pushed"), name="net", push="x").build()


def test_rows_in_all_portions(bundle: aot.Bundle) -> None:
    lib = Library(bundle.out, "net")
    context = lib.context()
    arena = aligned(bundle.manifest["memory"]["arena_bytes"], 64)
    assert lib.init(context, arena) == L.OK
    library = lib.c
    library.net_output.restype = ctypes.c_void_p
    x = next(iter(feeds_of(network(), 3).values()))
    rows = np.ascontiguousarray(x[0].transpose(1, 0, 2))  # [h][c][w]
    (shape,) = [o["shape"] for o in bundle.manifest["outputs"]]
    want = np.asarray(bundle.load()(x))

    def push(first: int, count: int) -> int:
        data = np.ascontiguousarray(rows[first : first + max(count, 1)])
        return int(library.net_push_rows(context, data.ctypes.data_as(ctypes.c_void_p), count))

    height = len(rows)
    assert library.net_push_rows(context, None, 1) == NULL
    for portion in (1, 2, height - 1, height):
        for first in range(0, height, portion):
            count = min(portion, height - first)
            assert push(first, 0) == BAD_ROWS == push(first, height - first + 1)
            assert push(first, count) == (L.OK if first + count == height else MORE)
        assert push(0, 1) == BAD_ROWS  # behind the last one
        got = np.ctypeslib.as_array(
            ctypes.cast(library.net_output(context, 0), ctypes.POINTER(ctypes.c_int8)), (8,)
        )
        np.testing.assert_array_equal(got.reshape(shape), want)
        assert library.net_abort(context) == L.OK
    assert push(0, 2) == MORE
    y = np.zeros(shape, np.int8)
    inputs, outputs = [L.dl(x)], [L.dl(y)]
    assert lib.run(context, inputs, outputs) == BUSY
    assert library.net_abort(context) == L.OK
    assert lib.run(context, inputs, outputs) == L.OK
    np.testing.assert_array_equal(y, want)
    assert len(np.unique(want)) > 2
    library.net_input.restype = ctypes.c_void_p
    assert library.net_input(context, 0) is None
    lib.shutdown(context)


def test_what_needs_all_of_the_input(tmp_path: Path) -> None:
    net = Net(x=(np.float32, (1, 3, 8, 8)))
    net.add("Softmax", "x", out="y", axis=2)
    model = net.model(y=np.float32)
    with pytest.raises(UnsupportedError, match="needs all of the input: aot_softmax_f32 takes"):
        aot.compile(model, tmp_path / "a", push="x")
    with pytest.raises(ModelError, match="no such input"):
        aot.compile(model, tmp_path / "b", push="z")
    with pytest.raises(UsageError, match="the results are in the arena"):
        aot.compile(model, tmp_path / "c", push="x", io="caller")
    two = Net(x=(np.float32, (1, 3, 8, 8)), z=(np.float32, (1, 3, 8, 8)))
    two.add("Add", "x", "z", out="y")
    with pytest.raises(UnsupportedError, match="other inputs"):
        aot.compile(two.model(y=np.float32), tmp_path / "d", push="x")
