# SPDX-License-Identifier: Apache-2.0
"""The instructions of every kind of layer, row step by row step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from aot.vendor.accel_sim.builder import Builder
from aot.vendor.accel_sim.frontend import Kernel, View
from aot.vendor.accel_sim.items import Item
from aot.vendor.accel_sim.kinds import Alu, Mem
from aot.vendor.accel_sim.network import Layer, Tensor
from aot.vendor.accel_sim.weights import (
    Part,
    Tiles,
    depth_parts,
    record_bytes,
    records,
    tables,
    vset,
)


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a layer is cut: `rows` x `cols` pixels and `tiles` of channels at a time.

    Rows come in bands of `band` (0: `rows`). `outer`: in a band, all pixels of a group of tiles
    come before the next group; otherwise all tiles of some pixels. `keep`: the weights stay for all
    bands; `renew`: but parameters are loaded for every block.
    """

    rows: int
    cols: int
    tiles: int = 1
    outer: bool = False
    keep: bool = True
    band: int = 0
    renew: bool = False

    def step(self, height: int) -> int:
        """Rows of the output that one step makes, for an output of `height` rows."""
        return min(self.band or self.rows, height)


@dataclass(frozen=True, slots=True)
class RowStep:
    """Rows first to last - 1 of the output; `emit` writes the items."""

    first: int
    last: int
    emit: Callable[[], None]


def kernel(layer: Layer, ci: int) -> Kernel:
    """The KERN of a layer's window over `ci` channels."""
    w = layer.window
    return Kernel(w.kh, w.kw, w.sh, w.sw, w.dh, w.dw, ci, 0)


def windowed(layer: Layer, index: int) -> bool:
    """Whether `layer` reads tensor `index` through a window, not only at the pixel of the
    result.
    """
    return layer.kind in ("conv", "dw", "max", "average") and index == layer.inputs[0]


def rows_read(layer: Layer, operand: int, source: Tensor, last: int) -> int:
    """The end of the rows of operand number `operand` that output rows up to `last` - 1 read.

    At most the height of `source`, the operand's tensor.
    """
    if operand or not windowed(layer, layer.inputs[0]):
        return min(last, source.height)
    w = layer.window
    return max(0, min(source.height, (last - 1) * w.sh - w.top + (w.kh - 1) * w.dh + 1))


def first_row(layer: Layer, operand: int, source: Tensor, first: int) -> int:
    """The first row of operand number `operand` that rows from `first` on of the output read."""
    if operand or not windowed(layer, layer.inputs[0]):
        return first if source.height > 1 else 0
    return max(0, min(first * layer.window.sh - layer.window.top, source.height))


def blocks(first: int, last: int, size: int) -> Iterator[tuple[int, int]]:
    """(begin, length) of pieces of `size` that cover `first` to `last` - 1; the last may be
    shorter.
    """
    for at in range(first, last, size):
        yield at, min(size, last - at)


class Products:
    """conv and dw."""

    def __init__(self, b: Builder, number: int, layer: Layer, tiling: Tiling) -> None:
        """Prepare the items of convolution number `number` of the plan, cut by `tiling`.

        `count` is its number of tiles of channels; `parts` are parts of the window, more than one
        where the weights of a tile exceed half of their memory.
        """
        self.b, self.number, self.layer, self.tiling = b, number, layer, tiling
        self.x, self.y = b.plan.tensors[layer.inputs[0]], b.plan.tensors[layer.output]
        self.size = self.x.itemsize
        self.lanes = b.c.lanes(self.size)
        self.tiles = Tiles(layer, self.lanes)
        self.count = -(-self.y.channels // self.lanes)
        self.deep = layer.kind == "conv"
        self.parts = (
            depth_parts(layer, b.c, self.size)
            if self.deep
            else [Part(0, layer.window.kh, 0, layer.window.kw, 0, 1)]
        )
        self.vset = vset(layer)
        self.shift = self.lanes * tiling.tiles

    def steps(self) -> list[RowStep]:
        """The steps of output rows in order; emitting one writes its items."""
        work = self._outer if self.tiling.outer else self._inner
        return [
            RowStep(y, y + rows, partial(work, y, y + rows))
            for y, rows in blocks(0, self.y.height, self.tiling.step(self.y.height))
        ]

    def _again(self) -> None:
        """Forget the loads of constants that cannot stay in their memory, so that they are made
        again.
        """
        if not self.tiling.keep:
            self.b.evict(self.number)
        elif self.tiling.renew or self.y.channels > self.b.c.prm_channels:
            self.b.evict(self.number, Mem.PRM)

    def _outer(self, first: int, last: int) -> None:
        """Write the items of output rows `first` to `last` - 1, tiles of channels in the outer
        loop.

        The weights of a tile are used for all pixels before the next tile comes.
        """
        t = self.tiling
        self._again()
        for tile, n in blocks(0, self.count, t.tiles):
            for y, rows in blocks(first, last, t.rows):
                for x, cols in blocks(0, self.y.width, t.cols):
                    self._block(y, rows, x, cols, tile, n)

    def _inner(self, first: int, last: int) -> None:
        """Write the items of output rows `first` to `last` - 1, tiles of channels in the inner
        loop.

        All channels of some pixels are made before the next pixels.
        """
        t = self.tiling
        for y, rows in blocks(first, last, t.rows):
            for x, cols in blocks(0, self.y.width, t.cols):
                self._again()
                for tile, n in blocks(0, self.count, t.tiles):
                    self._block(y, rows, x, cols, tile, n)

    def _weights(self, tile: int, tiles: int, part: int) -> tuple[int, int, str]:
        """(load, first row in it, field of the instruction) of the weights of `tiles` tiles from
        `tile` on.

        `part` numbers the part of the window. A load holds several tiles where one alone would be
        short.
        """
        own = self.parts[part]
        rows = own.rows
        group = tiles
        if len(self.parts) == 1:
            step = self.tiling.tiles
            # Every LDL pays the latency of memory once, so short loads are joined up to `chunk`
            # bytes.
            group = step * max(1, min(-(-self.b.chunk // (rows * step * self.b.c.m)), 64))
            begin = tile // group * group
        else:
            begin = tile
        count = min(group, self.count - begin)
        key = (self.number, int(Mem.WGT), begin, part)
        data = self.tiles.data
        load = self.b.load(key, Mem.WGT, rows * count, lambda: data(begin, count, own))
        return load, (tile - begin) * rows, "wgt"

    def _params(self, tile: int, tiles: int) -> tuple[int, int, str]:
        """(load, first channel in it, field of the instruction) of the parameters of
        `tiles` tiles.
        """
        # Loads of at most a part of the memory let the next one arrive while this one is used.
        half = max(self.tiling.tiles * self.lanes, self.b.c.prm_channels // self.b.groups)
        group = half // (self.tiling.tiles * self.lanes) * self.tiling.tiles
        if self.y.channels <= half:
            group = self.count
        begin = tile // group * group
        first = begin * self.lanes
        count = min(group * self.lanes, self.y.channels - first)
        key = (self.number, int(Mem.PRM), begin)
        layer = self.layer
        load = self.b.load(
            key, Mem.PRM, count, lambda: records(layer, first, count), record_bytes(layer) - 8
        )
        return load, (tile - begin) * self.lanes, "prm"

    def _kernel(self, part: Part) -> Kernel:
        """The KERN of one part of the window and the channels that it sums; all channels for
        depthwise.
        """
        ci = part.last - part.first if self.deep else self.x.channels
        return replace(kernel(self.layer, ci), kh=part.kh, kw=part.kw)

    def _block(self, y: int, rows: int, x: int, cols: int, tile: int, tiles: int) -> None:
        """Write the items of one block: `rows` x `cols` pixels from (y, x), `tiles` tiles from
        `tile` on.

        One MM or DW per part of the window adds to the sums; a DRAIN turns them into results.
        """
        b, w = self.b, self.layer.window
        acc = b.take_sums(tiles * rows * cols)
        source = b.view(self.layer.inputs[0])
        for part, p in enumerate(self.parts):
            if len(self.parts) > 1:
                b.evict(self.number, Mem.WGT)
            uses = (self._weights(tile, tiles, part),)
            at = (p.first if self.deep else tile * self.lanes) * self.size
            b.emit(Item(
                "MM" if self.deep else "DW", self.number,
                {"y": y * w.sh - w.top + p.ky * w.dh, "x": x * w.sw - w.left + p.kx * w.dw,
                 "wgt": 0, "acc": acc, "tiles": tiles, "rows": rows, "cols": cols, "at": at,
                 "add": int(part > 0)},
                b.dtype(self.layer.output), view=source, kern=self._kernel(p), uses=uses,
            ))  # fmt: skip
        self._drain(y, rows, x, cols, tile, tiles, acc)

    def _drain(self, y: int, rows: int, x: int, cols: int, tile: int, tiles: int, acc: int) -> None:
        """Write the DRAIN of one block, whose sums begin at row `acc`, with its residual and table
        if any.
        """
        b, layer = self.b, self.layer
        channel = tile * self.lanes
        ch = min(tiles * self.lanes, self.y.channels - channel)
        at = channel * self.size
        # The field for the first channel has 12 bits: beyond that the views begin further.
        shift = at if at > 4095 else 0
        fields = {
            "y": y, "x": x, "acc": acc, "prm": 0, "at": at - shift, "rows": rows, "cols": cols,
            "ch": ch, "res": 0, "lut": 0,
        }  # fmt: skip
        uses = [self._params(tile, tiles)]
        other = None
        if len(layer.inputs) > 1:
            fields["res"] = 1
            other = b.view(layer.inputs[1], shift)
        if layer.table is not None:
            key = (self.number, int(Mem.LUT))
            uses.append((b.load(key, Mem.LUT, 1, lambda: tables(layer)), 1, "lut"))
        b.emit(Item(
            "DRAIN", self.number, fields, b.dtype(layer.output), view=b.view(layer.output, shift),
            other=other, vset=self.vset, uses=tuple(uses),
        ))  # fmt: skip


ALU_OPS = {
    "add": Alu.ADD, "mul": Alu.MUL, "maximum": Alu.MAX, "minimum": Alu.MIN, "clip": Alu.CLIP,
    "lut": Alu.LUT, "softmax": Alu.SOFTMAX, "copy": Alu.COPY,
}  # fmt: skip


class Vectors:
    """Pooling and elementwise layers."""

    def __init__(self, b: Builder, number: int, layer: Layer, tiling: Tiling) -> None:
        """Prepare the items of pooling or elementwise layer number `number` of the plan, cut by
        `tiling`.
        """
        self.b, self.number, self.layer, self.tiling = b, number, layer, tiling
        self.y = b.plan.tensors[layer.output]
        needed = layer.kind not in ("max", "lut", "copy", "maximum", "minimum")
        self.vset = vset(layer) if needed else None

    def steps(self) -> list[RowStep]:
        """The steps of output rows in order; emitting one writes its items."""
        found = []
        for y, rows in blocks(0, self.y.height, self.tiling.rows):
            found.append(RowStep(y, y + rows, partial(self._rows, y, rows)))
        return found

    def _rows(self, y: int, rows: int) -> None:
        """Write the items of `rows` output rows from row `y` on, in pieces of the tiling's
        columns.
        """
        for x, cols in blocks(0, self.y.width, self.tiling.cols):
            if self.layer.kind in ("max", "average"):
                self._pool(y, rows, x, cols)
            else:
                self._alu(y, rows, x, cols)

    def _pool(self, y: int, rows: int, x: int, cols: int) -> None:
        """Write the POOL of `rows` x `cols` output pixels from row `y`, column `x` on, all
        channels.
        """
        b, layer, w = self.b, self.layer, self.layer.window
        b.emit(Item(
            "POOL", self.number,
            {"y": y, "x": x, "from_y": y * w.sh - w.top, "from_x": x * w.sw - w.left,
             "op": int(layer.kind == "average"), "rows": rows, "cols": cols,
             "ch": self.y.channels},
            b.dtype(layer.output), view=b.view(layer.output), source=b.view(layer.inputs[0]),
            kern=kernel(layer, self.y.channels), vset=self.vset,
        ))  # fmt: skip

    def _alu(self, y: int, rows: int, x: int, cols: int) -> None:
        """Write the ALU of `rows` x `cols` output pixels from row `y`, column `x` on, all channels.

        Tables of lut and softmax are loaded first.
        """
        b, layer = self.b, self.layer
        fields = {
            "y": y, "x": x, "from_y": y, "from_x": x, "op": int(ALU_OPS[layer.kind]),
            "rows": rows, "cols": cols, "ch": self.y.channels, "table": 0,
        }  # fmt: skip
        uses: tuple[tuple[int, int, str], ...] = ()
        if layer.kind in ("lut", "softmax"):
            units = 4 if layer.kind == "softmax" else 1
            key = (self.number, int(Mem.LUT))
            uses = ((b.load(key, Mem.LUT, units, lambda: tables(layer)), 0, "table"),)
        sources = [self._operand(index) for index in layer.inputs]
        b.emit(Item(
            "ALU", self.number, fields, b.dtype(layer.output), view=b.view(layer.output),
            source=sources[0], other=sources[1] if len(sources) > 1 else None, vset=self.vset,
            uses=uses,
        ))  # fmt: skip

    def _operand(self, index: int) -> View:
        """The view of operand tensor `index`; strides of 0 repeat its only row or column as the
        result needs.
        """
        v, t = self.b.view(index), self.b.plan.tensors[index]
        if t.width == 1 and self.y.width > 1:
            v = replace(v, pixel=0, width=self.y.width)
        if t.height == 1 and self.y.height > 1:
            v = replace(v, row=0, height=self.y.height)
        return v
