# SPDX-License-Identifier: Apache-2.0
"""C that a reviewer can sign: what each call computes, names, lines as clang-format breaks them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from abi import toy
from aot.emit_c import clang_format
from aot.emit_c.naming import MOST, Names, shortened

_CALL = re.compile(r"^    (?:STEP|TRY)\((\d+),", re.MULTILINE)
_SAID = re.compile(r"/\* [\w +()]+: .*-> ?\w+\[[\d,]*\]", re.DOTALL)


def formatted(text: str) -> str:
    return bytes(clang_format.formatted({"a.c": text.encode()})["a.c"]).decode()


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
@pytest.mark.parametrize("name", ["k", "micro_kws_m_qoperator_second_board"])
def test_every_file_is_as_clang_format_leaves_it(name: str, target: str) -> None:
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
