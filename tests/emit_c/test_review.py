# SPDX-License-Identifier: Apache-2.0
"""C that a reviewer can sign: what each call computes, names, lines as clang-format breaks them."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from abi import toy
from aot.emit_c import wrapping
from aot.emit_c.naming import MOST, Names, shortened

ROOT = Path(__file__).resolve().parents[2]
_CALL = re.compile(r"^    (?:STEP|TRY)\((\d+),", re.MULTILINE)
_SAID = re.compile(r"/\* [\w +()]+: .*-> ?\w+\[[\d,]*\]", re.DOTALL)


def formatted(text: str) -> str:
    if shutil.which("clang-format") is None:
        pytest.skip("clang-format is not installed")
    words = ["clang-format", f"--style=file:{ROOT / '.clang-format'}"]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("program", [toy.mlp(), toy.mlp(hidden=1024), toy.mixed()])
def test_every_call_says_operators_types_and_nodes(program) -> None:
    text = bytes(toy.emit(program)[f"src/{program.name}_run.c"]).decode()
    for call in _CALL.finditer(text):
        above = text[: call.start()].rstrip()
        assert above.endswith("*/")
        said = above[above.rindex("/*") :]
        assert _SAID.match(said) and "..." not in said, said
    assert len(_CALL.findall(text)) == len(program.calls)
    assert max(map(len, text.splitlines())) <= 100
    code = re.sub(r'/\*.*?\*/|"(?:[^"\\]|\\.)*"', "", text, flags=re.DOTALL)
    assert max(map(len, re.findall(r"[A-Za-z_]\w*", code))) <= MOST
    assert formatted(text) == text


@pytest.mark.parametrize("target", ["x86-64", "cortex-m4"])
@pytest.mark.parametrize("name", ["k", "kws"])
def test_every_file_is_as_clang_format_leaves_it(name: str, target: str) -> None:
    """With a short name; a long one makes some lines too long by a word."""
    files = toy.emit(replace(toy.mixed(), name=name), target)
    own = [p for p in files if p.endswith((".c", ".h")) and not p.startswith("src/kernels/")]
    own = [p for p in own if name in p or not p.startswith("host/")]
    assert len(own) > 10
    for path in own:
        text = bytes(files[path]).decode()
        assert formatted(text) == text, path
        assert max(map(len, text.splitlines())) <= 100, path
    assert (f"src/{name}_ffi.c" in files) == (target == "x86-64")


def test_names_are_short_unique_and_the_same_again() -> None:
    names = Names()
    layer = "model_block_" + "_".join(f"layer{i}_conv" for i in range(20))
    first, second = names.name("BUF_", "p", layer), names.name("BUF_", "q", layer)
    assert first != second and first == names.name("BUF_", "p", layer)
    assert max(len(first), len(second)) <= MOST and "layer19_conv" in second
    assert shortened("x" * 90, MOST) == "x" * MOST and shortened("conv1", MOST) == "conv1"


def test_lines_break_where_clang_format_breaks_them() -> None:
    rng = random.Random(0)

    def word(low: int, high: int) -> str:
        return "".join(rng.choice("abcdefgh") for _ in range(rng.randint(low, high)))

    bodies, heads = [], []
    for _ in range(80):
        count = rng.randint(1, 9)
        items = [rng.choice(["BUF_", "CONST_", "&p", "c_"]) + word(1, 34) for _ in range(count)]
        name = "k0_" + word(4, 34)
        bodies += [wrapping.call(name, items), wrapping.nested("STEP", ["12"], name, items)]
        bodies += [wrapping.nested("REGION", [], name, items)]
        bodies += [wrapping.assigned("status", name, items, 4)]
        declared = [rng.choice(["const void *x", "const aot_conv_params *p"]) + i for i in "abcd"]
        head = f"AOT_NOINLINE static aot_status {name}"
        heads.append(wrapping.call(head, declared[:count], " {", 0) + "\n    return 0;\n}\n")
    text = "\n".join([*heads, "void all(void) {", *bodies, "}", ""])
    assert formatted(text) == text
