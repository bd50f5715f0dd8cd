# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures: this folder is importable, real models are found by AOT_TEST_MODELS."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
# `make test` must not make the builds of the tests its own sub-makes, which talk more.
for _name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(_name, None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")
    parser.addoption(
        "--backend",
        default="",
        help="the vendor that tests/vendor/test_backend.py examines (the one of the examples)",
    )
    parser.addoption("--backend-target", default="host", help="the target it is examined on (host)")


@pytest.fixture(scope="session")
def models_folder() -> Path:
    """The folder of real models; skips visibly where there is none."""
    folder = os.environ.get("AOT_TEST_MODELS", "")
    if not folder:
        pytest.skip("AOT_TEST_MODELS is not set: the real models are not on this machine")
    if not Path(folder).is_dir():
        pytest.fail(f"AOT_TEST_MODELS={folder} is not a folder")
    return Path(folder)
