# SPDX-License-Identifier: Apache-2.0
"""Compile models, run them in one batch, compare with what the oracles expect."""

from __future__ import annotations

import shutil
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from aot.emit_c import project
from aot.errors import AotError, BackendError, InternalError, ModelError
from aot.ir.check_rows import check_rows
from aot.ir.onnx_subprocess import Child
from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.options import Options
from aot.plan import plan_program
from aot.plan.streaming.placed import place_rows
from aot.plan.streaming.runs import in_batches, runs_of, segmented
from aot.target import Target, load_target
from fuzz.draft import Array
from fuzz.execute import Run, execute_all
from fuzz.generate import Model, generate
from fuzz.kernel_cache import Cache
from fuzz.oracles import Expected, difference, expected

PASS, ONE, AMBIGUOUS, REFUSED, NOTHING = "pass", "pass, one oracle", "ambiguous", "refused", "none"
WRONG, CRASH, BUILD, TRACEBACK, REJECTED = "wrong", "crash", "build", "traceback", "rejected"
DEFECTS = (WRONG, CRASH, BUILD, TRACEBACK, REJECTED)


SCALAR = str(Path(__file__).with_name("scalar.toml"))


@dataclass(frozen=True)
class Config:
    """How models are compiled: a target by name or vector length, options; with `rows` every call
    goes row by row that can, whether that needs less memory or not."""

    name: str
    target: str = "x86-64-v3"
    accuracy: str = "normal"
    objective: str = "latency"
    partition: str = "priority"
    rows: bool = False

    def options(self) -> Options:
        """The compiler's options."""
        return Options(
            name="m",
            target=SCALAR if self.target == "scalar" else self.target,
            accuracy=self.accuracy,  # type: ignore[arg-type]
            objective=self.objective,  # type: ignore[arg-type]
            partition=self.partition,
            plan_effort=2000,
        )

    def chip(self) -> Target:
        """The target."""
        return load_target(SCALAR if self.target == "scalar" else self.target)


CONFIGS = {
    c.name: c
    for c in (
        Config("base"),
        Config("scalar", "scalar"),
        Config("v1", "x86-64"),
        Config("v4", "x86-64-v4"),
        Config("ram", objective="ram"),
        Config("flash", objective="flash"),
        Config("strict", accuracy="strict"),
        Config("fast", accuracy="fast"),
        Config("cost", partition="cost"),
        Config("rows", objective="ram", rows=True),
        Config("rows_scalar", "scalar", objective="ram", rows=True),
    )
}


#: Which of them models get in turn: mostly those that share compiled kernels.
ROTATION = (
    "base ram flash fast cost rows ram flash scalar base cost v1 rows_scalar flash strict v4"
).split()


@dataclass
class Outcome:
    """What became of a model under a configuration."""

    model: Model
    config: Config
    result: str = NOTHING
    message: str = ""
    run: Run | None = None
    expected: Expected | None = None
    reached: set[tuple[str, str]] = field(default_factory=set)

    @property
    def text(self) -> str:
        """One line."""
        ops = Counter(n.op_type for n in self.model.proto.graph.node)
        head = f"{self.result}: seed {self.model.seed} {self.config.name} {dict(ops)}"
        return f"{head}: {self.message[:600]}"


def compiled(outcome: Outcome, **options: Any) -> Any:
    """The compiled model of an outcome with more options; None, and said in it why, if not."""
    from aot.pipeline import compile_model

    config, model = outcome.config, outcome.model
    try:
        with in_process(safe=not model.altered), all_by_rows(config.rows):
            made = compile_model(model.proto, replace(config.options(), **options))
        outcome.reached |= reached(made.partition)
    except (ModelError, BackendError, InternalError) as error:
        outcome.result = REJECTED if isinstance(error, ModelError) else TRACEBACK
        outcome.message = f"{type(error).__name__}: {error}"
        return None
    except AotError as error:
        outcome.result, outcome.message = REFUSED, str(error)
        return None
    except Exception as error:
        outcome.result = TRACEBACK
        frames = "".join(traceback.format_tb(error.__traceback__)[-2:])
        outcome.message = f"{type(error).__name__}: {error}\n{frames}"
        return None
    return made


@contextmanager
def in_process(safe: bool) -> Iterator[None]:
    """No process besides this one: nobody reads how the bundle's C is laid out, and onnx's C++,
    which damaged models end, has inferred a `safe` one before."""
    with patch.object(project, "formatted", dict):
        if not safe:
            yield
            return
        with patch.object(Child, "_fork", lambda _: False):
            yield


@contextmanager
def all_by_rows(forced: bool) -> Iterator[None]:
    """Plans make every call row by row that can be, if that is `forced`; of half of the programs
    in steps of several rows."""

    def streamed(program: Program, whole: Plan, *_: object) -> tuple[Program, Plan]:
        made = segmented(program, runs_of(program)[0])
        if not made.segments:
            return program, whole
        if len(program.calls) % 2:
            made = in_batches(made)
        plan = place_rows(made, 1)
        check_rows(made, plan)
        return made, plan

    if not forced:
        yield
        return
    with patch.object(plan_program, "streamed", streamed):
        yield


def compile_run(outcome: Outcome) -> None:
    """Compile the model of an outcome to a Run, or say why not."""
    made = compiled(outcome)
    if made is None:
        return
    config, model = outcome.config, outcome.model
    fed = [strings_as_bytes(model.feeds[i.name]) for i in model.proto.graph.input]
    if len(fed) != len(made.program.inputs):
        outcome.result, outcome.message = TRACEBACK, f"inputs {made.program.inputs}"
        return
    outcome.run = Run(made.program, made.plan, made.target, fed, config.accuracy == "strict")


def strings_as_bytes(array: Array) -> Array:
    """Strings as the bundle takes them."""
    from aot.ir.string_rows import encode
    from aot.options import MAX_STRING

    return encode(array, MAX_STRING) if array.dtype.kind in "OSU" else array


def reached(partition: Any) -> set[tuple[str, str]]:
    """(operator, type of its first input) of every match of one operator."""
    found = set()
    for item in partition.items:
        values = [v for v in item.match.values.values() if v is not None]
        if values:
            found.add((item.pattern.name.removesuffix(".half"), str(values[0].dtype)))
    return found


def judge(outcome: Outcome) -> None:
    """Compare the results of a run with what is expected."""
    run, want = outcome.run, outcome.expected
    assert run is not None and want is not None
    if run.error:
        kind = run.error.split(":")[0]
        outcome.result = BUILD if kind in ("build", "emit") else CRASH
        outcome.message = run.error
        return
    fast = outcome.config.accuracy == "fast"
    for attempt, results in zip(("", " (apart)"), run.results, strict=True):
        for name, got in zip(outcome.model.outputs, results, strict=True):
            if name in want.ambiguous:
                continue
            error = outcome.model.errors.get(name, 0.0)
            reason = difference(got, want.values[name], error, fast=fast)
            if reason:
                outcome.result, outcome.message = WRONG, f"{name}{attempt} {reason}"
                return
    one = PASS if want.both else ONE
    outcome.result = AMBIGUOUS if len(want.ambiguous) == len(outcome.model.outputs) else one


def check(models: Iterable[tuple[Model, Config]], store: Cache, folder: Path) -> list[Outcome]:
    """Compile, run and judge models; those of one set of flags in one batch."""
    outcomes = [Outcome(m, c) for m, c in models]
    told: dict[int, Expected | str] = {}
    for o in outcomes:
        key = id(o.model)
        if key not in told:
            try:
                told[key] = expected(o.model)
            except Exception as error:
                told[key] = f"{type(error).__name__}: {error}"
        answer = told[key]
        if isinstance(answer, str):
            o.message = answer
            continue
        o.expected = answer
        compile_run(o)
        if o.result == REJECTED and o.model.altered and answer.refusal:
            o.result = REFUSED
    execute_all((o.run for o in outcomes), store, folder)
    for o in outcomes:
        if o.run is not None:
            judge(o)
    return outcomes


@cache
def runnable(name: str) -> bool:
    """Whether this machine executes a configuration."""
    path = Path("/proc/cpuinfo")
    flags = f" {path.read_text()} ".split() if path.exists() else []
    return not CONFIGS[name].chip().requires or set(CONFIGS[name].chip().requires) <= set(flags)


def configs_of(model: Model, names: tuple[str, ...]) -> list[Config]:
    """The configuration of a model: the base, or by its seed another one."""
    if names:
        chosen = [CONFIGS[n] for n in names]
    else:
        others = [n for n in ROTATION if runnable(n)]
        chosen = [CONFIGS[others[model.seed % len(others)]]]
    if model.rough:  # a decision on inexact numbers: fast arithmetic may decide otherwise
        chosen = [CONFIGS["base"] if c.accuracy == "fast" else c for c in chosen]
    return chosen


def sweep(
    seeds: Iterable[int],
    store: Cache,
    folder: Path,
    names: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    plain: bool = False,
) -> list[Outcome]:
    """Outcomes of the models of some seeds."""
    models = [m for s in seeds if (m := generate(s, only, plain)) is not None]
    pairs = [(m, c) for m in models for c in configs_of(m, names)]
    found = check(pairs, store, folder)
    if not any(o.result in DEFECTS for o in found):
        shutil.rmtree(folder, ignore_errors=True)
    return found
