# SPDX-License-Identifier: Apache-2.0
"""The three machines and every constant of the cycle model."""

from __future__ import annotations

from dataclasses import dataclass

from aot.vendor import BackendError

KIB = 1024


@dataclass(frozen=True, slots=True)
class Config:
    """One AX1. Sizes in bytes, bandwidths in bytes per cycle, times in cycles.

    The array has `k` rows (depth) and `m` columns (channels) of int8 multipliers. `zero_block` is
    what the decompressor takes for a block of 32 zeros; 16 charges them like any other weights.
    """

    macs: int
    k: int
    m: int
    spm: int
    wgt: int
    acc: int
    prm: int
    sram_rate: int
    lut: int = 1024
    flash_rate: int = 1
    sram_latency: int = 32
    flash_latency: int = 64
    prefetch: int = 4
    queue: int = 8
    port: int = 16
    segments: int = 4
    scatter: int = 4
    row_gap: int = 2
    unpack_rate: int = 2
    zero_block: int = 1
    vx_fill: int = 8
    float_fill: int = 4
    dw_fill: int = 32
    dw_taps: int = 16
    softmax_fill: int = 64

    @property
    def wgt_rows(self) -> int:
        """Rows of `m` bytes in the weight memory."""
        return self.wgt // self.m

    @property
    def acc_rows(self) -> int:
        """Rows of `m` sums of 32 bits in the memory of sums."""
        return self.acc // (4 * self.m)

    @property
    def prm_channels(self) -> int:
        """Channels whose parameters fit into their memory, at 16 bytes each."""
        return self.prm // 16

    def lanes(self, size: int) -> int:
        """Columns of the array (output channels at a time) for elements of `size` bytes."""
        return self.m // size

    def depth(self, size: int) -> int:
        """Rows of the array (products that are summed in a cycle) for elements of `size` bytes."""
        return self.k // size

    def rate(self, flash: bool) -> int:
        """Bytes per cycle from system memory: of flash if `flash`, else of SRAM."""
        return self.flash_rate if flash else self.sram_rate

    def latency(self, flash: bool) -> int:
        """Cycles before the first byte of a burst from system memory: of flash if `flash`, else of
        SRAM.
        """
        return self.flash_latency if flash else self.sram_latency


CONFIGS = {
    64: Config(64, 8, 8, 32 * KIB, 8 * KIB, 4 * KIB, 1 * KIB, 4),
    256: Config(256, 16, 16, 64 * KIB, 32 * KIB, 16 * KIB, 2 * KIB, 8),
    512: Config(512, 32, 16, 128 * KIB, 64 * KIB, 16 * KIB, 4 * KIB, 16),
}


def config(macs: int | str = 256) -> Config:
    """The machine with `macs` int8 multipliers, given as a number or its text.

    Raises BackendError that lists the machines for an unknown one.
    """
    known = {str(n): c for n, c in CONFIGS.items()}
    if str(macs) not in known:
        raise BackendError(
            f"accel_sim:{macs} does not exist", hint=f"one of {', '.join(sorted(known, key=int))}"
        )
    return known[str(macs)]
