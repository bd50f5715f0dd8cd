# SPDX-License-Identifier: Apache-2.0
"""How aot_attention_f32.h and aot_attention_f32__bf16.h compute a head: tiles, packing, scratch."""

from __future__ import annotations

from dataclasses import dataclass

from aot.ops.conv_pack import ceil_div
from aot.ops.conv_plan import TILES
from aot.ops.narrow import row_words

#: Floats of scores that are worth keeping in a first-level cache at a time.
CACHED = 12 * 1024
#: Up to so many queries a head's keys and values are read where they are.
FEW = 2
#: How the kernel works: rows of packed heads, whole heads, single queries.
ROWS, WHOLE, SINGLE = range(3)


def tile(vlen: int, columns: int) -> tuple[int, int]:
    """(pixels, vectors) of the tile family for a product of `columns` columns.

    It is the first family at least as wide as they are, else the widest.
    """
    return next((t for t in TILES[vlen] if t[1] * vlen >= columns), TILES[vlen][-1])


@dataclass(frozen=True, slots=True)
class Plan:
    """How a head is computed: the kernel's way, tiles of both products, queries at a time."""

    how: int
    scores: tuple[int, int]
    values: tuple[int, int]
    rows: int
    floats: int


def plan(
    sq: int, skv: int, depth: int, dv: int, group: int, vlen: int, latency: bool, words: bool
) -> Plan:
    """The way to compute a head that needs the least scratch; heads that share keys pack them once.

    `sq` queries of `depth` floats, `skv` keys and values of `dv`; `group` heads share their keys.
    With `latency` as many queries are computed at a time as keep the scores in a first-level cache.
    With `words` two summands of a product are a word of two bfloat16, also those of the queries.
    """
    scores, values = tile(vlen, skv), tile(vlen, dv)
    sv, dw = ceil_div(skv, vlen) * vlen, ceil_div(dv, vlen) * vlen
    # Packing keys and values costs more than reading them in place once or twice.
    if sq <= FEW:
        return Plan(SINGLE, scores, values, 1, sv)
    tall = max(scores[0], values[0])
    tiles = max(1, CACHED // max(1, sv) // tall) if latency else 1
    rows = min(sq, tiles * tall)
    query = row_words(depth) if words else 0
    depth, skv = (ceil_div(n, 2) if words else n for n in (depth, skv))
    packed = Plan(ROWS, scores, values, rows, depth * sv + skv * dw + rows * (sv + 1 + query))
    panel = max(depth * min(scores[1] * vlen, sv), skv * min(values[1] * vlen, dw))
    whole = Plan(WHOLE, scores, values, sq, sq * (sv + query) + panel)
    return min(packed, whole, key=lambda p: p.floats) if group == 1 else packed
