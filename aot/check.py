# SPDX-License-Identifier: Apache-2.0
"""The independent checker of Programs: run on what `lower` and `schedule` return.

It trusts nothing they computed: definitions before uses, one writer per tensor, legal views,
kernels' arguments and constants of the stored size.
"""

from __future__ import annotations

import re

from aot.errors import InternalError
from aot.program import Access, Arg, Call, Program, Role, Tensor

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def check_program(program: Program) -> None:
    """Raise InternalError, naming the call or tensor, if `program` is not well formed."""
    for name, tensor in program.tensors.items():
        _check_tensor(program, name, tensor)
    defined = {n for n, t in program.tensors.items() if t.role in (Role.INPUT, Role.CONST)}
    written: set[str] = set()
    for index, call in enumerate(program.calls):
        _check_call(program, index, call)
        for arg in call.pointers():
            _define(program, index, call, arg, defined, written)
    for name in program.outputs:
        if program.tensors[name].role is not Role.OUTPUT:
            raise InternalError(f"output {name} has role {program.tensors[name].role.value}")
        if not _readable(program, name, defined):
            raise InternalError(f"output {name} is never written")


def _check_tensor(program: Program, name: str, tensor: Tensor) -> None:
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
        if not 0 <= arg.offset <= tensor.nbytes:
            raise InternalError(f"{where}: offset {arg.offset} outside {arg.tensor}")
        owner = program.tensors[program.base(arg.tensor)[0]]
        if arg.access is not Access.READ and owner.role in (Role.INPUT, Role.CONST):
            raise InternalError(f"{where} writes {arg.tensor}, a {owner.role.value}")
    for out, inp in call.inplace:
        pair = call.args[out], call.args[inp]
        legal = all(isinstance(a, Arg) for a in pair)
        if not legal or pair[0].access is Access.READ or pair[1].access is not Access.READ:  # type: ignore[union-attr]
            raise InternalError(f"{where}: in-place pair ({out}, {inp}) is not (written, read)")


def _define(
    program: Program, index: int, call: Call, arg: Arg, defined: set[str], written: set[str]
) -> None:
    where = f"call {index} ({call.kernel})"
    tensor = program.tensors[arg.tensor]
    if arg.access is Access.READ:
        own = {a.tensor for a in call.pointers() if a.access is not Access.READ}
        if arg.tensor in own or not _readable(program, arg.tensor, defined):
            raise InternalError(f"{where} reads {arg.tensor} before it is written")
        return
    if arg.access is Access.WRITE and tensor.role is not Role.SCRATCH:
        if arg.tensor in written and arg.offset == 0:
            raise InternalError(f"{where} writes {arg.tensor} a second time")
        if arg.offset == 0:
            written.add(arg.tensor)
    if arg.access is Access.READ_WRITE and not _readable(program, arg.tensor, defined):
        raise InternalError(f"{where} updates {arg.tensor} before it is written")
    defined.add(arg.tensor)


def _readable(program: Program, name: str, defined: set[str]) -> bool:
    """Whether `name`, a tensor it views, or tensors that view it have been defined."""
    tensor = program.tensors[name]
    while True:
        if tensor.name in defined:
            return True
        if tensor.view is None:
            break
        tensor = program.tensors[tensor.view.base]
    parts = [
        (t.view.offset, t.nbytes)
        for t in program.tensors.values()
        if t.view is not None and t.view.base == name and _readable(program, t.name, defined)
    ]
    return _covers(sorted(parts), program.tensors[name].nbytes)


def _covers(parts: list[tuple[int, int]], size: int) -> bool:
    end = 0
    for offset, nbytes in parts:
        if offset > end:
            return False
        end = max(end, offset + nbytes)
    return bool(parts) and end >= size
