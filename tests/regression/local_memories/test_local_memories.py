# SPDX-License-Identifier: Apache-2.0
"""The column "sum" of AX1's networks left out 51 KiB of local memories, so every bound seemed kept;
accel_sim's README said that nothing is cheaper than the frozen cost model."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from aot.vendor.accel_sim.config import CONFIGS

ROOT = Path(__file__).resolve().parents[3]
KIB = 1024
#: Constants of the cost model as they were frozen: cycles, or weights per cycle of `unpack_rate`.
FROZEN = {
    "zero_block": 32 // 2,
    "sram_latency": 32,
    "flash_latency": 64,
    "row_gap": 2,
    "vx_fill": 8,
    "float_fill": 4,
    "dw_fill": 32,
}


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = ROOT / "benchmarks" / "accel.py"
    spec = importlib.util.spec_from_file_location("accel_benchmark", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_the_sum_counts_every_memory(benchmark: ModuleType) -> None:
    performance = {
        "cycles": 100,
        "macs_per_cycle": 256,
        "scratchpad_bytes": 8 * KIB,
        "commands_bytes": 16,
        "weights_bytes": 16,
        "regions": [{"bytes": n, "writable": n == KIB} for n in (16, 16, 0, KIB)],
        "spans": [["ST", 0, 3, 0, 0, 100, 0, -1]],
        "layers": [{"busy": [100] * 4, "macs": 1}],
    }
    program = benchmark.Program(performance, bytes([0] * 4 + [0, 0, 0, 3 << 5]), 1.0)
    found = dict.fromkeys(benchmark.BUILDS, program)
    bar = benchmark.BARS["kws"]
    names = [c.strip() for c in benchmark.HEADS[1].splitlines()[0].split("|")]
    row = [c.strip() for c in benchmark.bytes_row(bar, found, 1e9).split("|")]
    assert len(names) == len(row)
    machine = CONFIGS[256]
    every = KIB + 8 * KIB + machine.wgt + machine.acc + machine.prm + machine.lut
    assert float(row[names.index("sum")]) * KIB == every
    performance["scratchpad_bytes"] = 12 * KIB  # 13 + 51 KiB: more than 15.6 + 48
    assert any("64.0 KiB" in text for text in benchmark.missed(bar, found, 1e9))


def test_the_published_sums() -> None:
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    table = page[page.index("| network | SRAM KiB") :].split("\n\n")[0].splitlines()
    rows = [[c.strip() for c in line.split("|")] for line in table]
    column = {name: n for n, name in enumerate(rows[0])}
    assert len(rows) == 2 + 5
    for row in rows[2:]:
        parts = [float(row[column[n]]) for n in ("SRAM KiB", "scratchpad KiB", "other local")]
        assert float(row[column["sum"]]) == pytest.approx(sum(parts), abs=0.11)
        assert parts[2] == 51.0


def test_what_is_cheaper_is_said() -> None:
    cheaper = {
        name
        for name, cost in FROZEN.items()
        if any(getattr(c, name) < cost for c in CONFIGS.values())
    }
    text = (ROOT / "aot/vendor/accel_sim/README.md").read_text(encoding="utf-8")
    claim = re.search(r"[^.]*cheaper than the cost model[^.]*\.", text)
    assert claim is not None
    assert set(re.findall(r"`(\w+)`", claim[0])) == cheaper
