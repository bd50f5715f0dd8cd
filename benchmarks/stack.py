# SPDX-License-Identifier: Apache-2.0
"""What every kernel takes of the stack, on every family of machines: aot/plan/stack/frames.json.

    python benchmarks/stack.py [--check|--update|--missing] [--only OPERATOR]… [TARGET …]

Compiles every call of the operators' declared cases, under the options that choose other kernels,
of ONNX's node tests, of the example's models and those in the folder AOT_TEST_MODELS, with the
optimisation a bundle has: once with parameters that the function is told, once with such as it
knows; with AOT_CMSIS_NN_ROOT and AOT_ESP_NN_ROOT also the calls of these libraries, whose rows
stay as they are without them. Without a target: all, as many compilers as there are. `--update`
raises rows and adds new ones, `--missing` only looks at kernels that have no row, the default
writes the table anew; `--check` writes nothing and exits 1 if a call takes more than the table
says, or has no row.
`--only` looks at the declared cases of an operator, or with `--only cmsis_nn` at the libraries.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "conformance")]

from stack_library import ABSENT, library_rows  # noqa: E402

import stack_calls  # noqa: E402
from aot.errors import AotError  # noqa: E402
from aot.ir.program import Call  # noqa: E402
from aot.options import Options  # noqa: E402
from aot.pipeline import partition_model  # noqa: E402
from aot.plan.stack.declare import TABLE, family, table, widths  # noqa: E402
from aot.target import Target, load_target  # noqa: E402

#: Targets of each family whose code differs most.
TARGETS = (
    *("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imac", "rv32imafc", "rv64gc"),
    *("x86-64", "x86-64-v3", "x86-64-v4", "aarch64-linux", "armv7-linux", "riscv64-linux"),
    *("x86-64-v3-vnni", "x86-64-v4-vnni", "x86-64-v4-bf16", "cortex-a76", "aarch64-i8mm"),
    "aarch64-bf16",
)
#: Functions of one signature that know their parameters.
FIXED = 2
Rows = dict[str, dict[str, int]]
#: Bytes above which the instances of a kernel are told apart.
MUCH = 1024
#: Families whose levels are measured apart, by the float lanes of their vectors.
APART = {"x86_64": (1, 4, 8, 16)}
Widths = dict[str, dict[int, dict[str, int]]]


def node_tests(options: Options) -> Iterator[stack_calls.Lowerable]:
    """Models, and ONNX's node tests that compile: strings, control flow, extents of the data."""
    import suite

    from stack_models import models, ranged

    plain = (*models(), *(t.model for t in suite.collect() if t.suite == "node"))
    for proto, dims in (*ranged(), *((m, {}) for m in plain)):
        with suppress(AotError):
            model, partition = partition_model(proto, replace(options, dims=dims))
            yield stack_calls.Lowerable(proto.graph.name, model.graph, partition)


#: Bytes of the largest real model that is looked at.
LARGEST = 4_000_000


def real_models(options: Options) -> Iterator[stack_calls.Lowerable]:
    """The example's, and those of the folder that the environment names; integer ones in both
    arithmetics."""
    for path in sorted((ROOT / "examples" / "digits").glob("*.onnx")):
        loaded, partition = partition_model(path, options)
        yield stack_calls.Lowerable(path.stem, loaded.graph, partition, real=True)
    if not (folder := os.environ.get("AOT_TEST_MODELS")):
        return
    from corpus_models import CORPUS, QUANTISED, corpus

    names = (*CORPUS, *QUANTISED) if options.requant == "onnx" else QUANTISED
    for name in names:
        with tempfile.TemporaryDirectory() as work:
            model = corpus(Path(folder), name, Path(work))
        if model.path.stat().st_size <= LARGEST:
            pinned = replace(options, input_shapes=model.shapes)
            with suppress(AotError):
                loaded, partition = partition_model(model.path, pinned)
                yield stack_calls.Lowerable(name, loaded.graph, partition, real=True)


def sources(
    only: tuple[str, ...] = (),
) -> Iterator[tuple[Options, list[stack_calls.Lowerable]]]:
    """Everything there is to lower, by options, or the declared cases of the operators `only`."""
    jobs = [j for j in stack_calls.harness.collect(only) if j.model is not None]
    for given in stack_calls.OPTIONS:
        options = Options(**given)
        cases = stack_calls.lowerable(jobs, options)
        if not only and not given:
            cases += node_tests(options)
        if not only and set(given) <= {"requant"}:
            cases += real_models(options)
        yield options, cases


def calls(target: Target, given: Sequence[tuple[Options, Any]]) -> dict[int, list[Call]]:
    """The calls of a target by the width of vectors; strict accuracy means code without any."""
    found: dict[int, list[Call]] = {}
    for options, cases in given:
        chip = replace(target, vlen=1) if options.accuracy == "strict" else target
        own = replace(options, target=target.name)
        found.setdefault(chip.vlen, []).extend(stack_calls.calls_of(cases, chip, own))
    return found


def measure(
    target: Target, given: Sequence[tuple[Options, Any]], folder: Path, known: dict[str, int]
) -> dict[int, dict[str, int]]:
    """Lanes → kernel → bytes, of one target; not of the kernels `known`."""
    found: dict[int, dict[str, int]] = {}
    count = 0
    for width, every in sorted(calls(target, given).items()):
        part = stack_calls.functions((c for c in every if c.kernel not in known), FIXED)
        count += len(part)
        chip = replace(target, vlen=width)
        level = "-O2" if target.board else "-O3"
        found[width] = stack_calls.depths(part, chip, level, folder)
    print(
        f"{target.name}: {count} functions, {len(set().union(*found.values()))} kernels", flush=True
    )
    return found


def by_kernel(found: dict[str, int]) -> dict[str, int]:
    """The largest figure of each kernel's instances."""
    most: dict[str, int] = {}
    for row, taken in found.items():
        kernel = row.partition(" ")[0]
        most[kernel] = max(taken, most.get(kernel, 0))
    return most


def much_less(columns: dict[int, dict[str, int]]) -> dict[int, dict[str, int]]:
    """The rows of kernels, and of instances below two thirds of a kernel that takes much."""
    kept: dict[int, dict[str, int]] = {}
    for lanes, column in columns.items():
        kernels = {row: taken for row, taken in column.items() if " " not in row}
        large = {k: taken for k, taken in kernels.items() if taken > MUCH}
        apart = {r: t for r, t in column.items() if 3 * t < 2 * large.get(r.partition(" ")[0], 0)}
        kept[lanes] = kernels | apart
    return kept


def raise_to(column: dict[str, int], found: dict[str, int]) -> None:
    """Raise the figures of `column` to those of `found`."""
    for kernel, taken in found.items():
        column[kernel] = max(taken, column.get(kernel, 0))


def spelled(apart: Widths) -> str:
    """The figures of levels that were measured apart."""
    parts = []
    for name, given in sorted(apart.items()):
        columns = much_less(given)
        kernels = sorted({k for column in columns.values() for k in column})
        lanes = sorted(columns)
        lines = [
            f"  {json.dumps(k)}: {json.dumps([columns[n].get(k) for n in lanes])}" for k in kernels
        ]
        text = ",\n".join(lines)
        parts.append(
            f' {json.dumps(name)}: {{"lanes": {json.dumps(lanes)}, "kernels": {{\n{text}\n }}}}'
        )
    return '"widths": {\n' + ",\n".join(parts) + "\n}"


def write(rows: Rows, apart: Widths) -> None:
    """The table, a line per kernel."""
    families = list(dict.fromkeys(family(load_target(t)) for t in TARGETS))
    kernels = sorted({k for column in rows.values() for k in column})
    lines = [
        f" {json.dumps(k)}: {json.dumps([rows.get(f, {}).get(k) for f in families])}"
        for k in kernels
    ]
    text = f'{{"families": {json.dumps(families)},\n"kernels": {{\n' + ",\n".join(lines)
    text += f"\n}},\n{spelled(apart)}\n}}\n"
    TABLE.write_text(text, encoding="ascii")


def faults(rows: Rows, known: Rows) -> list[str]:
    """What the table does not hold."""
    found = []
    for name, column in rows.items():
        for kernel, taken in sorted(column.items()):
            held = known.get(name, {})
            row = held.get(kernel, held.get(kernel.partition(" ")[0]))
            if row is None or taken > row:
                found.append(f"{kernel} on {name}: {taken} bytes, the table says {row}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="the stack that kernels take")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="OPERATOR")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    args = parser.parse_args()
    if args.only and not (args.check or args.update or args.missing):
        parser.error("--only keeps no other row: with --update, --missing or --check")
    given = list(sources(tuple(args.only)))
    kept = args.update or args.missing
    rows: Rows = {
        f: {k: taken for k, taken in c.items() if kept or k.startswith(ABSENT)}
        for f, c in table().items()
    }
    apart: Widths = {f: {n: {} for n in lanes} for f, lanes in APART.items()}
    if kept:
        apart = {f: {n: dict(c) for n, c in columns.items()} for f, columns in widths().items()}
    for name in args.targets or TARGETS:
        target = load_target(name)
        if shutil.which(stack_calls.compiler_of(target)) is None:
            print(f"{name}: no {stack_calls.compiler_of(target)}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            column = rows.setdefault(family(target), {})
            known = dict(table().get(family(target), {})) if args.missing else {}
            raise_to(column, library_rows(target, Path(folder)))
            for lanes, found in measure(target, given, Path(folder), known).items():
                raise_to(column, by_kernel(found))
                if own := apart.get(family(target)):
                    raise_to(own[lanes], {**found, **by_kernel(found)})
        if not args.check:
            write(rows, apart)
    if not args.check:
        return 0
    wrong = faults(rows, table())
    for name, columns in apart.items():
        by_lanes = {f"{name} of {n} lanes": c for n, c in columns.items()}
        known_by_lanes = {f"{name} of {n} lanes": c for n, c in widths().get(name, {}).items()}
        wrong += faults(by_lanes, known_by_lanes)
    print("\n".join(wrong) or "the table holds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
