# SPDX-License-Identifier: Apache-2.0
"""Decoders whose caches grow: as inputs and outputs, and as states that a run extends in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import aot
from aot.errors import AotError, ModelError
from decoders import LENGTH, PAST, gpt2
from graphs import model

Arrays = dict[str, np.ndarray]
LAYERS = 2
NAMES = [f"{i}.{kind}" for i in range(LAYERS) for kind in ("key", "value")]
STATES = {f"past.{n}": f"present.{n}" for n in NAMES}


def feeds(past: int, length: int, seed: int = 0) -> Arrays:
    """Tokens that follow `past` others; the first two of all are masked."""
    rng = np.random.default_rng(seed)
    mask = np.ones((1, past + length), np.int64)
    mask[0, : min(2, past)] = 0
    ids = rng.integers(0, 40, (1, length))
    places = np.arange(past, past + length, dtype=np.int64)[None]
    return {"input_ids": ids, "attention_mask": mask, "position_ids": places}


def caches(past: int, seed: int = 1) -> Arrays:
    rng = np.random.default_rng(seed)
    return {n: rng.standard_normal((1, 2, past, 8)).astype(np.float32) for n in STATES}


def agree(found: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def stateful(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("caches")
    dims = {PAST: (0, 15), LENGTH: (1, 4)}
    return aot.compile(gpt2(), out, name="net", dims=dims, states=STATES).build()


def test_caches_as_inputs_and_outputs(tmp_path: Path) -> None:
    proto = gpt2()
    bundle = aot.compile(proto, tmp_path, name="net", dims={PAST: (0, 15), LENGTH: (1, 4)})
    net, reference = bundle.build().load(), ReferenceEvaluator(proto)
    for past, length in ((0, 1), (0, 4), (7, 2), (15, 1), (15, 4)):
        given = feeds(past, length) | caches(past)
        for found, want in zip(net(**given), reference.run(None, given), strict=True):
            assert np.asarray(found).shape == want.shape
            agree(found, want)


def test_caches_grow_in_their_places(stateful: Any) -> None:
    manifest = stateful.manifest
    assert [s["extents"] for s in manifest["states"]] == [[2]] * 4
    kept = [d for d in manifest["dimensions"] if d["name"] == PAST]
    assert kept[0]["axes"] == [] and kept[0]["most"] == 15
    source = (stateful.out / "bundle/src/net_run.c").read_text()
    for name in NAMES:  # the new cache lies where the old one is: nothing is copied
        own, new = (f"#define BUF_{s}_{name.replace('.', '_')} " for s in ("past", "present"))
        lines = [line for line in source.splitlines() if line.startswith((own, new))]
        assert len({line.rpartition("(")[2] for line in lines}) == 1, lines


def test_attention_stops_at_the_tokens_there_are(stateful: Any) -> None:
    """The products with keys and with values read the true size; whether it is right, and the same
    bits as the whole product, see below and runtime_c/tests/test_matmul.c."""
    source = (stateful.out / "bundle/src/net_run.c").read_text()
    assert "/*SIZED=*/1" in source and "/*SIZED=*/2" in source
    assert source.count("matmul_f32_sized(BUF_") == 2 * LAYERS


def test_a_stream_of_tokens(stateful: Any) -> None:
    net, reference = stateful.load(), ReferenceEvaluator(gpt2())
    for _ in range(2):
        held, past = caches(0), 0
        for k, length in enumerate((4, 1, 3, 1, 1, 4)):
            given = feeds(past, length, k)
            logits, *new = reference.run(None, given | held)
            agree(net(**given), logits)
            held, past = dict(zip(STATES, new, strict=True)), past + length
        net.reset_state()


def test_lengths_that_do_not_fit_change_nothing(stateful: Any) -> None:
    """A mask for other tokens than the cache has, tokens beyond the bound: both are refused."""
    net, reference = stateful.load(), ReferenceEvaluator(gpt2())
    net.reset_state()
    held, past = caches(0), 0
    for length in (4, 4, 4, 3, 1):
        for wrong in (past + 1, past - 1):
            if wrong >= 0:
                with pytest.raises(AotError, match="status 3"):
                    net(**feeds(wrong, length))
        given = feeds(past, length)
        logits, *new = reference.run(None, given | held)
        agree(net(**given), logits)
        held, past = dict(zip(STATES, new, strict=True)), past + length
    with pytest.raises(AotError, match="status 3"):
        net(**feeds(past - 1, 1))  # 16 tokens are more than the range allows


def test_a_state_begins_empty(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match='"past_sequence_length", a dimension of a state'):
        aot.compile(gpt2(), tmp_path, dims={PAST: (1, 15), LENGTH: 1}, states=STATES)


@pytest.mark.parametrize("keep", [2, 9])
def test_a_window_of_the_last_rows(keep: int, tmp_path: Path) -> None:
    """States that are cut, and states that are computed, are stored at the bound of the range."""
    nodes = [
        ("Concat", "s x", "all", {"axis": 0}),
        ("Slice", "all first end", "next"),
        ("ReduceSum", "next zero", "y", {"keepdims": 1}),
    ]
    numbers = {"first": -keep, "end": 99, "zero": 0}
    consts = {k: np.array([v]) for k, v in numbers.items()}
    shapes = {"s": ("n", 3), "x": (2, 3)}
    proto = model(nodes, shapes, {"y": (1, 3), "next": (None, 3)}, consts)
    bundle = aot.compile(proto, tmp_path, name="net", dims={"n": (0, 6)}, states={"s": "next"})
    net, rows = bundle.build().load(), np.zeros((0, 3), np.float32)
    for k in range(5):
        x = np.full((2, 3), k + 1, np.float32)
        if len(rows) > 6:  # as long as the run before left it, which had room for it
            with pytest.raises(AotError, match="status 3"):
                net(x)
            return
        rows = np.concatenate([rows, x])[-keep:]
        agree(net(x), rows.sum(0, keepdims=True))
    assert keep == 2
