# SPDX-License-Identifier: Apache-2.0
"""Old operators whose meaning onnx's converter would lose, as operators that mean the same.

Hardmax up to opset 12 takes its input for a matrix; the nearest-neighbour Resize of opset 10 rounds
up where it shrinks; PRelu and arithmetic before opset 7 line up with a named axis; the mask of
Dropout before opset 10 has the type of its input; BatchNormalization up to opset 8 may have numbers
for every element. All functions work on every graph of a model, which they change.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aot.errors import UnsupportedError
from aot.ir.deferred_import import onnx
from aot.ir.graph_nodes import Array
from aot.ir.onnx_subprocess import infer_shapes
from aot.load.check import STANDARD_DOMAINS, all_graphs, node_title, subgraphs

Constants = dict[str, Array | None]

LATER = "aot.later"
"""The domain of nodes that onnx's converter is to leave alone, until `name_later` is called."""

OLD_RESIZE = {"coordinate_transformation_mode": b"asymmetric"}
OLD_LINEAR = (b"bilinear", b"trilinear")
"""What Upsample calls linear, by the number of axes."""


def every_node(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of the graph and of all within."""
    return (n for g in all_graphs(model.graph) for n in g.node)


def is_a(node: onnx.NodeProto, *op_types: str) -> bool:
    """Whether a node is a standard operator of one of these types."""
    return node.op_type in op_types and node.domain in STANDARD_DOMAINS


def has(model: onnx.ModelProto, *op_types: str) -> bool:
    """Whether there is a standard operator of one of these types."""
    return any(is_a(n, *op_types) for n in every_node(model))


def say_later(model: onnx.ModelProto) -> None:
    """Import the domain of nodes that the converter is to leave alone."""
    if all(o.domain != LATER for o in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(LATER, 1))


def name_later(model: onnx.ModelProto) -> None:
    """Give these nodes their own domain back."""
    for node in every_node(model):
        if node.domain == LATER:
            node.domain = ""
    kept = [o for o in model.opset_import if o.domain != LATER]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def _ranks(model: onnx.ModelProto) -> dict[str, int]:
    """How many axes values have, where onnx knows it (0: it may not)."""
    try:
        typed = infer_shapes(model).graph
    except RuntimeError:  # the conversion says why
        return {}
    every = [v for g in all_graphs(typed) for v in (*g.input, *g.value_info, *g.output)]
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in every}
    ranks.update((t.name, len(t.dims)) for g in all_graphs(typed) for t in g.initializer)
    return ranks


def _number(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((int(a.i) for a in node.attribute if a.name == name), default)


def _drop(node: onnx.NodeProto, *names: str) -> None:
    """Remove, in place, attributes of a node by name."""
    kept = [a for a in node.attribute if a.name not in names]
    del node.attribute[:]
    node.attribute.extend(kept)


def _replace(graph: onnx.GraphProto, index: int, made: list[onnx.NodeProto]) -> None:
    """Put nodes in place of one."""
    del graph.node[index]
    for node in reversed(made):
        graph.node.insert(index, node)


def flatten_hardmax(model: onnx.ModelProto) -> None:
    """Make Hardmax of opset 11 and 12, which sees a matrix whose rows start at `axis`, say so.

    Before: y = Hardmax(x, axis=1)      After: m = Hardmax(Flatten(x, axis=1), axis=1)
            x: [2, 3, 4]                       y = Reshape(m, Shape(x))
    """
    ranks = _ranks(model)
    for graph in list(all_graphs(model.graph)):
        # From the last node on: what replaces a node does not change the numbers of those before
        # it.
        for index in reversed(range(len(graph.node))):
            node = graph.node[index]
            if not is_a(node, "Hardmax"):
                continue
            x, y, axis = node.input[0], node.output[0], _number(node, "axis", 1)
            rank = ranks.get(x, 0)
            _drop(node, "axis")
            if rank and axis in (-1, rank - 1):
                node.attribute.add(name="axis", type=2, i=-1)
                continue
            flat, chosen, shape = (f"{y} {what}" for what in ("flat", "chosen", "shape"))
            node.attribute.add(name="axis", type=2, i=1)
            node.input[0], node.output[0] = flat, chosen
            hardmax = type(node)()
            hardmax.CopyFrom(node)
            around = [
                onnx.helper.make_node("Flatten", [x], [flat], axis=axis),
                hardmax,
                onnx.helper.make_node("Shape", [x], [shape]),
                onnx.helper.make_node("Reshape", [chosen, shape], [y]),
            ]
            _replace(graph, index, around)


def keep_old_resize(model: onnx.ModelProto) -> None:
    """Spell out, in opset 11, how Resize and Upsample up to opset 10 take samples.

    At x * (in / out); the nearest element is the one below where an axis grows and the one above
    where it shrinks. A node that does both becomes two.
    """
    _old_resizes(model.graph, {})


def _old_resizes(graph: onnx.GraphProto, outer: Constants) -> None:
    """Replace, in place, every Resize of `graph` and its bodies; `outer` are constants around."""
    known = {**outer, **_constants(graph)}
    for index in reversed(range(len(graph.node))):
        node = graph.node[index]
        for inner in subgraphs(node):
            _old_resizes(inner, known)
        if is_a(node, "Resize"):
            scales = known.get(node.input[2]) if len(node.input) > 2 else None
            _replace(graph, index, _old_resize(node, scales))


def _constants(graph: onnx.GraphProto) -> Constants:
    """Values that every run has by name; None for others, which hide those of graphs around."""
    found: Constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    found.update((i.name, None) for i in graph.input)
    for node in graph.node:
        found.update((o, None) for o in node.output)
        value = next((a.t for a in node.attribute if a.name == "value"), None)
        if node.op_type == "Constant" and value is not None:
            found[node.output[0]] = onnx.numpy_helper.to_array(value)
    return found


def _old_resize(node: onnx.NodeProto, scales: Array | None) -> list[onnx.NodeProto]:
    """Nodes that resize as opset 10 did: rounding depends on whether an axis grows or shrinks."""
    _drop(node, *OLD_RESIZE, "nearest_mode")
    for name, value in OLD_RESIZE.items():
        node.attribute.add(name=name, type=3, s=value)
    mode = next((a.s for a in node.attribute if a.name == "mode"), b"nearest")
    if mode in OLD_LINEAR:
        _drop(node, "mode")
        node.attribute.add(name="mode", type=3, s=b"linear")
    kept = type(node)()
    kept.CopyFrom(node)
    grows, shrinks = (scales is None or bool(c.any()) for c in _changes(scales))
    # Nearest of axes that grow and of axes that shrink takes two nodes.
    if mode != b"nearest" or not (grows and shrinks):
        kept.attribute.add(name="nearest_mode", type=3, s=b"ceil" if shrinks else b"floor")
        return [kept]
    y, one = node.output[0], f"{node.output[0]} one"
    made = [
        onnx.helper.make_node("Constant", [], [one], value=onnx.numpy_helper.from_array(ONE, one))
    ]
    source = node.input[0]
    for op_type, rounding, result in (("Min", b"ceil", f"{y} less"), ("Max", b"floor", y)):
        part = type(node)()
        part.CopyFrom(node)
        part.input[0], part.input[2], part.output[0] = source, f"{y} {op_type}", result
        part.attribute.add(name="nearest_mode", type=3, s=rounding)
        made.append(onnx.helper.make_node(op_type, [node.input[2], one], [f"{y} {op_type}"]))
        made.append(part)
        source = result
    return made


ONE = np.ones(1, np.float32)


def _changes(scales: Array | None) -> tuple[Array, Array]:
    """Where scales make longer and where shorter."""
    factors = ONE if scales is None else scales
    return factors > 1, factors < 1


def line_up(model: onnx.ModelProto) -> None:
    """Give second operands before opset 7 axes of extent 1 behind those they line up with.

    Before: y = PRelu(x, s[C])            After: y = PRelu(x, Unsqueeze(s, axes=[1, 2]))
            z = Add(x, b[C],                     z = Add(x, Unsqueeze(b, axes=[1, 2]),
                    broadcast=1, axis=1)                 broadcast=1)
    """
    ranks = _ranks(model)
    for graph in list(all_graphs(model.graph)):
        for index in reversed(range(len(graph.node))):
            node = graph.node[index]
            behind = _axes_behind(node, ranks)
            if behind:
                second, spread = node.input[1], f"{node.output[0]}_spread"
                node.input[1] = spread
                _drop(node, "axis")
                made = onnx.helper.make_node("Unsqueeze", [second], [spread], axes=behind)
                graph.node.insert(index, made)


def _axes_behind(node: onnx.NodeProto, ranks: dict[str, int]) -> list[int]:
    """The axes that the second operand of an old operator lacks at its end."""
    if node.domain not in STANDARD_DOMAINS or len(node.input) != 2:
        return []
    rank, own = (ranks.get(name, 0) for name in node.input)
    if is_a(node, "PRelu"):
        return list(range(1, rank - 1)) if rank > 2 and own == 1 else []
    axis = next((int(a.i) for a in node.attribute if a.name == "axis"), None)
    if axis is None or not _number(node, "broadcast", 0):
        return []
    lacking = rank - (axis + rank if axis < 0 else axis) - own
    return list(range(own, own + lacking)) if own and lacking > 0 else []


def type_masks(model: onnx.ModelProto) -> None:
    """Masks of Dropout before opset 10 have the type of what is dropped, today they are bool.

    Before: y, m = Dropout(x)      After: y, b = Dropout(x)
                                          m = CastLike(b, x)
    """
    for graph in list(all_graphs(model.graph)):
        for index in reversed(range(len(graph.node))):
            node = graph.node[index]
            mask = node.output[1] if len(node.output) > 1 else ""
            if is_a(node, "Dropout") and mask:
                node.output[1] = f"{mask} kept"
                like = [node.output[1], node.input[0]]
                cast = onnx.helper.make_node("CastLike", like, [mask], domain=LATER)
                graph.node.insert(index + 1, cast)
                say_later(model)


def refuse_training(model: onnx.ModelProto) -> None:
    """UnsupportedError for what trains before opset 7: is_test 0, and outputs that only that has.

    With one output a node is taken for one of inference: exporters of that time left is_test out.
    """
    for node in every_node(model):
        trains = is_a(node, "BatchNormalization", "Dropout") and not _number(node, "is_test", 0)
        if trains and sum(bool(name) for name in node.output) > 1:
            what = f"{node_title(node)}: is_test 0 with the outputs of training"
            raise UnsupportedError(what, hint="export the model for inference")


def spell_normalizations(model: onnx.ModelProto, version: int) -> None:
    """BatchNormalization with numbers for every element of a sample (spatial=0).

    Before: y = BatchNormalization(x, s, b, mean, var, spatial=0)
    After: y = (x - mean) / Sqrt(var + epsilon) * s + b
    """
    for graph in list(all_graphs(model.graph)):
        for index in reversed(range(len(graph.node))):
            node = graph.node[index]
            if is_a(node, "BatchNormalization") and not _number(node, "spatial", 1):
                if version < 7 or len(node.output) != 1:
                    more = "before opset 7" if version < 7 else "with statistics as outputs"
                    what = f"{node_title(node)}: spatial 0 {more}"
                    raise UnsupportedError(what, hint="export the model with a newer opset")
                _replace(graph, index, _by_element(node))
                say_later(model)


def _by_element(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes of a BatchNormalization that has parameters of one sample's shape (spatial=0).

    They broadcast over the first axis. The type of epsilon (1e-5 unless given) is that of
    `variance`, by a CastLike of a later opset than the model's: in the domain LATER, until all
    is converted.
    """
    x, scale, bias, mean, variance = node.input
    y = node.output[0]
    small = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    constant = onnx.numpy_helper.from_array(np.full(1, small, np.float32), f"{y} epsilon")
    names = ("single", "epsilon", "centred", "variance", "deviation", "normal", "scaled")
    single, epsilon, centred, wider, deviation, normal, scaled = (f"{y} {name}" for name in names)
    return [
        onnx.helper.make_node("Constant", [], [single], value=constant),
        onnx.helper.make_node("CastLike", [single, variance], [epsilon], domain=LATER),
        onnx.helper.make_node("Sub", [x, mean], [centred]),
        onnx.helper.make_node("Add", [variance, epsilon], [wider]),
        onnx.helper.make_node("Sqrt", [wider], [deviation]),
        onnx.helper.make_node("Div", [centred, deviation], [normal]),
        onnx.helper.make_node("Mul", [normal, scale], [scaled]),
        onnx.helper.make_node("Add", [scaled, bias], [y], name=node.name),
    ]
