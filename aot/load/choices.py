# SPDX-License-Identifier: Apache-2.0
"""Attributes whose text is one of a few: ONNX gives other texts no meaning.

The sets are those of ONNX's texts over all opsets, and of onnxruntime for its own operators. Where
the set of an operator is open (labels, equations, patterns) there is no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aot.errors import ModelError, meant
from aot.load.check import STANDARD_DOMAINS, all_graphs, node_title

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import onnx

ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"
_RECURRENT = "GRU LSTM RNN"
_PADDED = "AveragePool Conv ConvInteger ConvTranspose LpPool MaxPool QLinearConv"
_SCORES = (
    "LinearClassifier LinearRegressor SVMClassifier SVMRegressor TreeEnsembleClassifier "
    "TreeEnsembleRegressor"
)
_TREES = "TreeEnsembleClassifier TreeEnsembleRegressor"
_PADS = "NOTSET SAME_UPPER SAME_LOWER VALID"
_CACHED = "NONE PER_TENSOR PER_CHANNEL"
_ACTIVATIONS = (
    "Affine Elu HardSigmoid LeakyRelu Relu ScaledTanh Sigmoid Softplus Softsign Tanh "
    "ThresholdedRelu"
)

#: (domain, operators, attribute, texts).
ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("", _PADDED, "auto_pad", _PADS),
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
    ("", "Upsample", "mode", "nearest linear bilinear trilinear cubic"),
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
    (MICROSOFT, "FusedConv QLinearAveragePool QLinearConv", "auto_pad", _PADS),
    (
        MICROSOFT,
        "FusedConv",
        "activation",
        "Relu Tanh Sigmoid LeakyRelu Clip HardSigmoid HardSwish",
    ),
    (
        MICROSOFT,
        "FusedGemm",
        "activation",
        "Relu Tanh Sigmoid LeakyRelu HardSigmoid Elu Celu Selu Softplus Softsign ScaledTanh "
        "ThresholdedRelu ParametricSoftplus",
    ),
    (MICROSOFT, "DynamicQuantizeLSTM", "direction", "forward reverse bidirectional"),
    (MICROSOFT, "DynamicQuantizeLSTM", "activations", _ACTIVATIONS),
    (MICROSOFT, "GroupQueryAttention", "k_quant_type", _CACHED),
    (MICROSOFT, "GroupQueryAttention", "v_quant_type", _CACHED),
)
CHOICES = {
    (domain, operator, attribute): tuple(texts.split())
    for domain, operators, attribute, texts in ROWS
    for operator in operators.split()
}
#: Attributes whose texts are the same in any case, as in onnxruntime.
ANY_CASE = frozenset({"activations"})
#: Attributes that may be empty: onnxruntime and onnx.reference take that for NOTSET.
MAY_BE_EMPTY = frozenset({"auto_pad"})


def check_choices(model: onnx.ModelProto, claimed: Collection[str] = ()) -> None:
    """ModelError for the first text that is none of its attribute's; functions are looked into.

    Calls of the model's functions, and onnxruntime's operators where a backend claims them
    ("domain::name"), may have texts of their own.
    """
    own = {(_domain(f.domain), f.name) for f in model.functions}
    nodes = [n for g in all_graphs(model.graph) for n in g.node]
    nodes += [n for f in model.functions for n in f.node]
    for node in nodes:
        key = _domain(node.domain), node.op_type
        if key in own or (key[0] == MICROSOFT and "::".join(key) in claimed):
            continue
        for given in node.attribute:
            allowed = CHOICES.get((*key, given.name))
            if allowed is not None:
                _check(node, given, allowed)


def _check(node: onnx.NodeProto, given: onnx.AttributeProto, allowed: tuple[str, ...]) -> None:
    for text in _texts(given):
        if not _is_one_of(text, allowed, given.name):
            what = f"{node_title(node)}: {given.name} {text[:60]!r} has no meaning"
            known = ", ".join(allowed)
            raise ModelError(what, hint=meant(text, allowed, f"{given.name} is one of {known}"))


def _domain(domain: str) -> str:
    return "" if domain in STANDARD_DOMAINS else domain


def _texts(attribute: onnx.AttributeProto) -> Iterator[str]:
    """The texts of an attribute; none where it refers to an attribute of its function."""
    from onnx import AttributeProto

    if attribute.ref_attr_name:
        return
    kinds = {AttributeProto.STRING: [attribute.s], AttributeProto.STRINGS: attribute.strings}
    for text in kinds.get(attribute.type, ()):
        yield text.decode("utf-8", "replace")


def _is_one_of(text: str, allowed: tuple[str, ...], attribute: str) -> bool:
    if not text:
        return attribute in MAY_BE_EMPTY
    if attribute in ANY_CASE:
        return text.lower() in {a.lower() for a in allowed}
    return text in allowed
