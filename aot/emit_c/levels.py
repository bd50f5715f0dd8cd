# SPDX-License-Identifier: Apache-2.0
"""Libraries for several levels of a CPU: one file of calls per level, and a table to choose by.

    src/net_run.c                       the calls of the first level: net_execute
    src/net_at_x86_64_v3_run.c          those of another: net_at_x86_64_v3_execute
    src/net.c                           init takes the last level whose units the CPU has

All levels read one file of constants, in which equal ones are stored once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from aot.emit_c import interface, rows
from aot.emit_c.constants import Constants, place_constants, same_data
from aot.emit_c.cpu_check import CpuCheck, base_flag, common_flags, cpu_check, unit_flags
from aot.emit_c.kernels import Headers
from aot.emit_c.regions import headers_of
from aot.emit_c.run_order import spell_run
from aot.emit_c.write import Blob, File
from aot.errors import TargetError
from aot.ir.deferred import Constant
from aot.plan.levels import Level
from aot.plan.stack.declare import declared
from aot.target import Target

#: Bytes to which every constant of the common file is aligned at least.
_ALIGN = 64


def level_name(name: str, target: Target) -> str:
    """The prefix of what a level of model `name` defines, below the first level."""
    return re.sub("[^A-Za-z0-9]", "_", f"{name}_at_{target.cpu}")


def common_constants(levels: Sequence[Level]) -> list[Constants]:
    """The constants of each level, their large ones at offsets in one file that all have.

    What several levels store with equal bytes is in the file once.
    """
    own = [place_constants(v.program, v.target.byte_order) for v in levels]
    if len(own) == 1:
        return own
    pieces: dict[str, Constant] = {}
    keys: list[dict[str, str]] = []
    for number, constants in enumerate(own):
        # Two levels may call different data by one name.
        stored = dict(constants.blob.parts) if constants.blob else {}
        keys.append({name: f"{number}/{name}" for name in constants.offsets})
        pieces |= {keys[-1][n]: stored[at] for n, at in constants.offsets.items()}
    same = same_data(pieces)
    offsets: dict[str, int] = {}
    end = 0
    for key, data in pieces.items():
        if same[key] == key:
            offsets[key] = -(-end // _ALIGN) * _ALIGN
            end = offsets[key] + data.nbytes
    blob = Blob(tuple((at, pieces[key]) for key, at in offsets.items()), end) if offsets else None
    return [
        replace(c, offsets={n: offsets[same[k]] for n, k in named.items()}, blob=blob)
        for c, named in zip(own, keys, strict=True)
    ]


def stored_bytes(constants: Sequence[Constants]) -> int:
    """Bytes of the constants of all levels: the common file, and the tables of each."""
    blob = constants[0].blob
    tables = sum(c.nbytes - (c.blob.nbytes if c.blob else 0) for c in constants)
    return tables + (blob.nbytes if blob else 0)


def level_files(
    owner: str, levels: Sequence[Level], constants: Sequence[Constants], specialise: str
) -> dict[str, File]:
    """The sources of the levels behind the first, and the kernels that they call, by path."""
    files: dict[str, File] = {}
    for level, own in zip(levels[1:], constants[1:], strict=True):
        program, plan, target = level.program, level.plan, level.target
        headers = headers_of(program)
        text = spell_run(program, plan, target, own, headers, specialise, owner)
        files[f"src/{program.name}_run.c"] = text.encode("ascii")
        files |= {f"src/kernels/{n}": content for n, content in headers.files.items()}
        if program.segments:
            text = rows.spell_rows(program, plan, target, own, headers, owner)
            files[f"src/{program.name}_rows.c"] = text.encode("ascii")
    return files


def all_headers(levels: Iterable[Level]) -> Headers:
    """The headers of the kernels of every level; libm if one of them needs it."""
    found = [headers_of(v.program) for v in levels]
    return replace(found[0], math=any(h.math for h in found))


def values(levels: Sequence[Level]) -> dict[str, Any]:
    """Values for the templates: nothing but `levels` [] where there is one level.

    Otherwise `levels` has for each level its `name`, its function, what it needs of the CPU as rows
    of a C table, and its sources and flags for CMake; tables of places have a row per level.
    """
    if len(levels) == 1:
        return {"levels": []}
    _check_flags(levels)
    # The caller gives one arena before it is known which level the CPU can run.
    first, arena = levels[0], max(v.plan.arena_bytes for v in levels)
    every = [interface.places(v.program, v.plan) for v in levels]
    merged: dict[str, Any] = {"held": max(int(str(p["held"])) for p in every)}
    for key in ("held_places", "shape_places", "symbol_places"):
        merged[key] = ", ".join(f"{{{p[key]}}}" for p in every) if every[0][key] else ""
    merged["state_places"] = "\n".join(str(p["state_places"]) for p in every if p["state_places"])
    cases = [f"    case {k}:\n{p['clear']}\n        break;" for k, p in enumerate(every)]
    others = [v.program for v in levels[1:]]
    return merged | {
        "levels": [_level(v) for v in levels],
        "units": CpuCheck("", "", unit_flags(first.target), base_flag(first.target)),
        "unit_flags": " ".join(unit_flags(first.target)),
        "sizes": interface.sizes(first.program, arena),
        "clear": "\n".join(["    switch (level) {", *cases, "    default:\n        break;\n    }"]),
        "arena_bytes": arena,
        "portable_bytes": arena,
        "arena_align": max(v.plan.alignment for v in levels),
        "row_declarations": "".join(rows.declarations(p) for p in others),
    }


def _level(level: Level) -> dict[str, Any]:
    """One level for the templates."""
    check, name = cpu_check(level.target), level.program.name
    sources = [f"src/{name}_run.c", *[f"src/{name}_rows.c"] * bool(level.program.segments)]
    return {
        "name": level.target.cpu,
        "prefix": name,
        "execute": f"{name}_execute",
        "needs": check.rows if check else "",
        "units": check.names if check else "",
        "sources": " ".join(sources),
        "flags": " ".join(unit_flags(level.target)),
    }


def _check_flags(levels: Sequence[Level]) -> None:
    """Raise TargetError unless the levels' flags differ in the units of the CPU only."""
    first = levels[0].target
    for level in levels[1:]:
        if _plain_flags(level.target) != _plain_flags(first):
            raise TargetError(f"levels {first.cpu} and {level.target.cpu} have other flags")


def _plain_flags(target: Target) -> tuple[str, ...]:
    """The flags of a target that choose no instructions."""
    units = unit_flags(target)
    return tuple(f for f in common_flags(target) if f not in units)


def record(levels: Sequence[Level], constants: Sequence[Constants]) -> list[dict[str, Any]]:
    """The key `levels` of the manifest: what each level needs of the CPU and of memory, in bytes.

    `own_constants_bytes` are constants that no level before it has.
    """
    made, seen = [], set[int]()
    for level, own in zip(levels, constants, strict=True):
        sizes = {at: data.nbytes for at, data in own.blob.parts} if own.blob else {}
        fresh = set(own.offsets.values()) - seen
        seen |= fresh
        # Small tables are compiled into the sources of each level, which share none of them.
        tables = own.nbytes - (own.blob.nbytes if own.blob else 0)
        made.append(
            {
                "name": level.target.cpu,
                "requires": list(level.target.requires),
                "arena_bytes": level.plan.arena_bytes,
                "own_constants_bytes": tables + sum(sizes[at] for at in fresh),
                "kernels": sorted({c.kernel for c in level.program.every_call() if not c.bodies}),
            }
        )
    return made


def memory(levels: Sequence[Level], constants: Sequence[Constants]) -> Mapping[str, Any]:
    """What several levels change of the manifest's record of memory, in bytes: the arena, its
    bounds and the stack of the level that needs most, the constants of all."""
    largest = max(levels, key=lambda v: v.plan.arena_bytes).plan
    stacks = [declared(v.program, v.target).bytes for v in levels]
    return {
        "arena_bytes": largest.arena_bytes,
        "lower_bound_bytes": largest.lower_bound_bytes,
        "logical_bound_bytes": largest.logical_bound_bytes,
        "optimal": largest.optimal,
        "schedule_optimal": largest.schedule_optimal,
        "portable_arena_bytes": largest.arena_bytes,
        "memories": [{"name": "arena", "bytes": largest.arena_bytes}],
        "alignment": max(v.plan.alignment for v in levels),
        "constants_bytes": stored_bytes(constants),
        "stack_bytes": None if None in stacks else max(s for s in stacks if s is not None),
    }
