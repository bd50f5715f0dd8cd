# SPDX-License-Identifier: Apache-2.0
"""ESP-NN on Espressif's chips, and its plain C elsewhere: int8 layers in TensorFlow Lite's
arithmetic, by the library of the user's project.

Every match becomes one call. docs/esp_nn.md describes what is taken.
"""

from aot.vendor.esp_nn.layers import backend

__all__ = ["backend"]
