# SPDX-License-Identifier: Apache-2.0
"""Graphs of many nodes: time grew with the square of their number, in seven places.

`benchmarks`-sized ones (a hundred thousand nodes) are in tests/hostile; these are as small as shows
the square: processor time per node may not grow.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from aot.errors import AotError, ModelError, UnsupportedError
from aot.options import Options
from aot.pipeline import compile_model
from aot.plan.memory.live import total_live_steps
from graphs import model


def chain(count: int) -> onnx.ModelProto:
    ops = ("Exp", "Tanh", "Neg")
    rows = [(ops[i % 3], f"v{i}", f"v{i + 1}") for i in range(count)]
    return model(rows, {"v0": [2]}, {f"v{count}": [2]})


def tree(count: int) -> onnx.ModelProto:
    rows = [("Exp", "x", f"e{i}") for i in range(count)]
    rows.append(("Sum", " ".join(f"e{i}" for i in range(count)), "y"))
    return model(rows, {"x": [2]}, {"y": [2]})


def split(count: int) -> onnx.ModelProto:
    parts = " ".join(f"p{i}" for i in range(count))
    rows = [
        ("Split", "x", parts, {"axis": 0, "num_outputs": count}),
        ("Concat", parts, "y", {"axis": 0}),
    ]
    return model(rows, {"x": [count]}, {"y": [count]})


def fan(count: int) -> onnx.ModelProto:
    rows = [("Exp", "x", f"y{i}") for i in range(count)]
    return model(rows, {"x": [2]}, {f"y{i}": [2] for i in range(count)})


def seconds(proto: onnx.ModelProto) -> float:
    start = time.process_time()
    compile_model(proto, Options(name="net"))
    return time.process_time() - start


@pytest.mark.parametrize(("build", "count"), [(chain, 300), (tree, 300), (split, 300), (fan, 1500)])
def test_time_grows_with_the_nodes(build: Callable[[int], onnx.ModelProto], count: int) -> None:
    seconds(build(20))  # imports
    few = min(seconds(build(count)) for _ in range(2))
    many = seconds(build(4 * count))
    assert many < 10 * few + 0.5, (few, many)


def test_a_long_program_keeps_its_order() -> None:
    compiled = compile_model(chain(4200), Options(name="net"))
    assert compiled.program.schedule_optimal
    assert compiled.plan.arena_bytes == compiled.plan.alignment


def test_values_that_all_live_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("Add", f"v{i} v{i // 2}", f"v{i + 1}") for i in range(60)]
    proto = model(rows, {"v0": [2]}, {"v60": [2]})
    compiled = compile_model(proto, Options(name="net"))
    life = total_live_steps(compiled.program)
    assert 60 * 5 < life < 60 * 60
    monkeypatch.setattr("aot.plan.schedule.MOST_LIVE_STEPS", life - 1)
    with pytest.raises(UnsupportedError, match=f"live {life} steps"):
        compile_model(proto, Options(name="net"))


def test_outputs_in_the_arena_live_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were not counted: thousands took gigabytes and minutes."""
    monkeypatch.setattr("aot.plan.schedule.MOST_LIVE_STEPS", 50 * 50)
    compile_model(fan(50), Options(name="net"))
    with pytest.raises(UnsupportedError, match=r"of 50 calls live 2\d\d\d steps") as caught:
        compile_model(fan(50), Options(name="net", io="arena"))
    assert caught.value.hint.endswith("--io caller")


def test_loops_in_loops_and_graphs_in_graphs_are_bounded() -> None:
    """Ten steps in six loops, and two branches in eleven Ifs: small files, a million bodies."""
    from hostile.structure import cases

    wanted = {
        "Loop of 10, 6 deep": "nested more than 4",
        "If in both branches, 11 deep": "subgraphs",
    }
    found = {c.name: c for c in cases() if c.name in wanted}
    for name, part in wanted.items():
        with tempfile.TemporaryDirectory() as folder:
            path = found[name].make(Path(folder))
            with pytest.raises(AotError, match=part):
                compile_model(Path(path), Options(name="net"))


def test_too_many_nodes_are_refused_before_they_are_matched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aot.normalise.MOST_NODES", 19)
    with pytest.raises(UnsupportedError, match=r"20 nodes after normalising \(limit 19\)"):
        compile_model(chain(20), Options(name="net"))


def test_a_node_of_too_many_inputs_or_outputs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aot.load.check.MAX_NAMES", 19)
    compile_model(split(19), Options(name="net"))
    for build, message in ((split, "20 outputs"), (tree, "20 inputs")):
        with pytest.raises(ModelError, match=message):
            compile_model(build(20), Options(name="net"))


def test_a_program_of_too_many_calls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aot.lower.lower.MOST_ITEMS", 19)
    compile_model(chain(19), Options(name="net"))
    with pytest.raises(UnsupportedError, match=r"needs 20 calls \(limit 19\)"):
        compile_model(chain(20), Options(name="net"))
