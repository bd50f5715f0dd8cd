# SPDX-License-Identifier: Apache-2.0
"""Libraries built once for all ABI tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from abi import toy


@pytest.fixture(scope="session")
def mixed_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.build(toy.mixed(), tmp_path_factory.mktemp("mixed"))


@pytest.fixture(scope="session")
def big_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.build(toy.mlp("big", hidden=1024), tmp_path_factory.mktemp("big"))
