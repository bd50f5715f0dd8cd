# SPDX-License-Identifier: Apache-2.0
"""The opset that every model is brought to."""

from __future__ import annotations


def canonical_opset() -> int:
    """The newest opset the installed onnx knows."""
    from onnx import defs

    return int(defs.onnx_opset_version())
