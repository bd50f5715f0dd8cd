# SPDX-License-Identifier: Apache-2.0
"""Which memory of a board holds what: the first that may and that has room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.errors import TargetError
from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.plan.memory.split import Room
from aot.target import HOT, Memory, Target

#: Bytes kept free for start-up code and kernels where constants share a memory with code.
CODE_ROOM = 49152
#: Bytes of .data and .bss beside what is known: the program's own variables.
DATA_ROOM = 512


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes a compiled model needs: built-in arena, caller's inputs and outputs, constants.

    `parts` are the bytes of the arena by memory, where it is in several.
    """

    arena: int
    io: int
    constants: int
    parts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """The memory of each use. `lacking` are (use, bytes too many, the memory that came closest).

    `hot` is the memory to which start-up code copies the functions of a run, if there is one;
    `others` are memories of the arena besides `arena`.
    """

    code: Memory
    weights: Memory
    data: Memory
    arena: Memory
    stack: Memory
    hot: Memory | None = None
    lacking: tuple[tuple[str, int, Memory], ...] = ()
    others: tuple[Memory, ...] = ()


def place(target: Target, needs: Needs) -> Placement:
    """The memory of each use on the board `target`, for as many bytes as `needs` says.

    The first memory of the target's list that has room is chosen, if possible one that leaves room
    for variables or start-up code. A use that fits nowhere gets the memory with the most bytes left
    and is listed in `lacking` with the bytes that are missing.
    """
    # Each use takes of the bytes that earlier ones left.
    free = {m.name: m.bytes for m in target.memories}
    lacking: list[tuple[str, int, Memory]] = []

    def choose(use: str, nbytes: int, reserve: int = 0, name: str = "") -> Memory:
        """The first memory for `use` with `nbytes`, if possible with `reserve` more, or the one
        called `name`."""
        candidates = [m for m in target.memories if (m.name == name if name else use in m.use)]
        roomy = [m for m in candidates if free[m.name] >= nbytes + reserve]
        fitting = roomy or [m for m in candidates if free[m.name] >= nbytes]
        if fitting:
            chosen = fitting[0]
        else:
            chosen = max(candidates, key=lambda m: free[m.name])
            lacking.append((use, nbytes - free[chosen.name], chosen))
        free[chosen.name] -= nbytes
        return chosen

    # The stack first: it must fit, and its size is fixed.
    stack = choose("stack", target.stack)
    parts = [choose("arena", size, 0, name) for name, size in needs.parts]
    arena = parts[0] if parts else choose("arena", needs.arena, DATA_ROOM)
    data = choose("data", needs.io + DATA_ROOM)
    code = choose("code", 0)
    weights = choose("weights", needs.constants, CODE_ROOM if _shared(target.memories) else 0)
    hot = next((m for m in target.memories if HOT in m.use and m != code), None)
    return Placement(code, weights, data, arena, stack, hot, tuple(lacking), tuple(parts[1:]))


def record(target: Target, needs: Needs) -> list[dict[str, object]]:
    """Where the built-in image has constants, variables and arena: a record of the manifest each.

    `bytes` are known before a build; constants are read once in every run at least, and an access
    takes `speed` times one of the fastest memory.
    """
    placed = place(target, needs)
    known = {"weights": needs.constants, "data": needs.io, "arena": needs.arena}
    known["stack"] = target.stack
    held: dict[str, Memory] = {use: getattr(placed, use) for use in known}
    parts = zip((placed.arena, *placed.others), needs.parts, strict=False)
    every = [
        *((use, m, known[use]) for use, m in held.items() if use != "arena" or not needs.parts),
        *(("arena", m, size) for m, (_, size) in parts),
    ]
    return [
        {"use": use, "memory": m.name, "address": m.address, "speed": m.speed, "bytes": size}
        for use, m, size in every
    ]


def rooms(target: Target, io: int, constants: int) -> list[Room]:
    """What the memories of a board have for the arena beside the stack, and beside `io` bytes of
    inputs and outputs, variables and constants where these may be in the same memory.
    """
    placed = place(target, Needs(0, io, constants))
    taken = (
        (placed.stack, target.stack),
        (placed.data, io + DATA_ROOM),
        (placed.weights, constants),
    )
    return [
        Room(m.name, m.bytes - sum(n for other, n in taken if other == m), m.speed)
        for m in target.memories
        if "arena" in m.use
    ]


def _shared(memories: Sequence[Memory]) -> bool:
    return any({"code", "weights"} <= set(m.use) for m in memories)


_WHAT = {
    "arena": "{arena} bytes of arena (intermediate results{io_too})",
    "data": "{io} bytes of inputs and outputs, and variables,",
    "weights": "{constants} bytes of constants",
    "stack": "{stack} bytes of stack",
}
_HELP = {
    "arena": "a smaller input shape needs less",
    "data": "smaller inputs, or a memory of the board in a target file of your own",
    "weights": "a quantised model has a quarter of the constants",
    "stack": "a smaller `stack` in a target file of your own",
}


def check_fit(target: Target, needs: Needs) -> None:
    """Raise TargetError if the model does not fit the board `target`; others are not checked.

    `needs` are bytes of arena, inputs and outputs, and constants. The error names the first memory
    that is too small, by how many bytes, and options that make the model smaller.
    """
    if not target.board:
        return
    lacking = place(target, needs).lacking
    if not lacking:
        return
    # One message at a time: the uses come in the order in which `place` gives them memory.
    use, excess, memory = lacking[0]
    what = _WHAT[use].format(
        io_too="" if needs.io else ", inputs and outputs",
        arena=needs.arena,
        io=needs.io,
        constants=needs.constants,
        stack=target.stack,
    )
    others = [m.name for m in target.memories if "arena" in m.use and m != memory]
    split = f"`--arena split` takes {', '.join(others)}, too; " if others else ""
    if use != "arena" or needs.parts:
        split = ""
    if needs.parts and use == "arena":
        what += f" in {', '.join(name for name, _ in needs.parts)}"
    raise TargetError(
        f"{what} exceed memory {memory.name} of {target.name} by {excess} bytes",
        f"{memory.name} has {memory.bytes} bytes, of which the stack takes {target.stack}"
        if memory.name in {m.name for m in target.memories if "stack" in m.use}
        else f"{memory.name} has {memory.bytes} bytes",
        f"{split}{_HELP[use]}; or a board with more memory (`aotc targets`)",
    )


def needs_of(program: Program, plan: Plan, constants_bytes: int) -> Needs:
    """The bytes of memory that the image of a program takes: its arena in parts, inputs, outputs,
    constants."""
    parts = tuple((p.memory, p.bytes) for p in plan.parts)
    return Needs(plan.arena_bytes, io_bytes(program), constants_bytes, parts)


def io_bytes(program: Program) -> int:
    """Bytes of the runner's inputs and outputs, each rounded up to 16.

    Inputs and outputs in the arena do not count, but for an input that comes by rows: it is not
    there.
    """
    if program.io == "arena" and not program.pushed:
        return 0
    sizes = (program.tensors[n].nbytes for n in (*program.inputs, *program.outputs))
    return sum(-(-n // 16) * 16 for n in sizes)
