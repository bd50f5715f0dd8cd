# SPDX-License-Identifier: Apache-2.0
"""Matches to calls: which layout, which kernel, which constants."""
