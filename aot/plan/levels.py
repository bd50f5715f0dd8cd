# SPDX-License-Identifier: Apache-2.0
"""Libraries for several levels of a CPU: `--target x86-64:v2,v3,v4-vnni`.

Every level has a program of its own, because layouts, packed weights and kernels depend on the
vectors; the interface, the checks and the context are common. `NAME_init` takes the last level of
the list whose units the CPU has.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.errors import InternalError, TargetError, UnsupportedError
from aot.ir.dtypes import DType
from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.options import Options
from aot.target import Target


@dataclass(frozen=True, slots=True)
class Level:
    """The program and the plan of one level; `program.name` is the prefix of its functions."""

    target: Target
    program: Program
    plan: Plan


def check_levels(target: Target, options: Options) -> None:
    """Raise UnsupportedError for an option that has no meaning with several levels.

    Vendors' libraries choose among CPUs themselves; constants in a file, slices and places of the
    arena would differ from level to level; other build systems have one set of flags per package.
    """
    if not target.levels:
        return
    unfit = {
        f"--backend {','.join(options.backends)}": bool(options.backends),
        "--io arena": options.io == "arena",
        f"--push {options.push}": bool(options.push),
        f"--slice-macs {options.slice_macs}": bool(options.slice_macs),
        f"--weights {options.weights}": options.weights != "embedded",
        f"--package {','.join(options.package)}": bool(options.package),
        "--single-file": options.single_file,
    }
    for option in (o for o, asked in unfit.items() if asked):
        what = f"--target {target.name} with {option}"
        hint = f"one level: --target {target.levels[-1].cpu}; or leave that option out"
        raise UnsupportedError(what, hint=hint)


def check_alike(first: Level, others: tuple[Level, ...]) -> None:
    """Raise InternalError unless all levels have the same inputs, outputs, states and dimensions,
    and TargetError unless their flags differ in units only."""
    for other in others:
        for field in ("inputs", "outputs", "carried", "dynamic_dims", "shapes"):
            if len(getattr(first.program, field)) != len(getattr(other.program, field)):
                raise InternalError(f"{other.program.name} has other {field} than the first level")
        for a, b in zip(_ends(first.program), _ends(other.program), strict=True):
            if a != b:
                raise InternalError(f"{other.program.name}: {b[0]} is not as in the first level")
        if first.target.pointer_bits != other.target.pointer_bits:
            raise TargetError(f"level {other.target.cpu} has pointers of another size")


def _ends(program: Program) -> list[tuple[str, tuple[int, ...], DType]]:
    """(the model's name, shape, dtype) of inputs and outputs as callers see them."""
    tensors = [program.tensors[n] for n in (*program.inputs, *program.outputs)]
    return [(t.onnx_name or t.name, t.shape, t.dtype) for t in tensors]
