# SPDX-License-Identifier: Apache-2.0
"""Which tensors share memory: concat, slice and reshape are addresses, not work.

Every tensor is a window of a `root` buffer. Where sharing is impossible (a part of two concats, a
reshape of a part) a copy is inserted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from aot.vendor import UnsupportedError
from aot.vendor.accel_sim.network import Layer, Network, Tensor

ALIASES = ("concat", "slice", "reshape")


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes `offset` + y * `row` + x * `pixel` + c * itemsize of buffer `root`."""

    root: int
    offset: int
    pixel: int
    row: int


@dataclass(slots=True)
class Plan:
    """Tensors with their places, the layers that compute, and the bytes of every root.

    `owners` are the tensors of a root, in order.
    """

    tensors: list[Tensor]
    layers: list[Layer]
    places: dict[int, Place] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)

    def tensor(self, index: int) -> Tensor:
        """The tensor with the number `index`."""
        return self.tensors[index]

    def owners(self, root: int) -> list[int]:
        """The numbers of the tensors that lie in `root`, itself included, in the order of their
        placing.
        """
        return [n for n, p in self.places.items() if p.root == root]

    def streamable(self, root: int) -> bool:
        """Whether all tensors of a root can be read and written in the system, part by part."""
        base = self.tensors[root]
        others = [n for n in self.owners(root) if n != root]
        if any(self.tensors[n].where != "inner" for n in others) or base.where == "const":
            return False
        dense = (base.width * base.channels, base.channels, 1)
        return base.element_strides == dense or all(self._follows(n) for n in others)

    def _follows(self, index: int) -> bool:
        """Whether the pixels and rows of a tensor are its root's, or its rows are the root's
        pixels.
        """
        p, r = self.places[index], self.places[self.places[index].root]
        return (p.pixel, p.row) == (r.pixel, r.row) or self._is_column(index)

    def _is_column(self, index: int) -> bool:
        """Whether a tensor has a row for every pixel of a root of one row."""
        p, t = self.places[index], self.tensors[index]
        base = self.tensors[p.root]
        return (
            (base.height, t.width, t.height) == (1, 1, base.width)
            and p.offset == 0
            and t.channels == base.channels
        )

    def system(self, index: int) -> tuple[int, int, int, int]:
        """(byte in its root, bytes from row to row, pixel to pixel, channel to channel) of tensor
        `index`.

        The tensor is of a streamable root, which lies in system memory.
        """
        p = self.places[index]
        base, size = self.tensors[p.root], self.tensors[p.root].itemsize
        row, pixel, channel = (s * size for s in base.element_strides)
        if self._is_column(index):
            return 0, pixel, pixel, channel
        if not self._follows(index) or (p.pixel, p.row) == (pixel, row):
            return p.offset, p.row, p.pixel, size
        whole = self.places[p.root]
        y, rest = divmod(p.offset, whole.row)
        x, c = divmod(rest, whole.pixel)
        return y * row + x * pixel + c // size * channel, row, pixel, channel

    def whole(self, index: int) -> bool:
        """Whether tensor `index` has a buffer of its own that no other tensor shares."""
        return self.owners(self.places[index].root) == [index]


def _dense(plan: Plan, index: int) -> bool:
    """Whether the pixels of tensor `index` lie one behind the other, without gaps."""
    t, p = plan.tensors[index], plan.places[index]
    pixel = t.channels * t.itemsize
    return (t.height * t.width == 1 or p.pixel == pixel) and (
        t.height == 1 or p.row == t.width * pixel
    )


def _root(plan: Plan, index: int) -> Place:
    """Make tensor `index` the root of a buffer of its own, dense; returned is its place."""
    t = plan.tensors[index]
    pixel = t.channels * t.itemsize
    place = Place(index, 0, pixel, t.width * pixel)
    plan.places[index] = place
    plan.sizes[index] = t.bytes
    return place


def _inside(plan: Plan, parent: int, at: tuple[int, int, int]) -> Place:
    """The place of a part of tensor `parent` that begins at (row, column, channel) `at`."""
    p, size = plan.places[parent], plan.tensors[parent].itemsize
    return replace(p, offset=p.offset + at[0] * p.row + at[1] * p.pixel + at[2] * size)


def _copy_of(plan: Plan, source: int, name: str) -> tuple[int, Layer]:
    """(number of a new tensor like `source`, the layer that copies `source` there)."""
    t = plan.tensors[source]
    plan.tensors.append(replace(t, name=name, where="inner", strides=None, data=None))
    index = len(plan.tensors) - 1
    return index, Layer("copy", name, (source,), index)


def _concat(plan: Plan, layer: Layer, made: list[Layer], copies: bool) -> None:
    """Give the parts of a Concat their places in its result.

    A part that has a place already, or comes from outside, is copied: the layers are appended to
    `made`. With `copies` outputs are copied, too.
    """
    if layer.output not in plan.places:
        _root(plan, layer.output)
    axis, at = "yxc".index(layer.axis), [0, 0, 0]
    for part in layer.inputs:
        where = _inside(plan, layer.output, (at[0], at[1], at[2]))
        where_from = plan.tensors[part].where
        outside = where_from in ("const", "input") or (copies and where_from == "output")
        if part in plan.places or outside:
            fresh, copy = _copy_of(plan, part, layer.name)
            plan.places[fresh] = where
            made.append(copy)
        else:
            plan.places[part] = where
        at[axis] += plan.tensors[part].shape[axis]


def resolve(network: Network, copies: bool = False) -> Plan:
    """Places for every tensor that a layer reads or writes, and the layers that are left to
    compute.

    Concat, Slice and Reshape become places, or copies where they cannot. With `copies`, outputs get
    buffers of their own, so that all other tensors can leave SPM. Raises UnsupportedError for a
    Reshape that changes the number of elements.
    """
    plan = Plan(list(network.tensors), [])
    kept: list[Layer] = []
    # Backwards first: a Concat decides where its parts lie before the layers that make them.
    for layer in reversed(network.layers):
        if layer.kind == "concat":
            made: list[Layer] = []
            _concat(plan, layer, made, copies)
            kept.extend(reversed(made))
        elif layer.kind in ALIASES and layer.output in plan.places:
            # Its place was decided by a concat, so it has to be moved there.
            fresh, copy = _copy_of(plan, layer.output, layer.name)
            kept.append(replace(copy, inputs=(fresh,), output=layer.output))
            kept.append(replace(layer, output=fresh))
        else:
            if layer.kind == "reshape":
                _backward(plan, layer)
            kept.append(layer)
    for layer in reversed(kept):
        for index in layer.inputs:
            if index not in plan.places:
                _root(plan, index)
        if layer.kind in ALIASES:
            _forward(plan, layer, copies)
            continue
        if layer.output not in plan.places:
            _root(plan, layer.output)
        plan.layers.append(layer)
    return plan


def _backward(plan: Plan, layer: Layer) -> None:
    """Let an inner tensor that is reshaped to an output lie in the output's buffer."""
    source, t = layer.inputs[0], plan.tensors[layer.inputs[0]]
    inner = t.where == "inner" and plan.tensors[layer.output].where == "output"
    if inner and source not in plan.places and t.bytes == plan.tensors[layer.output].bytes:
        _root(plan, layer.output)
        pixel = t.channels * t.itemsize
        plan.places[source] = Place(layer.output, 0, pixel, t.width * pixel)


def _forward(plan: Plan, layer: Layer, copies: bool) -> None:
    """Let the result of a Slice or Reshape lie in its input's buffer, or copy it where it cannot.

    An output that would lie in an input, a constant, or (with `copies`) any shared buffer is
    copied. A Reshape of a tensor with gaps is copied first. UnsupportedError if the number of
    elements changes.
    """
    source = layer.inputs[0]
    # A concat, or the output behind a reshape, has decided already.
    if layer.output in plan.places:
        return
    # These buffers are the caller's, so an output cannot be a part of one.
    outside = plan.tensors[plan.places[source].root].where in ("input", "const")
    if (copies or outside) and plan.tensors[layer.output].where == "output":
        fresh, copy = _copy_of(plan, layer.output, layer.name)
        _forward(plan, replace(layer, output=fresh), copies)
        _root(plan, layer.output)
        plan.layers.append(replace(copy, inputs=(fresh,), output=layer.output))
        return
    if layer.kind == "slice":
        plan.places[layer.output] = _inside(plan, source, layer.start)
        return
    if plan.tensors[source].bytes != plan.tensors[layer.output].bytes:
        raise UnsupportedError(f"accel_sim: {layer.name} changes the number of elements")
    if not _dense(plan, source):
        source, copy = _copy_of(plan, source, layer.name)
        _root(plan, source)
        plan.layers.append(copy)
    t, p = plan.tensors[layer.output], plan.places[source]
    pixel = t.channels * t.itemsize
    plan.places[layer.output] = Place(p.root, p.offset, pixel, t.width * pixel)
