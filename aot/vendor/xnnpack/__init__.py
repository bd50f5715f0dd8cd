# SPDX-License-Identifier: Apache-2.0
"""XNNPACK as Debian 12 has it (February 2022): float32 and int8 values on x86-64 and aarch64.

Every match becomes one operator of the library that NAME_init creates, weights packed, and a run
sets up with its pointers and executes. docs/xnnpack.md describes what is taken.
"""

from aot.vendor.xnnpack import layers, products
from aot.vendor.xnnpack.base import backend

__all__ = ["backend", "layers", "products"]
