# SPDX-License-Identifier: Apache-2.0
"""A seeded sample of the fuzzer, and that it would see what it is made for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from aot.shapes.dynamic.rules import dynamic, pass_on
from fuzz import misfits, mutants, sizes, streams
from fuzz.check import (
    CONFIGS,
    DEFECTS,
    ONE,
    PASS,
    REFUSED,
    REJECTED,
    WRONG,
    Outcome,
    check,
    sweep,
)
from fuzz.draft import Draft, Reject, evaluate, second_opinion, typed
from fuzz.generate import Model, generate
from fuzz.kernel_cache import ROOT, Cache
from fuzz.minimise import minimise, snippet
from fuzz.oracles import difference
from fuzz.special import declared

SEEDS = range(40)
FULL = pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="AOT_FULL is not set")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("kernels"))


def test_a_sample_shows_no_difference(store: Cache, tmp_path: Path) -> None:
    found = sweep(SEEDS, store, tmp_path / "b", ("base",))
    bad = [o.text for o in found if o.result in DEFECTS]
    assert not bad, "\n".join(bad)
    assert sum(o.result == PASS for o in found) > len(SEEDS) // 2


def test_operands_that_do_not_fit(store: Cache, tmp_path: Path) -> None:
    first = {p.name: (p, one) for p, one in reversed(declared()) if not p.name.endswith(".half")}
    found = misfits.tried(list(first.values())[7::45], store, tmp_path / "b")
    assert not any(found[f] for f in misfits.FAULTS)
    assert found[PASS] > 10
    assert found[REJECTED] > 10


def test_sizes_that_runs_say(store: Cache, tmp_path: Path) -> None:
    first = {p.name: (p, one) for p, one in reversed(declared()) if not p.name.endswith(".half")}
    found = sizes.tried(list(first.values())[11::45], store, tmp_path / "b")
    assert not any(found[d] for d in DEFECTS)
    assert found[PASS] + found[ONE] > 30
    assert found[REFUSED] > 3


def test_a_tail_that_is_not_neutral_is_seen(
    store: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def passes(x: Any, node: Any) -> None:
        pass_on(x, node, x.run_sizes(node.inputs[0]))

    monkeypatch.setitem(dynamic._rules, ("", "Softmax"), passes)
    chosen = [(p, one) for p, one in declared() if p.name == "Softmax"][:1]
    assert sizes.tried(chosen, store, tmp_path / "b")[WRONG]


def test_states_are_handed_over(
    store: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = streams.sweep(range(60), ("base",), store, tmp_path / "b")
    assert not any(found[d] for d in DEFECTS)
    assert found[PASS] + found[ONE] > 15
    monkeypatch.setattr(streams, "RUNS", streams.STEPS - 1)
    assert streams.sweep(range(60), ("base",), store, tmp_path / "b")[WRONG] > 3


def test_a_seed_is_one_model() -> None:
    for seed in range(-10, 10):
        a, b = generate(seed), generate(seed)
        if a is None or b is None:
            assert a is b
            continue
        assert a.proto.SerializeToString() == b.proto.SerializeToString()
        assert all(a.feeds[n].tobytes() == b.feeds[n].tobytes() for n in a.feeds)


def outcome(model: Model, store: Cache, folder: Path) -> Outcome:
    return check([(model, CONFIGS["base"])], store, folder)[0]


def clumsy(store: Cache, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """The outcome of a model of three nodes in a compiler that takes Neg for Abs."""
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    nodes = [
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Tanh", ["b"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [typed("x", x)], [typed("y", x)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    real = check.__globals__["compile_run"]

    def compile_run(o: Outcome) -> None:
        wrong = type(proto)()
        wrong.CopyFrom(o.model.proto)
        for n in wrong.graph.node:
            n.op_type = "Abs" if n.op_type == "Neg" else n.op_type
        told = Outcome(Model(o.model.seed, wrong, o.model.feeds), o.config)
        real(told)
        o.run, o.result, o.message = told.run, told.result, told.message

    monkeypatch.setitem(check.__globals__, "compile_run", compile_run)
    return outcome(Model(0, proto, {"x": x}), store, folder)


def test_a_wrong_result_is_seen_and_made_small(
    store: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = clumsy(store, tmp_path / "b", monkeypatch)
    assert found.result == WRONG
    small = minimise(found, store, tmp_path / "b")
    assert [n.op_type for n in small.model.proto.graph.node] == ["Neg"]
    assert small.result == WRONG and sum(a.size for a in small.model.feeds.values()) == 1
    assert "helper.make_node('Neg'" in snippet(small)


def test_differences() -> None:
    one = np.ones(3, np.float32)
    assert not difference(one, one)
    assert difference(one, one * np.float32(1.01)) and difference(one, one[:2])
    assert difference(one, one * np.float32("nan")) and difference(one, one.astype(np.float64))
    quantised = np.array([1, 2], np.int8)
    assert difference(quantised, quantised + 1) and not difference(quantised, quantised + 1, 1.0)
    most, endless = np.full(2, 3.4e38, np.float32), np.full(2, np.inf, np.float32)
    assert not difference(endless, most) and difference(endless, most / 2)
    assert difference(endless, -most)


def test_a_decision_that_hangs_by_a_thread_is_not_drawn() -> None:
    d = Draft(np.random.default_rng(0))
    x = d.feed(np.array([0.1, 2.0], np.float32))
    y = d.add("Add", [x, d.const(np.float32(0.9))])[0]  # 1.0, perhaps a little less
    with pytest.raises(Reject):
        d.add("Floor", [y])
    assert d.add("Floor", [x])


SLIDING = (
    ("AveragePool", {"kernel_shape": [2, 3], "dilations": [2, 1], "ceil_mode": 1}),
    ("AveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "count_include_pad": 1}),
    ("MaxPool", {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER", "storage_order": 1}),
    ("LpPool", {"kernel_shape": [2, 2], "pads": [0, 1, 1, 0], "p": 3}),
    ("LRN", {"size": 3, "alpha": 0.1}),
    ("LpNormalization", {"p": 1, "axis": 1}),
    ("GlobalLpPool", {"p": 3}),
    ("Conv", {"group": 2, "dilations": [2, 1], "pads": [1, 0, 2, 1]}),
    ("ConvTranspose", {"group": 2, "output_padding": [1, 0], "pads": [0, 1, 1, 0]}),
)


@pytest.mark.parametrize("op, attrs", SLIDING)
def test_what_is_written_again_is_what_onnxruntime_says(op: str, attrs: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((2, 4, 7, 6)).astype(np.float32)}
    if op.startswith("Conv"):
        shape = (4, 2, 2, 3) if op == "Conv" else (4, 3, 2, 3)
        feeds["w"] = rng.standard_normal(shape).astype(np.float32)
        feeds["b"] = rng.standard_normal(4 if op == "Conv" else 6).astype(np.float32)
    if op not in ("LRN", "LpNormalization", "GlobalLpPool"):
        attrs = {"strides": [2, 1], **attrs}
    ends = ["y", "i"] if op == "MaxPool" else ["y"]
    opsets = [helper.make_opsetid("", 19 if op == "AveragePool" else 18)]
    node = helper.make_node(op, list(feeds), ends, **attrs)
    ours = evaluate([node], feeds, ends, opsets)
    for a, b in zip(ours, second_opinion([node], feeds, ends, opsets), strict=True):
        assert a.shape == b.shape and np.allclose(a, b, atol=1e-5)


def test_a_slope_of_infinity_leaves_zero() -> None:
    feeds = {"x": np.array([0, -0.0, 1, -1], np.float32), "s": np.array(np.inf, np.float32)}
    node, opsets = helper.make_node("PRelu", ["x", "s"], ["y"]), [helper.make_opsetid("", 16)]
    for of in (evaluate, second_opinion):
        (y,) = of([node], feeds, ["y"], opsets)
        assert np.array_equal(y, np.array([0, 0, 1, -np.inf], np.float32))


@pytest.mark.parametrize(
    "op, attrs, of",
    [
        ("LpPool", {"kernel_shape": [1], "p": 3}, [1e26, 3e38, 1e9, 2]),
        ("GlobalLpPool", {"p": 2}, [1e26, 2]),
        ("LpNormalization", {"p": 2, "axis": 2}, [1e26, 2, -1]),
        *(
            ("ReduceLogSumExp", {"keepdims": k, "axes": [2]}, of)
            for k, of in enumerate(([-np.inf, -np.inf], [np.inf, -np.inf, 1], [2, np.nan]) * 2)
        ),
    ],
)
def test_numbers_beyond_the_type(op: str, attrs: dict[str, Any], of: list[float]) -> None:
    feeds = {"x": np.array([[of, np.ones_like(of)]], np.float32)}
    if "keepdims" in attrs:
        attrs = attrs | {"keepdims": attrs["keepdims"] % 2}
    node, opsets = helper.make_node(op, ["x"], ["y"], **attrs), [helper.make_opsetid("", 13)]
    (a,), (b,) = (run([node], feeds, ["y"], opsets) for run in (evaluate, second_opinion))
    assert a.shape == b.shape and np.allclose(a, b, equal_nan=True)


@pytest.mark.parametrize("corners", [0, 1])
def test_grids_are_what_onnxruntime_says(corners: int) -> None:
    theta = np.random.default_rng(4).standard_normal((2, 3, 4)).astype(np.float32)
    for feeds in (
        {"t": theta[:, :2, :3].copy(), "s": np.array([2, 1, 3, 4])},
        {"t": theta, "s": np.array([2, 1, 3, 2, 4])},
    ):
        node = helper.make_node("AffineGrid", ["t", "s"], ["y"], align_corners=corners)
        opsets = [helper.make_opsetid("", 20)]
        (a,), (b,) = (run([node], feeds, ["y"], opsets) for run in (evaluate, second_opinion))
        assert a.shape == b.shape and np.allclose(a, b, atol=1e-6)
        (wide,) = evaluate([node], feeds | {"t": feeds["t"].astype(np.float64)}, ["y"], opsets)
        assert wide.dtype == np.float64 and np.allclose(wide, a, atol=1e-6)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_elements_are_scattered_as_onnxruntime_does(reduction: str) -> None:
    rng = np.random.default_rng(1)
    x, u = (rng.standard_normal(s).astype(np.float32) for s in ((4, 3, 2), (2, 3, 2)))
    axis = 0 if reduction == "none" else -3
    rows = rng.permutation(4)[:2] - 4 * (reduction == "add")
    feeds = {"x": x, "i": np.broadcast_to(rows[:, None, None], u.shape).copy(), "u": u}
    node = helper.make_node("ScatterElements", list(feeds), ["y"], axis=axis, reduction=reduction)
    (a,), (b,) = (
        of([node], feeds, ["y"], [helper.make_opsetid("", 18)]) for of in (evaluate, second_opinion)
    )
    assert np.array_equal(a, b) and not np.array_equal(a, x)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses_are_what_onnxruntime_says(reduction: str) -> None:
    rng = np.random.default_rng(2)
    feeds = {
        "x": rng.standard_normal((3, 4, 2)).astype(np.float32),
        "t": np.array([[0, 1], [3, 2], [1, 1]]),
        "w": rng.random(4).astype(np.float32),
    }
    ends, opsets = ["y", "p"], [helper.make_opsetid("", 13)]
    more = {"reduction": reduction, "ignore_index": 1}
    node = helper.make_node("SoftmaxCrossEntropyLoss", list(feeds), ends, **more)
    ours, others = (of([node], feeds, ends, opsets) for of in (evaluate, second_opinion))
    for a, b in zip(ours, others, strict=True):
        assert a.shape == b.shape and np.allclose(a, b, atol=1e-5)


def test_every_bug_to_plant_has_its_place() -> None:
    assert len(mutants.MUTANTS) == 50
    for m in mutants.MUTANTS:
        assert m.old in (ROOT / m.file).read_text(), m


def run(*words: str) -> str:
    """Run a command of this folder; all that it says."""
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


@FULL
def test_every_planted_bug_is_found() -> None:
    assert "50 of 50 planted bugs found" in run("tests/fuzz/planted.py")


@FULL
def test_every_operator_and_type_is_reached(tmp_path: Path) -> None:
    cover = str(tmp_path / "reached")
    run("tests/fuzz", "--directed", "-n", "5000", "--configs", "base", "--coverage", cover)


@FULL
@pytest.mark.parametrize(
    "variant", ["all", "arena", "ram", "cblas", "dnnl", "dnnl_cost", "accel_sim"]
)
def test_real_bundles_agree(variant: str) -> None:
    run("tests/fuzz/bundles.py", "--variant", variant, "-n", "100")


@FULL
def test_twenty_thousand_models_agree() -> None:
    run("tests/fuzz", "-n", "20000")
