# SPDX-License-Identifier: Apache-2.0
"""Operators on strings, which are rows of bytes: what the loader makes of ONNX's (`aot.text`)."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Any

import numpy as np

from aot.errors import ModelError, UnsupportedError
from aot.ir.deferred_import import ir
from aot.ir.dtypes import BOOL, S64, U8, DType
from aot.ir.graph_nodes import TEXT, attribute, operand, shape_of, title
from aot.ir.operators import DataSized, OneOf, operator
from aot.ir.string_rows import encode
from aot.load.encode_strings import UINT8, Strings, encodes, unchanged
from aot.load.regex import compile_regex
from aot.ops.registry import op
from aot.shapes.dynamic.dims import INT64, DynamicDims, refused
from aot.shapes.dynamic.rules import BOOL_TYPE, dynamic, needed
from aot.shapes.infer_node import solves
from aot.shapes.partial_values import PartialValues
from aot.shapes.types import Type
from aot.vendor import Case, Match, NodeRef, Pattern, Recorder, ValueRef, case

operator(
    "StringNormalizer",
    "x",
    traits=[DataSized(counts=True)],
    case_change_action=OneOf("NONE LOWER UPPER", "NONE"),
)

HEADER = "aot_text.h"
Types = list[tuple[tuple[int, ...], DType]]
Given = tuple[ValueRef | None, ...]


@solves("StringNormalizer")
def normalizer_type(node: ir.Node, partial_values: PartialValues) -> Type | None:
    """The type of a StringNormalizer that removes no words, that of its input; None for others."""
    data = node.inputs[0] if node.inputs else None
    if data is None or data.dtype is None:
        return None
    return None if attribute(node, "stopwords", None) else (int(data.dtype), shape_of(data))


join = op("Join", "a b", domain=TEXT)
find = op("Find", "x keys", domain=TEXT)
match = op("Match", "x", domain=TEXT, pattern="")
recase = op("Case", "x", domain=TEXT, upper=0)
keep = op(
    "Keep",
    "x",
    "y n",
    domain=TEXT,
    case_change_action="NONE",
    is_case_sensitive=0,
    locale="",
    stopwords=(),
)
split = op("Split", "x", "y counts n", domain=TEXT, delimiter="", maxsplit=-1)


def strings(value: ValueRef) -> int:
    """How many strings a value holds; its last axis are the bytes of one."""
    return math.prod(value.shape[:-1])


@join.infer
def join_types(node: NodeRef, inputs: Given) -> Types:
    """The type of Join's result: bytes in the broadcast shape."""
    a, b = (v.shape for v in inputs if v is not None)
    return [(tuple(np.broadcast_shapes(a, b)), U8)]


@recase.infer
def recase_types(node: NodeRef, inputs: Given) -> Types:
    """The type of Case's result: that of its input."""
    assert inputs[0] is not None
    return [(inputs[0].shape, U8)]


@find.infer
def find_types(node: NodeRef, inputs: Given) -> Types:
    """The type of Find's result: an int64 per string."""
    assert inputs[0] is not None
    return [(inputs[0].shape[:-1], S64)]


@match.infer
def match_types(node: NodeRef, inputs: Given) -> Types:
    """The type of Match's result: a bool per string."""
    assert inputs[0] is not None
    return [(inputs[0].shape[:-1], BOOL)]


def _bytes(pattern: Pattern) -> None:
    """Add the check to a pattern that all its inputs are bytes."""

    @pattern.check
    def supported(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that all inputs are uint8."""
        for _, value in m.inputs():
            yield value.dtype is U8, f"dtype {value.dtype} (needs uint8)"


for _pattern in (join, find, match, recase, keep, split):
    _bytes(_pattern)


@join.check
def broadcasts(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that each operand has one string, or as many as the result."""
    for value in (m.a, m.b):
        yield strings(value) in (1, strings(m.y)), f"{list(value.shape)} for {list(m.y.shape)}"


@join.lower
def join_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_text_join; the run fails if a joined string is too long."""
    n = strings(m.y)
    params = c.params(n=n, a=int(strings(m.a) == n), b=int(strings(m.b) == n))
    call(c, "aot_text_join", m, m.y, m.a, m.b, params, status=True)


def call(c: Recorder, kernel: str, m: Match, *operands: Any, status: bool = False) -> None:
    """Record `kernel` for strings of as many bytes (instance W) as the match's first input has."""
    width = next(v for _, v in m.inputs()).shape[-1]
    c.call(kernel, *operands, instance={"W": width}, header=HEADER, status=status)


@find.check
def constant_keys(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the keys are constant."""
    yield m.keys.is_const, "keys are computed at run time (need constants)"


@find.lower
def find_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_text_find with the keys sorted by bytes, and the position that each had before."""
    keys = np.asarray(m.keys.data)
    order = sorted(range(len(keys)), key=lambda i: (keys[i].tobytes(), i))
    params = c.params(n=strings(m.x), keys=len(keys))
    table, places = c.const(keys[order], "keys"), c.const(np.array(order, np.int32), "order")
    call(c, "aot_text_find", m, m.y, m.x, table, places, params)


@match.lower
def match_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_text_match with the tables of a finite automaton for the pattern."""
    found = compile_regex(str(m.pattern))
    params = c.params(n=strings(m.x), width=found.table.shape[1])
    tables = (
        c.const(found.table, "table"),
        c.const(found.classes, "classes"),
        c.const(found.accepts, "accepts"),
    )
    call(c, "aot_text_match", m, m.y, m.x, *tables, params)


@cache
def case_pairs(upper: bool) -> np.ndarray[Any, Any]:
    """Code points that have exactly one other in upper (or lower) case, and that one: uint32
    [pairs, 2].
    """
    rows = []
    for code in range(sys.maxunicode + 1):
        other = chr(code).upper() if upper else chr(code).lower()
        if len(other) == 1 and ord(other) != code:
            rows.append((code, ord(other)))
    return np.array(rows, np.uint32)


@recase.lower
def recase_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_text_case; the run fails if a string grows too long."""
    pairs = case_pairs(bool(m.upper))
    params = c.params(n=strings(m.x), pairs=len(pairs))
    call(c, "aot_text_case", m, m.y, m.x, c.const(pairs, "pairs"), params, status=True)


@keep.check
def known_action(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of the case action, one row of strings, and stop words that fit a string's bytes."""
    action = m.case_change_action
    yield action in ("NONE", "LOWER", "UPPER"), f"case_change_action {action!r}"
    yield m.x.rank in (2, 3) and strings(m.x) == m.x.shape[-2], f"{list(m.x.shape[:-1])} strings"
    width = m.x.shape[-1]
    long = [w for w in m.stopwords if len(w.encode()) > width]
    yield not long, f"the stop word {long[:1]} has more than {width} bytes"


@keep.lower
def keep_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_text_keep: strings that are no stop words, in their new case, and their number."""
    width, words = m.x.shape[-1], [str(w) for w in m.stopwords]
    none = np.zeros((1, 2), np.uint32)
    lower = none if m.is_case_sensitive else case_pairs(False)
    pairs = none
    if m.case_change_action != "NONE":
        pairs = case_pairs(m.case_change_action == "UPPER")
    # Stop words get their case here, once; strings get it in every run.
    if not m.is_case_sensitive:
        words = [recased(w, False) for w in words]
    params = c.params(
        n=strings(m.x),
        most=m.y.shape[-2],
        stops=len(words),
        pairs=0 if pairs is none else len(pairs),
        lower=0 if lower is none else len(lower),
    )
    tables = (c.const(encode(words or [""], width), "stops"), c.const(pairs), c.const(lower))
    work = c.scratch(width)
    call(c, "aot_text_keep", m, m.y, m.n, m.x, *tables, work, params, status=True)


def recased(text: str, upper: bool) -> str:
    """`text` in upper or lower case, letter by letter as the kernels change it."""
    pairs = dict(case_pairs(upper).tolist())
    return "".join(chr(pairs.get(ord(ch), ord(ch))) for ch in text)


@split.lower
def split_to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_text_split: the pieces of each string, and how many each has."""
    mark = np.frombuffer(m.delimiter.encode() or bytes(1), np.uint8)
    params = c.params(
        n=strings(m.x),
        most=m.y.shape[-2],
        splits=max(-1, m.maxsplit),
        mark=len(m.delimiter.encode()),
    )
    counts = m.counts or c.temp(m.x.shape[:-1], S64, name="counts")
    call(c, "aot_text_split", m, m.y, counts, m.n, m.x, c.const(mark, "mark"), params)


# -- cases -----------------------------------------------------------------------------------


@join.cases
def join_cases() -> Iterator[Case]:
    """StringConcat(X, Y): alike, one for all. A text is an axis of bytes behind the others."""
    a, b = ["ab", "", "été", "12345"], ["x", "", "中", "678"]
    both = [x + y for x, y in zip(a, b, strict=True)]
    yield case(encode(a, 8), encode(b, 8), expected=(encode(both, 8),))
    yield case(encode(a, 8), encode("z", 8), expected=(encode([x + "z" for x in a], 8),))


@find.cases
def find_cases() -> Iterator[Case]:
    """Texts looked up among constant ones: their numbers, the count of keys where absent."""
    keys = encode(["cat", "dog", "", "catfish1"], 8)
    x = encode([["dog", "cat"], ["cow", ""], ["catfish1", "catfish"]], 8)
    yield case(x, keys, const=(1,), expected=(np.array([[1, 0], [4, 2], [3, 4]]),))


@match.cases
def match_cases() -> Iterator[Case]:
    """Texts, of which some match a regular expression as a whole."""
    x = encode(["www.a.com", "www.com", "", "www.été.com"], 14)
    yield case(x, pattern=r"www\..+\.com", expected=(np.array([True, False, False, True]),))


@recase.cases
def recase_cases() -> Iterator[Case]:
    """Texts in lower and in upper case; a letter without one upper letter stays."""
    texts = ["Monday", "ÉTÉ 12", "ßa", "\u1e9e", ""]
    lower = ["monday", "été 12", "ßa", "ß", ""]
    yield case(encode(texts, 10), expected=(encode(lower, 10),))
    upper = ["MONDAY", "ÉTÉ 12", "ßA", "\u1e9e", ""]
    yield case(encode(texts, 10), upper=1, expected=(encode(upper, 10),))


STRING = 8


def _source(x: DynamicDims, node: ir.Node) -> ir.Value:
    """Input 0, the strings; UnsupportedError if their number is known at run time only."""
    data = operand(node, 0)
    if x.run_sizes(data):
        raise refused(node, "gets strings whose number is known at run time only")
    return data


@dynamic("StringNormalizer")
def normalizer_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a StringNormalizer that removes words: at most as many strings as there are, one at
    least.

    Before: y = StringNormalizer(x)      After: y, n = aot.text.Keep(x), in the same attributes
    """
    data = _source(x, node)
    shape = shape_of(data)
    most = max(shape[-1], 1)
    kinds = [(STRING, (*shape[:-1], most)), (INT64, (1,))]
    held: dict[str, Any] = {k: node.attributes[k] for k in sorted(node.attributes)}
    y, n = x.node(node, "Keep", [data], kinds, TEXT, **held)
    x.substitute(node, y, {len(shape) - 1: x.new(n, most)})


@dynamic("StringSplit")
def splitter_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Replace a StringSplit: at most as many pieces as the longest string can have.

    Before: y, counts = StringSplit(x)   After: y, counts, n = aot.text.Split(x)
    """
    data = _source(x, node)
    shape = shape_of(data)
    width = x.sweep.max_string
    mark = str(attribute(node, "delimiter", "")).encode()
    # Between marks there may be nothing; between spaces there is at least one character.
    most = width // len(mark) + 1 if mark else (width + 1) // 2
    splits = attribute(node, "maxsplit", None)
    if splits is not None and int(splits) >= 0:
        most = min(most, int(splits) + 1)
    if not prod(shape):
        most = 0
    kinds = [(STRING, (*shape, most)), (INT64, shape), (INT64, (1,))]
    how = {"delimiter": mark.decode(), "maxsplit": -1 if splits is None else int(splits)}
    y, counts, n = x.node(node, "Split", [data], kinds, TEXT, **how)
    x.become(node.outputs[0], y, {len(shape): x.new(n, most)} if most else {})
    if len(node.outputs) > 1 and node.outputs[1].name:
        x.become(node.outputs[1], counts, {})
    x.drop(node)


encodes("Keep Split", TEXT)(unchanged)


@encodes("StringConcat")
def concat_strings(s: Strings, node: ir.Node) -> None:
    """Replace a StringConcat of encoded strings by a Join of bytes.

    Before: y = StringConcat(a, b)      After: y = aot.text.Join(a, b)
    """
    shape = (*shape_of(node.outputs[0]), s.width)
    parts = []
    for value in (needed(node, 0), needed(node, 1)):
        own = shape_of(value)
        if own != shape[:-1] and prod(own) != 1:
            value = s.make(node, "Expand", [value, s.ints(node, shape)], UINT8, shape)
        parts.append(value)
    s.replace(node, s.make(node, "Join", parts, UINT8, shape, domain=TEXT))


@encodes("RegexFullMatch")
def match_strings(s: Strings, node: ir.Node) -> None:
    """Replace a RegexFullMatch of encoded strings by a Match.

    Raises UnsupportedError for a pattern that needs more than a finite automaton.
    """
    pattern = str(attribute(node, "pattern", ""))
    try:
        compile_regex(pattern)
    except UnsupportedError as error:
        raise UnsupportedError(f"{title(node)}: {error.what}", hint=error.hint) from None
    shape, told = shape_of(node.outputs[0]), {"pattern": pattern}
    s.replace(node, s.make(node, "Match", [needed(node, 0)], BOOL_TYPE, shape, told, TEXT))


@encodes("StringNormalizer")
def normalise_strings(s: Strings, node: ir.Node) -> None:
    """Replace a StringNormalizer of encoded strings that only changes their case.

    Raises UnsupportedError for stop words, ModelError for an unknown action.
    """
    if attribute(node, "stopwords", None):
        what = "which strings are left depends on the data"
        raise UnsupportedError(f"{title(node)}: {what} (not supported yet)")
    action = str(attribute(node, "case_change_action", "NONE"))
    shape, new = (*shape_of(node.outputs[0]), s.width), needed(node, 0)
    if action in ("LOWER", "UPPER"):
        upper = {"upper": int(action == "UPPER")}
        new = s.make(node, "Case", [new], UINT8, shape, upper, TEXT)
    elif action != "NONE":
        raise ModelError(f"{title(node)}: case_change_action {action!r}")
    s.replace(node, s.make(node, "Identity", [new], UINT8, shape))
