# SPDX-License-Identifier: Apache-2.0
"""The same bytes everywhere: models built for every target, run by its emulator, compared.

    AOT_TEST_MODELS=<folder> python benchmarks/everywhere.py [--target T …] [MODEL …]

Prints a table of models and targets: `ok` where the outputs have the same bytes as on the first
target, `aotc verify` agrees and no entry may take more stack than is declared, `!` where not, `-`
where the model does not fit or a tool is missing (stderr says which). Integer models run in both
arithmetics, float32 ones with `--accuracy strict`. Inputs are the samples stored beside a model,
else seeded random ones, of which float32 ones get one (software floating point is slow); what is
stored as TFLite's result for mlperf_ad_int8 differs from TFLM's, too, and is not compared. Without
the folder only the models of the examples run. Exits 1 if a cell is `!`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

import aot
from aot.errors import AotError, TargetError
from aot.tools.run import Built, execute, open_out
from aot.tools.samples import random_sample, read_samples
from aot.tools.stack_built import checked, stack_of
from aot.tools.verify import Request, verify

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits"
INTEGER = (
    "hello_world_int8", "mlperf_kws_int8", "mlperf_ic_int8", "mlperf_vww_int8", "mlperf_ad_int8",
    "mlperf_sww_int8",
)  # fmt: skip
FLOAT = ("mlperf_kws_f32", "mlperf_ic_f32", "mlperf_vww_f32", "mlperf_ad_f32", "mlperf_sww_f32")
#: Whose stored results of TFLite are not those of its reference kernels.
OTHERWISE = ("mlperf_ad_int8",)
TARGETS = (
    "host", "aarch64-linux", "armv7-linux", "riscv64-linux", "cortex-m0", "cortex-m3", "cortex-m4",
    "cortex-m7", "cortex-m33", "cortex-m55", "rv32imac", "rv32imafc", "rv64gc",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A line of the table."""

    model: Path
    options: dict[str, Any]

    @property
    def label(self) -> str:
        """The model and what it was compiled with."""
        return " ".join([self.model.stem, *self.options.values()])

    @property
    def strict(self) -> bool:
        """Whether it computes in float32."""
        return "accuracy" in self.options


def cases(folder: Path | None, requested: list[str]) -> Iterator[Case]:
    """Every model in every arithmetic whose results do not depend on the target."""
    integer = [DIGITS / "digits_int8.onnx"]
    floats = [DIGITS / "digits.onnx"]
    if folder:
        integer += [folder / f"{name}.onnx" for name in INTEGER]
        floats += [folder / f"{name}.onnx" for name in FLOAT]
    for model in integer:
        if not requested or model.stem in requested:
            yield from (Case(model, {"requant": how}) for how in ("onnx", "tflite"))
    yield from (
        Case(m, {"accuracy": "strict"}) for m in floats if not requested or m.stem in requested
    )


def samples_of(model: Path) -> Path | None:
    """What is stored beside a model."""
    stored = model.with_suffix(".npz")
    return stored if stored.is_file() else None


def foreign(case: Case) -> bool:
    """Whether what is stored was not computed as this case computes."""
    return case.model.stem in OTHERWISE and case.options.get("requant") == "tflite"


def digest(built: Built, case: Case) -> str:
    """Of the output bytes for all samples."""
    stored, graph = samples_of(case.model), onnx.load(case.model).graph
    order = [i.name for i in graph.input], [o.name for o in graph.output]
    samples = (
        read_samples(stored, built.inputs, built.outputs, order)
        if stored and not case.strict
        else tuple(random_sample(built.inputs, graph, seed) for seed in range(1 + 3 * (not stored)))
    )
    hashed = hashlib.sha256()
    for sample in samples:
        for array in execute(built, sample.inputs):
            hashed.update(array.tobytes())
    return hashed.hexdigest()[:8]


def cell(case: Case, target: str, first: str) -> tuple[str, str]:
    """What to print, and the digest of the outputs ("" where there are none)."""
    with tempfile.TemporaryDirectory(prefix="everywhere-") as folder:
        try:
            bundle = aot.compile(case.model, folder, target=target, **case.options)
            built = open_out(bundle.build().out)
            found = digest(built, case)
            compared = None if foreign(case) or case.strict else samples_of(case.model)
            passed = verify(built, Request(compared), lambda _: None).passed
            checked(stack_of(built), built)
        except AotError as error:
            print(f"{case.label}, {target}: {error}", file=sys.stderr)
            return ("-" if isinstance(error, TargetError) else "!"), ""
    return ("ok" if passed and first in ("", found) else "!"), found


def line(case: Case, targets: list[str]) -> str:
    """A row: marks per target, and the digest of the first."""
    marks, first = [], ""
    for target in targets:
        mark, found = cell(case, target, first)
        marks.append(mark)
        first = first or found
    return f"| {case.label} | {' | '.join(marks)} | {first} |"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", metavar="MODEL")
    p.add_argument("--target", action="append", default=[])
    a = p.parse_args()
    named = os.environ.get("AOT_TEST_MODELS")
    targets = a.target or list(TARGETS)
    print(f"| model | {' | '.join(targets)} | digest |\n|-{'|-' * len(targets)}|-|")
    good = True
    for case in cases(Path(named) if named else None, a.models):
        text = line(case, targets)
        print(text, flush=True)
        good = good and "!" not in text
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
