# SPDX-License-Identifier: Apache-2.0
"""Weights that are stored in fewer bytes, or in slow memory: calls get them by blocks."""
