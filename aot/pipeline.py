# SPDX-License-Identifier: Apache-2.0
"""The compiler's table of contents: one line per stage.

| stage | called by | in |
|---|---|---|
| load, normalise, partition | `partition_form` | aot/load, aot/normalise, aot/partition |
| lower, bodies, schedule, plan | `plan_programs` | aot/lower, aot/plan |
| fallbacks (each region in portable C) | `make_fallbacks` | aot/plan |
| emit | `emit_c` | aot/emit_c |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from aot.emit_c.levels import level_name
from aot.emit_c.manifest import manifest_of
from aot.emit_c.names import bundle_name
from aot.emit_c.project import emit_c
from aot.emit_c.selftest import vector_bytes
from aot.emit_c.weights import section_note
from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import NOTES, TEXTS
from aot.ir.stages import Progress, Stages, Watch, silent, unwatched
from aot.load.cut import part_of
from aot.load.source import Opened, open_model
from aot.options import Options
from aot.partition.partition_form import partition_form
from aot.partition.result import Partition
from aot.plan.budget import budgeted
from aot.plan.code_size import code_parts
from aot.plan.compiled import Compiled
from aot.plan.fallback import make_fallbacks
from aot.plan.levels import Level, check_alike, check_levels
from aot.plan.plan_program import in_memories, plan_programs, within_ram
from aot.plan.slices import note, sliced
from aot.plan.threads import check_threads
from aot.target import Target, load_target, widths
from aot.tools.samples import samples_for
from aot.vendor.find import chosen_backends


def compile_model(
    source: Path | Any, options: Options, progress: Progress = silent, watch: Watch = unwatched
) -> Compiled:
    """Compile a model (path, bytes, ModelProto, onnx_ir.Model, Opened) to the files of a bundle.

    Nothing is written. Raises AotError with what, where and a hint.
    """
    stage = Stages(progress, watch)
    target = budgeted(load_target(options.target), options)
    check_levels(target, options)
    check_threads(options.threads, target, options.package, options.single_file)
    name = bundle_name(options.name, source.path if isinstance(source, Opened) else source)
    model, partition = partition_model(source, options, progress, watch)
    planned = partial(_planned, model.graph, partition, options, stage)
    first = planned(name, target)
    others = tuple(planned(level_name(name, chip), chip) for chip in target.levels)
    # All levels share one header, so inputs, outputs and states have to be alike.
    check_alike(first, others)
    target, program, plan = first.target, first.program, first.plan
    program = sliced(program, plan, options.slice_macs)
    make = partial(make_fallbacks, program, plan, model.graph, partition, target, options)
    fallbacks = stage("fallbacks", make)
    stage.begin("emit")
    texts = model.graph.meta.get(TEXTS, ())
    manifest = manifest_of(program, plan, target, partition, options, fallbacks, texts)
    notes = [*model.graph.meta.get(NOTES, ()), *note(program, options.slice_macs)]
    notes += section_note(program, target)
    if notes:
        manifest["notes"] = notes
    samples = samples_for(manifest, model, options)
    if samples:
        manifest["test_data"] = {"samples": len(samples), "bytes": vector_bytes(program, samples)}
    files = emit_c(program, plan, target, options, manifest, fallbacks, samples, others)
    code = Counter[str]()
    for chip in (Level(target, program, plan), *others):
        code.update(code_parts(chip.program, chip.plan, chip.target, options.specialise))
    return Compiled(name, target, model, partition, program, plan, files, manifest, dict(code))


def _planned(
    graph: ir.Graph,
    partition: Partition,
    options: Options,
    stage: Stages,
    name: str,
    target: Target,
) -> Level:
    """The program called `name` for one level of the CPU, with the plan that needs least."""
    plans = plan_programs(name, graph, partition, widths(target, options), options, stage)
    chip, program, plan = min(plans, key=lambda trial: trial[2].arena_bytes)
    program, plan = within_ram(program, plan, chip, options)
    return Level(chip, program, in_memories(program, plan, chip, options))


def partition_model(
    source: Path | Any,
    options: Options,
    progress: Progress = silent,
    watch: Watch = unwatched,
    survey: bool = False,
    keeps: Sequence[str] = (),
) -> tuple[ir.Model, Partition]:
    """The front half of `compile_model`: the normalised model and who computes which node.

    With `survey` a node that no backend supports is reported in the partition instead of an error.
    `keeps` are operators to leave as they are besides those that backends keep.
    """
    stage = Stages(progress, watch)
    opened, options = part_of(open_model(source), options)
    backends, marked_only = chosen_backends(opened, options)
    return partition_form(opened, options, backends, marked_only, stage, survey, keeps)
