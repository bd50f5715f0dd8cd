# SPDX-License-Identifier: Apache-2.0
"""cuDNN and cuBLAS on an NVIDIA GPU: float32 values, in memory of the GPU inside a region.

A region becomes copies to the GPU, steps of the two libraries, which are recorded as a CUDA graph,
and copies from it. docs/cudnn.md describes what is taken.
"""

from aot.vendor.cudnn import layers
from aot.vendor.cudnn.base import backend

__all__ = ["backend", "layers"]
