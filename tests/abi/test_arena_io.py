# SPDX-License-Identifier: Apache-2.0
"""`--io arena`: inputs and outputs have places in the arena, and tensors may still be given."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import aot
from abi import loader as L
from abi.loader import Library, aligned, dl
from graphs import model

SHAPE = (4, 33)
BYTES = 4 * 33 * 4


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """p = exp(a) + b, q = the first row of relu(p · c)."""
    nodes = [("Exp", "a", "e"), ("Add", "e b", "p"), ("Mul", "p c", "m"), ("Relu", "m", "r")]
    nodes += [("Gather", "r zero", "q")]
    constants = {"c": np.full(SHAPE, -0.5, np.float32), "zero": np.array([0], np.int64)}
    proto = model(nodes, {"a": SHAPE, "b": SHAPE}, {"p": SHAPE, "q": (1, 33)}, constants)
    folder = tmp_path_factory.mktemp("arena_io")
    return aot.compile(proto, folder, name="net", io="arena").build().out


@pytest.fixture
def lib(out: Path) -> Library:
    return Library(out, "net")


@pytest.fixture
def ctx(lib: Library, out: Path):
    context = lib.context()
    memory = aot.api.Bundle(out).manifest["memory"]
    context.arena = aligned(memory["arena_bytes"], 64)
    assert memory["io_bytes"] == 0
    assert lib.init(context, context.arena) == L.OK
    yield context
    lib.shutdown(context)


def place(lib: Library, ctx, what: str, index: int, shape: tuple[int, ...]) -> np.ndarray:
    function = lib.c[f"net_{what}"]
    function.restype = ctypes.c_void_p
    address = function(ctx, index)
    low = ctx.arena.ctypes.data
    assert low <= address <= low + ctx.arena.nbytes - 4 * int(np.prod(shape))
    memory = (ctypes.c_float * int(np.prod(shape))).from_address(address)
    return np.frombuffer(memory, np.float32).reshape(shape)


def given(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, SHAPE).astype(np.float32) for _ in range(2))
    p = np.exp(a) + b
    return a, b, p, np.maximum(p * np.float32(-0.5), 0)[:1]


def close(got: np.ndarray, want: np.ndarray) -> bool:
    return bool(np.allclose(got, want, rtol=1e-5, atol=1e-6))


def test_in_place(lib: Library, ctx) -> None:
    ins = [place(lib, ctx, "input", i, SHAPE) for i in range(2)]
    outs = [place(lib, ctx, "output", 0, SHAPE), place(lib, ctx, "output", 1, (1, 33))]
    for seed in range(3):
        a, b, p, q = given(seed)
        ins[0][:], ins[1][:] = a, b
        assert lib.c.net_run(ctx, None, None) == L.OK
        ins[0][:], ins[1][:] = 7, 7  # outputs hold until the next run, not the next inputs
        assert close(outs[0], p) and close(outs[1], q)


def test_tensors_of_the_caller(lib: Library, ctx) -> None:
    a, b, p, q = given(9)
    got = [np.zeros(SHAPE, np.float32), np.zeros((1, 33), np.float32)]
    assert lib.run(ctx, [dl(a), dl(b)], [dl(g) for g in got]) == L.OK
    assert close(got[0], p) and close(got[1], q)
    assert np.array_equal(a, given(9)[0])


def test_some_in_place_some_given(lib: Library, ctx) -> None:
    a, b, p, q = given(4)
    own = place(lib, ctx, "input", 0, SHAPE)
    own[:] = a
    got = np.zeros((1, 33), np.float32)
    first = place(lib, ctx, "output", 0, SHAPE)
    assert lib.run(ctx, [dl(own), dl(b)], [dl(first), dl(got)]) == L.OK
    assert close(first, p) and close(got, q)
    own[:] = a
    place(lib, ctx, "input", 1, SHAPE)[:] = b
    assert lib.c.net_run(ctx, None, L.pointers([dl(first), dl(got)])) == L.OK
    assert close(got, q)


def test_refusals_write_nothing(lib: Library, ctx) -> None:
    a, b, _, _ = given(1)
    wrong = place(lib, ctx, "input", 1, SHAPE)  # another input's place
    before = ctx.arena.copy()
    outs = [np.zeros(SHAPE, np.float32), np.zeros((1, 33), np.float32)]
    results = [dl(o) for o in outs]
    assert lib.run(ctx, [dl(wrong), dl(b)], results) == L.OVERLAP
    assert lib.run(ctx, [dl(a), None], results) == L.NULL
    assert lib.run(ctx, [dl(a), dl(b)], [dl(a), results[1]]) == L.OVERLAP
    assert lib.run(ctx, [dl(a[:2]), dl(b)], results) == L.SHAPE
    assert np.array_equal(ctx.arena, before)
    for what, index in (("input", 2), ("input", -1), ("output", 2)):
        assert not lib.c[f"net_{what}"](ctx, index)
    assert not lib.c.net_input(lib.context(), 0)


def test_entries_without_a_context(lib: Library) -> None:
    a, b, p, q = given(5)
    outs = [np.zeros(SHAPE, np.float32), np.zeros((1, 33), np.float32)]

    def struct(*arrays: np.ndarray | None) -> ctypes.Array:
        return (ctypes.c_void_p * len(arrays))(
            *(None if x is None else x.ctypes.data for x in arrays)
        )

    assert lib.c.tvmgen_net_run(struct(a, b), struct(*outs)) == L.OK
    assert close(outs[0], p) and close(outs[1], q)
    assert lib.c.tvmgen_net_run(struct(a, None), struct(*outs)) == L.NULL
    loaded = aot.api.Bundle(Path(lib.c._name).parents[1]).load()
    assert close(np.asarray(loaded(a, b)[1]), q)


def test_the_arena_is_smaller_than_apart(out: Path, tmp_path: Path) -> None:
    """Two inputs and the outputs hold at one time; everything else fits in between."""
    memory = aot.api.Bundle(out).manifest["memory"]
    align = memory["alignment"]
    rounded = -(-BYTES // align) * align
    assert memory["arena_bytes"] <= 3 * rounded + 3 * align
