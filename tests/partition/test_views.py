# SPDX-License-Identifier: Apache-2.0
"""Views are nobody's: they cut no region, count as nobody's call, and follow their operand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from aot.ir.node_traits import moves_no_byte
from aot.load import load
from aot.load.options import LoadOptions
from aot.normalise import normalise
from aot.options import Options
from aot.partition.annotate import annotate
from aot.partition.result import Partition
from aot.partition.select import select
from aot.pipeline import compile_model, partition_model
from aot.tools.explain import explain
from aot.vendor.backend import Backend
from aot.vendor.find import find_backend
from aot.vendor.limits import Limits
from graphs import model
from partition_graphs import vendor

INTS = {
    "wide": np.array([2, 6], np.int64),
    "tall": np.array([6, 2], np.int64),
    "one": np.array([1], np.int64),
    "three": np.array([3], np.int64),
    "first": np.array([0], np.int64),
    "second": np.array([1], np.int64),
}
EXPS = [("Exp", "x", "a"), ("Reshape", "a wide", "v"), ("Exp", "v", "b")]


def partitioned(
    rows: list[Any],
    out: str,
    made: Backend | None = None,
    keep: dict[str, str] | None = None,
    regions: dict[str, dict[str, Any]] | None = None,
    limit: int | None = None,
) -> Partition:
    """The partition of a graph with input x [4, 3] by `made`, by default of Exp, and portable C."""
    made = made or vendor("acme", "Exp")
    loaded = load(model(rows, {"x": [4, 3]}, {out: None}, INTS), LoadOptions())
    annotate(loaded, keep or {}, regions or {}, "acme")
    return select(normalise(loaded, LoadOptions()).graph, [made, find_backend("c")], limit)


def places(partition: Partition) -> dict[str, tuple[str, int]]:
    """Backend and region by the value that a match makes."""
    return {s.match.root.ir.outputs[0].name: (s.backend, s.region) for s in partition.items}


def test_a_view_cuts_no_region() -> None:
    found = partitioned(EXPS, "b")
    assert places(found) == {"a": ("acme", 0), "v": ("acme", 0), "b": ("acme", 0)}
    assert "n1_Reshape: a view region 0\n" in found.text()
    assert [n.backend for n in explain(found).lines] == ["acme", "view", "acme"]


@pytest.mark.parametrize(
    ("axis", "count"), [("first", 1), ("second", 2)], ids=["one run", "part of every row"]
)
def test_a_slice_is_a_view_where_its_elements_follow_each_other(axis: str, count: int) -> None:
    rows = [("Exp", "x", "a"), ("Slice", f"a one three {axis}", "v"), ("Exp", "v", "b")]
    found = partitioned(rows, "b")
    assert len(found.regions) == count
    assert places(found)["v"] == (("acme", 0) if count == 1 else ("c", -1))


def test_views_around_a_region_stay_outside() -> None:
    rows = [("Reshape", "x wide", "u"), ("Exp", "u", "a"), ("Reshape", "a tall", "b")]
    found = partitioned(rows, "b")
    assert places(found) == {"u": ("c", -1), "a": ("acme", 0), "b": ("c", -1)}


def test_a_view_whose_shape_another_node_computes_is_no_view() -> None:
    """Its region might need what it makes."""
    rows = [("Exp", "x", "a"), ("Cast", "a", "i", {"to": 7}), ("Reshape", "a i", "v")]
    for rows_, view in ((rows, False), (EXPS[:2], True)):
        graph = ir.from_proto(model(rows_, {"x": [2]}, {"v": [1, 1]}, INTS)).graph
        assert moves_no_byte([list(graph)[-1]]) == view


@pytest.mark.parametrize("owner", ["c", "acme"])
def test_what_the_user_says_of_a_view_binds_nobody(owner: str) -> None:
    found = partitioned(EXPS, "b", keep={"v": owner})
    assert len(found.regions) == 1


def test_a_region_of_the_users_may_leave_views_out() -> None:
    found = partitioned(EXPS, "b", regions={"r": {"nodes": ["a", "b"]}})
    assert places(found) == {"a": ("acme", 0), "v": ("acme", 0), "b": ("acme", 0)}


def test_limits_do_not_count_views() -> None:
    two = vendor("acme", "Exp")
    two.limits = Limits(nodes=2)
    assert len(partitioned(EXPS, "b", two).regions) == 1
    whole = vendor("acme", "Exp")
    whole.limits = Limits(whole=True)
    rows = [("Reshape", "x wide", "u"), ("Exp", "u", "a"), ("Reshape", "a tall", "b")]
    assert len(partitioned(rows, "b", whole).regions) == 1


def test_the_check_of_regions_sees_views() -> None:
    seen = []
    asking = vendor("acme", "Exp")

    @asking.fits
    def look(region):
        seen.append([m.root.op_type for _, m in region.matches])
        yield True, ""

    partitioned(EXPS, "b", asking)
    assert ["Exp", "Reshape", "Exp"] in seen


def test_a_pattern_of_a_view_alone_is_not_asked_for() -> None:
    both = vendor("acme", "Exp")
    both.pattern(lambda op, x, how: op.Reshape(x, how)).name = "reshape"
    rows = [("Sin", "x", "a"), ("Reshape", "a wide", "v"), ("Sin", "v", "b")]
    assert not partitioned(rows, "b", both).regions
    both.pattern(lambda op, x, how: op.Reshape(op.Sin(x), how)).name = "sin_reshape"
    found = partitioned(rows, "b", both)
    assert [s.pattern.name for s in found.items if s.backend == "acme"] == ["sin_reshape"]


@pytest.mark.parametrize("holds", [True, False])
def test_a_backend_that_lowers_regions_says_which_views_they_hold(holds: bool) -> None:
    whole = vendor("acme", "Exp")
    pattern = whole.pattern(lambda op, x, how: op.Reshape(x, how))
    pattern.name = "reshape"
    pattern.check(lambda m: [(holds, "elements move there")])
    whole.region(lambda c, region: None)
    found = partitioned(EXPS, "b", whole)
    assert len(found.regions) == (1 if holds else 2)
    view = "reshape" if holds else "Reshape"
    assert [s.pattern.name for s in found.items] == ["exp", view, "exp"]
    assert holds or "refused: elements move there" in found.text()


def test_regions_given_back_leave_no_view_behind() -> None:
    rows = [*EXPS, ("Sin", "b", "c"), ("Exp", "c", "d"), ("Reshape", "d tall", "e")]
    rows += [("Exp", "e", "f")]
    assert len(partitioned(rows, "f").regions) == 2
    kept = places(partitioned(rows, "f", limit=1))
    assert [kept[v] for v in "avbef"] == [("acme", 0)] * 3 + [("c", -1)] * 2


def test_stacked_lstms_are_one_region_of_onednn(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    consts = {"axis": np.array([1], np.int64)}
    rows: list[Any] = []
    for i, size in enumerate((5, 6, 6)):
        shapes = {f"w{i}": (1, 24, size), f"r{i}": (1, 24, 6), f"b{i}": (1, 48)}
        consts |= {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
        x = f"s{i - 1}" if i else "x"
        rows.append(("LSTM", f"{x} w{i} r{i} b{i}", f"y{i}", {"hidden_size": 6}))
        rows.append(("Squeeze", f"y{i} axis", f"s{i}"))
    path = tmp_path / "lstm.onnx"
    onnx.save(model(rows, {"x": [3, 2, 5]}, {"s2": None}, consts), path)
    _, found = partition_model(path, Options(backends=("dnnl",)))
    assert [len(r.items) for r in found.regions] == [5]
    compiled = compile_model(path, Options(backends=("dnnl",), require_backend=True))
    assert {c.backend for c in compiled.program.calls} <= {"c", "dnnl"}
    assert [c.kernel for c in compiled.program.calls if c.backend == "dnnl"] == [
        "aot_dnnl_run_recurrent"
    ] * 3
