# SPDX-License-Identifier: Apache-2.0
"""The refusal of a value that only a run knows, where compiling needs to know it."""

from __future__ import annotations

from aot.errors import UnsupportedError
from aot.ir.deferred_import import ir


class KnownLate(UnsupportedError):
    """Something is known at run time only that must be known before.

    `deciding` are values that decide it, besides those that the refused node reads.
    """

    deciding: tuple[ir.Value, ...] = ()
