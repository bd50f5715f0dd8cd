# SPDX-License-Identifier: Apache-2.0
"""`aotc verify`: a built bundle against what the model says, end to end or after every call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from aot.errors import AotError, ModelError, one_line, printable
from aot.ir.deferred_import import onnx
from aot.ir.graph_nodes import Array
from aot.ir.node_traits import proto_trait
from aot.ir.onnx_subprocess import infer_shapes
from aot.ir.sample import Sample
from aot.ir.value_traits import Converts
from aot.load.inputs import user_inputs
from aot.ops.registry import load_all
from aot.options import Options
from aot.tools.build import RECORD, build, read_json, scratch
from aot.tools.compare import Difference, Tolerance, compare
from aot.tools.growth import Growth, explained, grown
from aot.tools.layerwise import (
    Key,
    Layers,
    Written,
    differences,
    dumped,
    is_quantised,
    known,
    not_gated,
    place,
    stored_array,
    written,
)
from aot.tools.levelwise import compare_levels
from aot.tools.record import file_digest, options_of
from aot.tools.reference import CannotRun, Reference, compiled_part, open_reference
from aot.tools.regionwise import INSIDE, build_portable, compare_regions
from aot.tools.run import Built, Spec, execute, stream
from aot.tools.samples import random_samples, read_samples
from aot.tools.unrounded import Unrounded, rounded
from aot.tools.value_conversion import Converted

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What to compare: `inputs` an .npz (else seeded), `reference` "ort", "onnx" or None."""

    inputs: Path | None = None
    reference: str | None = None
    per_node: bool = False
    per_region: bool = False
    model: Path | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)


@dataclass(frozen=True, slots=True)
class Report:
    """Differences per output (and per node), in order."""

    name: str
    reference: str
    outputs: tuple[Difference, ...]
    nodes: tuple[Difference, ...] = ()
    skipped: int = 0
    layers: Layers | None = None
    regions: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    levels: tuple[Difference, ...] = ()
    growth: tuple[Growth, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing is out of tolerance."""
        return all(d.passed for d in self.every())

    def every(self) -> tuple[Difference, ...]:
        """All comparisons, those inside the network first."""
        layers = self.layers.differences if self.layers else ()
        return (*self.nodes, *layers, *self.regions, *self.levels, *self.outputs)

    def failure(self) -> str:
        """The first mismatch in one line."""
        wrong = [d for d in self.every() if not d.passed]
        return f"{self.name}: {len(wrong)} mismatches against {self.reference}; {wrong[0].text()}"

    def record(self) -> dict[str, Any]:
        """For --json."""
        return {
            "name": self.name,
            "reference": self.reference,
            "passed": self.passed,
            "outputs": [d.record() for d in self.outputs],
            "nodes": [d.record() for d in self.nodes],
            "nodes_without_reference": self.skipped,
            "layers": self.layers.record() if self.layers else None,
            "growth": [g.record() for g in self.growth],
            "regions": [d.record() for d in self.regions],
            "levels": [d.record() for d in self.levels],
            "notes": list(self.notes),
        }

    def text(self, verbose: bool = False) -> str:
        """A line per output; per node the mismatches (all if verbose) and a count."""
        lines = [f"{self.name} against {self.reference}"]
        lines += [d.text() for d in (*self.outputs, *self.levels)]
        lines += [printable(n) for n in self.notes]
        if self.nodes:
            shown = [d for d in self.nodes if verbose or not d.passed]
            lines += [f"  {d.text()}" for d in shown]
            good = sum(d.passed for d in self.nodes)
            lines.append(
                f"{good} of {len(self.nodes)} values inside agree"
                f" ({self.skipped} have no counterpart in the model)"
            )
        if self.layers:
            lines += [f"  {d.text()}" for d in self.layers.differences if verbose or not d.passed]
            lines.append(self.layers.text())
        lines += [explained(self.growth, verbose)] if self.growth else []
        lines += [f"  {d.text()}" for d in self.regions]
        if self.regions:
            good = sum(d.passed for d in self.regions)
            total = len(self.regions)
            lines.append(f"{good} of {total} values that leave regions agree with portable C")
        return "\n".join([*lines, "ok" if self.passed else "MISMATCH"])


def verify(built: Built, request: Request, progress: Progress) -> Report:
    """Run the bundle and the reference on the same inputs and compare; AotError if that fails."""
    built.program()
    record = read_json(built.out / RECORD, "record of a compilation")
    options = options_of(record)
    model = model_path(record, request.model)
    with scratch(built.out) as folder:
        return _verify(
            built, request, progress, options, compiled_part(model, options, Path(folder))
        )


def _verify(
    built: Built, request: Request, progress: Progress, options: Options, model: Path
) -> Report:
    """Compare the bundle with `model`, the file of the part that was compiled."""
    graph = onnx.load(str(model), load_external_data=False).graph
    samples = _samples(built, request, graph, options)
    bound = _bound(graph, options)
    coded = is_quantised(built.manifest)
    values = _node_values(built) if request.per_node or coded else {}
    fallbacks = None
    if request.per_region:
        progress("build portable C in place of the regions")
        fallbacks = build_portable(built, options.target)
    if request.per_node or request.per_region or coded:
        progress("build the tracing runner")
        build(built.out, f"{built.name}-trace")
    progress("reference")
    with scratch(built.out) as folder:
        inner = sorted({*values.values()})
        opened = open_reference(model, request.reference, inner, Path(folder))
    reference = Converted(opened, graph, options)
    samples, notes = _runnable(samples, reference, built, bound)
    narrow = _narrow(model, graph)
    unrounded = Unrounded(model, request.reference, inner, options)
    outputs: list[Difference] = []
    nodes: list[Difference] = []
    regions: list[Difference] = []
    layers = Layers() if coded else None
    growth: list[Growth] = []
    handed = {n: np.zeros(s.first, s.array_dtype) for n, (s, _) in built.states.items()}
    ours = stream(built, [s.inputs for s in samples]) if handed else []
    for k, sample in enumerate(samples):
        progress("compare" + (f" {sample.label}" if sample.label else ""))
        known = {**bound, **handed}
        one = _Comparison(built, sample, options, request.tolerance, reference, known)
        # A traced run starts with states of zero; quantised values are compared layer by layer.
        if layers is not None and not (handed and k):
            layers += one.layers()
        one.narrow, one.unrounded = narrow, unrounded
        one.inside = layers is not None and bool(layers.differences)
        ends = one.outputs(ours[k] if handed else execute(built, sample.inputs))
        outputs += ends
        growth += one.growth([d for d in ends if d.reason])
        if request.per_node and not coded and not (handed and k):
            nodes += one.nodes(values)
        if fallbacks is not None and not (handed and k):
            inputs, tolerance = sample.inputs, request.tolerance
            regions += compare_regions(built, fallbacks, inputs, tolerance, options.accuracy)
        handed = one.next_states()
    traced = 1 if built.states else max(1, len(samples))
    skipped = len(values) - len(nodes) // traced if request.per_node and not coded else 0
    found = tuple(outputs), tuple(nodes), skipped, layers, tuple(regions)
    levels, more = compare_levels(built, samples, options.accuracy)
    return Report(built.name, reference.name, *found, (*notes, *more), levels, tuple(growth))


def _narrow(path: Path, graph: onnx.GraphProto) -> dict[str, str]:
    """Outputs of float64 that a Cast made of a narrower float, which is as exact as they are."""
    load_all()  # the records of operators say which ones convert
    casts = {n.output[0]: n.input[0] for n in graph.node if proto_trait(n, Converts) is not None}
    ends = [o.name for o in graph.output if o.name in casts]
    if not any(o.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE for o in graph.output):
        return {}
    model = onnx.load(str(path), load_external_data=False)
    try:
        known = infer_shapes(model).graph
    except RuntimeError:  # too large, or not ONNX's alone: judged as what it is
        return {}
    types = {v.name: v.type.tensor_type.elem_type for v in (*known.value_info, *known.input)}
    names = {
        onnx.TensorProto.FLOAT: "float32",
        onnx.TensorProto.FLOAT16: "float16",
        onnx.TensorProto.BFLOAT16: "bfloat16",
    }
    return {o: names[t] for o in ends if (t := types.get(casts[o])) in names}


def _runnable(
    samples: tuple[Sample, ...],
    reference: Converted,
    built: Built,
    bound: Mapping[str, Array],
) -> tuple[tuple[Sample, ...], tuple[str, ...]]:
    """Made-up samples of sizes that the reference computes, and a note about each other one.

    A model may not be able to compute every size that `--dim` allows.
    """
    if samples[0].label != "most" or built.states:
        return samples, ()
    names = [s.name for s in built.outputs]
    kept, notes = [], []
    for sample in samples:
        feeds = {s.name: a for s, a in zip(built.inputs, sample.inputs, strict=True)}
        try:
            reference({**feeds, **bound}, names)
            kept.append(sample)
        except CannotRun as error:
            shapes = ", ".join(f"{one_line(n)} {list(a.shape)}" for n, a in feeds.items())
            notes.append(f"{sample.label or 'inputs'}, {shapes}: left out, {error.what}")
            if len(notes) == len(samples):
                raise
    return tuple(kept), tuple(notes)


def model_path(record: Mapping[str, Any], given: Path | None) -> Path:
    """The model file: `given`, or the remembered one if it is still the same."""
    if given is not None:
        if not given.is_file():
            raise ModelError("the model file does not exist", str(given))
        return given
    stored = record.get("model")
    if not stored:
        raise ModelError(
            "the bundle was compiled from memory", hint="--model names the file that it came from"
        )
    path = Path(stored)
    if not path.is_file():
        raise ModelError("the model file is gone", str(path), "--model names another place")
    # Differences between two versions of the model would look like faults of the bundle.
    if file_digest(path) != record.get("sha256"):
        raise ModelError(
            "the model has changed since it was compiled",
            str(path),
            "compile again, or name the old one with --model",
        )
    return path


def _samples(
    built: Built, request: Request, graph: onnx.GraphProto, options: Options
) -> tuple[Sample, ...]:
    """What was asked for, else the test data of the compilation, else seeded random inputs."""
    file = request.inputs
    if file is None and options.test_data and Path(options.test_data).is_file():
        file = Path(options.test_data)
    if file is not None:
        order = [i.name for i in user_inputs(graph)], [o.name for o in graph.output]
        tflite = options.requant == "tflite"
        return read_samples(file, built.inputs, built.outputs, order, tflite=tflite)
    return random_samples(built.inputs, graph, built.manifest)


def _bound(graph: onnx.GraphProto, options: Options) -> dict[str, Array]:
    """Inputs made constant, as arrays of the dtype the model declares."""
    types = {i.name: i.type.tensor_type.elem_type for i in graph.input}
    return {
        name: np.asarray(value, onnx.helper.tensor_dtype_to_np_dtype(types[name]))
        for name, value in options.bindings.items()
        if name in types
    }


def _node_values(built: Built) -> dict[tuple[int, int], str]:
    """(call, written argument) -> the ONNX value it finally holds."""
    return {
        (i, k): w["value"]
        for i, node in enumerate(built.manifest["nodes"])
        for k, w in enumerate(node.get("writes", ()))
        if w["value"] and w["last"]
    }


class _Comparison:
    """One sample: the reference's values and ours."""

    def __init__(
        self,
        built: Built,
        sample: Sample,
        options: Options,
        tolerance: Tolerance,
        reference: Reference,
        bound: Mapping[str, Array],
    ) -> None:
        self.built, self.sample, self.options = built, sample, options
        self.tolerance, self.reference = tolerance, reference
        self.bound = bound
        self.prefix = f"{sample.label}/" if sample.label else ""
        self.narrow: Mapping[str, str] = {}  # outputs that are other floats widened
        self.unrounded: Unrounded | None = None  # asked where results differ, for:
        self.exact: dict[str, Array] | None = None
        self.inside = False  # whether values inside the network are compared, and gate
        self.written: dict[Key, Written] = {}  # the values that `layers` compares
        self.theirs: dict[str, Array] = {}
        self.alone: dict[str, float] = {}  # the largest difference of each

    def _references(self, names: Sequence[str]) -> dict[str, Array]:
        feeds = {s.name: a for s, a in zip(self.built.inputs, self.sample.inputs, strict=True)}
        return self.reference({**feeds, **self.bound}, names)

    def _difference(
        self, spec: Spec, ours: Array, expected: Array, note: str = "", slack: float = 1.0
    ) -> Difference:
        tolerance = replace(self.tolerance, slack=slack)
        if spec.dtype == "float64" and spec.name in self.narrow:
            tolerance = tolerance.like(self.narrow[spec.name], self.options.accuracy)
        return compare(
            self.prefix + spec.name + note,
            ours,
            _as_bits(np.asarray(expected), spec),
            spec.dtype,
            tolerance,
            self.options.accuracy,
        )

    def next_states(self) -> dict[str, Array]:
        """What the reference hands to the next sample."""
        states = {n: output for n, (_, output) in self.built.states.items()}
        theirs = self._references(sorted(set(states.values()))) if states else {}
        return {n: np.asarray(theirs[output]) for n, output in states.items()}

    def outputs(self, ours: Sequence[Array]) -> list[Difference]:
        """Every output against the reference (and against values stored with the sample).

        The values stored are for states of their own.
        """
        theirs = self._references([s.name for s in self.built.outputs])
        found = []
        for spec, array in zip(self.built.outputs, ours, strict=True):
            if spec.name not in theirs:
                raise AotError(f"the reference gives no output {spec.name!r}")
            if theirs[spec.name] is None:  # nothing in this run
                continue
            found += self._settled(spec, array, theirs[spec.name], self._end_to_end)
            if spec.name in self.sample.expected and not self.built.states:
                stored = self.sample.expected[spec.name]
                found.append(self._stored(spec, array, stored))
        return found

    def _end_to_end(self, spec: Spec, ours: Array, expected: Array, note: str = "") -> Difference:
        """An output of the whole network; where layers gate, it does only with --max-lsb."""
        limits = (self.tolerance.lsb, self.tolerance.rtol, self.tolerance.of_max)
        if not self.inside or any(v is not None for v in limits):
            return self._difference(spec, ours, expected, note)
        return not_gated(self._difference(spec, ours, expected, f"{note} (end to end, no gate)"))

    def _stored(self, spec: Spec, ours: Array, expected: Array) -> Difference:
        """An output against the value stored with the sample: exact in TFLite's arithmetic."""
        if self.options.requant == "tflite":
            return self._difference(spec, ours, expected, " (stored)")
        return self._end_to_end(spec, ours, expected, " (stored)")

    def layers(self) -> Layers:
        """Every call fed the reference's values, against what the reference makes of them."""
        values = written(self.built.manifest)
        self.theirs = theirs = self._references(sorted({w.value for w in values.values()}))
        self.written = values = known(values, theirs)
        with scratch(self.built.out) as place_of:
            folder = Path(place_of)
            place(folder, values, theirs)
            execute(self.built, self.sample.inputs, folder)
            found = differences(folder, values, theirs, self._inner)
        self.alone = {d.name: d.max_abs for d in found.differences}
        return found

    def growth(self, outputs: Sequence[Difference]) -> list[Growth]:
        """How the quantised values that `layers` compared come to differ by the `outputs`, which
        are those that differ; nothing if there are none, or if no quantised value inside differs.
        """
        if not (outputs and self.written):
            return []
        with scratch(self.built.out) as place_of:
            folder = Path(place_of)
            execute(self.built, self.sample.inputs, folder)
            nodes = self.built.manifest["nodes"]
            steps = grown(nodes, self.written, folder, self.theirs, self.alone)
        return [Growth(self.sample.label, steps, tuple(outputs))] if steps else []

    def _inner(self, w: Written, ours: Array, expected: Array) -> Difference:
        spec = Spec(w.value, w.shape, w.dtype)
        return self._difference(spec, ours, expected, slack=INSIDE)

    def nodes(self, values: Mapping[tuple[int, int], str]) -> list[Difference]:
        """Every value a call leaves, against the reference's value of the same name."""
        theirs = self._references(sorted(set(values.values())))
        found, judge = [], partial(self._difference, slack=INSIDE)
        with scratch(self.built.out) as folder:
            execute(self.built, self.sample.inputs, Path(folder))
            for key, file in dumped(Path(folder)):
                value = values.get(key)
                if value is None or value not in theirs:
                    continue
                node = self.built.manifest["nodes"][key[0]]
                wrote = node["writes"][key[1]]
                spec = Spec(value, tuple(wrote["shape"]), wrote["dtype"])
                array = stored_array(file.read_bytes(), spec, wrote["layout"])
                array = _inside(array, np.shape(theirs[value]))
                found += self._settled(spec, array, theirs[value], judge)
        return found

    def _settled(
        self,
        spec: Spec,
        ours: Array,
        expected: Array,
        judge: Callable[[Spec, Array, Array, str], Difference],
    ) -> list[Difference]:
        """How far `ours` is from the reference and, where that is too far, from the model in wider
        floats: this decides if the reference is farther from it.
        """
        found = judge(spec, ours, expected, "")
        if found.passed or self.unrounded is None or math.isnan(found.max_abs):
            return [found]
        if self.exact is None:
            feeds = {s.name: a for s, a in zip(self.built.inputs, self.sample.inputs, strict=True)}
            self.exact = self.unrounded(self.built.out, {**feeds, **self.bound})
        wide = self.exact.get(spec.name)
        if wide is None or wide.shape != ours.shape:
            return [found]
        exact = rounded(wide, spec.dtype)
        theirs = self._difference(spec, _as_bits(np.asarray(expected), spec), exact, slack=INSIDE)
        note = f"{self.unrounded.wide}, from which the reference is {theirs.max_abs:.3g} away"
        own = judge(spec, ours, exact, f" (in {note})")
        # A reference that lies farther off than rounding takes it means something else.
        rounds = theirs.passed or exact.dtype.kind != "f"
        if own.passed and rounds and own.max_abs <= theirs.max_abs:
            return [not_gated(found), own]
        return [found, not_gated(own)]


def _inside(array: Array, shape: tuple[int, ...]) -> Array:
    """The part of a tensor at its bound that is as large as the reference's."""
    if array.ndim != len(shape) or any(a < b for a, b in zip(array.shape, shape, strict=True)):
        return array
    return np.asarray(array[tuple(slice(0, d) for d in shape)])


def _as_bits(array: Array, spec: Spec) -> Array:
    """The reference's array as raw bits where NumPy lacks the type."""
    if array.dtype != spec.array_dtype and array.dtype.itemsize == spec.array_dtype.itemsize:
        return array.view(spec.array_dtype)
    return array
