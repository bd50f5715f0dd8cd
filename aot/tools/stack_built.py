# SPDX-License-Identifier: Apache-2.0
"""The worst stack of every entry of a built bundle, from the call graphs that gcc left."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aot.errors import BuildError, some
from aot.plan.stack import outside
from aot.tools.call_graph import CallGraph, deepest, read_graph, short
from aot.tools.run import Built


@dataclass(frozen=True, slots=True)
class Bound:
    """What an entry takes at most: `bytes`, return addresses included, by the chain `functions`.

    `outside` are functions of the C library and the compiler that it may reach and that are counted
    as aot/plan/stack/outside.py says; `unknown` others, which are not counted (a vendor's library).
    """

    entry: str
    bytes: int
    functions: tuple[str, ...]
    outside: tuple[str, ...]
    unknown: tuple[str, ...]


def bounds(built: Built) -> tuple[Bound, ...]:
    """The bound of every entry of the library, the largest first.

    Raises BuildError for what has no bound: see `deepest`.
    """
    graph = read_graph(graphs(built))
    more = unseen(str(built.target.get("arch", "")), built.out / "bundle" / "src" / "kernels")
    found = [_bound(graph, e, more) for e in entries(built) if e in graph.frames]
    return tuple(sorted(found, key=lambda b: (-b.bytes, b.entry)))


def graphs(built: Built) -> list[Path]:
    """The call graphs of the library's objects; none if another compiler than gcc built them."""
    folder = built.out / "CMakeFiles" / f"{built.name}-objects.dir"
    return sorted(folder.rglob("*.ci"))


def entries(built: Built) -> list[str]:
    """Functions that the public headers name."""
    folder = built.out / "bundle" / "include"
    names: dict[str, None] = {}
    for header in (f"{built.name}.h", f"tvmgen_{built.name}.h"):
        text = (folder / header).read_text(encoding="ascii", errors="replace")
        names.update(dict.fromkeys(re.findall(rf"\b((?:tvmgen_)?{built.name}_\w+)\s*\(", text)))
    return list(names)


def unseen(arch: str, kernels: Path) -> int:
    """Bytes that gcc does not see on this machine, given the headers in `kernels`."""
    if arch == "x86_64":
        return outside.RED_ZONE
    headers = sorted(kernels.glob("*.h")) if arch == "arm" else ()
    pushes = any('"push {' in h.read_text(encoding="utf-8") for h in headers)
    return outside.ASSEMBLY if pushes else 0


def _bound(graph: CallGraph, entry: str, more: int) -> Bound:
    """The bound on the stack of `entry` in bytes, with `more` added, and functions outside of the
    graph.
    """
    chain = deepest(graph, entry, lambda name: max(0, outside.of(short(name))))
    names = dict.fromkeys(short(n) for n in chain.outside)
    known = tuple(n for n in names if outside.known(n))
    unknown = tuple(n for n in names if not outside.known(n))
    return Bound(entry, chain.bytes + more, chain.functions, known, unknown)


@dataclass(frozen=True, slots=True)
class Stack:
    """What a build takes of the stack: `bytes` by the entry `entry`, None if not known here.

    `declared` is the manifest's bound, None for want of figures for the kernels `unmeasured`;
    `chain` the functions from the entry down, `unknown` what a vendor's library does below that.
    """

    bytes: int | None
    declared: int | None
    unmeasured: tuple[str, ...] = ()
    entry: str = ""
    chain: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def text(self) -> str:
        """One line."""
        if self.bytes is None:
            if self.declared is None:
                why = f": no figure for {some(self.unmeasured)}" if self.unmeasured else ""
                return f"stack  unknown{why}"
            return f"stack  {self.declared} bytes at most, as declared"
        more = f"; without {', '.join(self.unknown[:3])}" if self.unknown else ""
        told = "none declared" if self.declared is None else f"declared {self.declared}"
        return f"stack  {self.bytes} bytes at most ({' -> '.join(self.chain[-3:])}{more}), {told}"


def stack_of(built: Built) -> Stack:
    """The stack of a build. Without call graphs what the manifest declares.

    Raises BuildError if there is no bound.
    """
    without = declared(built.manifest)
    if not graphs(built):
        return without
    found = bounds(built)
    worst = found[0]
    unknown = tuple(dict.fromkeys(n for b in found for n in b.unknown))
    return replace(
        without, bytes=worst.bytes, entry=worst.entry, chain=worst.functions, unknown=unknown
    )


def declared(manifest: dict[str, Any]) -> Stack:
    """What a manifest says of the stack; bundles of earlier versions say nothing."""
    memory = manifest["memory"]
    stack_bytes = memory.get("stack_bytes")
    unmeasured = tuple(str(k) for k in memory.get("stack_unmeasured", ()))
    return Stack(None, None if stack_bytes is None else int(stack_bytes), unmeasured)


def checked(stack: Stack, built: Built) -> Stack:
    """`stack`; BuildError if the build was optimised and takes more than its manifest declares."""
    if stack.bytes is None or stack.declared is None:
        return stack
    if stack.bytes > stack.declared and optimised(built):
        raise BuildError(
            f"{stack.entry} may take {stack.bytes} bytes of stack, declared are {stack.declared}",
            " -> ".join(stack.chain[-4:]),
            "the manifest's bound is of gcc 12 from -O1 on",
        )
    return stack


def optimised(built: Built) -> bool:
    """Whether CMake was asked for a build that optimises."""
    try:
        cache = (built.out / "CMakeCache.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    kind = re.search(r"^CMAKE_BUILD_TYPE:\w+=(\w*)", cache, re.MULTILINE)
    return kind is not None and kind[1] in ("Release", "MinSizeRel", "RelWithDebInfo")
