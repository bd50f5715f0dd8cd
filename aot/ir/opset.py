# SPDX-License-Identifier: Apache-2.0
"""The opset that every model is brought to."""

from __future__ import annotations

from aot.ir.deferred_import import onnx


def canonical_opset() -> int:
    """The newest opset the installed onnx knows."""
    return int(onnx.defs.onnx_opset_version())
