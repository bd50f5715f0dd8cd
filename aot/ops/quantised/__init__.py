# SPDX-License-Identifier: Apache-2.0
"""Operators between quantised values in portable C: integer kernels."""
