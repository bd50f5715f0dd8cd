# SPDX-License-Identifier: Apache-2.0
"""Activations spelled as products: Gelu, HardSwish, Swish, Mish, HardSigmoid.

Before: e = Erf(Div(x, 1.41421)); y = Mul(Mul(x, Add(e, 1)), 0.5)     After: y = Gelu(x)
Before: y = Div(Mul(x, Clip(Add(x, 3), 0, 6)), 6)                     After: y = HardSwish(x)
Before: y = Mul(x, Sigmoid(x))                                        After: y = Swish(x)
A product is taken apart into factors and one scalar, so the order in which an exporter multiplies
does not matter. Scalars must agree to about float32's precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, prod, sqrt

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import array, attribute, operand, shape_of
from aot.ir.operators import Interface
from aot.load.options import LoadOptions
from aot.normalise.affine import scales
from aot.normalise.form import Form

CLOSE = 2e-6
#: The operands whose product a node is, with repetition; none where it is no product.
multiplies: Interface[Callable[[ir.Node], tuple[ir.Value, ...]]] = Interface("multiplies")

FORMS = (
    Form("Mul(x, Sigmoid(x))", "Swish(x)"),
    Form("Mul(x, Sigmoid(Mul(x, const(c))))", "Swish(x, alpha=c)", "c has several elements"),
    Form(
        "Mul(x, HardSigmoid(x, alpha=0.16666667, beta=0.5))",
        "HardSwish(x)",
        "alpha is not 1/6 or beta is not 0.5",
    ),
    Form("Mul(x, Tanh(Softplus(x)))", "Mish(x)"),
    Form("Div(Mul(x, Clip(Add(x, 3), 0, 6)), 6)", "HardSwish(x)"),
    Form("Mul(x, Div(Clip(Add(x, 3), 0, 6), 6))", "HardSwish(x)"),
    Form("Div(Clip(Add(x, 3), 0, 6), 6)", "HardSigmoid(x, alpha=1/6, beta=0.5)"),
    Form("Mul(Mul(x, Add(Erf(Div(x, 1.4142135)), 1)), 0.5)", "Gelu(x)"),
    Form("Mul(Mul(x, 0.5), Add(Erf(Div(x, 1.4142135)), 1))", "Gelu(x)"),
    Form("Mul(x, Mul(Add(Erf(Div(x, 1.4142135)), 1), 0.5))", "Gelu(x)"),
    Form("Mul(Mul(x, Add(Erf(Mul(x, 0.70710677)), 1)), 0.5)", "Gelu(x)"),
    Form("Mul(Mul(x, 0.5), Add(Erf(Mul(x, 0.70710677)), 1))", "Gelu(x)"),
    Form("Mul(x, Mul(Add(Erf(Mul(x, 0.70710677)), 1), 0.5))", "Gelu(x)"),
)


@dataclass(frozen=True, slots=True)
class Product:
    """scale * the product of `factors` (with repetition)."""

    scale: float
    factors: tuple[ir.Value, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A recognised function of x."""

    op_type: str
    x: ir.Value
    attributes: tuple[tuple[str, float | str], ...] = ()


def products(edit: Editor, options: LoadOptions) -> None:
    """Replace every product that is a known activation; outermost products first."""
    for node in reversed(edit.graph):
        value = node.outputs[0]
        if value.dtype is None or value.dtype.numpy().kind != "f":
            continue
        product = factors(value, outer=True)
        if product.factors == (value,):
            continue
        for recogniser in RECOGNISERS:
            found = recogniser(product)
            if found is not None and shape_of(found.x) == shape_of(value):
                _substitute(edit, node, found)
                break


def _substitute(edit: Editor, node: ir.Node, found: Found) -> None:
    shape = shape_of(found.x)
    new = edit.node(found.op_type, [found.x], dict(found.attributes), before=node, shape=shape)
    edit.substitute(node, new)


def factors(value: ir.Value, outer: bool = False) -> Product:
    """`value` as a product. Inner products are opened only where nobody else reads them."""
    node = producer(value)
    if node is None or (not outer and single_use(value) is None):
        return Product(1.0, (value,))
    scaled = _scaling(node)
    if scaled is not None and scaled[2] == 0:
        inner = factors(scaled[0])
        return Product(inner.scale * scaled[1], inner.factors)
    rule = multiplies.of(node)
    parts = () if rule is None else rule(node)
    if len(set(parts)) < 2:
        return Product(1.0, parts or (value,))
    opened = [factors(part) for part in parts]
    return Product(prod(o.scale for o in opened), tuple(f for o in opened for f in o.factors))


def _scaling(node: ir.Node) -> tuple[ir.Value, float, float] | None:
    """(x, a, b) if the node is x * a + b with scalar constants a and b."""
    rule = scales.of(node)
    for place, x in enumerate(node.inputs[:2] if rule is not None else ()):
        other = 0.0 if len(node.inputs) == 1 else scalar(node.inputs[1 - place])
        found = None if other is None or rule is None else rule(place, np.array([other]))
        if found is not None and x is not None:
            return x, float(found[0].item()), float(found[1].item())
    return None


def scalar(value: ir.Value | None) -> float | None:
    """The one element of a constant, None for anything else."""
    data = array(value)
    return float(data.ravel()[0]) if data is not None and data.size == 1 else None


def near(value: float | None, wanted: float) -> bool:
    """Whether a constant is `wanted` up to float32 rounding."""
    return value is not None and abs(value - wanted) <= CLOSE * abs(wanted)


def plus(value: ir.Value | None) -> tuple[ir.Value, float] | None:
    """(x, c) if `value` is x + c with a scalar constant c."""
    node = producer(value)
    found = None if node is None else _scaling(node)
    return (found[0], found[2]) if found is not None and found[1] == 1 else None


def _others(product: Product, chosen: ir.Value) -> list[ir.Value]:
    rest = list(product.factors)
    rest.remove(chosen)
    return rest


def _is_clip(node: ir.Node, low: float, high: float) -> bool:
    bounds = [scalar(i) for i in node.inputs[1:]]
    return bounds == [low, high]


def _gelu(product: Product) -> Found | None:
    """0.5 x (1 + erf(x / sqrt 2)), or the tanh form."""
    if len(product.factors) != 2 or not near(product.scale, 0.5):
        return None
    for value in product.factors:
        (x,) = _others(product, value)
        sum_ = plus(value)
        if sum_ is None or not near(sum_[1], 1.0):
            continue
        erf, tanh = producer(sum_[0], "Erf"), producer(sum_[0], "Tanh")
        inner = Product(1.0, ()) if erf is None else factors(operand(erf, 0))
        if inner.factors == (x,) and near(inner.scale, sqrt(0.5)):
            return Found("Gelu", x, (("approximate", "none"),))
        if tanh is not None and _is_tanh_argument(factors(operand(tanh, 0)), x):
            return Found("Gelu", x, (("approximate", "tanh"),))
    return None


def _is_tanh_argument(product: Product, x: ir.Value) -> bool:
    """sqrt(2 / pi) (x + 0.044715 x^3), also with x factored out."""
    if not near(product.scale, sqrt(2 / pi)):
        return False
    if len(product.factors) == 1:
        node = producer(product.factors[0], "Add")
        if node is None or x not in node.inputs:
            return False
        cubic = factors(operand(node, 1 if node.inputs[0] is x else 0))
        return near(cubic.scale, 0.044715) and _is_power(cubic, x, 3)
    if len(product.factors) == 2 and x in product.factors:
        (other,) = _others(product, x)
        sum_ = plus(other)
        if sum_ is None or not near(sum_[1], 1.0):
            return False
        square = factors(sum_[0])
        return near(square.scale, 0.044715) and _is_power(square, x, 2)
    return False


def _is_power(product: Product, x: ir.Value, exponent: int) -> bool:
    """Whether the factors are x repeated, also where a square of x is shared."""
    flat: list[ir.Value] = []
    for value in product.factors:
        opened = factors(value, outer=True)
        flat += opened.factors if opened.scale == 1.0 and value is not x else [value]
    return len(flat) == exponent and all(v is x for v in flat)


def _hard_swish(product: Product) -> Found | None:
    """x clip(x + 3, 0, 6) / 6, or x times HardSigmoid(x, 1/6, 1/2)."""
    if len(product.factors) != 2:
        return None
    for value in product.factors:
        (x,) = _others(product, value)
        clip, hard = producer(value, "Clip"), producer(value, "HardSigmoid")
        if clip is not None and near(product.scale, 1 / 6) and _is_clip(clip, 0, 6):
            sum_ = plus(clip.inputs[0])
            if sum_ is not None and sum_[0] is x and sum_[1] == 3:
                return Found("HardSwish", x)
        if hard is not None and hard.inputs[0] is x and product.scale == 1:
            alpha, beta = _hard_sigmoid_terms(hard)
            if near(alpha, 1 / 6) and beta == 0.5:
                return Found("HardSwish", x)
    return None


def _hard_sigmoid_terms(node: ir.Node) -> tuple[float, float]:
    return float(attribute(node, "alpha", 0.2)), float(attribute(node, "beta", 0.5))


def _hard_sigmoid(product: Product) -> Found | None:
    """clip(x + 3, 0, 6) / 6."""
    if len(product.factors) != 1 or not near(product.scale, 1 / 6):
        return None
    clip = producer(product.factors[0], "Clip")
    if clip is None or not _is_clip(clip, 0, 6) or single_use(clip.outputs[0]) is None:
        return None
    sum_ = plus(clip.inputs[0])
    if sum_ is None or sum_[1] != 3:
        return None
    return Found("HardSigmoid", sum_[0], (("alpha", 1 / 6), ("beta", 0.5)))


def _swish(product: Product) -> Found | None:
    """x sigmoid(alpha x)."""
    if len(product.factors) != 2 or product.scale != 1:
        return None
    for value in product.factors:
        (x,) = _others(product, value)
        gate = producer(value, "Sigmoid")
        if gate is None:
            continue
        inner = factors(operand(gate, 0))
        if operand(gate, 0) is x:
            return Found("Swish", x, (("alpha", 1.0),))
        if inner.factors == (x,):
            return Found("Swish", x, (("alpha", inner.scale),))
    return None


def _mish(product: Product) -> Found | None:
    """x tanh(softplus(x))."""
    if len(product.factors) != 2 or product.scale != 1:
        return None
    for value in product.factors:
        (x,) = _others(product, value)
        gate = producer(value, "Tanh")
        inner = None if gate is None else producer(gate.inputs[0], "Softplus")
        if inner is not None and inner.inputs[0] is x:
            return Found("Mish", x)
    return None


Recogniser = Callable[[Product], Found | None]
RECOGNISERS: tuple[Recogniser, ...] = (_gelu, _hard_swish, _swish, _mish, _hard_sigmoid)
