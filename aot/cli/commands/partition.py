# SPDX-License-Identifier: Apache-2.0
"""`aotc partition`: who computes which node, as an ONNX model."""

from __future__ import annotations

import argparse
from pathlib import Path

from aot.cli.compile import options_of
from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.errors import UsageError, counted
from aot.lower.lower import lower
from aot.npz import same_file
from aot.partition.serialise import save, serialise
from aot.pipeline import partition_model
from aot.plan.budget import check_backends
from aot.target import load_target


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    options, output = options_of(args), Path(args.output)
    if same_file(output, Path(args.model)):
        raise UsageError(f"-o {output} is the model itself", hint="give the new file another name")
    # onnxruntime computes an Attention only where its mask has a row for every query.
    model, partition = partition_model(Path(args.model), options, progress, keeps=("MatMul",))
    if options.require_backend:
        progress("lower")
        target = load_target(options.target)
        check_backends(partition, lower("net", model.graph, partition, target, options))
    progress("write")
    made = serialise(model, partition, args.opset)
    save(made, output)
    opset = next(o.version for o in made.opset_import if not o.domain)
    regions = [
        {"region": f.name, "backend": r.backend, "nodes": len(f.node)}
        for f, r in zip(made.functions, partition.regions, strict=True)
    ]
    lines = [f"{r['region']}: {r['backend']}, {counted(r['nodes'], 'node')}" for r in regions]
    rest = sum(1 for n in made.graph.node if not n.domain.startswith("aot."))
    inner = sum(len(p.regions) for p in partition.tree()) - len(regions)
    bodies = f" and {inner} in bodies" if inner else ""
    lines.append(
        f"{args.output}: opset {opset}, {counted(len(regions), 'region')}{bodies}, "
        f"{counted(rest, 'node')} in portable C"
    )
    return Answer({"file": args.output, "opset": opset, "regions": regions}, "\n".join(lines))
