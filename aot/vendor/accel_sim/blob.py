# SPDX-License-Identifier: Apache-2.0
"""Region 1: weights, records, tables and constant operands, compressed where that pays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from aot.vendor.accel_sim.config import Config
from aot.vendor.accel_sim.items import Load
from aot.vendor.accel_sim.kinds import Mem
from aot.vendor.accel_sim.network import AccelOptions, Tensor
from aot.vendor.accel_sim.pack import pack, packed_size
from aot.vendor.accel_sim.timing import linear_cycles

ALIGN = 16


class Blob:
    """Bytes that grow; the same bytes are stored once."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._found: dict[bytes, int] = {}

    @property
    def data(self) -> bytes:
        """All bytes that were added, with zeros behind them up to a multiple of ALIGN bytes."""
        return bytes(self._data) + bytes(-len(self._data) % ALIGN)

    def add(self, data: bytes, align: int = 1) -> int:
        """The byte offset at which `data` is stored; it is appended unless the same bytes are there
        already.

        A new piece begins at a multiple of `align` bytes; a piece that is found again keeps its
        older place.
        """
        if data not in self._found:
            self._data += bytes(-len(self._data) % align)
            self._found[data] = len(self._data)
            self._data += data
        return self._found[data]

    def constant(self, tensor: Tensor) -> int:
        """The byte offset of the elements of a constant operand [height, width, channels], added
        here.

        They are stored dense in row-major order, as float32, uint8 or int8, from a multiple of 4
        bytes on.
        """
        assert tensor.data is not None
        kind = (
            np.float32 if tensor.dtype == "f32" else np.uint8 if tensor.dtype == "u8" else np.int8
        )
        return self.add(np.ascontiguousarray(tensor.data.astype(kind)).tobytes(), 4)


def pack_loads(c: Config, options: AccelOptions, loads: Sequence[Load], blob: Blob) -> None:
    """Add the bytes of every load to `blob` and set its `offset` there (bytes).

    Weights are compressed where that is better; `packed` (bytes) and `zeros` (blocks) are set then,
    too.
    """
    flash = options.weights == "flash"
    for load in loads:
        data = load.data
        if load.mem is Mem.WGT and options.compress != "off":
            size, zeros = _sizes(data)
            if _better(c, options, flash, len(data), size, zeros):
                load.packed, load.zeros, data = size, zeros, _packed(data)
        load.offset = blob.add(data)


_sizes = lru_cache(maxsize=8192)(packed_size)
_packed = lru_cache(maxsize=8192)(pack)


def _better(
    c: Config, options: AccelOptions, flash: bool, size: int, small: int, zeros: int
) -> bool:
    """Whether weights of `size` bytes are compressed, which makes them `small` bytes with `zeros`
    blocks.

    Options may force compression; otherwise the load must take fewer cycles. `flash`: they lie in
    flash.
    """
    # The field of LDL for the compressed size has 16 bits.
    if small >= size or small > 65535:
        return False
    if options.compress == "on" or options.objective in ("flash", "energy"):
        return True
    return linear_cycles(c, flash, size, small, zeros) < linear_cycles(c, flash, size)
