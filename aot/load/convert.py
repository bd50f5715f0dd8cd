# SPDX-License-Identifier: Apache-2.0
"""To the canonical opset with onnx's own converter, big constants held back."""

from __future__ import annotations

import re

from aot.errors import ModelError
from aot.ir.deferred_import import onnx
from aot.ir.onnx_subprocess import ProcessDied, first_refused, reason_of, run_isolated
from aot.ir.opset import canonical_opset
from aot.load.batchscan import spell_batch_scans
from aot.load.check import node_title
from aot.load.older import (
    every_node,
    flatten_hardmax,
    has,
    keep_old_resize,
    line_up,
    name_later,
    refuse_training,
    spell_normalizations,
    type_masks,
)

#: Models are raised to it: old versions of the IR want every constant among the inputs.
MIN_IR_VERSION = 8
# The opsets since when operators mean something else than before (`older`): Resize samples as it
# is told, Hardmax works along one axis, shapes are broadcast from their last axes on, Scan has no
# batch axis, BatchNormalization is always spatial, the mask of Dropout is bool.
RESIZE_CHANGE = 11
HARDMAX_CHANGE = 13
BROADCAST_CHANGE = 7
SCAN_CHANGE = 9
SPATIAL_CHANGE = 9
MASK_CHANGE = 10

NO_ADAPTER = re.compile(r"No Adapter.* [Ff]or (\w+)")


def standard_opset(model: onnx.ModelProto) -> int:
    """The version of the standard operators the model uses (0: none)."""
    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    return max(versions, default=0)


def to_canonical(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` in the canonical opset with the same values; ModelError if onnx cannot convert it.

    The model has static inputs and no large constants.
    """
    version, target = standard_opset(model), canonical_opset()
    if version > target:
        hint = "install a newer onnx"
        raise ModelError(f"the model uses opset {version}, onnx knows up to {target}", hint=hint)
    if version < 1 and not any(n.domain in ("", "ai.onnx") for n in model.graph.node):
        # Passes write operators of ONNX, whatever the model itself uses.
        model.opset_import.append(onnx.helper.make_opsetid("", target))
        return model
    model.ir_version = max(model.ir_version, MIN_IR_VERSION)
    if version == target or _means_the_same(model, version, target):
        _set_opset(model, target)
        return model
    metadata = _node_metadata(model)
    model = _convert(_keep_meanings(model, version), target)
    name_later(model)
    _restore_metadata(model, metadata)
    return model


def _keep_meanings(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """The model in its own opset or a later one, without what onnx's converter gets wrong."""
    # The oldest changes come first: each step may convert to the opset before the next one.
    if version < BROADCAST_CHANGE:
        refuse_training(model)
        line_up(model)
    if version < SPATIAL_CHANGE:
        spell_normalizations(model, version)
    if version < MASK_CHANGE:
        type_masks(model)
    if version < SCAN_CHANGE:
        spell_batch_scans(model)
    # A conversion takes time and may fail, so only models with these operators pay for it.
    if version < RESIZE_CHANGE and has(model, "Upsample", "Resize"):
        model = _convert(model, RESIZE_CHANGE)
        keep_old_resize(model)
    if version < HARDMAX_CHANGE and has(model, "Hardmax"):
        if standard_opset(model) < HARDMAX_CHANGE - 1:
            model = _convert(model, HARDMAX_CHANGE - 1)
        flatten_hardmax(model)
    return model


def _means_the_same(model: onnx.ModelProto, version: int, target: int) -> bool:
    """Whether no operator of the model has changed between two opsets."""
    try:
        for op_type in {n.op_type for n in every_node(model) if n.domain in ("", "ai.onnx")}:
            old, new = (onnx.defs.get_schema(op_type, v).since_version for v in (version, target))
            if old != new:
                return False
    except onnx.defs.SchemaError:  # the conversion says what is wrong
        return False
    return True


def _set_opset(model: onnx.ModelProto, target: int) -> None:
    """Say, in place, that the model uses opset `target` of ONNX."""
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = target


def _convert(model: onnx.ModelProto, target: int) -> onnx.ModelProto:
    """The model in opset `target` by onnx's converter, in a process of its own.

    ModelError if the converter refuses the model; its death is an error with the node that kills
    it.
    """
    version = standard_opset(model)
    try:
        converted = run_isolated(lambda m: onnx.version_converter.convert_version(m, target), model)
    except ProcessDied as e:
        raise undone(model, f"onnx's conversion from opset {version} to {target} {e}") from None
    except (RuntimeError, ValueError) as e:
        what = f"the model cannot be brought from opset {version} to {target}: {_said(e)}"
        raise ModelError(what, hint="export the model with a newer opset") from None
    _drop_converted_shapes(converted)
    return converted


def _said(error: Exception) -> str:
    """What onnx's converter refuses, without where in its source."""
    text = " ".join(str(error).split())
    missing = NO_ADAPTER.search(text)
    if missing:
        return f"onnx's converter has no rule for {missing[1]} of that age"
    return text.partition(" failed: ")[2][:400] or text[:400]


def undone(model: onnx.ModelProto, what: str) -> ModelError:
    """What to say of a model that onnx did not survive: its first bad node, else `what`."""
    refused = first_refused(model)
    if refused is None:
        return ModelError(what, hint="export the model with a newer opset")
    index, reason = refused
    said = f"onnx's inference {reason}" if isinstance(reason, ProcessDied) else reason_of(reason)
    return ModelError(f"{node_title(model.graph.node[index], index)}: {said}")


def _drop_converted_shapes(model: onnx.ModelProto) -> None:
    """Drop the shapes that the converter inferred by the rules of the old opset.

    Before opset 22 they count pooling windows that start behind the input (ceil_mode). What nodes
    of other domains give stays: nobody else knows it.
    """
    known = {o for n in model.graph.node if n.domain in ("", "ai.onnx") for o in n.output}
    kept = [v for v in model.graph.value_info if v.name not in known]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
    for value in model.graph.output:
        if value.name in known and value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")


def _node_metadata(model: onnx.ModelProto) -> dict[str, list[tuple[str, str]]]:
    """Properties (key, value) of nodes by the name of their first output: the converter
    drops them.
    """
    found = {}
    for node in every_node(model):
        if node.metadata_props and node.output:
            found[node.output[0]] = [(p.key, p.value) for p in node.metadata_props]
    return found


def _restore_metadata(model: onnx.ModelProto, found: dict[str, list[tuple[str, str]]]) -> None:
    """The converter drops what users wrote about nodes."""
    if not found:
        return
    for node in every_node(model):
        if node.output and not node.metadata_props:
            for key, value in found.get(node.output[0], ()):
                node.metadata_props.add(key=key, value=value)
