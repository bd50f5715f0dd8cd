# SPDX-License-Identifier: Apache-2.0
"""Many programs in one sanitised executable, its kernels from a cache.

What runs is the text that the emitter writes for `--specialise none`, twice: in the arena as it was
planned, and in one where every tensor has a place of its own between poisoned gaps. Functions that
call kernels are the same in most models; each is compiled once, with the sanitizers, and kept.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from aot.emit_c import kernels, rows, run_order
from aot.emit_c.constants import Constants
from aot.emit_c.project import CFLAGS
from aot.ir import dtypes
from aot.ir.deferred import parts_of
from aot.ir.plan import Place, Plan
from aot.ir.program import Program, Role
from aot.plan.memory.states import state_places
from aot.target import Target
from aot.tools.run import cropped
from fuzz.kernel_cache import INCLUDE, TYPES, Cache, Kernel, command, first_errors

HERE = Path(__file__).parent
SANITIZE = ("-fsanitize=address,undefined", "-fsanitize=float-cast-overflow")
WARN = "-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Wdouble-promotion -Werror".split()
_FUNCTION = re.compile(r"AOT_NOINLINE static (\w+)\s(\w+)\((.*?)\) \{\n(.*?)\n\}\n", re.DOTALL)
Array = np.ndarray[Any, Any]
Ranges = list[tuple[int, int]]


@dataclass
class Run:
    """A compiled program to execute: its arrays in, then its arrays out or what went wrong.

    Where the program has dimensions that a run says, `feeds` have the shapes of one run. It runs
    so many `steps` one after the other, states carried over; `results` are the last one's.
    """

    program: Program
    plan: Plan
    target: Target
    feeds: list[Array]
    strict: bool = False
    steps: int = 1
    results: list[list[Array]] = field(default_factory=list)
    error: str = ""

    @property
    def flags(self) -> tuple[str, ...]:
        """How the bundle would compile its kernels, with the sanitizers."""
        contract = "off" if self.strict else "fast"
        return (
            *WARN,
            "-O1",
            *CFLAGS,
            *(f"-ffp-contract={contract}", f"-DAOT_VLEN={self.target.vlen}"),
            *self.target.cflags,
            *SANITIZE,
            "-fno-sanitize-recover=all",
        )


# -- one case as C ---------------------------------------------------------------------------


@dataclass
class Spelled:
    """C of one execution: text without its kernels, which are known by the names in it.

    `row` is the initialiser of its `fuzz_case`, in which DATA stands for where `data` begins in the
    input file; `tables` are what that refers to. `by_rows` is the file of the segments that run
    row by row.
    """

    name: str
    text: str
    tables: list[str]
    row: str
    data: bytes
    kernels: dict[str, Kernel]
    outside: dict[str, str] = field(default_factory=dict)
    by_rows: str = ""


def spread(program: Program, plan: Plan) -> tuple[Plan, Ranges]:
    """The plan with every tensor apart, and the gaps (offset, bytes) between them."""
    places: dict[str, Place] = {}
    gaps, end = [], 0
    for name in plan.placements:
        base, offset = program.base(name)
        if base not in places:
            start = -(-end // 64) * 64 + 64
            gaps.append((end, start - end))
            places[base] = Place(plan.placements[name].memory, start)
            end = start + program.tensors[base].nbytes
        places[name] = Place(plan.placements[name].memory, places[base].offset + offset)
    size = -(-end // 64) * 64 + 64
    gaps.append((end, size - end))
    return replace(plan, placements=places, arena_bytes=size), gaps


def stored(program: Program) -> tuple[dict[str, int], Ranges, bytes]:
    """Where each constant is in the blob of weights, the gaps, the blob."""
    offsets: dict[str, int] = {}
    gaps: Ranges = []
    blob = bytearray()
    tensors = ((part, n, t) for part in program.tree() for n, t in part.tensors.items())
    for part, name, t in tensors:
        known = name in part.consts and name not in offsets
        if t.role is Role.CONST and t.view is None and known:
            start = -(-len(blob) // 64) * 64 + 64
            gaps.append((len(blob), start - len(blob)))
            blob += bytes(start - len(blob))
            offsets[name] = start
            blob += b"".join(array.tobytes() for array in parts_of(part.consts[name]))
    tail = -(-len(blob) // 64) * 64 + 64 - len(blob)
    gaps.append((len(blob), tail))
    return offsets, gaps, bytes(blob + bytes(tail))


def spelled(run: Run, name: str, apart: bool) -> Spelled:
    """C of `run` under the prefix `name`."""
    program = replace(run.program, name=name)
    # Rows have places of their own, which only the plan knows.
    spreads = apart and not program.segments
    plan, gaps = spread(program, run.plan) if spreads else (run.plan, [])
    offsets, holes, blob = stored(program)
    known = {n: part.tensors[n] for part in program.tree() for n in part.tensors if n in offsets}
    constants = Constants((), offsets, {n: n for n in offsets}, None, tensors=known)
    calls = [c for c in program.every_call() if not c.bodies]
    headers = {c.kernel: c.header or f"{c.kernel}.h" for c in calls}
    own = kernels.collect(headers.values())
    text = run_order.spell_run(program, plan, run.target, constants, own, "none")
    by_rows = ""
    if program.segments:
        by_rows = rows.spell_rows(program, plan, run.target, constants, own)
    found: dict[str, Kernel] = {}

    def outside(match: re.Match[str]) -> str:
        result, own, declared, body = match.groups()
        called = re.search(r"(?:return )?(\w+)\(", body)
        assert called
        key = f"{result} KERNEL({' '.join(declared.split())}) {{\n{body}\n}}\n"
        found[own] = Kernel(key, headers[called.group(1)])
        return ""

    text = _FUNCTION.sub(outside, text)
    text = "\n".join(s for s in text.splitlines() if not s.startswith('#include "'))
    states = enumerate(state_places(program, plan) or ())
    macros = [f"#define {name.upper()}_STATE_{i} {s.offset}" for i, s in states]
    text = "\n".join([*macros, text])
    text += rows.declarations(program) + _finish(program, plan, run.feeds)
    fed = [_bytes(a, program, n) for a, n in zip(run.feeds, program.inputs, strict=True)]
    tables, row = _row(program, plan, gaps, (holes, blob), [len(b) for b in fed], run.steps)
    return Spelled(name, text, tables, row, b"".join([*fed, blob]), found, by_rows=by_rows)


def _finish(program: Program, plan: Plan, feeds: Sequence[Array]) -> str:
    """A run, and what a bundle does around it.

    It notes the dimensions that a run says; outputs that waited in the arena are copied.
    """
    ends = "unsigned char *arena, const unsigned char *const *in, unsigned char *const *out"
    rows, said = [], []
    for e in program.dynamic_dims:
        index, axis = e.axes[0]
        at, _ = _place(program, plan, e.tensor)
        length = f"(const int64_t[]){{{feeds[index].shape[axis]}}}"
        said.append(f"    memcpy(arena + {at}, {length}, 8);")
    for i, name in enumerate(program.outputs):
        if name in program.held and program.tensors[name].nbytes:
            at, size = _place(program, plan, name)
            rows.append(f"    if (s == AOT_OK) memcpy(out[{i}], arena + {at}, {size});")
    copies, before = "\n".join(rows), "\n".join(said)
    return f"""
#include <string.h>
static aot_status {program.name}_finish({ends}) {{
    aot_status s;
{before}
    s = {program.name}_execute(arena, in, out);
{copies}
    return s;
}}
"""


def _bytes(array: Array, program: Program, name: str) -> bytes:
    t = program.tensors[name]
    data = dtypes.to_bytes(array, t.dtype)
    if len(data) != t.nbytes and not program.dynamic_dims:
        raise ValueError(f"input {name} takes {t.nbytes} bytes, not {array.shape} {array.dtype}")
    return bytes(data)


def _row(
    program: Program,
    plan: Plan,
    gaps: Ranges,
    weights: tuple[Ranges, bytes],
    fed: Sequence[int],
    steps: int,
) -> tuple[list[str], str]:
    """The tables and the initialiser of a `fuzz_case`, whose inputs have `fed` bytes."""
    holes, blob = weights
    name = program.name
    tensors = [program.tensors[n] for n in (*program.inputs, *program.outputs)]
    sizes = [*fed, *(program.tensors[n].nbytes for n in program.outputs)]
    ends = [(size, t.dtype.nbytes) for size, t in zip(sizes, tensors, strict=True)]
    carried = [_place(program, plan, n) for n in program.carried]
    reads = [_place(program, plan, s.tensor) for s in program.shapes]
    tables = [
        f"static const {kind} {name}_{label}[] = {{{_pairs(rows)}}};"
        for kind, label, rows in (
            ("end_", "ends", ends),
            ("fuzz_range", "gaps", gaps),
            ("fuzz_range", "holes", holes),
            ("fuzz_range", "zeros", carried),
            ("fuzz_range", "reads", reads),
        )
    ]
    fields = [
        *(len(program.inputs), len(program.outputs), f"{name}_ends", plan.arena_bytes),
        *(len(gaps), f"{name}_gaps", len(blob), len(holes), f"{name}_holes"),
        *(len(carried), f"{name}_zeros", len(reads), f"{name}_reads"),
        *(f"&{name}_weights", f"{name}_finish", steps, "DATA"),
    ]
    return tables, "{" + ", ".join(map(str, fields)) + "}"


def _pairs(rows: Ranges) -> str:
    return ", ".join(f"{{{a}, {b}}}" for a, b in rows or [(0, 0)])


def _place(program: Program, plan: Plan, name: str) -> tuple[int, int]:
    base, offset = program.base(name)
    return plan.placements[base].offset + offset, program.tensors[name].nbytes


# -- a batch ---------------------------------------------------------------------------------

Part = tuple[Run, Spelled]


def execute(runs: Sequence[Run], store: Cache, folder: Path) -> None:
    """Run each of `runs`, which have the same flags; results or errors are left in them."""
    if not runs:
        return
    flags = runs[0].flags
    parts: list[Part] = []
    wanted: dict[str, Kernel] = {}
    for i, run in enumerate(runs):
        try:
            pair = [spelled(run, f"m{i}{end}", bool(end)) for end in ("", "s")]
        except Exception as error:
            run.error = f"emit: {type(error).__name__}: {error}"
            continue
        for one in pair:
            one.outside = {own: store.name(k, flags) for own, k in one.kernels.items()}
            wanted |= {one.outside[own]: k for own, k in one.kernels.items()}
        parts += [(run, one) for one in pair]
    errors = store.ensure(wanted, flags)
    for run, one in parts:
        broken = [errors[n] for n in one.outside.values() if n in errors]
        run.error = run.error or (f"build: {broken[0]}" if broken else "")
    _build([(r, s) for r, s in parts if not r.error], wanted, store, flags, folder)


def execute_all(runs: Iterable[Run | None], store: Cache, folder: Path) -> None:
    """Execute those that are there, of one set of flags in one batch."""
    batches: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        if run is not None:
            batches.setdefault(run.flags, []).append(run)
    for batch in batches.values():
        execute(batch, store, folder)


def _build(
    parts: list[Part], known: dict[str, Kernel], store: Cache, flags: Sequence[str], folder: Path
) -> None:
    """Build and run one executable; halve it where that fails."""
    if not parts:
        return
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"batch{os.getpid()}"
    names = sorted({n for _, s in parts for n in s.outside.values()})
    Path(f"{stem}.c").write_text(_text(parts, {n: known[n] for n in names}))
    Path(f"{stem}.in").write_bytes(b"".join(s.data for _, s in parts))
    objects = sorted({str(store.folder / store.index[n]) for n in names})
    plain = [f for f in flags if not f.startswith(("-fsanitize", "-fno-sanitize", "-W", "-O"))]
    plain.remove("-pedantic")
    compile_ = [store.compiler, *plain, *("-O0", "-w"), *INCLUDE, "-c", f"{stem}.c", "-o"]
    failed = command([*compile_, f"{stem}.o"])
    for number, (_, one) in enumerate((r, s) for r, s in parts if s.by_rows):
        Path(f"{stem}.rows.c").write_text(_with_weights(one))
        objects.append(f"{stem}.rows{number}.o")
        compiled = [store.compiler, *flags, *INCLUDE, "-c", f"{stem}.rows.c", "-o", objects[-1]]
        failed = failed or command(compiled)
    # Two processes may have compiled one function at a time, each in a group of its own.
    link = [store.compiler, *SANITIZE, "-Wl,--allow-multiple-definition", f"{stem}.o", *objects]
    link += ["-o", str(stem), "-lm"]
    failed = failed or command(link)
    first = 0
    if failed and len(parts) > 2:
        half = len(parts) // 4 * 2
        for piece in (parts[:half], parts[half:]):
            _build(piece, known, store, flags, folder)
    elif failed:
        parts[0][0].error = f"build: {failed}"
    else:
        while first < len(parts):
            first = _run_from(parts, first, stem)
    for left in folder.glob(f"{stem.name}*"):
        left.unlink()


def _with_weights(one: Spelled) -> str:
    """The file of segments by rows: the weights of the batch's file instead of the bundle's own."""
    head = f"{TYPES}extern const unsigned char *{one.name}_weights;"
    return one.by_rows.replace(f'#include "{one.name}_internal.h"', head)


def _text(parts: list[Part], known: dict[str, Kernel]) -> str:
    """The batch's C."""
    own = {c.header for r, _ in parts for c in r.program.every_call() if c.bodies}
    headers = sorted({k.header for k in known.values()} | (own - {""}))
    lines = [TYPES, *(f'#include "{h}"' for h in headers)]
    lines += [k.prototype(n) for n, k in known.items()]
    for _, one in parts:
        lines.append(f"const unsigned char *{one.name}_weights;")
        lines += [f"#define {own} {name}" for own, name in one.outside.items()]
        lines += [one.text, *one.tables]
    rows, at = [], 0
    for _, one in parts:
        rows.append(one.row.replace("DATA", str(at)))
        at += len(one.data)
    lines += ["static const fuzz_case cases[] = {", ",\n".join(rows), "};"]
    lines += [f"enum {{ case_count = {len(rows)} }};", (HERE / "driver.c").read_text()]
    return "\n".join(lines)


def _run_from(parts: list[Part], first: int, stem: Path) -> int:
    """Run the batch from case `first` on; where to go on after a crash."""
    done = subprocess.run(
        [str(stem), f"{stem}.in", f"{stem}.out", str(first)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
        timeout=900,
    )
    data = Path(f"{stem}.out").read_bytes()
    at = 0
    for k in range(first, len(parts)):
        run = parts[k][0]
        size = _result_bytes(run.program)
        if at + size > len(data):
            run.error = f"crash: {first_errors(done.stderr)}"
            return k + 1
        status = int.from_bytes(data[at : at + 4], "little")
        if status:
            run.error = f"status {status}"  # what its outputs and shapes are is not said
        else:
            run.results.append(_results(data[at + 4 : at + size], run.program))
        at += size
    return len(parts)


def _result_bytes(program: Program) -> int:
    ends = [*program.outputs, *(s.tensor for s in program.shapes)]
    return 4 + sum(program.tensors[n].nbytes for n in ends)


def _results(data: bytes, program: Program) -> list[Array]:
    """The outputs; those whose shape depends on the data without what is behind it."""
    found, at = {}, 0
    for name in [*program.outputs, *(s.tensor for s in program.shapes)]:
        t = program.tensors[name]
        found[name] = dtypes.from_bytes(data[at : at + t.nbytes], t.dtype, t.shape)
        at += t.nbytes
    results = [found[n] for n in program.outputs]
    for s in program.shapes:
        if s.output >= 0:  # else a comparison of extents
            results[s.output] = cropped(results[s.output], found[s.tensor])
    return results
