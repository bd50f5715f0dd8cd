# SPDX-License-Identifier: Apache-2.0
"""Weights that several nodes read are one constant, and products read it as it is stored.

Before: e = Gather(w, ids); y = MatMul(x, Transpose(w))      After: y = Gemm(x, w, transB=1)
Before: e = Gather(w, ids); y = MatMul(x, t), t equal to w transposed      After: the same
An x of more axes than two is reshaped around the Gemm. `share_constants` merges equal constants;
the pass `shared_weights` leaves nobody a transposed copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, graphs
from aot.ir.graph_nodes import Array, array, attribute, constant, elements_of, operand, shape_of
from aot.ir.operators import Linear, required_trait, trait_of
from aot.load.options import LoadOptions
from aot.normalise.transposes import turns_axes
from aot.shapes.limits import SMALL_ELEMENTS

#: Elements of a large constant that are compared before all of them are.
SAMPLE = 64
#: Types of matrices that products read as they are stored; bfloat16 where the CPU has it.
READ = ("FLOAT", "BFLOAT16")


def share_constants(model: ir.Model) -> None:
    """Let large constants of equal type, shape and bits be one; `cse` merges small ones."""
    for graph in graphs(model):
        first: dict[tuple[object, ...], list[ir.Value]] = {}
        for value in _large(graph):
            data = elements_of(value)
            known = first.setdefault((value.dtype, data.shape, _sample(data).tobytes()), [])
            same = next((v for v in known if _equal(array(v), data)), None)
            if same is None:
                known.append(value)
            else:
                value.replace_all_uses_with(same)


def _large(graph: ir.Graph) -> Iterator[ir.Value]:
    """Constants of more than SMALL_ELEMENTS elements that nodes read and the graph gives nobody."""
    for value in graph.initializers.values():
        tensor = constant(value)
        large = tensor is not None and tensor.size > SMALL_ELEMENTS
        if large and value.uses() and not value.is_graph_output():
            yield value


def _sample(data: Array) -> Array:
    """SAMPLE elements at even distances."""
    return data.ravel(order="K")[:: max(1, data.size // SAMPLE)][:SAMPLE]


def _equal(left: Array | None, right: Array) -> bool:
    """Whether all bits are equal; a part at a time, which tells most pairs apart at once."""
    if left is None or left.shape != right.shape or left.dtype != right.dtype:
        return False
    width = f"u{left.itemsize}" if left.itemsize in (1, 2, 4, 8) else left.dtype
    rows = max(1, (1 << 20) // max(1, prod(left.shape[1:])))
    parts = range(0, left.shape[0], rows)
    pairs = ((left[i : i + rows], right[i : i + rows]) for i in parts)
    return all(
        np.array_equal(np.ascontiguousarray(a).view(width), np.ascontiguousarray(b).view(width))
        for a, b in pairs
    )


def shared_weights(edit: Editor, options: LoadOptions) -> None:
    """Let products of READ read a matrix W where they read its transposed copy, as Gemm(transB).

    The copy is Transpose(W) where W has other readers too, or a second constant with the elements
    of W transposed. It stays if a node other than a product reads it, or if it is a graph output.
    """
    matrices = [v for v in _large(edit.graph) if v.dtype is not None and len(shape_of(v)) == 2]
    by_shape: dict[tuple[int, ...], list[ir.Value]] = {}
    for value in matrices:
        if value.dtype is not None and value.dtype.name in READ:
            by_shape.setdefault(shape_of(value), []).append(value)
    for value in [v for group in by_shape.values() for v in group]:
        for transposed in _transposed(value, by_shape):
            readers = [u.node for u in transposed.uses()]
            if transposed.is_graph_output() or not all(_multiplies(n, transposed) for n in readers):
                continue
            for node in readers:
                _read_transposed(edit, node, value)


def _transposed(
    value: ir.Value, by_shape: dict[tuple[int, ...], list[ir.Value]]
) -> Iterable[ir.Value]:
    """The transposed copies of the matrix `value`: results of Transpose, if `value` has other
    readers as well, and constants."""
    users = [u.node for u in value.uses()]
    nodes = [n for n in users if turns_axes(n)]
    if len(nodes) < len(users):
        yield from (n.outputs[0] for n in nodes)
    shape, data = shape_of(value)[::-1], elements_of(value)
    for other in by_shape.get(shape, ()):
        there = array(other)
        if other is value or there is None or not other.uses():
            continue
        if _sample_transposed(data, there) and _equal(np.asarray(there).T, data):
            yield other


def _sample_transposed(data: Array, other: Array) -> bool:
    """Whether some elements of `data` are those of `other` transposed."""
    rows, columns = data.shape
    i = np.arange(SAMPLE) * 7919
    return bool(np.array_equal(data[i % rows, i % columns], other[i % columns, i % rows]))


def _multiplies(node: ir.Node, weights: ir.Value) -> bool:
    """Whether a node only multiplies matrices by `weights` from the right."""
    if node.domain or trait_of(node, Linear) is None:
        return False
    places = [i for i, v in enumerate(node.inputs) if v is weights]
    x = node.inputs[0]
    fits = places == [1] and x is not None and len(shape_of(x)) >= 2
    return fits and not attribute(node, "transA", 0) and float(attribute(node, "alpha", 1.0)) == 1.0


def _read_transposed(edit: Editor, node: ir.Node, weights: ir.Value) -> None:
    """Let a product read `weights` [n, k] instead of its second operand, their copy [k, n]."""
    product = required_trait(node, Linear)
    # Gemm says by an attribute that its weights are transposed.
    if turns := product.transposed:
        edit.set_attribute(node, turns, 1 - int(attribute(node, turns, 0)))
        edit.set_input(node, 1, weights)
        return
    x, y = operand(node, 0), node.outputs[0]
    flat, columns = (prod(shape_of(x)[:-1]), shape_of(x)[-1]), shape_of(weights)[0]
    # Other products have no such attribute: they become a Gemm, which has two axes.
    if len(shape_of(x)) > 2:
        to = edit.ints(flat, f"{node.name}_rows")
        x = edit.node("Reshape", [x, to], before=node, shape=flat)
    shape = (flat[0], columns)
    made = edit.node("Gemm", [x, weights], {"transB": 1}, before=node, shape=shape)
    if shape != shape_of(y):
        to = edit.ints(shape_of(y), f"{node.name}_shape")
        made = edit.node("Reshape", [made, to], before=node, shape=shape_of(y))
    edit.replace(y, made)
    edit.remove(node)
