# SPDX-License-Identifier: Apache-2.0
"""Regular expressions as tables, against Python's on whole strings."""

from __future__ import annotations

import random
import re

import pytest

from aot.errors import UnsupportedError
from aot.load.regex import compile_regex, encoded

PATTERNS = (
    r"www\.[\w.-]+\.\bcom\b",
    r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)",
    r"a*b+c?",
    r"(ab|cd){2,3}",
    r"[^a-c]x.",
    r"\d{3}-\d+",
    r"(a|b)*\Bb",
    r"é+[à-ü]*",
    r".*\b",
    r"",
    r"[]a-]+",
    r"x|",
    r"(?:a(b)?)*?c",
    r"[α-ω中]{1,3}",
    r"\x61\S*\$",
)
ALPHABET = "abcdx1-3.@w comé中üα\nyahgil,{2}]$"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_equal_to_python(pattern: str) -> None:
    table = compile_regex(pattern)
    wanted = re.compile(re.sub(r"(?<!\\)\$", r"\\Z", pattern), re.ASCII)
    rng = random.Random(pattern)
    texts = ["".join(rng.choices(ALPHABET, k=rng.randint(0, 7))) for _ in range(1500)]
    texts += ["www.google.com", "a@gmail.com", " a@yahoo.com,", "ababcd", "123-4", "ab", "aab", "ü"]
    for text in texts:
        assert table.matches(text.encode()) == bool(wanted.fullmatch(text)), text


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a)\1", "\\\\1"),
        (r"(?=a)b", "looking ahead"),
        (r"(?<!a)b", "looking behind"),
        (r"(a", "not closed"),
        (r"a)", "closes nothing"),
        (r"*a", "nothing to repeat"),
        (r"[a", "ends too early"),
        (r"a{2000}", "repetition"),
        (r"[[:alpha:]]", "named classes"),
        (r"\pL", "p"),
        (r"a++", "possessive"),
    ],
)
def test_refused_by_what_it_is(pattern: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        compile_regex(pattern)


def test_utf8_of_ranges() -> None:
    for low, high in ((0, 0x10FFFF), (0x7E, 0x801), (0xFFF0, 0x10010), (0x394, 0x6000)):
        rows = list(encoded(low, high))
        codes = [c for c in range(low, high + 1, 7) if not 0xD800 <= c <= 0xDFFF]
        for code in [*codes, low, high]:
            text = chr(code).encode()
            fits = [
                r
                for r in rows
                if len(r) == len(text)
                and all(a <= b <= c for (a, c), b in zip(r, text, strict=True))
            ]
            assert len(fits) == 1
