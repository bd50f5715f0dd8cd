# SPDX-License-Identifier: Apache-2.0
"""The levels of a bundle (`--target x86-64:v2,v3`) against its first one, on the same inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aot.errors import AotError
from aot.ir.sample import Sample
from aot.tools.compare import Difference, compare
from aot.tools.run import Built, stream

#: The end of the message of a program whose CPU lacks a unit (`aot_status_text`).
_LACKS = "the CPU lacks a unit that the library was built for"


def compare_levels(
    built: Built, samples: Sequence[Sample], accuracy: str
) -> tuple[tuple[Difference, ...], tuple[str, ...]]:
    """(differences of every level's outputs from the first level's, notes on levels that this CPU
    cannot run); nothing where the bundle has one level.

    Floats have the tolerance of `accuracy`, everything else is exact. Raises AotError if a level
    fails in another way than for a unit that the CPU lacks.
    """
    found: list[Difference] = []
    notes = []
    first, *others = [str(v["name"]) for v in built.manifest.get("levels", [{"name": ""}])]
    inputs = [s.inputs for s in samples]
    wanted = stream(replace(built, level=first), inputs) if others else []
    for level in others:
        try:
            made = stream(replace(built, level=level), inputs)
        except AotError as error:
            # This CPU may lack units of a higher level; any other failure is one of the bundle.
            if not error.what.endswith(_LACKS):
                raise
            notes.append(f"level {level} is not compared: this CPU lacks its units")
            continue
        for sample, ours, theirs in zip(samples, made, wanted, strict=True):
            prefix = f"{sample.label}/" if sample.label else ""
            for spec, a, b in zip(built.outputs, ours, theirs, strict=True):
                name = f"{prefix}{spec.name} of level {level} beside {first}"
                found.append(compare(name, a, b, spec.dtype, accuracy=accuracy))
    return tuple(found), tuple(notes)
