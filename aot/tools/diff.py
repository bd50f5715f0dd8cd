# SPDX-License-Identifier: Apache-2.0
"""`aotc diff OUT_A OUT_B`: what differs between two builds, and how far their outputs lie apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aot.errors import AotError, BuildError, one_line
from aot.tools.build import RECORD, read_json
from aot.tools.compare import compare
from aot.tools.emulate import is_native
from aot.tools.record import as_written, options_of
from aot.tools.report.memory import memory_map
from aot.tools.run import Built, execute, open_out, specs
from aot.tools.samples import random_samples, runs_of
from aot.tools.size import Size, measure, planned


def diff(outs: tuple[Path, Path], inputs: list[str], everything: bool = False) -> dict[str, Any]:
    """The comparison of two OUT as a record for --json and for the templates of the report.

    `sections` are rows by title, those that differ (all with `everything`); `outputs` the largest
    differences of each output; `notes` say what is not compared, and why. `same_abi` and `same`
    say whether the interface, and all that is compared, is equal.

    Outputs are compared on the files `inputs`, as `aotc run` takes them, else on seeded random
    arrays. Raises AotError for a folder without a bundle as aotc wrote it, and for `inputs` on
    which the two cannot run.
    """
    notes, outputs = [], list[dict[str, Any]]()
    with as_written(outs[0]), as_written(outs[1]):
        builds = [open_out(out) for out in outs]
        try:
            sizes = [measure(built) for built in builds]
        except BuildError as error:  # bytes that were measured and planned do not compare
            sizes = [planned(built.manifest) for built in builds]
            notes.append(f"{error.what}; RAM and flash are as planned, without code")
        try:
            outputs = _outputs(builds[0], builds[1], inputs)
        except AotError as error:
            if inputs:
                raise
            notes.append(f"outputs are not compared: {error.what}")
        one, two = (_compared(built, size) for built, size in zip(builds, sizes, strict=True))
    sections = {title: _rows(title, one[title], two[title]) for title in one}
    changed = {title: [r for r in rows if r["a"] != r["b"]] for title, rows in sections.items()}
    apart = [o for o in outputs if o["max_ulp"] or o["reason"]]
    return {
        "a": str(outs[0]),
        "b": str(outs[1]),
        "same_abi": not changed["ABI"],
        "same": not any([apart, *changed.values()]),
        "notes": notes,
        "sections": {t: r for t, r in (sections if everything else changed).items() if r},
        "outputs": outputs if everything else apart,
        "compared": len(outputs),
    }


def _compared(built: Built, size: Size) -> dict[str, dict[str, Any]]:
    """What is compared of a build, by section and name: integers and words.

    A call is known by the ONNX nodes that it computes, since a call's number says nothing of
    another compilation; calls of the same nodes are one entry. So is a region.
    """
    manifest, memory, nodes = built.manifest, built.manifest["memory"], built.manifest["nodes"]
    file, arena, calls = built.out / RECORD, memory_map(manifest), dict[str, list[Any]]()
    record = read_json(file, "record of a compilation") if file.is_file() else manifest
    options_of(record)  # refuses what is damaged
    for node in nodes:
        calls.setdefault(", ".join(node["nodes"]) or node["op"], []).append(node)
    return {
        "ABI": {
            "prefix": built.name,
            "version": str(manifest["abi"]),
            "inputs and outputs in": manifest["options"]["io"],
            **{
                f"{kind} {i}": f"{one_line(spec.name)}: {spec.text()}"
                for kind in ("input", "output", "state")
                for i, spec in enumerate(specs(manifest, f"{kind}s"))
            },
        },
        "quantisation": {
            f"{kind} {i}": str(entry["quantisation"])
            for kind in ("input", "output", "state")
            for i, entry in enumerate(manifest[f"{kind}s"])
        },
        "RAM, bytes": {
            "total": size.ram,
            "arena": size.arena,
            "variables": size.static,
            "stack": None
            if size.stack.bytes is size.stack.declared is None
            else size.ram - size.arena - size.static,
            "apart: inputs and outputs": size.io,
        },
        "flash, bytes": {
            "total": size.constants + size.code,
            "constants": size.constants,
            "code and tables": size.code,
        },
        "work": {"MACs": size.macs, "calls": len(nodes), "regions": len(manifest["regions"])},
        "arena": {
            "lower bound, bytes": memory["lower_bound_bytes"],
            "proven optimal": str(memory["optimal"]),
            "order of calls proven optimal": str(memory["schedule_optimal"]),
        },
        "backends, in calls": {
            b: sum(n["backend"] == b for n in nodes)
            for b in dict.fromkeys(n["backend"] for n in nodes)
        },
        "regions, in calls": {
            ", ".join(name for i in r["calls"] for name in nodes[i]["nodes"]): len(r["calls"])
            for r in manifest["regions"]
        },
        "backends of nodes": {  # conversions in C, which have the name of a node too, come first
            name: n["backend"]
            for n in sorted(nodes, key=lambda n: str(n["backend"]) != "c")
            for name in n["nodes"]
        },
        "kernels per call": {k: " + ".join(n["kernel"] for n in c) for k, c in calls.items()},
        "MACs per call": {k: sum(n["macs"] for n in c) for k, c in calls.items()},
        "arena in bytes, per call": {
            k: max(arena.live[n["call"] - arena.begin] for n in c) if arena else 0
            for k, c in calls.items()
        },
        "options": {k: str(v) for k, v in record["options"].items() if k != "io"},
        "compilation": {"aotc": str(manifest["aotc"]), "model": record.get("sha256")},
    }


def _rows(title: str, one: dict[str, Any], two: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each name of a section; of calls, the largest difference comes first.

    What a build lacks counts 0 among numbers, and is None among words. Options that only one
    of the two builds remembers are left out.
    """
    none = 0 if any(type(v) is int for v in (*one.values(), *two.values())) else None
    rows = [
        {
            "name": one_line(name),
            "a": a,
            "b": b,
            "difference": d,
            "ratio": b / a if a and d else None,
        }
        for name in (one if title == "options" else one | two)
        if name in two or title != "options"
        for a, b in [(one.get(name, none), two.get(name, none))]
        for d in [b - a if type(a) is type(b) is int else None]
    ]
    return (
        sorted(rows, key=lambda r: -abs(r["difference"] or 0))
        if title.endswith("per call")
        else rows
    )


def _outputs(one: Built, two: Built, sources: list[str]) -> list[dict[str, Any]]:
    """The largest difference of each output by sample, the first build as the reference."""
    if one.inputs != two.inputs:
        raise AotError("the inputs differ")
    if not (is_native(one.target) and is_native(two.target)):
        raise AotError("not both are built for this machine")
    samples = runs_of(one, sources) if sources else random_samples(one.inputs, None, one.manifest)
    return [
        compare(f"{s.label}{s.label and '/'}{spec.name}", ours, theirs, spec.dtype).record()
        for s in samples
        for spec, theirs, ours in zip(
            one.outputs, *(execute(b, s.inputs) for b in (one, two)), strict=False
        )
    ]
