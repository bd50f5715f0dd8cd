# SPDX-License-Identifier: Apache-2.0
"""Static types for every value: shape inference with a value interpreter of our own."""
