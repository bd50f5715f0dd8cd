# SPDX-License-Identifier: Apache-2.0
"""What the compiler of AX1 is given and what it returns: a network of layers, a finished program.

The border between two parts. The backend turns a region of the graph into a `Network`; `compile.py`
turns that into a `Compiled`. Nothing here knows ONNX, addresses or instructions.

A tensor is one image, height x width x channels. In the scratchpad it is stored channels last and
dense, as int8 quantised values or float32; in system memory it lies as its `strides` say, and u8
tensors there are the same quantised values with the top bit flipped (so code 0 of u8 is code -128
inside).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from aot.vendor.accel_sim.estimate import Timeline
from aot.vendor.accel_sim.kinds import Kind, Rq
from aot.vendor.accel_sim.timing import Region

Array = np.ndarray[Any, Any]

#: `input`, `output`: a region of the system; `const`: `data` in flash; `inner`: wherever it fits.
Where = Literal["input", "output", "const", "inner"]
Element = Literal["i8", "u8", "f32"]
LayerKind = Literal[
    "conv",  # weights [co, kh, kw, ci]; inputs (x,) or (x, residual); a dense layer is 1 x 1
    "dw",  # weights [c, kh, kw, 1]; inputs (x,) or (x, residual)
    "max",  # pooling, positions outside do not count
    "average",  # pooling, positions outside do not count
    "add",  # inputs (a, b); `add` holds the constants (float32: limits)
    "mul",  # inputs (a, b); `requant` with za, zb (float32: limits)
    "maximum",  # inputs (a, b) of the same scale
    "minimum",
    "clip",  # quantised values to requant.lo ... hi (float32: limits)
    "lut",  # quantised values through `table`
    "softmax",  # over the channels of every pixel; `table` are 256 words
    "copy",
    "concat",  # along `axis`; parts have the scale of the result
    "slice",  # the part of the input that begins at `start`
    "reshape",  # the same values in the order y, x, channel under another shape
]


@dataclass(frozen=True, slots=True)
class Tensor:
    """height x width x channels elements.

    `zero` is the quantised value of zero (what windows read outside; float32: 0). `strides` are for
    `input` and `output`: elements from row to row, pixel to pixel, channel to channel in system
    memory (None: dense, channels last). `data` [height, width, channels] is there for `const` only.
    """

    name: str
    height: int
    width: int
    channels: int
    dtype: Element = "i8"
    zero: int = 0
    where: Where = "inner"
    strides: tuple[int, int, int] | None = None
    data: Array | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        return self.height, self.width, self.channels

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return 4 if self.dtype == "f32" else 1

    @property
    def bytes(self) -> int:
        """Bytes of the dense tensor."""
        return self.height * self.width * self.channels * self.itemsize

    @property
    def element_strides(self) -> tuple[int, int, int]:
        """`strides`, or those of the dense tensor."""
        return self.strides or (self.width * self.channels, self.channels, 1)

    @property
    def extent(self) -> int:
        """Bytes of system memory from the first to the last element."""
        steps = zip(self.shape, self.element_strides, strict=True)
        return (sum((n - 1) * step for n, step in steps) + 1) * self.itemsize


@dataclass(frozen=True, slots=True)
class Window:
    """The window of conv, dw, max, average; the output's size tells what is read beyond the end."""

    kh: int = 1
    kw: int = 1
    sh: int = 1
    sw: int = 1
    dh: int = 1
    dw: int = 1
    top: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class Requant:
    """How a sum becomes a quantised value: clamp(rq(sum, mult, shift) + zero, lo, hi).

    `mult` and `shift` have one value per output channel (conv, dw) or one in all: for Rq.FLOAT
    `mult` holds the float32 scale (as float32) and shift is ignored; for Rq.TFLITE the Q31
    multiplier (int32) and the shift (positive: to the left); Rq.DIVIDE (average) uses neither.
    `za`, `zb`: zero points of the operands of mul, za also of average. Softmax: mult is the unit,
    shift the bits, za the last entry of the table.
    """

    rq: Rq = Rq.FLOAT
    mult: Array = field(default_factory=lambda: np.zeros(1, np.float32))
    shift: Array = field(default_factory=lambda: np.zeros(1, np.int8))
    zero: int = 0
    lo: int = -128
    hi: int = 127
    za: int = 0
    zb: int = 0


@dataclass(frozen=True, slots=True)
class QuantisedAddition:
    """The constants of a sum of two quantised values: VSET1 and VSET2 of the instruction table."""

    kind: Kind
    ma: int
    mb: int
    my: int
    sa: int = 0
    sb: int = 0
    sy: int = 0
    za: int = 0
    zb: int = 0
    zy: int = 0
    lo: int = -128
    hi: int = 127
    minus: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """One operation. `inputs` and `output` are indices into the tensors of the network.

    conv, dw: out = table[add(requant(sum + bias), residual)], with `add` and `table` optional; the
    quantised values of the input are summed as they are, so the input's zero point is folded into
    `bias` (int32, minus zero * sum of the weights) and positions outside read the input's `zero`.
    With `add` the last input is the residual: a is the quantised value of the sum, b the residual.
    float32: sum + bias (float32), + residual if there are two inputs, limited to `limits`.
    """

    kind: LayerKind
    name: str
    inputs: tuple[int, ...]
    output: int
    window: Window = Window()
    weights: Array | None = None
    bias: Array | None = None
    requant: Requant | None = None
    add: QuantisedAddition | None = None
    table: Array | None = None
    limits: tuple[float, float] = (-np.inf, np.inf)
    axis: Literal["y", "x", "c"] = "c"
    start: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Network:
    """Tensors, and layers in an order in which they can be computed.

    Every `inner` and `output` tensor is written by one layer, before it is read.
    """

    tensors: tuple[Tensor, ...]
    layers: tuple[Layer, ...]

    def ios(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(inputs, outputs): indices of the tensors that are regions, in their order."""
        numbered = list(enumerate(self.tensors))
        return (
            tuple(n for n, t in numbered if t.where == "input"),
            tuple(n for n, t in numbered if t.where == "output"),
        )


@dataclass(frozen=True, slots=True)
class AccelOptions:
    """What the user chose. `weights`: where region 1 lies (sram: resident, at the SRAM's rate)."""

    weights: Literal["flash", "sram"] = "flash"
    compress: Literal["auto", "on", "off"] = "auto"
    objective: Literal["latency", "ram", "energy", "flash"] = "latency"


@dataclass(frozen=True, slots=True)
class LayerReport:
    """One layer in the finished program: when its instructions ran, and what they moved.

    `busy` are cycles of LD, EX, VX, ST for this layer; `macs` the products the layer needs (no
    padded lanes); `weights` bytes loaded for it (compressed where they are).
    """

    name: str
    kind: str
    start: int
    end: int
    busy: tuple[int, int, int, int]
    macs: int
    weights: int
    tiling: str = ""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A verified program.

    Region 0 is `stream`, 1 is `weights` (constants, 16-byte aligned), 2 `spill` bytes of scratch
    (may be 0: give the region some valid address all the same), then the inputs and the outputs in
    the order of `inputs` and `outputs` (indices of tensors), each `extent` bytes. `regions` are
    their sizes and kinds. `spm` is the highest byte of the scratchpad in use.
    """

    stream: bytes
    weights: bytes
    spill: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    regions: tuple[Region, ...]
    timeline: Timeline
    layers: tuple[LayerReport, ...]
    spm: int
    executed: int
    notes: tuple[str, ...] = ()

    @property
    def cycles(self) -> int:
        """Cycles of a run: the estimator's, which are the simulator's."""
        return self.timeline.total


#: Regions 0 to 2 are commands, constants, scratch; the machine has eight.
FIRST_IO, MAX_IOS = 3, 5
