# SPDX-License-Identifier: Apache-2.0
"""TfIdfVectorizer on tokens that are integers, or strings that become their places in a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import S32, S64
from aot.ir.graph_nodes import TEXT, attribute, shape_of, title
from aot.ir.operators import OneOf
from aot.load.encode_strings import Strings, encodes
from aot.normalise.decompose import FLOAT, INT64
from aot.ops.registry import op
from aot.shapes.dynamic.dims import DynamicDims, refused
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.vendor import Match, Recorder
from aot.vendor.cases import Case, case, ints

MODES = ("TF", "IDF", "TFIDF")

tfidf = op(
    "TfIdfVectorizer",
    "x",
    types=(S32, S64),
    max_gram_length=1,
    max_skip_count=0,
    min_gram_length=1,
    mode=OneOf("TF IDF TFIDF", "TF"),
    ngram_counts=(),
    ngram_indexes=(),
    pool_int64s=(),
    pool_strings=(),
    weights=(),
)


def grams(counts: Sequence[int], total: int) -> Iterator[tuple[int, int]]:
    """(position, length) of each n-gram in a pool of `total` tokens, in order.

    `counts` has the position of the first gram of length 1, 2 and so on.
    """
    for n, (first, last) in enumerate(zip(counts, [*counts[1:], total], strict=True), 1):
        for place in range(first, last, n):
            yield place, n


@tfidf.check
def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the pool, its counts, indexes and weights fit each other and the type of x."""
    yield m.x.rank in (1, 2), f"rank {m.x.rank} (needs 1 or 2)"
    yield not m.pool_strings, "a pool of strings for tokens that are none"
    total = len(m.pool_int64s)
    steps = [*m.ngram_counts, total]
    whole = all(b >= a and (b - a) % n == 0 for n, (a, b) in _pairs(steps))
    yield whole, f"ngram_counts {list(m.ngram_counts)} for a pool of {total}"
    # Only counts that fit the pool cut it into n-grams.
    if whole:
        known = len(list(grams(m.ngram_counts, total)))
        yield len(m.ngram_indexes) == known, f"{len(m.ngram_indexes)} ngram_indexes of {known}"
        weighed = m.mode == "TF" or not m.weights or len(m.weights) == known
        yield weighed, f"{len(m.weights)} weights of {known}"
    inside = all(0 <= i < m.y.shape[-1] for i in m.ngram_indexes)
    yield inside, f"ngram_indexes outside 0..{m.y.shape[-1] - 1}"
    lowest = np.iinfo(m.x.dtype.np_name) if m.x.dtype in (S32, S64) else None
    if lowest is not None:
        fits = all(lowest.min <= v <= lowest.max for v in m.pool_int64s)
        yield fits, f"a pool of numbers that are no {m.x.dtype}"


def _pairs(steps: Sequence[int]) -> list[tuple[int, tuple[int, int]]]:
    """(n, (first, last)) of the tokens of n-grams in the pool, n from 1 on."""
    return list(enumerate(pairwise(steps), 1))


@tfidf.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_ngrams: how often each n-gram of the pool occurs in each row of x."""
    pool = np.array(m.pool_int64s, m.x.dtype.numpy)
    number, places, weights = tables(m, len(pool))
    params = c.params(
        rows=1 if m.x.rank == 1 else m.x.shape[0],
        cols=m.x.shape[-1],
        width=m.y.shape[-1],
        grams=number,
        skips=m.max_skip_count,
    )
    c.call(
        "aot_ngrams",
        m.y,
        m.x,
        # C has no empty arrays.
        c.const(pool if pool.size else np.zeros(1, np.int64), "pool"),
        c.const(places, "grams"),
        c.const(weights, "weights"),
        params,
        instance={"MODE": MODES.index(m.mode), "E": m.x.dtype.nbytes},
        header="aot_ngrams.h",
    )


def tables(m: Match, total: int) -> tuple[int, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(number of n-grams, their int32 [grams, 3] of position, length and column, float32 weights).

    Only n-grams of the lengths that are asked for are kept; `total` is the length of the pool.
    """
    rows, kept = [], []
    weights = list(m.weights) or [1.0] * len(m.ngram_indexes)
    for (place, n), column, weight in zip(
        grams(m.ngram_counts, total), m.ngram_indexes, weights, strict=True
    ):
        if m.min_gram_length <= n <= m.max_gram_length:
            rows.append((place, n, column))
            kept.append(weight)
    places = np.array(rows or [(0, 0, 0)], np.int32)
    return len(rows), places, np.array(kept or [0.0], np.float32)


@encodes("TfIdfVectorizer")
def count_words(strings: Strings, node: ir.Node) -> None:
    """Let a TfIdfVectorizer of encoded strings count the places of its words in a table.

    Before: y = TfIdfVectorizer<pool_strings = ["b", "a", "b"]>(x) After: i = aot.text.Find(x, ["a",
    "b"]); y = TfIdfVectorizer<pool_int64s = [1, 0, 1]>(i)
    """
    pool = list(attribute(node, "pool_strings", None) or ())
    words = sorted(set(pool))
    edit, x, old = strings.editor(node), needed(node, 0), node.outputs[0]
    table = edit.const(strings.encoded(np.array(words, object), title(node)), "words")
    place = strings.make(node, "Find", [x, table], INT64, shape_of(x), None, TEXT)
    kept = {n: a.value for n, a in node.attributes.items() if n != "pool_strings"}
    number = {word: i for i, word in enumerate(words)}
    kept["pool_int64s"] = [number[word] for word in pool]
    strings.replace(
        node, strings.make(node, "TfIdfVectorizer", [place], FLOAT, shape_of(old), kept)
    )


@dynamic("TfIdfVectorizer")
def tfidf_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """TfIdfVectorizer of as many tokens as a run says: the padding becomes a token that no n-gram
    has. Dynamic rows pass.
    """
    data = needed(node, 0)
    rank, own = len(shape_of(data)), x.run_sizes(data)
    if rank - 1 in own:
        pool, texts = (attribute(node, f"pool_{k}", None) or () for k in ("int64s", "strings"))
        if "" in texts:
            raise refused(node, "counts empty strings among as many as a run says")
        other: Any = next(i for i in count() if i not in pool)
        if texts:
            other = x.const(node, np.array([""], object), data)
        node.replace_input_with(0, x.neutral(node, data, other, (rank - 1,)))
    pass_on(x, node, {0: own[0]} if rank == 2 and 0 in own else {})


@tfidf.cases
def cases() -> Iterator[Case]:
    """TfIdfVectorizer(X) of integers: every mode, with and without skips."""
    pool: dict[str, Any] = dict(
        ngram_counts=[0, 4],
        ngram_indexes=[0, 1, 2, 3, 4, 5, 6],
        pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
        min_gram_length=1,
        max_gram_length=2,
    )
    x = ints(3, 11, low=1, high=9)
    for mode in MODES:
        weights: dict[str, Any] = {"weights": [0.5, 1.5, 2.0, 3.0, 0.25, 7.0, 1.0]}
        weights = {} if mode == "TF" else weights
        yield case(x, mode=mode, max_skip_count=3, **pool, **weights)
    yield case(x[0].astype("int32"), mode="TF", max_skip_count=0, **pool)
    yield case(x[:, :1], mode="TF", max_skip_count=0, **(pool | {"min_gram_length": 2}))
