# SPDX-License-Identifier: Apache-2.0
"""The subcommands: each takes parsed arguments, prints its result and returns the exit code."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aot.cli.compile import Staged, options_of
from aot.cli.output import emit
from aot.errors import AotError, UsageError, one_line, printable, shell_word

if TYPE_CHECKING:
    from aot.tools.run import Built
    from aot.tools.size import Size


def run_command(name: str, a: argparse.Namespace) -> int:
    """Dispatch a subcommand; what it cannot read of an OUT that was changed is no fault of ours."""
    try:
        return _COMMANDS[name](a)
    except (AotError, OSError):
        raise
    except Exception as error:
        out = Path(getattr(a, "out", "") or getattr(a, "subject", "") or ".")
        if not (name in _OF_BUNDLES and out.is_dir()):
            raise
        from aot.api import changed

        file = changed(out)
        if not file:
            raise
        raise AotError(f"{out / file} is not as aotc wrote it", hint="compile again") from error


def _show(a: argparse.Namespace, record: Any, text: str) -> None:
    if a.json:
        emit(record)
    elif text and not a.quiet:
        print(printable(text))  # symbols and file names, too


def _run(a: argparse.Namespace) -> int:
    from aot.tools.run import execute, open_out, write_outputs
    from aot.tools.samples import runs_of

    built = open_out(Path(a.out))
    built.program()
    samples = runs_of(built, a.inputs)
    with Staged(a.verbose, a.quiet) as progress:
        progress("run")
        runs = [(s.label, execute(built, s.inputs)) for s in samples]
    write_outputs(built, runs, a.outputs)
    record = [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape)} for s in built.outputs]
    text = "\n".join(f"{one_line(s.name)}: {s.dtype}{list(s.shape)}" for s in built.outputs)
    _show(a, record, "" if a.outputs else text)
    return 0


def _verify(a: argparse.Namespace) -> int:
    from aot.tools.compare import Tolerance
    from aot.tools.run import open_out
    from aot.tools.verify import Request, verify

    built = open_out(Path(a.out))
    request = Request(
        inputs=None if a.inputs is None else Path(a.inputs),
        reference=a.reference,
        per_node=a.per_node,
        per_region=a.per_region,
        model=None if a.model is None else Path(a.model),
        tolerance=Tolerance.asked(a.rtol, a.atol_of_max, a.max_lsb),
    )
    with Staged(a.verbose, a.quiet) as progress:
        report = verify(built, request, progress)
    _show(a, report.record(), report.text(a.verbose))
    if report.passed:
        return 0
    if a.quiet or a.json:
        print(f"aotc: {report.failure()}", file=sys.stderr)
    return 1


def _bench(a: argparse.Namespace) -> int:
    from aot.npz import write_bytes
    from aot.tools.bench import NodeCost, bench, bench_nodes, nodes_text
    from aot.tools.run import open_out
    from aot.vendor.accel_sim.facts import programs, summary, trace

    built = open_out(Path(a.out))
    built.program()
    accelerator = programs(built.out / "bundle")
    if a.trace:
        if not accelerator:
            raise UsageError("--trace: no accelerator works in this bundle")
        write_bytes(Path(a.trace), trace(accelerator).encode())
    with Staged(a.verbose, a.quiet) as progress:
        progress("bench")
        timing = bench(built, a.repeat)
    nodes: tuple[NodeCost, ...] = ()
    if a.per_node:
        with Staged(a.verbose, a.quiet) as progress:
            progress("bench every call")
            nodes = bench_nodes(built, a.repeat)
    if a.json_file:
        record = {"name": built.name, "target": built.manifest.get("target"), **timing.record()}
        if nodes:
            record["nodes"] = [n.record() for n in nodes]
        if accelerator:
            record["accelerator"] = [{k: f[k] for k in f if k != "spans"} for f in accelerator]
        write_bytes(Path(a.json_file), (json.dumps(record, indent=1) + "\n").encode())
    if not a.quiet:
        print(f"{built.name}: {timing.text()}")
        for facts in accelerator:
            print(summary(facts, a.per_node))
        if nodes:
            print(nodes_text(nodes, built.board))
    return 0


def _explain(a: argparse.Namespace) -> int:
    from aot.pipeline import estimates, partition_model
    from aot.tools.explain import explain

    options = options_of(a)
    with Staged(a.verbose, a.quiet) as progress:
        _, partition = partition_model(Path(a.model), options, progress, survey=True)
    report = explain(partition, a.verbose, estimates(options))
    _show(a, report.record(), report.text())
    return 0


def _tune(a: argparse.Namespace) -> int:
    from aot.target import load_target
    from aot.tools.tune import tune, write_table

    options = options_of(a)
    with Staged(a.verbose, a.quiet) as progress:
        tuned = tune(Path(a.model), options, progress, max(1, a.rounds))
    count = write_table(Path(a.output), tuned, load_target(options.target).cpu)
    record = {"file": a.output, "costs": count, "totals_ns": tuned.totals}
    _show(a, record, f"{tuned.text()}\n{a.output}: {count} costs")
    return 0


def _partition(a: argparse.Namespace) -> int:
    from aot.lower.lower import lower
    from aot.npz import same_file
    from aot.partition.serialise import save, serialise
    from aot.pipeline import partition_model
    from aot.plan.budget import check_backends
    from aot.target import load_target

    options, output = options_of(a), Path(a.output)
    if same_file(output, Path(a.model)):
        raise UsageError(f"-o {output} is the model itself", hint="give the new file another name")
    with Staged(a.verbose, a.quiet) as progress:
        # onnxruntime computes an Attention only where its mask has a row for every query.
        model, partition = partition_model(Path(a.model), options, progress, keeps=("MatMul",))
        if options.require_backend:
            progress("lower")
            target = load_target(options.target)
            check_backends(partition, lower("net", model.graph, partition, target, options))
        progress("write")
        made = serialise(model, partition, a.opset)
        save(made, output)
    opset = next(o.version for o in made.opset_import if not o.domain)
    regions = [
        {"region": f.name, "backend": r.backend, "nodes": len(f.node)}
        for f, r in zip(made.functions, partition.regions, strict=True)
    ]
    lines = [f"{r['region']}: {r['backend']}, {r['nodes']} nodes" for r in regions]
    rest = sum(1 for n in made.graph.node if not n.domain.startswith("aot."))
    inner = sum(len(p.regions) for p in partition.tree()) - len(regions)
    bodies = f" and {inner} in bodies" if inner else ""
    lines.append(
        f"{a.output}: opset {opset}, {len(regions)} regions{bodies}, {rest} nodes in portable C"
    )
    _show(a, {"file": a.output, "opset": opset, "regions": regions}, "\n".join(lines))
    return 0


def _inspect(a: argparse.Namespace) -> int:
    from aot.cli.parser import command_parser
    from aot.cli.words import options_in
    from aot.tools.inspection import inspect_model

    pins = ("--dim", "--input-shape", "--bind")
    given = [o for o in options_in(a.words, command_parser("inspect")) if o[0] in pins]
    with Staged(a.verbose, a.quiet) as progress:
        report = inspect_model(Path(a.model), options_of(a), given, progress)
    _show(a, report.record(), report.text())
    return 0


def _size(a: argparse.Namespace) -> int:
    from aot.tools.run import open_out
    from aot.tools.size import estimate, measure

    subject = Path(a.subject)
    if subject.is_dir():
        built = open_out(subject)
        report = measure(built)
        if a.symbols or a.per_node:
            return _size_details(a, built, report)
    else:
        with Staged(a.verbose, a.quiet) as progress:
            report = estimate(subject, options_of(a), progress)
    _show(a, report.record(), report.text())
    return 0


def _quantize(a: argparse.Namespace) -> int:
    from aot.tools.quantize import Quantisation, quantize

    how = Quantisation(a.act, a.per_tensor, a.format)
    with Staged(a.verbose, a.quiet) as progress:
        report = quantize(Path(a.model), Path(a.calibrate), Path(a.output), how, progress)
    _show(a, report.record(), report.text())
    return 0


def _size_details(a: argparse.Namespace, built: Built, report: Size) -> int:
    from aot.tools.symbols import node_sizes, nodes_text, symbols_of, symbols_text

    symbols = symbols_of(built)
    record, parts = report.record(), [report.text()]
    if a.symbols:
        record["symbols"] = [s.record() for s in symbols]
        parts.append(symbols_text(symbols))
    if a.per_node:
        nodes = node_sizes(built, symbols)
        record["nodes"] = [n.record() for n in nodes]
        parts.append(nodes_text(nodes))
    _show(a, record, "\n".join(parts))
    return 0


def _targets(a: argparse.Namespace) -> int:
    from aot.target import listing

    rows = listing()
    width = max(len(r["name"]) for r in rows)
    _show(a, rows, "\n".join(f"{r['name']:<{width}}  {r['text']}" for r in rows))
    return 0


def _backends(a: argparse.Namespace) -> int:
    from aot.cli.later import BACKENDS
    from aot.vendor.find import available

    known = available()
    rows = [{"name": n, "available": True} for n in known]
    rows += [{"name": n, "available": False} for n in BACKENDS if n not in known]
    notes = {True: "", False: "not available in this version"}
    texts = {"c": "portable C, always last"}
    lines = [
        f"{r['name']:<10} {texts.get(str(r['name']), notes[bool(r['available'])])}" for r in rows
    ]
    _show(a, rows, "\n".join(line.rstrip() for line in lines))
    return 0


def _report(a: argparse.Namespace) -> int:
    from aot.npz import write_bytes
    from aot.tools.report import page
    from aot.tools.run import open_out
    from aot.vendor.accel_sim.facts import programs

    out = Path(a.out)
    text = page({**open_out(out).manifest, "accelerator": programs(out / "bundle")})
    write_bytes(Path(a.output), text.encode("utf-8", "replace"))
    _show(a, {"file": a.output, "bytes": len(text)}, a.output)
    return 0


def _disasm(a: argparse.Namespace) -> int:
    from aot.vendor.accel_sim.listing import listings

    found = listings(Path(a.out))
    record = [{"file": s.name, "instructions": s.count, "listing": s.text} for s in found]
    text = "\n".join(f"; {one_line(s.name)}: {s.count} instructions\n{s.text}" for s in found)
    _show(a, record, text.rstrip("\n"))
    return 0


def _new_backend(a: argparse.Namespace) -> int:
    from aot.vendor.scaffold import scaffold

    folder = Path(a.output or a.name)
    files = [str(p) for p in scaffold(a.name, folder)]
    word = shell_word(folder)
    hint = f"pip install -e {word} && python -m pytest {word}"
    _show(a, {"files": files}, "\n".join([*files, hint]))
    return 0


def _ops(a: argparse.Namespace) -> int:
    from aot.tools.explain import operators

    rows = operators()
    width = len("MeanVarianceNormalization")  # longer names push what follows to the right
    lines = [f"{r['op']:<{width}}  {_operator(r)}".rstrip() for r in rows]
    _show(a, rows, "\n".join([*lines, f"{len(rows)} operators"]))
    return 0


def _operator(row: dict[str, Any]) -> str:
    """Attributes and tested dtypes of one operator."""
    attributes = f"({', '.join(row['attributes'])})" if row["attributes"] else ""
    return f"{' '.join(row['dtypes'])} {attributes}".strip()


_OF_BUNDLES = ("run", "verify", "bench", "size", "report", "disasm")
_COMMANDS = {
    "run": _run,
    "verify": _verify,
    "bench": _bench,
    "explain": _explain,
    "partition": _partition,
    "tune": _tune,
    "inspect": _inspect,
    "size": _size,
    "quantize": _quantize,
    "targets": _targets,
    "backends": _backends,
    "report": _report,
    "disasm": _disasm,
    "new-backend": _new_backend,
    "ops": _ops,
}
