# SPDX-License-Identifier: Apache-2.0
"""One call in C: its arguments, its parameter struct, the wrapper of its kernel, its comment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from aot.emit_c import ctext, fetch, parts
from aot.emit_c.arena_table import MemoryMacros
from aot.emit_c.constants import Constants
from aot.emit_c.kernels import Headers
from aot.emit_c.naming import local, shortened
from aot.emit_c.titles import title
from aot.emit_c.trace import arena_offset
from aot.errors import InternalError, UnsupportedError
from aot.ir.plan import Plan
from aot.ir.program import (
    Access,
    Arg,
    Body,
    Call,
    Params,
    Program,
    Role,
    Scalar,
    State,
    StateArg,
    region_name,
)
from aot.ir.splits import ROWS, PartField, Split
from aot.plan.specialise import Signature, is_null, signature, specialised

#: Characters of a kernel's name in the name of the function that calls it.
MOST_KERNEL = 34
#: Begins the names of the texts that a vendor's function for errors is told.
TOLD = "node_"


@dataclass(slots=True)
class Spelling:
    """Text collected while the calls are spelled.

    `program` is `root` or one of its bodies: these have the model's name, objects and constants,
    and their calls are not traced. `inner` are the functions of control flow, `macros` those
    for memory, `told` what a vendor's function for errors is told, by the call's label.
    """

    program: Program
    plan: Plan
    constants: Constants
    headers: Headers
    params: dict[tuple[str, str], str] = field(default_factory=dict)
    wrappers: dict[Signature, str] = field(default_factory=dict)
    fixed: frozenset[int] = frozenset()
    functions: list[str] = field(default_factory=list)
    failed: str = ""  # the vendor's function that is told of errors
    inner: list[str] = field(default_factory=list)
    macros: MemoryMacros = field(default_factory=MemoryMacros)
    told: dict[str, str] = field(default_factory=dict)
    around: Program | None = None
    failures: Mapping[str, str] = field(default_factory=dict)  # `failed` by vendor, of rows
    ends: dict[str, str] = field(init=False)  # the caller's tensors, in C

    def __post_init__(self) -> None:
        """Name the C pointers of the program's inputs and outputs."""
        ends = {name: f"out[{i}]" for i, name in enumerate(self.program.outputs)}
        self.ends = ends | {name: f"in[{i}]" for i, name in enumerate(self.program.inputs)}

    @property
    def cut(self) -> dict[int, int]:
        """Calls that are made by slices, and how many rows or other units each makes."""
        return {s.call: s.end for s in self.program.slices if s.end}

    @property
    def root(self) -> Program:
        """The whole program."""
        return self.around or self.program

    def within(self, body: Body, specialise: str) -> Spelling:
        """The spelling of a body: what is collected goes to the same place."""
        assert body.plan is not None
        fixed = specialised(body.program, specialise)
        made = replace(self, program=body.program, plan=body.plan, fixed=fixed)
        made.around = self.root
        return made

    def label(self, call: Call, kind: str, index: int | None = None) -> str:
        """The name of the text by which the vendor's function for errors knows a call."""
        name = f"{TOLD}{kind}{len(self.told) if index is None or kind else index}"
        self.told[name] = " + ".join(call.origin.nodes) or call.kernel
        return name


def spelling(
    program: Program, plan: Plan, constants: Constants, headers: Headers, specialise: str
) -> Spelling:
    """Nothing spelled yet."""
    return Spelling(program, plan, constants, headers, fixed=specialised(program, specialise))


def region(spelling: Spelling, call: Call) -> str:
    """The statement that computes a vendor's region."""
    calls = [c for c in spelling.program.calls if c.region == call.region]
    lines = [f"Region {call.region} of {call.backend}, whose calls are in a file of their own:"]
    lines += ["- " + "; ".join(title(spelling.program, c)) for c in calls]
    passed = region_arguments(spelling.root, spelling.program)
    function = f"{spelling.root.name}_{region_name(call.region)}"
    return ctext.block(lines, "    ") + "\n" + f"REGION({ctext.call(function, passed, '')});"


def region_arguments(root: Program, program: Program) -> list[str]:
    """What a function that computes a part of `program` is given."""
    ends = [] if program.io == "arena" else ["in", "out"]
    passed = ["weights"] if root.passed else []
    return ["arena", *ends, *(["state"] if root.states else []), *passed]


def region_head(root: Program, program: Program, region: int, tail: str, before: str = "") -> str:
    """The head of a region's function, ending in `tail` (a brace or semicolon)."""
    return part_head(root, program, f"{before}aot_status {root.name}_{region_name(region)}", tail)


def part_head(root: Program, program: Program, head: str, tail: str) -> str:
    """The head of a function that computes a part of `program`."""
    declared = [PARAMETERS[a] for a in region_arguments(root, program)]
    return ctext.call(head, declared, tail)


def has_status(program: Program, index: int) -> bool:
    """Whether the function of segment `index` returns a status: of a vendor, or of pushed rows."""
    segment = program.segments[index]
    calls = program.calls[segment.first : segment.last + 1]
    return any(c.status for c in calls) or bool(program.pushed and index == 0)


def state_slots(program: Program) -> int:
    """Pointers of a context that belong to the vendors' objects."""
    return sum(s.slots for s in program.states)


def slot(program: Program, name: str) -> int:
    """Number of the first pointer of the object called `name`."""
    first = 0
    for state in program.states:
        if state.name == name:
            return first
        first += state.slots
    raise InternalError(f"state {name} does not exist")


def create(spelling: Spelling, state: State) -> str:
    """The C statement of NAME_vendors_init that makes the object of `state`, unless one failed
    before.
    """
    call = state.create
    arguments = [f"state + {slot(spelling.program, state.name)}"]
    for a in call.args:
        text = "NULL" if is_null(a) else _passed(spelling, a)
        # A constant is a table of its type, or bytes of a file: the function may name the type.
        arguments.append(f"(const void *){text}" if text.startswith("CONST_") else text)
    if call.params:
        arguments.append("&" + _params(spelling, call, call.params))
    deep = 12 if spelling.failed else 8
    made = "status = " + ctext.call(ctext.ident(call.kernel), arguments)
    note = ctext.block(title(spelling.program, call, state.name), "    ")
    if not spelling.failed:
        return f"{note}\n    if (status == AOT_OK)\n{made}"
    label = spelling.label(call, "s")
    told = f"        if (status != AOT_OK)\n{' ' * deep}{spelling.failed}({label}, status);"
    return f"{note}\n    if (status == AOT_OK) {{\n{made}\n{told}\n    }}"


def stateful(program: Program) -> list[str]:
    """Vendors that have objects, in the order of their first one."""
    return list(dict.fromkeys(s.create.backend for s in program.states))


def step(spelling: Spelling, index: int, call: Call) -> str:
    """The statement of the call `index` in NAME_execute, below a comment with its title.

    A call that copies a tensor to its own place is `(void)0`, so that the numbers of calls stay
    those of the trace. Null pointers are no arguments, nor are parameters of a call that is
    compiled for them alone. Raises UnsupportedError for a parameter that its C type does not hold,
    InternalError for a tensor without a place.
    """
    head = ctext.block(title(spelling.program, call), "    ") + "\n"
    if _is_nothing(spelling, call):
        return head + ("    (void)0;" if spelling.around else f"    STEP({index}, (void)0);")
    count, shared = spelling.cut.get(index, 0), spelling.root.threads > 1
    split = call.splits[0] if call.splits and (shared or count) else None
    # Parts of a row change so many parameters that a function of its own is only more code.
    fixed = index in spelling.fixed and not (split and split.line)
    fields = ROWS if count and not split else split.fields if split else ()
    function = _wrapper(spelling, call, fixed, fields)
    arguments = [
        _of_part(spelling, number, a, split) if split else _passed(spelling, a)
        for number, a in enumerate(call.args)
        if not is_null(a)
    ]
    if call.params and not fixed:
        arguments.append("&" + _params(spelling, call, call.params))
    arguments += ["first", "end"] if fields else fetch.passed(spelling.program, call)
    if split and shared:
        part = local(spelling.root.name, f"part{index}")
        known = {a: PARAMETERS[a] for a in region_arguments(spelling.root, spelling.program)}
        made = ctext.call(function, arguments)
        spelling.functions.append(parts.part_function(part, known, split.tile, made))
        # Threads share the rows of the slice where there are slices, else the whole call.
        made = f"SPLIT({part}, {'first, end' if count else f'0, {split.units}'})"
    else:
        made = ctext.call(function, arguments, "")
    if count:
        return f"{head}    ROWS({index}, {count}, {made});"
    if split and shared:
        return f"{head}    STEP({index}, {made});"
    told = (
        spelling.label(call, "b" if spelling.around else "", index)
        if call.status and spelling.failed
        else ""
    )
    return head + statement(spelling, index, call.status, function, arguments, told)


def statement(
    spelling: Spelling,
    index: int,
    status: bool,
    function: str,
    arguments: Sequence[str],
    told: str = "",
) -> str:
    """The call of a function for call `index`, traced unless it is in a body.

    `told` is the name of what the vendor's function for errors is told.
    """
    if spelling.around and not status:
        return ctext.call(function, arguments)
    if spelling.around:
        macro, before = ("SAYING", [told.removeprefix(TOLD)]) if told else ("REGION", [])
    else:
        macro, before = "TRY_SAYING" if told else "TRY" if status else "STEP", [str(index)]
    return f"{macro}({', '.join([*before, ctext.call(function, arguments, '')])});"


def _is_nothing(spelling: Spelling, call: Call) -> bool:
    """Whether a copy has both its ends in one place."""
    ends = [_address(spelling, a) for a in call.pointers()]
    return call.kernel == "aot_copy" and ends[0] == ends[1]


def _address(spelling: Spelling, arg: Arg) -> tuple[str, int]:
    """The memory that an argument is in, and the byte there: equal for equal addresses."""
    place = arena_offset(spelling.program, spelling.plan, arg.tensor)
    if place is not None:
        return "arena", place + arg.offset
    base, offset = spelling.program.base(arg.tensor)
    return base, offset + arg.offset


def _passed(spelling: Spelling, arg: Arg | Scalar | StateArg) -> str:
    """The C expression of an argument: an object's slot, a pointer or a number."""
    if isinstance(arg, StateArg):
        return f"state + {slot(spelling.root, arg.state)}"
    return pointer(spelling, arg) if isinstance(arg, Arg) else _value(arg)


def _of_part(spelling: Spelling, number: int, arg: Arg | Scalar | StateArg, split: Split) -> str:
    """The C expression of argument `number` for one part of a call that threads share."""
    text = _passed(spelling, arg)
    if not isinstance(arg, Arg):
        return text
    tensor = spelling.program.tensors[arg.tensor]
    return parts.moved(text, number, arg, tensor, split, spelling.root.threads)


def _value(arg: Scalar) -> str:
    """The C expression of a number, converted to its type."""
    kind = ctext.ctype(arg.ctype)
    return f"({kind})({ctext.number(arg.value, kind)})"


def pointer(spelling: Spelling, arg: Arg) -> str:
    """The C expression for the address of an argument.

    InternalError if the plan has no place for its tensor.
    """
    base, offset = spelling.program.base(arg.tensor)
    offset += arg.offset
    tensor = spelling.program.tensors[base]
    if tensor.role in (Role.INPUT, Role.OUTPUT):
        return at(spelling.ends[base], offset)
    if tensor.role is Role.CONST:
        return _constant(spelling, base, offset)
    place = arena_offset(spelling.program, spelling.plan, arg.tensor)
    if place is None and tensor.nbytes == 0:
        return "arena"
    if place is None:
        raise InternalError(f"tensor {arg.tensor} has no place in the plan")
    return at(spelling.macros.buffer(spelling.program, arg.tensor), arg.offset)


def _constant(spelling: Spelling, name: str, offset: int) -> str:
    """The C expression for the address of constant `name` plus `offset` bytes.

    Equal constants share one place: in a file, in a blob of their owner, or as a table of their
    own.
    """
    stored = spelling.constants.same[name]
    if stored in spelling.constants.offsets:
        blob = weights_of(spelling.root.name, spelling.constants.owners.get(stored, ""))
        file = "weights" if spelling.constants.passed else f"{blob}_weights"
        return at(
            spelling.macros.constant(stored, at(file, spelling.constants.offsets[stored])), offset
        )
    table = table_name(spelling, stored)
    return f"(const unsigned char *){table} + {offset}" if offset else table


def table_name(spelling: Spelling, constant: str) -> str:
    """The name of the table in the source that has a constant."""
    return spelling.macros.names.name("c_", constant)


def weights_of(name: str, vendor: str) -> str:
    """Prefix of the weights' symbol: the model's, or those that only one vendor reads."""
    return f"{name}_vendor_{ctext.ident(vendor)}" if vendor else name


def at(base: str, offset: int) -> str:
    """`base + offset`."""
    return f"{base} + {offset}" if offset else base


def _params(spelling: Spelling, call: Call, params: Params) -> str:
    """The name of the static struct with these parameters; equal ones are shared.

    UnsupportedError if a value does not fit the type of its member.
    """
    kinds: Mapping[str, str] = spelling.headers.fields.get(params.ctype, {})
    for k, v in params.fields:
        if not ctext.fits(v, kind := kinds.get(k, "")):
            node = f"node {', '.join(call.origin.nodes)} ({', '.join(call.origin.ops)})"
            raise UnsupportedError(f"{k} {v} is beyond the kernel's {kind or 'int64_t'}", node)
    fields = [f".{ctext.ident(k)} = {ctext.field(v, kinds.get(k, ''))}" for k, v in params.fields]
    init = "{\n" + "".join(f"    {f},\n" for f in fields) + "}"
    key = (ctext.ident(params.ctype), init)
    return spelling.params.setdefault(key, local(spelling.root.name, f"p{len(spelling.params)}"))


def _wrapper(
    spelling: Spelling, call: Call, specialised: bool, part: Sequence[PartField] = ()
) -> str:
    """Name of the function for the call's signature, which is spelled the first time.

    With the fields of a `part` the function makes units `first` to `end` - 1 of the result.
    """
    fixed = _params(spelling, call, call.params) if call.params and specialised else ""
    kernel, begin = ctext.ident(call.kernel), ""
    if part and call.params:
        begin = parts.copied(call.params.ctype, fixed or "*p", part)
    key = (*signature(call), fixed, begin)
    if key not in spelling.wrappers:
        number = len(spelling.wrappers)
        short = shortened(kernel.removeprefix("aot_"), MOST_KERNEL)
        spelling.wrappers[key] = local(spelling.root.name, f"k{number}_{short}")
        ranged = f"{kernel}_rows" if tuple(part) == ROWS else ""
        ranged = ranged if ranged in spelling.headers.ranges else ""
        begin = "" if ranged else begin
        made = _function(spelling.wrappers[key], call, fixed, bool(part), ranged, begin)
        spelling.functions.append(made)
    return spelling.wrappers[key]


def row_wrapper(spelling: Spelling, call: Call) -> tuple[str, str]:
    """Names of the function for one row of a call, and of its parameters ("" without any)."""
    params = _params(spelling, call, call.params) if call.params else ""
    return _wrapper(spelling, call, False), params


def _function(name: str, call: Call, fixed: str, part: bool, ranged: str, begin: str) -> str:
    """The C function `name` that calls the kernel of `call`, so that the compiler specialises it.

    `fixed` names a static struct of parameters that is compiled in, "" if a pointer is passed; with
    `part` the function takes its first unit and its end. It sets fields of a copy, as the
    statements `begin` say, or gives both to the kernel's function `ranged`, for which `fixed` stays
    constant.
    """
    declared, labels = list[str](), list[str]()
    for arg in call.args:
        null = is_null(arg)
        labels.append("NULL" if null else _label(arg, len(declared)))
        declared += [] if null else [_declaration(arg) + labels[-1]]
    passed = [*labels]
    if call.params:
        if not fixed:
            declared.append(f"const {ctext.ident(call.params.ctype)} *p")
        copied = (part and not ranged) or (call.fetches and call.fetches[0].split.fields)
        passed.append("&rows" if copied else f"&{fixed}" if fixed else "p")
    if part and call.params:
        declared += ["int32_t first", "int32_t end"]
        passed += ["first", "end"] if ranged else []
    # Constants stand here as literals: the compiler removes the branches of the kernel on them.
    passed += [f"/*{ctext.ident(k)}=*/{ctext.integer(v)}" for k, v in call.instance]
    result = "aot_status" if call.status else "void"
    head = f"AOT_NOINLINE static {result} {name}"
    if call.fetches:
        declared += fetch.declared(call)
        rest = [call.kernel, *passed[len(call.args) :]]
        body = fetch.body(call, labels, fixed or "*p", rest)
    else:
        body = ctext.call(("return " if call.status else "") + (ranged or call.kernel), passed)
    return f"{ctext.call(head, declared or ['void'], ' {')}\n{begin}{body}\n}}\n"


def _label(arg: Arg | Scalar | StateArg, index: int) -> str:
    """The name of parameter `index` in C: s for objects, n for numbers, x for tensors read, y for
    written.
    """
    if isinstance(arg, StateArg):
        return f"s{index}"
    if isinstance(arg, Scalar):
        return f"n{index}"
    return f"x{index}" if arg.access is Access.READ else f"y{index}"


def _declaration(arg: Arg | Scalar | StateArg) -> str:
    """The C type of a parameter, with a space where a name follows a word."""
    if isinstance(arg, StateArg):
        return "void **"
    if isinstance(arg, Scalar):
        return ctext.ctype(arg.ctype) + " "
    return "const void *" if arg.access is Access.READ else "void *"


PARAMETERS = {
    "arena": "unsigned char *arena",
    "in": "const unsigned char *const *in",
    "out": "unsigned char *const *out",
    "state": "void **state",
    "weights": "const unsigned char *weights",
    "push": "aot_push *push",
    "pool": "void *pool",
    "threads": "int32_t threads",
}
