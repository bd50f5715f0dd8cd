# SPDX-License-Identifier: Apache-2.0
"""Axes whose size a run decides: one file per family of operators."""
