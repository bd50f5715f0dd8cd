# SPDX-License-Identifier: Apache-2.0
"""How many bytes of code a program becomes, before a compiler has seen it.

`aot/plan/code_sizes/` has a file for each board target that was measured (`make codes`):
bytes of every kernel's functions, of the libraries' functions that these need, and of the rest.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from aot.ir.plan import Plan
from aot.ir.program import Call, Program
from aot.ir.rows import STREAMED
from aot.plan.specialise import is_null, signature, specialised
from aot.target import Target

FOLDER = Path(__file__).with_name("code_sizes")
#: How much larger or smaller an image may be than its estimate, as a part.
MOST_OFF = 0.03
#: Where nothing was measured, bytes: the entry points (on boards start-up code and runner too), one
#: kernel's function, one call.
_HOST, _BOARD = (6000, 1800, 90), (4000, 900, 60)
#: How many fewer numbers the parameters of a function may share with those asked for than the most
#: alike ones do.
ALIKE = 1
#: Bytes of the entries for rows that are pushed, and of what takes a whole input from elsewhere.
PUSHED = 900
#: Ends the rows of kernels that are compiled to read rows through a table of pointers.
BY_ROWS = " rows"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a bundle: its row in the measurements, the parameters it knows ("" if it is
    told them), and what the calls that share it have in common.
    """

    row: str
    known: str
    shared: object


@cache
def _measured(name: str) -> dict[str, Any]:
    """The measurements on target `name`."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))
    return found


def alike(target: Target) -> str:
    """The measured target whose code is like that of `target`; "" if none is."""
    measured = sorted(p.stem for p in FOLDER.glob("*.json"))
    if not target.board or target.name in measured:
        return target.name if target.board else ""
    kinds = {name: tuple(_measured(name)["kind"]) for name in measured}
    return next((name for name, found in kinds.items() if found == kind(target)), "")


def kind(target: Target) -> tuple[str, ...]:
    """The features of `target` that decide its instructions: architecture, floating point, vectors,
    pointers."""
    return (target.arch, target.fpu, target.simd, str(target.pointer_bits))


def code_parts(program: Program, plan: Plan, target: Target, specialise: str) -> dict[str, int]:
    """Bytes of code and tables beside constants, by what takes them; on boards with start-up code
    and runner.

    On targets like those that were measured, an image of 8-bit values is within MOST_OFF of the
    sum with its constants; elsewhere, and of small float32 models, the sum is rough.
    """
    name = alike(target)
    if not name:
        entry, wrapper, call = _BOARD if target.board else _HOST
        calls = list(program.every_call())
        kernels = {(c.kernel, c.instance) for c in calls}
        return {"rest": entry, "kernels": wrapper * len(kernels), "calls": call * len(calls)}
    table = _measured(name)
    parts: dict[str, int] = {}
    helpers: dict[tuple[str, bool], float] = {}
    libraries: set[str] = set()
    for each in set(functions(program, specialise)):
        found = _row(table, each.row)
        size, called = _nearest(found, each.known)
        kernel = each.row.partition(" ")[0]
        parts[kernel] = parts.get(kernel, 0) + size
        file = each.row.endswith(BY_ROWS)  # the functions of kernels are static in each
        helpers |= {(h, file): max(n, helpers.get((h, file), 0)) for h, n in called.items()}
        libraries.update(found["library"])
    shared = sum(table["helpers"][h] * n for (h, _), n in helpers.items())
    parts["functions of kernels"] = round(shared)
    units = {u for name in libraries for u in table["needs"][name]} - set(table["base_units"])
    parts["the compiler's and C's libraries"] = sum(table["units"][u] for u in units)
    parts["calls and parameters"] = _calls(program, plan, table, specialise)
    parts["start-up code, entries, runner"] = table["base"] + PUSHED * bool(program.pushed)
    return parts


def functions(program: Program, specialise: str) -> Iterator[Function]:
    """The functions that calls of `program` and its bodies have in a bundle, once for each call."""
    fixed = specialised(program, specialise)
    for index, call in enumerate(program.calls):
        for body in call.bodies:
            yield from functions(body.program, specialise)
        if not call.bodies:
            by_rows = call.region == STREAMED
            knows = index in fixed and not by_rows and call.params is not None
            shared = (signature(call), call.params if knows else None)
            yield Function(row_key(call, by_rows), known_of(call) if knows else "", shared)


def row_key(call: Call, by_rows: bool = False) -> str:
    """The row of a call: its kernel, the kernel's constants, which arguments are null pointers."""
    kernel = call.rowwise.kernel if by_rows and call.rowwise else ""
    nulls = "".join("-" if is_null(a) else "*" for a in call.args)
    words = [kernel or call.kernel, *(f"{k}{v}" for k, v in call.instance)]
    words += [nulls] if "-" in nulls else []
    return " ".join(words) + BY_ROWS * by_rows


def known_of(call: Call) -> str:
    """The parameters of `call` as far as they decide what a compiler leaves out: per number "0",
    "1" or "x".
    """
    fields = call.params.fields if call.params else ()
    values = [v for _, field in fields for v in _flat(field)]
    return "".join("01"[int(v)] if v in (0, 1) else "x" for v in values)


def _flat(value: object) -> Sequence[Any]:
    """The numbers of a field; of a long table its first."""
    if not isinstance(value, tuple):
        return (value,)
    return value if len(value) <= 8 else value[:1]


def _row(table: dict[str, Any], wanted: str) -> dict[str, Any]:
    """The measurements of a row: its own, or of the instance of its kernel that is most alike."""
    rows: dict[str, Any] = table["kernels"]
    if wanted in rows:
        return dict(rows[wanted])
    words = set(wanted.split()[1:])
    kernel = wanted.partition(" ")[0]
    same = [r for r in rows if r.partition(" ")[0] == kernel]
    same = [r for r in same if rows[r]["fixed"]] or same
    if same:
        return dict(rows[max(same, key=lambda r: (len(words & set(r.split()[1:])), r))])
    typical = sorted(r["told"][0] for r in rows.values())
    middle = typical[len(typical) // 2] if typical else _BOARD[1]
    return {"told": (middle, ()), "fixed": {}, "library": ()}


def _nearest(found: dict[str, Any], known: str) -> tuple[int, dict[str, float]]:
    """Bytes of a function, and how sure it is that it calls each of the functions of kernels: where
    it knows its parameters, means of those whose parameters are most alike.
    """
    fixed: dict[str, tuple[int, Sequence[str]]] = found["fixed"]
    if not fixed or not known:
        return found["told"][0], dict.fromkeys(found["told"][1], 1.0)
    shared = {k: sum(a == b for a, b in zip(k, known, strict=False)) for k in fixed}
    most = max(shared.values())
    near = [fixed[k] for k, n in shared.items() if n >= most - ALIKE]
    count = Counter(h for _, helpers in near for h in helpers)
    size = round(sum(n for n, _ in near) / len(near))
    return size, {h: n / len(near) for h, n in count.items()}


def _calls(program: Program, plan: Plan, table: dict[str, Any], specialise: str) -> int:
    """Bytes of the functions that make the calls, and of the tables of parameters and rows."""
    bodies = [b for c in program.calls for b in c.bodies]
    total = sum(_calls(b.program, b.plan, table, specialise) for b in bodies if b.plan)
    fixed = specialised(program, specialise)
    told = set()
    for index, call in enumerate(program.calls):
        by_rows = call.region == STREAMED
        each, argument = table["row_call" if by_rows else "call"]
        total += each + argument * arguments(call)
        if call.params and (by_rows or index not in fixed):
            told.add(call.params)
    total += 4 * sum(len(_flat(v)) for p in told for _, v in p.fields)
    rows = sum(map(len, (plan.rows or {}).values()))
    return round(total) + 2 * rows + sum(len(s.steps) for s in program.segments)


def arguments(call: Call) -> int:
    """What the function of `call` is given: pointers, numbers, parameters."""
    return sum(not is_null(a) for a in call.args) + bool(call.params)


def largest(parts: dict[str, int]) -> Iterator[str]:
    """`aot_qconv_s8 5120`, the largest first."""
    for name, size in sorted(parts.items(), key=lambda p: (-p[1], p[0])):
        if size:
            yield f"{name} {size}"
