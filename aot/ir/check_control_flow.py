# SPDX-License-Identifier: Apache-2.0
"""The independent checker of bodies: what a body is given is what it takes, and has its size."""

from __future__ import annotations

from aot.errors import InternalError
from aot.ir.program import Access, Arg, Body, Call, Program, Role, Source, Wire


def check_bodies(program: Program, call: Call, where: str) -> None:
    """Raise InternalError unless the bodies of `call` fit its arguments."""
    steps = call.steps
    # An If has a body for each answer, a Loop and a Scan have one.
    if len(call.bodies) != (2 if steps is None else 1):
        raise InternalError(f"{where} has {len(call.bodies)} bodies")
    if not call.status:
        raise InternalError(f"{where} has bodies and no status")
    if steps is None:
        _check_size(program, call, 0, 1, Access.READ, f"{where}: its condition")
    else:
        if steps.trips >= 0:
            _check_size(program, call, steps.trips, 8, Access.READ, f"{where}: its trip count")
        if steps.start >= 0:
            _check_size(program, call, steps.start, 1, Access.READ, f"{where}: its condition")
        goes = any(w.source is Source.GO for w in call.bodies[0].outs)
        if goes != steps.go:
            raise InternalError(f"{where}: its body says whether to go on: {goes}")
    for body in call.bodies:
        _check_body(program, call, body, where)
    _check_inplace(call, where)


def _check_body(program: Program, call: Call, body: Body, where: str) -> None:
    """Raise InternalError unless one body fits the arguments of `call`; `where` begins the message.

    Each end of the body has a wire with as many bytes as it needs, or a slice per step; each tensor
    that it carries has a first and a last value; its arena is scratch of the call and large enough.
    """
    inner = body.program
    most = call.steps.most if call.steps is not None else 1
    ends = (inner.inputs, body.ins, Access.READ), (inner.outputs, body.outs, Access.WRITE)
    for names, wires, access in ends:
        if len(names) != len(wires):
            raise InternalError(f"{where}: {inner.name} has {len(names)} ends, {len(wires)} wires")
        for name, wire in zip(names, wires, strict=True):
            nbytes = inner.tensors[name].nbytes
            what = f"{where}: {name} of {inner.name}"
            if wire.source is not Source.ARGUMENT:
                _check_own(wire, nbytes, access, what)
            elif wire.stride and (most < 0 or wire.stride != nbytes):
                raise InternalError(f"{what}: slices of {wire.stride} bytes, {most} of them")
            else:
                # Slices of all steps lie one behind the other in the argument.
                total = max(0, most) * nbytes if wire.stride else nbytes
                _check_size(program, call, wire.arg, total, access, what)
    if len(body.carried) != len(inner.carried) or (body.carried and call.steps is None):
        raise InternalError(f"{where}: {inner.name} carries {len(inner.carried)} tensors")
    for name, (first, last) in zip(inner.carried, body.carried, strict=True):
        nbytes = inner.tensors[name].nbytes
        _check_size(program, call, first, nbytes, Access.READ, f"{where}: {name}")
        _check_size(program, call, last, nbytes, Access.WRITE, f"{where}: {name}")
    arena = call.args[body.arena]
    if not isinstance(arena, Arg) or program.tensors[arena.tensor].role is not Role.SCRATCH:
        raise InternalError(f"{where}: {inner.name} has no arena")
    if body.plan is not None:
        own = program.tensors[arena.tensor]
        if body.plan.arena_bytes > own.nbytes or own.align % body.plan.alignment:
            raise InternalError(f"{where}: the arena of {inner.name} does not fit {own.name}")


def _check_own(wire: Wire, nbytes: int, access: Access, what: str) -> None:
    """The count is an int64 that is read, the condition a bool that is written."""
    wanted = (8, Access.READ) if wire.source is Source.COUNT else (1, Access.WRITE)
    if (nbytes, access) != wanted:
        raise InternalError(f"{what} cannot be the {wire.source.value}")


def _check_size(
    program: Program, call: Call, index: int, nbytes: int, access: Access, what: str
) -> None:
    """Raise InternalError unless argument `index` is accessed as `access` and has at least `nbytes`
    bytes.
    """
    arg = call.args[index] if 0 <= index < len(call.args) else None
    if not isinstance(arg, Arg) or arg.access is not access:
        raise InternalError(f"{what}: argument {index} cannot be used like this")
    if program.tensors[arg.tensor].nbytes - arg.offset < nbytes:
        raise InternalError(f"{what}: {arg.tensor} has less than {nbytes} bytes")


def _check_inplace(call: Call, where: str) -> None:
    """A last value may lie on a first value, which nobody reads once the steps have begun."""
    wired = {w.arg for b in call.bodies for w in (*b.ins, *b.outs)}
    carried = {(last, first) for b in call.bodies for first, last in b.carried}
    for pair in call.inplace:
        if pair not in carried or wired & set(pair):
            raise InternalError(f"{where}: its bodies do not permit {pair} in one place")
