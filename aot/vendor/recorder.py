# SPDX-License-Identifier: Apache-2.0
"""What a lowering records calls with: `c` in every `@pattern.lower` function."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from aot.errors import BackendError
from aot.ir import dtypes, layout as lay
from aot.ir.deferred import Constant, Deferred
from aot.ir.dtypes import DType
from aot.ir.layout import PLAIN, Layout
from aot.ir.program import (
    Access,
    Arg,
    Call,
    Origin,
    Params,
    Role,
    Scalar,
    State,
    StateArg,
    Tensor,
    View,
)
from aot.ir.rows import Rowwise
from aot.ir.splits import Split
from aot.options import Options
from aot.target import Target
from aot.vendor.arguments import Handle, Operand, ParamFields, StateHandle, Used, c_name, plain
from aot.vendor.by_rows import by_elements, by_windows
from aot.vendor.match import Match, ValueRef

#: Bytes: what tensors are aligned to, and the most that can be asked for.
ALIGN, MOST_ALIGN = 64, 4096


class Maker(Protocol):
    """The pattern's part that the recorder needs: the `folder` and the `header` of its C."""

    @property
    def backend(self) -> str:
        """The name of the backend."""

    @property
    def folder(self) -> Path | None:
        """Where headers are looked for first."""

    @property
    def header(self) -> str:
        """The C header of its kernels ("" = one per kernel)."""


class Recorder:
    """Records tensors, constants and calls while the matches are lowered one after the other."""

    by_elements, by_windows = staticmethod(by_elements), staticmethod(by_windows)

    def __init__(
        self,
        target: Target,
        options: Options,
        around: Recorder | None = None,
        price: float = 0.0,
    ) -> None:
        """Start without calls, for one program on `target`.

        `around` is the recorder of the program around a body of control flow; both share constants,
        states, attached files, names and price. None for a program of its own. `price` is how many
        cycles a kernel must save for each byte that its weights have more than another's.
        """
        self.target, self.options = target, options
        self.around = around
        self.price: float = around.price if around else price
        self.vlen = target.vlen
        self.objective, self.accuracy = options.objective, options.accuracy
        self.tensors: dict[str, Tensor] = {}
        self.consts: dict[str, Constant] = around.consts if around else {}
        self.calls: list[Call] = []
        self.states: list[State] = around.states if around else []
        self.parts: dict[tuple[str, str], Any] = {}
        """The bodies of control flow: (node, attribute) → what to lower (aot/ops/control.py)."""
        self.carried: list[str] = []
        self.attached: dict[str, bytes] = around.attached if around else {}
        self._names: set[str] = around._names if around else set()
        self._by_digest: dict[tuple[Hashable, str, tuple[int, ...], int, str], str] = {}
        self._written: set[str] = set()
        self._origin = Origin((), ())
        self._backend, self._region = "c", -1
        self._folder: Path | None = None
        self._header = ""
        self._outputs: set[str] = set()

    # -- called by the driver --------------------------------------------------------------

    def begin(
        self, origin: Origin, pattern: Maker | None, region: int, outputs: Iterable[str]
    ) -> None:
        """Start the lowering of one match; `outputs` are the tensors it must write."""
        self._origin, self._region, self._outputs = origin, region, set(outputs)
        self._backend = pattern.backend if pattern else "c"
        self._folder = pattern.folder if pattern else None
        self._header = pattern.header if pattern else ""

    def covers(self, matches: Sequence[Match], comment: str = "") -> None:
        """Let the calls that follow stand for all these matches of a region, with `comment` if
        given.
        """
        nodes = [n for m in matches for n in reversed(m.nodes)]
        names, ops = tuple(n.name for n in nodes), tuple(n.op_type for n in nodes)
        known = tuple(n.onnx_name for n in nodes)
        self._origin = Origin(names, ops, comment or self._origin.comment, known)

    def defines(self, handle: Handle) -> None:
        """Let `handle` count as an output of the current match: its first use writes it."""
        self._outputs.add(handle.name)

    def unwritten(self) -> set[str]:
        """Names of outputs of the current match that no call has written and no view defined."""
        return {n for n in self._outputs if n not in self._written and self.tensors[n].view is None}

    def tensor_of(self, value: ValueRef) -> Tensor:
        """The tensor that holds `value` in the layout in which the current match sees it.

        A constant is stored in that layout at its first use.
        """
        name = value.name
        tensor = self.tensors.get(name)
        if value.is_const:
            return self.tensors[self._constant(value)]
        if tensor is not None and tensor.layout == value.layout:
            return tensor
        return self.tensors[layout_name(name, value.layout)]

    def reserve(self, names: Iterable[str]) -> None:
        """Let no name that the recorder makes up be one of `names`."""
        self._names.update(names)

    # -- tensors ---------------------------------------------------------------------------

    def const(
        self,
        data: Constant,
        name: str = "const",
        align: int = ALIGN,
        section: str = "",
    ) -> Handle:
        """A constant already in the order the kernel reads; equal contents are stored once.

        Its address is a multiple of `align` bytes; `section` is a linker section to put it in.
        Raises BackendError for an alignment or a section that C has not.
        """
        _check_align(align)
        if not re.fullmatch(r"[A-Za-z0-9_.$]*", section):
            raise BackendError(f"a constant in a linker section {section!r}")
        digest: Hashable
        if isinstance(data, Deferred):
            digest = data.key
        else:
            data = np.asarray(data, order="C")
            # The contents themselves as keys would double the memory of the weights.
            digest = hashlib.blake2b(data.reshape(-1).view(np.uint8).data).digest()
        key = (digest, data.dtype.name, data.shape, align, section)
        if key not in self._by_digest:
            base = self._fresh(f"{self._origin.nodes[0]}_{name}" if self._origin.nodes else name)
            dtype = dtypes.DType.from_numpy(data.dtype)
            made = Tensor(base, data.shape, dtype, Role.CONST, align=align, section=section)
            self.tensors[base] = made
            self.consts[base] = data
            self._by_digest[key] = base
        return Handle(self._by_digest[key])

    def scratch(self, nbytes: int, name: str = "scratch", align: int = ALIGN) -> Handle | None:
        """`nbytes` of arena that live during the one call they are passed to; None for 0.

        They begin at a multiple of `align` bytes. Raises BackendError for a size that is no int.
        """
        _check_align(align)
        if not isinstance(nbytes, int):
            raise BackendError(f"scratch of {nbytes!r} bytes (needs an int)")
        if nbytes <= 0:
            return None
        full = self._fresh(f"{self._origin.nodes[0]}_{name}")
        self.tensors[full] = Tensor(full, (nbytes,), dtypes.U8, Role.SCRATCH, align=align)
        return Handle(full)

    def temp(
        self, shape: Sequence[int], dtype: DType, layout: Layout = PLAIN, name: str = "temp"
    ) -> Handle:
        """A temporary tensor in the arena, live from its first write to its last read."""
        full = self._fresh(f"{self._origin.nodes[0]}_{name}")
        self.tensors[full] = Tensor(full, tuple(shape), dtype, Role.TEMP, layout)
        return Handle(full)

    def persistent(self, shape: Sequence[int], dtype: DType, name: str = "persistent") -> Handle:
        """A tensor that keeps its elements between runs; zero after init and reset_state."""
        handle = self.temp(shape, dtype, name=name)
        self.carried.append(handle.name)
        return handle

    # -- arguments -------------------------------------------------------------------------

    def params(self, **fields: Any) -> ParamFields:
        """The fields of the kernel's parameter struct, in order: ints, floats or tuples of them.

        Raises BackendError for a field that is no number.
        """
        return ParamFields(tuple((k, plain(v)) for k, v in fields.items()))

    def read(self, what: ValueRef | Handle, offset: int = 0, back: int = 0) -> Used:
        """An argument that is only read, from byte `offset - back` of the tensor on."""
        return Used(what, Access.READ, offset, back)

    def write(self, what: ValueRef | Handle, offset: int = 0) -> Used:
        """An argument that is written from byte `offset` of the tensor on, and not read."""
        return Used(what, Access.WRITE, offset)

    def update(self, what: ValueRef | Handle, offset: int = 0) -> Used:
        """An argument that is read and written in place, from byte `offset` of the tensor on."""
        return Used(what, Access.READ_WRITE, offset)

    # -- records ---------------------------------------------------------------------------

    def call(
        self,
        kernel: str,
        *operands: Operand,
        instance: Mapping[str, int] | None = None,
        inplace: Sequence[tuple[Any, Any]] = (),
        macs: int = 0,
        header: str | None = None,
        status: bool = False,
        comment: str = "",
        async_kernels: tuple[str, str] | None = None,
        rowwise: Rowwise | None = None,
        beyond: int = 0,
        splits: Sequence[Split] = (),
        blocks: Split | None = None,
    ) -> Call:
        """Record one call: pointers in order, then the params, then `instance` constants.

        A value the match defines is written the first time it appears, anything else is read,
        unless wrapped in `read`, `write` or `update`. None passes a null pointer. `inplace` lists
        (output, input) operands that may share one address. `async_kernels` start and await the
        kernel's work: start has the same arguments, wait those that are no constants. `rowwise`
        says how the kernel makes its result row by row (None: it cannot), `beyond` how many bytes
        it may read past the end of each operand, `splits` are ways to share it among threads,
        `blocks` cuts it by channels of its weights.
        Raises BackendError for a name that is no identifier of C, or operands that C cannot pass.
        """
        args, params = self._arguments(c_name(kernel), operands)
        origin = replace(self._origin, comment=comment) if comment else self._origin
        call = Call(
            kernel,
            tuple(args),
            params,
            origin,
            tuple((instance or {}).items()),
            self._pairs(args, inplace),
            self._backend,
            self._region,
            macs,
            self._file(kernel, header),
            status,
            async_kernels=async_kernels,
            rowwise=rowwise,
            beyond=beyond,
            splits=tuple(splits),
            blocks=blocks,
        )
        self._written.update(call.writes())
        self.calls.append(call)
        return call

    def state(
        self,
        create: str,
        *operands: Operand,
        release: str,
        slots: int,
        header: str | None = None,
        last: bool = False,
    ) -> StateHandle:
        """An object of the vendor's library, to be passed to calls and to later states.

        `create(void **slots, operands...)` runs in NAME_init and returns an aot_status,
        `release(void **slots)` in NAME_shutdown. Operands are constants, states and params. Equal
        requests give one object; one that is `last`, or gets such a one, is made after all others.
        Raises BackendError for operands that a run computes, and names or slots that C cannot have.
        """
        args, params = self._arguments(c_name(create), operands)
        if not isinstance(slots, int) or slots < 1:
            raise BackendError(f"{create}: slots={slots!r} (needs a whole number from 1 on)")
        for arg in args:
            if isinstance(arg, Arg) and self.tensors[arg.tensor].role is not Role.CONST:
                raise BackendError(f"{create}: {arg.tensor} is not constant")
        last = last or any(s.last and StateArg(s.name) in args for s in self.states)
        made = Call(
            create,
            tuple(args),
            params,
            self._origin,
            backend=self._backend,
            region=self._region,
            header=self._file(create, header),
            status=True,
        )
        for known in self.states:
            # An object belongs to no node and no region: all that want the same one share it.
            same = replace(known.create, origin=self._origin, region=self._region)
            if (same, known.slots) == (made, slots):
                return StateHandle(known.name)
        self.states.append(
            State(f"{self._backend}_{len(self.states)}", slots, made, c_name(release), last)
        )
        return StateHandle(self.states[-1].name)

    def attach(self, path: str, content: bytes) -> None:
        """Add a file to the bundle that no code needs: listings, reports.

        Raises BackendError for a second file at `path` with another content.
        """
        if self.attached.setdefault(path, content) != content:
            raise BackendError(f"two different files {path}")

    def source(self, name: str, text: str) -> None:
        """Add a C source that was written for this model; it is compiled with the vendor's own.

        Raises BackendError unless it is called NAME.c or NAME.h.
        """
        if not name.endswith((".c", ".h")) or "/" in name:
            raise BackendError(f"a vendor's source is called {name!r} (needs NAME.c or NAME.h)")
        self.attach(f"{source_folder(self._backend)}/{name}", text.encode("utf-8"))

    def view(self, y: ValueRef, x: ValueRef, offset: int = 0) -> None:
        """`y` is `x`'s memory from byte `offset` on: no call, unless ownership demands a copy.

        Raises BackendError if `y` would end beyond `x`.
        """
        ty, tx = self.tensor_of(y), self.tensor_of(x)
        if offset + ty.nbytes > tx.nbytes:
            raise BackendError(
                f"view of {ty.nbytes} bytes at {offset} exceeds the {tx.nbytes} bytes of {tx.name}"
            )
        if ty.role is Role.TEMP:
            self.tensors[ty.name] = replace(ty, view=View(tx.name, offset))
        elif tx.role is Role.TEMP and tx.view is None and tx.nbytes == ty.nbytes:
            self.tensors[tx.name] = replace(tx, view=View(ty.name, 0))
            self._written.add(ty.name)
        else:
            self.copy(self.write(y), self.read(x, offset), ty.nbytes)

    def concat_view(self, y: ValueRef, xs: Sequence[ValueRef], offsets: Sequence[int]) -> bool:
        """Let each of `xs` lie in y at its byte offset, so that no copy is needed; True if that was
        done.

        False, with nothing changed, if an x must own its memory (an input, a constant, a view, one
        given twice), or the parts would overlap.
        """
        ty = self.tensor_of(y)
        tensors = [self.tensor_of(x) for x in xs]
        names = {t.name for t in tensors}
        free = all(t.role is Role.TEMP and t.view is None for t in tensors)
        if not free or len(names) != len(tensors) or ty.view is not None:
            return False
        ends = [o + t.nbytes for o, t in zip(offsets, tensors, strict=True)]
        if any(e > n for e, n in zip(ends, [*offsets[1:], ty.nbytes], strict=True)):
            return False
        for tensor, offset in zip(tensors, offsets, strict=True):
            self.tensors[tensor.name] = replace(tensor, view=View(ty.name, offset))
        self._written.add(ty.name)
        return True

    def copy(self, y: Used | ValueRef | Handle, x: Used | ValueRef | Handle, nbytes: int) -> Call:
        """Record a copy of `nbytes` bytes from x to y, which may share an address: then nothing is
        copied.
        """
        params, file = self.params(bytes=nbytes), "aot_copy.h"  # not the vendor's
        return self.call("aot_copy", y, x, params, inplace=[(y, x)], header=file)

    # -- details ---------------------------------------------------------------------------

    def _fresh(self, name: str) -> str:
        """A name that no tensor and no constant has: `name`, or with a number behind it."""
        taken = self.tensors, self._names, self.consts
        if not any(name in t for t in taken):
            return name
        i = 1
        while any(f"{name}_{i}" in t for t in taken):
            i += 1
        return f"{name}_{i}"

    def _constant(self, value: ValueRef) -> str:
        """The name of the tensor of a constant value in its layout, made at the first call.

        Elements of less than a byte are packed.
        """
        name = layout_name(value.name, value.layout)
        if name not in self.tensors:
            data = lay.to_physical(np.asarray(value.data), value.layout)
            if value.dtype.packed:
                data = dtypes.pack(data, value.dtype)
            tensor = Tensor(
                name, value.shape, value.dtype, Role.CONST, value.layout, onnx_name=value.onnx_name
            )
            self.tensors[name] = tensor
            self.consts[name] = data
        return name

    def _arguments(
        self, kernel: str, operands: Sequence[Operand]
    ) -> tuple[list[Arg | Scalar | StateArg], Params | None]:
        """(arguments of a call in order, its parameter struct or None) of operands."""
        args: list[Arg | Scalar | StateArg] = []
        params: Params | None = None
        for operand in operands:
            if isinstance(operand, ParamFields):
                params = Params(f"{kernel.removesuffix('_checked')}_params", operand.fields)
            elif isinstance(operand, StateHandle):
                args.append(StateArg(operand.name))
            else:
                args.append(self._argument(operand))
        return args, params

    def _file(self, kernel: str, header: str | None) -> str:
        """The header that defines `kernel`: the vendor's own if it has one of that name."""
        file = header or self._header or f"{kernel}.h"
        if self._folder is not None and (self._folder / file).is_file():
            return str(self._folder / file)
        return file

    def _argument(self, operand: Operand) -> Arg | Scalar:
        """How an operand is passed: a number or NULL (None) by value, everything else as a pointer.

        A pointer writes if it is an output or temporary that holds nothing yet, else it reads.
        Raises BackendError for what C cannot pass.
        """
        if operand is None:
            return Scalar(0, "void *")
        if isinstance(operand, bool | int):
            return Scalar(int(operand), "int32_t")
        if isinstance(operand, float):
            return Scalar(operand, "float")
        if isinstance(operand, Scalar):
            return operand
        if isinstance(operand, Used):
            return Arg(self._name(operand.what), operand.access, operand.offset, operand.back)
        if not isinstance(operand, ValueRef | Handle):
            raise BackendError(f"a {type(operand).__name__} cannot be passed to a kernel")
        name = self._name(operand)
        tensor = self.tensors[name]
        fresh = name in self._outputs or (isinstance(operand, Handle) and tensor.role is Role.TEMP)
        if tensor.role is Role.SCRATCH or (fresh and name not in self._written):
            return Arg(name, Access.WRITE)
        return Arg(name, Access.READ)

    def _name(self, what: ValueRef | Handle) -> str:
        """The name of the tensor of a handle or of a value."""
        return what.name if isinstance(what, Handle) else self.tensor_of(what).name

    def _pairs(
        self, args: Sequence[Any], inplace: Sequence[tuple[Any, Any]]
    ) -> tuple[tuple[int, int], ...]:
        """The positions in `args` of outputs and inputs that may share an address.

        An input named twice has two; what is absent or a constant has none.
        """
        names = [a.tensor if isinstance(a, Arg) else "" for a in args]
        found: list[tuple[int, int]] = []
        for pair in inplace:
            wanted = [w.what if isinstance(w, Used) else w for w in pair if w is not None]
            named = [self._name(w) for w in wanted]
            if len(named) == 2 and all(self.tensors[n].role is not Role.CONST for n in named):
                places = ((names.index(named[0]), i) for i, n in enumerate(names) if n == named[1])
                found += [p for p in places if p not in found][:1]
        return tuple(found)


def source_folder(vendor: str) -> str:
    """The folder of a bundle in which the C sources of a vendor lie."""
    return f"src/vendor/{re.sub(r'[^A-Za-z0-9_]', '_', vendor)}"


def _check_align(align: int) -> None:
    """Raise BackendError unless `align` (bytes) is a power of two up to MOST_ALIGN."""
    if align < 1 or align & (align - 1) or align > MOST_ALIGN:
        raise BackendError(f"an alignment of {align} bytes (a power of two up to {MOST_ALIGN})")


def layout_name(name: str, layout: Layout) -> str:
    """The tensor name of a copy of value `name` in another layout."""
    return f"{name}_{'plain' if not layout.blocked else str(layout).lower()}"
