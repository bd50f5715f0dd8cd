# SPDX-License-Identifier: Apache-2.0
"""CMSIS-NN on Arm microcontrollers, and its portable C elsewhere: int8 and int16 layers in
TensorFlow Lite's arithmetic, by the library of the user's project.

Every match becomes one call. What the library wants of the caller, scratch memory and sums of
weights, is computed by the compiler for the target. docs/cmsis_nn.md describes what is taken.
"""

from aot.vendor.cmsis_nn import layers, moves, products
from aot.vendor.cmsis_nn.base import backend

__all__ = ["backend", "layers", "moves", "products"]
