# SPDX-License-Identifier: Apache-2.0
"""Every value and node gets a C identifier of its own; the user's names stay in the metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import NAME_KEY, all_nodes, inner_graphs, words

#: C99 compilers have to tell 63 characters of a name apart; what is put around it takes a few.
MAX_LENGTH = 56
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*").fullmatch
_ALLOWED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
RESERVED = words(
    """
    alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor
    bool break case catch char char8_t char16_t char32_t class compl complex concept const
    const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend fortran
    goto if imaginary import inline int long module mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public reflexpr register reinterpret_cast requires
    restrict return short signed sizeof static static_assert static_cast struct switch synchronized
    template this thread_local throw true try typedef typeid typename typeof typeof_unqual union
    unsigned using virtual void volatile wchar_t while xor xor_eq final override
    i linux unix arm mips sparc i386 vax pixel vector near far huge interrupt
    null eof assert errno offsetof nan infinity stdin stdout stderr signbit isnan isinf isfinite
    min max main abs exp log sin cos tan pow sqrt floor ceil round fabs memcpy memset memmove
    ctx arena context
    """
)


def identifier(name: str, fallback: str) -> str:
    """`name` as an identifier of C and C++: letters, digits, "_", not reserved, at most MAX_LENGTH
    long.

    `fallback` stands for a name without such characters.
    """
    if len(name) <= MAX_LENGTH and _PLAIN(name) and name.lower() not in RESERVED:
        return name
    cleaned = "".join(c if c in _ALLOWED else "_" for c in name)
    parts = [p for p in cleaned.split("_") if p]
    text = "_".join(parts)
    if len(text) > MAX_LENGTH:
        text = text[-MAX_LENGTH:].partition("_")[2] or text[-MAX_LENGTH:]
    text = text or fallback
    if text[0].isdigit() or text.lower() in RESERVED:
        text = f"{fallback}_{text}"
    return text


class _Scope:
    """Hands out names that differ from all before, also without regard to case."""

    def __init__(self) -> None:
        """Start without names; upper and lower case count as one, as some file systems do."""
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        """`wanted`, or it with the first number that makes a new name; the name is then taken."""
        key = wanted.lower()
        if key not in self._taken:
            self._taken.add(key)
            return wanted
        while True:
            count = self._next.get(key, 0) + 1
            self._next[key] = count
            candidate = f"{wanted}_{count}"
            if candidate.lower() not in self._taken:
                self._taken.add(candidate.lower())
                return candidate


def name_everything(model: ir.Model) -> None:
    """Rename all values and nodes. Inputs and outputs choose first; running it twice is no change.

    The first name a value had is kept under `NAME_KEY`; values and nodes the user never named
    keep none.
    """
    values, nodes = _Scope(), _Scope()
    wanted: list[tuple[ir.Value, str]] = []
    seen: set[int] = set()
    for value, fallback in _values(model.graph):
        if id(value) not in seen:
            seen.add(id(value))
            wanted.append((value, values.unique(identifier(value.name or "", fallback))))
    # Renamed twice, because the new name of one value may still be the old name of another.
    for index, (value, name) in enumerate(wanted):
        if value.name != name:
            _remember(value)
            value.name = f"aot rename {index}"
    for value, name in wanted:
        if value.name != name:
            value.name = name
    for index, node in enumerate(all_nodes(model.graph)):
        name = nodes.unique(identifier(node.name or "", f"{node.op_type}_{index}"))
        if node.name != name:
            _remember(node)
            node.name = name


def remember_names(model: ir.Model) -> None:
    """Note the names inputs, outputs and all else have in the file, before anything is renamed."""
    for value, _ in _values(model.graph):
        _remember(value)
    for node in all_nodes(model.graph):
        _remember(node)


def _remember(thing: ir.Value | ir.Node) -> None:
    """Note the user's name of a value or node, once."""
    if thing.name and not thing.name.startswith("aot rename "):
        thing.metadata_props.setdefault(NAME_KEY, thing.name)


def _values(graph: ir.Graph) -> Iterator[tuple[ir.Value, str]]:
    """Values with the prefix an unnamed one gets: interface first, then constants, then results."""
    for value in graph.inputs:
        yield value, "input"
    for value in graph.outputs:
        yield value, "output"
    for value in graph.initializers.values():
        yield value, "const"
    for index, node in enumerate(graph):
        for value in node.outputs:
            if value.name != "":
                yield value, f"{node.op_type}_{index}_out"
        for inner in inner_graphs(node):
            yield from _values(inner)
