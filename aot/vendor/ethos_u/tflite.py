# SPDX-License-Identifier: Apache-2.0
"""Networks in TensorFlow Lite's file format, as far as regions need it.

The format is a tree of FlatBuffers tables. A table is a dictionary here, slot → value; a value is a
NumPy number or vector, a text, a table, or a list of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Table = dict[int, Any]
Shape = tuple[int, ...]

#: Element types of tensors, by NumPy's name.
TYPES = {"float32": 0, "int32": 2, "int8": 9}
#: Operators: their number, the number of the table of their options, the options by slot with
#: their types.
OPERATORS: Mapping[str, tuple[int, int, str]] = {
    "ADD": (0, 11, "activation:int8"),
    "AVERAGE_POOL_2D": (1, 5, "padding:int8 stride_w stride_h kernel_w kernel_h activation:int8"),
    "CONCATENATION": (2, 10, "axis activation:int8"),
    "CONV_2D": (
        *(3, 1),
        "padding:int8 stride_w stride_h activation:int8 dilation_w dilation_h",
    ),
    "DEPTHWISE_CONV_2D": (
        *(4, 2),
        "padding:int8 stride_w stride_h multiplier activation:int8 dilation_w dilation_h",
    ),
    "FULLY_CONNECTED": (9, 8, "activation:int8 format:int8 keep:bool"),
    "HARD_SWISH": (117, 91, ""),
    "LEAKY_RELU": (98, 75, "alpha:float32"),
    "LOGISTIC": (14, 0, ""),
    "MEAN": (40, 27, "keep:bool"),
    "MAX_POOL_2D": (17, 5, "padding:int8 stride_w stride_h kernel_w kernel_h activation:int8"),
    "MUL": (18, 21, "activation:int8"),
    "PAD": (34, 22, ""),
    "QUANTIZE": (114, 87, ""),
    "RELU": (19, 0, ""),
    "RELU6": (21, 0, ""),
    "RELU_N1_TO_1": (20, 0, ""),
    "RESHAPE": (22, 17, ""),
    "RESIZE_BILINEAR": (23, 15, "height width align_corners:bool half_pixel:bool"),
    "RESIZE_NEAREST_NEIGHBOR": (97, 74, "align_corners:bool half_pixel:bool"),
    "SOFTMAX": (25, 9, "beta:float32"),
    "SUB": (41, 28, "activation:int8"),
    "TANH": (28, 0, ""),
    "TRANSPOSE": (39, 26, ""),
}
SAME, VALID = 0, 1


def ints(values: Sequence[int]) -> Any:
    """A vector of int32."""
    return np.array(values, np.int32).reshape(-1)


def floats(values: Sequence[float]) -> Any:
    """A vector of float32."""
    return np.array(values, np.float32)


class Network:
    """A network that grows; `data` writes it.

    Tensors are known by their numbers.
    """

    def __init__(self) -> None:
        """An empty network; buffer 0 is empty, as the format demands."""
        self._tensors: list[Table] = []
        self._buffers: list[Table] = [{}]
        self._shapes: list[Shape] = []
        self._operators: list[Table] = []
        self._codes: list[str] = []
        self.steps: list[tuple[float, int]] = []
        """Scale and zero point of each tensor, (0, 0) where it has none or several."""

    def tensor(self, shape: Shape, scale: float, zero: int, name: str) -> int:
        """A new tensor of int8 quantised values; its number."""
        return self._add(shape, "int8", 0, floats([scale]), np.array([zero]), 0, name)

    def const(self, data: Any, scale: Any = (), zero: int = 0, axis: int = 0) -> int:
        """Add a constant and return the number of its tensor.

        `scale` is empty (no quantisation), one number, or one number per index of `axis`; `zero` is
        the zero point of all of them.
        """
        array = np.ascontiguousarray(data)
        self._buffers.append({0: array.reshape(-1).view(np.uint8)})
        scales = np.asarray(scale, np.float32).reshape(-1)
        zeros = np.full(scales.shape, zero, np.int64)
        number = len(self._buffers) - 1
        return self._add(array.shape, array.dtype.name, number, scales, zeros, axis, f"c{number}")

    def _add(
        self,
        shape: Shape,
        kind: str,
        buffer: int,
        scales: Any,
        zeros: Any,
        axis: int,
        name: str,
    ) -> int:
        """Add a tensor and return its number; `kind` is the name of its type as numpy spells it.

        `buffer` is the number of the buffer of its data, 0 for none. Empty `scales` mean no
        quantisation.
        """
        table: Table = {0: ints(shape), 1: np.int8(TYPES[kind]), 2: np.uint32(buffer), 3: name}
        if scales.size:
            table[4] = {2: scales, 3: zeros, 6: np.int32(axis)}
        self._tensors.append(table)
        self._shapes.append(tuple(int(n) for n in shape))
        one = scales.size == 1
        self.steps.append((float(scales[0]), int(zeros[0])) if one else (0.0, 0))
        return len(self._tensors) - 1

    @property
    def computes(self) -> bool:
        """Whether an operator is more than another shape."""
        return self._codes not in ([], ["RESHAPE"])

    def shape(self, tensor: int) -> Shape:
        """The shape of a tensor."""
        return self._shapes[tensor]

    def op(self, kind: str, inputs: Sequence[int], output: int, **options: Any) -> int:
        """Add an operator `kind` and return `output`, the number of its result.

        `options` are fields of the operator's table by name (`OPERATORS`); those left out keep the
        format's defaults.
        """
        if kind not in self._codes:
            self._codes.append(kind)
        _, options_type, fields = OPERATORS[kind]
        table: Table = {}
        for slot, field in enumerate(fields.split()):
            name, _, dtype = field.partition(":")
            if name in options:
                table[slot] = np.dtype(dtype or "int32").type(options.pop(name))
        assert not options, f"{kind} has no {sorted(options)}"
        made: Table = {0: np.uint32(self._codes.index(kind)), 1: ints(inputs)}
        made[2] = ints([output])
        if options_type:
            made |= {3: np.uint8(options_type), 4: table}
        self._operators.append(made)
        return output

    def reshape(self, x: int, shape: Shape) -> int:
        """x with another shape; x itself where it has that shape."""
        if self._shapes[x] == shape:
            return x
        y = self.tensor(shape, *self.steps[x], f"v{len(self._tensors)}")
        return self.op("RESHAPE", [x, self.const(ints(shape))], y)

    def transpose(self, x: int, perm: Sequence[int]) -> int:
        """x with its axes in the order `perm`; no more than a shape where no element moves."""
        old = self._shapes[x]
        shape = tuple(old[p] for p in perm)
        moved = [p for p in perm if old[p] != 1]
        if moved == sorted(moved):
            return self.reshape(x, shape)
        y = self.tensor(shape, *self.steps[x], f"v{len(self._tensors)}")
        return self.op("TRANSPOSE", [x, self.const(ints(perm))], y)

    def data(self, inputs: Iterable[int], outputs: Iterable[int]) -> bytes:
        """The file, a TFLite flatbuffer, whose graph has the tensors `inputs` and `outputs`, by
        number.
        """
        graph: Table = {
            0: self._tensors,
            1: ints(list(inputs)),
            2: ints(list(outputs)),
            3: self._operators,
            4: "region",
        }
        numbers = [OPERATORS[k][0] for k in self._codes]
        codes = [{0: np.int8(min(n, 127)), 2: np.int32(1), 3: np.int32(n)} for n in numbers]
        model = {0: np.uint32(3), 1: codes, 2: [graph], 3: "aotc", 4: self._buffers}
        return written(model)


IDENTIFIER, BUFFER_ALIGN = b"TFL3", 16


def written(model: Table) -> bytes:
    """The FlatBuffers file whose root is `model`."""
    import flatbuffers

    b = flatbuffers.Builder(1024)
    b.Finish(_table(b, model), file_identifier=IDENTIFIER)
    return bytes(b.Output())


def _table(b: Any, fields: Table) -> int:
    """Write a table with `fields` by slot into the flatbuffers builder b; its offset.

    What the table points to is written first. Numbers are numpy scalars, whose type says their
    width.
    """
    from flatbuffers import number_types

    made = {slot: _offset(b, v) for slot, v in fields.items() if not isinstance(v, np.generic)}
    b.StartObject(max(fields, default=-1) + 1)
    for slot, value in fields.items():
        if slot in made:
            b.PrependUOffsetTRelative(made[slot])
        else:
            kind = value.dtype.name.capitalize()
            b.Prepend(getattr(number_types, f"{kind}Flags"), value.item())
        b.Slot(slot)
    return int(b.EndObject())


def _offset(b: Any, value: Any) -> int:
    """Write a text, a vector, a table or a list of tables; its offset."""
    if isinstance(value, str):
        return int(b.CreateString(value))
    if isinstance(value, dict):
        return _table(b, value)
    if isinstance(value, np.ndarray):
        # Written by hand, because the library aligns a vector to its elements only.
        if value.dtype == np.uint8:
            b.StartVector(1, value.size, BUFFER_ALIGN)
            b.head = b.head - value.size
            b.Bytes[b.head : b.head + value.size] = value.tobytes()
            return int(b.EndVector())
        return int(b.CreateNumpyVector(value))
    offsets = [_offset(b, v) for v in value]
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())
