# SPDX-License-Identifier: Apache-2.0
"""Strings: rows of bytes in a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import aot
from aot.cli import main
from aot.errors import AotError, UnsupportedError
from aot.ir.string_rows import encode

HEAD = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 4]>\n'
WIDTH = 12


def text(body: str) -> onnx.ModelProto:
    return parser.parse_model(HEAD + body)


def decode(found: np.ndarray) -> Any:
    """The strings of rows of bytes, as nested lists."""
    if found.ndim == 1:
        return found.tobytes().rstrip(b"\0").decode()
    return [decode(row) for row in found]


def test_the_manifest_says_what_is_text_and_bench_makes_it_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = text(
        """g (string[4] x, float[4] f) => (string[4] y, float[4] n) {
            y = StringConcat(x, x)
            n = Neg(f)
        }"""
    )
    bundle = aot.compile(proto, tmp_path / "out", max_string=4).build()
    ends = [*bundle.manifest["inputs"], *bundle.manifest["outputs"]]
    assert [e["name"] for e in ends if e.get("text")] == ["x", "y"]
    # Bytes that are made up fill the four of a string, and twice as many do not fit.
    assert main(["bench", str(bundle.out), "--repeat", "3"]) == 0
    assert main(["bench", str(bundle.out), "--repeat", "3", "--per-node"]) == 0
    assert "aot_text_join" in capsys.readouterr().out


def load(proto: onnx.ModelProto, tmp_path: Path) -> Any:
    return aot.compile(proto, tmp_path / "out", name="net", max_string=WIDTH).load()


def test_what_moves_strings_and_compares_them(tmp_path: Path) -> None:
    proto = text(
        """g (string[2, 3] x, string[3] w) => (string[3, 2] t, string[1, 3] r, bool[2, 3] e,
                                               string[2, 3] p, string[2, 6] c, int64[2] n) {
            t = Transpose<perm = [1, 0]>(x)
            i = Constant<value = int64[1] {-1}>()
            r = Gather<axis = 0>(x, i)
            e = Equal(x, w)
            p = Where(e, x, w)
            c = Concat<axis = -1>(x, p)
            n = Shape(x)
        }"""
    )
    x = [["one", "two", "été"], ["", "two", "exactly12bts"]]
    w = ["one", "2", "exactly12bts"]
    t, r, e, p, c, n = load(proto, tmp_path)(encode(x, WIDTH), encode(w, WIDTH))
    assert decode(t) == [list(row) for row in zip(*x, strict=True)]
    assert decode(r) == [x[1]]
    assert e.tolist() == [[a == b for a, b in zip(row, w, strict=True)] for row in x]
    assert decode(p) == [w, ["one", "2", "exactly12bts"]]
    assert decode(c) == [row + other for row, other in zip(x, decode(p), strict=True)]
    assert n.tolist() == [2, 3]


def test_concat_case_and_length(tmp_path: Path) -> None:
    proto = text(
        """g (string[2] a, string[1] b) => (string[2] y, string[2] u) {
            y = StringConcat(a, b)
            u = StringNormalizer<case_change_action = "UPPER", is_case_sensitive = 1>(y)
        }"""
    )
    run = load(proto, tmp_path)
    y, u = run(encode(["Ab", "é中"], WIDTH), encode(["c"], WIDTH))
    assert decode(y) == ["Abc", "é中c"]
    assert decode(u) == ["ABC", "É中C"]
    with pytest.raises(AotError, match="too long"):
        run(encode(["twelve bytes", "x"], WIDTH), encode(["c"], WIDTH))


def test_labels_and_patterns(tmp_path: Path) -> None:
    proto = text(
        """g (string[4] x) => (float[4] f, string[4] s, bool[4] m) {
            f = ai.onnx.ml.LabelEncoder<keys_strings = ["cat", "dog"],
                values_floats = [0.5, 1.5], default_float = 9.0>(x)
            i = ai.onnx.ml.LabelEncoder<keys_strings = ["dog", "cat"],
                values_int64s = [7, 8], default_int64 = 6>(x)
            s = ai.onnx.ml.LabelEncoder<keys_int64s = [6, 7], values_strings = ["none", "hund"],
                default_string = "katze">(i)
            m = RegexFullMatch<pattern = "[cd](at|og)s?">(x)
        }"""
    )
    f, s, m = load(proto, tmp_path)(encode(["dog", "cat", "dogs", ""], WIDTH))
    assert f.tolist() == [1.5, 0.5, 9.0, 9.0]
    assert decode(s) == ["hund", "katze", "none", "none"]
    assert m.tolist() == [True, True, True, False]


def test_what_is_refused() -> None:
    from aot.options import Options
    from aot.pipeline import compile_model

    long = text(
        'g (string[1] x) => (bool[1] y) { c = Constant<value = string[1] {"abcdef"}>() '
        "y = Equal(x, c) }"
    )
    with pytest.raises(UnsupportedError, match="max-string 4") as error:
        compile_model(long, Options(target="x86-64", max_string=4))
    assert "a larger --max-string" in error.value.hint
    cast = text("g (string[2] x) => (float[2] y) { y = Cast<to = 1>(x) }")
    with pytest.raises(UnsupportedError, match=r"Cast.*not supported on strings"):
        compile_model(cast, Options(target="x86-64"))


def test_words_that_are_left_and_pieces(tmp_path: Path) -> None:
    proto = text(
        """g (string[5] x) => (string[N] y, string[5, M] p, int64[5] n, string[5, K] q) {
            y = StringNormalizer<case_change_action = "UPPER", is_case_sensitive = 0,
                stopwords = ["a b", "ÉTÉ"]>(x)
            p, n = StringSplit(x)
            q, more = StringSplit<delimiter = "--", maxsplit = 2>(x)
        }"""
    )
    run = load(proto, tmp_path)
    for x in (
        ["A b", "été", "x--y----z", " a  bc ", ""],
        ["a B", "A B", "été", "Été", "a b"],
        ["a b c d e f", "--", "--------", "twelve--byte", "\t"],
    ):
        y, p, n, q = run(encode(x, WIDTH))
        left = [w.upper() for w in x if w.lower() not in ("a b", "été")]
        assert decode(y) == (left or [""])
        assert n.tolist() == [len(w.split()) for w in x]
        for found, wanted in ((p, [w.split() for w in x]), (q, [w.split("--", 2) for w in x])):
            most = max(map(len, wanted))
            assert decode(found) == [row + [""] * (most - len(row)) for row in wanted]
