# SPDX-License-Identifier: Apache-2.0
"""C of a program's calls in which every tensor has memory of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from aot.ir.program import Arg, Call, Program, Role, Scalar


def number(value: float | int) -> str:
    """A C constant."""
    if isinstance(value, int):
        return f"{value}LL" if -(2**63) < value < 2**63 else "INT64_MIN"
    if value != value:
        return "(float)NAN"
    if value in (float("inf"), float("-inf")):
        return "(float)INFINITY" if value > 0 else "-(float)INFINITY"
    return float(value).hex()


def params_text(call: Call, name: str) -> str:
    """The definition of the call's parameter struct."""
    fields = ", ".join(
        f".{k} = " + ("{" + ", ".join(map(number, v)) + "}" if isinstance(v, tuple) else number(v))
        for k, v in call.params.fields
    )
    return f"static const {call.params.ctype} {name} = {{{fields}}};"


def inplace_choice(program: Program) -> dict[str, str]:
    """For one in-place pair per call that may be used: written tensor → read tensor."""
    chosen: dict[str, str] = {}
    for i, call in enumerate(program.calls):
        for out, inp in call.inplace:
            w, r = call.args[out], call.args[inp]
            tw, tr = program.tensors[w.tensor], program.tensors[r.tensor]
            later = any(tr.name in c.reads() for c in program.calls[i + 1 :])
            others = sum(1 for a in call.pointers() if a.tensor == tr.name)
            viewed = any(t.view for t in (tw, tr)) or any(
                t.view and t.view.base == tr.name for t in program.tensors.values()
            )
            usable = tr.role in (Role.INPUT, Role.TEMP) and tr.nbytes == tw.nbytes
            if (
                usable
                and not later
                and not viewed
                and others == 1
                and tr.name not in program.outputs
            ):
                chosen[tw.name] = tr.name
                break
    return chosen


@dataclass
class Wrappers:
    """One function per kernel and instance constants, as in a bundle: little for gcc to compile."""

    names: dict[tuple, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def name(self, call: Call) -> str:
        """The function to call; the first use defines it."""
        kinds = [a.ctype if isinstance(a, Scalar) else "unsigned char *" for a in call.args]
        key = (call.kernel, call.instance, tuple(kinds), call.params and call.params.ctype)
        if key not in self.names:
            self.names[key] = f"k{len(self.names)}"
            if call.params:
                kinds.append(f"const {call.params.ctype} *")
            given = ", ".join(f"{kind} a{i}" for i, kind in enumerate(kinds))
            passed = [
                f"(void *)a{i}" if kind == "unsigned char *" else f"a{i}"
                for i, kind in enumerate(kinds)
            ]
            passed += [str(v) for _, v in call.instance]
            self.lines.append(
                f"static __attribute__((noinline)) void {self.names[key]}({given}) {{"
            )
            self.lines.append(f"    {call.kernel}({', '.join(passed)});\n}}")
        return self.names[key]


def address(program: Program, name: str, more: int = 0) -> str:
    """Where a tensor is: its owner may be memory that a call has been given."""
    base, offset = program.base(name)
    return f"{base}_b + {offset + more}"


def calls_text(program: Program, index: str, wrappers: Wrappers, constants: list[str]) -> list[str]:
    """C of the calls in order, those of bodies inside; parameters go to `constants`."""
    lines = []
    for k, call in enumerate(program.calls):
        if call.bodies:
            lines += control_text(program, call, f"{index}_{k}", wrappers, constants)
            continue
        args = [
            address(program, a.tensor, a.offset) if isinstance(a, Arg) else f"({a.ctype}){a.value}"
            for a in call.args
        ]
        if call.params:
            constants.append(params_text(call, f"p{index}_{k}"))
            args.append(f"&p{index}_{k}")
        lines.append(f"    {wrappers.name(call)}({', '.join(args)});")
    return lines


def control_text(
    program: Program, call: Call, index: str, wrappers: Wrappers, constants: list[str]
) -> list[str]:
    """An If or a Loop written out, every tensor in memory of its own."""
    at = [address(program, a.tensor, a.offset) for a in call.pointers()]
    i, go, n = f"i{index}", f"go{index}", f"n{index}"
    inner = []
    for which, body in enumerate(call.bodies):
        own = []
        names = (*body.program.inputs, *body.program.outputs)
        for name, wire in zip(names, (*body.ins, *body.outs), strict=True):
            place = {"count": f"(unsigned char *)&{i}", "go": f"&{go}"}.get(wire.source.value)
            step = f"({n} - 1 - {i})" if wire.backward else i
            moved = f" + {step} * {wire.stride}" if wire.stride else ""
            own.append(f"    {name}_b = {place or at[wire.arg] + moved};")
        own += calls_text(body.program, f"{index}_{which}", wrappers, constants)
        inner.append(own)
    if call.steps is None:
        return [f"    if (*({at[0]})) {{", *inner[0], "    } else {", *inner[1], "    }"]
    (body,) = call.bodies
    carried = [
        (f"{name}_b", at[first], at[last], body.program.tensors[name].nbytes)
        for name, (first, last) in zip(body.program.carried, body.carried, strict=True)
    ]
    s = call.steps
    lines = [f"    {{ int64_t {i}, {n} = {s.most if s.most >= 0 else 'INT64_MAX'};"]
    lines.append(f"    unsigned char {go} = 1; (void){go};")
    if s.trips >= 0:
        lines.append(f"    {{ int64_t m; memcpy(&m, {at[s.trips]}, 8); if (m < {n}) {n} = m; }}")
    if s.start >= 0:
        lines.append(f"    if (!*({at[s.start]})) {n} = 0;")
    lines += [f"    memcpy({place}, {first}, {size});" for place, first, _, size in carried]
    lines += [f"    for ({i} = 0; {i} < {n} && {go}; ++{i}) {{", *inner[0], "    }"]
    lines += [f"    memcpy({last}, {place}, {size});" for place, _, last, size in carried]
    return [*lines, "    }"]
