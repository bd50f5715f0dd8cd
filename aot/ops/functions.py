# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX defines by smaller ones: nothing is known of them but their attributes."""

from __future__ import annotations

from aot.ir.operators import OneOf, operator

_REDUCTION = OneOf("none sum mean", "mean")
operator("NegativeLogLikelihoodLoss", "x target weight?", reduction=_REDUCTION)
operator("SoftmaxCrossEntropyLoss", "x target weight?", reduction=_REDUCTION)
operator("CausalConvWithState", "x w b? past?", activation=OneOf("none silu swish", "none"))
operator(
    "LinearAttention",
    "query key value past? decay? beta?",
    update_rule=OneOf("linear gated delta gated_delta"),
)
