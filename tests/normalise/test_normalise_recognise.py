# SPDX-License-Identifier: Apache-2.0
"""Normalisation recognises activations and norms spelt as several nodes."""

from __future__ import annotations

import numpy as np
import pytest

from normalise_graphs import f32, gelu, model_of, node, only, run


@pytest.mark.parametrize("form", ["erf_last_half", "erf_first_half", "tanh"])
def test_gelu_is_recognised(form):
    nodes, constants = gelu(form)
    counts, result = run(model_of(nodes, {"x": (3, 5)}, ["y"], constants))
    assert counts == {"Gelu": 1}
    wanted = "tanh" if form == "tanh" else "none"
    assert only(result, "Gelu").attributes["approximate"].value == wanted


def test_gelu_with_negated_factors_is_recognised():
    """-(x * -0.5) * (1 + erf(x / sqrt 2)), the whole negated twice."""
    nodes = [
        node("Div", ["x", "root"], ["a"]),
        node("Erf", ["a"], ["b"]),
        node("Sub", ["b", "minus"], ["c"]),
        node("Mul", ["x", "half"], ["d"]),
        node("Mul", ["d", "c"], ["e"]),
        node("Neg", ["e"], ["y"]),
    ]
    values = {"root": np.sqrt(2), "minus": -1, "half": -0.5}
    constants = {k: np.float32(v) for k, v in values.items()}
    counts, _ = run(model_of(nodes, {"x": (3, 5)}, ["y"], constants))
    assert counts == {"Gelu": 1}


def test_something_close_to_gelu_is_not():
    nodes, constants = gelu("erf_last_half")
    constants["root"] = np.float32(1.5)
    counts, _ = run(model_of(nodes, {"x": (3, 5)}, ["y"], constants))
    assert "Gelu" not in counts


@pytest.mark.parametrize("form", ["clip_mul_div", "clip_div_mul", "hard_sigmoid"])
def test_hard_swish_is_recognised(form):
    constants = {k: np.float32(v) for k, v in (("three", 3), ("zero", 0), ("six", 6))}
    head = [
        node("Add", ["x", "three"], ["a"]),
        node("Clip", ["a", "zero", "six"], ["b"]),
    ]
    if form == "clip_mul_div":
        nodes = [*head, node("Mul", ["x", "b"], ["c"]), node("Div", ["c", "six"], ["y"])]
    elif form == "clip_div_mul":
        nodes = [*head, node("Div", ["b", "six"], ["c"]), node("Mul", ["c", "x"], ["y"])]
    else:
        nodes = [
            node("HardSigmoid", ["x"], ["c"], alpha=1 / 6, beta=0.5),
            node("Mul", ["c", "x"], ["y"]),
        ]
    counts, _ = run(model_of(nodes, {"x": (3, 5)}, ["y"], constants))
    assert counts == {"HardSwish": 1}


def test_hard_sigmoid_swish_and_mish_are_recognised():
    constants = {k: np.float32(v) for k, v in (("three", 3), ("zero", 0), ("six", 6), ("k", 1.7))}
    nodes = [
        node("Add", ["x", "three"], ["a"]),
        node("Clip", ["a", "zero", "six"], ["b"]),
        node("Div", ["b", "six"], ["y1"]),
        node("Sigmoid", ["z"], ["c"]),
        node("Mul", ["z", "c"], ["y2"]),
        node("Softplus", ["u"], ["d"]),
        node("Tanh", ["d"], ["e"]),
        node("Mul", ["u", "e"], ["y3"]),
        node("Mul", ["v", "k"], ["f"]),
        node("Sigmoid", ["f"], ["g"]),
        node("Mul", ["v", "g"], ["y4"]),
    ]
    shapes = {name: (3, 5) for name in "xzuv"}
    counts, _ = run(model_of(nodes, shapes, ["y1", "y2", "y3", "y4"], constants))
    assert counts == {"HardSigmoid": 1, "Swish": 2, "Mish": 1}


@pytest.mark.parametrize("affine", ["both", "scale", "none"])
@pytest.mark.parametrize("square", ["Mul", "Pow"])
def test_layer_normalisation_is_recognised(affine, square):
    last = {"axes": np.array([-1], np.int64), "eps": np.float32(1e-5), "two": np.float32(2)}
    constants = {**last, "g": f32(6), "b": f32(6)}
    nodes = [
        node("ReduceMean", ["x", "axes"], ["m"]),
        node("Sub", ["x", "m"], ["d"]),
        node(square, ["d", "d" if square == "Mul" else "two"], ["q"]),
        node("ReduceMean", ["q", "axes"], ["v"]),
        node("Add", ["v", "eps"], ["w"]),
        node("Sqrt", ["w"], ["s"]),
        node("Div", ["d", "s"], ["n"]),
    ]
    if affine == "none":
        nodes.append(node("Relu", ["n"], ["y"]))
    elif affine == "scale":
        nodes += [node("Mul", ["n", "g"], ["o"]), node("Relu", ["o"], ["y"])]
    else:
        nodes += [node("Mul", ["n", "g"], ["o"]), node("Add", ["b", "o"], ["y"])]
    counts, _ = run(model_of(nodes, {"x": (2, 4, 6)}, ["y"], constants))
    assert counts["LayerNormalization"] == 1 and sum(counts.values()) <= 2


def test_rms_normalisation_and_softmax_are_recognised():
    constants = {"axes": np.array([-1], np.int64), "eps": np.float32(1e-6), "g": f32(6)}
    nodes = [
        node("Mul", ["x", "x"], ["q"]),
        node("ReduceMean", ["q", "axes"], ["v"]),
        node("Add", ["v", "eps"], ["w"]),
        node("Sqrt", ["w"], ["s"]),
        node("Reciprocal", ["s"], ["r"]),
        node("Mul", ["x", "r"], ["n"]),
        node("Mul", ["g", "n"], ["y"]),
        node("ReduceMax", ["z", "axes"], ["p"]),
        node("Sub", ["z", "p"], ["e0"]),
        node("Exp", ["e0"], ["e"]),
        node("ReduceSum", ["e", "axes"], ["t"]),
        node("Div", ["e", "t"], ["y2"]),
    ]
    counts, _ = run(model_of(nodes, {"x": (2, 6), "z": (3, 4)}, ["y", "y2"], constants))
    assert counts == {"RMSNormalization": 1, "Softmax": 1}
