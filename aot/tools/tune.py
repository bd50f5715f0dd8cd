# SPDX-License-Identifier: Apache-2.0
"""`aotc tune`: what each backend's matches take on this machine, as a table for `--tune`.

The model is compiled once per backend, each time with that backend preferred and once in portable
C alone; the trace programs time every call in interleaved rounds.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from aot.errors import TargetError, UsageError
from aot.npz import write_bytes
from aot.options import Options
from aot.partition.cost.costs import VERSION, key_of, read_costs
from aot.plan.compiled import Compiled
from aot.target import load_target
from aot.tools.build import build
from aot.tools.emulate import is_native
from aot.tools.run import Built, open_out, start
from aot.vendor.find import POINT, backends_of, plain_names

REORDERS = tuple(f"aot_{way}_blocked{bits}" for way in ("to", "from") for bits in ("", "_32"))
ROUNDS = 5
#: Runs of a round: about this many milliseconds' worth, within these limits.
ROUND_MS, LEAST, MOST = 250.0, 5, 200
Progress = Callable[[str], None]
#: `aot.api.compile_to`: compiles a source to the folder OUT.
CompileTo = Callable[[Path, Path, Options], Compiled]


@dataclass(slots=True)
class _Variant:
    """One way to compile the model, and the nanoseconds of every call, round by round."""

    label: str
    compiled: Compiled
    built: Built
    rounds: list[list[float]]


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was measured: nanoseconds by key, the rate of layout changes, each variant's total."""

    matches: dict[str, float]
    reorder_bytes_per_ns: float
    totals: dict[str, float]

    def text(self) -> str:
        """One line per variant."""
        lines = [f"{k}: {ns / 1e6:.3f} ms in its calls" for k, ns in self.totals.items()]
        return "\n".join([*lines, f"{len(self.matches)} costs measured"])


def tune(
    source: Path,
    options: Options,
    compile_to: CompileTo,
    progress: Progress,
    rounds: int = ROUNDS,
    runner: str = "",
) -> Tuned:
    """Compile `source` in every variant with `compile_to`, and measure, by the command `runner`.

    Raises UsageError without a vendor, TargetError for a machine that is not this.
    """
    if not plain_names(options.backends):
        raise UsageError("aotc tune needs --backend: it compares vendors with portable C")
    target = load_target(options.target)
    if not runner and not is_native({"arch": target.arch, "emulator": list(target.emulator)}):
        raise TargetError(
            f"{target.name} is not this machine: nothing can be measured",
            hint="tune on the machine itself, or name one: --runner 'ssh HOST {}'",
        )
    with tempfile.TemporaryDirectory(prefix="aotc-tune-") as folder:
        variants = []
        for label, trial in trials_of(options):
            progress(f"build {label}")
            made = _variant(compile_to, source, trial, label, Path(folder))
            variants.append(replace(made, built=replace(made.built, runner=runner)))
        for number in range(rounds):
            progress(f"measure {number + 1}/{rounds}")
            # Every round begins with another variant, so that none is always measured first.
            for variant in variants[number % len(variants) :] + variants[: number % len(variants)]:
                variant.rounds.append(_profile(variant))
    return _table(variants)


def trials_of(options: Options) -> Iterator[tuple[str, Options]]:
    """(label, options) of every way to compile: each point of each vendor's spaces, portable C."""
    plain = replace(options, partition="priority", tune="", io="caller")
    for backend in backends_of(plain_names(options.backends), options):
        asked = tuple(b for b in options.backends if b.split(":")[0] == backend.name)
        own = f"{backend.name}."
        alone = {k: v for k, v in options.backend_options.items() if k.startswith(own)}
        for point in range(backend.points):
            label = f"{backend.name} point {point}" if point else backend.name
            given = {**alone, own + POINT: str(point)}
            yield label, replace(plain, backends=asked, backend_options=given)
    yield "c", replace(plain, backends=(), backend_options={})


def _variant(
    compile_to: CompileTo, source: Path, trial: Options, label: str, folder: Path
) -> _Variant:
    """Compile and build the model as `trial` says, for its times to be measured."""
    out = folder / label
    compiled = compile_to(source, out, trial)
    built = open_out(out)
    build(out, f"{built.name}-trace", jobs=os.cpu_count() or 1)
    return _Variant(label, compiled, built, [])


def _profile(variant: _Variant) -> list[float]:
    """Nanoseconds of every call: medians over the runs of one round."""
    runs = LEAST
    if variant.rounds:
        runs = int(min(MOST, max(LEAST, ROUND_MS * 1e6 / max(1.0, sum(variant.rounds[0])))))
    arguments = ["--fill", "0", "--profile", str(runs), "--warmup", "2"]
    read = json.loads(start(variant.built, arguments, "-trace"))
    return [float(c["wall_median_ns"]) for c in read["calls"]]


def _table(variants: Sequence[_Variant]) -> Tuned:
    """Nanoseconds per match, bytes per nanosecond of reorders, and totals, of the measured
    variants.
    """
    found: dict[str, list[float]] = {}
    moved_bytes, moved_ns = 0, 0.0
    totals: dict[str, float] = {}
    for variant in variants:
        program = variant.compiled.program
        times = [median(r[i] for r in variant.rounds) for i in range(len(program.calls))]
        totals[variant.label] = sum(times)
        keys = {
            tuple(n.name for n in reversed(s.match.nodes)): key_of(s.pattern, s.match)
            for s in variant.compiled.partition.items
            if s.pattern.region_lowering is None  # its calls are no match's
        }
        spent = dict.fromkeys(keys.values(), 0.0)
        seen = dict.fromkeys(keys.values(), 0)
        for key in keys.values():
            seen[key] += 1
        for call, ns in zip(program.calls, times, strict=True):
            if call.kernel in REORDERS:
                moved_ns += ns
                moved_bytes += max(program.tensors[n].nbytes for n in call.writes())
                continue
            key = keys.get(call.origin.nodes, "")
            if key:
                spent[key] += ns
        for key, ns in spent.items():
            found.setdefault(key, []).append(ns / seen[key])
    matches = {k: round(fmean(v), 1) for k, v in sorted(found.items())}
    return Tuned(matches, moved_bytes / moved_ns if moved_ns else 4.0, totals)


def write_table(path: Path, tuned: Tuned, cpu: str) -> int:
    """Write the table `path`, or extend it, with costs measured on `cpu`; the number of costs in
    it.
    """
    matches = dict(tuned.matches)
    if path.is_file():
        matches = {**read_costs(path, cpu, 1).measured, **matches}
    record: dict[str, Any] = {
        "version": VERSION,
        "cpu": cpu,
        "reorder_bytes_per_ns": round(tuned.reorder_bytes_per_ns, 3),
        "matches": {k: matches[k] for k in sorted(matches)},
    }
    write_bytes(path, (json.dumps(record, indent=1) + "\n").encode())
    return len(matches)
