# SPDX-License-Identifier: Apache-2.0
"""`aotc bench`: what one run costs."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.errors import UsageError
from aot.npz import write_bytes
from aot.tools.bench import NodeCost, bench, bench_nodes, nodes_text
from aot.tools.run import open_out
from aot.vendor.accel_sim.performance import programs, summary, trace


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Do what the options say."""
    built = replace(open_out(Path(args.out)), runner=args.runner)
    # Without the program this raises, before any file is written.
    built.program()
    accelerator = programs(built.out / "bundle")
    if args.trace:
        if not accelerator:
            raise UsageError("--trace: no accelerator works in this bundle")
        write_bytes(Path(args.trace), trace(accelerator).encode())
    progress("bench")
    timing = bench(built, args.repeat)
    nodes: tuple[NodeCost, ...] = ()
    if args.per_node:
        progress("bench every call")
        nodes = bench_nodes(built, args.repeat)
    if args.json_file:
        record = {"name": built.name, "target": built.manifest.get("target"), **timing.record()}
        record["regions"] = built.manifest["regions"]
        if nodes:
            record["nodes"] = [asdict(n) for n in nodes]
        if accelerator:
            record["accelerator"] = [{k: f[k] for k in f if k != "spans"} for f in accelerator]
        write_bytes(Path(args.json_file), (json.dumps(record, indent=1) + "\n").encode())
    texts = [f"{built.name}: {timing.text()}"]
    regions = [r for r in built.manifest["regions"] if "says" in r]
    texts += [f"region {r['region']} ({r['backend']}): {r['says']}" for r in regions]
    texts += [summary(performance, args.per_node) for performance in accelerator]
    if nodes:
        levels = built.manifest.get("levels", ())
        texts += [f"calls of the first level, {v['name']}:" for v in levels[:1]]
        texts.append(nodes_text(nodes, built.board))
    return Answer(None, "\n".join(texts))
