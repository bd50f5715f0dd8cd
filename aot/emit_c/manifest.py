# SPDX-License-Identifier: Apache-2.0
"""`manifest.json`: what the bundle holds, for tools. docs/manifest.schema.json describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from aot.emit_c import interface
from aot.emit_c.constants import place_constants
from aot.emit_c.trace import arena_offset, last_writers, reads, writes
from aot.emit_c.write import File, sha256
from aot.ir.plan import Plan
from aot.ir.program import WAITS, Arg, Body, Call, Program, Role, Tensor
from aot.options import Options
from aot.partition.result import Partition
from aot.plan import slices, threads
from aot.plan.board_memory import needs_of, record
from aot.plan.fallback import RegionFallback, portable_bytes
from aot.plan.memory.states import scratch_bytes, state_places
from aot.plan.memory.stretches import stretches
from aot.plan.stack import declare
from aot.plan.statics import static_bytes
from aot.plan.streaming.lives import row_lives
from aot.target import Target
from aot.version import __version__

#: major.minor: keys may be added in a minor version, removal is a major one.
SCHEMA_VERSION = "1.0"
#: AOT_ABI_VERSION of aot/aot.h.
ABI = 2


def manifest_of(
    program: Program,
    plan: Plan,
    target: Target,
    partition: Partition | None,
    options: Options,
    fallbacks: Sequence[RegionFallback] = (),
    texts: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything but `sources`, which `emit_c` adds when the files exist.

    `texts` are the ONNX names of inputs and outputs that hold strings.
    """
    names = _onnx_names(partition)
    nodes = _nodes(program, plan, names, set())
    lengths = {k.tensor for k in program.kept_dims}
    axes: dict[str, list[int]] = {}
    for name, axis in sorted(a for k in program.kept_dims for a in k.axes):
        axes.setdefault(name, []).append(axis)
    return {
        "schema": SCHEMA_VERSION,
        "aotc": __version__,
        "abi": ABI,
        "name": program.name,
        "target": {
            "name": target.name,
            "cpu": target.cpu,
            "arch": target.arch,
            "vlen": target.vlen,
            "cflags": list(target.cflags),
            "byte_order": target.byte_order,
            "pointer_bits": target.pointer_bits,
            "system": target.system,
            "requires": list(target.requires),
            "emulator": list(target.emulator),
            "emulator_packages": list(target.emulator_packages),
            "tick_hz": target.tick_hz,
        },
        "options": {
            "objective": options.objective,
            "accuracy": options.accuracy,
            "specialise": options.specialise,
            "io": program.io,
        },
        "inputs": _marked(_inputs(program, plan), texts),
        "dimensions": [
            {"name": e.name, "least": e.least, "most": e.most, "axes": [list(a) for a in e.axes]}
            for e in program.dynamic_dims
        ]
        + [
            {"name": e.name, "least": 0, "most": e.most, "axes": [], "next": e.next}
            for e in program.kept_dims
        ],
        "outputs": _marked(_outputs(program, plan), texts),
        # Lengths are carried like states, but a user knows them as dimensions.
        "states": [
            {"output": options.states.get(interface.label(t), ""), **_tensor(program, plan, t)}
            | ({"extents": axes[t.name]} if t.name in axes else {})
            for t in (program.tensors[n] for n in program.carried if n not in lengths)
        ],
        "memory": {
            **_memory(program, plan, target),
            "portable_arena_bytes": portable_bytes(plan, fallbacks),
            **declare.record(
                declare.declared(program, target, [f.program for f in fallbacks if f.program])
            ),
        },
        "macs": sum(c.macs for c in program.calls),
        **({"slices": slices.record(program, options.slice_macs)} if program.slices else {}),
        **({"threads": threads.record(program)} if program.threads > 1 else {}),
        "nodes": nodes,
        "regions": [*_regions(program, fallbacks), *_inner_regions(program, fallbacks)],
        "refusals": _refusals(partition, names),
        "libraries": [],
        "sources": [],
    }


def dump(manifest: Mapping[str, Any]) -> bytes:
    """The manifest as text: a line for each key, and for each item of a list."""
    lines = [f" {json.dumps(k)}: {_lines(v)}" for k, v in manifest.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


def _lines(value: Any) -> str:
    """JSON of `value`; a line for each record of a list (Python's own indenting is slow)."""
    if not isinstance(value, list | tuple) or not value:
        return json.dumps(value, ensure_ascii=True)
    return "[\n  " + ",\n  ".join(json.dumps(v, ensure_ascii=True) for v in value) + "\n ]"


def sources_of(files: Mapping[str, File]) -> list[dict[str, Any]]:
    """Path, size and checksum of each file."""
    return [{"path": p, "bytes": len(files[p]), "sha256": sha256(files[p])} for p in sorted(files)]


def _marked(tensors: list[dict[str, Any]], texts: Sequence[str]) -> list[dict[str, Any]]:
    """Those that hold strings have the key `text`."""
    return [{**t, "text": True} if t["name"] in texts else t for t in tensors]


def _inputs(program: Program, plan: Plan) -> list[dict[str, Any]]:
    """The manifest's list of inputs; `shape` has upper bounds on the axes `extents`, sized by a
    run.
    """
    axes: dict[int, list[int]] = {}
    for dimension in program.dynamic_dims:
        for index, axis in dimension.axes:
            axes.setdefault(index, []).append(axis)
    found = []
    for i, tensor in enumerate(interface.inputs(program)):
        own = {"extents": sorted(axes[i])} if i in axes else {}
        found.append({**_tensor(program, plan, tensor), **own})
    return found


def _outputs(program: Program, plan: Plan) -> list[dict[str, Any]]:
    """The outputs; `shape` has bounds on the axes `extents`, whose size the data decide."""
    axes = {s.output: s.axes for s in program.shapes}
    found = []
    for i, tensor in enumerate(interface.outputs(program)):
        own = {"extents": list(axes[i])} if i in axes else {}
        found.append({**_tensor(program, plan, tensor), **own})
    return found


def _tensor(program: Program, plan: Plan, tensor: Tensor) -> dict[str, Any]:
    """The manifest's record of an input or output, with its offset (bytes) if it is in the
    arena.
    """
    place = arena_offset(program, plan, tensor.name) if program.io == "arena" else None
    return {
        **({} if place is None else {"arena_offset": place}),
        "name": interface.label(tensor),
        "identifier": interface.identifier(tensor),
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype),
        "nbytes": tensor.nbytes,
        "quantisation": _quantisation(program, tensor.name),
    }


def _quantisation(program: Program, tensor: str) -> dict[str, Any] | None:
    """Scale and zero point (lists along `axis`, where that is not null); None for plain values."""
    found = dict(program.quantisation).get(tensor)
    if found is None:
        return None
    scale, zero = list(found.scale), list(found.zero_point)
    if found.axis is None:
        return {"scale": scale[0], "zero_point": zero[0], "axis": None}
    return {"scale": scale, "zero_point": zero, "axis": found.axis}


def _memory(program: Program, plan: Plan, target: Target) -> dict[str, Any]:
    """The manifest's record of memory in bytes: arena with bounds and proofs, variables, constants.

    `buffers` lists tensors in the arena with offset, bytes, and first and last call.
    """
    caller = interface.inputs(program) + interface.outputs(program)
    constants = place_constants(program, target.byte_order)
    needs = needs_of(program, plan, constants.nbytes)
    return {
        "arena_bytes": plan.arena_bytes,
        "lower_bound_bytes": plan.lower_bound_bytes,
        "logical_bound_bytes": plan.logical_bound_bytes,
        "optimal": plan.optimal,
        "schedule_optimal": plan.schedule_optimal,
        "io_bytes": sum(t.nbytes for t in caller if t.role is not Role.TEMP),
        "static_bytes": static_bytes(program, target.pointer_bits // 8, len(plan.parts)),
        "constants_bytes": constants.nbytes,
        "alignment": plan.alignment,
        "memories": [
            {
                "name": p.memory,
                "bytes": p.bytes,
                "offset": p.begin,
                "speed": p.cost,
                "traffic_bytes": p.traffic,
            }
            for p in plan.parts
        ]
        or [{"name": "arena", "bytes": plan.arena_bytes}],
        **({"places": record(target, needs)} if target.board else {}),
        **_apart(program, plan),
        # Constants that have an owner are in the files of that vendor.
        "stored": [
            {"offset": o, "bytes": constants.tensors[n].nbytes, "align": constants.tensors[n].align}
            for n, o in constants.offsets.items()
            if not constants.owners[n]
        ],
        **({"by_rows": _by_rows(program, plan)} if program.segments else {}),
        "buffers": [
            {
                "tensor": s.root,
                "scratch": program.tensors[s.root].role is Role.SCRATCH,
                "offset": s.offset,
                "nbytes": s.nbytes,
                "first": s.first,
                "last": s.last,
            }
            for s in stretches(program, plan)
        ],
    }


def _apart(program: Program, plan: Plan) -> dict[str, Any]:
    """The places of states, null where they cannot be moved, and the bytes that the rest needs."""
    states = state_places(program, plan)
    kept = None if states is None else [{"offset": s.offset, "bytes": s.bytes} for s in states]
    return {"states": kept, "scratch_bytes": scratch_bytes(program, plan, states or ())}


def _by_rows(program: Program, plan: Plan) -> list[dict[str, Any]]:
    """The runs of calls that are made row by row, with the place and the steps of every row."""
    lives = row_lives(program, plan)
    return [
        {
            "first": s.first,
            "last": s.last,
            "steps": len(s.steps),
            "tensors": list(s.tensors),
            "rows": [
                {"tensor": t.tensor, "nbytes": t.nbytes, "most": t.most, "places": t.rows}
                for t in found
            ],
        }
        for s, found in zip(program.segments, lives, strict=True)
    ]


def _nodes(
    program: Program, plan: Plan, names: Mapping[str, str], fresh: set[str]
) -> list[dict[str, Any]]:
    """The calls of a program; `fresh` are the constants that earlier calls have read."""
    last, read = last_writers(program), reads(program)
    return [
        _node(program, plan, i, c, names, last, fresh, r)
        for i, (c, r) in enumerate(zip(program.calls, read, strict=True))
    ]


def _node(
    program: Program,
    plan: Plan,
    index: int,
    call: Call,
    names: Mapping[str, str],
    last: Mapping[str, int],
    fresh: set[str],
    read: Sequence[tuple[Tensor, Sequence[int]]],
) -> dict[str, Any]:
    """The manifest's record of call `index` and of its bodies.

    `names` are the user's names of nodes, `last` the last call that writes a tensor, `fresh`
    constants that no call before it has counted (changed), `read` tensors read with the calls that
    made them.
    """
    bodies = [_body(b, names, fresh) for b in call.bodies]
    inner = sum(n["constant_bytes"] for b in bodies for n in b["nodes"])
    return {
        "call": index,
        "nodes": [names.get(n, n) for n in call.origin.nodes],
        "op": " + ".join(call.origin.ops),
        "backend": call.backend,
        "region": call.region % WAITS if call.region >= 0 else -1,
        "kernel": call.kernel,
        "instance": dict(call.instance),
        "macs": call.macs,
        "constant_bytes": inner + _constant_bytes(program, call, fresh),
        **({"fetches": _fetches(program, call)} if call.fetches else {}),
        **({"bodies": bodies} if bodies else {}),
        "offsets": _offsets(program, plan, call),
        "reads": [{**_part(program, t), "calls": [*calls]} for t, calls in read],
        "writes": [
            {
                **_part(program, t),
                "layout": str(t.layout),
                "nbytes": t.nbytes,
                "last": last[t.name] == index,
                "code_offset": t.code_offset,
                "channels": list(t.channels),
            }
            for _, t in writes(program, call)
        ],
    }


def _fetches(program: Program, call: Call) -> list[dict[str, Any]]:
    """The constants that a call gets by blocks: how, their bytes, those stored, blocks."""
    sources = [call.args[f.source] for f in call.fetches]
    return [
        {
            "how": f.how,
            "source": s.tensor,
            "bytes": f.total,
            "stored_bytes": program.tensors[s.tensor].nbytes,
            "blocks": f.blocks,
            "block_bytes": f.step * f.nbytes,
        }
        for f, s in zip(call.fetches, sources, strict=True)
        if isinstance(s, Arg)
    ]


def _part(program: Program, tensor: Tensor) -> dict[str, Any]:
    """What a call reads or writes, and the tensor whose memory that is a part of."""
    return {
        "tensor": tensor.name,
        "value": tensor.onnx_name,
        "buffer": program.base(tensor.name)[0],
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype),
    }


def _body(body: Body, names: Mapping[str, str], fresh: set[str]) -> dict[str, Any]:
    """A body: its calls like those around it, offsets from the start of its own arena."""
    program, plan = body.program, body.plan
    assert plan is not None
    calls = _nodes(program, plan, names, fresh)
    return {"name": program.name, "arena_bytes": plan.arena_bytes, "nodes": calls}


def _constant_bytes(program: Program, call: Call, counted: set[str]) -> int:
    """Bytes of the constants that this call is the first to read; `counted` are known ones."""
    total = 0
    for name in call.reads():
        base = program.base(name)[0]
        if program.tensors[base].role is Role.CONST and base not in counted:
            counted.add(base)
            total += program.consts[base].nbytes
    return total


def _offsets(program: Program, plan: Plan, call: Call) -> dict[str, int]:
    """Tensors of the call that are in the arena → byte offset."""
    found = {}
    for arg in call.pointers():
        role = program.tensors[program.base(arg.tensor)[0]].role
        offset = arena_offset(program, plan, arg.tensor)
        if role in (Role.TEMP, Role.SCRATCH) and offset is not None:
            found[arg.tensor] = offset
    return found


def _regions(program: Program, fallbacks: Sequence[RegionFallback]) -> list[dict[str, Any]]:
    """The manifest's record of each region: its backend, its calls' indices, its fallback."""
    own = {t.region: t for t in fallbacks}
    regions: dict[int, dict[str, Any]] = {}
    for index, call in enumerate(program.calls):
        if call.region >= 0:
            # A call that waits for a region has its number plus WAITS.
            number = call.region % WAITS
            made = {
                "region": number,
                "backend": call.backend,
                "calls": [],
                **({"says": call.origin.comment} if call.origin.comment else {}),
                **_fallback(own.get(number)),
            }
            regions.setdefault(number, made)["calls"].append(index)
    return [regions[r] for r in sorted(regions)]


def _inner_regions(program: Program, fallbacks: Sequence[RegionFallback]) -> list[dict[str, Any]]:
    """The manifest's record of regions in bodies of If and Loop, by their number.

    Their call is the one with the body; only the results of that call (`leaves`) can be compared.
    """
    own = {t.region: t for t in fallbacks}
    found: dict[int, dict[str, Any]] = {}
    for index, around in enumerate(program.calls):
        leaves = [t.name for _, t in writes(program, around)]
        for part in (p for body in around.bodies for p in body.program.tree()):
            for call in part.calls:
                if call.region >= 0:
                    first = {"region": call.region, "backend": call.backend, "calls": [index]}
                    seen = {**_fallback(own.get(call.region)), "leaves": leaves, "body": part.name}
                    found.setdefault(call.region, {**first, **seen})
    return [found[r] for r in sorted(found)]


def _fallback(fallback: RegionFallback | None) -> dict[str, Any]:
    """Whether portable C can stand in for the region, and the tensors that leave it."""
    if fallback is None:
        return {}
    return {
        "portable": fallback.program is not None,
        "why_not": fallback.reason,
        "leaves": [*fallback.outputs],
    }


def _refusals(partition: Partition | None, names: Mapping[str, str]) -> list[dict[str, str]]:
    """The manifest's list of refusals: who did not take a node, and the reason."""
    if partition is None:
        return []
    return [
        {
            "node": names.get(r.node, r.node),
            "op": r.op_type,
            "backend": r.backend,
            "pattern": r.pattern,
            "reason": r.reason,
        }
        for p in partition.tree()
        for r in p.refusals
    ]


def _onnx_names(partition: Partition | None) -> dict[str, str]:
    """Identifier of each node → its name in the model."""
    if partition is None:
        return {}
    items = [s for p in partition.tree() for s in p.items]
    return {n.name: n.onnx_name or n.name for s in items for n in s.match.nodes}
