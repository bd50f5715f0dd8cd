# SPDX-License-Identifier: Apache-2.0
"""An output that is stored plain, made from blocked channels, keeps its name in the C interface."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aot
from graphs import model


@pytest.mark.parametrize("target", ["x86-64-v3", "cortex-m4"])
def test_the_member_has_the_name_of_the_output(target: str, tmp_path: Path) -> None:
    weights = {"w": np.ones((16, 16, 3, 3), np.float32)}
    ends = {"x": (1, 16, 8, 8)}, {"y": (1, 16, 6, 6)}
    proto = model([("Conv", "x w", "y")], *ends, weights)
    bundle = aot.compile(proto, tmp_path, target=target, name="net", configure=False)
    header = (tmp_path / "bundle/include/tvmgen_net.h").read_text()
    assert "    /* float32[1,16,6,6] */\n    void *y;\n" in header
    assert "#define TVMGEN_NET_Y_SIZE 2304\n" in header
    assert bundle.manifest["outputs"][0]["identifier"] == "y"
