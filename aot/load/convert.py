# SPDX-License-Identifier: Apache-2.0
"""To the canonical opset with onnx's own converter, big constants held back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from aot.apart import Died, apart, first_refused, infer_shapes, reason_of
from aot.errors import ModelError
from aot.load.batchscan import name_scans, spell_batch_scans
from aot.load.check import all_graphs, node_title

if TYPE_CHECKING:
    import onnx

MIN_IR_VERSION = 8
# Up to opset 10 Resize and Upsample sample at x * (in / out), rounded down.
RESIZE_CHANGE = 10
OLD_RESIZE = {"coordinate_transformation_mode": b"asymmetric", "nearest_mode": b"floor"}

# Before opset 7 the slopes of PRelu belong to axis 1, since then to the last one.
SLOPES_CHANGE = 7
# Up to opset 8 Scan has a batch axis.
SCAN_CHANGE = 9


def canonical_opset() -> int:
    """The newest opset the installed onnx knows."""
    from onnx import defs

    return int(defs.onnx_opset_version())


def standard_opset(model: onnx.ModelProto) -> int:
    """The version of the standard operators the model uses (0: none)."""
    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    return max(versions, default=0)


def to_canonical(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` (no big constants, static inputs) in the canonical opset, same values."""
    from onnx import helper

    version, target = standard_opset(model), canonical_opset()
    if version > target:
        hint = "install a newer onnx"
        raise ModelError(f"the model uses opset {version}, onnx knows up to {target}", hint=hint)
    if version < 1 and not any(n.domain in ("", "ai.onnx") for n in model.graph.node):
        # Passes write operators of ONNX, whatever the model itself uses.
        model.opset_import.append(helper.make_opsetid("", target))
        return model
    model.ir_version = max(model.ir_version, MIN_IR_VERSION)
    if version == target or _means_the_same(model, version, target):
        _set_opset(model, target)
        return model
    metadata = _node_metadata(model)
    if version <= RESIZE_CHANGE and _has_old_resize(model):
        model = _convert(model, RESIZE_CHANGE + 1) if version < RESIZE_CHANGE + 1 else model
        _keep_old_resize(model)
    if version < SLOPES_CHANGE:
        _spread_slopes(model)
    scans = version < SCAN_CHANGE and spell_batch_scans(model)
    model = _convert(model, target)
    if scans:
        name_scans(model)
    _restore_metadata(model, metadata)
    return model


def _means_the_same(model: onnx.ModelProto, version: int, target: int) -> bool:
    """Whether no operator of the model has changed between two opsets."""
    from onnx.defs import SchemaError, get_schema

    try:
        for op_type in {n.op_type for n in _every_node(model) if n.domain in ("", "ai.onnx")}:
            old, new = (get_schema(op_type, v).since_version for v in (version, target))
            if old != new:
                return False
    except SchemaError:  # the conversion says what is wrong
        return False
    return True


def _set_opset(model: onnx.ModelProto, target: int) -> None:
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = target


def _convert(model: onnx.ModelProto, target: int) -> onnx.ModelProto:
    from onnx import version_converter

    version = standard_opset(model)
    try:
        converted = apart(lambda m: version_converter.convert_version(m, target), model)
    except Died as e:
        raise undone(model, f"onnx's conversion from opset {version} to {target} {e}") from None
    except (RuntimeError, ValueError) as e:
        text = " ".join(str(e).split())[:400]
        what = f"the model cannot be brought from opset {version} to {target}: {text}"
        raise ModelError(what, hint="export the model with a newer opset") from None
    _forget_old_shapes(converted)
    return converted


def undone(model: onnx.ModelProto, what: str) -> ModelError:
    """What to say of a model that onnx did not survive: its first bad node, else `what`."""
    refused = first_refused(model)
    if refused is None:
        return ModelError(what, hint="export the model with a newer opset")
    index, reason = refused
    said = f"onnx's inference {reason}" if isinstance(reason, Died) else reason_of(reason)
    return ModelError(f"{node_title(model.graph.node[index], index)}: {said}")


def _forget_old_shapes(model: onnx.ModelProto) -> None:
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


def _spread_slopes(model: onnx.ModelProto) -> None:
    """Give the slopes of every PRelu axes of extent 1 behind the channels.

    Before: y = PRelu(x, s[C])      After: y = PRelu(x, Unsqueeze(s, axes=[1, 2 … rank(x) - 2]))
    """
    from onnx import helper

    if not any(n.op_type == "PRelu" for n in _every_node(model)):
        return
    try:
        typed = infer_shapes(model).graph
    except RuntimeError:  # the conversion says why
        return
    every = [v for g in all_graphs(typed) for v in (*g.input, *g.value_info, *g.output)]
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in every}
    ranks.update((t.name, len(t.dims)) for g in all_graphs(typed) for t in g.initializer)
    for graph in list(all_graphs(model.graph)):
        for index in reversed(range(len(graph.node))):
            node = graph.node[index]
            rank, slopes = ranks.get(node.input[0], 0) if node.input else 0, node.input[1:2]
            if node.op_type == "PRelu" and rank > 2 and ranks.get(slopes[0]) == 1:
                node.input[1] = f"{node.output[0]}_slopes"
                spread = list(range(1, rank - 1))
                made = helper.make_node("Unsqueeze", slopes, [node.input[1]], axes=spread)
                graph.node.insert(index, made)


def _every_node(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of the graph and of all within."""
    return (n for g in all_graphs(model.graph) for n in g.node)


def _has_old_resize(model: onnx.ModelProto) -> bool:
    return any(n.op_type in ("Upsample", "Resize") and not n.domain for n in _every_node(model))


def _keep_old_resize(model: onnx.ModelProto) -> None:
    """Spell out the sampling rule old models had as their only one."""
    for node in _every_node(model):
        if node.op_type == "Resize" and not node.domain:
            kept = [a for a in node.attribute if a.name not in OLD_RESIZE]
            del node.attribute[:]
            node.attribute.extend(kept)
            for name, value in OLD_RESIZE.items():
                node.attribute.add(name=name, type=3, s=value)


def _node_metadata(model: onnx.ModelProto) -> dict[str, list[tuple[str, str]]]:
    found = {}
    for node in _every_node(model):
        if node.metadata_props and node.output:
            found[node.output[0]] = [(p.key, p.value) for p in node.metadata_props]
    return found


def _restore_metadata(model: onnx.ModelProto, found: dict[str, list[tuple[str, str]]]) -> None:
    """The converter drops what users wrote about nodes."""
    if not found:
        return
    for node in _every_node(model):
        if node.output and not node.metadata_props:
            for key, value in found.get(node.output[0], ()):
                node.metadata_props.add(key=key, value=value)
