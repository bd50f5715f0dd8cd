# SPDX-License-Identifier: Apache-2.0
"""Ahead-of-time compiler from ONNX to standalone C: `aot.compile(model) -> Bundle`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aot.version import __version__

if TYPE_CHECKING:
    from aot.api import Bundle, compile

__all__ = ["Bundle", "__version__", "compile"]


def __getattr__(name: str) -> Any:
    if name in ("Bundle", "compile"):
        from aot import api

        return getattr(api, name)
    if name == "torch":  # only with PyTorch installed
        return import_module("aot.torch")
    raise AttributeError(f"module 'aot' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Names that are imported when they are first asked for are listed too."""
    return sorted({*globals(), *__all__})
