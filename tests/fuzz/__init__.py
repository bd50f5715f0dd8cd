# SPDX-License-Identifier: Apache-2.0
"""Differential fuzzing: random valid models against onnxruntime and onnx.reference."""
