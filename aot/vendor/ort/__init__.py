# SPDX-License-Identifier: Apache-2.0
"""onnxruntime as a vendor: operators that nobody else computes.

A region is kept as ONNX bytes, a constant of the bundle. NAME_init makes a session of it, and a run
hands the session the tensors of the region where they lie. docs/ort.md describes what is taken.
"""

from aot.vendor.ort.engine import backend

__all__ = ["backend"]
