# SPDX-License-Identifier: Apache-2.0
"""What a test needs beyond the package: absent, the test is skipped; where CI is set, it fails."""

from __future__ import annotations

import importlib
import os
import shutil
from types import ModuleType
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip the test, or fail where `make test` has promised everything."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is not installed")
    pytest.skip(f"{what} is not installed")


def need(program: str) -> str:
    """The path of a program."""
    return shutil.which(program) or missing(program)


def need_module(name: str) -> ModuleType:
    """An installed Python module."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing(name)
