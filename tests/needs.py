# SPDX-License-Identifier: Apache-2.0
"""What a test needs beyond the package: absent, the test is skipped; where CI is set, it fails.

What is too large for `make test` (a browser, PyTorch) is for `make full`: there its absence fails.
"""

from __future__ import annotations

import importlib
import os
import shutil
from types import ModuleType
from typing import NoReturn

import pytest


def missing(what: str, hint: str = "") -> NoReturn:
    """Skip the test, or fail where `make test` has promised everything."""
    text = f"{what} is not installed" + (f": {hint}" if hint else "")
    if os.environ.get("CI"):
        pytest.fail(text)
    pytest.skip(text)


def missing_in_full(what: str) -> NoReturn:
    """Skip the test, or fail where `make full` has promised everything."""
    text = f"{what} is not installed: make full installs it"
    if os.environ.get("AOT_FULL"):
        pytest.fail(text)
    pytest.skip(text)


def need(program: str, hint: str = "") -> str:
    """The path of a program; `hint` says how to install it."""
    return shutil.which(program) or missing(program, hint)


def need_module(name: str) -> ModuleType:
    """An installed Python module."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing(name)
