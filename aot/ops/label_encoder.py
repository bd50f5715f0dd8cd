# SPDX-License-Identifier: Apache-2.0
"""LabelEncoder of ai.onnx.ml: a table from keys to values, each strings or numbers.

Before: y = LabelEncoder(x; keys, values, default)
After: y = Where(found, Gather(values, place), default), of numbers
       y = Gather([values, default], place), where the keys or the values are strings
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aot.errors import ModelError
from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import TEXT, attribute, dtype_of, set_type, shape_of, title
from aot.load.encode_strings import Strings, encodes
from aot.normalise.decompose import FLOAT, INT64, Body, decompose
from aot.ops.ml import ML, STRING, matches
from aot.shapes.dynamic.rules import dynamic, every_axis, needed
from aot.shapes.types import Type, infer_types, need

dynamic("LabelEncoder", ML)(every_axis)


@infer_types("LabelEncoder", ML)
def _encode_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The type of the result: that of the values, in the shape of the input."""
    shape = need(types, 0)[1]
    tensor = attribute(node, "values_tensor", None)
    if tensor is not None:
        return [(int(tensor.dtype), shape)]
    for name, kind in (("values_floats", FLOAT), ("values_int64s", INT64)):
        if attribute(node, name, None):
            return [(kind, shape)]
    return [(STRING, shape)]


def _table(b: Body, what: str) -> np.ndarray[Any, Any] | None:
    """The `keys` or `values` (`what`) of a LabelEncoder as numbers; None if they are strings or
    absent.
    """
    tensor = attribute(b.node, f"{what}_tensor", None)
    if tensor is not None:
        found = np.asarray(tensor.numpy())
        return found if found.dtype.kind in "if" else None
    for name, kind in (("floats", np.float32), ("int64s", np.int64)):
        given = attribute(b.node, f"{what}_{name}", None)
        if given:
            return np.array(given, kind)
    return None


def _default(b: Body, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The value for a key that is not found, as an array of shape () in the type of `values`."""
    tensor = attribute(b.node, "default_tensor", None)
    if tensor is not None:
        return np.asarray(tensor.numpy(), values.dtype).reshape(())
    if values.dtype.kind == "f":
        return np.array(attribute(b.node, "default_float", -0.0), values.dtype)
    return np.array(attribute(b.node, "default_int64", -1), values.dtype)


@decompose("LabelEncoder", ML)
def _label_encoder(b: Body) -> bool:
    """Decompose a LabelEncoder of numbers: compare with all keys, gather the value of the one that
    fits.

    Refused where keys or values are strings or absent.
    """
    keys, values = _table(b, "keys"), _table(b, "values")
    if keys is None or values is None or keys.size == 0:
        return b.refuse("keys or values that are none, or of another type than numbers")
    hits = matches(b, "i0", keys)
    place = b.add("ArgMax", hits, axis=-1, keepdims=0)
    found = b.add("Cast", b.add("ReduceMax", hits, b.ints(-1), keepdims=0), to=9)
    b.add("Where", found, b.add("Gather", b.data(values), place), b.data(_default(b, values)))
    b.nodes[-1].output[0] = "o0"
    return True


def _words_or_numbers(node: ir.Node, what: str) -> np.ndarray[Any, Any]:
    """The `keys` or `values` (`what`) of a LabelEncoder as an array: objects for strings, else
    numbers.

    ModelError if it has none.
    """
    tensor = attribute(node, f"{what}_tensor", None)
    if tensor is not None:
        found = np.asarray(tensor.numpy()).reshape(-1)
        return found.astype(object) if found.dtype.kind in "SU" else found
    kinds = (("strings", object), ("int64s", np.int64), ("floats", np.float32))
    for name, kind in kinds:
        given = attribute(node, f"{what}_{name}", None)
        if given:
            return np.array(list(given), kind)
    raise ModelError(f"{title(node)}: no {what}")


def _default_of(node: ir.Node, values: np.ndarray[Any, Any]) -> Any:
    """The value for a key that is not found, a string or a number as `values` are."""
    tensor = attribute(node, "default_tensor", None)
    if tensor is not None:
        return np.asarray(tensor.numpy()).reshape(-1)[0]
    if values.dtype == object:
        return attribute(node, "default_string", "_Unused")
    if values.dtype.kind == "f":
        return attribute(node, "default_float", -0.0)
    return attribute(node, "default_int64", -1)


@encodes("LabelEncoder", ML)
def encode_labels(s: Strings, node: ir.Node) -> None:
    """Replace a LabelEncoder of encoded strings by a search of the key and a Gather of the value.

    Behind the last value lies the default. Nothing is changed where both are numbers. ModelError if
    keys and values are not as many.
    """
    keys, values = _words_or_numbers(node, "keys"), _words_or_numbers(node, "values")
    # The kernel of LabelEncoder takes numbers as they are.
    if keys.dtype != object and values.dtype != object:
        return
    if len(keys) != len(values):
        raise ModelError(f"{title(node)}: it has {len(keys)} keys but {len(values)} values")
    edit, shape = s.editor(node), shape_of(node.outputs[0])
    where = title(node)
    if keys.dtype == object:
        table = edit.const(s.encoded(keys, where), "keys")
        place = s.make(node, "Find", [needed(node, 0), table], INT64, shape, None, TEXT)
    else:
        place = _numeric_place(s, node, keys)
    every = np.array([*values, _default_of(node, values)], values.dtype)
    text = values.dtype == object
    rows = edit.const(s.encoded(every, where) if text else every, "values")
    full = (*shape, s.width) if text else shape
    s.replace(node, s.make(node, "Gather", [rows, place], int(dtype_of(rows)), full, {"axis": 0}))


def _numeric_place(s: Strings, node: ir.Node, keys: np.ndarray[Any, Any]) -> ir.Value:
    """The index of each number among the keys, by a LabelEncoder of its own; len(keys) if not
    found.
    """
    edit = s.editor(node)
    made = ir.Node(
        ML,
        "LabelEncoder",
        [needed(node, 0)],
        [
            ir.AttrTensor("keys_tensor", ir.Tensor(keys)),
            ir.AttrTensor("values_tensor", ir.Tensor(np.arange(len(keys), dtype=np.int64))),
            # Keys that are not found get the place behind the last value, which holds the default.
            ir.AttrTensor("default_tensor", ir.Tensor(np.array([len(keys)], np.int64))),
        ],
        num_outputs=1,
        name=f"{node.name}_place",
    )
    place = made.outputs[0]
    place.name = edit.fresh("place")
    set_type(place, INT64, shape_of(node.outputs[0]))
    edit.graph.insert_before(node, made)
    return place
