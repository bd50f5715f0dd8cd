# SPDX-License-Identifier: Apache-2.0
"""A bundle whose manifest somebody changed gave tracebacks of NumPy, of dictionaries and of ctypes
through `load()`; some changes were taken, and the library was called with too few tensors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aot
from aot.errors import AotError
from graphs import model

CHANGES = [
    ("inputs", []),
    ("inputs.0.dtype", "float12"),
    ("outputs.0.shape", [-2, 3]),
    ("outputs.0.shape", [1 << 40, 1 << 20]),
    ("outputs.0.shape", "ab"),
    ("outputs.0.shape", [2.5, 3]),
    ("memory", {}),
    ("memory.arena_bytes", 1 << 60),
    ("memory.alignment", 0),
    ("target", 3),
    ("name", "../net"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("changed") / "out"
    made = model([("Relu", "x", "y")], {"x": [2, 3]}, {"y": [2, 3]})
    aot.compile(made, out, name="net").build()
    return out


def change(manifest: Any, path: str, value: Any) -> None:
    *folders, last = path.split(".")
    for key in folders:
        manifest = manifest[int(key) if key.isdigit() else key]
    manifest[last] = value


@pytest.mark.parametrize("recorded", [True, False])  # a moved bundle may have no OUT/aotc.json
def test_a_changed_manifest_is_named(built: Path, recorded: bool) -> None:
    path, record = built / "bundle" / "manifest.json", built / "aotc.json"
    whole, kept = path.read_text(), record.read_text()
    if not recorded:
        record.unlink()
    try:
        for key, value in CHANGES:
            manifest = json.loads(whole)
            change(manifest, key, value)
            path.write_text(json.dumps(manifest))
            says = "manifest.json is not as aotc wrote it"
            with pytest.raises(AotError, match=says if recorded else f"{says}|takes 0|no memory"):
                aot.Bundle(built).load()(np.zeros((2, 3), np.float32))
    finally:
        path.write_text(whole)
        record.write_text(kept)
    assert aot.Bundle(built).load()(np.ones((2, 3), np.float32)).shape == (2, 3)
