# SPDX-License-Identifier: Apache-2.0
"""Small and random Programs for the tests of scheduling and memory planning."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aot.ir.dtypes import U8
from aot.ir.program import Access, Arg, Call, Origin, Program, Role, Tensor, View


class Maker:
    """Collects tensors of bytes and calls."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.calls: list[Call] = []
        self.consts: dict[str, np.ndarray] = {}

    def tensor(self, name: str, nbytes: int, role: Role = Role.TEMP, **more: object) -> str:
        self.tensors[name] = Tensor(name, (nbytes,), U8, role, **more)  # type: ignore[arg-type]
        return name

    def view(self, name: str, nbytes: int, base: str, offset: int = 0) -> str:
        return self.tensor(name, nbytes, view=View(base, offset))

    def call(
        self,
        writes: Sequence[str] | str,
        reads: Sequence[str] | str,
        inplace: Sequence[tuple[int, int]] = (),
        scratch: int = 0,
    ) -> None:
        """Arguments are the writes, then the reads, then scratch; names separated by blanks."""
        outs = writes.split() if isinstance(writes, str) else list(writes)
        ins = reads.split() if isinstance(reads, str) else list(reads)
        args = [Arg(n, Access.WRITE) for n in outs] + [Arg(n, Access.READ) for n in ins]
        number = len(self.calls)
        if scratch:
            args.append(Arg(self.tensor(f"s{number}", scratch, Role.SCRATCH), Access.WRITE))
        origin = Origin((f"n{number}",), ("Op",))
        self.calls.append(Call("k", tuple(args), None, origin, inplace=tuple(inplace)))

    def program(self) -> Program:
        def of(role: Role) -> tuple[str, ...]:
            return tuple(n for n, t in self.tensors.items() if t.role is role)

        return Program(
            "p", self.tensors, self.consts, of(Role.INPUT), of(Role.OUTPUT), tuple(self.calls)
        )


def chain(sizes: Sequence[int], inplace: bool) -> Program:
    """x → t0 → t1 → … → y, every call a permitted in-place one if `inplace`."""
    m = Maker()
    last = m.tensor("x", sizes[0], Role.INPUT)
    pairs = [(0, 1)] if inplace else []
    for k, size in enumerate(sizes):
        now = m.tensor(f"t{k}", size)
        m.call(now, last, pairs)
        last = now
    m.call(m.tensor("y", 1, Role.OUTPUT), last)
    return m.program()


def random_program(seed: int, calls: int, views: bool = True) -> Program:
    """A DAG with in-place permissions, scratch, views and concatenations as views."""
    r = random.Random(seed)
    m = Maker()
    known = [m.tensor("x", 64 * r.randint(1, 8), Role.INPUT)]
    while len(m.calls) < calls:
        k = len(m.calls)
        recent = known[-r.randint(2, 6) :]
        kind = r.random()
        if views and kind < 0.15:
            known.append(_view(m, r, r.choice(recent), k))
        elif views and kind < 0.3:
            known.append(_concat(m, r, recent, k))
        else:
            ins = [r.choice(recent) for _ in range(r.randint(1, 2))]
            size = r.choice([m.tensors[ins[0]].nbytes, r.randint(1, 700)])
            outs = [m.tensor(f"t{k}", size)]
            if r.random() < 0.2:
                outs.append(m.tensor(f"u{k}", r.randint(1, 300)))
            pairs = [(o, len(outs) + i) for o in range(len(outs)) for i in range(len(ins))]
            m.call(outs, ins, [p for p in pairs if r.random() < 0.6], r.choice([0, 0, 0, 100]))
            known += outs
    for k, name in enumerate(known[-2:]):
        m.call(m.tensor(f"y{k}", m.tensors[name].nbytes, Role.OUTPUT), name)
    return m.program()


def arena_io(program: Program) -> Program:
    """`program` with its inputs and outputs in the arena."""
    ends = (Role.INPUT, Role.OUTPUT)
    tensors = {
        n: replace(t, role=Role.TEMP) if t.role in ends else t for n, t in program.tensors.items()
    }
    return replace(program, tensors=tensors, io="arena")


def _view(m: Maker, r: random.Random, base: str, k: int) -> str:
    size = r.randint(1, m.tensors[base].nbytes)
    name = f"v{k}_{len(m.tensors)}"
    return m.view(name, size, base, r.randint(0, m.tensors[base].nbytes - size))


def _concat(m: Maker, r: random.Random, recent: Sequence[str], k: int) -> str:
    """Two calls that write the halves of one tensor."""
    base = f"c{k}"
    a, b = 64 * r.randint(1, 4), r.randint(1, 200)
    m.tensor(base, a + b)
    for name, size, offset in ((f"{base}a", a, 0), (f"{base}b", b, a)):
        m.view(name, size, base, offset)
        source = r.choice(recent)
        m.call(name, source, [(0, 1)] if r.random() < 0.6 else [])
    return base


def execute(program: Program, places: dict[str, int] | None, arena: int) -> list[bytes]:
    """The bytes of the outputs when every call writes a mixture of what it reads.

    Byte k of a result depends on byte k of the operands (cyclically beyond their ends), so that
    in-place execution from front to back is legal. `places` None gives every root its own memory.
    """
    memory = np.full(arena, 0xA5, np.uint8)
    own: dict[str, np.ndarray] = {}

    def bytes_of(name: str) -> np.ndarray:
        root, offset = program.base(name)
        n = program.tensors[name].nbytes
        role = program.tensors[root].role
        if places is not None and role in (Role.TEMP, Role.SCRATCH):
            return memory[places[name] : places[name] + n]
        size = program.tensors[root].nbytes
        fresh = np.arange(size, dtype=np.uint64).astype(np.uint8)
        return own.setdefault(root, fresh)[offset : offset + n]

    for name in program.inputs:
        bytes_of(name)[:] = np.arange(program.tensors[name].nbytes, dtype=np.uint64).astype(
            np.uint8
        )
    for call in program.calls:
        ins = [bytes_of(a.tensor).copy() for a in call.pointers() if a.access is Access.READ]
        outs = [a for a in call.pointers() if a.access is Access.WRITE]
        salt = int(call.origin.nodes[0][1:])
        for k, arg in enumerate(outs):
            out = bytes_of(arg.tensor)
            total = np.full(out.size, salt * 37 + k * 11 & 0xFF, np.uint8)
            for j, x in enumerate(ins):
                total = total * np.uint8(3) + np.resize(x, out.size) * np.uint8(2 * j + 1)
            out[:] = total
    return [bytes_of(n).tobytes() for n in program.outputs]
