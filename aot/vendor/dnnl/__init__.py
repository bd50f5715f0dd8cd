# SPDX-License-Identifier: Apache-2.0
"""oneDNN on x86: float32 and 8-bit quantised values, libraries 2.6 to 3.x, found by CMake.

Every match becomes one primitive that NAME_init creates and every run executes. Activations stay
in blocks of 8 or 16 channels through a region, weights are reordered once when the primitive is
created. docs/dnnl.md describes what is taken and what is not.
"""

from aot.vendor.dnnl import (
    conv,
    elementwise,
    int8_products,
    moves,
    pools,
    products,
    recurrent,
    resizing,
    rows,
)
from aot.vendor.dnnl.base import backend

__all__ = [
    "backend",
    "conv",
    "int8_products",
    "elementwise",
    "moves",
    "pools",
    "products",
    "recurrent",
    "resizing",
    "rows",
]
