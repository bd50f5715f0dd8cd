# SPDX-License-Identifier: Apache-2.0
"""The AX1 instruction set: the one table.

Encoder, decoder, assembler, disassembler, the C header ax1_isa.h and docs/accel_isa.md come from
INSTRUCTIONS. An instruction is four little-endian words of 32 bits. Word 0 of every one is

    [5:0] opcode  [7:6] dtype  [11:8] wait  [15:12] signal  [18:16] r1  [21:19] r2  [24:22] r3

and [31:25] are its own. Before an instruction is decoded, address register r1 is added to word 1,
r2 to word 2 and r3 to word 3 (register 0 is always 0): so a loop moves any field of its body.
Counts of channels are elements; offsets and pitches are bytes. Reserved bits must be 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.vendor.accel_sim.kinds import DType, Unit

VERSION = 1
BYTES = 16
#: Fields of signed rows and columns are 12 bits wide and store the value plus this.
BIAS = 2048


@dataclass(frozen=True, slots=True)
class Field:
    """Bits [low + bits - 1 : low] of a word. `code`: u unsigned, s signed, n value - 1, b value +
    2048. `default` None: must be given."""

    name: str
    word: int
    low: int
    bits: int
    text: str
    code: str = "u"
    default: int | None = 0

    @property
    def range(self) -> tuple[int, int]:
        """(smallest, largest) value that the field can hold."""
        top = (1 << self.bits) - 1
        if self.code == "s":
            return -(1 << (self.bits - 1)), top >> 1
        shift = {"u": 0, "n": 1, "b": -BIAS}[self.code]
        return shift, top + shift

    def pack(self, value: int) -> int:
        """The bits of `value`, shifted to their place in the word; it must be within the range."""
        shift = {"u": 0, "s": 0, "n": -1, "b": BIAS}[self.code]
        return ((value + shift) & ((1 << self.bits) - 1)) << self.low

    def unpack(self, word: int) -> int:
        """The value of the field in a 32-bit `word`."""
        raw = (word >> self.low) & ((1 << self.bits) - 1)
        if self.code == "s":
            return raw - ((raw >> (self.bits - 1)) << self.bits)
        return raw + {"u": 0, "n": 1, "b": -BIAS}[self.code]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One row of the table. `reads` and `writes` name memories (SYS is a region)."""

    name: str
    opcode: int
    unit: Unit
    fields: tuple[Field, ...]
    text: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    dtypes: tuple[DType, ...] = (DType.I8,)

    @property
    def queued(self) -> bool:
        """Whether a unit executes it, so that it has wait and signal; else the front end does at
        once.
        """
        return self.unit is not Unit.FE

    def field(self, name: str) -> Field:
        """The instruction's own field with this name; StopIteration if it has none."""
        return next(f for f in self.fields if f.name == name)


def _y(word: int, which: str) -> tuple[Field, Field]:
    """The fields of a first pixel, row and column, in `word`; their names begin with `which`."""
    return (
        Field(f"{which}y", word, 20, 12, f"row of the first {which or 'pixel'}".strip(), "b"),
        Field(f"{which}x", word, 8, 12, "its column", "b"),
    )


_SIZE = (
    Field("rows", 3, 24, 8, "rows of pixels of the result", "n", None),
    Field("cols", 3, 16, 8, "columns of pixels of the result", "n", None),
)
_SYS = (
    Field("region", 1, 29, 3, "region of the system", default=None),
    Field("offset", 1, 0, 29, "byte in the region", default=None),
)
_DMA = (
    *_SYS,
    *_y(2, ""),
    Field("view", 2, 4, 4, "view of SPM", default=None),
    Field("strides", 2, 0, 4, "strides in the system", default=None),
    Field("rows", 3, 22, 10, "rows of pixels", "n", None),
    Field("cols", 3, 12, 10, "columns of pixels", "n", None),
    Field("ch", 3, 0, 12, "channels", "n", None),
)
_PRODUCT = (
    *_y(1, ""),
    Field("view", 1, 4, 4, "input", default=None),
    Field("kern", 1, 0, 4, "kernel", default=None),
    Field("wgt", 2, 20, 12, "first row of weights"),
    Field("acc", 2, 11, 9, "first row of sums"),
    Field("tiles", 2, 6, 5, "tiles of output channels", "n", 1),
    *_SIZE,
    Field("at", 3, 0, 16, "byte of the pixel where the channels begin"),
    Field("add", 0, 25, 1, "1: add to the sums, 0: replace them"),
)
_VECTOR = Field("vset", 0, 25, 3, "set of vector constants")
_TO = (*_y(1, ""), Field("view", 1, 4, 4, "result", default=None))
_FROM = (*_y(2, "from_"), Field("from_view", 2, 4, 4, "operand", default=None))
_CH = Field("ch", 3, 4, 12, "channels", "n", None)
_BOTH = (DType.I8, DType.F32)
_ALL = (DType.I8, DType.F32, DType.U8)

CONTROL = (
    Instruction(
        "HALT",
        0x00,
        Unit.FE,
        (Field("status", 1, 0, 16, "for the STATUS register"),),
        "Waits for all units, then raises the interrupt. Tokens left are a fault.",
    ),
    Instruction(
        "FENCE",
        0x01,
        Unit.FE,
        (Field("units", 1, 0, 4, "mask of units", default=15),),
        "The front end goes on when these units have completed what they were given.",
    ),
    Instruction(
        "LOOP",
        0x02,
        Unit.FE,
        (Field("count", 1, 0, 16, "times", "n", None),),
        "Executes up to the matching ENDL `count` times; at most 4 deep.",
    ),
    Instruction(
        "ENDL",
        0x03,
        Unit.FE,
        (
            Field("s1", 1, 0, 32, "added to register r1", "s"),
            Field("s2", 2, 0, 32, "added to register r2", "s"),
            Field("s3", 3, 0, 32, "added to register r3", "s"),
        ),
        "Ends a loop. After every pass s1, s2, s3 are added to the registers r1, r2, r3.",
    ),
    Instruction(
        "SETA",
        0x04,
        Unit.FE,
        (
            Field("v1", 1, 0, 32, "new value of register r1", "s"),
            Field("v2", 2, 0, 32, "new value of register r2", "s"),
            Field("v3", 3, 0, 32, "new value of register r3", "s"),
        ),
        "Sets the address registers r1, r2, r3 (0: none).",
    ),
    Instruction(
        "VIEW",
        0x05,
        Unit.FE,
        (
            Field("slot", 0, 25, 4, "which of 16", default=None),
            Field("base", 1, 12, 20, "byte in SPM of pixel (0, 0)", default=None),
            Field("pixel", 1, 0, 12, "bytes from pixel to pixel; 0 repeats one"),
            Field("row", 2, 12, 20, "bytes from row to row; 0 repeats one"),
            Field("ring", 2, 0, 12, "rows that exist in SPM: row y is row y mod ring; 0: all"),
            Field("height", 3, 20, 12, "rows of the tensor", "n", None),
            Field("width", 3, 8, 12, "columns of the tensor", "n", None),
            Field("pad", 3, 0, 8, "quantised value of positions outside (float32: 0)", "s"),
        ),
        "A tensor in SPM, channels last. Reads of MM, DW and POOL may leave it; nothing else may.",
    ),
    Instruction(
        "KERN",
        0x06,
        Unit.FE,
        (
            Field("slot", 0, 25, 4, "which of 16", default=None),
            Field("kh", 1, 24, 8, "taps down", "n", 1),
            Field("kw", 1, 16, 8, "taps across", "n", 1),
            Field("sh", 1, 12, 4, "stride down", "n", 1),
            Field("sw", 1, 8, 4, "stride across", "n", 1),
            Field("dh", 1, 4, 4, "dilation down", "n", 1),
            Field("dw", 1, 0, 4, "dilation across", "n", 1),
            Field("ci", 2, 0, 12, "channels: MM contracts them, DW has these from `at` 0", "n", 1),
        ),
        "The window of MM, DW and POOL.",
    ),
    Instruction(
        "STRD",
        0x07,
        Unit.FE,
        (
            Field("slot", 0, 25, 4, "which of 16", default=None),
            Field("row", 1, 0, 32, "bytes from row to row", "s"),
            Field("pixel", 2, 0, 32, "bytes from pixel to pixel", "s"),
            Field("channel", 3, 0, 32, "bytes from channel to channel", "s", 1),
        ),
        "Strides of a tensor in the system, for LD and ST: NHWC and NCHW are both strides.",
    ),
)

VSET0 = Instruction(
    "VSET0",
    0x08,
    Unit.FE,
    (
        Field("slot", 0, 25, 3, "which of 8", default=None),
        Field("zero", 1, 0, 8, "zero point of the result; FILL: the value", "s"),
        Field("lo", 1, 8, 8, "smallest quantised value", "s", -128),
        Field("hi", 1, 16, 8, "largest quantised value", "s", 127),
        Field("rq", 1, 24, 2, "0 float32, 2 TFLite, 3 divide (averages)"),
        Field("mult", 2, 0, 32, "multiplier of MUL, POOL, SOFTMAX (unit)", "s"),
        Field("shift", 3, 0, 8, "shift of MUL, POOL; SOFTMAX: bits", "s"),
        Field("za", 3, 8, 8, "zero point of the operand; SOFTMAX: last", "s"),
        Field("zb", 3, 16, 8, "zero point of the second operand", "s"),
    ),
    "Requantisation. Float32: `lo`, `hi` do not apply, VSET1 holds the limits.",
)
VSET1 = Instruction(
    "VSET1",
    0x09,
    Unit.FE,
    (
        Field("slot", 0, 25, 3, "which of 8", default=None),
        Field("ma", 1, 0, 32, "multiplier of a; float32: smallest result", "s"),
        Field("mb", 2, 0, 32, "multiplier of b; float32: largest result", "s"),
        Field("my", 3, 0, 32, "offset (kind 0, 1) or multiplier of the sum (kind 2)", "s"),
    ),
    "Addition of quantised values, and the residual of DRAIN. Float32: the limits as bit patterns.",
)
VSET2 = Instruction(
    "VSET2",
    0x0A,
    Unit.FE,
    (
        Field("slot", 0, 25, 3, "which of 8", default=None),
        Field("kind", 0, 28, 2, "0, 1 (halves to even): linear; 2: TFLite"),
        Field("minus", 0, 30, 1, "kind 2: a - b"),
        Field("sa", 1, 0, 8, "shift of a", "s"),
        Field("sb", 1, 8, 8, "shift of b", "s"),
        Field("sy", 1, 16, 8, "shift of the sum (kind 0, 1: to the right)", "s"),
        Field("za", 2, 0, 8, "zero point of a", "s"),
        Field("zb", 2, 8, 8, "zero point of b", "s"),
        Field("zy", 2, 16, 8, "zero point of the sum (kind 2)", "s"),
        Field("lo", 3, 0, 8, "smallest quantised value", "s", -128),
        Field("hi", 3, 8, 8, "largest quantised value", "s", 127),
    ),
    "The rest of an addition of quantised values.",
)

DMA = (
    Instruction(
        "LD",
        0x10,
        Unit.LD,
        _DMA,
        "Copies a tensor from the system into a view: element (i, j, c) from offset + i * row + "
        "j * pixel + c * channel of the strides to pixel (y + i, x + j). U8 flips the top bit.",
        ("SYS",),
        ("SPM",),
        _ALL,
    ),
    Instruction(
        "ST",
        0x11,
        Unit.ST,
        _DMA,
        "Copies a view to the system, as LD with the sides exchanged.",
        ("SPM",),
        ("SYS",),
        _ALL,
    ),
    Instruction(
        "LDL",
        0x12,
        Unit.LD,
        (
            *_SYS,
            Field("mem", 2, 29, 3, "0 SPM, 1 WGT, 2 PRM, 3 LUT", default=None),
            Field("to", 2, 12, 17, "SPM, LUT: byte; WGT: row of M bytes; PRM: channel"),
            Field("bytes", 3, 16, 16, "bytes written; PRM: bytes of records", "n", None),
            Field("packed", 3, 0, 16, "0, or bytes of the compressed weights (WGT only)"),
            Field("record", 0, 25, 1, "PRM: 0 bias, multiplier (8 bytes); 1 also shift (9 bytes)"),
        ),
        "Copies bytes into a local memory. WGT and PRM are rings. Compressed weights are blocks of "
        "32, see Compression.",
        ("SYS",),
        ("SPM", "WGT", "PRM", "LUT"),
    ),
)

COMPUTE = (
    Instruction(
        "MM",
        0x18,
        Unit.EX,
        _PRODUCT,
        "Convolution and matrix product. Sum row acc + t * rows * cols + p, lane m = sum over e of "
        "in[p, e] * W[wgt + t * D + e][m] with e = (ky * kw + kx) * ci + c, D = kh * kw * ci; "
        "in[p, e] is byte at + c (float32: at + 4 c) of pixel (y + oy * sh + ky * dh, "
        "x + ox * sw + kx * dw). Float32 adds in the order of e, every product rounded.",
        ("SPM", "WGT", "ACC"),
        ("ACC",),
        _BOTH,
    ),
    Instruction(
        "DW",
        0x19,
        Unit.EX,
        _PRODUCT,
        "Depthwise convolution. Lane m of tile t is channel c = at / size + t * M + m: the sum "
        "over taps k of in[p, k, c] * W[wgt + t * kh * kw + k][m]; 0 where c >= ci of the kernel.",
        ("SPM", "WGT", "ACC"),
        ("ACC",),
        _BOTH,
    ),
    Instruction(
        "DRAIN",
        0x20,
        Unit.VX,
        (
            *_TO,
            Field("res_view", 1, 0, 4, "residual, read at the position of the result"),
            Field("acc", 2, 23, 9, "first row of sums"),
            Field("prm", 2, 15, 8, "parameters of the first channel"),
            Field("at", 2, 3, 12, "byte of the pixel where the channels begin"),
            Field("res", 2, 0, 1, "1: add the residual"),
            *_SIZE,
            _CH,
            _VECTOR,
            Field("lut", 0, 28, 3, "0, or 1 + table that quantised values go through at last"),
        ),
        "Result = clamp(requantise(sum + bias, multiplier, shift) + zero, lo, hi) of the channel's "
        "parameters; then the residual is added as VSET1 and VSET2 say (a: the result, b: the "
        "residual); then the table. Float32: sum + bias, + residual, limited.",
        ("ACC", "PRM", "SPM", "LUT"),
        ("SPM",),
        _BOTH,
    ),
    Instruction(
        "ALU",
        0x21,
        Unit.VX,
        (
            *_TO,
            Field("b_view", 1, 0, 4, "second operand, at the position of the result"),
            *_FROM,
            Field("op", 2, 0, 4, "operation", default=None),
            *_SIZE,
            _CH,
            _VECTOR,
            Field("table", 0, 28, 2, "table of LUT"),
        ),
        "Elementwise: COPY, FILL, ADD, MUL, MAX, MIN, CLIP (lo, hi), LUT, SOFTMAX over the "
        "channels of every pixel (the LUT memory is its table of 256 words).",
        ("SPM", "LUT"),
        ("SPM",),
        _BOTH,
    ),
    Instruction(
        "POOL",
        0x22,
        Unit.VX,
        (
            *_TO,
            Field("kern", 1, 0, 4, "window", default=None),
            *_FROM,
            Field("op", 2, 0, 1, "0 maximum, 1 average"),
            *_SIZE,
            _CH,
            _VECTOR,
        ),
        "Pools windows whose first one begins at (from_y, from_x); positions outside do not "
        "count. Average: requantise(sum of (x - za)) + zero, or with rq 3 the sum divided by "
        "the positions, halves away from zero.",
        ("SPM",),
        ("SPM",),
        _BOTH,
    ),
)

INSTRUCTIONS = (*CONTROL, VSET0, VSET1, VSET2, *DMA, *COMPUTE)
BY_NAME = {i.name: i for i in INSTRUCTIONS}
BY_OPCODE = {i.opcode: i for i in INSTRUCTIONS}

#: Fields that every instruction has in word 0.
COMMON = (
    Field("op", 0, 0, 6, "opcode"),
    Field("dtype", 0, 6, 2, "0 int8, 1 float32, 2 uint8"),
    Field("wait", 0, 8, 4, "takes one token of each of these units before it starts"),
    Field("signal", 0, 12, 4, "gives one token to each of these units when it completes"),
    Field("r1", 0, 16, 3, "address register added to word 1"),
    Field("r2", 0, 19, 3, "address register added to word 2"),
    Field("r3", 0, 22, 3, "address register added to word 3"),
)
#: As many as their fields in instructions can number.
REGISTERS = 8
VIEWS = KERNELS = STRIDES = 16
VSETS = 8
MAX_LOOPS = 4
MAX_TOKENS = 15


def used_bits(row: Instruction) -> tuple[int, int, int, int]:
    """A mask for each of the four words with the bits that the instruction uses; others are
    reserved.
    """
    registers = row.name in ("ENDL", "SETA")
    masks = [0x01FFFFFF if row.queued else 0x01FF003F if registers else 0x3F, 0, 0, 0]
    for f in row.fields:
        masks[f.word] |= ((1 << f.bits) - 1) << f.low
    return masks[0], masks[1], masks[2], masks[3]
