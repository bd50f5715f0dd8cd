# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures: this folder is importable, real models are found by AOT_TEST_MODELS."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from aot.ops.registry import load_all

sys.path.insert(0, str(Path(__file__).parent))
# Passes ask the records of operators, which every compilation loads first.
load_all()
# Programs that tests start find modules compiled, also where Python may not write beside them:
# else each `aotc` compiles four hundred again, which takes longer than what it is asked for.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    _compiled = tempfile.TemporaryDirectory(prefix="aotc-modules-")  # removed at exit
    os.environ["PYTHONPYCACHEPREFIX"] = _compiled.name
# `make test` must not make the builds of the tests its own sub-makes, which talk more.
for _name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(_name, None)
# Ninja takes two thirds of the processor time that make takes for a bundle. Pages that show make's
# words (tests/test_docs.py) are built by make.
os.environ.setdefault("CMAKE_GENERATOR", "Ninja")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")
    parser.addoption(
        "--backend",
        default="",
        help="the vendor that tests/vendor/test_backend.py examines (the one of the examples)",
    )
    parser.addoption("--backend-target", default="host", help="the target it is examined on (host)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "sample(count): of a function's parameters a run draws so many by AOT_SEED (0); "
        "AOT_FULL=1 tries all",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what the marker `sample` does not draw; an item that is named alone always runs."""
    if os.environ.get("AOT_FULL"):
        return
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample"):
            families.setdefault(item.nodeid.split("[")[0], []).append(item)
    skip = pytest.mark.skip(reason="AOT_FULL=1 tries all parameters, AOT_SEED=N others")
    for name, family in families.items():
        marker = family[0].get_closest_marker("sample")
        assert marker is not None
        seed = f"{os.environ.get('AOT_SEED', '0')} {name}"
        drawn = random.Random(seed).sample(family, min(marker.args[0], len(family)))
        for item in family:
            if item not in drawn:
                item.add_marker(skip)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """A test's data depend neither on the tests before it nor on those collected with it.

    Every module's RNG starts anew from its seed.
    """
    for module in list(sys.modules.values()):
        found = getattr(module, "__dict__", {}).get("RNG")
        if isinstance(found, np.random.Generator):
            fresh = np.random.default_rng(found.bit_generator.seed_seq)
            found.bit_generator.state = fresh.bit_generator.state


@pytest.fixture(scope="session")
def models_folder() -> Path:
    """The folder of real models; skips visibly where there is none."""
    folder = os.environ.get("AOT_TEST_MODELS", "")
    if not folder:
        pytest.skip("AOT_TEST_MODELS is not set: the real models are not on this machine")
    if not Path(folder).is_dir():
        pytest.fail(f"AOT_TEST_MODELS={folder} is not a folder")
    return Path(folder)
