# SPDX-License-Identifier: Apache-2.0
"""Many programs in one sanitised executable, its kernels from a cache.

What runs is the text that the emitter writes for `--specialise none`, twice: in the arena as it was
planned, and in one where every tensor has a place of its own between poisoned gaps. Functions that
call kernels are the same in most models; each is compiled once, with the sanitizers, and kept.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from aot.emit_c import kernels, run_order
from aot.emit_c.constants import Constants
from aot.emit_c.project import CFLAGS
from aot.ir import dtypes
from aot.ir.plan import Place, Plan
from aot.ir.program import Program, Role
from aot.target import Target
from aot.tools.run import cropped

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
SANITIZE = ("-fsanitize=address,undefined", "-fsanitize=float-cast-overflow")
WARN = "-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Wdouble-promotion -Werror".split()
GROUP = 24  # kernels compiled together
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


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function that calls a kernel: its text (with the name KERNEL), the header it needs."""

    text: str
    header: str

    def prototype(self, name: str) -> str:
        """Its declaration under another name."""
        return self.text.split(" {", 1)[0].replace("KERNEL", name, 1) + ";"


@dataclass
class Spelled:
    """C of one execution: text without its kernels, which are known by the names in it.

    `row` is the initialiser of its `fuzz_case`, in which DATA stands for where `data` begins in the
    input file; `tables` are what that refers to.
    """

    name: str
    text: str
    tables: list[str]
    row: str
    data: bytes
    kernels: dict[str, Kernel]
    outside: dict[str, str] = field(default_factory=dict)


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
            blob += np.ascontiguousarray(part.consts[name]).tobytes()
    tail = -(-len(blob) // 64) * 64 + 64 - len(blob)
    gaps.append((len(blob), tail))
    return offsets, gaps, bytes(blob + bytes(tail))


def spelled(run: Run, name: str, apart: bool) -> Spelled:
    """C of `run` under the prefix `name`."""
    program = replace(run.program, name=name)
    plan, gaps = spread(program, run.plan) if apart else (run.plan, [])
    offsets, holes, blob = stored(program)
    known = {n: part.tensors[n] for part in program.tree() for n in part.tensors if n in offsets}
    constants = Constants((), offsets, {n: n for n in offsets}, None, tensors=known)
    calls = [c for c in program.every_call() if not c.bodies]
    headers = {c.kernel: c.header or f"{c.kernel}.h" for c in calls}
    own = kernels.collect(headers.values())
    text = run_order.spell_run(program, plan, run.target, constants, own, "none")
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
    text += _finish(program, plan, run.feeds)
    fed = [_bytes(a, program, n) for a, n in zip(run.feeds, program.inputs, strict=True)]
    tables, row = _row(program, plan, gaps, (holes, blob), [len(b) for b in fed], run.steps)
    return Spelled(name, text, tables, row, b"".join([*fed, blob]), found)


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


TYPES = """\
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include "aot/aot.h"
#include "aot/port.h"
typedef struct { size_t at, bytes; } fuzz_range;
typedef struct { size_t bytes, elem; } end_;
typedef struct {
    int inputs, outputs;
    const end_ *ends;
    size_t arena;
    int arena_gaps;
    const fuzz_range *arena_gap;
    size_t weights;
    int weight_gaps;
    const fuzz_range *weight_gap;
    int zeros;
    const fuzz_range *zero;
    int reads;
    const fuzz_range *read;
    const unsigned char **place;
    aot_status (*execute)(unsigned char *, const unsigned char *const *, unsigned char *const *);
    int steps;
    size_t data;
} fuzz_case;
"""


# -- the cache of kernels --------------------------------------------------------------------


@cache
def closure(header: str) -> str:
    """A digest of a kernel header and all that it includes."""
    found = kernels.collect([header])
    digest = hashlib.sha256()
    for name in sorted(found.files):
        digest.update(name.encode() + b"\0" + bytes(found.files[name]))
    return digest.hexdigest()


@dataclass
class Cache:
    """Compiled kernels in `folder`: objects, and an index of which function is in which."""

    folder: Path
    compiler: str = "gcc"
    index: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "index"
        if path.exists():
            rows = (line.split() for line in path.read_text().splitlines())
            self.index = {r[0]: r[1] for r in rows if len(r) == 2}

    def name(self, kernel: Kernel, flags: Sequence[str]) -> str:
        """The external name of a function: same text, headers, compiler and flags, same name."""
        parts = [kernel.text, closure(kernel.header), self.compiler, *flags]
        return "k" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]

    def ensure(self, wanted: dict[str, Kernel], flags: Sequence[str]) -> dict[str, str]:
        """Compile what is missing of `wanted`; errors by name."""
        missing = [n for n in wanted if n not in self.index]
        missing.sort(key=lambda n: (wanted[n].header, wanted[n].text))
        errors: dict[str, str] = {}
        for i in range(0, len(missing), GROUP):
            self._compile({n: wanted[n] for n in missing[i : i + GROUP]}, flags, errors)
        return errors

    def _compile(self, part: dict[str, Kernel], flags: Sequence[str], errors: dict) -> None:
        includes = dict.fromkeys(f'#include "{k.header}"\n' for k in part.values())
        text = TYPES + "".join(includes)
        for name, kernel in part.items():
            text += kernel.prototype(name) + "\n" + kernel.text.replace("KERNEL", name, 1)
        digest = hashlib.sha256("".join(part).encode()).hexdigest()[:20]
        stem = self.folder / f"g{digest}"
        own = f"{stem}.{os.getpid()}"
        Path(f"{own}.c").write_text(text)
        failed = command([self.compiler, *flags, *INCLUDE, "-c", f"{own}.c", "-o", f"{own}.o"])
        Path(f"{own}.c").unlink()
        if not failed:
            os.replace(f"{own}.o", f"{stem}.o")
            with (self.folder / "index").open("a") as file:
                file.write("".join(f"{n} {stem.name}.o\n" for n in part))
            self.index |= {n: f"{stem.name}.o" for n in part}
        elif len(part) == 1:
            errors[next(iter(part))] = failed
        else:
            rows = list(part.items())
            for piece in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
                self._compile(dict(piece), flags, errors)


INCLUDE = (f"-I{ROOT}/runtime_c/include", f"-I{ROOT}/runtime_c/kernels")


def command(words: Sequence[str]) -> str:
    """Run a compiler; what it complains of, "" if nothing."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return first_errors(done.stderr) or "failed" if done.returncode else ""


def first_errors(text: str) -> str:
    """The lines of a compiler's or sanitizer's output that say what is wrong."""
    lines = [s for s in text.splitlines() if re.search("rror|#[0-3] |fuzz:", s)]
    return " | ".join(s.strip() for s in lines[:5])[:700] or text[-300:]


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
    for end in ("", ".c", ".o", ".in", ".out"):
        Path(f"{stem}{end}").unlink(missing_ok=True)


def _text(parts: list[Part], known: dict[str, Kernel]) -> str:
    """The batch's C."""
    own = {c.header for r, _ in parts for c in r.program.every_call() if c.bodies}
    headers = sorted({k.header for k in known.values()} | (own - {""}))
    lines = [TYPES, *(f'#include "{h}"' for h in headers)]
    lines += [k.prototype(n) for n, k in known.items()]
    for _, one in parts:
        lines.append(f"static const unsigned char *{one.name}_weights;")
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
