# SPDX-License-Identifier: Apache-2.0
"""What the integer kernels are planned from and planned to: sizes, zero points, packed weights."""

from __future__ import annotations

from dataclasses import dataclass, field

from aot.ir.graph_nodes import Array
from aot.ir.rows import Rowwise, Window


@dataclass(frozen=True, slots=True)
class QConv:
    """A 2-D convolution of int8 quantised values, channels last; a 1-D one has height 1.

    x is [n][ih][iw][ic], y [n][oh][ow][oc]; `x_zero` and `y_zero` are zero points, [lo, hi] bounds
    of the final quantised value. `rq` is the arithmetic (aot_requant.h), `per_channel` whether
    there is one multiplier per output channel, `arch`, `simd`, `cpu` and `vlen` (float lanes) tell
    the target.
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

    @property
    def macs(self) -> int:
        """Multiplications of a full convolution (a depthwise one has 1/ic of them)."""
        return self.n * self.oh * self.ow * self.oc * self.kh * self.kw * self.ic

    def sizes(self) -> dict[str, int]:
        """The kernel's parameters but for the rows."""
        named = "n ic ih iw oc oh ow kh kw sh sw dh dw pt pl x_zero y_zero lo hi".split()
        return {k: int(getattr(self, k)) for k in named}

    def rowwise(self, *others: int, last: bool = True) -> Rowwise | None:
        """How the kernel makes its result, argument 0, from argument 1 by rows; None for batches.

        Of arguments `others` it reads one row too. `last` tells that the parameters say which rows
        of the result to make.
        """
        if self.n != 1:
            return None
        window = Window(1, self.ih, self.kh, self.sh, self.dh, self.pt)
        fields = [("ih", -1, "rows"), ("pt", -1, "above"), ("oh", -1, "one")]
        fields += [("y1", -1, "one")] if last else []
        return Rowwise(self.oh, (0, *others), window, tuple(fields))

    def fields(self) -> dict[str, int]:
        """The kernel's parameters for all rows of the output."""
        return {**self.sizes(), "y0": 0, "y1": self.oh, "x_row0": 0, "y_row0": 0}


@dataclass(frozen=True, slots=True)
class QFc:
    """y[m][n] = x[m][k] · w[n][k] on int8 quantised values; the other fields are those of QConv."""

    m: int
    k: int
    n: int
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

    @property
    def macs(self) -> int:
        """Multiplications."""
        return self.m * self.k * self.n

    def fields(self) -> dict[str, int]:
        """The kernel's parameters."""
        named = ("m", "k", "n", "x_zero", "y_zero", "lo", "hi")
        return {name: int(getattr(self, name)) for name in named}


@dataclass(frozen=True, slots=True)
class QCall:
    """The kernel chosen for a QConv or QFc.

    `weights` and `bias` are stored as they are (the bias given to a plan already has
    -x_zero * sum of the weights in it), `scratch` is in bytes, `instance` are the kernel's
    constants besides RQ and PC, `inplace` permits that y is x, `header` is the C file ("" = that of
    the kernel's name), `staged` whether a kernel made of it stores sums before it rounds them.
    `rows_apart` tells that rows of x may lie anywhere, each with a pointer of its own; without it
    the kernel needs the rows of a window one behind the other.
    """

    kernel: str
    weights: Array
    bias: Array
    scratch: int = 0
    instance: dict[str, int] = field(default_factory=dict)
    inplace: bool = False
    header: str = ""
    staged: bool = True
    rows_apart: bool = True
