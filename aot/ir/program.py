# SPDX-License-Identifier: Apache-2.0
"""The Program: what runs, as frozen records. Produced by `lower`, reordered by `schedule`.

A Program is an ordered list of calls on named tensors. Nothing in it refers to ONNX objects any
more; names of ONNX nodes and values are carried along for people to read.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aot.errors import InternalError
from aot.ir import layout as lay
from aot.ir.deferred import Constant
from aot.ir.dtypes import DType
from aot.ir.fetch import Fetch
from aot.ir.layout import PLAIN, Layout
from aot.ir.plan import Plan
from aot.ir.rows import Rowwise, Segment
from aot.ir.slices import Slice
from aot.ir.splits import Split


class Role(enum.Enum):
    """Who owns a tensor's memory and how long it lives."""

    INPUT = "input"  # the caller's, read only
    OUTPUT = "output"  # the caller's, written
    CONST = "const"  # read-only data of the bundle
    TEMP = "temp"  # in the arena, from its first write to its last read
    SCRATCH = "scratch"  # in the arena, during one call


class Access(enum.Enum):
    """What a call does with a tensor."""

    READ = "r"
    WRITE = "w"
    READ_WRITE = "rw"


@dataclass(frozen=True, slots=True)
class View:
    """A tensor that shares the memory of tensor `base`, `offset` bytes in."""

    base: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the program. `name` is a C identifier, unique in the program.

    `shape` is ONNX's (logical); `layout` says how it is stored; `nbytes` is the stored size.
    A scratch tensor has shape (bytes,) and dtype uint8. `code_offset` is what the model's quantised
    values are above the stored ones, `channels` which of the model's (axis 1) it has if not all.
    `member` is the identifier of an output in the C interface where another tensor has that name.
    `section` is the linker section a vendor wants a constant in.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    role: Role
    layout: Layout = PLAIN
    view: View | None = None
    onnx_name: str = ""
    align: int = 64
    code_offset: int = 0
    channels: tuple[int, ...] = ()
    member: str = ""
    section: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return lay.nbytes(self.shape, self.dtype, self.layout)

    @property
    def logical_nbytes(self) -> int:
        """Elements × dtype: what the tensor would take with no layout padding."""
        return lay.nbytes(self.shape, self.dtype)

    def text(self) -> str:
        """`name: float32[1,3,4] NC16 temp view(base+64)`."""
        dims = ",".join(map(str, self.shape))
        parts = [f"{self.name}: {self.dtype}[{dims}]", str(self.layout), self.role.value]
        if self.view:
            parts.append(f"view({self.view.base}+{self.view.offset})")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Arg:
    """A pointer argument: `tensor` plus `offset` bytes.

    The function touches bytes from there on, and at most `back` bytes before it.
    """

    tensor: str
    access: Access
    offset: int = 0
    back: int = 0

    def text(self) -> str:
        """The access, `r`, `w` or `rw`, with the tensor and the offset in bytes if there is one."""
        return f"{self.access.value} {self.tensor}" + f"+{self.offset}" * bool(self.offset)

    @property
    def begin(self) -> int:
        """The first byte of the tensor that the function may touch."""
        return self.offset - self.back


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number passed by value; `ctype` is its C type."""

    value: int | float
    ctype: str

    def text(self) -> str:
        """The number, as Python writes it."""
        return str(self.value)


@dataclass(frozen=True, slots=True)
class StateArg:
    """The argument `void **`: where the vendor's object called `state` keeps its pointers."""

    state: str

    def text(self) -> str:
        """The name of the state."""
        return self.state


FieldValue = int | float | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Params:
    """The kernel's parameter struct: `ctype` and its fields in order."""

    ctype: str
    fields: tuple[tuple[str, FieldValue], ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a call comes from: nodes of the graph and their operators.

    `comment` says what else the call does, `onnx_names` are the names that the model's file gives
    the nodes, in the same order; () where they are the same.
    """

    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    comment: str = ""
    onnx_names: tuple[str, ...] = ()


class Source(enum.Enum):
    """What a body's input or output is at every step."""

    ARGUMENT = "argument"  # an argument of the call, or a slice of it
    COUNT = "count"  # the number of the step, int64
    GO = "go"  # whether the loop goes on, bool


@dataclass(frozen=True, slots=True)
class Wire:
    """An end of a body: argument `arg` of the call, `stride` bytes further at every step.

    With `backward` the last slice comes first.
    """

    source: Source
    arg: int = -1
    stride: int = 0
    backward: bool = False

    def text(self) -> str:
        """`3+16i`: argument 3, 16 bytes further at every step."""
        if self.source is not Source.ARGUMENT:
            return str(self.source.value)
        sign = "-" if self.backward else "+"
        return f"{self.arg}" + (f"{sign}{self.stride}i" if self.stride else "")


@dataclass(frozen=True, slots=True)
class Body:
    """A sub-program of a call: its inputs and outputs are memory that the call is given.

    `ins` and `outs` say for each where that is. `carried` are (argument with the first value,
    argument for the last) of the program's carried tensors, which live in the body's own arena:
    that is the scratch tensor which argument `arena` of the call names, planned by `plan`.
    """

    program: Program
    ins: tuple[Wire, ...]
    outs: tuple[Wire, ...]
    arena: int
    carried: tuple[tuple[int, int], ...] = ()
    plan: Plan | None = None

    def lines(self) -> Iterator[str]:
        """The wires, then the program."""
        ends = (" ".join(w.text() for w in side) for side in (self.ins, self.outs))
        ins, outs = ends
        carried = " ".join(f"{a}->{b}" for a, b in self.carried)
        yield f"in({ins}) out({outs}) carried({carried}) arena({self.arena})"
        yield from self.program.text().splitlines()


@dataclass(frozen=True, slots=True)
class Steps:
    """How often a loop runs its body: at most `most` times (-1: no bound).

    Argument `trips` is the int64 that says how often, argument `start` the bool that must be true
    for a first step (-1: none). With `go` the body says after each step whether another follows.
    """

    most: int
    trips: int = -1
    start: int = -1
    go: bool = False


#: The call that awaits region r has the region WAITS + r.
WAITS = 1 << 20


def region_name(region: int) -> str:
    """The name of a region in reports: "region_3", or "region_3_end" where it is awaited."""
    return f"region_{region - WAITS}_end" if region >= WAITS else f"region_{region}"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a kernel.

    `args` are in the order of the C parameters; `params` follows them as one const pointer, then
    `instance` as int constants on which the emitted function is specialised. `inplace` lists
    (written argument, read argument) index pairs that may be the same address: a permission.
    `bodies` are the sub-programs of control flow: of a loop that runs `steps`, or those for true
    and for false of the first argument. `header` is the file that defines the kernel,
    `status` tells that it returns an aot_status. `async_kernels` are two kernels (start, wait) that
    may be called in its place with other calls in between (aot/plan/async_overlap.py). `rowwise`
    says how the call makes one row of its result, None if it cannot. It may read `beyond` bytes
    past the end of each operand (aot/plan/overread.py). `splits` are ways to share it among
    threads, one where the program has chosen it. `blocks` tells how it is cut by channels of its
    weights, where they can come block by block; `fetches` are constants that do, or come at once:
    their sources and tables are arguments behind those of the kernel.
    """

    kernel: str
    args: tuple[Arg | Scalar | StateArg, ...]
    params: Params | None
    origin: Origin
    instance: tuple[tuple[str, int], ...] = ()
    inplace: tuple[tuple[int, int], ...] = ()
    backend: str = "c"
    region: int = -1
    macs: int = 0
    header: str = ""
    status: bool = False
    bodies: tuple[Body, ...] = ()
    steps: Steps | None = None
    async_kernels: tuple[str, str] | None = None
    rowwise: Rowwise | None = None
    beyond: int = 0
    splits: tuple[Split, ...] = ()
    blocks: Split | None = None
    fetches: tuple[Fetch, ...] = ()

    @property
    def by_rows(self) -> Rowwise:
        """How the call makes one row of its result; InternalError if it cannot."""
        if self.rowwise is None:
            raise InternalError(f"{self.kernel} makes no rows")
        return self.rowwise

    def tensor(self, index: int) -> Arg:
        """Argument `index`, a tensor's; InternalError if it is none."""
        arg = self.args[index]
        if not isinstance(arg, Arg):
            raise InternalError(f"argument {index} of {self.kernel} is no tensor")
        return arg

    def pointers(self) -> Iterator[Arg]:
        """The pointer arguments, in order."""
        for a in self.args:
            if isinstance(a, Arg):
                yield a

    def reads(self) -> tuple[str, ...]:
        """Names of the tensors read, in argument order."""
        return tuple(a.tensor for a in self.pointers() if a.access is not Access.WRITE)

    def writes(self) -> tuple[str, ...]:
        """Names of the tensors written, in argument order."""
        return tuple(a.tensor for a in self.pointers() if a.access is not Access.READ)

    def text(self) -> str:
        """One line: `kernel{TP=14}(w y, r x, {n=4})  # node + node`."""
        args = [a.text() for a in self.args]
        if self.params:
            args.append("{" + ", ".join(f"{k}={v}" for k, v in self.params.fields) + "}")
        inst = "{" + ",".join(f"{k}={v}" for k, v in self.instance) + "}" if self.instance else ""
        pairs = "".join(f" inplace({w}<-{r})" for w, r in self.inplace)
        return f"{self.kernel}{inst}({', '.join(args)}){pairs}  # {' + '.join(self.origin.nodes)}"


@dataclass(frozen=True, slots=True)
class State:
    """An object that a vendor keeps between runs: NAME_init makes it, if `last` after all others.

    `create(void **slots, args..., params)` returns a status; args are constants and earlier states.
    NAME_shutdown calls `release(void **slots)`, of `slots` pointers, NULL at first, in any case.
    """

    name: str
    slots: int
    create: Call
    release: str
    last: bool = False

    def text(self) -> str:
        """One line."""
        return f"state {self.name}[{self.slots}]: {self.create.text()}"


@dataclass(frozen=True, slots=True)
class RunTimeShape:
    """Output number `output` is as long on `axes` as a run says: its tensor's shape is the bound.

    `tensor`, int64 [rank] in the arena, holds the true shape until the next run. With `output` -1
    it is the result of a comparison that every run makes.
    """

    output: int
    axes: tuple[int, ...]
    tensor: str


@dataclass(frozen=True, slots=True)
class DynamicDimension:
    """The dimension `name` of inputs is as long as a run says, from `least` to `most`.

    `axes` are (number of the input, axis); `tensor`, int64 [1] in the arena, holds the length.
    """

    name: str
    least: int
    most: int
    axes: tuple[tuple[int, int], ...]
    tensor: str


@dataclass(frozen=True, slots=True)
class KeptDimension:
    """The dimension `name` of states, from 0 to `most`, is as long as the run before left it.

    `axes` are (tensor of the state, axis), `next` is the expression of dimensions that a run
    leaves, "" where it is none; `tensor`, int64 [1] and carried, holds the length.
    """

    name: str
    most: int
    axes: tuple[tuple[str, int], ...]
    next: str
    tensor: str


@dataclass(frozen=True, slots=True)
class Quantisation:
    """How integers q stand for numbers: (q - zero_point) * scale.

    One scale and zero point, or as many as the tensor is long along `axis` (None: one for all).
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """Tensors, constants, the vendors' objects in order of creation, the calls in order.

    With `io` "arena" inputs and outputs are temporaries that hold between runs; otherwise outputs
    are, if a call can fail, until they are copied to the caller (`held`). `carried` are
    temporaries that keep what a run leaves in them for the next one, zero at first. `shapes` are
    those of outputs that depend on the data, `dynamic_dims` the dimensions of inputs that each run
    gives, `kept_dims` those of states.
    `attached` are files that vendors add to the bundle, (path, content), for people and tools.
    `weights` says where constants are: "embedded", "file", "blob" or "section=NAME".
    `quantisation` is that of inputs and outputs of integers that stand for numbers, by tensor.
    `segments` are runs of calls that are made row by row. `pushed` is an input that is never in
    memory as a whole, whose rows the first call takes one by one; "" without. `slices` are the
    pieces of a run between which NAME_step may return, none without that entry. `threads` is the
    largest number of threads of a run.
    """

    name: str
    tensors: Mapping[str, Tensor]
    consts: Mapping[str, Constant]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[Call, ...]
    vlen: int = 1
    schedule_optimal: bool = field(default=False)
    states: tuple[State, ...] = ()
    io: str = "caller"
    carried: tuple[str, ...] = ()
    shapes: tuple[RunTimeShape, ...] = ()
    dynamic_dims: tuple[DynamicDimension, ...] = ()
    kept_dims: tuple[KeptDimension, ...] = ()
    attached: tuple[tuple[str, bytes], ...] = ()
    weights: str = "embedded"
    quantisation: tuple[tuple[str, Quantisation], ...] = ()
    segments: tuple[Segment, ...] = ()
    pushed: str = ""
    slices: tuple[Slice, ...] = ()
    threads: int = 1

    @property
    def kept(self) -> tuple[str, ...]:
        """Tensors of the arena that are there when a run starts and hold after it."""
        return (*self.carried, *(e.tensor for e in self.dynamic_dims))

    @property
    def passed(self) -> bool:
        """Whether the address of the constants is passed to what a run calls."""
        return self.weights in ("blob", "file")

    @property
    def held(self) -> tuple[str, ...]:
        """Outputs that the caller gets when every call has succeeded."""
        if self.io == "arena":
            return ()
        return tuple(n for n in self.outputs if self.tensors[n].role is Role.TEMP)

    def tree(self) -> Iterator[Program]:
        """The program and all within its calls, each before those within."""
        yield self
        for call in self.calls:
            for body in call.bodies:
                yield from body.program.tree()

    def every_call(self) -> Iterator[Call]:
        """The calls of the whole tree."""
        for program in self.tree():
            yield from program.calls

    def failing(self) -> Iterator[Call]:
        """The calls that can end a run halfway; control flow does if a call within it does."""
        return (c for c in self.every_call() if c.status and not c.bodies)

    def tensor(self, name: str) -> Tensor:
        """The tensor called `name`."""
        return self.tensors[name]

    def base(self, name: str) -> tuple[str, int]:
        """The tensor that owns the memory of `name`, and the byte offset in it."""
        offset = 0
        t = self.tensors[name]
        while t.view is not None:
            offset += t.view.offset
            t = self.tensors[t.view.base]
        return t.name, offset

    def text(self) -> str:
        """The whole program, one line per tensor and call; equal programs give equal text."""
        lines = [f"program {self.name} vlen={self.vlen}"]
        lines += [f"  threads={self.threads}"] if self.threads > 1 else []
        if self.io != "caller" or self.carried:
            lines.append(f"  io={self.io} carried={','.join(self.carried)}")
        lines += [f"  {t.text()}" for t in self.tensors.values()]
        lines += [f"  {s.text()}" for s in self.states]
        lines += [f"  output {s.output} has the shape {s.tensor}" for s in self.shapes]
        lines += [f"  {e.name} from {e.least} to {e.most} is {e.tensor}" for e in self.dynamic_dims]
        for i, call in enumerate(self.calls):
            lines.append(f"  {i}: {call.text()}")
            if call.steps:
                s = call.steps
                lines.append(f"    steps most={s.most} trips={s.trips} start={s.start} go={s.go:d}")
            lines += [f"    {f.text()}" for f in call.fetches]
            lines += [f"    {line}" for body in call.bodies for line in body.lines()]
            if call.rowwise and any(s.first <= i <= s.last for s in self.segments):
                lines.append(f"    {call.rowwise.text()}")
            if self.threads > 1:
                lines += [f"    {s.text()}" for s in call.splits]
        lines += [f"  {s.text()}" for s in self.segments]
        lines += [f"  {s.text()}" for s in self.slices]
        return "\n".join(lines) + "\n"
