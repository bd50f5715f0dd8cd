# SPDX-License-Identifier: Apache-2.0
"""com.microsoft.Tokenizer: the words or the characters of texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aot.errors import ModelError, UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.dtypes import U8
from aot.ir.graph_nodes import TEXT, attribute, operand, shape_of, title
from aot.ir.string_rows import encode
from aot.load.encode_strings import encodes, unchanged
from aot.load.regex import Automaton, between, compile_regex
from aot.ops.microsoft import MICROSOFT
from aot.ops.registry import op
from aot.ops.strings import HEADER, STRING, strings
from aot.shapes.dynamic.dims import INT64, DynamicDims, refused
from aot.shapes.dynamic.rules import dynamic
from aot.shapes.types import infer_types
from aot.vendor import Match, Recorder

CUT = "split the texts in the application, and name the words with --cut-inputs WORDS:string"
MARKS = "\x02", "\x03"  # what begins and ends a text, if that is asked for

tokens = op(
    "Tokens",
    "x",
    "y n",
    domain=TEXT,
    mark=0,
    mincharnum=1,
    pad_value="",
    pattern="",
    rules=[encodes.by(unchanged)],
)


# Its result has as many tokens as the data say: `tokenizer_dynamic` bounds them.
infer_types("Tokenizer", MICROSOFT)(lambda node, types: [])


@tokens.check
def of_bytes(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that texts are bytes, and that the padding fits."""
    yield m.x.dtype is U8, f"dtype {m.x.dtype} (needs uint8)"
    width = m.x.shape[-1]
    yield len(m.pad_value.encode()) <= width, f"pad_value {m.pad_value!r} of {width} bytes at most"


@tokens.lower
def tokens_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_text_tokens with the tables of a finite automaton for the pattern."""
    found = compile_regex(str(m.pattern), within=True)
    params = c.params(
        n=strings(m.x),
        most=m.y.shape[-2],
        width=found.table.shape[1],
        least=int(m.mincharnum),
        marks=int(bool(m.mark)),
    )
    tables = (
        c.const(found.table, "table"),
        c.const(found.classes, "classes"),
        c.const(found.accepts, "accepts"),
        c.const(encode([str(m.pad_value)], m.x.shape[-1]), "pad"),
    )
    instance = {"W": m.x.shape[-1]}
    c.call("aot_text_tokens", m.y, m.n, m.x, *tables, params, instance=instance, header=HEADER)


def _pattern(node: ir.Node) -> tuple[str, Automaton]:
    """The pattern of tokens and its automaton; UnsupportedError for one that has none."""
    given = [str(s) for s in attribute(node, "separators", None) or ()]
    try:
        pattern = "." if given == [""] else between(given) if given else ""
        pattern = pattern or str(attribute(node, "tokenexp", ""))
        return pattern, compile_regex(pattern, within=True)
    except UnsupportedError as error:
        raise UnsupportedError(f"{title(node)}: {error.what}", hint=CUT) from None


@dynamic("Tokenizer", MICROSOFT)
def tokenizer_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a Tokenizer: at most as many tokens as the longest text can have.

    Before: y = com.microsoft.Tokenizer(x)      After: y, n = aot.text.Tokens(x)
    """
    data, least = operand(node, 0), int(attribute(node, "mincharnum", 1))
    shape, marks = shape_of(data), int(bool(attribute(node, "mark", 0)))
    if x.run_sizes(data):
        raise refused(node, "gets strings whose number is known at run time only")
    if int(data.dtype or 0) != STRING or len(shape) not in (1, 2) or least < 1:
        what = f"{data.dtype} {list(shape)}, mincharnum {least} (strings, 1 or 2 axes, 1 at least)"
        raise ModelError(f"{title(node)}: {what}")
    pattern, found = _pattern(node)
    gap = int(found.apart)  # a byte between two tokens
    most = (x.sweep.max_string + gap) // (least + gap) + 2 * marks
    pad = str(attribute(node, "pad_value", ""))
    how: dict[str, Any] = {"mark": marks, "mincharnum": least, "pad_value": pad, "pattern": pattern}
    kinds = [(STRING, (*shape, most)), (INT64, (1,))]
    y, n = x.node(node, "Tokens", [data], kinds, TEXT, **how)
    x.substitute(node, y, {len(shape): x.new(n, most)})
