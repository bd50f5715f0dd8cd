# SPDX-License-Identifier: Apache-2.0
"""Operators for aotc that few models have; every module gives its rules when it is imported."""

from aotc_extras import features, gradient, optimisers, qonnx, support_vectors

__all__ = ["features", "gradient", "optimisers", "qonnx", "support_vectors"]
