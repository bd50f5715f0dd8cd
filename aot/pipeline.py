# SPDX-License-Identifier: Apache-2.0
"""The compiler as a table of contents: one line per stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aot.emit_c.manifest import manifest_of
from aot.emit_c.names import bundle_name
from aot.emit_c.project import emit_c
from aot.emit_c.selftest import vector_bytes
from aot.errors import UsageError, raise_all
from aot.ir.check_plan import check_plan
from aot.ir.check_program import check_program
from aot.ir.graph_nodes import TEXTS
from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.load import load, model_text
from aot.load.source import Opened, open_model
from aot.lower.assign_layouts import cover_layouts
from aot.lower.lower import lower
from aot.lower.persistent_tensors import stage_outputs
from aot.normalise import check_size, normalise
from aot.options import Options
from aot.partition.annotate import annotate
from aot.partition.claims import load_options
from aot.partition.control_flow import select_all
from aot.partition.cost_model import costs_for
from aot.partition.kept import check_kept
from aot.partition.result import Partition, cheaper
from aot.partition.select_by_cost import all_plain
from aot.plan.async_overlap import overlap
from aot.plan.budget import budgeted
from aot.plan.compiled import Compiled
from aot.plan.control_flow import plan_subprograms
from aot.plan.fallback import make_twins
from aot.plan.memory.plan import plan_memory
from aot.plan.schedule import schedule
from aot.target import Target, load_target, widths
from aot.tools.samples import samples_for
from aot.vendor.find import chosen_backends, plain_names

if TYPE_CHECKING:
    import onnx_ir as ir

Progress = Callable[[str], None]
#: Told the text form of each stage's result as it appears (`--dump-after`).
Watch = Callable[[str, Callable[[], str]], None]


def _silent(_stage: str) -> None:
    return None


def _unwatched(_stage: str, _text: Callable[[], str]) -> None:
    return None


def compile_model(
    source: Path | Any,
    options: Options,
    progress: Progress = _silent,
    watch: Watch = _unwatched,
) -> Compiled:
    """Compile a model (path, bytes, ModelProto, onnx_ir.Model, Opened) to the files of a bundle.

    Nothing is written. Raises AotError with what, where and a hint.
    """
    target = budgeted(load_target(options.target), options)
    name = bundle_name(options.name, source.path if isinstance(source, Opened) else source)
    model, partition = partition_model(source, options, progress, watch)
    target, program, plan = _planned(name, model, partition, target, options, progress, watch)
    progress("twins")
    twins = make_twins(program, plan, model.graph, partition, target, options)
    progress("emit")
    texts = model.graph.meta.get(TEXTS, ())
    manifest = manifest_of(program, plan, target, partition, options, twins, texts)
    samples = samples_for(manifest, model, options)
    if samples:
        manifest["test_data"] = {"samples": len(samples), "bytes": vector_bytes(program, samples)}
    files = emit_c(program, plan, target, options, manifest, twins, samples)
    return Compiled(name, target, model, partition, program, plan, files, manifest)


def partition_model(
    source: Path | Any,
    options: Options,
    progress: Progress = _silent,
    watch: Watch = _unwatched,
    survey: bool = False,
    keeps: Sequence[str] = (),
) -> tuple[ir.Model, Partition]:
    """The front half: the normalised model and who computes which node.

    With `survey` a node that nobody takes is reported in the partition instead of an error.
    `keeps` are operators to leave as they are besides those that backends keep. By cost, what
    backends keep is tried both ways: a kept operator is not always worth what it prevents.
    """
    opened = source if isinstance(source, Opened) else open_model(source)
    first = _partitioned(opened, options, progress, watch, survey, keeps)
    if options.partition != "cost" or not any(b.keeps for b in chosen_backends(opened, options)[0]):
        return first
    try:
        return cheaper(
            first, _partitioned(opened, options, progress, watch, survey, keeps, kept=False)
        )
    except UsageError:  # this form has no node for what the user said of it
        return first


def _partitioned(
    opened: Opened,
    options: Options,
    progress: Progress,
    watch: Watch,
    survey: bool,
    keeps: Sequence[str],
    kept: bool = True,
) -> tuple[ir.Model, Partition]:
    """`partition_model` once, with or without what the backends keep."""
    progress("load")
    backends, marked_only = chosen_backends(opened, options)
    named = plain_names(options.backends)
    asked = load_options(options, backends, keeps)
    if not kept:
        asked = replace(asked, keeps=frozenset(keeps))
    model = load(opened, asked)
    noted = annotate(model, options.keep, options.regions, named[0] if named else "")
    watch("load", lambda: model_text(model))
    progress("normalise")
    model = normalise(model, asked)
    raise_all(check_kept(model, noted, options.regions))
    check_size(model.graph)
    watch("normalise", lambda: model_text(model))
    progress("partition")
    costs = costs_for(options) if options.partition == "cost" else None
    layouts = cover_layouts(costs.lanes) if costs is not None else all_plain
    partition = select_all(
        model.graph, backends, options.offload_limit, survey, marked_only, costs, layouts
    )
    watch("partition", partition.text)
    return model, partition


def _planned(
    name: str,
    model: ir.Model,
    partition: Partition,
    target: Target,
    options: Options,
    progress: Progress,
    watch: Watch,
) -> tuple[Target, Program, Plan]:
    """The program with the smallest arena of those for the target's widths of vectors."""
    found: list[tuple[Target, Program, Plan]] = []
    for chip in widths(target, options):
        progress("lower")
        program = lower(name, model.graph, partition, chip, options)
        watch("lower", program.text)
        check_program(program)
        progress("bodies")
        program = stage_outputs(plan_subprograms(program, chip, options.plan_effort))
        progress("schedule")
        program = schedule(program)
        if options.objective in ("latency", "energy"):
            program = overlap(program)
        watch("schedule", program.text)
        check_program(program)
        progress("plan")
        plan = plan_memory(program, chip, effort=options.plan_effort)
        watch("plan", plan.text)
        check_plan(program, plan)
        found.append((chip, program, plan))
        if plan.pads_little():
            break
    return min(found, key=lambda f: f[2].arena_bytes)
