# SPDX-License-Identifier: Apache-2.0
"""Where tests get a CMSIS-NN from: a stand-in of this tree, and the real one where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

STANDIN = Path(__file__).parent / "cmsis_nn_standin"
VARIABLE = "AOT_CMSIS_NN_ROOT"
ROOTS = ("stand-in", "library")


def root(kind: str) -> Path:
    """The folder to give as AOT_CMSIS_NN_ROOT."""
    if kind == "stand-in":
        return STANDIN
    if VARIABLE not in os.environ:
        pytest.skip(f"{VARIABLE} is not set: tried with the stand-in only")
    return Path(os.environ[VARIABLE])
