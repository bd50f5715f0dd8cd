# SPDX-License-Identifier: Apache-2.0
"""Control flow in C: a function per If or Loop, and one per body, all static in `src/NAME_run.c`.

static aot_status net_loop_n(unsigned char *arena, …) {
    const unsigned char *from[2];                 what the body reads: its inputs
    unsigned char *to[1];                         where it writes: its outputs
    (void)memcpy(arena + 64, in[0], 16);                the first value of a state
    for (i = 0; i < steps && go != 0; ++i) {
        from[1] = in[1] + (size_t)i * 12;         what is scanned moves on
        REGION(net_body_n(arena + 64, from, to));
    }
    (void)memcpy(out[0], arena + 64, 16);               its last value
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aot.emit_c import ctext
from aot.emit_c.naming import prefix
from aot.emit_c.spelling import (
    Spelling,
    has_status,
    part_head,
    pointer,
    region,
    region_arguments,
    statement,
    step,
)
from aot.emit_c.titles import title
from aot.ir.program import Body, Call, Role, Source, Wire
from aot.ir.rows import STREAMED


def statements(spelling: Spelling, specialise: str) -> list[str]:
    """The calls in order; the calls of a vendor's region are one, and so is control flow."""
    return [text for _, text in numbered(spelling, specialise)]


def numbered(spelling: Spelling, specialise: str) -> list[tuple[int, str]]:
    """The statements that make the calls of a program, each with the index of the first call it
    makes.

    A segment that runs by rows, a call with bodies, and a region are one statement each.
    `specialise` says which calls get functions of their own. Functions of bodies go to
    `spelling.inner`.
    """
    steps: list[tuple[int, str]] = []
    last = -1
    segments = {s.first: k for k, s in enumerate(spelling.program.segments)}
    for index, call in enumerate(spelling.program.calls):
        if index in segments:
            steps.append((index, _rows(spelling, segments[index])))
        # The loop over the rows of its segment makes this call.
        if call.region == STREAMED:
            continue
        if call.bodies:
            function = _control(spelling, call, specialise)
            note = ctext.block(title(spelling.program, call), "    ")
            arguments = region_arguments(spelling.root, spelling.program)
            made = statement(spelling, index, True, function, arguments)
            steps.append((index, f"{note}\n{made}"))
        elif call.region < 0:
            steps.append((index, step(spelling, index, call)))
        # The vendor computes a region by one function, so its first call stands for all of them.
        elif call.region != last:
            steps.append((index, region(spelling, call)))
        last = call.region
    return steps


def _rows(spelling: Spelling, number: int) -> str:
    """The C statement that makes the rows of segment `number`, and those that trace what it
    wrote.
    """
    segment = spelling.program.segments[number]
    calls = range(segment.first, segment.last + 1)
    lines = [f"Calls {segment.first} to {segment.last}, row by row, are in a file of their own:"]
    lines += ["- " + title(spelling.program, spelling.program.calls[i])[0] for i in calls]
    passed = region_arguments(spelling.root, spelling.program)
    passed += ["push"] * bool(spelling.program.pushed and number == 0)
    made = ctext.call(f"{spelling.root.name}_rows{number}", passed)
    if has_status(spelling.program, number):
        made = f"    REGION({made[:-1]});"
    traced = [f"    AFTER({i});" for i in calls]
    return "\n".join([ctext.block(lines, "    "), made, *traced])


def _control(spelling: Spelling, call: Call, specialise: str) -> str:
    """Spell the function of an If or a Loop, behind those of its bodies, into `spelling.inner`; its
    name.
    """
    kind = "if" if call.steps is None else "loop"
    name = spelling.macros.names.name(
        f"{prefix(spelling.root.name)}{kind}_", ctext.ident(call.origin.nodes[-1])
    )
    bodies = [_body(spelling, body, specialise) for body in call.bodies]
    lines = _if(spelling, call, bodies) if call.steps is None else _loop(spelling, call, bodies[0])
    head = part_head(spelling.root, spelling.program, f"static aot_status {name}", " {")
    unused = [f"    (void){a};" for a in region_arguments(spelling.root, spelling.program)]
    declared = [line for line in lines if line.startswith(_DECLARATIONS)]
    rest = [line for line in lines if not line.startswith(_DECLARATIONS)]
    spelling.inner.append(
        "\n".join([head, *declared, *unused, *rest, "    return AOT_OK;", "}", ""])
    )
    return name


_DECLARATIONS = (
    "    const unsigned char *",
    "    unsigned char ",
    "    int64_t ",
    "    const int64",
)


def _body(spelling: Spelling, body: Body, specialise: str) -> str:
    """Spell the function of a body; its name."""
    own = spelling.within(body, specialise)
    name = spelling.macros.names.name(prefix(spelling.root.name), ctext.ident(body.program.name))
    steps = statements(own, specialise)
    head = part_head(spelling.root, body.program, f"static aot_status {name}", " {")
    unused = [f"    (void){a};" for a in region_arguments(spelling.root, body.program)]
    spelling.inner.append("\n".join([head, *unused, *steps, "    return AOT_OK;", "}", ""]))
    return name


def _place(spelling: Spelling, call: Call, index: int, offset: int = 0) -> str:
    """The C expression for the address of argument `index` of a call, `offset` bytes further on.

    InternalError if the argument is no tensor. A table of constants has elements of its own type,
    and the arrays of a body's operands have pointers to bytes, so constants get a cast.
    """
    arg = call.tensor(index)
    text = pointer(spelling, replace(arg, offset=arg.offset + offset))
    base = spelling.program.tensors[spelling.program.base(arg.tensor)[0]]
    return f"(const unsigned char *){text}" if base.role is Role.CONST else text


def _arrays(bodies: Sequence[Body]) -> list[str]:
    """Declarations of what is passed to the bodies."""
    ins = max(1, *(len(b.ins) for b in bodies))
    outs = max(1, *(len(b.outs) for b in bodies))
    return [f"    const unsigned char *from[{ins}];", f"    unsigned char *to[{outs}];"]


def _call_body(spelling: Spelling, call: Call, body: Body, name: str, indent: str) -> str:
    """The statement that runs a body once."""
    passed = [_place(spelling, call, body.arena), "from", "to"]
    passed += ["state"] if spelling.root.states else []
    return f"{indent}REGION({ctext.call(name, passed, '')});"


def _fixed(spelling: Spelling, call: Call, body: Body, indent: str) -> list[str]:
    """C lines that put the places of a body's operands and results that stay in place into `from`
    and `to`.

    A `wire` with a stride moves from step to step and is left out; an array without entries gets
    NULL.
    """
    lines = []
    for array, wires in (("from", body.ins), ("to", body.outs)):
        for k, wire in enumerate(wires):
            if wire.source is Source.COUNT:
                lines.append(f"{indent}{array}[{k}] = (const unsigned char *)&i;")
            elif wire.source is Source.GO:
                lines.append(f"{indent}{array}[{k}] = &go;")
            elif not wire.stride:
                lines.append(f"{indent}{array}[{k}] = {_place(spelling, call, wire.arg)};")
    if not any(w for w in body.ins):
        lines.append(f"{indent}from[0] = NULL;")
    if not any(w for w in body.outs):
        lines.append(f"{indent}to[0] = NULL;")
    return lines


def _if(spelling: Spelling, call: Call, names: Sequence[str]) -> list[str]:
    """C lines of an If: the condition is argument 0, `names` are the functions of its two
    bodies.
    """
    then, other = call.bodies
    lines = [*_arrays(call.bodies)]
    same = (then.ins, then.outs) == (other.ins, other.outs)
    if same:
        lines += _fixed(spelling, call, then, "    ")
    lines.append(f"    if (aot_is_true({_place(spelling, call, 0)})) {{")
    lines += [] if same else _fixed(spelling, call, then, " " * 8)
    lines += [_call_body(spelling, call, then, names[0], " " * 8), "    } else {"]
    lines += [] if same else _fixed(spelling, call, other, " " * 8)
    return [*lines, _call_body(spelling, call, other, names[1], " " * 8), "    }"]


def _loop(spelling: Spelling, call: Call, name: str) -> list[str]:
    """C lines of a Loop whose body is the function `name`.

    States are copied into the body's arena before the loop and out of it behind; pointers to slices
    of what is walked along are set in every step.
    """
    (body,) = call.bodies
    steps = call.steps
    assert steps is not None
    lines = [
        *_arrays(call.bodies),
        "    int64_t i;",
        f"    const int64_t steps = {_count(spelling, call)};",
    ]
    # A Loop can end by its condition, a Scan never does.
    if steps.go:
        lines.append("    unsigned char go = 1;")
    lines += _copies(spelling, call, body, first=True)
    lines += _fixed(spelling, call, body, "    ")
    more = " && go != 0" if steps.go else ""
    lines.append(f"    for (i = 0; i < steps{more}; ++i) {{")
    for array, wires in (("from", body.ins), ("to", body.outs)):
        for k, wire in enumerate(wires):
            if wire.stride:
                place = _place(spelling, call, wire.arg)
                lines.append(f"        {array}[{k}] = {place} + {_slice(wire)};")
    lines += [_call_body(spelling, call, body, name, " " * 8), "    }"]
    return lines + _copies(spelling, call, body, first=False)


def _count(spelling: Spelling, call: Call) -> str:
    """The C expression for the most steps that a loop takes: by its bound, its trip count, its
    condition.
    """
    steps = call.steps
    assert steps is not None
    most = ctext.integer(steps.most) if steps.most >= 0 else "INT64_MAX"
    if steps.trips >= 0:
        most = f"aot_steps({_place(spelling, call, steps.trips)}, {steps.most})"
    if steps.start >= 0:
        return f"aot_is_true({_place(spelling, call, steps.start)}) ? {most} : 0"
    return most


def _slice(wire: Wire) -> str:
    """How far the slice of step i is from the first byte."""
    return f"(size_t){'(steps - 1 - i)' if wire.backward else 'i'} * {wire.stride}"


def _copies(spelling: Spelling, call: Call, body: Body, first: bool) -> list[str]:
    """C lines that copy states into the arena of the body (`first`), or their last values out of
    it.
    """
    assert body.plan is not None
    lines = []
    for name, (before, after) in zip(body.program.carried, body.carried, strict=True):
        nbytes = body.program.tensors[name].nbytes
        offset = body.plan.placements[name].offset if nbytes else 0
        own = _place(spelling, call, body.arena, offset)
        outer = _place(spelling, call, before if first else after)
        ends = (own, outer) if first else (outer, own)
        if nbytes:
            lines.append(ctext.call("(void)memcpy", [*ends, str(nbytes)]))
    return lines
