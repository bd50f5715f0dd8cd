# SPDX-License-Identifier: Apache-2.0
"""`--state IN=OUT`: what a run leaves is there for the next one; zero at first, after a reset."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from aot.cli import main
from aot.errors import ModelError
from aot.options import Options
from aot.pipeline import partition_model
from aot.tools.inspection import inspect_model
from graphs import model
from targets.images import need_tools

N = 24
ROW = (1, N)
Step = Callable[[dict[str, np.ndarray], np.ndarray], tuple[np.ndarray, dict[str, np.ndarray]]]


def total() -> tuple[onnx.ModelProto, dict[str, str], Step]:
    """y = relu(s + x), the sum is the next s: its place may be that of s."""
    nodes = [("Add", "s x", "t"), ("Relu", "t", "y")]
    proto = model(nodes, {"x": ROW, "s": ROW}, {"y": ROW, "t": ROW})
    return proto, {"s": "t"}, lambda s, x: (np.maximum(s["s"] + x, 0), {"s": s["s"] + x})


def window() -> tuple[onnx.ModelProto, dict[str, str], Step]:
    """The last four rows: y is their sum."""
    nodes = [
        ("Concat", "s x", "all", {"axis": 0}),
        ("Slice", "all one end zero", "next"),
        ("ReduceSum", "next zero", "y", {"keepdims": 1}),
    ]
    constants = {k: np.array([v]) for k, v in (("one", 1), ("end", 99), ("zero", 0))}
    proto = model(nodes, {"s": (4, N), "x": ROW}, {"y": ROW, "next": (4, N)}, constants)

    def step(s: dict[str, np.ndarray], x: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        after = np.concatenate([s["s"], x])[1:]
        return after.sum(0, keepdims=True), {"s": after}

    return proto, {"s": "next"}, step


def swap() -> tuple[onnx.ModelProto, dict[str, str], Step]:
    """a gets b, b gets a + x: a delay of one step in which places cross."""
    nodes = [("Add", "a x", "c"), ("Identity", "b", "d"), ("Mul", "a b", "y")]
    proto = model(nodes, {"a": ROW, "x": ROW, "b": ROW}, {"c": ROW, "y": ROW, "d": ROW})
    return (
        proto,
        {"a": "d", "b": "c"},
        lambda s, x: (
            s["a"] * s["b"],
            {"a": s["b"], "b": s["a"] + x},
        ),
    )


def crossed() -> tuple[onnx.ModelProto, dict[str, str], Step]:
    """Two states that only change places."""
    nodes = [("Identity", "a", "c"), ("Identity", "b", "d"), ("Identity", "x", "e")]
    nodes += [("Sub", "a b", "y")]
    ends = {"c": ROW, "y": ROW, "d": ROW, "e": ROW}
    proto = model(nodes, {"a": ROW, "x": ROW, "b": ROW, "f": ROW}, ends)
    # f is the last x; a and b start as zero and change places for ever
    return (
        proto,
        {"a": "d", "b": "c", "f": "e"},
        lambda s, x: (
            s["a"] - s["b"],
            {"a": s["b"], "b": s["a"], "f": x},
        ),
    )


MODELS = {f.__name__: f for f in (total, window, swap, crossed)}


@pytest.mark.parametrize("io", ["caller", "arena"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_runs_hand_over(name: str, io: str, tmp_path: Path) -> None:
    proto, states, step = MODELS[name]()
    bundle = aot.compile(proto, tmp_path, name="net", states=states, io=io)
    net = bundle.load()
    assert [s.name for s in net.inputs] == ["x"] and [s.name for s in net.outputs] == ["y"]
    assert {s["name"]: s["output"] for s in bundle.manifest["states"]} == states
    rng = np.random.default_rng(0)
    for _ in range(2):
        held = {s["name"]: np.zeros(s["shape"], np.float32) for s in bundle.manifest["states"]}
        for _ in range(4):
            x = rng.uniform(-1, 1, ROW).astype(np.float32)
            want, held = step(held, x)
            assert np.allclose(net(x), want, atol=1e-6)
        net.reset_state()


def test_a_state_is_renewed_in_its_place(tmp_path: Path) -> None:
    proto, states, _ = total()
    bundle = aot.compile(proto, tmp_path, name="net", states=states, configure=False)
    assert bundle.manifest["memory"]["arena_bytes"] == 128  # one state, nothing else
    assert "(void)0" in (tmp_path / "bundle/src/net_run.c").read_text()


def test_the_static_instance_keeps_its_states(tmp_path: Path) -> None:
    proto, states, _ = total()
    net = aot.compile(proto, tmp_path, name="net", states=states).build().load()
    library = ctypes.CDLL(str(tmp_path / "lib" / "libnet.so"))
    x, y = np.ones(ROW, np.float32), np.empty(ROW, np.float32)
    ends = [(ctypes.c_void_p * 1)(a.ctypes.data) for a in (x, y)]
    for k in range(1, 4):
        assert library.tvmgen_net_run(*ends) == 0
        assert np.array_equal(y, np.full(ROW, k, np.float32))
    context = ctypes.create_string_buffer(256)
    library.net_arena.restype = ctypes.c_void_p
    arena = ctypes.c_void_p(library.net_arena())
    assert library.net_init(context, arena, ctypes.c_size_t(128)) == 0  # a new start
    library.net_shutdown(context)
    assert library.tvmgen_net_run(*ends) == 0
    assert np.array_equal(y, x)
    assert np.array_equal(net(x), x)
    assert library.net_reset_state(None) == 1 and library.net_reset_state(context) == 11


@pytest.mark.parametrize("target", ["host", "cortex-m4"])
def test_verify_follows_a_stream(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if target != "host":
        need_tools(target)
    proto, states, step = window()
    onnx.save(proto, str(tmp_path / "m1.onnx"))
    held, samples = {"s": np.zeros((4, N), np.float32)}, {}
    rng = np.random.default_rng(3)
    for k in range(3):
        samples[f"s{k}_in1"] = rng.uniform(-1, 1, ROW).astype(np.float32)
        _, held = step(held, samples[f"s{k}_in1"])
    np.savez(tmp_path / "in.npz", **samples)
    out = tmp_path / "out"
    words = [f"--state={i}={o}" for i, o in states.items()]
    assert main([str(tmp_path / "m1.onnx"), "-o", str(out), "--target", target, *words]) == 0
    aot.Bundle(out).build()
    assert main(["verify", str(out), "--inputs", str(tmp_path / "in.npz")]) == 0
    said = capsys.readouterr().out
    assert all(f"s{k}/y: max abs" in said for k in range(3))
    assert main(["verify", str(out), "--inputs", str(tmp_path / "in.npz"), "--per-node"]) == 0


@pytest.mark.parametrize(
    "states, says",
    [
        ({"z": "t"}, 'the model has no input "z"'),
        ({"s": "z"}, 'the model has no output "z"'),
        ({"s": "half"}, 'state input "s" is float32[1, 24], output "half" is float32[1, 12]'),
    ],
)
def test_bad_pairs(states: dict[str, str], says: str, tmp_path: Path) -> None:
    nodes = [("Add", "s x", "t"), ("Slice", "t zero end one", "half")]
    constants = {k: np.array([v]) for k, v in (("zero", 0), ("end", 12), ("one", 1))}
    proto = model(nodes, {"x": ROW, "s": ROW}, {"t": ROW, "half": (1, 12)}, constants)
    with pytest.raises(ModelError) as caught:
        aot.compile(proto, tmp_path / "o", states=states, configure=False)
    assert says in str(caught.value)
    assert f"--state {next(iter(states.items()))[0]}=" in caught.value.where


def test_a_pair_given_twice_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["x.onnx", "-o", "o", "--state", "a=b", "--state", "a=c"]) == 2
    assert "--state a is given twice" in capsys.readouterr().err
    assert main(["x.onnx", "-o", "o", "--state", "a"]) == 2
    assert "'a' is not IN=OUT" in capsys.readouterr().err


def test_inspect_proposes_the_pairs(tmp_path: Path) -> None:
    proto, states, _ = window()
    onnx.save(proto, str(tmp_path / "m.onnx"))
    report = inspect_model(tmp_path / "m.onnx", Options(), partition_model)
    assert dict(report.states) == states
    assert report.state_options() == ["--state s=next"]
    nodes = [("Add", "a h_in", "b"), ("Relu", "b", "h_out"), ("Relu", "a", "y")]
    ends = {"h_out": ROW, "y": ROW}
    onnx.save(model(nodes, {"a": ROW, "h_in": ROW}, ends), str(tmp_path / "m.onnx"))
    assert inspect_model(tmp_path / "m.onnx", Options(), partition_model).states == (
        ("h_in", "h_out"),
    )
    onnx.save(model([("Relu", "a", "y")], {"a": ROW}, {"y": ROW}), str(tmp_path / "m.onnx"))
    assert inspect_model(tmp_path / "m.onnx", Options(), partition_model).states == ()
