# SPDX-License-Identifier: Apache-2.0
"""The compiler as a table of contents: one line per stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aot.errors import UnsupportedError, UsageError, raise_all
from aot.options import Options

if TYPE_CHECKING:
    import onnx_ir as ir

    from aot.ir.plan import Plan
    from aot.ir.program import Program
    from aot.ir.sample import Sample
    from aot.load import LoadOptions, Opened
    from aot.partition.cost_model import Costs
    from aot.partition.result import Partition, Selected
    from aot.target import Target
    from aot.vendor.backend import Backend

Progress = Callable[[str], None]
#: Told the text form of each stage's result as it appears (`--dump-after`).
Watch = Callable[[str, Callable[[], str]], None]


@dataclass(frozen=True, slots=True)
class Compiled:
    """Everything a compilation produced. `files` maps paths in the bundle to their bytes."""

    name: str
    target: Target
    model: ir.Model
    partition: Partition
    program: Program
    plan: Plan
    files: dict[str, Any]
    manifest: dict[str, Any] = field(default_factory=dict)


def _silent(_stage: str) -> None:
    return None


def _unwatched(_stage: str, _text: Callable[[], str]) -> None:
    return None


def _load_options(
    options: Options, backends: Sequence[Backend], keeps: Sequence[str] = ()
) -> LoadOptions:
    """What the user and the backends ask of the loader: pins, claims, shape rules."""
    from aot.load import LoadOptions
    from aot.load.options import PACKED_FLASH, PACKED_LATENCY
    from aot.partition.supports import takes
    from aot.vendor.infer import rule_of
    from aot.vendor.pattern import all_ops, root_ops

    patterns = [p for b in backends for p in b.patterns]
    claimed = {f"{d}::{o}" for p in patterns for d, o in all_ops(p.graph) if d}
    rules = {k: rule_of(p) for p in patterns if p.inference for k in root_ops(p.graph)}
    return LoadOptions(
        dims=options.dims,
        input_shapes=options.input_shapes,
        bindings=options.bindings,
        claimed=frozenset(claimed),
        keeps=frozenset(keeps).union(k for b in backends for k in b.keeps),
        rules=rules,
        native=frozenset(f"{d}::{o}" for p in patterns for d, o in all_ops(p.graph)),
        takes=takes(patterns),
        max_string=options.max_string,
        max_sequence=options.max_sequence,
        packed_from=PACKED_FLASH if options.objective == "flash" else PACKED_LATENCY,
    )


def _costs(options: Options) -> Costs:
    """Measured costs if there is a table, else estimates for the target."""
    from aot.partition.cost_model import Costs, read_costs
    from aot.target import load_target

    target = load_target(options.target)
    if options.tune:
        return read_costs(Path(options.tune), target.cpu, target.vlen)
    return Costs(target.vlen)


#: Nodes that are matched and lowered within half a minute, with what comes before.
MOST_NODES = 75_000


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
    if options.partition != "cost":
        return _partitioned(source, options, progress, watch, survey, keeps)
    model, partition = _partitioned(source, options, progress, watch, survey, keeps)
    if not any(b.keeps for b in _backends(source, options)[0]):
        return model, partition
    try:
        other = _partitioned(source, options, progress, watch, survey, keeps, kept=False)
    except UsageError:  # this form has no node for what the user said of it
        return model, partition
    return _cheaper((model, partition), other)


def _cheaper(
    first: tuple[ir.Model, Partition], second: tuple[ir.Model, Partition]
) -> tuple[ir.Model, Partition]:
    """The form of the model that costs less; it is proven only if the other form is, too."""
    from aot.partition.proof import SEVERAL_FORMS

    prices = first[1].pricing, second[1].pricing
    better = bool(prices[1].prices) and prices[1].total < prices[0].total
    (model, partition), rest = (second, prices[0]) if better else (first, prices[1])
    if rest.prices and not rest.optimal:
        partition = replace(partition, pricing=partition.pricing.doubting(SEVERAL_FORMS))
    return model, partition


def estimates(options: Options) -> Callable[[Selected], tuple[float, bool]]:
    """Nanoseconds of a match, and whether they are measured: `--tune` has it."""
    from aot.vendor.find import backends_for, find_backend

    costs = _costs(options)
    known = {b.name: b for b in backends_for(options.backends, options=options)}

    def of(s: Selected) -> tuple[float, bool]:
        backend = known.get(s.backend) or known.setdefault(s.backend, find_backend(s.backend))
        return costs.of(backend, s.pattern, s.match)

    return of


def _backends(source: Path | Any, options: Options) -> tuple[list[Backend], list[str], Opened]:
    """The backends in order, names of those that only take what they are given, the model read."""
    from aot.load import Opened, read_proto
    from aot.load.marks import marked_backends
    from aot.partition.annotate import asked_backends
    from aot.target import load_target
    from aot.vendor.find import backends_for, check_target, plain_names

    opened = source if isinstance(source, Opened) else Opened(*read_proto(source))
    asked = [*asked_backends(options.keep, options.regions), *marked_backends(opened.proto)]
    named = plain_names(options.backends)
    marked_only = [n for n in plain_names(asked) if n not in named]
    chosen = backends_for(options.backends, options=options)
    marked = backends_for(marked_only, "--keep, --regions or the model's metadata")
    check_target([*chosen, *marked], load_target(options.target))
    return [*chosen[:-1], *marked], marked_only, opened


def _partitioned(
    source: Path | Any,
    options: Options,
    progress: Progress,
    watch: Watch,
    survey: bool,
    keeps: Sequence[str],
    kept: bool = True,
) -> tuple[ir.Model, Partition]:
    """`partition_model` once, with or without what the backends keep."""
    from aot.ir.graph_nodes import all_nodes
    from aot.load import load, model_text
    from aot.lower.assign_layouts import cover_layouts
    from aot.normalise import normalise
    from aot.partition.annotate import annotate
    from aot.partition.control_flow import select_all
    from aot.partition.kept import check_kept
    from aot.partition.select_by_cost import all_plain
    from aot.vendor.find import plain_names

    progress("load")
    backends, marked_only, opened = _backends(source, options)
    named = plain_names(options.backends)
    load_options = _load_options(options, backends, keeps)
    if not kept:
        load_options = replace(load_options, keeps=frozenset(keeps))
    model = load(opened, load_options)
    noted = annotate(model, options.keep, options.regions, named[0] if named else "")
    watch("load", lambda: model_text(model))
    progress("normalise")
    model = normalise(model, load_options)
    raise_all(check_kept(model, noted, options.regions))
    if (count := sum(1 for _ in all_nodes(model.graph))) > MOST_NODES:
        what = f"the model has {count} nodes after normalising (limit {MOST_NODES})"
        raise UnsupportedError(what, hint="loops of the same nodes can be an ONNX Loop or Scan")
    watch("normalise", lambda: model_text(model))
    progress("partition")
    costs = _costs(options) if options.partition == "cost" else None
    layouts = cover_layouts(costs.lanes) if costs is not None else all_plain
    partition = select_all(
        model.graph, backends, options.offload_limit, survey, marked_only, costs, layouts
    )
    watch("partition", partition.text)
    return model, partition


def _test_data(manifest: Mapping[str, Any], model: ir.Model, options: Options) -> Sequence[Sample]:
    """The samples of `--test-data`, of the model's types and shapes."""
    if not options.test_data:
        return ()
    from aot.tools.run import specs
    from aot.tools.samples import read_samples
    from aot.vendor.match import ValueRef

    ins, outs = specs(manifest, "inputs"), specs(manifest, "outputs")
    order = tuple(
        [ValueRef(v).onnx_name for v in ends] for ends in (model.graph.inputs, model.graph.outputs)
    )
    tflite = options.requant == "tflite"
    return read_samples(Path(options.test_data), ins, outs, (order[0], order[1]), True, tflite)


def compile_model(
    source: Path | Any,
    options: Options,
    progress: Progress = _silent,
    watch: Watch = _unwatched,
) -> Compiled:
    """Compile a model (path, bytes, ModelProto, onnx_ir.Model, Opened) to the files of a bundle.

    Nothing is written. Raises AotError with what, where and a hint.
    """
    from aot.emit_c.manifest import manifest_of
    from aot.emit_c.names import bundle_name
    from aot.emit_c.project import emit_c
    from aot.emit_c.selftest import vector_bytes
    from aot.ir.check_plan import check_plan
    from aot.ir.check_program import check_program
    from aot.ir.graph_nodes import TEXTS
    from aot.load import Opened
    from aot.lower.lower import lower
    from aot.lower.persistent_tensors import hold
    from aot.plan.async_overlap import overlap
    from aot.plan.budget import budgeted
    from aot.plan.control_flow import settle_bodies
    from aot.plan.fallback import make_twins
    from aot.plan.memory.plan import plan_memory
    from aot.plan.schedule import schedule
    from aot.target import load_target

    target = budgeted(load_target(options.target), options)
    name = bundle_name(options.name, source.path if isinstance(source, Opened) else source)
    model, partition = partition_model(source, options, progress, watch)
    best: tuple[Target, Program, Plan] | None = None
    for chip in _widths(target, options):
        progress("lower")
        program = lower(name, model.graph, partition, chip, options)
        watch("lower", program.text)
        check_program(program)
        progress("bodies")
        program = hold(settle_bodies(program, chip, options.plan_effort))
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
        if best is None or plan.arena_bytes < best[2].arena_bytes:
            best = chip, program, plan
        if plan.arena_bytes <= max(
            1.02 * plan.logical_bound_bytes, plan.logical_bound_bytes + 4096
        ):
            break
    assert best is not None
    target, program, plan = best
    progress("twins")
    twins = make_twins(program, plan, model.graph, partition, target, options)
    progress("emit")
    texts = model.graph.meta.get(TEXTS, ())
    manifest = manifest_of(program, plan, target, partition, options, twins, texts)
    samples = _test_data(manifest, model, options)
    if samples:
        manifest["test_data"] = {"samples": len(samples), "bytes": vector_bytes(program, samples)}
    files = emit_c(program, plan, target, options, manifest, twins, samples)
    return Compiled(name, target, model, partition, program, plan, files, manifest)


def _widths(target: Target, options: Options) -> Iterator[Target]:
    """The target, and for `--objective ram` the same with narrower channel blocks.

    Channels are padded to whole blocks, so narrower vectors waste less of the arena. With
    `--accuracy strict` only the target without vectors: lanes add in an order of their own, and the
    bits would depend on the target.
    """
    if options.accuracy == "strict":
        yield replace(target, vlen=1)
        return
    yield target
    if options.objective == "ram":
        yield from (replace(target, vlen=v) for v in (8, 4, 1) if v < target.vlen)
