# SPDX-License-Identifier: Apache-2.0
"""Operators in portable C: one file per family, each found by being here."""
