# SPDX-License-Identifier: Apache-2.0
"""`--keep` of a node that normalise merged into another one was ignored without a word."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from aot.cli import main
from aot.errors import UsageError
from aot.options import Options
from aot.partition.select import Partition
from aot.pipeline import partition_model
from graphs import model

W = np.ones((4, 4, 1, 1), np.float32)
ONES = np.ones(4, np.float32)
ROWS = [
    ("Conv", "x w", "c"),
    ("BatchNormalization", "c s s s s", "b"),
    ("Sigmoid", "b", "g"),
    ("Mul", "b g", "m"),
    ("Dropout", "m", "d"),
    ("Relu", "d", "r"),
    ("Sqrt", "k", "q"),
    ("Mul", "r q", "y"),
]
NETWORK = model(
    ROWS, {"x": [1, 4, 3, 3]}, {"y": None}, {"w": W, "s": ONES, "k": np.full((1,), 2, np.float32)}
)
CONV, NORM, GATE, SWISH, DROP, RELU, ROOT, LAST = (n.name for n in NETWORK.graph.node)


def partitioned(keep: dict[str, str], **more: Any) -> Partition:
    return partition_model(NETWORK, Options(backends=("dnnl",), keep=keep, **more))[1]


def backends(partition: Partition) -> dict[str, str]:
    return {n.onnx_name: s.backend for s in partition.items for n in s.match.nodes}


@pytest.mark.parametrize("name", [GATE, DROP, ROOT])
@pytest.mark.parametrize("partition", ["priority", "cost"])
def test_a_node_that_is_gone_is_an_error(name: str, partition: str) -> None:
    with pytest.raises(UsageError, match="no node of its own after normalising") as caught:
        partitioned({name: "c"}, partition=partition)
    assert f"node {name} (" in str(caught.value)
    assert f"--keep {name}=c" in caught.value.where


def test_the_hint_works_when_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(NETWORK, tmp_path / "net.onnx")
    words = ["explain", str(tmp_path / "net.onnx"), "--backend", "dnnl"]
    assert main([*words, "--keep", f"{GATE}=c"]) == 2
    hint = re.search(r"hint: (--keep \S+) gives", capsys.readouterr().err)
    assert hint is not None
    assert main([*words, *shlex.split(hint[1])]) == 0
    assert f"{SWISH} (Swish): c." in capsys.readouterr().out


def test_every_node_that_is_gone_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        partitioned({GATE: "c", DROP: "c", RELU: "c"})
    assert all(f"node {n} (" in str(caught.value) for n in (GATE, DROP))
    assert RELU not in str(caught.value)


def test_a_node_that_took_another_one_in_is_kept() -> None:
    assert backends(partitioned({SWISH: "c"}))[SWISH] == "c"
    assert backends(partitioned({CONV: "c"}))[CONV] == "c"


def test_what_goes_along_with_its_neighbour_is_no_error() -> None:
    """The normalisation is computed by the convolution that it is folded into."""
    found = backends(partitioned({CONV: "c", NORM: "c"}))
    assert found[CONV] == "c"
    with pytest.raises(UsageError, match=f"node {NORM} "):
        partitioned({CONV: "c", NORM: "dnnl"})


def test_equal_nodes_are_kept_as_one() -> None:
    rows = [("Exp", "x", "a"), ("Exp", "x", "b"), ("Add", "a b", "y")]
    twice = model(rows, {"x": [4]}, {"y": None})
    first, second, _ = (n.name for n in twice.graph.node)
    requested = Options(backends=("dnnl",), keep={first: "c", second: "c"})
    assert backends(partition_model(twice, requested)[1])[first] == "c"


def test_a_region_of_which_nothing_is_left() -> None:
    with pytest.raises(UsageError, match="region head is empty after normalising"):
        partitioned({}, regions={"head": {"nodes": [DROP]}})
