# SPDX-License-Identifier: Apache-2.0
"""How many bytes every kernel's functions take on boards: aot/plan/code_sizes/TARGET.json.

    python benchmarks/code_sizes.py [--only OPERATOR]… [TARGET …]
    python benchmarks/code_sizes.py --check MODEL.onnx:TARGET[:objective=ram][:push=X] …

Compiles the calls of the operators' declared cases and of random networks, whole and by rows, with
the flags of a bundle: as functions that are told their parameters and as such that know them. Sizes
of the compiler's and C's libraries come from their archives, the rest from built bundles of random
networks. `--only` measures the cases of some operators and keeps the other rows. `--check` compares
estimates with linked images, and exits 1 where one is more than 3 % off.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "ops")]

from elftools.elf.elffile import ELFFile  # noqa: E402

import aot  # noqa: E402
import stack_calls  # noqa: E402
import streamed_graphs  # noqa: E402
from aot.emit_c.project import value_flags  # noqa: E402
from aot.emit_c.rows import given_call  # noqa: E402
from aot.errors import AotError, TargetError  # noqa: E402
from aot.ir.program import Call  # noqa: E402
from aot.ir.rows import STREAMED  # noqa: E402
from aot.options import Options  # noqa: E402
from aot.pipeline import compile_model  # noqa: E402
from aot.plan import code_size  # noqa: E402
from aot.target import Target, load_target  # noqa: E402
from aot.tools.elf_image import measure_image  # noqa: E402
from aot.tools.run import open_out  # noqa: E402
from aot.tools.size import members  # noqa: E402
from aot.tools.symbols import Symbol, symbols_of  # noqa: E402
from quant_graphs import Net  # noqa: E402

TARGETS = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imac", "rv32imafc", "rv64gc")
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"objective": "ram"})
#: Functions of one row that know their parameters.
FIXED = 6
#: Random networks whose calls are measured, and those that are built.
SEEDS, BUILT = range(12), range(4)
#: What a file of functions by rows begins with; see aot/emit_c/rows.py.
BY_ROWS = """#include <stdint.h>
typedef uint16_t aot_row_place;
#define AOT_ROW_UNIT 16
#define AOT_ROW_TABLES
#define AOT_ROW_BATCH 1
"""
ARCHIVES = ("libm.a", "libc_nano.a", "libc.a", "libgcc.a")


@dataclass(frozen=True)
class Sized:
    """A function: its row, the parameters it knows, its bytes, the functions of kernels that it
    calls with theirs, and the libraries' functions."""

    row: str
    known: str | None
    nbytes: int
    helpers: dict[str, int]
    symbols: set[str]


def loaded(section: Any) -> bool:
    """Whether a section is stored in flash."""
    stored = section["sh_flags"] & 2 and section["sh_type"] != "SHT_NOBITS"
    return bool(stored) and not section.name.startswith((".eh_frame", ".ARM.ex", ".debug"))


def compiled(source: str, target: Target, folder: Path) -> Any:
    """The object of a C file, compiled as a bundle's is."""
    (folder / "c.c").write_text(source)
    words = [target.compiler, "-std=c99", "-w", "-O2", *value_flags("default"), *target.cflags]
    words += [f"-DAOT_VLEN={target.vlen}", "-ffunction-sections", "-fdata-sections", "-c"]
    words += [f"-I{ROOT}/runtime_c/{f}" for f in ("include", "kernels", "src")]
    subprocess.run([*words, "-o", str(folder / "c.o"), str(folder / "c.c")], check=True)
    return ELFFile(io.BytesIO((folder / "c.o").read_bytes()))


def sized(
    functions: Sequence[stack_calls.Function], rows: Sequence[str], target: Target, folder: Path
) -> Iterator[Sized]:
    """What each function takes; those of `rows` that read rows are compiled in a file of theirs."""
    for by_rows in (False, True):
        chosen = [i for i, r in enumerate(rows) if r.endswith(code_size.BY_ROWS) == by_rows]
        for first in range(0, len(chosen), stack_calls.BATCH):
            part = chosen[first : first + stack_calls.BATCH]
            text = stack_calls.text([functions[i] for i in part])
            elf = compiled(BY_ROWS * by_rows + text, target, folder)
            sections = list(elf.iter_sections())
            symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
            calls: dict[int, set[int]] = {}
            outside: dict[int, set[str]] = {}
            for section in sections:
                if section["sh_type"] not in ("SHT_REL", "SHT_RELA"):
                    continue
                for relocation in section.iter_relocations():
                    symbol = symbols[relocation["r_info_sym"]]
                    if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name:
                        outside.setdefault(section["sh_info"], set()).add(symbol.name)
                    elif isinstance(symbol["st_shndx"], int):
                        calls.setdefault(section["sh_info"], set()).add(symbol["st_shndx"])
            at = {s.name: i for i, s in enumerate(sections)}
            for n, i in enumerate(part):
                own = at[f".text.w{n}"]
                reached = closure(calls, own) - {own}
                helpers = {
                    clean(sections[k].name): int(sections[k]["sh_size"])
                    for k in reached
                    if loaded(sections[k]) and not sections[k].name.startswith(".rodata.p")
                }
                external = set().union(*(outside.get(k, set()) for k in (*reached, own)))
                function = functions[i]
                known = code_size.known_of(function.call) if function.fixed else None
                yield Sized(rows[i], known, int(sections[own]["sh_size"]), helpers, external)


def closure(calls: dict[int, set[int]], first: int) -> set[int]:
    """All that is called from `first`, itself included."""
    found: set[int] = set()
    left = [first]
    while left:
        if (at := left.pop()) not in found:
            found.add(at)
            left += calls.get(at, ())
    return found


def clean(name: str) -> str:
    """The name of a function or table without its section and without the number of a copy."""
    for start in (".text.", ".rodata."):
        name = name.removeprefix(start)
    return name.partition(".")[0]


def network(seed: int) -> Any:
    """A random network: of int8 values, every third of float32."""
    return streamed_graphs.random_network(seed, kind_of(seed))


def kind_of(seed: int) -> Any:
    """The type of the values of network `seed`."""
    return np.float32 if seed % 3 == 2 else np.int8


def layers(seed: int, sizes: Sequence[int] = (12, 16, 24, 30)) -> Any:
    """A network like those for images, of `sizes`: convolutions of 3 x 3 and 1 x 1, depthwise ones
    between them, a residual sum, an average and a matrix product."""
    rng = np.random.default_rng(seed)
    tall = seed % 4 == 3
    made = streamed_graphs.Made(seed, kind_of(seed))
    size, width = int(rng.choice(sizes)), 1 if tall else 0
    first = (int(rng.choice([8, 40])) if tall else 3, size, width or size)
    made.net = Net(x=(made.dtype, (1, *first)))
    made.values = [("x", first)]

    def conv(value: Any, wide: int, kernel: int, stride: int, depthwise: bool = False) -> Any:
        """Of time steps the kernel has one column, and no padding."""
        name, (channels, height, width) = value
        columns, pad = (1, 0) if tall else (kernel, kernel // 2)
        kernel = min(kernel, height) if tall else kernel
        attrs = {"group": channels if depthwise else 1, "strides": [stride, 1 if tall else stride]}
        weights = made.weights(wide, 1 if depthwise else channels, kernel, columns)
        real = made.net.add("Conv", made.quantised_values(name), weights, **attrs, pads=[pad] * 4)
        rows = (height + 2 * pad - kernel) // stride + 1
        return made.made(real, (wide, rows, 1 if tall else (width - 1) // stride + 1))

    value = conv(made.values[0], int(rng.choice([8, 16, 24])), 3, int(rng.choice([1, 2])))
    for _ in range(int(rng.integers(2, 5))):
        channels = value[1][0]
        value = conv(value, channels, int(rng.choice([3, 3, 5])), int(rng.choice([1, 1, 2])), True)
        value = conv(value, int(rng.choice([16, 32, 40, 64])), 1, 1)
    before = value
    value = conv(value, value[1][0], 1 if tall else 3, 1)
    real = made.net.add("Add", *(made.quantised_values(v[0]) for v in (before, value)))
    value = made.made(real, value[1])
    real = made.net.add("GlobalAveragePool", made.quantised_values(value[0]))
    name, (channels, _, _) = made.made(real, (value[1][0], 1, 1))
    flat = made.net.add("Flatten", made.quantised_values(name))
    wide = int(rng.choice([4, 10, 12]))
    real = made.net.add("Gemm", flat, made.weights(wide, channels), transB=1)
    last = made.made(real, (wide, 1, 1))[0]
    return made.net.model(**{last: made.dtype})


def calls_of(target: Target, only: tuple[str, ...]) -> Iterator[tuple[Call, str]]:
    """Calls with their rows: of declared cases, of random networks as a whole and by rows."""
    jobs = [j for j in stack_calls.harness.collect(only) if j.model is not None]
    for given in OPTIONS:
        cases = stack_calls.lowerable(jobs, Options(**given))
        for call in stack_calls.calls_of(cases, target, Options(**given, target=target.name)):
            yield call, code_size.row_key(call)
    for seed in SEEDS:
        for objective in ("latency", "ram"):
            for make in (network, layers):
                with suppress(AotError):
                    options = Options(target=target.name, objective=objective)
                    program = compile_model(make(seed), options).program
                    for call in program.every_call():
                        by_rows = call.region == STREAMED
                        own = call
                        if by_rows and call.rowwise:
                            own = given_call(program, call, call.rowwise)
                        yield own, code_size.row_key(call, by_rows)


def chosen(calls: Iterator[tuple[Call, str]]) -> tuple[list[stack_calls.Function], list[str]]:
    """Of each row a function that is told its parameters, and FIXED that know different ones."""
    every: dict[str, dict[str, Call]] = {}
    for call, row in calls:
        every.setdefault(row, {}).setdefault(code_size.known_of(call), call)
    functions, rows = [], []
    for row, different in every.items():
        own = [stack_calls.Function(next(iter(different.values())), False)]
        if own[0].call.params and not row.endswith(code_size.BY_ROWS):
            ranked = sorted(different.values(), key=stack_calls.work)
            own += [stack_calls.Function(c, True) for c in stack_calls.spread(ranked, FIXED)]
        functions += own
        rows += [row] * len(own)
    return functions, rows


class Libraries:
    """The functions of the compiler's and C's libraries: their bytes and what they need."""

    def __init__(self, target: Target) -> None:
        self.units: dict[str, int] = {}
        self.defines: dict[str, str] = {}
        self.uses: dict[str, list[str]] = {}
        for archive in ARCHIVES:
            words = [target.compiler, *target.cflags, *target.ldflags]
            words.append(f"-print-file-name={archive}")
            said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            if Path(path := said.strip()).is_absolute():
                for _, content in members(Path(path).read_bytes(), Path(path)):
                    self._unit(content)

    def _unit(self, content: bytes) -> None:
        """Add an object, which has the name of the first function or table that it defines."""
        elf = ELFFile(io.BytesIO(content))
        table = elf.get_section_by_name(".symtab")
        known = [s for s in table.iter_symbols() if s.name] if table else []
        shared = [s for s in known if s["st_info"]["bind"] != "STB_LOCAL"]
        defined = [s.name for s in shared if s["st_shndx"] != "SHN_UNDEF"]
        if not defined:
            return
        unit = defined[0]
        self.units[unit] = sum(int(s["sh_size"]) for s in elf.iter_sections() if loaded(s))
        for symbol in shared:
            if symbol["st_shndx"] != "SHN_UNDEF":
                self.defines.setdefault(symbol.name, unit)
            elif symbol["st_info"]["bind"] == "STB_GLOBAL":
                self.uses.setdefault(unit, []).append(symbol.name)

    def needs(self, symbol: str) -> list[str]:
        """The parts of the archives that `symbol` is and needs."""
        found: set[str] = set()
        left = [symbol]
        while left:
            unit = self.defines.get(left.pop())
            if unit and unit not in found:
                found.add(unit)
                left += self.uses.get(unit, ())
        return sorted(found)


def rest(
    target: Target, libraries: Libraries, kernels: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """What images take beside `kernels`: of everything else, of a call, of a call by rows."""
    base, places = [], {"call": [], "row_call": []}
    units: set[str] | None = None
    for seed in BUILT:
        for objective in ("latency", "ram"):
            options: dict[str, Any] = {"target": target.name, "objective": objective}
            model = layers(seed, (8, 12))
            try:
                bundle = aot.compile(model, folder / f"{seed}{objective}", name="net", **options)
            except TargetError:  # it does not fit into the board's memory
                continue
            built = open_out(bundle.build().out)
            symbols = symbols_of(built)
            program = compile_model(model, Options(**options)).program
            rowed = [c for c in program.calls if c.region == STREAMED]
            whole = [c for c in program.calls if c.region != STREAMED]
            own = [s for s in symbols if s.name.startswith("net_") or s.name.startswith("c_")]
            run = total(own, "net_execute")
            made = total(own, "net_row")
            if not rowed:
                places["call"].append((len(whole), sum(map(code_size.arguments, whole)), run))
            else:
                count = sum(map(code_size.arguments, rowed))
                places["row_call"].append((len(rowed), count, made))
            here = {libraries.defines[s.name] for s in symbols if s.name in libraries.defines}
            functions = code_size.functions(program, "hot")
            used = [kernels.get(f.row, {"library": ()})["library"] for f in functions]
            # What kernels need too may be there for their sake alone.
            own_units = here - {u for names in used for n in names for u in libraries.needs(n)}
            units = own_units if units is None else units & own_units
            image = measure_image(built.program())
            tables = total(own, "net_k", "net_p", "net_execute", "net_row", "net_steps")
            shared = sum(s.nbytes for s in symbols if is_helper(s))
            taken = sum(libraries.units[u] for u in here)
            constants = int(built.manifest["memory"]["constants_bytes"])
            base.append((image.flash - constants - tables - shared - taken, here))
    assert units is not None
    found = {k: fitted(rows) for k, rows in places.items()}
    size = round(float(np.median([b for b, _ in base]))) + sum(libraries.units[u] for u in units)
    return {"base": size, "base_units": sorted(units), **found}


def total(symbols: Sequence[Symbol], *starts: str) -> int:
    """Bytes of the symbols whose names begin so."""
    return sum(s.nbytes for s in symbols if s.kind != "data" and s.name.startswith(starts))


def is_helper(symbol: Symbol) -> bool:
    """Whether a symbol is a function or table of a kernel, beside that which a call has."""
    runner = ("aot_fault", "aot_start", "aot_hex", "aot_vectors", "aot_overlap")
    return symbol.name.startswith("aot_") and not symbol.name.startswith(runner)


def fitted(rows: Sequence[tuple[int, int, int]]) -> list[float]:
    """Bytes of a call and of an argument, from (calls, arguments, bytes), by least squares."""
    if not rows:
        return [40.0, 4.0]
    matrix, taken = np.array([r[:2] for r in rows], float), np.array([r[2] for r in rows], float)
    found = np.linalg.lstsq(matrix, taken, rcond=None)[0]
    if min(found) < 0:  # all calls have about as many arguments
        found = np.array([0.0, taken.sum() / matrix[:, 1].sum()])
    return [round(float(n), 2) for n in found]


def measure(target: Target, only: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """The content of a target's file."""
    functions, rows = chosen(calls_of(target, only))
    libraries = Libraries(target)
    kernels: dict[str, Any] = {}
    helpers: dict[str, int] = {}
    needs: dict[str, list[str]] = {}
    for each in sized(functions, rows, target, folder):
        own = kernels.setdefault(each.row, {"told": [0, []], "fixed": {}, "library": []})
        found = [each.nbytes, sorted(each.helpers)]
        if each.known is None:
            own["told"] = found
        else:
            own["fixed"][each.known] = found
        own["library"] = sorted({*own["library"], *each.symbols})
        for name, size in each.helpers.items():
            helpers[name] = max(size, helpers.get(name, 0))
        needs.update({name: libraries.needs(name) for name in each.symbols})
    used = {u for names in needs.values() for u in names}
    table = rest(target, libraries, kernels, folder)
    return {
        "kind": code_size.kind(target),
        **table,
        "units": {u: libraries.units[u] for u in sorted(used)},
        "needs": dict(sorted(needs.items())),
        "helpers": dict(sorted(helpers.items())),
        "kernels": dict(sorted(kernels.items())),
    }


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """`new` with the rows that only `old` has."""
    parts = ("units", "needs", "helpers", "kernels")
    return new | {p: dict(sorted({**old[p], **new[p]}.items())) for p in parts}


def spelled(table: dict[str, Any]) -> str:
    """The file: a line per entry."""
    lines = []
    for name, value in table.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            lines.append(f" {json.dumps(name)}: {{\n{inner}\n }}")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def check(case: str) -> bool:
    """Print the estimate for a model and what was linked; whether they are as near as promised."""
    model, target, *words = case.split(":")
    given: dict[str, Any] = dict(w.split("=", 1) for w in words)
    options = Options(target=target, **given)
    made = compile_model(Path(model), options)
    estimate = int(made.manifest["memory"]["constants_bytes"]) + sum(made.code.values())
    with tempfile.TemporaryDirectory() as folder:
        bundle = aot.compile(Path(model), Path(folder) / "o", target=target, **given)
        linked = measure_image(open_out(bundle.build().out).program()).flash
    ratio = estimate / linked
    print(f"| {Path(case).stem} | {linked} | {estimate} | {100 * (ratio - 1):+.1f} % |", flush=True)
    return abs(ratio - 1) <= code_size.MOST_OFF


def main() -> int:
    parser = argparse.ArgumentParser(description="the bytes that kernels take")
    parser.add_argument("--check", nargs="+", default=[], metavar="MODEL.onnx:TARGET")
    parser.add_argument("--only", action="append", default=[], metavar="OPERATOR")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    args = parser.parse_args()
    if args.check:
        print("| model, target | linked | estimate | off |\n|---|---|---|---|")
        return 0 if all([check(case) for case in args.check]) else 1
    for name in args.targets or TARGETS:
        with tempfile.TemporaryDirectory() as folder:
            table = measure(load_target(name), tuple(args.only), Path(folder))
        path = code_size.FOLDER / f"{name}.json"
        if args.only and path.exists():
            table = merged(json.loads(path.read_text(encoding="ascii")), table)
        path.write_text(spelled(table), encoding="ascii")
        print(f"{name}: {len(table['kernels'])} rows", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
