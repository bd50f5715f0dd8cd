# SPDX-License-Identifier: Apache-2.0
"""Attributes whose text is one of a few: ONNX gives other texts no meaning.

The sets are those of ONNX's texts over all opsets. Where ONNX leaves the set of an operator open
(labels, equations, patterns) there is no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aot.errors import ModelError, meant
from aot.load.check import STANDARD_DOMAINS, all_graphs, node_title

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx

ML = "ai.onnx.ml"
_RECURRENT = "GRU LSTM RNN"
_PADDED = "AveragePool Conv ConvInteger ConvTranspose LpPool MaxPool QLinearConv"
_SCORES = (
    "LinearClassifier LinearRegressor SVMClassifier SVMRegressor TreeEnsembleClassifier "
    "TreeEnsembleRegressor"
)
_TREES = "TreeEnsembleClassifier TreeEnsembleRegressor"
_ACTIVATIONS = (
    "Affine Elu HardSigmoid LeakyRelu Relu ScaledTanh Sigmoid Softplus Softsign Tanh "
    "ThresholdedRelu"
)

#: (domain, operators, attribute, texts).
ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("", _PADDED, "auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID"),
    ("", "BitShift", "direction", "LEFT RIGHT"),
    ("", "Cast CastLike", "round_mode", "up down nearest"),
    ("", "CausalConvWithState", "activation", "none silu swish"),
    ("", "DepthToSpace SpaceToDepth", "mode", "DCR CRD"),
    ("", "Gelu", "approximate", "none tanh"),
    ("", "GridSample", "mode", "linear nearest cubic bilinear bicubic"),
    ("", "GridSample", "padding_mode", "zeros border reflection"),
    ("", "ImageDecoder", "pixel_format", "RGB BGR Grayscale"),
    ("", "LinearAttention", "update_rule", "linear gated delta gated_delta"),
    ("", "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", "reduction", "none sum mean"),
    ("", "Pad", "mode", "constant reflect edge wrap"),
    ("", "Resize", "mode", "nearest linear cubic"),
    ("", "Resize", "nearest_mode", "round_prefer_floor round_prefer_ceil floor ceil"),
    ("", "Resize", "keep_aspect_ratio_policy", "stretch not_larger not_smaller"),
    (
        "",
        "Resize",
        "coordinate_transformation_mode",
        "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric "
        "tf_crop_and_resize tf_half_pixel_for_nn",
    ),
    ("", "RoiAlign", "mode", "avg max"),
    ("", "RoiAlign", "coordinate_transformation_mode", "half_pixel output_half_pixel"),
    ("", "ScatterElements ScatterND", "reduction", "none add mul max min"),
    ("", "StringNormalizer", "case_change_action", "NONE LOWER UPPER"),
    ("", "TensorScatter", "mode", "linear circular"),
    ("", "TfIdfVectorizer", "mode", "TF IDF TFIDF"),
    ("", "Upsample", "mode", "nearest linear bilinear"),
    ("", _RECURRENT, "direction", "forward reverse bidirectional"),
    ("", _RECURRENT, "activations", _ACTIVATIONS),
    ("ai.onnx.preview.training", "Momentum", "mode", "nesterov standard"),
    (ML, "CastMap", "cast_to", "TO_FLOAT TO_STRING TO_INT64"),
    (ML, "CastMap", "map_form", "DENSE SPARSE"),
    (ML, "Normalizer", "norm", "MAX L1 L2"),
    (ML, "SVMClassifier SVMRegressor", "kernel_type", "LINEAR POLY RBF SIGMOID"),
    (ML, "TreeEnsembleRegressor", "aggregate_function", "AVERAGE SUM MIN MAX"),
    (ML, _SCORES, "post_transform", "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT"),
    (
        ML,
        _TREES,
        "nodes_modes",
        "BRANCH_LEQ BRANCH_LT BRANCH_GTE BRANCH_GT BRANCH_EQ BRANCH_NEQ LEAF",
    ),
)
CHOICES = {
    (domain, operator, attribute): tuple(texts.split())
    for domain, operators, attribute, texts in ROWS
    for operator in operators.split()
}
#: Attributes whose texts are the same in any case, as in onnxruntime.
ANY_CASE = frozenset({"activations"})


def check_choices(model: onnx.ModelProto) -> None:
    """ModelError for the first text that is none of its attribute's; functions are looked into."""
    nodes = [n for g in all_graphs(model.graph) for n in g.node]
    nodes += [n for f in model.functions for n in f.node]
    for node in nodes:
        domain = "" if node.domain in STANDARD_DOMAINS else node.domain
        for given in node.attribute:
            allowed = CHOICES.get((domain, node.op_type, given.name))
            if allowed is None:
                continue
            for text in _texts(given):
                if not _is_one_of(text, allowed, given.name in ANY_CASE):
                    what = f"{node_title(node)}: {given.name} {text[:60]!r} has no meaning"
                    known = ", ".join(allowed)
                    raise ModelError(
                        what, hint=meant(text, allowed, f"{given.name} is one of {known}")
                    )


def _texts(attribute: onnx.AttributeProto) -> Iterator[str]:
    """The texts of an attribute; none where it refers to an attribute of its function."""
    from onnx import AttributeProto

    if attribute.ref_attr_name:
        return
    kinds = {AttributeProto.STRING: [attribute.s], AttributeProto.STRINGS: attribute.strings}
    for text in kinds.get(attribute.type, ()):
        yield text.decode("utf-8", "replace")


def _is_one_of(text: str, allowed: tuple[str, ...], any_case: bool) -> bool:
    if any_case:
        return text.lower() in {a.lower() for a in allowed}
    return text in allowed
