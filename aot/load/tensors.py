# SPDX-License-Identifier: Apache-2.0
"""TensorProto: checked sizes, and arrays without needless copies."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from aot.errors import ModelError
from aot.ir.deferred_import import ir, onnx
from aot.shapes.limits import MAX_ELEMENTS

# TensorProto.DataType -> bits of one element in raw_data.
BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64}
BITS |= {14: 64, 15: 128, 16: 16, 17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8}
BITS |= {25: 2, 26: 2}
STRING = 8
BOOL = 9
#: Bits of elements of which several share a byte.
PACKED_BITS = {4, 2}
# TensorProto.DataType -> (field, entries per element) where raw_data is absent.
FIELDS = {1: "float_data", 7: "int64_data", 8: "string_data", 11: "double_data", 14: "float_data"}
FIELDS |= {12: "uint64_data", 13: "uint64_data", 15: "double_data"}
# TensorProto.DataType -> least and largest entry of a field that is wider than the element.
RANGES = {2: (0, 255), 3: (-128, 127), 4: (0, 65535), 5: (-(2**15), 2**15 - 1), 9: (0, 1)}
RANGES |= {12: (0, 2**32 - 1)} | dict.fromkeys((10, 16), (0, 65535))
RANGES |= dict.fromkeys((17, 18, 19, 20, 24), (0, 255))


def element_count(tensor: onnx.TensorProto) -> int:
    """Elements of `tensor` by its dims; ModelError for negative or absurd ones."""
    where = f'tensor "{tensor.name}"'
    dims = list(tensor.dims)
    if any(d < 0 for d in dims):
        raise ModelError(f"a constant has the negative dimension {min(dims)}: {dims}", where)
    count: int = prod(dims)
    if count > MAX_ELEMENTS:
        raise ModelError(f"a constant has {count} elements (limit {MAX_ELEMENTS}): {dims}", where)
    return count


def expected_bytes(tensor: onnx.TensorProto) -> int:
    """Bytes of raw data the dims and dtype of `tensor` ask for."""
    count = element_count(tensor)
    bits = BITS.get(tensor.data_type)
    if bits is None:
        what = f"a constant has element type {tensor.data_type}, which has no raw form"
        raise ModelError(what, f'tensor "{tensor.name}"')
    return (count * bits + 7) // 8


def check_tensor(tensor: onnx.TensorProto) -> None:
    """Raise ModelError unless shape, element type and data of a tensor in the message agree."""
    where = f'tensor "{tensor.name}"'
    if tensor.data_type not in BITS and tensor.data_type != STRING:
        raise ModelError(f"a constant has the unknown element type {tensor.data_type}", where)
    count = element_count(tensor)
    if tensor.HasField("raw_data"):
        have, need = len(tensor.raw_data), expected_bytes(tensor)
        unit = "bytes"
    else:
        field = FIELDS.get(tensor.data_type, "int32_data")
        have, need, unit = len(getattr(tensor, field)), _entries(tensor.data_type, count), field
    if have != need:
        what = f"a constant of shape {list(tensor.dims)} has {have} {unit} (needs {need})"
        raise ModelError(what, where, "the file may be damaged")
    _check_range(tensor, where)


def _check_range(tensor: onnx.TensorProto, where: str) -> None:
    """ModelError for an entry that its element type does not hold: readers would cut it off."""
    bounds = RANGES.get(tensor.data_type)
    if bounds is None:
        return
    low, high = bounds
    if not tensor.HasField("raw_data"):
        entries = np.asarray(getattr(tensor, FIELDS.get(tensor.data_type, "int32_data")))
    elif tensor.data_type == BOOL:
        entries = np.frombuffer(tensor.raw_data, np.uint8)
    else:
        return
    outside = entries[(entries < low) | (entries > high)]
    if outside.size:
        what = f"a constant has the element {outside[0]}, outside {low} to {high} of its type"
        raise ModelError(what, where, "the file may be damaged")


def _entries(data_type: int, count: int) -> int:
    """How many entries of protobuf's fields hold `count` elements of a type."""
    if data_type in (14, 15):
        return 2 * count
    bits = BITS.get(data_type, 8)
    return (count * bits + 7) // 8 if bits in PACKED_BITS else count


def array_of(tensor: onnx.TensorProto) -> np.ndarray[Any, Any]:
    """The elements as a read-only array (raw data is not copied a second time)."""
    plain = BITS.get(tensor.data_type, 0) >= 8 and tensor.data_type < 16
    if plain and tensor.HasField("raw_data"):
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).newbyteorder("<")
        return np.frombuffer(tensor.raw_data, dtype).reshape(tuple(tensor.dims))
    return np.asarray(onnx.numpy_helper.to_array(tensor))


def ir_tensor(tensor: onnx.TensorProto) -> ir.TensorProtocol:
    """An onnx_ir tensor with the shape, element type and (but for strings) the name of `tensor`.

    The data of `tensor` lie in the message itself, not in another file. The result stays valid when
    the message is changed or freed. Strings become a StringTensor of bytes; elements of 2 and 4
    bits are unpacked, one array entry each. `check_tensor` must have accepted the message.
    """
    if tensor.data_type == STRING:
        return ir.StringTensor(list(tensor.string_data), shape=ir.Shape(list(tensor.dims)))
    if BITS[tensor.data_type] < 8 or tensor.data_type >= 16:
        return ir.Tensor(
            ir.serde.TensorProtoTensor(tensor).numpy(),
            dtype=ir.DataType(tensor.data_type),
            name=tensor.name,
        )
    return ir.Tensor(array_of(tensor), dtype=ir.DataType(tensor.data_type), name=tensor.name)
