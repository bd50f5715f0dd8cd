# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX whose rules are in packages of their own: `extras/` of this project."""

from __future__ import annotations

from aot.load.packages import packages

packages("Adagrad Adam Gradient Momentum", "ai.onnx.preview.training")("aotc-extras")
packages(
    "Binarizer FeatureVectorizer Imputer OneHotEncoder SVMClassifier SVMRegressor", "ai.onnx.ml"
)("aotc-extras")
for _domain in ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"):
    packages("BipolarQuant Quant Trunc", _domain)("aotc-extras")
