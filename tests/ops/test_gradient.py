# SPDX-License-Identifier: Apache-2.0
"""Gradient of ai.onnx.preview.training: against differences of what onnx.reference computes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from aot.errors import AotError
from aot.load import load
from aotc_extras.gradient import RULES

HEAD = '<ir_version: 8, opset_import: ["": 18, "ai.onnx.preview.training": 1]>'
GRADIENT = "ai.onnx.preview.training.Gradient"

#: name -> (xs with shapes, nodes that make y). Together they use every rule.
FUNCTIONS = {
    "chain": ({"a": (2, 3), "b": (3,)}, "c = Mul(a, b)\n s = Sigmoid(c)\n y = Sub(s, b)"),
    "quotient": ({"a": (2, 3), "b": (2, 1)}, "e = Exp(b)\n d = Div(a, e)\n y = Tanh(d)"),
    "waves": ({"a": (4,)}, "s = Sin(a)\n c = Cos(s)\n n = Neg(c)\n i = Identity(n)\n y = Abs(i)"),
    "powers": (
        {"a": (3,), "b": (1,)},
        "p = Exp(a)\n q = Pow(p, b)\n r = Sqrt(q)\n l = Log(r)\n y = Mul(l, q)",
    ),
    "layer": (
        {"a": (2, 3), "b": (3, 4)},
        "m = MatMul(a, b)\n r = Relu(m)\n t = Transpose<perm=[1, 0]>(r)\n"
        " ax = Constant<value_ints=[1]>()\n s = ReduceSum<keepdims=0>(t, ax)\n y = Mul(s, s)",
    ),
    "shapes": (
        {"a": (2, 3)},
        "f = Flatten<axis=0>(a)\n z = Constant<value_ints=[0]>()\n q = Squeeze(f, z)\n"
        " u = Unsqueeze(q, z)\n to = Constant<value_ints=[3, 2]>()\n v = Reshape(u, to)\n"
        " w = Mul(v, v)\n ax = Constant<value_ints=[0]>()\n m = ReduceMean(w, ax)\n y = Add(m, w)",
    ),
}


def _model(xs: dict[str, tuple[int, ...]], body: str, gradient: bool) -> onnx.ModelProto:
    ins = ", ".join(f"float{list(s)} {n}" for n, s in xs.items())
    outs, last = "float y", ""
    if gradient:
        outs = ", ".join(f"float{list(s)} d{n}" for n, s in xs.items())
        names = ", ".join(f'"{n}"' for n in xs)
        last = (
            f'{", ".join("d" + n for n in xs)} = {GRADIENT}<xs=[{names}], y="y">({", ".join(xs)})'
        )
    text = f"{HEAD}\n g ({ins}) => ({outs}) {{\n {body}\n {last}\n}}"
    model = parser.parse_model(text)
    if not gradient:
        model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def _run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What the graph that the compiler goes on with computes, by the inputs' places."""
    made = ir.to_proto(load(model))
    assert not any(n.domain for n in made.graph.node)
    named = dict(zip((i.name for i in made.graph.input), feeds.values(), strict=True))
    return [np.asarray(a) for a in ReferenceEvaluator(made).run(None, named)]


def _differences(
    xs: dict[str, tuple[int, ...]], body: str, feeds: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """Central differences of the sum of y, in float64."""
    forward = _model(xs, body, gradient=False)
    for info in (*forward.graph.input, *forward.graph.output):
        info.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    run = ReferenceEvaluator(forward).run
    found = []
    for name in xs:
        slope = np.zeros(xs[name])
        for index in np.ndindex(xs[name]):
            sides = []
            for step in (1e-5, -1e-5):
                moved = {k: v.astype(np.float64) for k, v in feeds.items()}
                moved[name][index] += step
                sides.append(np.asarray(run(None, moved)[0]).sum())
            slope[index] = (sides[0] - sides[1]) / 2e-5
        found.append(slope)
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_differences(name: str) -> None:
    xs, body = FUNCTIONS[name]
    rng = np.random.default_rng(3)
    feeds = {k: rng.uniform(0.2, 1.0, s).astype(np.float32) for k, s in xs.items()}
    got = _run(_model(xs, body, gradient=True), feeds)
    for found, want in zip(got, _differences(xs, body, feeds), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4)


def test_every_rule_is_used() -> None:
    bodies = " ".join(body for _, body in FUNCTIONS.values())
    assert {rule for rule in RULES if f"= {rule}" not in bodies} == set()


def test_a_gradient_at_another_place() -> None:
    text = f"""{HEAD}
 g (float[3] a, float[3] b, float[3] p) => (float[3] y, float[3] d) {{
   s = Mul(a, a)
   y = Mul(s, b)
   d = {GRADIENT}<xs=["a"], zs=["b"], y="y">(p, b)
 }}"""
    feeds = {k: np.array(v, np.float32) for k, v in
             {"a": [1, 2, 3], "b": [2, 2, 5], "p": [4, 5, 6]}.items()}  # fmt: skip
    y, d = _run(parser.parse_model(text), feeds)
    np.testing.assert_array_equal(y, [2, 8, 45])
    np.testing.assert_array_equal(d, [16, 20, 60])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f'y = Erf(a)\n d = {GRADIENT}<xs=["a"], y="y">(a)', "Gradient through Erf"),
        (f'y = Neg(a)\n d = {GRADIENT}<xs=["a"], y="zz">(a)', "zz"),
        (f'y = Neg(a)\n d = {GRADIENT}<xs=["a"]>(a)', "attribute 'y' is missing"),
    ],
)
def test_what_has_no_gradient_is_named(body: str, said: str) -> None:
    text = f"{HEAD}\n g (float[3] a) => (float[3] d) {{\n {body}\n }}"
    with pytest.raises(AotError, match=said):
        load(parser.parse_model(text))
