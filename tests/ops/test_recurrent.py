# SPDX-License-Identifier: Apache-2.0
"""Forms of LSTM, GRU and RNN that onnx.reference lacks, against onnxruntime: sequence lengths,
batch-first layout, other activations, clipping, coupled gates, two directions.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pytest
from onnx import helper, numpy_helper
from test_vmath import runnable

import aot
from aot.errors import AotError
from aot.ops.registry import load_all
from aot.vendor.cases import case, f32
from needs import need_module

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
LENGTHS = np.array([3, 5, 1], np.int32)


def arrays(kind: str, directions: int, batch_first: bool) -> list[np.ndarray]:
    """x, w, r, bias, h0: five steps, three sequences, seven features, nineteen states."""
    t, b, i, h, g = 5, 3, 7, 19, GATES[kind]
    x = (b, t, i) if batch_first else (t, b, i)
    state = (b, directions, h) if batch_first else (directions, b, h)
    shapes = [x, (directions, g * h, i), (directions, g * h, h), (directions, 2 * g * h), state]
    return [f32(*s, seed=k, low=-0.7, high=0.7) for k, s in enumerate(shapes)]


def forms() -> list[tuple[str, dict[str, Any], bool]]:
    """(operator, attributes, with sequence lengths)."""
    found: list[tuple[str, dict[str, Any], bool]] = []
    for kind in GATES:
        for direction in ("forward", "reverse", "bidirectional"):
            found.append((kind, {"direction": direction}, True))
        found.append((kind, {"direction": "bidirectional"}, False))
        found.append((kind, {"clip": 0.4}, False))
    found.append(("LSTM", {"activations": ["HardSigmoid", "Relu", "Softsign"]}, False))
    leaky = {"activations": ["Sigmoid", "LeakyRelu", "Tanh"], "activation_alpha": [0.3]}
    found.append(("LSTM", leaky, False))
    scaled = {"activations": ["Affine", "ScaledTanh", "Elu"]}
    scaled |= {"activation_alpha": [0.3, 0.7, 0.5], "activation_beta": [0.1, 1.2]}
    found.append(("LSTM", scaled, False))
    above = {"activations": ["ThresholdedRelu"], "activation_alpha": [0.2]}
    found.append(("RNN", above, False))
    found.append(("RNN", {"activations": ["Softplus"]}, False))
    found.append(("LSTM", {"activations": ["Sigmoid", "Softplus", "Softsign"]}, True))
    found.append(("GRU", {"activations": ["Softplus", "Tanh"]}, False))
    found.append(("LSTM", {"input_forget": 1}, False))
    both = {"direction": "bidirectional", "activations": ["Relu", "Tanh"]}
    found.append(("RNN", both, True))
    found.append(("GRU", {"direction": "reverse", "linear_before_reset": 1}, True))
    return found


def job(kind: str, attrs: dict[str, Any], lengths: bool) -> harness.Job:
    """A case of the operator with what onnxruntime computes as the expectation."""
    ort = need_module("onnxruntime")
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    x, w, r, b, h0 = arrays(kind, directions, bool(attrs.get("layout")))
    given = [x, w, r, b, LENGTHS if lengths else None, h0]
    given += [f32(*h0.shape, seed=9)] if kind == "LSTM" else []
    outputs = 3 if kind == "LSTM" else 2
    attrs = {"hidden_size": 19, **attrs}
    names = ["" if a is None else f"x{i}" for i, a in enumerate(given)]
    node = helper.make_node(kind, names, [f"y{i}" for i in range(outputs)], **attrs)
    fed = {f"x{i}": a for i, a in enumerate(given) if a is not None}
    results = [helper.make_tensor_value_info(f"y{i}", 1, None) for i in range(outputs)]
    inputs = [harness.info(n, a) for n, a in fed.items()]
    graph = helper.make_graph([node], "g", inputs, results)
    opset = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    want = ort.InferenceSession(model.SerializeToString()).run(None, fed)
    pattern = next(p for p in load_all().patterns if p.name == kind)
    made = case(
        *given,
        const=(1, 2, 3, 4) if lengths and "clip" in attrs else (1, 2, 3),
        outputs=outputs,
        expected=tuple(want),
        **attrs,
    )
    label = f"{kind} {attrs} {'with lengths' if lengths else ''}"
    return harness.Job(label, made, harness.model_of(pattern.graph, made), want)


@pytest.mark.parametrize(("vlen", "block"), [(1, False), (8, False)])
def test_against_onnxruntime(vlen: int, block: bool, tmp_path: Path) -> None:
    if not runnable(vlen):
        pytest.skip(f"this CPU has no vectors of {vlen} floats")
    failures = harness.run([job(*f) for f in forms()], vlen, block, tmp_path)
    assert not failures, "\n".join(failures)


def test_batch_first_is_the_transposed_layer(tmp_path: Path) -> None:
    """onnxruntime has no layout 1: the same layer with time first gives the expectation."""
    jobs = []
    for kind in GATES:
        base = job(kind, {"direction": "bidirectional"}, False)
        swap = [0, 5, 6] if kind == "LSTM" else [0, 5]
        given = [
            a if a is None or i not in swap else np.ascontiguousarray(a.swapaxes(0, 1))
            for i, a in enumerate(base.case.inputs)
        ]
        want = [base.want[0].transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in base.want[1:])]
        attrs = {**base.case.attrs, "layout": 1}
        made = case(
            *given,
            const=(1, 2, 3),
            outputs=len(want),
            expected=tuple(np.ascontiguousarray(a) for a in want),
            **attrs,
        )
        pattern = next(p for p in load_all().patterns if p.name == kind)
        model = harness.model_of(pattern.graph, made)
        jobs.append(harness.Job(f"{kind} batch first", made, model, list(made.expected)))
    failures = harness.run(jobs, 4, False, tmp_path)
    assert not failures, "\n".join(failures)


def test_last_states_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody wants the states of every step, and products are made for two steps at a time."""
    jobs = []
    for kind, gates in GATES.items():
        for attrs, lengths in (({}, False), ({}, True), ({"direction": "reverse"}, False)):
            base = job(kind, attrs, lengths)
            assert base.model is not None
            base.model.graph.node[0].output[0] = ""
            del base.model.graph.output[0]
            want = base.want[1:]
            alone = replace(base.case, outputs=len(want), expected=tuple(want))
            jobs.append(harness.Job(f"{base.label} states", alone, base.model, want))
        monkeypatch.setattr("aot.ops.rnn.CHUNK", 2 * 3 * 24 * gates)
    failures = harness.run(jobs, 8 if runnable(8) else 1, False, tmp_path)
    assert not failures, "\n".join(failures)


def test_lengths_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that says a length outside of 0 to the steps gets the nearest that there is.

    The state of a sequence without steps stays what it was; onnxruntime's becomes 0.
    """
    monkeypatch.setitem(globals(), "LENGTHS", np.array([0, 5, 2], np.int32))
    base = job("GRU", {}, True)
    said = list(base.case.inputs)
    said[4] = np.array([-3, 9, 2], np.int32)
    want = [a.copy() for a in base.want]
    want[1][:, 0] = said[5][:, 0]
    wild = harness.Job("wild", replace(base.case, inputs=tuple(said)), base.model, want)
    failures = harness.run([wild], 1, False, tmp_path)
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("name", ["Affine", "ScaledTanh", "ThresholdedRelu"])
def test_numbers_without_a_default_must_be_said(name: str, tmp_path: Path) -> None:
    attributes = {"activations": [name], "hidden_size": 1}
    node = helper.make_node("RNN", ["x", "w", "r"], ["y"], **attributes)
    info = helper.make_tensor_value_info
    consts = [numpy_helper.from_array(np.ones((1, 1, 1), np.float32), n) for n in "wr"]
    ends = [info("x", 1, [2, 1, 1])], [info("y", 1, [2, 1, 1, 1])]
    graph = helper.make_graph([node], "g", *ends, consts)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    with pytest.raises(AotError, match=f"{name.lower()} without its alpha and beta"):
        aot.compile(model, tmp_path, name="n")
