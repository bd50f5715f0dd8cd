# SPDX-License-Identifier: Apache-2.0
"""Operators without a kernel: other stages rewrite them, and rely on what is said here."""

from __future__ import annotations

from aot.ir.operators import Elementwise, operator

operator("Dropout", "x ratio? training?", traits=[Elementwise("x")])
