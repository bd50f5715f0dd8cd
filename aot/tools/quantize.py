# SPDX-License-Identifier: Apache-2.0
"""`aotc quantize`: a float32 model and calibration data to an 8-bit model.

onnxruntime.quantization does the work (the extra `quantize`): batch normalisations are folded, the
ranges of activations are the smallest and largest numbers that the calibration data give, weights
are symmetric int8.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from aot.errors import AotError, ModelError, UsageError
from aot.ir.deferred_import import onnx
from aot.ir.graph_nodes import Array
from aot.ir.node_traits import proto_trait
from aot.ir.onnx_subprocess import run_isolated
from aot.ir.value_traits import Dequantises, Quantises
from aot.load.check import check_structure
from aot.load.choices import check_choices
from aot.load.convert import standard_opset
from aot.load.source import read_proto
from aot.normalise.quantised.spelling import spells
from aot.npz import read_npz, same_file, write_bytes
from aot.ops.registry import load_all
from aot.tools.prepare_quantize import Prepared, prepare, restore, unique_labels

Feeds = Mapping[str, Array]
Activation = Literal["int8", "uint8"]
Format = Literal["qdq", "qoperator"]

OPSET = 17
"""What models of an opset without scales per channel are converted to."""
PER_CHANNEL_OPSET = 13
#: The version of the IR of that opset; old ones want every constant among the inputs.
LEAST_IR = 8
FATAL_ONLY, WARNINGS = 4, 2
"""onnxruntime's levels of logging; its errors come as exceptions."""
JUDGED = 16
"""Samples on which the quantised model is compared with the float one."""

_SAMPLE = re.compile(r"s([0-9]{1,6})/(.+)", re.DOTALL)
_ORDERED = re.compile(r"s([0-9]{1,6})_in([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class Quantisation:
    """What to make: type of activations, scales per tensor or per channel, spelling."""

    activations: Activation = "int8"
    per_tensor: bool = False
    format: Format = "qdq"


@dataclass(frozen=True, slots=True)
class Report:
    """What was made. `similarity` is the cosine of float and quantised results per output."""

    file: str
    samples: int
    bytes_before: int
    bytes_after: int
    similarity: Mapping[str, float]

    def record(self) -> dict[str, Any]:
        """For --json."""
        return {
            "file": self.file,
            "samples": self.samples,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "similarity": dict(self.similarity),
        }

    def text(self) -> str:
        """For people."""
        lines = [
            f"{self.file}: {self.bytes_before} to {self.bytes_after} bytes, "
            f"calibrated on {self.samples} samples"
        ]
        for name, cosine in self.similarity.items():
            lines.append(f"{name}: cosine {cosine:.5f} with the float model")
        return "\n".join(lines)


def quantize(
    model: Path,
    calibrate: Path,
    output: Path,
    how: Quantisation,
    progress: Callable[[str], None],
) -> Report:
    """Write the quantised `model` to `output`, in one step or not at all.

    `calibrate` is an .npz with the keys NAME, s<k>/NAME or s<k>_in<i>; an array with more rows than
    an input has is one sample per row. Raises AotError naming file, key or node.
    """

    _check_tool()
    for file, what in ((model, "model"), (calibrate, "calibration data")):
        # A second try would start from what the first one made.
        if same_file(output, file):
            raise UsageError(f"-o {output} is the {what} itself")
    progress("load")
    source = _read(model)
    feeds = read_calibration(calibrate, source)
    with tempfile.TemporaryDirectory() as folder:
        progress("fold")
        plain = _folded(source, Path(folder))
        progress("calibrate")
        prepared = prepare(plain, how.format)
        named = [{prepared.new(name): a for name, a in f.items()} for f in feeds]
        made = _quantised(prepared, Path(folder) / "quantised.onnx", named, how)
        progress("compare")
        similarity = _similarity(source, made, feeds[:JUDGED])
    write_bytes(output, made)
    before = source.ByteSize()
    return Report(str(output), len(feeds), before, len(made), similarity)


def _check_tool() -> None:
    """Raise AotError unless onnxruntime is installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise AotError("onnxruntime is not installed", hint="pip install 'aotc[quantize]'")


def _read(path: Path) -> onnx.ModelProto:
    """The float model with its external data, in an opset that has scales per channel."""
    model, folder = read_proto(path)
    check_structure(model, ())
    load_all()  # the records of operators say which texts attributes have
    check_choices(model)
    if folder is not None:
        onnx.external_data_helper.load_external_data_for_model(model, str(folder))
    done = sum(is_quantised(node) for node in model.graph.node)
    if done:
        what = f"the model is quantised already ({done} nodes quantise or work on quantised values)"
        raise ModelError(what, str(path), "give the float32 model")
    _fix_constants(model)
    unique_labels(model.graph)
    if standard_opset(model) < PER_CHANNEL_OPSET:
        try:
            model = run_isolated(lambda m: onnx.version_converter.convert_version(m, OPSET), model)
        except RuntimeError as error:
            what = f"the model cannot be brought to opset {OPSET}: {_one_line(error)}"
            raise ModelError(what, str(path)) from None
    return model


def is_quantised(node: onnx.NodeProto) -> bool:
    """Whether a node quantises, dequantises, or works on quantised values."""
    converts = any(proto_trait(node, kind) is not None for kind in (Quantises, Dequantises))
    return converts or spells.named(node.op_type, node.domain) is not None


def _fix_constants(model: onnx.ModelProto) -> None:
    """Constants that are inputs too, which a caller might override, are constants only."""
    names = {i.name for i in model.graph.initializer}
    kept = [i for i in model.graph.input if i.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.ir_version = max(model.ir_version, LEAST_IR)


def read_calibration(path: Path, model: onnx.ModelProto) -> list[Feeds]:
    """The samples of an .npz, each with every input of the model; AotError if one is missing.

    A key is the name of an input, or a sample's number with it; rows of longer arrays are samples.
    """

    inputs = list(model.graph.input)
    groups: dict[int, dict[str, Array]] = {}
    for key, array in read_npz(path).items():
        number, name = _key(key, [i.name for i in inputs])
        if any(i.name == name for i in inputs):
            groups.setdefault(number, {})[name] = array
    samples: list[Feeds] = []
    for number in sorted(groups):
        samples += _rows(groups[number], inputs, f"{path}, sample {number}")
    if not samples:
        names = ", ".join(i.name for i in inputs)
        raise AotError("no key names an input of the model", str(path), f"inputs: {names}")
    return samples


def _key(key: str, names: Sequence[str]) -> tuple[int, str]:
    """Number of the sample and name of the value."""
    if key in names:
        return 0, key
    named, ordered = _SAMPLE.fullmatch(key), _ORDERED.fullmatch(key)
    if named:
        return int(named[1]), named[2]
    if ordered and int(ordered[2]) < len(names):
        return int(ordered[1]), names[int(ordered[2])]
    return 0, key


def _rows(
    group: Mapping[str, Array], inputs: Sequence[onnx.ValueInfoProto], where: str
) -> Iterator[Feeds]:
    """The samples in one group of arrays: one, or one per row of longer arrays."""
    arrays, counts = {}, set()
    for value in inputs:
        if value.name not in group:
            raise AotError(f'input "{value.name}" is missing', where)
        array = _typed(group[value.name], value, where)
        dims = [max(d.dim_value, 0) for d in value.type.tensor_type.shape.dim]
        arrays[value.name] = array
        counts.add(_count(array, dims, value.name, where))
    if len(counts) > 1:
        listed = ", ".join(map(str, sorted(counts)))
        raise AotError(f"the inputs have different numbers of samples ({listed})", where)
    (count,) = counts or {1}
    for row in range(count):
        # A single sample is whole as it is: its batch may be larger than 1.
        if count == 1:
            yield arrays
        else:
            yield {name: a[row : row + 1] for name, a in arrays.items()}


def _typed(array: Array, value: onnx.ValueInfoProto, where: str) -> Array:
    """An array in the type of the input; AotError for another kind, and for infinities and NaN."""
    wanted = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if array.dtype != wanted and not (array.dtype.kind == "f" and wanted.kind == "f"):
        raise AotError(f'"{value.name}" is {array.dtype}, the input is {wanted}', where)
    array = array.astype(wanted, copy=False)
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise AotError(f'"{value.name}" holds numbers that are not finite', where)
    return array


def _count(array: Array, dims: Sequence[int], name: str, where: str) -> int:
    """Samples in an array for an input of `dims` (0: any size)."""
    fits = array.ndim == len(dims) and all(
        d in (0, s) for d, s in zip(dims[1:], array.shape[1:], strict=True)
    )
    if fits and (not dims or dims[0] in (0, array.shape[0])):
        return 1
    if fits and dims[0] == 1 and array.shape[0]:
        return int(array.shape[0])
    raise AotError(f'"{name}" is {list(array.shape)}, the input {list(dims)} (0: any)', where)


def _folded(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """Constants and batch normalisations folded, by onnxruntime's basic optimisations."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / "folded.onnx")
    options.log_severity_level = 4
    try:
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)
    except Exception as error:
        raise AotError(f"onnxruntime refuses the model: {_one_line(error)}") from error


def _quantised(prepared: Prepared, path: Path, feeds: Sequence[Feeds], how: Quantisation) -> bytes:
    """The bytes of the quantised model."""
    import onnxruntime as ort
    from onnxruntime import quantization as q

    types = {"int8": q.QuantType.QInt8, "uint8": q.QuantType.QUInt8}
    formats = {"qdq": q.QuantFormat.QDQ, "qoperator": q.QuantFormat.QOperator}
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # its advice on preparing the model has been taken
    ort.set_default_logger_severity(FATAL_ONLY)
    try:
        q.quantize_static(
            prepared.model,
            path,
            _reader(feeds),
            quant_format=formats[how.format],
            per_channel=not how.per_tensor,
            activation_type=types[how.activations],
            weight_type=q.QuantType.QInt8,
            nodes_to_exclude=prepared.excluded,
            extra_options={"ActivationSymmetric": False, "WeightSymmetric": True},
        )
        return _tidied(path, prepared)
    except Exception as error:
        raise AotError(f"onnxruntime cannot quantise the model: {_one_line(error)}") from error
    finally:
        root.setLevel(level)
        ort.set_default_logger_severity(WARNINGS)


def _tidied(path: Path, prepared: Prepared) -> bytes:
    """The model in the file with its names, without the opsets it does not use."""
    model = onnx.load(path)
    restore(prepared, model)
    used = {"", *(n.domain for n in model.graph.node)}
    kept = [o for o in model.opset_import if o.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _reader(feeds: Sequence[Feeds]) -> Any:
    """What onnxruntime reads calibration data from."""
    # Imported here: no other command needs onnxruntime's quantiser.
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """The samples in their order."""

        def __init__(self) -> None:
            self._left = iter(feeds)

        def get_next(self) -> dict[str, Array] | None:
            """The next sample, None after the last."""
            found = next(self._left, None)
            return None if found is None else dict(found)

        def __len__(self) -> int:
            return len(feeds)

    return Reader()


def _similarity(
    model: onnx.ModelProto, quantised: bytes, feeds: Sequence[Feeds]
) -> dict[str, float]:
    """Cosine of the results of both models, by output."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    # Its further optimisations, which merge what the quantised values pass through, refuse some
    # valid models.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    names = [o.name for o in model.graph.output]
    found: list[list[list[Array]]] = []
    try:
        for data in (model.SerializeToString(), quantised):
            session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            found.append([session.run(names, dict(f)) for f in feeds])
    except Exception as error:
        raise AotError(f"onnxruntime cannot run the model: {_one_line(error)}") from error
    result = {}
    for index, name in enumerate(names):
        a, b = (np.concatenate([np.ravel(run[index]) for run in runs]) for runs in found)
        if a.dtype.kind == "f" and a.shape == b.shape:
            wide = a.astype(np.float64), b.astype(np.float64)
            scale = float(np.linalg.norm(wide[0]) * np.linalg.norm(wide[1]))
            result[name] = float(wide[0] @ wide[1]) / scale if scale else 1.0
    return result


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
