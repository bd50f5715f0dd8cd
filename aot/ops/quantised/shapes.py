# SPDX-License-Identifier: Apache-2.0
"""What the kernels of int8 products are planned from and planned to: sizes, zero points, packed
weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from aot.ir.graph_nodes import Array
from aot.ir.rows import Rowwise, Window
from aot.ir.splits import PartField, Split
from aot.target import Target


@dataclass(frozen=True, slots=True)
class QConv:
    """A product of int8 quantised values with constant weights, as a 2-D convolution.

    Channels are last; a 1-D convolution has height 1, and a matrix product is one of a row of
    pixels with windows of one. `kind` is part of the kernel's name: "conv" for one group, "dwconv"
    for a filter per channel, "fc" for matrix products.
    x is [n][ih][iw][ic], y [n][oh][ow][oc]; `x_zero` and `y_zero` are zero points, [lo, hi] bounds
    of the final quantised value. `rq` is the arithmetic (aot_requant.h), `per_channel` whether
    there is one multiplier per output channel, `arch`, `simd`, `cpu` and `vlen` (float lanes) tell
    the target. A value of x and of y has `nbytes` bytes.
    """

    n: int
    ic: int
    ih: int
    iw: int
    oc: int
    oh: int
    ow: int
    kh: int
    kw: int
    sh: int
    sw: int
    dh: int
    dw: int
    pt: int
    pl: int
    x_zero: int
    y_zero: int
    lo: int
    hi: int
    rq: int = 0
    per_channel: bool = True
    arch: str = ""
    simd: str = ""
    cpu: str = ""
    vlen: int = 1
    kind: Literal["conv", "dwconv", "fc"] = "conv"
    nbytes: int = 1

    @classmethod
    def dense(cls, rows: int, depth: int, columns: int, *limits: int, **more: Any) -> QConv:
        """The product of x [rows][depth] and w [columns][depth]; `limits` are x_zero, y_zero, lo
        and hi, and rq and per_channel if they follow."""
        sizes: tuple[Any, ...] = (1, depth, 1, rows, columns, 1, rows, 1, 1, 1, 1, 1, 1, 0, 0)
        return cls(*sizes, *limits, **{"kind": "fc", **more})

    @classmethod
    def matrices(cls, target: Target, vlen: int, *sizes: int) -> QConv:
        """The product of matrices of `sizes` rows, depth and columns, whose zero points and limits
        are the kernel's affair."""
        units: dict[str, Any] = {"arch": target.arch, "simd": target.simd, "vlen": vlen}
        return cls.dense(*sizes, 0, 0, 0, 0, **units)

    @property
    def macs(self) -> int:
        """The multiplications of the product, without padding of channels."""
        depth = 1 if self.kind == "dwconv" else self.ic
        return self.n * self.oh * self.ow * self.oc * self.kh * self.kw * depth

    def kernel(self, arch: str = "") -> str:
        """The name of the kernel for an instruction set ("" = portable C)."""
        return f"aot_q{self.kind}_s8{arch}"

    def sizes(self) -> dict[str, int]:
        """The kernel's parameters without those of rows: sizes, zero points, limits."""
        named = "n ic ih iw oc oh ow kh kw sh sw dh dw pt pl x_zero y_zero lo hi".split()
        return {**{k: int(getattr(self, k)) for k in named}, "step": self.oc}

    def rowwise(self, *others: int) -> Rowwise | None:
        """How the kernel makes its result, argument 0, from argument 1 by rows; None for batches
        and matrix products. Of arguments `others` it reads one row too.
        """
        if self.n != 1 or self.kind == "fc":
            return None
        window = Window(1, self.ih, self.kh, self.sh, self.dh, self.pt)
        fields = (("ih", -1, "rows"), ("pt", -1, "above"), ("oh", -1, "one"), ("y1", -1, "one"))
        most = 2 if self.simd == "dsp" and not others else 1
        return Rowwise(self.oh, (0, *others), window, fields, most=most)

    def splits(self, call: QCall, *others: int) -> tuple[Split, ...]:
        """How the kernel of the plan `call` is cut: by rows, of which arguments `others` are read
        likewise, and by pixels of a row, two where the kernel makes several at once.

        The rows of a matrix product are the pixels of one row. Where windows are the pixels
        themselves, parts of all pixels are rows of their own.
        """
        rows = [(0, self.oc * self.nbytes), (1, self.ic * self.nbytes)]
        if self.kind == "fc":
            return (Split.pieces("m", self.ow, rows),)
        by_rows = Split.rows(self.oh, *others)
        steps = {self.n, self.kh, self.kw, self.sw, self.sh if self.oh > 1 else 1}
        if steps != {1} or (self.pt, self.pl, self.iw) != (0, 0, self.ow):
            # Helium makes windows that overlap from shared columns: a part copies those it shares.
            most = 8 if self.simd == "mve" else 2
            tile = min(call.instance.get("P", most), most, self.ow)
            # With dot products strided windows of one pixel have scratch for a whole row only.
            fits = self.n == 1 < self.ow and (self.vlen == 1 or self.kh * self.kw > 1)
            return (by_rows, self.columns(tile, *others)) if fits else (by_rows,)
        one = Split.pieces("ow", self.oh * self.ow, [*rows, *((k, self.oc) for k in others)])
        fields = (*one.fields, replace(one.fields[0], member="iw"), PartField("y1", "one"))
        one = replace(one, fields=fields)
        return (by_rows, one) if self.oh > 1 else (one,)

    def columns(self, tile: int, *others: int) -> Split:
        """How the kernel is cut by pixels of a row, of which a part begins at a multiple of `tile`.
        A part is an image of less width, whose windows begin further to the right.
        """
        moves = ((0, self.oc * self.nbytes), *((k, self.oc) for k in others))
        fields = (
            PartField("ow", "count"),
            PartField("pl", "less", scale=self.sw),
            PartField("y_row0", "line", total=self.ow),
        )
        one = Split(self.ow, fields, moves, (), tile, (0, *others))
        return one.in_rows(self.oh)

    def blocks(self, call: QCall, *others: int) -> Split | None:
        """How the kernel is cut by output channels: units are as many channels as the plan `call`
        packs side by side. Of arguments `others` it reads the same channels. None if it cannot be.
        """
        if not call.tile or (self.kind == "fc" and self.ow > 1):
            return None
        own = [(0, 1), (2, call.weights.nbytes // round_up(self.oc, call.tile)), (3, 4)]
        own += [(4, 4)] * self.per_channel + [(5, 1)] * (self.per_channel and self.rq != 0)
        moves = [(arg, size * call.tile) for arg, size in (*own, *((k, 1) for k in others))]
        member = "n" if self.kind == "fc" else "oc"
        return Split.pieces(member, self.oc, moves, call.tile)

    def fields(self) -> dict[str, int]:
        """The kernel's parameters for all rows of the output."""
        if self.kind == "fc":
            limits = {"x_zero": self.x_zero, "y_zero": self.y_zero, "lo": self.lo, "hi": self.hi}
            return {"m": self.ow, "k": self.ic, "n": self.oc, **limits}
        return {**self.sizes(), "y0": 0, "y1": self.oh, "x_row0": 0, "y_row0": 0}


@dataclass(frozen=True, slots=True)
class QCall:
    """The kernel chosen for a QConv.

    `weights` and `bias` are stored as they are (the bias given to a plan already has
    -x_zero * sum of the weights in it), `scratch` is in bytes, `instance` are the kernel's
    constants besides RQ and PC, `inplace` permits that y is x, `staged` whether a kernel made of it
    stores sums before it rounds them.
    `rows_apart` tells that rows of x may lie anywhere, each with a pointer of its own; without it
    the kernel needs the rows of a window one behind the other. `tile` output channels are packed
    side by side, behind each other such blocks, which the kernel can make alone (0: it cannot).
    """

    kernel: str
    weights: Array
    bias: Array
    scratch: int = 0
    instance: dict[str, int] = field(default_factory=dict)
    inplace: bool = False
    staged: bool = True
    rows_apart: bool = True
    tile: int = 0


def round_up(count: int, multiple: int) -> int:
    """The least multiple that is not below `count`."""
    return -(-count // multiple) * multiple


def padded(data: Array, multiple: int, axis: int = 0) -> Array:
    """`data` with zeros at the end of `axis`, so that its size is a multiple of `multiple`."""
    widths = [(0, 0)] * data.ndim
    widths[axis] = (0, -data.shape[axis] % multiple)
    return np.pad(data, widths)
