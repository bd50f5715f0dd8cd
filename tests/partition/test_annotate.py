# SPDX-License-Identifier: Apache-2.0
"""Partitions that the user asks for: metadata, --keep, --regions, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from aot.errors import AotError, ModelError, UnsupportedError, UsageError
from aot.load import load
from aot.load.options import LoadOptions
from aot.normalise import normalise
from aot.options import Options
from aot.partition.annotate import annotate, regions_from_toml
from aot.partition.result import Partition
from aot.partition.select import select
from aot.vendor.backend import Backend
from graphs import model
from partition_graphs import host, vendor


def chain() -> onnx.ModelProto:
    """Six nodes: x -> a -> b -> c -> d -> (e with a) -> y."""
    rows = [
        ("Exp", "x", "a"),
        ("Relu", "a", "b"),
        ("Sin", "b", "c"),
        ("Relu", "c", "d"),
        ("Add", "a d", "e"),
        ("Relu", "e", "y"),
    ]
    return model(rows, {"x": [4]}, {"y": [4]})


def marked(proto: onnx.ModelProto, **marks: str) -> onnx.ModelProto:
    """`proto` where the node that computes `value` has `backend` or `backend/region`."""
    for node in proto.graph.node:
        backend, _, region = marks.get(node.output[0], "").partition("/")
        for key, text in (("aot.backend", backend), ("aot.region", region)):
            if text:
                node.metadata_props.add(key=key, value=text)
    return proto


def acme() -> Backend:
    return vendor("acme", "Exp", "Relu", "Sin", "Add")


def partitioned(
    proto: onnx.ModelProto,
    keep: dict[str, str] | None = None,
    regions: dict[str, dict[str, Any]] | None = None,
    backends: tuple[Backend, ...] = (),
    marked_only: tuple[str, ...] = (),
    limit: int | None = None,
) -> Partition:
    loaded = load(proto, LoadOptions())
    annotate(loaded, keep or {}, regions or {}, backends[0].name if backends else "")
    graph = normalise(loaded, LoadOptions()).graph
    used = [*(backends or (acme(),)), host()]
    return select(graph, used, limit, marked_only=marked_only)


def taken(partition: Partition) -> dict[str, tuple[str, int]]:
    """Backend and region by the value a node computes."""
    return {
        n.ir.outputs[0].name: (s.backend, s.region) for s in partition.items for n in s.match.nodes
    }


def test_keep_gives_one_node_to_another_backend() -> None:
    found = taken(partitioned(chain(), keep={"c": "c", "n3_Relu": "c"}))
    assert [found[v][0] for v in "abcdey"] == ["acme", "acme", "c", "c", "acme", "acme"]


def test_a_region_lies_between_values() -> None:
    requested = {"head": {"backend": "acme", "begin": ["b"], "end": ["d"]}}
    found = taken(partitioned(chain(), regions=requested, marked_only=("acme",)))
    assert [v for v in "abcdey" if found[v] == ("acme", 0)] == ["c", "d"]
    assert [v for v in "abcdey" if found[v][0] == "c"] == ["a", "b", "e", "y"]


def test_a_user_region_does_not_merge_with_others() -> None:
    requested = {"one": {"nodes": ["n2_Sin"]}}
    found = taken(partitioned(chain(), regions=requested, backends=(acme(),)))
    assert all(backend == "acme" for backend, _ in found.values())
    alone = found["c"][1]
    assert [v for v in "abcdey" if found[v][1] == alone] == ["c"]
    assert len({r for _, r in found.values()}) == 3


def test_metadata_of_the_model_counts_and_options_beat_it() -> None:
    proto = marked(chain(), c="acme/k", d="acme/k")
    found = taken(partitioned(proto, marked_only=("acme",)))
    assert found["c"] == found["d"] == ("acme", 0)
    found = taken(partitioned(proto, keep={"d": "c"}, marked_only=("acme",)))
    assert (found["c"], found["d"]) == (("acme", 0), ("c", -1))


def test_a_pattern_does_not_reach_across_the_border_of_a_region() -> None:
    both = acme()
    both.pattern(lambda op, x: op.Relu(op.Sin(x))).name = "relu_sin"
    free = partitioned(chain(), backends=(both,))
    assert "relu_sin" in [s.pattern.name for s in free.items]
    bound = partitioned(chain(), regions={"r": {"nodes": ["d"]}}, backends=(both,))
    assert "relu_sin" not in [s.pattern.name for s in bound.items]


def test_a_region_that_is_left_and_entered_again_is_refused_with_the_path() -> None:
    with pytest.raises(ModelError) as caught:
        partitioned(chain(), regions={"r": {"nodes": ["b", "d"]}}, backends=(acme(),))
    assert caught.value.what == (
        'region "r" is left and entered again: n1_Relu -> n2_Sin -> n3_Relu'
    )


def test_two_regions_that_need_each_other_are_refused_with_the_path() -> None:
    rows = [("Exp", "x", "a"), ("Sin", "a", "b"), ("Exp", "z", "c"), ("Sin", "c", "d")]
    proto = model(rows, {"x": [4], "z": [4]}, {"b": [4], "d": [4]})
    requested = {"one": {"nodes": ["a", "d"]}, "two": {"nodes": ["b", "c"]}}
    with pytest.raises(ModelError, match="regions one, two need each other: n0_Exp -> n1_Sin ->"):
        partitioned(proto, regions=requested, backends=(acme(),))


def test_a_node_its_backend_does_not_compute_is_refused_with_the_reason() -> None:
    chip = Backend("acme")

    @chip.pattern
    def sin(op, x):
        return op.Sin(x)

    @sin.check
    def never(m):
        yield False, f"{m.x.shape[0]} elements (needs 1)"

    with pytest.raises(UnsupportedError, match=r"n2_Sin \(Sin\) is given to acme, .*: 4 elements"):
        partitioned(chain(), keep={"c": "acme"}, backends=(chip,))
    with pytest.raises(UnsupportedError, match=r"\(region \"r\"\), .* no pattern that fits"):
        partitioned(chain(), regions={"r": {"nodes": ["a"]}}, backends=(chip,))


def test_the_offload_limit_gives_back_user_regions_too() -> None:
    proto = marked(chain(), b="acme/k", d="acme/l")
    found = taken(partitioned(proto, marked_only=("acme",), limit=1))
    assert (found["b"], found["d"]) == (("acme", 0), ("c", -1))


def test_marks_survive_the_rewrites_of_normalise() -> None:
    bn = {k: np.full(3, 1.5, np.float32) for k in "sbmv"}
    w = np.ones((3, 3, 1, 1), np.float32)
    rows = [
        ("Conv", "x w", "k"),
        ("BatchNormalization", "k s b m v", "n"),
        ("HardSigmoid", "n", "h", {"alpha": 1 / 6, "beta": 0.5}),
        ("Mul", "n h", "y"),
    ]
    proto = model(rows, {"x": [1, 3, 4, 4]}, {"y": None}, {"w": w, **bn})
    loaded = load(marked(proto, k="acme/r", n="acme/r", h="acme/r", y="acme/r"))
    graph = normalise(loaded).graph
    assert [n.metadata_props.get("aot.region") for n in graph] == ["r"] * len(list(graph))


def test_equal_nodes_of_two_backends_stay_two() -> None:
    rows = [("Exp", "x", "a"), ("Exp", "x", "b"), ("Add", "a b", "y")]
    proto = model(rows, {"x": [4]}, {"y": [4]})
    assert taken(partitioned(proto, keep={"b": "c"}, backends=(acme(),)))["b"][0] == "c"


@pytest.mark.parametrize(
    ("regions", "keep", "message"),
    [
        ({}, {"n2_Sim": "acme"}, r"no node called 'n2_Sim'"),
        ({"r": {"nodes": ["q"]}}, {}, r"no node called 'q'"),
        ({"r": {"begin": ["q"]}}, {}, r"no value called 'q'"),
        (
            {"r": {"begin": ["d"], "end": ["b"]}},
            {},
            "region r is empty: no path leads from d to",
        ),
        ({"r": {"nodes": ["a"]}, "s": {"nodes": ["a"]}}, {}, r"is in two regions: r and s"),
    ],
)
def test_what_names_nothing_is_refused(regions: Any, keep: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        partitioned(chain(), keep, regions, (acme(),))


def test_a_region_needs_a_backend() -> None:
    with pytest.raises(UsageError, match="region r has no backend"):
        partitioned(chain(), regions={"r": {"nodes": ["a"]}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[regions.r]\nnodes = [1]", "nodes is not a list of names"),
        ("[regions.r]\nnode = ['a']", "has no field 'node'"),
        ("[regions.r]\nbackend = 'acme'", "needs either nodes or begin and end"),
        ("[regions.r]\nnodes = ['a']\nend = ['b']", "needs either nodes or begin and end"),
        ("[keep]\na = 1", "keep is not a table"),
        ("[nonsense]", "unknown table 'nonsense'"),
        ("[[", "is no TOML"),
    ],
)
def test_a_regions_file_that_is_wrong_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        regions_from_toml(str(path))


def test_a_missing_regions_file_and_wrong_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none\.toml"):
        regions_from_toml(str(tmp_path / "none.toml"))
    with pytest.raises(AotError, match="region r is not a table"):
        Options(regions={"r": 1})  # type: ignore[dict-item]
