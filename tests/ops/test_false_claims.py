# SPDX-License-Identifier: Apache-2.0
"""A new file with one false record per trait: each is an error that names file and rule.

The operators are those of an installed package; `traits.py` finds them as those of aotc.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import traits

TOYS = Path(__file__).with_name("false_toys.py")
#: What disproves the claim of each toy (by default the one of its name).
CLAIMS = {
    "Elementwise": "the claim says",
    "Commutative": "the claim says",
    "Moves": "which no operand has",
    "Sorts": "the claim says",
    "View": "the claim says",
    "Part": "the claim says",
    "Exact": "onnx.reference has no operators of toy",
    "Random": "two runs have the same result",
    "Draws": "the claim says",
    "DataSized": "none of 1 cases shows it",
    "AxesOf": "the claim says",
    "AxisOf": "the claim says",
    "OneOf": "the claim says",
    "AtLeast": "the claim says",
    "Along": "the claim says",
    "Reduces": "is 0.0, the claim says -0.0",
    "Window": "element [0, 0, 0, 0] is 1.0, the claim says 0.0",
    "Linear": "the claim says",
    "Rowwise": "the claim says",
    "SizedBy": "other elements",
    "Curve": "the result goes from",
    "Clamp": "is 1.0, the claim says",
    "Compares": "the claim says",
    "Converts": "element [0, 0] is 1, the claim says 0",
    "Averages": "the claim says",
    "Recurrent": "the claim says",
    "Indexes": "case 0, float32[5]",
    "Quantises": "the claim says",
    "Dequantises": "the claim says",
    "Scales": "the claim says",
}
NAMED = {
    "Sorts": "Moves",
    "Draws": "no Random",
    "Part": "View",
    "AxisOf": "axis=AxisOf",
    "OneOf": "mode=OneOf",
    "AtLeast": "by=AtLeast",
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The file of the toys, and what the command prints of each of them."""
    site = tmp_path_factory.mktemp("site")
    (site / "toys.py").write_text(TOYS.read_text())
    (site / "toys-1.0.dist-info").mkdir()
    (site / "toys-1.0.dist-info" / "METADATA").write_text("Name: toys\nVersion: 1.0\n")
    entry = "[aotc.operators]\ntoys = toys\n"
    (site / "toys-1.0.dist-info" / "entry_points.txt").write_text(entry)
    names = [f"toy.{name}" for name in ("True", *CLAIMS)]
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, traits.__file__, *names],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"records proven: {len(names)}, ")
    parts = done.stdout.split("operator toy.")[1:]
    return site / "toys.py", {part.split()[0]: part for part in parts}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_false_claim_is_an_error_that_names_file_and_rule(
    name: str, printed: tuple[Path, dict[str, str]]
) -> None:
    file, errors = printed
    lines = errors[name].splitlines()
    assert lines[0] == f"{name} claims {NAMED.get(name, name)}, which does not hold"
    assert CLAIMS[name] in lines[1]
    assert lines[2].startswith("  rule: ")
    assert lines[3] == f"  in {file}"


def test_a_true_claim_is_none(printed: tuple[Path, dict[str, str]]) -> None:
    assert printed[1].keys() == CLAIMS.keys()


def test_every_trait_has_a_false_toy() -> None:
    assert {kind.__name__ for kind in traits.PROOFS} <= CLAIMS.keys()
