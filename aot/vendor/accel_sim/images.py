# SPDX-License-Identifier: Apache-2.0
"""From values of the graph to the tensors of a `Network`: what a pattern makes its layers with.

A value is one image. Of four axes [1, C, H, W] and three [1, C, W] axis 1 are the channels; of two
axes [W, C] and one [C] the last. So reshapes that keep this order cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aot.vendor import F32, S8, U8, UnsupportedError, ValueRef
from aot.vendor.accel_sim.kinds import Rq
from aot.vendor.accel_sim.network import Array, Element, Layer, Network, Tensor, Where

Image = tuple[int, int, int]
#: Axes of a value that are height, width and channels (-1: there is none, the extent is 1).
_AXES = {0: (-1, -1, -1), 1: (-1, -1, 0), 2: (-1, 0, 1), 3: (-1, 2, 1), 4: (2, 3, 1)}
ELEMENTS: dict[Any, Element] = {S8: "i8", U8: "u8", F32: "f32"}


def refusal(shape: Sequence[int]) -> str:
    """Why a value of this shape is no image; "" if it is one."""
    if len(shape) not in _AXES:
        return f"rank {len(shape)} (needs at most 4)"
    if 0 in shape:
        return f"an empty tensor {list(shape)}"
    if len(shape) > 2 and shape[0] != 1:
        return f"a batch of {shape[0]} (needs 1)"
    return ""


def image(shape: Sequence[int]) -> Image:
    """(height, width, channels) of a value; UnsupportedError where it is no image."""
    why = refusal(shape)
    if why:
        raise UnsupportedError(f"accel_sim: {why}")
    h, w, c = (1 if a < 0 else int(shape[a]) for a in _AXES[len(shape)])
    return h, w, c


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of each axis of a dense value in ONNX's order (last axis
    fastest).
    """
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def image_strides(shape: Sequence[int], steps: Sequence[int]) -> Image | None:
    """Strides from row to row, pixel to pixel, channel to channel of a value as an image.

    `steps` are the strides of its axes, in ONNX's order; all are in elements. None where they
    are those of a dense image [height, width, channels]: an axis of 1 counts as dense. Raises
    UnsupportedError where the value is no image.
    """
    sizes = image(shape)
    found = [0 if a < 0 else int(steps[a]) for a in _AXES[len(shape)]]
    dense = (sizes[1] * sizes[2], sizes[2], 1)
    row, pixel, channel = (d if n == 1 else s for n, s, d in zip(sizes, found, dense, strict=True))
    return None if (row, pixel, channel) == dense else (row, pixel, channel)


def stored_strides(value: ValueRef) -> Image | None:
    """Strides (row, pixel, channel) in elements of a value as it lies in memory, seen as an image.

    None where the image is dense with channels last. Raises UnsupportedError for channels in blocks
    smaller than all of them.
    """
    if value.layout.blocked:
        if value.layout.block != value.shape[1]:
            raise UnsupportedError(f"accel_sim: {value.onnx_name} is stored as {value.layout}")
        return None
    return image_strides(value.shape, row_major(value.shape))


def order(shape: Sequence[int]) -> Array:
    """For each element in the machine's order (row, column, channel) its position in ONNX's order.

    The result is a vector of as many integers as a value of `shape` has elements.
    """
    flat = np.arange(math.prod(shape)).reshape(tuple(shape) or (1,))
    return np.moveaxis(flat, 1, -1).reshape(-1) if len(shape) > 2 else flat.reshape(-1)


def same_order(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether a Reshape from shape `a` to shape `b` moves no element where channels are stored
    last.

    False if one of them is no image.
    """
    return not refusal(a) and not refusal(b) and np.array_equal(order(a), order(b))


class Images:
    """Collects the tensors and layers of a region.

    `sources` are the values behind tensors that are regions of the system. `rq` is the arithmetic
    of quantised values.
    """

    def __init__(self, rq: Rq = Rq.FLOAT) -> None:
        """Start without tensors. `_index` has the tensor of each value by name, `_zeros` its zero
        point.

        `_placed` has the strides of outputs that are stored in another order than their shape says.
        """
        self.rq = rq
        self.tensors: list[Tensor] = []
        self.layers: list[Layer] = []
        self.sources: dict[int, ValueRef] = {}
        self._index: dict[str, int] = {}
        self._zeros: dict[int, int] = {}
        self._placed: dict[str, Image | None] = {}

    # -- values -----------------------------------------------------------------------------------

    def read(self, value: ValueRef, zero: int | None = None) -> int:
        """The number of the tensor of `value`: made by a layer, a constant, or else a new input.

        `zero` is the zero point that the reader needs (None: any); where the tensor has another one
        already, a layer that copies it to a tensor with this zero point is added.
        """
        if value.is_const:
            return self.constant(np.asarray(value.data), value)
        if value.name not in self._index:
            self._index[value.name] = self._input(value, value.shape, stored_strides(value))
        index = self._index[value.name]
        if zero is None or self._zeros.setdefault(index, zero) == zero:
            self.tensors[index] = replace(self.tensors[index], zero=self._zeros.get(index, 0))
            return index
        other = self.inner(index, self.tensors[index].shape, f"{value.name}_zero")
        self.tensors[other] = replace(self.tensors[other], zero=zero)
        self.layer(Layer("copy", f"{value.name} with another zero", (index,), other))
        return other

    def write(self, value: ValueRef, zero: int | None = None) -> int:
        """The number of a new tensor that a layer makes for `value`; later readers of the value get
        it.

        `zero` is its zero point, None if it is not known.
        """
        index = self._tensor(self._of(value, value.shape, zero or 0, "inner"))
        self._index[value.name] = index
        if zero is not None:
            self._zeros[index] = zero
        return index

    def inner(self, like: int, shape: Image, name: str) -> int:
        """The number of a new tensor between layers, of shape (height, width, channels).

        Its element type (never uint8) and zero point are those of tensor `like`.
        """
        h, w, c = shape
        inside: Element = "f32" if self.tensors[like].dtype == "f32" else "i8"
        index = self._tensor(Tensor(name, h, w, c, inside, self.tensors[like].zero))
        if like in self._zeros:
            self._zeros[index] = self._zeros[like]
        return index

    def constant(self, data: Array, like: ValueRef, channels: int = 0) -> int:
        """The number of a new constant tensor with the elements `data`, stored [height, width,
        channels].

        uint8 quantised values become int8 (less 128). One channel is repeated to `channels`, if
        given.
        """
        if data.dtype == np.uint8:
            data = (data.astype(np.int16) - 128).astype(np.int8)
        h, w, c = image(data.shape)
        cube = np.moveaxis(data, 1, -1) if data.ndim > 2 else data
        cube = cube.reshape(h, w, c)
        if channels > c == 1:
            cube = np.broadcast_to(cube, (h, w, channels))
        t = Tensor(like.name, h, w, cube.shape[2], "f32" if data.dtype == np.float32 else "i8")
        return self._tensor(replace(t, where="const", data=np.ascontiguousarray(cube)))

    def alias(self, y: ValueRef, x: ValueRef) -> None:
        """Let `y` be the tensor of `x`: the elements are the same in the machine's order.

        Where the images differ in shape, a reshape layer is added, which costs nothing.
        """
        index = self.read(x)
        if self.tensors[index].shape == image(y.shape):
            self._index[y.name] = index
            return
        made = self.write(y, self._zeros.get(index))
        self.layer(Layer("reshape", y.name, (index,), made))

    def reshaped(self, y: ValueRef, x: ValueRef) -> None:
        """Let `y` be `x` under another shape, without a layer that moves elements.

        An input `x` is read as an image of y's shape: system memory has ONNX's order. Where the
        shapes have the same order of elements in the machine, `y` is an alias. Else `y` must be
        an output that no layer reads (`shape_supported` checks it): the tensor of `x` is written
        to y's memory in ONNX's order, with the strides of x's shape.
        """
        if x.is_input and not x.layout.blocked:
            strides = image_strides(y.shape, row_major(y.shape))
            self._index[y.name] = self._input(x, y.shape, strides)
        elif same_order(x.shape, y.shape):
            self.alias(y, x)
        else:
            self._index[y.name] = self.read(x)
            self._placed[y.name] = image_strides(x.shape, row_major(x.shape))

    def transposed(self, y: ValueRef, x: ValueRef, perm: Sequence[int]) -> None:
        """Let `y` be `x` with its axes in the order `perm`; x is an input or y an output of the
        graph.

        No layer is added: the strides of the input or output in system memory do it.
        """
        if x.is_input and not x.layout.blocked:
            steps = row_major(x.shape)
            strides = image_strides(y.shape, [steps[p] for p in perm])
            self._index[y.name] = self._input(x, y.shape, strides)
            return
        steps = row_major(y.shape)
        permuted = [steps[list(perm).index(a)] for a in range(len(perm))]
        self._index[y.name] = self.read(x)
        self._placed[y.name] = image_strides(x.shape, permuted)

    def layer(self, made: Layer) -> None:
        """Append a layer to the region's layers."""
        self.layers.append(made)

    # -- the whole --------------------------------------------------------------------------------

    def finish(self, outputs: Sequence[ValueRef]) -> Network:
        """The network of all layers, whose `outputs` are written to system memory.

        A value that is also an input, or an output already, is copied. Tensors that no layer names
        are left out; `sources` then has the numbers of the network.
        """
        for v in outputs:
            index = self._index[v.name]
            strides = self._placed[v.name] if v.name in self._placed else stored_strides(v)
            out = replace(self.tensors[index], where="output", strides=strides, data=None)
            out = replace(out, dtype=ELEMENTS[v.dtype])
            if self.tensors[index].where == "inner":
                self.tensors[index] = out
            else:  # an input, or the output for another value
                copy = self._tensor(replace(out, name=v.name))
                self.layer(Layer("copy", v.name, (index,), copy))
                index = copy
            self.sources[index] = v
        self.layers = merge_tables(self.layers, self.tensors)
        return self._used_only()

    def _used_only(self) -> Network:
        """The network without tensors that no layer names; the numbers in `sources` follow."""
        used = sorted({t for layer in self.layers for t in (*layer.inputs, layer.output)})
        place = {old: new for new, old in enumerate(used)}
        layers = tuple(
            replace(n, inputs=tuple(place[i] for i in n.inputs), output=place[n.output])
            for n in self.layers
        )
        self.sources = {place[i]: v for i, v in self.sources.items() if i in place}
        return Network(tuple(self.tensors[i] for i in used), layers)

    # -- details ----------------------------------------------------------------------------------

    def _of(self, value: ValueRef, shape: Sequence[int], zero: int, where: Where) -> Tensor:
        """The record of a tensor for `value`, seen with `shape`; inside the region uint8 becomes
        int8.
        """
        h, w, c = image(shape)
        element = ELEMENTS[value.dtype]
        inside: Element = "f32" if element == "f32" else "i8"
        return Tensor(value.name, h, w, c, inside if where == "inner" else element, zero, where)

    def _tensor(self, tensor: Tensor) -> int:
        """Append a tensor; returned is its number."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def _input(self, value: ValueRef, shape: Sequence[int], strides: Image | None) -> int:
        """The number of a new input for `value`, seen with `shape` and `strides` (elements; None:
        dense).
        """
        index = self._tensor(replace(self._of(value, shape, 0, "input"), strides=strides))
        self.sources[index] = value
        return index


def merge_tables(layers: Sequence[Layer], tensors: Sequence[Tensor]) -> list[Layer]:
    """The layers, with each table behind a product joined to the product, which applies it as it
    drains.

    That needs a product without a table whose result no other layer reads and which is no output.
    The product moves to where the table was: operands that it needs are there by then as well.
    """
    found = list(layers)
    made = {layer.output: n for n, layer in enumerate(layers)}
    gone = set()
    for n, layer in enumerate(layers):
        source = layer.inputs[0]
        readers = sum(source in other.inputs for other in layers)
        first = made.get(source, -1)
        if layer.kind != "lut" or first < 0 or readers != 1 or tensors[source].where != "inner":
            continue
        product = layers[first]
        if product.kind in ("conv", "dw") and product.table is None:
            name = f"{product.name} + {layer.name}"
            found[n] = replace(product, name=name, output=layer.output, table=layer.table)
            gone.add(first)
    return [layer for n, layer in enumerate(found) if n not in gone]
