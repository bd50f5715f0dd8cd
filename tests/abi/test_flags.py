# SPDX-License-Identifier: Apache-2.0
"""Libraries built with flags of the user's own, of one name in one process, and shared contexts."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

import aot
from abi import toy
from graphs import model

FLAGS = "-flto -ffast-math -funsafe-math-optimizations -fvisibility=hidden"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two libraries called `pair` of different networks, the first built with FLAGS."""
    found = []
    for seed, flags in ((0, FLAGS), (5, "")):
        out = tmp_path_factory.mktemp("pair")
        toy.write_bundle(toy.emit(toy.mlp("pair", hidden=1024, seed=seed)), out)
        toy.configure(out / "bundle", out, cflags=flags)
        toy.run("cmake", "--build", str(out), "--target", "pair-shared")
        found.append(out / "lib" / "libpair.so")
    return found


def exported(library: Path) -> set[str]:
    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        return {
            s.name
            for s in table.iter_symbols()
            if s["st_shndx"] != "SHN_UNDEF" and s["st_info"]["bind"] == "STB_GLOBAL"
        }


def test_flags_that_change_results_or_hide_functions(pair: list[Path]) -> None:
    """LTO finds the file of the constants, functions stay visible, NaN is not assumed away, and
    no start-up code makes the process flush subnormal numbers."""
    odd, plain = pair
    assert exported(odd) == exported(plain) and "pair_init" in exported(plain)
    assert "set_fast_math" not in toy.run("nm", str(odd))
    x = np.array([[1, np.nan, 0, 0, 0]], np.float32)
    assert np.isnan(call(ctypes.CDLL(str(odd)), x)).all()


def call(library: ctypes.CDLL, x: np.ndarray) -> np.ndarray:
    y = np.full((1, 3), 7, np.float32)
    ins, outs = (ctypes.c_void_p * 1)(x.ctypes.data), (ctypes.c_void_p * 1)(y.ctypes.data)
    assert library.tvmgen_pair_run(ins, outs) == 0
    return y


BOTH = """
import ctypes, sys
import numpy as np
from abi.test_flags import call
x = np.arange(5, dtype=np.float32)[None]
for path, mode in zip(sys.argv[1:], (ctypes.RTLD_GLOBAL, ctypes.RTLD_LOCAL)):
    print(*call(ctypes.CDLL(path, mode=mode), x)[0])
"""


def test_two_libraries_of_one_name(pair: list[Path]) -> None:
    """Each calls its own functions, though the first one's are visible to the whole process."""
    folder = str(Path(__file__).parent.parent)
    code = f"import sys\nsys.path.insert(0, {folder!r})\n{BOTH}"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, pair)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    got = np.array(done.stdout.split(), np.float32).reshape(2, 3)
    x = np.arange(5, dtype=np.float32)[None]
    for seed, y in zip((0, 5), got, strict=True):
        want = toy.mlp_reference(toy.mlp("pair", hidden=1024, seed=seed), x)[0]
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)


SHARED = """
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "net.h"
#include "tvmgen_net.h"
static AOT_ALIGNED(64) unsigned char file[2][(NET_WEIGHTS_BYTES + 63) / 64 * 64];
static AOT_ALIGNED(64) unsigned char arena[NET_ARENA_BYTES];
static net_context context;

static aot_status change(int i)
{
    int64_t shape[] = {1 + i % 8, 6};
    switch (i % 3) {
    case 0: return net_set_weights(NULL, file[i % 2], NET_WEIGHTS_BYTES);
    case 1: return net_set_weights(&context, file[i % 2], NET_WEIGHTS_BYTES);
    default: return net_set_input_shape(&context, 0, shape);
    }
}

static aot_status use(int i)
{
    static float x[48], y[320];
    struct tvmgen_net_inputs in = {x};
    struct tvmgen_net_outputs out = {y};
    if (i % 2 == 0)
        return (aot_status)tvmgen_net_run(&in, &out);
    return net_run(&context, NULL, NULL);
}

static void *work(void *uses)
{
    int i;
    for (i = 0; i < 6000; ++i) {
        const aot_status status = uses != NULL ? use(i) : change(i);
        if (status != AOT_OK && status != AOT_BUSY)
            return &context;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t other;
    void *failed;
    FILE *stream = fopen(argv[argc - 1], "rb");
    if (stream == NULL || fread(file[0], 1, NET_WEIGHTS_BYTES, stream) != NET_WEIGHTS_BYTES)
        return 1;
    memcpy(file[1], file[0], NET_WEIGHTS_BYTES);
    if (net_init(&context, arena, NET_ARENA_BYTES) != AOT_OK)
        return 2;
    if (change(0) != AOT_OK || change(1) != AOT_OK || change(2) != AOT_OK)
        return 3;
    pthread_create(&other, NULL, work, argv);
    failed = work(NULL);
    if (failed != NULL)
        return 4;
    pthread_join(other, &failed);
    return failed != NULL ? 5 : 0;
}
"""


def test_what_changes_a_context_that_runs_is_busy(tmp_path: Path) -> None:
    """Weights and shapes are set in one thread, runs are made in another: none sees half of it."""
    rng = np.random.default_rng(5)
    weights = {"w": rng.uniform(-1, 1, (6, 40)).astype(np.float32)}
    proto = model([("MatMul", "x w", "y")], {"x": ["N", 6]}, {"y": ["N", 40]}, weights)
    out = aot.compile(
        proto, tmp_path / "out", name="net", dims={"N": (1, 8)}, io="arena", weights="blob",
        configure=False,
    ).out  # fmt: skip
    toy.configure(out / "bundle", out, cflags="-fsanitize=thread -g")
    toy.run("cmake", "--build", str(out), "--target", "net")
    (tmp_path / "main.c").write_text(SHARED)
    flags = ["-fsanitize=thread", "-g", "-pthread", f"-I{out / 'bundle/include'}"]
    sources = [str(tmp_path / "main.c"), str(out / "lib/libnet.a"), "-lm"]
    toy.run("gcc", *flags, *sources, "-o", str(tmp_path / "app"))
    toy.run(str(tmp_path / "app"), str(out / "bundle/src/net_blob_weights.bin"))
