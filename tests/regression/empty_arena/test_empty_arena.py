# SPDX-License-Identifier: Apache-2.0
"""A model without intermediate results did not load in Python: its arena was not aligned."""

from aot.tools.shared_library import aligned


def test_no_bytes_are_aligned_too() -> None:
    for alignment in (16, 64, 256):
        kept = [aligned(0, alignment) for _ in range(20)]
        assert not [a for a in kept if a.ctypes.data % alignment]
