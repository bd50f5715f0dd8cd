# SPDX-License-Identifier: Apache-2.0
"""What a model computes according to others: onnxruntime without optimisation, onnx.reference."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from aot.errors import AotError, UnsupportedError
from aot.ir.deferred_import import onnx
from aot.ir.graph_nodes import Array
from aot.ir.onnx_subprocess import run_isolated
from aot.ir.opset import canonical_opset
from aot.load.cut import part_of
from aot.load.maps import drop_maps
from aot.load.source import Opened
from aot.ops.registry import load_all
from aot.options import Options


class CannotRun(AotError):
    """The reference read the model, and computes nothing for these inputs."""


class Reference(Protocol):
    """Computes named values of a model from its inputs by name."""

    name: str

    def __call__(self, inputs: Mapping[str, Array], values: Sequence[str]) -> dict[str, Array]:
        """The arrays of `values`; one the reference cannot give is left out."""


def open_reference(model: Path, kind: str | None, extra: Sequence[str], folder: Path) -> Reference:
    """The reference asked for ("ort", "onnx"), else onnxruntime if it is installed and willing.

    `extra` are values inside the graph that will be asked for; `folder` takes temporary files.
    """
    installed = importlib.util.find_spec("onnxruntime") is not None
    if kind == "ort" and not installed:
        raise AotError(
            "onnxruntime is not installed",
            "--reference ort",
            "pip install 'aotc[verify]', or --reference onnx",
        )
    if kind == "onnx" or not installed:
        return OnnxReference(model, extra)
    try:
        return RuntimeReference(model, extra, folder)
    except _Refused as error:
        if kind == "ort":
            raise UnsupportedError(f"onnxruntime refuses the model: {error}") from error
        return OnnxReference(model, extra)


class _Refused(Exception):
    """Onnxruntime does not load the model."""


class _Loaded:
    """A model that a reference has read: the names of its inputs and outputs, and how it runs."""

    name = ""
    hint = ""

    def __init__(self, inputs: Iterable[str], outputs: Iterable[str], run: Any) -> None:
        self._inputs, self._outputs, self._run = set(inputs), set(outputs), run

    def __call__(self, inputs: Mapping[str, Array], values: Sequence[str]) -> dict[str, Array]:
        """Run the reference; CannotRun if it computes nothing for these inputs."""
        wanted = [v for v in values if v in self._outputs]
        if not wanted:  # which a runtime takes for everything
            return {}
        feeds = {k: v for k, v in inputs.items() if k in self._inputs}
        try:
            results = self._run(wanted, feeds)
        except Exception as error:
            runtime = self.name.partition(" ")[0]
            what = f"{runtime} cannot run the model: {_first_line(error)}"
            raise CannotRun(what, hint=self.hint) from error
        return dict(zip(wanted, results, strict=True))


class RuntimeReference(_Loaded):
    """Onnxruntime: graph optimisation off, one thread."""

    def __init__(self, model: Path, extra: Sequence[str], folder: Path) -> None:
        """Open `model` in onnxruntime without optimisations, with values `extra` as
        outputs, too.
        """
        import onnxruntime as ort

        self.name = f"onnxruntime {ort.__version__}"
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        try:
            source = saved(_expose(onnx.load(str(model)), extra), folder) if extra else model
            read = ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise _Refused(_first_line(error)) from error
        ends = (i.name for i in read.get_inputs()), (o.name for o in read.get_outputs())
        super().__init__(*ends, read.run)


class OnnxReference(_Loaded):
    """onnx.reference on the model converted to the canonical opset (as it is if that fails)."""

    hint = "pip install 'aotc[verify]' and --reference ort compare with onnxruntime"

    def __init__(self, model: Path, extra: Sequence[str]) -> None:
        """Open `model` in onnx.reference, with values `extra` as outputs, too; UnsupportedError if
        refused.
        """
        from onnx.reference import ReferenceEvaluator

        self.name = f"onnx.reference {onnx.__version__}"
        proto = _expose(onnx.load(str(model)), extra)
        try:
            read = ReferenceEvaluator(_canonical(proto), new_ops=[_gather_elements()])
        except Exception as error:
            raise UnsupportedError(
                f"onnx.reference refuses the model: {_first_line(error)}",
                hint="pip install 'aotc[verify]' for onnxruntime",
            ) from error
        kinds = {i.name: i.type.tensor_type.elem_type for i in proto.graph.input}

        def run(wanted: Sequence[str], feeds: Mapping[str, Array]) -> list[Any]:
            """The results for inputs that may be the raw bits of a type that NumPy lacks."""
            typed = {n: _typed(a, kinds[n]) for n, a in feeds.items()}
            return list(read.run(list(wanted), typed))

        super().__init__(read.input_names, read.output_names, run)


def _gather_elements() -> Any:
    """An operator for onnx.reference, whose own one takes no axis of more than 64 elements."""
    from onnx.reference import op_run

    class GatherElements(op_run.OpRun):  # type: ignore[misc]
        def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
            return (np.take_along_axis(data, indices, axis),)

    return GatherElements


def _typed(array: Array, kind: int) -> Array:
    """Raw bits as the type `kind` of ONNX, if NumPy lacks it; others as they are."""
    known = onnx.helper.tensor_dtype_to_np_dtype(kind) if kind else array.dtype
    bits = known.kind == "V" and array.dtype.kind == "u" and array.itemsize == known.itemsize
    return array.view(known) if bits else array


def _canonical(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto` in the canonical opset by onnx's own converter; as it is where that fails."""
    proto.ir_version = max(proto.ir_version, 8)
    versions = [o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")]
    if not versions or versions[0] >= canonical_opset():
        return proto
    try:
        return run_isolated(
            lambda m: onnx.version_converter.convert_version(m, canonical_opset()), proto
        )
    except RuntimeError:  # the evaluator knows old opsets too
        return proto


def compiled_part(model: Path, options: Options, folder: Path) -> Path:
    """The file of what was compiled of `model`: the part that the options cut out, with tensors
    in the place of maps. A file in `folder`, or `model` itself where it was compiled whole.
    """
    load_all()  # the records of operators say which ones make maps
    proto = onnx.load(str(model), load_external_data=False)
    if not (options.cut_inputs or options.cut_outputs) and not drop_maps(proto):
        return model
    part = part_of(Opened(onnx.load(str(model)), model.parent), options)[0].proto
    drop_maps(part)
    return saved(part, folder)


def _expose(proto: onnx.ModelProto, extra: Sequence[str]) -> onnx.ModelProto:
    """`proto` with the values `extra` as further outputs."""
    produced = {o for n in proto.graph.node for o in n.output}
    have = {o.name for o in proto.graph.output}
    for name in extra:
        if name in produced and name not in have:
            proto.graph.output.append(onnx.ValueInfoProto(name=name))
    return proto


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    """A file of `proto` in `folder`; large weights lie beside it."""
    target = folder / "model.onnx"
    big = sum(len(t.raw_data) for t in proto.graph.initializer) > 1 << 30
    onnx.save(proto, str(target), save_as_external_data=big)
    return target


def _first_line(error: Exception) -> str:
    """The class of an error and the first line of its text."""
    lines = [s for s in str(error).splitlines() if s.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
