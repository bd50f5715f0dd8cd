# SPDX-License-Identifier: Apache-2.0
"""Many small models side by side in one: one build tests a whole vendor."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from aot.api import compile_to
from aot.ir.check_rows import check_rows
from aot.ir.onnx_subprocess import Child
from aot.ir.plan import Plan
from aot.ir.program import Call, Program
from aot.ir.rows import STREAMED
from aot.load import load
from aot.normalise import normalise
from aot.ops.registry import load_all
from aot.options import Options
from aot.partition.claims import load_options
from aot.partition.result import Partition
from aot.partition.select import select
from aot.plan import plan_program
from aot.plan.streaming.placed import place_rows
from aot.plan.streaming.runs import runs_of, segmented
from aot.tools.run import execute, open_out
from aot.vendor.cases import Case
from aot.vendor.find import backends_for


@dataclass
class Part:
    """A model, what goes in by name, what must come out in order."""

    label: str
    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    want: list[np.ndarray]
    case: Case
    taken: list[str] = field(default_factory=list)


def partition_of(model: onnx.ModelProto, backends: tuple[str, ...]) -> Partition:
    """Who computes what.

    The models are of the tests' own: onnx's C++, which damaged ones end, runs in this process.
    """
    found = backends_for(backends)
    options = load_options(Options(), found)
    with mock.patch.object(Child, "_fork", lambda _: False):
        loaded = load(model, options)
    return select(normalise(loaded, options).graph, found)


def taken_by(part: Part, vendor: str) -> list[str]:
    """Patterns of `vendor` (NAME or NAME:CONFIG) in the partition of a part."""
    items, name = partition_of(part.model, (vendor,)).items, vendor.partition(":")[0]
    return [s.pattern.name for s in items if s.backend == name]


def behind_identity(part: Part) -> Part | None:
    """The part with its first image passed through a convolution by one, whose result is used
    elsewhere too: what follows gets its input in the layout that convolutions write. None where
    no input is such an image."""
    graph = part.model.graph
    names = {v.name for v in graph.input}
    image = next((n for n in graph.node[0].input if n in names and _is_image(part.feeds[n])), None)
    if image is None:
        return None
    x = part.feeds[image]
    channels, rank = x.shape[1], x.ndim
    weights = np.eye(channels, dtype=np.float32).reshape(channels, channels, *[1] * (rank - 2))
    nodes = [helper.make_node("Conv", [image, "identity"], ["through"])]
    for node in graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for i, name in enumerate(copy.input):
            if name == image:
                copy.input[i] = "through"
        nodes.append(copy)
    result = helper.make_tensor_value_info("through", onnx.TensorProto.FLOAT, list(x.shape))
    made = helper.make_graph(
        nodes,
        "behind",
        graph.input,
        [*graph.output, result],
        [*graph.initializer, numpy_helper.from_array(weights, "identity")],
    )
    model = helper.make_model(made, opset_imports=part.model.opset_import)
    return Part(f"{part.label} behind", model, part.feeds, [*part.want, x], part.case)


def negated(part: Part) -> Part:
    """The part with its signed results negated, by portable C: what goes row by row has a
    neighbour."""
    model = onnx.ModelProto()
    model.CopyFrom(part.model)
    want = list(part.want)
    for i, value in enumerate(model.graph.output):
        if want[i].dtype.kind not in "if":
            continue
        for node in model.graph.node:
            for names in (node.input, node.output):
                names[:] = [f"{n}_before" if n == value.name else n for n in names]
        model.graph.node.append(helper.make_node("Neg", [f"{value.name}_before"], [value.name]))
        want[i] = -want[i]
    return Part(f"{part.label} negated", model, part.feeds, want, part.case, part.taken)


def _is_image(x: np.ndarray) -> bool:
    return x.dtype == np.float32 and 3 <= x.ndim <= 5 and x.shape[1] >= 4 and bool(x.size)


def merge(parts: list[Part]) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """One model of all parts, and its inputs."""
    nodes, inputs, outputs, consts, arrays = [], [], [], [], []
    for number, part in enumerate(parts):
        prefix = f"p{number}_"
        graph = part.model.graph
        for node in graph.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = prefix + (node.name or node.op_type)
            for names in (copy.input, copy.output):
                for i, name in enumerate(names):
                    names[i] = name and prefix + name
            nodes.append(copy)
        for source, to in (
            (graph.input, inputs),
            (graph.output, outputs),
            (graph.initializer, consts),
        ):
            for item in source:
                copy = type(item)()
                copy.CopyFrom(item)
                copy.name = prefix + item.name
                to.append(copy)
        arrays += [part.feeds[v.name] for v in graph.input]
    graph = helper.make_graph(nodes, "merged", inputs, outputs, consts)
    return helper.make_model(graph, opset_imports=parts[0].model.opset_import), arrays


def by_rows(
    model: onnx.ModelProto, vendor: str, out: Path, ordered: bool = True, **options: str
) -> tuple[set[str], set[str]]:
    """Compile to OUT with every call by rows that can be, whether that needs less memory or not.

    Calls come in the order with the least memory for whole tensors, or unless `ordered` in that of
    the model, where no part is between those of another.
    Returns the vendor's kernels that declare windows of rows, and those that are in segments.
    """
    asked = Options(name="net", backends=(vendor,), objective="ram", plan_effort=1, **options)
    found: list[Call] = []
    with pytest.MonkeyPatch.context() as patch:

        def streamed(program: Program, *_: object) -> tuple[Program, Plan]:
            made = segmented(program, runs_of(program)[0])
            plan = place_rows(made, 1)
            check_rows(made, plan)
            found[:] = made.calls
            return made, plan

        patch.setattr(plan_program, "streamed", streamed)
        if not ordered:
            patch.setattr(plan_program, "schedule", lambda program: program)
        compile_to(model, out, asked, configure=False)
    own = [c for c in found if c.backend == vendor.partition(":")[0] and c.rowwise]
    return {c.kernel for c in own}, {c.kernel for c in own if c.region == STREAMED}


def build(out: Path, environment: dict[str, str]) -> None:
    """Configure and build OUT, as a user does."""
    env = {**os.environ, **environment}
    for command in (["cmake", "-S", out / "bundle", "-B", out], ["cmake", "--build", out]):
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]


def compile_parts(
    parts: list[Part], vendor: str, out: Path, target: str = "host"
) -> list[np.ndarray]:
    """Write the bundle of all parts; the arrays to run it on.

    Its arena is of no interest: the planner gets no time to make it small.
    """
    model, arrays = merge(parts)
    options = Options(name="net", backends=(vendor,), target=target, plan_effort=1)
    compile_to(model, out, options, configure=False)
    return arrays


#: Parts of one bundle: planning takes time with the square of what is live at once.
CHUNK = 250
#: A bundle's folder, its parts, and the arrays to run it on.
Chunk = tuple[Path, list[Part], list[np.ndarray]]


def compile_chunks(parts: list[Part], vendor: str, folder: Path) -> list[Chunk]:
    """Bundles of a few hundred parts each, every third one in the same."""
    count = -(-len(parts) // CHUNK)
    chunks = [(folder / f"out{i}", parts[i::count]) for i in range(count)]
    return [(out, some, compile_parts(some, vendor, out)) for out, some in chunks]


def run(parts: list[Part], arrays: list[np.ndarray], out: Path) -> list[str]:
    """Run a built bundle; a line for each result that differs."""
    built = open_out(out)
    got = iter(execute(built, arrays))
    wrong = []
    for part in parts:
        for i, want in enumerate(part.want):
            array = next(got)
            if why := difference(array, want, part.case, _is_quantised(part)):
                wrong.append(f"{part.label} output {i} by {part.taken}: {why}")
    return wrong


def _is_quantised(part: Part) -> bool:
    return any(n.op_type == "QuantizeLinear" for n in part.model.graph.node)


def difference(got: np.ndarray, want: np.ndarray, case: Case, quantised: bool = False) -> str:
    """Empty if equal within the case's tolerance; if `quantised`, few may differ by one step."""
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if quantised and got.dtype == want.dtype and got.dtype.itemsize <= 2:
        apart = np.abs(got.astype(np.int32) - want.astype(np.int32))
        if apart.max(initial=0) <= 1 and np.count_nonzero(apart) <= max(1, apart.size // 100):
            return ""
    size = float(np.abs(want[np.isfinite(want)]).max(initial=0.0))
    atol = max(case.atol, 4e-6 * size)  # of a sum of terms about as large as the largest result
    close = np.isclose(got, want, rtol=case.rtol, atol=atol, equal_nan=True)
    if close.all():
        return ""
    worst = np.unravel_index(np.argmin(close), close.shape)
    return f"{(~close).sum()} of {close.size} differ, {worst}: {got[worst]}, expected {want[worst]}"


def manifest_of(out: Path) -> dict:
    """The bundle's manifest."""
    return json.loads((out / "bundle" / "manifest.json").read_text())


def portable_operators() -> list[str]:
    """Names of the portable patterns."""
    return [p.name for p in load_all().patterns]
