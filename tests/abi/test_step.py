# SPDX-License-Identifier: Apache-2.0
"""NAME_step: a run in slices has the bits of NAME_run, and ends when it is told to."""

from __future__ import annotations

import ctypes as c
import subprocess
from pathlib import Path

import numpy as np
import pytest

import aot
from abi import loader as L
from abi.loader import Library, aligned, dl

DIGITS = Path(__file__).resolve().parents[2] / "examples/digits/digits.onnx"
MORE, ABORTED = 21, 23
BOUND = 20_000


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> aot.Bundle:
    out = tmp_path_factory.mktemp("sliced")
    return aot.compile(DIGITS, out, name="digits", slice_macs=BOUND).build()


@pytest.fixture
def lib(built: aot.Bundle) -> Library:
    return Library(built.out, "digits")


class Run:
    """A context with tensors; `step` makes a part of the run."""

    def __init__(self, lib: Library) -> None:
        self.lib, self.ctx = lib, lib.context()
        self.ctx.arena = aligned(lib.arena_bytes)
        assert lib.init(self.ctx, self.ctx.arena) == L.OK
        rng = np.random.default_rng(7)
        self.x = rng.standard_normal((1, 1, 8, 8), np.float32)
        self.y = np.zeros((1, 10), np.float32)

    def step(self, macs: int) -> int:
        tensors = L.pointers([dl(self.x)]), L.pointers([dl(self.y)])
        return int(self.lib.step(self.ctx, *tensors, c.c_uint32(macs)))

    def whole(self) -> int:
        return self.lib.run(self.ctx, [dl(self.x)], [dl(self.y)])


@pytest.mark.parametrize("macs", [0, 1, BOUND, 25_000, 2**32 - 1])
def test_steps_have_the_bits_of_a_run(lib: Library, built: aot.Bundle, macs: int) -> None:
    one, other = Run(lib), Run(lib)
    assert one.whole() == L.OK
    parts = 1
    while (status := other.step(macs)) == MORE:
        parts += 1
    assert status == L.OK and one.y.tobytes() == other.y.tobytes()
    slices = built.manifest["slices"]
    paid = sum(s["macs"] > 0 for s in slices["slices"])  # others come along with these
    assert paid <= {0: parts, 2**32 - 1: paid}.get(macs, paid) <= slices["count"]
    assert parts == 1 if macs == 2**32 - 1 else 1 < parts <= slices["count"]
    assert other.step(2**32 - 1) == L.OK  # the next run


def test_no_slice_is_longer_than_the_bound(built: aot.Bundle) -> None:
    slices = built.manifest["slices"]
    assert slices["bound_macs"] == BOUND and 0 < slices["longest_macs"] <= BOUND
    assert "DIGITS_SLICE_MACS " + str(slices["longest_macs"]) in (
        built.out / "bundle/include/digits.h"
    ).read_text(encoding="ascii")


def test_a_run_in_steps_keeps_its_context(lib: Library) -> None:
    run = Run(lib)
    assert run.step(0) == MORE
    assert run.whole() == L.BUSY
    moved = run.y
    run.y = np.full_like(moved, -7)  # a later call of a run does not look at its tensors
    while run.step(0) == MORE:
        pass
    assert (run.y == -7).all() and moved.sum() == pytest.approx(1, abs=1e-5)
    assert run.whole() == L.OK


def test_abort_ends_the_run(lib: Library) -> None:
    run = Run(lib)
    assert lib.abort(run.ctx) == L.OK  # of no run
    assert run.step(0) == MORE
    assert lib.abort(run.ctx) == L.OK
    assert run.step(2**32 - 1) == ABORTED
    assert run.whole() == L.OK and run.y.sum() == pytest.approx(1, abs=1e-5)
    assert lib.abort(None) == L.NULL


def test_a_deadline_ends_a_step(tmp_path: Path) -> None:
    (tmp_path / "config.h").write_text(
        "extern int asked;\n#define AOT_STEP_DUE() (++asked % 3 == 0)\n"
    )
    own = tmp_path / "asked.c"
    own.write_text("int asked;\n")
    aot.compile(DIGITS, tmp_path / "o", name="digits", slice_macs=BOUND, configure=False)
    bundle = tmp_path / "o/bundle"
    sources = [bundle / "src" / f"digits{p}.c" for p in ("", "_run", "_arena", "_weights")]
    options = ["-shared", "-fPIC", "-O1", "-march=native", "-I", bundle / "include"]
    config = f'-DAOT_CONFIG="{tmp_path / "config.h"}"'
    (tmp_path / "lib").mkdir()
    subprocess.run(
        ["gcc", *options, config, *sources, own, "-lm", "-o", tmp_path / "lib/libdigits.so"],
        check=True,
    )
    (tmp_path / "bundle").symlink_to(bundle)
    run = Run(Library(tmp_path, "digits"))
    parts = 1
    while run.step(2**32 - 1) == MORE:
        parts += 1
    asked = c.c_int.in_dll(run.lib.c, "asked").value
    assert parts == asked // 3 + 1 > 2
    assert run.y.sum() == pytest.approx(1, abs=1e-5)


def test_wrong_arguments_begin_no_run(lib: Library) -> None:
    run = Run(lib)
    run.x = run.x[:, :, :4]
    assert run.step(0) == L.SHAPE
    assert lib.step(None, None, None, c.c_uint32(0)) == L.NULL
    run.x = np.zeros((1, 1, 8, 8), np.float32)
    assert run.whole() == L.OK
    lib.shutdown(run.ctx)
    assert run.step(0) == L.NOT_INIT
