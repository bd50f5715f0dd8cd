# SPDX-License-Identifier: Apache-2.0
"""Axes whose extent a run decides: one file per family of operators."""
