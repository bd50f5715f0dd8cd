# SPDX-License-Identifier: Apache-2.0
"""The tests of runtime_c/tests, in C alone: they pass, and they reach every header of kernels."""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from needs import need

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "runtime_c" / "kernels"
TESTS = ROOT / "runtime_c" / "tests"
WIDTHS = (1, 4, 8, 16)

MARKER = re.compile(r'^# \d+ "([^"]*)"', re.M)
FUNCTION = re.compile(r"\bstatic (?:inline )?[^;{}=]*?\b(\w+)\s*\([^;{}]*\)\s*\{")
NAME = re.compile(r"\baot_\w+")


def pieces(source: Path) -> Iterator[tuple[str, str]]:
    """(file, text) in the order in which the preprocessor reads them for a test."""
    words = [need("gcc"), "-E", "-std=c99", "-DAOT_VLEN=4", "-DAOT_INLINE=static inline"]
    words += [f"-I{TESTS}", f"-I{KERNELS}", f"-I{ROOT}/runtime_c/include", str(source)]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    parts = MARKER.split(text)
    for file, part in zip(parts[1::2], parts[2::2], strict=True):
        yield Path(file).name, part.partition("\n")[2]


def functions(text: str) -> Iterator[tuple[str, str]]:
    """(name, body) of every function that a text defines."""
    for found in FUNCTION.finditer(text):
        at, depth = found.end(), 1
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        yield found[1], text[found.start(1) + len(found[1]) : at]


def reached(source: Path) -> dict[str, tuple[set[str], set[str]]]:
    """For each header of kernels that a test includes: its functions, and those the test calls.

    A call is direct or by way of other functions of kernels.
    """
    texts: dict[str, str] = defaultdict(str)
    for file, text in pieces(source):
        texts[file] += text
    bodies: dict[str, str] = {}
    homes: dict[str, set[str]] = {}
    for file, text in texts.items():
        if (KERNELS / file).is_file():
            found = dict(functions(text))
            homes[file] = set(found)
            bodies |= found
    called: set[str] = set()
    waiting = set(NAME.findall(texts[source.name])) & bodies.keys()
    while waiting:
        called |= waiting
        waiting = {n for f in waiting for n in NAME.findall(bodies[f])} & bodies.keys() - called
    return {file: (names, names & called) for file, names in homes.items()}


@cache
def coverage() -> dict[str, tuple[set[str], set[str]]]:
    """What all tests together reach: by header, its functions and the called ones."""
    total: dict[str, tuple[set[str], set[str]]] = {}
    for source in sorted(TESTS.glob("test_*.c")):
        for file, (names, called) in reached(source).items():
            old = total.get(file, (set(), set()))
            total[file] = (old[0] | names, old[1] | called)
    return total


def test_every_header_has_a_test() -> None:
    """A header of assembly for other processors, in which nothing is left here, is included, or a
    header that has a test includes it where a processor has the unit.
    """
    headers = {p.name for p in KERNELS.glob("*.h")}
    found = coverage()
    texts = [(KERNELS / h).read_text() for h in found if (KERNELS / h).is_file()]
    headers -= {h for text in texts for h in re.findall(r'#include "(aot_\w+\.h)"', text)}
    hint = "write or extend a runtime_c/tests/test_*.c that includes them and calls their functions"
    assert headers - found.keys() == set(), hint
    assert {h for h, (names, called) in found.items() if names and not called} == set(), hint


def ctest(build: Path, *options: str) -> None:
    """Configures, builds and runs the project; its output is in the failure."""
    jobs = str(min(os.cpu_count() or 1, 2))
    for words in (
        [need("cmake"), "-S", str(TESTS), "-B", str(build), *options],
        ["cmake", "--build", str(build), "--parallel", jobs],
        ["ctest", "--test-dir", str(build), "--output-on-failure", "--parallel", jobs],
    ):
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-8000:]}"
    programs = {p.stem for p in TESTS.glob("test_*.c")}
    assert int(re.findall(r"out of (\d+)", done.stdout)[0]) >= len(programs) > 0


def test_kernels_pass_at_the_native_width(tmp_path: Path) -> None:
    ctest(tmp_path, "-DCMAKE_C_FLAGS_RELEASE=-O1")


@pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="every width, sanitised: AOT_FULL=1")
@pytest.mark.parametrize("sanitize", ["ON", "OFF"])
@pytest.mark.parametrize("width", WIDTHS)
def test_kernels_pass_at_every_width(tmp_path: Path, width: int, sanitize: str) -> None:
    level = "-O1" if sanitize == "ON" else "-O3"
    options = (f"-DVLEN={width}", f"-DSANITIZE={sanitize}", f"-DCMAKE_C_FLAGS_RELEASE={level}")
    ctest(tmp_path, *options)
