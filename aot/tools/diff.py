# SPDX-License-Identifier: Apache-2.0
"""`aotc diff OUT_A OUT_B`: what differs between two builds, and how far their outputs lie apart."""

from __future__ import annotations

from collections import Counter
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

#: Kinds of tensors that a program hands to a bundle or gets from it.
ENDS = ("input", "output", "state")


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
    """What is compared of a build, by section and name: integers and words."""
    manifest, file = built.manifest, built.out / RECORD
    memory = manifest["memory"]
    record = read_json(file, "record of a compilation") if file.is_file() else manifest
    options_of(record)  # refuses what is damaged
    return {
        "ABI": _interface(built),
        "quantisation": _quantisation(manifest),
        "RAM, bytes": _ram(size),
        "flash, bytes": {
            "total": size.constants + size.code,
            "constants": size.constants,
            "code and tables": size.code,
        },
        "work": {
            "MACs": size.macs,
            "calls": len(manifest["nodes"]),
            "regions": len(manifest["regions"]),
        },
        "arena": {
            "lower bound, bytes": memory["lower_bound_bytes"],
            "proven optimal": str(memory["optimal"]),
            "order of calls proven optimal": str(memory["schedule_optimal"]),
        },
        **_backends(manifest),
        **_calls(manifest),
        "options": {k: str(v) for k, v in record["options"].items() if k != "io"},
        "compilation": {"aotc": str(manifest["aotc"]), "model": record.get("sha256")},
    }


def _interface(built: Built) -> dict[str, Any]:
    """The names and tensors that a program sees."""
    manifest = built.manifest
    found = {
        "prefix": built.name,
        "version": str(manifest["abi"]),
        "inputs and outputs in": manifest["options"]["io"],
    }
    for kind in ENDS:
        for i, spec in enumerate(specs(manifest, f"{kind}s")):
            found[f"{kind} {i}"] = f"{one_line(spec.name)}: {spec.text()}"
    return found


def _quantisation(manifest: dict[str, Any]) -> dict[str, Any]:
    """The scales and zero points of inputs, outputs and states, as words."""
    entries = ((kind, i, e) for kind in ENDS for i, e in enumerate(manifest[f"{kind}s"]))
    return {f"{kind} {i}": str(entry["quantisation"]) for kind, i, entry in entries}


def _ram(size: Size) -> dict[str, Any]:
    """Bytes of RAM by use; the stack is None where no bound is known."""
    unknown = size.stack.bytes is size.stack.declared is None
    return {
        "total": size.ram,
        "arena": size.arena,
        "variables": size.static,
        "stack": None if unknown else size.ram - size.arena - size.static,
        "apart: inputs and outputs": size.io,
    }


def _backends(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """How many calls each backend and region has, and the backend of every ONNX node.

    A region is known by the nodes that it computes.
    """
    nodes = manifest["nodes"]
    # Conversions in C have the name of a node, too: what comes later stands.
    ordered = sorted(nodes, key=lambda n: str(n["backend"]) != "c")
    regions = {}
    for region in manifest["regions"]:
        computed = (name for i in region["calls"] for name in nodes[i]["nodes"])
        regions[", ".join(computed)] = len(region["calls"])
    return {
        "backends, in calls": dict(Counter(n["backend"] for n in nodes)),
        "regions, in calls": regions,
        "backends of nodes": {name: n["backend"] for n in ordered for name in n["nodes"]},
    }


def _calls(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Kernels, MACs and live bytes of the arena per call.

    A call is known by the ONNX nodes that it computes, since a call's number says nothing of
    another compilation; calls of the same nodes are one entry.
    """
    arena, calls = memory_map(manifest), dict[str, list[Any]]()
    for node in manifest["nodes"]:
        calls.setdefault(", ".join(node["nodes"]) or node["op"], []).append(node)

    def live(call: Any) -> int:
        return arena.live[call["call"] - arena.begin] if arena else 0

    return {
        "kernels per call": {k: " + ".join(n["kernel"] for n in c) for k, c in calls.items()},
        "MACs per call": {k: sum(n["macs"] for n in c) for k, c in calls.items()},
        "arena in bytes, per call": {k: max(map(live, c)) for k, c in calls.items()},
    }


def _rows(title: str, one: dict[str, Any], two: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each name of a section; of calls, the largest difference comes first.

    A name that a build lacks counts 0 among numbers, and is None among words. Options that only
    one of the two builds remembers are left out.
    """
    none = 0 if any(type(v) is int for v in (*one.values(), *two.values())) else None
    known = [name for name in one if name in two] if title == "options" else one | two
    rows = [_row(name, one.get(name, none), two.get(name, none)) for name in known]
    if title.endswith("per call"):
        rows.sort(key=lambda row: -abs(row["difference"] or 0))
    return rows


def _row(name: str, one: Any, two: Any) -> dict[str, Any]:
    """Both values with their difference and ratio, which are None but for integers."""
    difference = two - one if type(one) is type(two) is int else None
    ratio = two / one if one and difference else None
    return {"name": one_line(name), "a": one, "b": two, "difference": difference, "ratio": ratio}


def _outputs(one: Built, two: Built, sources: list[str]) -> list[dict[str, Any]]:
    """The largest difference of each output by sample, the first build as the reference."""
    if one.inputs != two.inputs:
        raise AotError("the inputs differ")
    if not (is_native(one.target) and is_native(two.target)):
        raise AotError("not both are built for this machine")
    samples = runs_of(one, sources) if sources else random_samples(one.inputs, None, one.manifest)
    rows = []
    for sample in samples:
        wanted, found = (execute(built, sample.inputs) for built in (one, two))
        for spec, want, got in zip(one.outputs, wanted, found, strict=False):
            label = f"{sample.label}{sample.label and '/'}{spec.name}"
            rows.append(compare(label, got, want, spec.dtype).record())
    return rows
