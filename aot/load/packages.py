# SPDX-License-Identifier: Apache-2.0
"""Operators that need a package of their own, and how to install it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from aot.errors import UnsupportedError, shell_word
from aot.ir.operators import Interface

packages: Interface[str] = Interface("packages")
"""The rule of an operator is the name of the package that has its rules."""

_CHECKOUT = Path(__file__).resolve().parents[2]


def lacking(title: str, name: str, domain: str) -> UnsupportedError | None:
    """The error of a node called `title` whose operator needs a package that is not installed."""
    package = packages.named(name, domain)
    if package is None or importlib.util.find_spec(package.replace("-", "_")) is not None:
        return None
    extra = package.removeprefix("aotc-")
    folder = _CHECKOUT / extra
    wanted = str(folder) if (folder / "pyproject.toml").is_file() else f"aotc[{extra}]"
    what = f"{title}: the operator {domain}.{name} is in the package {package}, not installed here"
    return UnsupportedError(what, hint=f"`pip install {shell_word(wanted)}`")
