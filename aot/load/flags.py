# SPDX-License-Identifier: Apache-2.0
"""Attributes that say yes or no are 0 or 1: ONNX gives other numbers no meaning."""

from __future__ import annotations

from aot.errors import ModelError
from aot.ir.deferred_import import onnx
from aot.load.check import STANDARD_DOMAINS, all_graphs, node_title

FLAGS = frozenset(
    "align_corners allowzero antialias broadcast ceil_mode center_point_box count_include_pad "
    "detect_negative detect_positive exclude_outside exclusive fmod input_forget interleaved "
    "inverse is_case_sensitive is_causal is_test keepdims largest layout linear_before_reset "
    "new_axis noop_with_empty_axes one_class onesided output_sequence periodic reverse saturate "
    "select_last_index sorted spatial storage_order training_mode transA transB upper zeros".split()
)
"""Of all operators of ONNX."""


def check_flags(light: onnx.ModelProto) -> None:
    """ModelError for the first flag that is neither 0 nor 1."""
    nodes = [n for g in all_graphs(light.graph) for n in g.node]
    nodes += [n for f in light.functions for n in f.node]
    for node in nodes:
        if node.domain not in (*STANDARD_DOMAINS, "ai.onnx.ml"):
            continue
        for a in node.attribute:
            if a.type == onnx.AttributeProto.INT and a.name in FLAGS and a.i not in (0, 1):
                raise ModelError(f"{node_title(node)}: {a.name} {a.i} (needs 0 or 1)")
