# SPDX-License-Identifier: Apache-2.0
"""Call graphs as gcc writes them (-fcallgraph-info=su), and the deepest chain of calls in one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from aot.errors import BuildError

#: What gcc calls the target of a call through a pointer.
INDIRECT = "__indirect_call"
#: The functions that kernels call through a pointer: these alone (aot_dsp_pixels.h).
POINTED = "aot_dsp_job_"
_NODE = re.compile(r'node: \{ title: "((?:[^"\\]|\\.)*)" label: "((?:[^"\\]|\\.)*)"')
_EDGE = re.compile(r'edge: \{ sourcename: "((?:[^"\\]|\\.)*)" targetname: "((?:[^"\\]|\\.)*)"')
_BYTES = re.compile(r"(\d+) bytes \(([a-z,]+)\)")


@dataclass(frozen=True, slots=True)
class CallGraph:
    """Functions of one or more objects.

    `frames` maps a function to the bytes it takes itself, return address included where the
    machine pushes it; `calls` to the functions it calls, those elsewhere too. Static functions have
    their file before their name. `unbounded` are functions whose frame depends on what they do.
    """

    frames: dict[str, int]
    calls: dict[str, tuple[str, ...]]
    unbounded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """The deepest chain of calls from a function: its functions, the outermost first, its bytes.

    `outside` are all functions without a frame of their own here that the entry may reach.
    """

    bytes: int
    functions: tuple[str, ...]
    outside: tuple[str, ...]


def read_graph(files: Iterable[Path]) -> CallGraph:
    """The call graphs in `files`, as one. BuildError where a file cannot be read."""
    frames: dict[str, int] = {}
    calls: dict[str, dict[str, None]] = {}
    unbounded: dict[str, None] = {}
    for path in files:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise BuildError(f"cannot read {path}: {error.strerror}") from error
        for title, label in _NODE.findall(text):
            found = _BYTES.search(label)
            if not found:
                continue
            # Static functions of several files may have one name: the largest counts.
            frames[title] = max(int(found[1]), frames.get(title, 0))
            if found[2] == "dynamic":
                unbounded[title] = None
        for source, target in _EDGE.findall(text):
            calls.setdefault(source, {})[target] = None
    targets = {f: _pointed(f, each, frames) for f, each in calls.items()}
    return CallGraph(frames, targets, tuple(unbounded))


def _pointed(caller: str, targets: Iterable[str], frames: Iterable[str]) -> tuple[str, ...]:
    """`targets` with those that a call through a pointer may have, of the same source file."""
    found = list(targets)
    if INDIRECT in found:
        file = caller.rpartition(":")[0]
        jobs = [f for f in frames if f.rpartition(":")[0] == file and short(f).startswith(POINTED)]
        if jobs:
            found.remove(INDIRECT)
            found += [j for j in jobs if j not in found]
    return tuple(found)


def short(title: str) -> str:
    """A function's name without its file and the compiler's suffixes."""
    return re.split(r"[:/\\]", title)[-1].partition(".")[0]


def deepest(graph: CallGraph, entry: str, outside: Callable[[str], int]) -> Chain:
    """The deepest chain from `entry`; a function that is not in the graph takes `outside(name)`.

    Raises BuildError for recursion, frames without a bound, and calls through pointers.
    """
    done: dict[str, tuple[int, str]] = {}  # function → bytes below and with it, the next one
    path: dict[str, None] = {}
    stack = [(entry, iter(graph.calls.get(entry, ())))]
    reached: dict[str, None] = {}
    _check(graph, entry, "")
    path[entry] = None
    while stack:
        function, rest = stack[-1]
        for callee in rest:
            if callee in path:
                names = [short(f) for f in path]
                circle = [*names[names.index(short(callee)) :], short(callee)]
                raise BuildError(f"recursion: {' -> '.join(circle)}", _NO_BOUND)
            if callee not in graph.frames:
                if callee == INDIRECT:
                    raise BuildError(f"{short(function)} calls through a pointer", _NO_BOUND)
                reached[callee] = None
                done[callee] = (outside(callee), "")
            elif callee not in done:
                _check(graph, callee, function)
                path[callee] = None
                stack.append((callee, iter(graph.calls.get(callee, ()))))
                break
        else:
            below = [(done[c][0], c) for c in graph.calls.get(function, ())]
            most, following = max(below, key=lambda b: b[0], default=(0, ""))
            done[function] = (graph.frames.get(function, 0) + most, following)
            del path[function]
            stack.pop()
    names = [entry]
    while done[names[-1]][1]:
        names.append(done[names[-1]][1])
    return Chain(done[entry][0], tuple(short(n) for n in names), tuple(sorted(reached)))


_NO_BOUND = "no stack is known to be enough"


def _check(graph: CallGraph, function: str, caller: str) -> None:
    """Raise BuildError if the frame of `function`, called by `caller`, has no bound."""
    if function in graph.unbounded:
        by = f", called by {short(caller)}" if caller else ""
        raise BuildError(f"the frame of {short(function)} has no bound{by}", _NO_BOUND)
