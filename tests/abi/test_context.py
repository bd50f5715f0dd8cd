# SPDX-License-Identifier: Apache-2.0
"""init, run and shutdown: results, and every wrong argument refused with its own status."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

from abi import loader as L, toy
from abi.loader import DataType, Device, DLTensor, Library, aligned, dl

ARENA = 128  # of toy.mixed, stacked: 64 for s, 64 for tmp


def arrays() -> tuple[list[np.ndarray], list[np.ndarray]]:
    ins = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(5, np.int64)]
    outs = [np.full((2, 3), -7, np.float32), np.full((1, 2), -7, np.float32), np.array(-7)]
    return ins, outs


def expected(ins: list[np.ndarray]) -> list[np.ndarray]:
    c = toy.mixed().consts["c"].astype(np.float64)
    s = (ins[0] + c + 0.1 - 0.1).astype(np.float32)
    total = np.minimum((s.astype(np.float64) + ins[0]).astype(np.float32), np.float32(10))
    count = np.array(int(ins[1]) - 2**63, np.int64)
    return [total, s.reshape(-1)[4:].reshape(1, 2), count]


def run_mixed(program: Path, folder: Path, *options: str) -> list[np.ndarray]:
    ins, outs = arrays()
    for i, a in enumerate(ins):
        a.tofile(folder / f"in{i}.bin")
    command = [str(program), *options]
    for i in range(2):
        command += ["--input", f"{i}={folder / f'in{i}.bin'}"]
    for i in range(3):
        command += ["--output", f"{i}={folder / f'out{i}.bin'}"]
    toy.run(*command)
    files = [folder / f"out{i}.bin" for i in range(3)]
    return [np.fromfile(f, a.dtype).reshape(a.shape) for f, a in zip(files, outs, strict=True)]


def check(outs: list[np.ndarray]) -> None:
    for got, want in zip(outs, expected(arrays()[0]), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.fixture
def lib(mixed_out: Path) -> Library:
    return Library(mixed_out, "mixed")


@pytest.fixture
def ctx(lib: Library):
    context = lib.context()
    context.arena = aligned(ARENA)
    assert lib.init(context, context.arena) == L.OK
    yield context
    lib.shutdown(context)


def test_results(lib: Library, ctx) -> None:
    ins, outs = arrays()
    assert lib.run(ctx, [dl(a) for a in ins], [dl(a) for a in outs]) == L.OK
    for got, want in zip(outs, expected(ins), strict=True):
        np.testing.assert_array_equal(got, want)


def test_weights_file(big_out: Path) -> None:
    program = toy.mlp("big", hidden=1024)
    lib, rng = Library(big_out, "big"), np.random.default_rng(1)
    context = lib.context()
    assert lib.init_built_in(context) == L.OK
    x, y = rng.standard_normal((1, 5), np.float32), np.zeros((1, 3), np.float32)
    assert lib.run(context, [dl(x)], [dl(y)]) == L.OK
    np.testing.assert_allclose(y, toy.mlp_reference(program, x), rtol=1e-4, atol=1e-5)
    lib.shutdown(context)


def test_null_strides_size_one_axes_and_byte_offset(lib: Library, ctx) -> None:
    ins, outs = arrays()
    wide = np.zeros(8, np.float32)
    wide[1:7] = ins[0].reshape(-1)
    shifted = dl(wide[:6].reshape(2, 3), strides=False)
    shifted.byte_offset = 4  # only aligned to its element
    odd = dl(outs[1])
    odd.strides[0] = 12345  # of an axis of extent 1
    tensors = [dl(outs[0], strides=False), odd, dl(outs[2])]
    assert lib.run(ctx, [shifted, dl(ins[1])], tensors) == L.OK
    for got, want in zip(outs, expected(ins), strict=True):
        np.testing.assert_array_equal(got, want)


def change(field: str, value: object):
    def apply(t: DLTensor) -> None:
        setattr(t, field, value)

    return apply


def transpose(t: DLTensor) -> None:
    t.strides[0], t.strides[1] = 1, 2


def reshape(t: DLTensor) -> None:
    t.shape[0], t.shape[1] = 3, 2


def misalign(t: DLTensor) -> None:
    t.data += 1


def misalign_by_offset(t: DLTensor) -> None:
    t.byte_offset = 2


WRONG = [
    (change("ndim", 1), L.NDIM),
    (change("ndim", -1), L.NDIM),
    (change("shape", None), L.NULL),
    (reshape, L.SHAPE),
    (change("dtype", DataType(2, 64, 1)), L.DTYPE),
    (change("dtype", DataType(0, 32, 1)), L.DTYPE),
    (change("dtype", DataType(2, 32, 2)), L.DTYPE),
    (change("device", Device(2, 0)), L.DEVICE),
    (change("device", Device(1, 3)), L.DEVICE),
    (transpose, L.STRIDES),
    (change("data", None), L.NULL),
    (misalign, L.ALIGN),
    (misalign_by_offset, L.ALIGN),
    (change("byte_offset", 2**64 - 1), L.ALIGN),
    (change("byte_offset", 2**63), L.ALIGN),  # no address wraps, but no object reaches so far
]


@pytest.mark.parametrize("which", ["input", "output"])
@pytest.mark.parametrize(("spoil", "status"), WRONG)
def test_wrong_tensor_is_refused_and_nothing_written(lib: Library, ctx, spoil, status, which):
    ins, outs = arrays()
    tensors = [dl(a) for a in ins], [dl(a) for a in outs]
    spoil(tensors[which == "output"][0])
    before = ctx.arena.copy()
    assert lib.run(ctx, *tensors) == status
    assert all((a == -7).all() for a in outs)
    np.testing.assert_array_equal(ctx.arena, before)
    assert lib.run(ctx, [dl(a) for a in ins], [dl(a) for a in outs]) == L.OK


def test_null_pointers(lib: Library, ctx) -> None:
    ins, outs = arrays()
    good = [dl(a) for a in ins], [dl(a) for a in outs]
    assert lib.run(ctx, [None, good[0][1]], good[1]) == L.NULL
    assert lib.run(ctx, good[0], [good[1][0], good[1][1], None]) == L.NULL
    assert lib.c.mixed_run(ctx, None, L.pointers(good[1])) == L.NULL
    assert lib.c.mixed_run(ctx, L.pointers(good[0]), None) == L.NULL
    assert lib.run(None, *good) == L.NULL
    assert lib.init(None) == L.NULL
    lib.shutdown(None)
    assert all((a == -7).all() for a in outs)


def test_overlap_is_refused(lib: Library, ctx) -> None:
    ins, outs = arrays()
    tensors = [dl(a) for a in outs]
    assert lib.run(ctx, [dl(a) for a in ins], [dl(ins[0]), *tensors[1:]]) == L.OVERLAP
    twice = dl(outs[0].reshape(-1)[2:4].reshape(1, 2))
    assert lib.run(ctx, [dl(a) for a in ins], [tensors[0], twice, tensors[2]]) == L.OVERLAP
    inside = ctx.arena[8:16].view(np.float32).reshape(1, 2)
    assert lib.run(ctx, [dl(a) for a in ins], [tensors[0], dl(inside), tensors[2]]) == L.OVERLAP
    source = ctx.arena[96:120].view(np.float32).reshape(2, 3)
    assert lib.run(ctx, [dl(source), dl(ins[1])], tensors) == L.OVERLAP


def test_arena(lib: Library) -> None:
    context = lib.context()
    assert lib.init(context, aligned(ARENA - 1)) == L.ARENA_SMALL
    assert lib.init(context, aligned(ARENA, off=32)) == L.ARENA_ALIGN
    ins, outs = arrays()
    tensors = [dl(a) for a in ins], [dl(a) for a in outs]
    assert lib.run(context, *tensors) == L.NOT_INIT
    shape = (ctypes.c_int64 * 4)()
    assert lib.output_shape(context, 0, shape) == L.NOT_INIT
    arena = aligned(ARENA)
    assert lib.init(context, arena) == L.OK
    lib.shutdown(context)
    assert lib.run(context, *tensors) == L.NOT_INIT
    assert all((a == -7).all() for a in outs)


def test_nothing_outside_the_arena_is_touched(lib: Library) -> None:
    memory = aligned(ARENA + 128)
    memory[:] = 0xA5
    context = lib.context()
    assert lib.init(context, memory[64 : 64 + ARENA]) == L.OK
    ins, outs = arrays()
    assert lib.run(context, [dl(a) for a in ins], [dl(a) for a in outs]) == L.OK
    assert (memory[:64] == 0xA5).all()
    assert (memory[64 + ARENA :] == 0xA5).all()


def test_built_in_arena(lib: Library) -> None:
    context = lib.context()
    assert lib.init(context) == L.NO_ARENA
    ins, outs = arrays()
    tensors = [dl(a) for a in ins], [dl(a) for a in outs]
    assert lib.run(context, *tensors) == L.NOT_INIT
    assert all((a == -7).all() for a in outs)
    assert lib.init_built_in(context) == L.OK
    assert lib.run(context, *tensors) == L.OK
    for got, want in zip(outs, expected(ins), strict=True):
        np.testing.assert_array_equal(got, want)
    lib.shutdown(context)
    lib.shutdown(context)


def test_two_contexts_with_own_arenas(lib: Library) -> None:
    contexts = [lib.context(), lib.context()]
    arenas = [aligned(ARENA), aligned(ARENA)]
    for context, arena in zip(contexts, arenas, strict=True):
        assert lib.init(context, arena) == L.OK
    ins, outs = arrays()
    for context in contexts:
        assert lib.run(context, [dl(a) for a in ins], [dl(a) for a in outs]) == L.OK


def test_a_running_context_is_busy(lib: Library, ctx) -> None:
    ins, outs = arrays()
    ctx[4] = 1  # the lock, as a run in another thread would leave it meanwhile
    assert lib.run(ctx, [dl(a) for a in ins], [dl(a) for a in outs]) == L.BUSY
    assert all((a == -7).all() for a in outs)
    ctx[4] = 0
    assert lib.run(ctx, [dl(a) for a in ins], [dl(a) for a in outs]) == L.OK


def test_output_shape(lib: Library, ctx) -> None:
    shape = (ctypes.c_int64 * 4)(9, 9, 9, 9)
    assert lib.output_shape(ctx, 1, shape) == L.OK
    assert list(shape) == [1, 2, 9, 9]
    assert lib.output_shape(ctx, 2, shape) == L.OK
    assert list(shape) == [1, 2, 9, 9]
    assert lib.output_shape(ctx, 3, shape) == L.BAD_INDEX
    assert lib.output_shape(ctx, -1, shape) == L.BAD_INDEX
    assert lib.output_shape(ctx, 0, None) == L.NULL


def test_every_status_has_words_of_its_own(tmp_path: Path) -> None:
    header = (toy.RUNTIME / "include/aot/aot.h").read_text(encoding="ascii")
    numbers = [int(n) for n in re.findall(r"^    AOT_\w+ = (\d+)", header, re.M)]
    assert numbers == list(range(26))
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "aot/aot.h"\nint main(void) {\n    int i;\n'
        "    for (i = 0; i < 27; ++i) puts(aot_status_text((aot_status)i));\n    return 0;\n}\n"
    )
    include = str(toy.RUNTIME / "include")
    toy.run("gcc", "-std=c99", f"-I{include}", "main.c", "-o", "main", cwd=tmp_path)
    texts = toy.run(str(tmp_path / "main")).splitlines()
    assert texts[0] == "ok"
    assert texts[26] == "unknown status"
    assert len({*texts, ""}) == len(texts) + 1
