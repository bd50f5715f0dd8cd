# SPDX-License-Identifier: Apache-2.0
"""Strings as the generated C has them: rows of bytes, zero-padded UTF-8."""

from __future__ import annotations

from typing import Any

import numpy as np


def encode(texts: Any, width: int) -> np.ndarray[Any, Any]:
    """An array of str or bytes as uint8 with an axis of `width` behind the others.

    Raises ValueError for one that is too long.
    """
    given = np.asarray(texts, dtype=object)
    found = np.zeros((given.size, width), np.uint8)
    for row, text in zip(found, given.ravel(), strict=True):
        data = text.encode() if isinstance(text, str) else bytes(text)
        if len(data) > width:
            raise ValueError(f"{data[:40]!r} has {len(data)} bytes")
        row[: len(data)] = np.frombuffer(data, np.uint8)
    return found.reshape(*given.shape, width)
