# SPDX-License-Identifier: Apache-2.0
"""A program that passed its own arena to NAME_init linked the built-in one too: twice the memory.

"NULL means the built-in arena" was decided inside NAME_init, which thus referred to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from elftools.elf.elffile import ELFFile

import aot
from abi import loader as L, toy
from abi.loader import Library, dl
from aot.target import load_target
from graphs import model
from targets.images import DIGITS, need_tools

#: The last flag as in the bundle's CMakeLists.txt: start-up code has a memset of its own.
CORE = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16",
        "-fno-tree-loop-distribute-patterns")  # fmt: skip
#: Bytes of variables beside the arena: two contexts, what start-up code keeps.
FEW = 256

HEAD = """
#include "board.h"
#include "digits.h"
#include "kws.h"
#include "tvmgen_kws.h"
extern const unsigned char kws_blob_weights[];
#define LARGER (KWS_ARENA_BYTES > DIGITS_ARENA_BYTES ? KWS_ARENA_BYTES : DIGITS_ARENA_BYTES)

/* Fills all bytes of the inputs, runs, gives a sum over all bytes of the outputs. */
#define TASK(name, NAME, WEIGHTS, INPUT, OUTPUT) \\
    static uint32_t name##_task(void *arena) { \\
        static name##_context ctx; \\
        uint32_t sum = 2166136261U; \\
        unsigned char *x; \\
        size_t i; \\
        if (name##_init(&ctx, arena, NAME##_ARENA_BYTES) != AOT_OK || (WEIGHTS) != AOT_OK) \\
            aot_exit(11); \\
        x = (unsigned char *)name##_input(&ctx, 0); \\
        for (i = 0; i < (INPUT); ++i) \\
            x[i] = (unsigned char)(i % 60); \\
        if (name##_run(&ctx, NULL, NULL) != AOT_OK) \\
            aot_exit(12); \\
        x = (unsigned char *)name##_output(&ctx, 0); \\
        for (i = 0; i < (OUTPUT); ++i) \\
            sum = (sum ^ x[i]) * 16777619U; \\
        name##_shutdown(&ctx); \\
        return sum; \\
    }
TASK(kws, KWS, kws_set_weights(&ctx, kws_blob_weights, KWS_WEIGHTS_BYTES), 1960, 48)
TASK(digits, DIGITS, AOT_OK, 256, 40)
static AOT_ALIGNED(16) unsigned char arena[LARGER];
"""
ONE = "int main(void) { return kws_task(arena) != kws_task(arena); }\n"
BOTH = """
int main(void) {
    const uint32_t first = kws_task(arena), second = digits_task(arena);
    return kws_task(arena) != first || digits_task(arena) != second;
}
"""
BUILT_IN = """
int main(void) {
    return kws_task(kws_arena()) != kws_task(arena);
}
"""
PLAIN = """
int main(void) {
    static unsigned char x[TVMGEN_KWS_X_SIZE], y[TVMGEN_KWS_Y_SIZE];
    struct tvmgen_kws_inputs in = {x};
    struct tvmgen_kws_outputs out = {y};
    (void)kws_set_weights(NULL, kws_blob_weights, KWS_WEIGHTS_BYTES);
    return tvmgen_kws_run(&in, &out) | (int)(kws_task(arena) - kws_task(arena));
}
"""
#: Programs that do not ask for the built-in arena, and ones that do.
OWN, ASKING = {"one": ONE, "both": BOTH}, {"built_in": BUILT_IN, "plain": PLAIN}


def keywords() -> onnx.ModelProto:
    """Convolution, depthwise and pointwise convolution, mean, dense, as networks for keywords."""
    rng = np.random.default_rng(3)
    shapes = {"a": (8, 1, 5, 4), "d": (8, 1, 3, 3), "p": (8, 8, 1, 1), "m": (8, 12)}
    rows = [
        ("Conv", "x a", "h", {"strides": [2, 2], "pads": [2, 1, 2, 1]}),
        ("Relu", "h", "r"),
        ("Conv", "r d", "i", {"group": 8, "pads": [1, 1, 1, 1]}),
        ("Conv", "i p", "j"),
        ("Relu", "j", "s"),
        ("GlobalAveragePool", "s", "g"),
        ("Flatten", "g", "f"),
        ("MatMul", "f m", "y"),
    ]
    weights = {n: rng.uniform(-1, 1, s).astype(np.float32) for n, s in shapes.items()}
    return model(rows, {"x": [1, 1, 49, 10]}, {"y": [1, 12]}, weights)


@dataclass(frozen=True)
class Image:
    """`bytes` of each section with writable memory, symbols, and the size of each model's arena."""

    path: Path
    sections: Mapping[str, int]
    symbols: frozenset[str]
    arenas: Mapping[str, int]

    @property
    def variables(self) -> int:
        return self.sections[".data"] + self.sections[".bss"]


@dataclass(frozen=True)
class Board:
    """Both models built in `folder`; `link` gives an image, made the first time."""

    folder: Path
    arenas: Mapping[str, int]
    made: dict[str, Image]

    def link(self, name: str) -> Image:
        """The program of that name, linked without the removal of unused sections."""
        if name not in self.made:
            k, d = self.folder / "k", self.folder / "d"
            main, image = self.folder / f"{name}.c", self.folder / f"{name}.elf"
            main.write_text(HEAD + {**OWN, **ASKING}[name])
            files = [main, d / "bundle/board/startup.c", d / "bundle/board/semihost.c"]
            files += [
                k / "bundle/src/kws_blob_weights.c",
                k / "lib/libkws.a",
                d / "lib/libdigits.a",
            ]
            include = [f"-I{m / 'bundle' / f}" for m in (k, d) for f in ("include", "src", "board")]
            script = ["-nostartfiles", "--specs=nosys.specs", f"-T{d / 'bundle/board/link.ld'}"]
            compiler = ["arm-none-eabi-gcc", "-std=c99", "-Os", *CORE, *include]
            assembler = f"-Wa,-I{k / 'bundle/src'}"
            toy.run(*compiler, assembler, *map(str, files), "-lm", *script, "-o", str(image))
            self.made[name] = look(image, self.arenas)
        return self.made[name]


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    need_tools("cortex-m4")
    folder = tmp_path_factory.mktemp("firmware")
    kws = aot.compile(keywords(), folder / "k", target="cortex-m4", name="kws", weights="blob")
    digits = aot.compile(DIGITS, folder / "d", target="cortex-m4", name="digits")
    arenas = {}
    for bundle, name in ((kws, "kws"), (digits, "digits")):
        toy.run("cmake", "--build", str(bundle.out), "--target", name)
        arenas[name] = int(bundle.manifest["memory"]["arena_bytes"])
    return Board(folder, arenas, {})


def look(image: Path, arenas: Mapping[str, int]) -> Image:
    with image.open("rb") as file:
        elf = ELFFile(file)
        sizes = {s.name: int(s["sh_size"]) for s in elf.iter_sections()}
        names = {s.name for s in elf.get_section_by_name(".symtab").iter_symbols()}
    return Image(image, sizes, frozenset(names), arenas)


@pytest.mark.parametrize("name", list(OWN))
def test_an_arena_of_ones_own_is_the_only_one(board: Board, name: str) -> None:
    image = board.link(name)
    assert image.sections[".arena"] == 0
    assert not image.symbols & {"kws_arena", "digits_arena", "instance"}
    largest = max(image.arenas.values())
    assert largest <= image.variables <= largest + FEW


@pytest.mark.parametrize("name", list(ASKING))
def test_the_built_in_arena_is_there_for_those_who_ask(board: Board, name: str) -> None:
    image = board.link(name)
    assert image.sections[".arena"] >= image.arenas["kws"] > 0
    assert "kws_arena" in image.symbols and "digits_arena" not in image.symbols


@pytest.mark.parametrize("name", [*OWN, *ASKING])
def test_the_images_run(board: Board, name: str) -> None:
    machine = [*load_target("cortex-m4").emulator, "-icount", "shift=0", "-nographic"]
    quiet = ["-monitor", "none", "-serial", "none"]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    toy.run(*machine, *quiet, *semihosting, "-kernel", str(board.link(name).path))


def test_no_arena_is_needed_where_it_is_empty(tmp_path: Path) -> None:
    net = model([("Relu", "x", "y")], {"x": [4]}, {"y": [4]})
    bundle = aot.compile(net, tmp_path, name="net").build()
    assert bundle.manifest["memory"]["arena_bytes"] == 0
    library = Library(bundle.out, "net")
    x, y = np.array([-1, 2, -3, 4], np.float32), np.empty(4, np.float32)
    for start in (library.init, library.init_built_in):
        context = library.context()
        assert start(context) == L.OK
        y[:] = 7
        assert library.run(context, [dl(x)], [dl(y)]) == L.OK
        assert np.array_equal(y, np.maximum(x, 0))
        library.shutdown(context)
