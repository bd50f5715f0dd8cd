# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures: this folder is importable, real models are found by AOT_TEST_MODELS."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aot.ops.registry import load_all

sys.path.insert(0, str(Path(__file__).parent))
# Passes ask the records of operators, which every compilation loads first.
load_all()
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


#: The generator of every module of this folder that has one, and its state when first met.
_GENERATORS: dict[str, tuple[np.random.Generator, Any]] = {}


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """A test's data do not depend on the tests before it: every RNG starts anew."""
    for name in set(sys.modules).difference(_GENERATORS):
        found = getattr(sys.modules[name], "__dict__", {}).get("RNG")
        if isinstance(found, np.random.Generator):
            _GENERATORS[name] = (found, found.bit_generator.state)
    for generator, state in _GENERATORS.values():
        generator.bit_generator.state = state


@pytest.fixture(scope="session")
def models_folder() -> Path:
    """The folder of real models; skips visibly where there is none."""
    folder = os.environ.get("AOT_TEST_MODELS", "")
    if not folder:
        pytest.skip("AOT_TEST_MODELS is not set: the real models are not on this machine")
    if not Path(folder).is_dir():
        pytest.fail(f"AOT_TEST_MODELS={folder} is not a folder")
    return Path(folder)
