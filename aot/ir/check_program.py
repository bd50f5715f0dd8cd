# SPDX-License-Identifier: Apache-2.0
"""The independent checker of Programs: run on what `lower` and `schedule` return.

It trusts nothing they computed: definitions before uses, one writer per tensor, legal views,
kernels' arguments and constants of the stored size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from aot.errors import BackendError, InternalError
from aot.ir.check_control_flow import check_bodies
from aot.ir.check_fetch import check_fetches
from aot.ir.program import Access, Arg, Call, Program, Role, StateArg, Tensor

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def check_program(program: Program, part: bool = False) -> None:
    """Raise InternalError, naming the call or tensor, if `program` is not well formed.

    A `part` of another program (a body) may use objects that are made there.
    """
    for name, tensor in program.tensors.items():
        _check_tensor(program, name, tensor)
    if not part:
        _check_states(program)
    _check_regions(program)
    state = _Defined(program)
    for index, call in enumerate(program.calls):
        with _blamed(call):
            _check_call(program, index, call)
            check_fetches(program, call, f"call {index} ({call.kernel})")
        if call.bodies:
            check_bodies(program, call, f"call {index} ({call.kernel})")
            for body in call.bodies:
                check_program(body.program, part=True)
        with _blamed(call):
            state.visit(index, call)
    for name in program.outputs:
        if program.tensors[name].role not in (Role.OUTPUT, Role.TEMP):  # the caller's, or held
            raise InternalError(f"output {name} has role {program.tensors[name].role.value}")
        if not state.readable(name):
            raise InternalError(f"output {name} is never written")
    _check_shapes(program, state)


@contextmanager
def _blamed(call: Call) -> Iterator[None]:
    """A context that makes an InternalError about a vendor's call a BackendError."""
    try:
        yield
    except InternalError as error:
        if call.backend == "c":
            raise
        node = " + ".join(call.origin.nodes)
        hint = "this is a defect of the backend, not of the model"
        raise BackendError(f"{call.backend}: {error.what}", f"node {node}", hint) from error


def _check_shapes(program: Program, state: _Defined) -> None:
    """Raise InternalError unless each run-time shape is written and has one int64 per axis of its
    output.
    """
    for shape in program.shapes:
        if shape.output < 0:  # of none: what a run must have compared
            continue
        tensor, output = program.tensors[shape.tensor], program.outputs[shape.output]
        rank = len(program.tensors[output].shape)
        if tensor.shape != (rank,) or tensor.role is not Role.TEMP or tensor.nbytes != 8 * rank:
            raise InternalError(f"{shape.tensor} is no shape of {output}")
        if not all(0 <= a < rank for a in shape.axes) or not state.readable(shape.tensor):
            raise InternalError(f"the shape of {output} is never written")


def _check_regions(program: Program) -> None:
    """Raise InternalError unless the calls of each region follow in a row and are those of one
    vendor.
    """
    vendor: dict[int, str] = {}
    last = -1
    for index, call in enumerate(program.calls):
        known = vendor.get(call.region)
        if call.region >= 0 and known is not None and call.region != last:
            raise InternalError(f"call {index} of region {call.region} is not next to the others")
        if call.region >= 0 and vendor.setdefault(call.region, call.backend) != call.backend:
            raise InternalError(f"region {call.region} has calls of {known} and {call.backend}")
        if (call.region >= 0) != (call.backend != "c"):
            raise InternalError(f"call {index} of {call.backend} is in region {call.region}")
        last = call.region


def _check_states(program: Program) -> None:
    """Raise InternalError unless objects are made of constants and earlier objects, and calls use
    known ones.
    """
    known: set[str] = set()
    for state in program.states:
        _check_state_args(state.create, known)
        for arg in state.create.pointers():
            if program.tensors[program.base(arg.tensor)[0]].role is not Role.CONST:
                raise InternalError(f"state {state.name} is made from {arg.tensor}, no constant")
        if state.name in known or state.slots < 1 or not state.create.status:
            raise InternalError(f"state {state.name} is malformed")
        known.add(state.name)
    for call in program.every_call():
        _check_state_args(call, known)


def _check_state_args(call: Call, known: set[str]) -> None:
    """Raise InternalError if `call` uses an object that is not among `known`."""
    for arg in call.args:
        if isinstance(arg, StateArg) and arg.state not in known:
            raise InternalError(f"{call.kernel} uses state {arg.state}, which is not made")


def _check_tensor(program: Program, name: str, tensor: Tensor) -> None:
    """Raise InternalError unless the tensor is called `name`, and its shape, bytes and views are
    sound.
    """
    if name != tensor.name or not _IDENTIFIER.match(name):
        raise InternalError(f"tensor {name!r} is called {tensor.name!r}")
    if any(d < 0 for d in tensor.shape):
        raise InternalError(f"tensor {name} has shape {tensor.shape}")
    if tensor.role is Role.CONST and tensor.view is None:
        stored = program.consts[name].nbytes
        if stored != tensor.nbytes:
            raise InternalError(f"constant {name}: {stored} bytes stored, {tensor.nbytes} declared")
    seen = {name}
    while tensor.view is not None:
        base = program.tensors.get(tensor.view.base)
        # Views that go in a circle would never end.
        if base is None or base.name in seen:
            raise InternalError(f"tensor {name} views {tensor.view.base}: missing or circular")
        if tensor.view.offset < 0 or tensor.view.offset + tensor.nbytes > base.nbytes:
            raise InternalError(f"view {tensor.name} leaves its base {base.name}")
        seen.add(base.name)
        tensor = base


def _check_call(program: Program, index: int, call: Call) -> None:
    where = f"call {index} ({call.kernel})"
    for arg in call.pointers():
        tensor = program.tensors.get(arg.tensor)
        if tensor is None:
            raise InternalError(f"{where} names tensor {arg.tensor}, which does not exist")
        if not 0 <= arg.begin <= arg.offset <= tensor.nbytes:
            raise InternalError(f"{where}: offset {arg.offset} outside {arg.tensor}")
        owner = program.tensors[program.base(arg.tensor)[0]]
        if arg.access is not Access.READ and owner.role in (Role.INPUT, Role.CONST):
            raise InternalError(f"{where} writes {arg.tensor}, a {owner.role.value}")
    for out, inp in call.inplace:
        pair = call.args[out], call.args[inp]
        legal = all(isinstance(a, Arg) for a in pair)
        if not legal or pair[0].access is Access.READ or pair[1].access is not Access.READ:  # type: ignore[union-attr]
            raise InternalError(f"{where}: in-place pair ({out}, {inp}) is not (written, read)")


class _Defined:
    """Which bytes of every memory owner have been written so far."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.spans: dict[str, list[tuple[int, int]]] = {}
        self.written: set[str] = set()
        given = {*program.inputs, *program.kept}
        for name, tensor in program.tensors.items():
            there = name in given
            if (there or tensor.role is Role.CONST) and tensor.view is None:
                self.spans[name] = [(0, tensor.nbytes)]

    def visit(self, index: int, call: Call) -> None:
        """Check the reads of a call, then note its writes."""
        where = f"call {index} ({call.kernel})"
        own = {a.tensor for a in call.pointers() if a.access is not Access.READ}
        for arg in call.pointers():
            scratch = self.program.tensors[arg.tensor].role is Role.SCRATCH
            if arg.access is not Access.WRITE and not scratch:
                clash = arg.access is Access.READ and arg.tensor in own
                if clash or not self.readable(arg.tensor, arg.begin):
                    raise InternalError(f"{where} reads {arg.tensor} before it is written")
        for arg in call.pointers():
            if arg.access is not Access.READ:
                self._write(where, arg)

    def _write(self, where: str, arg: Arg) -> None:
        """Note that a call writes the bytes of `arg`; InternalError for a second write of the whole
        tensor.
        """
        tensor = self.program.tensors[arg.tensor]
        if arg.access is Access.WRITE and tensor.role is not Role.SCRATCH and arg.offset == 0:
            if arg.tensor in self.written:
                raise InternalError(f"{where} writes {arg.tensor} a second time")
            self.written.add(arg.tensor)
        owner, offset = self.program.base(arg.tensor)
        spans = self.spans.setdefault(owner, [])
        spans.append((offset + arg.begin, offset + tensor.nbytes))
        self.spans[owner] = _merged(spans)

    def readable(self, name: str, begin: int = 0) -> bool:
        """Whether all bytes of tensor `name` from `begin` on have been written."""
        owner, offset = self.program.base(name)
        start, end = offset + begin, offset + self.program.tensors[name].nbytes
        if start == end:
            return True
        return any(s <= start and end <= e for s, e in self.spans.get(owner, []))


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(start, end) of bytes, sorted, with spans that touch joined."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
