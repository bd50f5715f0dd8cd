# SPDX-License-Identifier: Apache-2.0
"""The enumerations of AX1: values of fields, units, memories, faults."""

from __future__ import annotations

from enum import IntEnum


class Unit(IntEnum):
    """Who executes an instruction; the first four are bits of wait and signal."""

    LD = 0
    EX = 1
    VX = 2
    ST = 3
    FE = 4


#: Everybody but the front end.
UNITS = (Unit.LD, Unit.EX, Unit.VX, Unit.ST)


class DType(IntEnum):
    """Elements: int8 quantised values, float32, uint8 in system memory (the DMA flips the top
    bit)."""

    I8 = 0
    F32 = 1
    U8 = 2


class Mem(IntEnum):
    """Local memories as destinations of LDL."""

    SPM = 0
    WGT = 1
    PRM = 2
    LUT = 3


class Alu(IntEnum):
    """Operations of ALU."""

    COPY = 0
    FILL = 1
    ADD = 2
    MUL = 3
    MAX = 4
    MIN = 5
    CLIP = 6
    LUT = 7
    SOFTMAX = 8


class Rq(IntEnum):
    """How sums become quantised values: as RQ 0 and 2 of runtime_c/kernels/aot_requant.h."""

    FLOAT = 0
    TFLITE = 2
    DIVIDE = 3


class Kind(IntEnum):
    """How two quantised values are added: as KIND of runtime_c/kernels/aot_qbinary.h."""

    LINEAR = 0
    EVEN = 1
    TFLITE = 2


class Fault(IntEnum):
    """Why the machine stopped."""

    NONE = 0
    OPCODE = 1
    RESERVED = 2
    REGION = 3
    READ_ONLY = 4
    LOCAL = 5
    TOKENS = 6
    DEADLOCK = 7
    STREAM = 8
    LOOPS = 9
    LEFT = 10
    FIELD = 11
    PACKED = 12
    ABORTED = 13
