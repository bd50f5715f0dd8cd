# SPDX-License-Identifier: Apache-2.0
"""ONNX file to checked graph: one opset, static shapes, every value typed, C names.

Reading trusts nothing: see `source`, `external` and `check` for what is refused and why.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from aot.errors import ModelError
from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_edit import graphs, hoist_constants
from aot.ir.graph_nodes import NOTES
from aot.ir.onnx_subprocess import ProcessDied, infer_shapes
from aot.load import names, weights
from aot.load.check import ADOPTED, all_graphs, check_details, check_structure
from aot.load.choices import check_choices
from aot.load.containers import open_inputs
from aot.load.convert import MIN_IR_VERSION, to_canonical, undone
from aot.load.dump import model_text
from aot.load.encode_strings import open_strings
from aot.load.flags import check_flags
from aot.load.functions import check_functions, inline_functions
from aot.load.maps import drop_maps
from aot.load.options import LoadOptions
from aot.load.outputs import separate_outputs
from aot.load.pin import pin
from aot.load.respell import respell
from aot.load.source import read_proto
from aot.shapes.infer import infer

__all__ = [
    "LoadOptions",
    "load",
    "model_text",
]


def load(source: Any, options: LoadOptions | None = None) -> ir.Model:
    """The model in the canonical opset, statically shaped and typed, with C identifiers as names.

    `source` is a path, the bytes of a file, a ModelProto or an onnx_ir.Model (not changed).
    Raises ModelError or UnsupportedError, naming node, value and dimension.
    """

    options = options or LoadOptions()
    proto, folder = read_proto(source)
    check_structure(proto, options.claimed)
    check_functions(proto, options)
    light, big = weights.split(proto, folder)
    notes = drop_maps(light)
    options = open_inputs(light.graph, options)
    dimensions, batches = pin(light.graph, options)
    pinned = bool(options.dims or options.input_shapes or options.bindings or batches)
    hints = _drop_output_shapes(light)
    weights.stand_in(light.graph, big)
    light.ir_version = max(light.ir_version, MIN_IR_VERSION)
    _name_domains(light)
    check_details(light)
    check_flags(light)
    check_choices(light, options.claimed)
    _say_onesided(light)
    _open_outputs(light)
    light = inline_functions(light, options)
    check_choices(light, options.claimed)  # texts and numbers that functions were given
    light = _without_shapes(respell(to_canonical(light)))
    model = _to_ir(light if dimensions else _with_shapes(light))
    model.graph.meta[NOTES] = (*notes, *batches)
    weights.attach(model.graph, big)
    names.remember_names(model)
    for graph in graphs(model):
        hoist_constants(graph)
        separate_outputs(graph)
    infer(
        model,
        hints,
        options.rules,
        options.max_string,
        dimensions,
        pinned,
        options.counts,
        options.states,
    )
    open_strings(model, options.max_string)
    names.name_everything(model)
    return model


def _to_ir(light: onnx.ModelProto) -> ir.Model:
    """The model as an onnx_ir graph; ModelError if onnx_ir does not take it."""
    try:
        model: ir.Model = ir.from_proto(light)
    except Exception as e:  # onnx_ir wraps whatever it meets
        text = " ".join(str(e.__cause__ or e).split())[:300]
        raise ModelError(f"not valid ONNX: {text}") from None
    return model


def _drop_output_shapes(light: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Drop declared shapes of outputs and inner values (inference finds them); return them."""
    hints = {info.name: deepcopy(info.type) for info in light.graph.output}
    for info in light.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.shape.Clear()
            info.type.tensor_type.shape.SetInParent()
    return hints


def _say_onesided(light: onnx.ModelProto) -> None:
    """Spell out that an STFT is one-sided: onnx's inference takes the default for 0."""
    for graph in all_graphs(light.graph):
        for node in graph.node:
            if node.op_type == "STFT" and not any(a.name == "onesided" for a in node.attribute):
                node.attribute.add(name="onesided", type=2, i=1)


def _name_domains(light: onnx.ModelProto) -> None:
    """Put, in place, operators that onnxruntime adds to ONNX's domain into its own,
    com.microsoft.
    """
    found = False
    for graph in (*all_graphs(light.graph), *light.functions):
        for node in graph.node:
            if node.domain in ("", "ai.onnx") and node.op_type in ADOPTED:
                node.domain = "com.microsoft"
                found = True
    if found and all(o.domain != "com.microsoft" for o in light.opset_import):
        light.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))


def _open_outputs(light: onnx.ModelProto) -> None:
    """Leave the outputs' shapes to inference (onnx's checker wants one, so only after it)."""
    known = {i.name: i.type for i in light.graph.input}
    for tensor in light.graph.initializer:
        known[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    for info in light.graph.output:
        if info.name in known:
            info.type.CopyFrom(known[info.name])
        elif info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")


def _without_shapes(light: onnx.ModelProto) -> onnx.ModelProto:
    """The model with types of inputs only: onnx takes bounds for what every run has, and shapes
    that a body declares of its results may be of other sizes than the file has now.

    An output that is a constant keeps its shape: without it, onnx's inference reads operands that
    are this constant (the axes of a Slice) as absent.
    """
    kept = {i.name for i in light.graph.input} | {
        c.name for graph in all_graphs(light.graph) for c in graph.initializer
    }
    for graph in all_graphs(light.graph):
        del graph.value_info[:]
        for info in graph.output:
            if info.name not in kept and info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")
    return light


def _with_shapes(light: onnx.ModelProto) -> onnx.ModelProto:
    """What onnx can infer in one sweep; where it fails, our own sweep will say why."""
    try:
        return infer_shapes(light, strict_mode=True)
    except RuntimeError as error:
        if isinstance(error, ProcessDied) and error.late:
            raise undone(light, f"onnx's inference {error}") from None
        return light
