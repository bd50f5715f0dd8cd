# SPDX-License-Identifier: Apache-2.0
"""`--ram` compared the arena alone: a model that passed took more than the budget.

It counts what `aotc size` prints for the bundle: arena, variables and the declared stack.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from aot.errors import TargetError
from aot.tools.run import open_out
from aot.tools.size import measure
from graphs import model

DIGITS = Path(__file__).resolve().parents[3] / "examples/digits/digits.onnx"


def chain() -> onnx.ModelProto:
    """Two layers with a state, a dimension that a run says, and constants for a file."""
    weights = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    rows = [("MatMul", "x w", "a"), ("Add", "a h", "g"), ("Tanh", "g", "y")]
    return model(rows, {"x": ("N", 64), "h": (1, 64)}, {"y": ("N", 64)}, {"w": weights})


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "digits in steps": (DIGITS, {"slice_macs": 20_000}),
    "digits on a board": (DIGITS, {"target": "cortex-m4", "objective": "ram"}),
    "rows that are pushed": (
        DIGITS.with_stem("digits_int8"),
        {"target": "cortex-m4", "push": "image"},
    ),
    "a dimension in the arena": (chain(), {"dims": {"N": (1, 4)}, "io": "arena"}),
    "weights apart": (chain(), {"dims": {"N": 1}, "weights": "blob"}),
}


def needed(manifest: dict[str, Any]) -> int:
    memory = manifest["memory"]
    return int(memory["arena_bytes"] + memory["static_bytes"] + memory["stack_bytes"])


@pytest.mark.parametrize("case", CASES)
def test_what_is_met_is_what_size_prints(case: str, tmp_path: Path) -> None:
    source, options = CASES[case]
    first = aot.compile(source, tmp_path / "free", name="net", configure=False, **options)
    least = needed(first.manifest)
    with pytest.raises(TargetError) as caught:
        aot.compile(source, tmp_path / "o", name="net", configure=False, ram=least - 1, **options)
    memory = first.manifest["memory"]
    message = str(caught.value)
    assert f"--ram {least - 1}: {least} bytes are needed" in message and "the peak at" in message
    for part in ("arena", "static", "stack"):
        assert str(memory[f"{part}_bytes"]) in message
    built = aot.compile(source, tmp_path / "met", name="net", ram=least, **options).build()
    size = measure(open_out(built.out))
    assert memory["arena_bytes"] < size.ram <= least
    assert 0 < size.static <= memory["static_bytes"]
    assert (
        f"RAM    {size.ram} bytes: arena {size.arena}, variables {size.static}, stack"
        in size.text()
    )


def test_a_budget_between_the_arena_and_the_rest(tmp_path: Path) -> None:
    """What passed before: as many bytes as the arena has, and a few."""
    options: dict[str, Any] = {"target": "cortex-m4", "objective": "ram", "configure": False}
    free = aot.compile(DIGITS, tmp_path / "free", **options)
    ram = free.manifest["memory"]["arena_bytes"] + 100
    with pytest.raises(TargetError, match="variables"):
        aot.compile(DIGITS, tmp_path / "o", ram=ram, **options)
