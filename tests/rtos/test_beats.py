# SPDX-License-Identifier: Apache-2.0
"""A network beside a control loop of 1 kHz on boards: no beat is late, no result differs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rtos.images import TARGETS, beats, images

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.onnx"
#: The network's answer to the sample, on every target and on AX1.
RESULT = bytes([128, 128, 128, 127, 128, 128, 128, 128, 128, 128])
FULL = bool(os.environ.get("AOT_FULL"))
#: Of simulated time.
SECONDS = 60 if FULL else 10
CORE, DEVICE = ("RUN", "STEP", "BLIND"), ("DEVICE",)
#: What an ordinary run tries: each target, each way, and late beats that are counted.
SOME = [("cortex-m4", CORE), ("cortex-m33", DEVICE), ("rv32imac", ("STEP",))]


@pytest.mark.parametrize(
    ("target", "ways"), [(t, w) for t in TARGETS for w in (CORE, DEVICE)] if FULL else SOME
)
def test_no_beat_is_late(target: str, ways: tuple[str, ...], tmp_path: Path) -> None:
    made = images(DIGITS, tmp_path, target, SECONDS, *ways)
    found = {way: beats(image, target) for way, image in made.items()}
    if blind := found.pop("BLIND", None):
        assert blind.late > 0  # the count sees late beats where a program makes them
    for seen in found.values():
        assert (seen.beats, seen.late, seen.wrong) == (SECONDS * 1000, 0, 0)
        assert seen.runs > SECONDS
        assert 0 < seen.unused < seen.stack
        assert seen.worst_ns < 1_000_000
        assert seen.result == RESULT


@pytest.mark.skipif(not FULL, reason="AOT_FULL is not set")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("network", "runs"), [("kws", 100), ("ic", 20)])
def test_no_beat_is_late_beside_others(
    network: str, runs: int, target: str, models_folder: Path, tmp_path: Path
) -> None:
    """Rows of these networks have more multiplications than a slice may have."""
    model = models_folder / f"mlperf_{network}_int8.onnx"
    for way, image in images(model, tmp_path, target, 10, "RUN", "STEP").items():
        seen = beats(image, target)
        assert (way, seen.beats, seen.late, seen.wrong) == (way, 10_000, 0, 0)
        assert seen.runs > runs
