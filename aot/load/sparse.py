# SPDX-License-Identifier: Apache-2.0
"""Sparse constants, checked and spelled out."""

from __future__ import annotations

from math import prod

import numpy as np

from aot.errors import ModelError, UnsupportedError
from aot.ir.deferred_import import onnx
from aot.ir.graph_nodes import Array
from aot.load.external import is_external
from aot.load.tensors import check_tensor

MOST = 1 << 24
"""Elements of a sparse constant at most: the file does not grow with them, memory does."""
INT64, STRING = 7, 8


def dense(sparse: onnx.SparseTensorProto, name: str = "") -> onnx.TensorProto:
    """The constant with its zeros; ModelError unless places and values agree with its shape."""
    name, shape = name or sparse.values.name, tuple(sparse.dims)
    where = f'sparse constant "{name}" of shape {list(shape)[:8]}'
    if is_external(sparse.values) or is_external(sparse.indices):
        raise UnsupportedError("a sparse constant has external data", where)
    if sparse.values.data_type == STRING:
        raise UnsupportedError("a sparse constant holds strings", where)
    if any(d < 0 for d in shape):
        raise ModelError(f"a sparse constant has the negative dimension {min(shape)}", where)
    # A file of a few bytes could ask for terabytes.
    if prod(shape) > MOST:
        what = f"a sparse constant has {prod(shape)} elements (limit {MOST})"
        raise UnsupportedError(what, where)
    check_tensor(sparse.values)
    check_tensor(sparse.indices)
    values = onnx.numpy_helper.to_array(sparse.values)
    flat = _places(sparse.indices, values, shape, where)
    full = np.zeros(shape, values.dtype)
    full.reshape(-1)[flat] = values
    return onnx.numpy_helper.from_array(full, name)


def _places(indices: onnx.TensorProto, values: Array, shape: tuple[int, ...], where: str) -> Array:
    """Places of the values in row-major order, proven to be inside, ascending and one per value.

    ModelError otherwise.
    """
    if indices.data_type != INT64:
        raise ModelError(f"the places have element type {indices.data_type}, not int64", where)
    places: Array = np.asarray(onnx.numpy_helper.to_array(indices))
    if values.ndim != 1 or places.shape not in ((values.size,), (values.size, len(shape))):
        what = f"the places have shape {list(places.shape)}, the values {list(values.shape)}"
        raise ModelError(what, where)
    limits = np.array([prod(shape)] if places.ndim == 1 else shape, np.int64)
    wrong = (places < 0) | (places >= limits)
    if wrong.any():
        raise ModelError(f"the place {int(places[wrong][0])} is outside", where)
    if places.ndim == 2:
        places = np.asarray(np.ravel_multi_index(tuple(places.T), shape))
    if (np.diff(places) <= 0).any():
        raise ModelError("its places do not ascend", where)
    return places
