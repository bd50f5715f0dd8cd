# SPDX-License-Identifier: Apache-2.0
"""Operators that onnxruntime's optimiser writes into models, by ONNX's own operators."""

from __future__ import annotations

MICROSOFT = "com.microsoft"
"""The domain of these operators."""
