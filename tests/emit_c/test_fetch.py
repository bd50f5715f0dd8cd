# SPDX-License-Identifier: Apache-2.0
"""Bundles whose calls get weights by blocks give the bits of those that have them whole, under
sanitizers; a DMA controller that copies late sees each start with its wait."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import aot
from aot.cli import main
from fetched_graphs import layers
from needs import need
from quant_graphs import feeds_of
from sanitizers import SANITIZED

#: Kernels of boards in plain C, with constants in memory that is slow or as fast as the arena's.
TARGET = """\
base = "x86-64"
vlen = 1
simd = "{simd}"
[[memory]]
name = "flash"
size = "1M"
speed = {speed}
use = ["code", "weights"]
[[memory]]
name = "ram"
size = "1M"
use = ["data", "arena", "stack"]
"""
#: A controller that copies when it is waited for, with one copy under way at a time.
DMA = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static struct { void *to; const void *from; size_t bytes; int under_way, starts, waits; } dma;
static inline void dma_start(void *to, const void *from, size_t bytes) {
    if (dma.under_way) abort();
    memset(to, 0x5A, bytes);
    dma.to = to, dma.from = from, dma.bytes = bytes, dma.under_way = 1, ++dma.starts;
}
static inline void dma_wait(void) {
    if (!dma.under_way) abort();
    memcpy(dma.to, dma.from, dma.bytes);
    dma.under_way = 0, ++dma.waits;
}
__attribute__((destructor)) static void dma_end(void) {
    FILE *file = dma.starts ? fopen("COUNTS", "w") : NULL;
    if (file) fprintf(file, "%d %d", dma.starts, dma.waits), fclose(file);
    if (dma.under_way) abort();
}
#define aot_copy_start(to, from, bytes) dma_start(to, from, bytes)
#define aot_copy_wait() dma_wait()
"""


def outputs(folder: Path, **options: object) -> tuple[aot.Bundle, list[npt.NDArray[np.int8]]]:
    """The bundle and what it makes of three inputs."""
    need("gcc")
    bundle = aot.compile(layers(), folder, name="net", **options).build()  # type: ignore[arg-type]
    given, answer = folder / "in.npz", folder / "out.npz"
    samples = {f"s{k}/{n}": v for k in range(3) for n, v in feeds_of(layers(), k).items()}
    np.savez(given, **samples)  # type: ignore[arg-type]
    assert main(["run", str(folder), "--inputs", str(given), "--outputs", str(answer)]) == 0
    with np.load(answer) as file:
        return bundle, [file[name] for name in sorted(file.files)]


def target(folder: Path, simd: str, speed: int) -> str:
    path = folder / f"chip_{simd or 'plain'}_{speed}.toml"
    path.write_text(TARGET.format(simd=simd, speed=speed))
    return str(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[npt.NDArray[np.int8]]:
    """The outputs with weights as they are."""
    made = outputs(tmp_path_factory.mktemp("whole"), target="x86-64")[1]
    assert all(np.unique(a).size > 30 for a in made)  # equal values would show nothing
    return made


def fetched(bundle: aot.Bundle) -> set[str]:
    return {n["kernel"] for n in bundle.manifest["nodes"] if n.get("fetches")}


@pytest.mark.parametrize("simd", ["dsp", ""])
def test_codes_give_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: list[npt.NDArray[np.int8]], simd: str
) -> None:
    monkeypatch.setenv("CFLAGS", SANITIZED if simd else "-O1")
    chip = target(tmp_path, simd, 1)
    bundle, made = outputs(tmp_path / "out", target=chip, objective="flash")
    tail = "__dsp" if simd else ""
    assert {f"aot_qconv_epilogue_s8{tail}", f"aot_qfc_s8{tail}"} <= fetched(bundle)
    for a, b in zip(made, whole, strict=True):
        np.testing.assert_array_equal(a, b)


def test_copies_are_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: list[npt.NDArray[np.int8]]
) -> None:
    (tmp_path / "dma.h").write_text(DMA.replace("COUNTS", str(tmp_path / "counts")))
    flags = f"""{SANITIZED} -I{tmp_path} -DAOT_CONFIG='"dma.h"'"""
    monkeypatch.setenv("CFLAGS", flags)
    bundle, made = outputs(tmp_path / "out", target=target(tmp_path, "dsp", 4))
    blocks = [f["blocks"] for n in bundle.manifest["nodes"] for f in n.get("fetches", ())]
    assert len(blocks) >= 3 and max(blocks) > 1
    for a, b in zip(made, whole, strict=True):
        np.testing.assert_array_equal(a, b)
    starts, waits = (int(n) for n in (tmp_path / "counts").read_text().split())
    assert starts == waits == sum(blocks)
