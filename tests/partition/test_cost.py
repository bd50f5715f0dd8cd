# SPDX-License-Identifier: Apache-2.0
"""Partition by cost: tables that flip the choice, borders that count, what is given back."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from aot.cli import main
from aot.errors import BackendError, UsageError
from aot.ir.layout import blocked
from aot.ops.registry import load_all
from aot.options import Options
from aot.partition.cost.costs import Costs, key_of, macs_of, read_costs
from aot.partition.result import Partition
from aot.partition.select import select
from aot.pipeline import partition_model
from aot.target import load_target
from aot.tools.explain import explain
from aot.vendor.backend import Backend
from aot.vendor.limits import Limits, Speed
from graphs import model
from partition_graphs import host, typed_graph, vendor


def graph() -> ir.Graph:
    """Exp, Sin, Exp, Sin in a row on 1x16x4x4."""
    rows = [("Exp", "x", "a"), ("Sin", "a", "b"), ("Exp", "b", "c"), ("Sin", "c", "d")]
    return typed_graph(rows, [1, 16, 4, 4], "d")


def acme() -> Backend:
    return vendor("acme", "Exp", "Sin")


def taken(partition: Partition) -> list[str]:
    return [s.backend for s in partition.items]


def table(backends: list[Backend], costs: dict[str, float]) -> dict[str, float]:
    """Costs by key, given as `acme.exp`."""
    found = {}
    for backend in backends:
        for pattern in backend.patterns:
            for node in graph():
                match = pattern.match(node)
                if match is not None:
                    found[key_of(pattern, match)] = costs[f"{backend.name}.{pattern.name}"]
    return found


def with_costs(backend: Backend, lanes: int = 1, **costs: float) -> Partition:
    portable = host()
    named = {k.replace("_", "."): v for k, v in costs.items()}
    named = {**{f"c.{p.name}": 100.0 for p in portable.patterns}, **named}
    return select(
        graph(),
        [backend, portable],
        costs=Costs(lanes, table([backend, portable], named)),
    )


def test_two_tables_flip_the_choice() -> None:
    fast = with_costs(acme(), acme_exp=10, acme_sin=10)
    slow = with_costs(acme(), acme_exp=1000, acme_sin=1000)
    assert taken(fast) == ["acme"] * 4
    assert taken(slow) == ["c"] * 4
    mixed = with_costs(acme(), acme_exp=10, acme_sin=1000)
    assert taken(mixed) == ["acme", "c", "acme", "c"]


def in_memory_of_its_own() -> Backend:
    made = acme()
    made.speed = Speed(1, 1, border_bytes_per_ns=1.0)
    return made


def test_borders_count() -> None:
    """A kilobyte each way takes as long as what Exp would gain."""
    near = with_costs(in_memory_of_its_own(), acme_exp=10, acme_sin=2000)
    assert taken(near) == ["c"] * 4
    far = with_costs(in_memory_of_its_own(), acme_exp=10, acme_sin=2000, c_exp=9000)
    assert taken(far) == ["acme", "acme", "acme", "c"]


def test_layout_changes_count() -> None:
    def blocky(odd: bool) -> Backend:
        made = acme()
        for p in made.patterns:
            p.layouts(lambda m, incoming, v: {n: blocked(v) for n in m.values})
        return made

    apart = {"acme_exp": 90, "acme_sin": 120}
    assert taken(with_costs(blocky(True), 16, **apart)) == ["c"] * 4
    assert taken(with_costs(acme(), 16, **apart)) == ["acme", "c", "acme", "c"]


def tangled(r: random.Random) -> tuple[ir.Graph, list[Backend]]:
    """Up to 9 operators, some of them views, and two vendors: fused matches, blocks, borders."""
    loaded: list[Any] = []
    for i in range(r.randint(3, 9)):
        reads = [f"t{r.randrange(max(0, i - 3), i)}" if i else "x" for _ in range(2)]
        kind = r.choice(("Exp", "Sin", "Abs", "Add", "Mul", "Reshape"))
        second = {"Add": reads[1], "Mul": reads[1], "Reshape": r.choice(("s", "u"))}.get(kind, "")
        loaded.append((kind, f"{reads[0]} {second}".strip(), f"t{i}"))
    consts = {"s": np.array([1, 16, 4, 4]), "u": np.array([1, 16, 4, 4])}
    graph = typed_graph(loaded, [1, 16, 4, 4], f"t{len(loaded) - 1}", consts)
    used = {v for row in loaded for v in row[1].split()}
    for node in [n for n in graph if n.outputs[0].name not in used][:-1]:
        graph.outputs.append(node.outputs[0])
    backends = [vendor("one", "Exp", "Sin", "Add"), vendor("two", "Abs", "Mul", "Exp"), host()]
    backends[0].pattern(lambda op, x: op.Sin(op.Exp(x))).name = "exp_sin"
    backends[1].pattern(lambda op, x, z: op.Mul(op.Abs(x), z)).name = "abs_mul"
    backends[2].pattern(lambda op, x, how: op.Reshape(x, how)).name = "reshape"
    for backend in backends:
        for pattern in backend.patterns:
            time = float(r.randint(20, 300))
            pattern.cost(lambda m, _ns=time: _ns)
            if r.random() < 0.3 and pattern.name != "reshape":
                pattern.layouts(lambda m, incoming, v: {n: blocked(v) for n in m.values})
        if backend.name != "c" and r.random() < 0.7:
            backend.speed = Speed(1, 1, 0, r.choice((0.0, 60.0)), r.choice((0.0, 20.0)))
    return graph, backends


def test_what_a_partition_costs_is_what_the_search_says() -> None:
    """Two programs price it: one that chooses, one that looks at the result, views and limits and
    all."""
    assert load_all().patterns  # the trait of views
    r, offloaded, views = random.Random(5), 0, 0
    for seed in range(150):
        graph, backends = tangled(r)
        for backend in backends[: 2 * (seed % 2)]:
            backend.limits = Limits(
                inputs=r.choice((None, 1, 2)),
                nodes=r.choice((None, 2, 3)),
                live_bytes=r.choice((None, 2048, 3072)),
                connected=r.random() < 0.5,
            )
        found = select(graph, backends, costs=Costs(16))
        assert found.pricing.optimal, found.pricing
        offloaded += len(found.regions)
        views += sum(s.is_view and s.region >= 0 for s in found.items)
    assert offloaded > 100 and views > 5


def test_a_region_that_does_not_save_what_entering_costs_is_given_back() -> None:
    eager = acme()
    eager.speed = Speed(1, 1, enter_ns=50)
    assert taken(with_costs(eager, acme_exp=80, acme_sin=200)) == ["c"] * 4
    eager.speed = Speed(1, 1, enter_ns=15)
    assert taken(with_costs(eager, acme_exp=80, acme_sin=200)) == ["acme", "c", "acme", "c"]


@pytest.mark.parametrize(("most", "sizes"), [(4, [4]), (3, [3, 1])])
def test_limits_are_part_of_what_is_proven(most: int, sizes: list[int]) -> None:
    """One region of four would be the cheapest; two of less cost another entry."""
    eager = acme()
    eager.speed, eager.limits = Speed(1, 1, enter_ns=50), Limits(nodes=most)
    found = with_costs(eager, acme_exp=10, acme_sin=20)
    assert [len(r.items) for r in found.regions] == sizes
    assert found.pricing.total == pytest.approx(60.0 + 50.0 * len(sizes))
    assert found.pricing.optimal


def test_the_cheapest_of_several_lowerings_is_taken() -> None:
    made = acme()
    other = made.pattern(lambda op, x: op.Exp(x))
    other.name = "other"
    other.priority = -1
    found = with_costs(made, acme_exp=80, acme_other=10, acme_sin=500)
    assert [s.pattern.name for s in found.items] == ["other", "sin", "other", "sin"]
    found = with_costs(made, acme_exp=5, acme_other=10, acme_sin=500)
    assert [s.pattern.name for s in found.items] == ["exp", "sin", "exp", "sin"]


def test_what_the_user_gives_to_a_backend_stays_there() -> None:
    g = graph()
    next(iter(g)).metadata_props["aot.backend"] = "acme"
    costs = Costs(1, table([acme(), host()], {f"acme.{n}": 1e6 for n in ("exp", "sin")} | C))
    assert taken(select(g, [acme(), host()], costs=costs)) == [
        "acme",
        "c",
        "c",
        "c",
    ]


C = {f"c.{p.name}": 100.0 for p in host().patterns}


def test_three_backends_and_a_node_only_one_of_them_computes() -> None:
    rows = [("Exp", "x", "a"), ("Sin", "a", "b"), ("Cos", "b", "c"), ("Exp", "c", "d")]
    g = typed_graph(rows, [4], "d")
    one, two = vendor("one", "Exp", "Cos"), vendor("two", "Exp", "Sin")
    portable = vendor("c", "Sin", "Exp")
    for b, ns in ((one, 50.0), (two, 40.0), (portable, 45.0)):
        for p in b.patterns:
            p.cost(lambda m, ns=ns: ns)
    found = select(g, [one, two, portable], costs=Costs())
    assert taken(found) == ["two", "two", "one", "two"]
    assert found.pricing.total == pytest.approx(170.0)
    assert found.pricing.total == pytest.approx(found.pricing.bound)


def test_estimates_come_from_products_and_bytes() -> None:
    w = np.ones((8, 4, 3, 3), np.float32)
    proto = model([("Conv", "x w", "y")], {"x": [1, 4, 8, 8]}, {"y": None}, {"w": w})
    g = ir.from_proto(onnx.shape_inference.infer_shapes(proto)).graph
    conv = vendor("acme", "Conv")
    match = conv.patterns[0].match(next(iter(g)))
    assert match is not None
    assert macs_of(match) == 8 * 6 * 6 * 4 * 9
    conv.speed = Speed(macs_per_ns=8.0, bytes_per_ns=1e9, call_ns=5.0)
    cost, measured = Costs().of(conv, conv.patterns[0], match)
    assert (round(cost), measured) == (1296 + 5, False)


def test_a_cost_that_is_no_number_is_the_backends_fault() -> None:
    made = acme()
    made.patterns[0].cost(lambda m: float("nan"))
    with pytest.raises(BackendError, match=r"acme\.exp: its cost is nan ns"):
        select(graph(), [made, host()], costs=Costs())


def test_explain_says_what_the_alternatives_cost() -> None:
    found = explain(with_costs(acme(), acme_exp=10, acme_sin=1000))
    assert "costs acme 0.0 us, c 0.1 us (measured)" in found.text()
    assert "cost 0.2 us (the cheapest possible)" in found.text()
    record = found.record()[0]
    assert record["costs_ns"] == {"acme": 10.0, "c": 100.0}
    assert record["measured"] is True


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "is no JSON"),
        ('{"version": 9}', "no table of costs of this version"),
        ('{"version": 1, "cpu": "z80"}', "was measured on z80, the target is x"),
        ('{"version": 1, "cpu": "x", "matches": {"k": -1}}', "not numbers of nanoseconds"),
        ('{"version": 1, "cpu": "x", "matches": []}', "not numbers of nanoseconds"),
        (
            '{"version": 1, "cpu": "x", "matches": {}, "reorder_bytes_per_ns": 0}',
            "not numbers of nanoseconds",
        ),
    ],
)
def test_a_table_that_is_wrong_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        read_costs(path, "x", 1)
    with pytest.raises(UsageError, match="cannot read"):
        read_costs(tmp_path / "none.json", "x", 1)


def test_a_table_without_partition_by_cost_is_refused() -> None:
    with pytest.raises(UsageError, match="only --partition cost reads costs"):
        Options(tune="t.json")


def dense(path: Path) -> Path:
    """Two layers: oneDNN computes both."""
    r = np.random.default_rng(0)
    consts: dict[str, Any] = {
        "w": r.standard_normal((64, 64)).astype(np.float32),
        "v": r.standard_normal((64, 8)).astype(np.float32),
    }
    rows = [("MatMul", "x w", "a"), ("Relu", "a", "b"), ("MatMul", "b v", "y")]
    onnx.save(model(rows, {"x": [16, 64]}, {"y": None}, consts), str(path))
    return path


def test_a_written_table_decides(tmp_path: Path) -> None:
    source = dense(tmp_path / "net.onnx")
    _, first = partition_model(source, Options(backends=("dnnl",)))
    vendors = {key_of(s.pattern, s.match): 1.0 for s in first.items}
    _, other = partition_model(source, Options())
    portable = {key_of(s.pattern, s.match): 2.0 for s in other.items}
    cpu = load_target("host").cpu
    path = tmp_path / "t.json"
    for costs, winner in (
        ({**vendors, **portable}, "dnnl"),
        ({**vendors, **dict.fromkeys(portable, 0.5)}, "c"),
    ):
        path.write_text(json.dumps({"version": 1, "cpu": cpu, "matches": costs}))
        requested = Options(backends=("dnnl",), partition="cost", tune=str(path))
        _, found = partition_model(source, requested)
        assert {s.backend for s in found.items} == {winner}


def test_tune_needs_a_vendor_and_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = dense(tmp_path / "net.onnx")
    to = str(tmp_path / "t.json")
    assert main(["tune", str(source), "-o", to]) == 2
    assert "needs --backend" in capsys.readouterr().err
    line = ["tune", str(source), "-o", to, "--backend", "dnnl", "--target", "cortex-m4"]
    assert main(line) == 1
    assert "cortex-m4 is not this machine" in capsys.readouterr().err
    assert not (tmp_path / "t.json").exists()


def test_the_file_of_a_partition_remembers_which_lowering_was_chosen() -> None:
    from aot.partition.serialise import serialise

    made = acme()
    other = made.pattern(lambda op, x: op.Exp(x))
    other.name, other.priority = "other", -1
    loaded = ir.Model(graph(), ir_version=10)
    portable = host()
    names = {f"c.{p.name}": 100.0 for p in portable.patterns}
    costs = {**names, "acme.exp": 80.0, "acme.other": 10.0, "acme.sin": 1.0}
    known = Costs(1, table([made, portable], costs))
    found = select(loaded.graph, [made, portable], costs=known)
    assert [s.pattern.name for s in found.items] == ["other", "sin", "other", "sin"]
    loaded.opset_imports[""] = onnx.defs.onnx_opset_version()
    again = ir.from_proto(load_again(serialise(loaded, found)))
    same = select(again.graph, [made, portable])
    assert [s.pattern.name for s in same.items] == ["other", "sin", "other", "sin"]


def load_again(proto: onnx.ModelProto) -> onnx.ModelProto:
    from aot.load.marks import push_marks
    from aot.load.splice import splice

    push_marks(proto)
    splice(proto)
    return onnx.shape_inference.infer_shapes(proto)
