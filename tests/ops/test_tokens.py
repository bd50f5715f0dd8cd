# SPDX-License-Identifier: Apache-2.0
"""Tokenizers, and vectorizers of as many words as a run finds, beside onnxruntime's."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto

import aot
from aot.errors import AotError
from aot.ir.string_rows import encode
from aot.options import Options
from aot.pipeline import compile_model
from graphs import model

MICROSOFT, WIDTH = "com.microsoft", 20
HOW: tuple[dict[str, Any], ...] = (
    {"tokenexp": "[a-z0-9_]+"},
    {"tokenexp": "."},
    {"separators": [""]},
    {"separators": [" +", ",", "[.;]", r"\?"], "mark": 1},
    {"tokenexp": r"\b\w\w+\b", "mincharnum": 3},
    {"tokenexp": r"ab|abc|[é-ü]+|\Bx|^d|c$"},
    {"tokenexp": "[^ ]+", "mark": 1, "mincharnum": 2},
)
TEXTS = "ab cdxé,.;?'3_ü\n A"


def tokenizer(shape: list[int], *how: dict[str, Any], **more: Any) -> ModelProto:
    rows = []
    for i, own in enumerate(how):
        told = {"mark": 0, "mincharnum": 1, "pad_value": "#", **own}
        rows.append((f"{MICROSOFT}.Tokenizer", "x", f"y{i}", told))
    ends = dict.fromkeys(f"y{i}" for i in range(len(how)))
    kinds = dict.fromkeys(("x", *ends), TensorProto.STRING)
    return model(rows, {"x": shape}, ends, dtypes=kinds, domains=[MICROSOFT], opset=18)


def decode(found: np.ndarray) -> Any:
    """The strings of rows of bytes, as nested lists."""
    if found.ndim == 1:
        return found.tobytes().rstrip(b"\0").decode()
    return [decode(row) for row in found]


def drawn(rng: random.Random, most: int) -> list[list[str]]:
    return [["".join(rng.choices(TEXTS, k=rng.randint(0, most))) for _ in "ab"] for _ in "abc"]


def test_equal_to_onnxruntime(tmp_path: Path) -> None:
    proto = tokenizer([3, 2], *HOW)
    run: Any = aot.compile(proto, tmp_path / "out", name="net", max_string=WIDTH).load()
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    rng = random.Random(7)
    for texts in [[[""] * 2] * 3, *(drawn(rng, 11) for _ in range(60))]:
        wanted = session.run(None, {"x": np.array(texts, object)})
        for how, ours, theirs in zip(HOW, run(encode(texts, WIDTH)), wanted, strict=True):
            assert decode(ours) == theirs.tolist(), (how, texts)


@pytest.mark.parametrize("pool", [{"pool_strings": ["ab", "c", "ab", "x"]}, {}])
def test_counts_of_what_a_run_finds(pool: dict[str, Any], tmp_path: Path) -> None:
    """Words become counts; so do the positions of as many elements as are not zero."""
    told = {"ngram_counts": [0, 2], "ngram_indexes": [1, 0, 2], "mode": "TF", "max_skip_count": 1}
    told |= {"min_gram_length": 1, "max_gram_length": 2} | (pool or {"pool_int64s": [0, 1, 0, 2]})
    words = {"mark": 0, "mincharnum": 1, "pad_value": "ab", "tokenexp": "[a-z]+"}
    maker = (f"{MICROSOFT}.Tokenizer", "x", "w", words) if pool else ("NonZero", "x", "w")
    proto = model(
        [maker, ("Flatten", "w", "f"), ("TfIdfVectorizer", "f", "y", told)],
        {"x": [1] if pool else [4]},
        {"y": None},
        dtypes={"x": TensorProto.STRING} if pool else {},
        domains=[MICROSOFT],
        opset=18,
    )
    run: Any = aot.compile(proto, tmp_path / "out", name="net", max_string=WIDTH).load()
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    texts = ["ab c ab", "c ab x x", "", "x"], [[1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1]]
    for given in texts[not pool]:
        x = np.array([given], object) if pool else np.array(given, np.float32)
        (wanted,) = session.run(None, {"x": x})
        assert np.array_equal(run(encode([given], WIDTH) if pool else x), wanted), given


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"separators": ["ab"]}, "no single character"),
        ({"tokenexp": "(?i)a"}, "flags and looking ahead"),
        ({"tokenexp": "a", "mincharnum": 0}, "mincharnum 0"),
    ],
)
def test_refused_by_what_it_is(how: dict[str, Any], why: str) -> None:
    with pytest.raises(AotError, match=why) as error:
        compile_model(tokenizer([2], how), Options(target="x86-64"))
    assert "mincharnum" in why or "--cut-inputs WORDS:string" in error.value.hint
