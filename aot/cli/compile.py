# SPDX-License-Identifier: Apache-2.0
"""`aotc MODEL -o OUT`."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aot.api import compile_to
from aot.cli.output import emit
from aot.cli.progress import Progress
from aot.errors import UsageError, clip, counted, one_line, shell_word
from aot.options import Options
from aot.partition.annotate import regions_from_toml
from aot.plan.compiled import Compiled
from aot.tools.size import parts_of

#: Bytes of constants from which a file of their own is offered.
MANY_BYTES = 256 << 20


def run(args: argparse.Namespace) -> int:
    """Compile, write, configure; say in two lines what came out."""

    options = options_of(args)
    out = Path(args.output)
    gc.set_threshold(200_000, 20, 100)  # a graph lives until the end: looking for garbage is a loss
    began = time.process_time()
    with Progress(args.verbose, args.quiet) as progress:
        compiled = compile_to(Path(args.model), out, options, progress, not args.no_configure)
    seconds = time.process_time() - began
    if not args.quiet:
        _note_name(options.name, Path(args.model).stem, compiled.name)
        for said in compiled.manifest.get("notes", ()):
            _note(one_line(said))
        _note_weights(options, compiled)
    summary = summary_of(compiled, out, seconds)
    if args.json:
        emit(summary)
    elif not args.quiet and not options.dump_after:
        wrote = f"wrote {one_line(str(out))}/bundle"
        print(text_of(summary))
        print(wrote if args.no_configure else f"cmake --build {shell_word(out)}")
    return 0


def _note_name(requested: str, stem: str, name: str) -> None:
    """Say on stderr what the bundle is called if that is not what was asked for.

    A name that comes from the file's is only told where the suffix `_model` had to be added.
    """
    wanted = requested or stem
    reserved = name == f"{wanted}_model" or not wanted.endswith("_model")
    if reserved and name.endswith("_model"):
        why = "is reserved"
    elif requested and requested != name:
        why = "is no identifier of C that fits"
    else:
        return
    _note(f"the name {one_line(wanted)} {why}: the bundle is called {name}")


def _note(text: str) -> None:
    print(clip(f"aotc: note: {text}"), file=sys.stderr)


def _note_weights(options: Options, compiled: Compiled) -> None:
    """Offer a host `--weights file` on stderr where many constants go into the object."""
    held = int(compiled.manifest["memory"]["constants_bytes"])
    if held > MANY_BYTES and options.weights == "embedded" and not compiled.target.board:
        what = f"{held >> 20} MB of constants go into object, archive, library and program"
        _note(f"{what}; --weights file keeps them in one file")


def options_of(args: argparse.Namespace) -> Options:
    """The Options a parsed command line asks for; subcommands have only some of them."""
    given = vars(args)
    regions, keep = _regions(given.get("regions", ""))
    return Options(
        name=given.get("name", ""),
        target=given.get("target", "host"),
        backends=tuple(n for n in given.get("backend", []) if n != "c"),
        backend_options=_once("--backend-option", given.get("backend_option", [])),
        offload_limit=given.get("offload_limit"),
        require_backend=given.get("require_backend", False),
        keep={**keep, **_once("--keep", given.get("keep", []))},
        regions=regions,
        partition=given.get("partition", "priority"),
        tune=given.get("tune", ""),
        dims=_once("--dim", given.get("dim", [])),
        input_shapes=_once("--input-shape", given.get("input_shape", [])),
        bindings=_once("--bind", given.get("bind", [])),
        states=_once("--state", given.get("state", [])),
        cut_inputs=tuple(given.get("cut_inputs", ())),
        cut_outputs=tuple(given.get("cut_outputs", ())),
        objective=given.get("objective", "latency"),
        ram=given.get("ram"),
        flash=given.get("flash"),
        stack=given.get("stack"),
        accuracy=given.get("accuracy", "normal"),
        io=given.get("io", ""),
        push=given.get("push", ""),
        weights=given.get("weights", "embedded"),
        requant=given.get("requant", "onnx"),
        arena=given.get("arena", "one"),
        specialise=given.get("specialise", "hot"),
        max_string=given.get("max_string", Options().max_string),
        max_sequence=given.get("max_sequence", Options().max_sequence),
        plan_effort=given.get("plan_effort", Options().plan_effort),
        test_data=given.get("test_data", ""),
        compiler=given.get("compiler", ""),
        package=tuple(given.get("package", ())),
        slice_macs=given.get("slice_macs", 0),
        single_file=given.get("single_file", False),
        threads=given.get("threads", 1),
        dump_after=given.get("dump_after", ""),
    )


def _regions(path: str) -> tuple[dict[str, Any], dict[str, str]]:
    """(regions, keep) of a `--regions` file, which most command lines do not have."""
    if not path:
        return {}, {}

    return regions_from_toml(path)


def _once(option: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"{option} {name} is given twice")
        found[name] = value
    return found


def summary_of(compiled: Compiled, out: Path, seconds: float) -> dict[str, Any]:
    """What `--json` prints."""
    memory = compiled.manifest["memory"]
    return {
        "name": compiled.name,
        "out": str(out),
        "target": compiled.target.name,
        "cpu": compiled.target.cpu,
        "memory": memory,
        "calls": len(compiled.program.calls),
        "macs": sum(c.macs for c in compiled.program.calls),
        "cpu_seconds": round(seconds, 3),
    }


def text_of(summary: dict[str, Any]) -> str:
    """The outcome in a line."""
    memory = summary["memory"]
    best = ", optimal" if memory.get("optimal") else ""
    several = ", ".join(f"{name} {size}" for name, size in parts_of(memory))
    parts = f" ({several})" if several else ""
    return (
        f"{summary['name']}: {counted(summary['calls'], 'call')}, "
        f"{summary['macs'] / 1e6:.1f} M MACs, arena "
        f"{memory['arena_bytes']} bytes{best}{parts}, constants {memory['constants_bytes']} bytes, "
        f"for {summary['cpu']}"
    )
