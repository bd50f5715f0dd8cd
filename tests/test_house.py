# SPDX-License-Identifier: Apache-2.0
"""The ratchet of tests/house.py: no measure of the structure gets worse, and each one counts."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import house

PLANTED = {
    "aot/first.py": "from aot.second import f\nWORDS = words('Add Mul Sub Div')\n",
    "aot/second.py": "def f(q, x):\n    from aot.first import g\n    return q.op_type == 'Relu'\n",
    "aot/ops/add.py": "TABLE = ('Add', 'Mul', 'Sub', 'Div')\n",
    "aot/vendor/acme/patterns.py": "from aot.vendor.backend import Backend\nimport aot.first\n",
}


def test_no_measure_gets_worse() -> None:
    now = house.figures(house.measure(house.ROOT), house.ROOT)
    assert not house.worse(now, json.loads(house.RATCHET.read_text()))


def test_every_measure_counts(tmp_path: Path) -> None:
    """One violation of each kind in a tree of four files; what ops and vendors ask is free."""
    for name, text in PLANTED.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    counts = house.measure(tmp_path)
    assert house.figures(counts, tmp_path) == {
        "loose modules in aot/": 2,
        "import circles, types included": 1,
        "lazy imports of own modules": 1,
        "vendors' imports outside aot.vendor": 1,
        "files that ask about an operator, median": 1,
        "files that ask about an operator, 90th percentile": 1,
        "(operator, file) questions": 5,
        "tables of 4 and more operators outside ops/ and vendor/": 1,
        "statements": 8,
        "one-letter parameters but m c x y w b, %": 50.0,
    }
    assert house.circles(counts.imports) == [["aot/first.py", "aot/second.py"]]


def test_a_larger_figure_is_named() -> None:
    assert house.worse({"a": 2, "b": 1}, {"a": 1, "b": 1}) == ["a: 2 (at most 1)"]


@pytest.mark.parametrize(
    ("vendor", "statements", "lines"),
    [
        ("acl", 250, 700),
        ("cblas", 250, 400),
        ("cudnn", 250, 700),
        ("esp_nn", 250, 400),
        ("ethos_u", 1000, 400),
        ("ort", 250, 400),
        ("xnnpack", 250, 400),
    ],
)
def test_a_vendor_is_small(vendor: str, statements: int, lines: int) -> None:
    """Statements of Python, and lines of C and C++ with their headers."""
    folder, counts = house.ROOT / "aot" / "vendor" / vendor, house.Counts()
    for path in folder.glob("*.py"):
        house.count_functions(ast.parse(path.read_text()), counts)
    sources = (p for p in folder.iterdir() if p.suffix in (".c", ".cpp", ".h"))
    written = sum(len(p.read_text().splitlines()) for p in sources)
    assert 0 < counts.statements <= statements and 0 < written <= lines, (counts, written)
