# SPDX-License-Identifier: Apache-2.0
"""OUT/aotc.json remembered the digest of the model's file when all was done: of a file that changed
meanwhile, another model's, which verify then took for the one compiled. It is of the bytes read.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

import aot
from aot.errors import ModelError
from aot.tools.verify import model_path
from graphs import model

ONE = model([("Relu", "x", "y")], {"x": [2, 3]}, {"y": [2, 3]}).SerializeToString()
OTHER = model([("Abs", "x", "y")], {"x": [2, 3]}, {"y": [2, 3]}).SerializeToString()


def recorded(out: Path) -> dict[str, str | None]:
    found: dict[str, str | None] = json.loads((out / "aotc.json").read_text())
    return found


@pytest.mark.parametrize("partition", ["priority", "cost"])
def test_a_file_that_changes_meanwhile(partition: str, tmp_path: Path) -> None:
    path, out = tmp_path / "m.onnx", tmp_path / "out"
    path.write_bytes(ONE)

    def change(stage: str) -> None:
        if stage == "lower":
            path.write_bytes(OTHER)

    aot.compile(path, out, configure=False, progress=change, partition=partition)
    assert recorded(out)["sha256"] == sha256(ONE).hexdigest()
    with pytest.raises(ModelError, match="the model has changed since it was compiled"):
        model_path(recorded(out), None)


def test_bytes_have_a_digest(tmp_path: Path) -> None:
    aot.compile(ONE, tmp_path / "out", configure=False)
    record = recorded(tmp_path / "out")
    assert (record["model"], record["sha256"]) == (None, sha256(ONE).hexdigest())
