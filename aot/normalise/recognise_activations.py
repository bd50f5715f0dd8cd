# SPDX-License-Identifier: Apache-2.0
"""Activations spelled as products: Gelu, HardSwish, Swish, Mish, HardSigmoid.

Before: e = Erf(Div(x, 1.41421)); y = Mul(Mul(x, Add(e, 1)), 0.5)     After: y = Gelu(x)
Before: y = Div(Mul(x, Clip(Add(x, 3), 0, 6)), 6)                     After: y = HardSwish(x)
Before: y = Mul(x, Sigmoid(x))                                        After: y = Swish(x)
A product is taken apart into factors and one scalar, so the order in which an exporter multiplies
does not matter. Scalars must agree to about float32's precision; where float32 computes what the
model has in half precision, to that of its type, in which exporters write the root of two, too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from math import pi, prod, sqrt
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import HALF_KEY, array, attribute, shape_of
from aot.ir.operators import Interface
from aot.load.options import LoadOptions
from aot.normalise.affine import scales
from aot.normalise.form import Form

#: Exporters write such constants as float32, some with six or seven digits only.
CLOSE = 2e-6
#: The same for numbers that float16 and bfloat16 round, a little more than half a step at most.
HALF_CLOSE = {"FLOAT16": 2.5e-4, "BFLOAT16": 2e-3}
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
    """scale * the product of `factors` (with repetition); `close` is how exact the scale is."""

    scale: float
    factors: tuple[ir.Value, ...]
    close: float = CLOSE


@dataclass(frozen=True, slots=True)
class Found:
    """A recognised function of x."""

    op_type: str
    x: ir.Value
    attributes: tuple[tuple[str, Any], ...] = ()


def products(edit: Editor, options: LoadOptions) -> None:
    """Replace every product that is a known activation; outermost products first."""
    for node in reversed(edit.graph):
        value = node.outputs[0]
        if value.dtype is None or value.dtype.numpy().kind != "f":
            continue
        product = factors(value, outer=True)
        if product.factors == (value,):
            continue
        found = _recognised(product)
        if found is not None and shape_of(found.x) == shape_of(value):
            _substitute(edit, node, found)


def _substitute(edit: Editor, node: ir.Node, found: Found) -> None:
    """Replace `node` by the activation found."""
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
        far = max(inner.close, HALF_CLOSE.get(node.metadata_props.get(HALF_KEY, ""), CLOSE))
        return Product(inner.scale * scaled[1], inner.factors, far)
    rule = multiplies.of(node)
    parts = () if rule is None else rule(node)
    if len(set(parts)) < 2:
        return Product(1.0, parts or (value,))
    opened = [factors(part) for part in parts]
    far = max(o.close for o in opened) if opened else CLOSE
    scale = prod(o.scale for o in opened)
    return Product(scale, tuple(f for o in opened for f in o.factors), far)


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


def near(value: float | None, wanted: float, close: float = CLOSE) -> bool:
    """Whether a constant is `wanted` up to rounding, by default that of float32."""
    return value is not None and abs(value - wanted) <= close * abs(wanted)


def plus(value: ir.Value | None) -> tuple[ir.Value, float] | None:
    """(x, c) if `value` is x + c with a scalar constant c."""
    node = producer(value)
    found = None if node is None else _scaling(node)
    return (found[0], found[2]) if found is not None and found[1] == 1 else None


_TANH = sqrt(2 / pi)
#: Activations by what computes them; other operators are called as in ONNX. The number `alpha` is
#: whatever a model has there.
ACTIVATIONS = (
    f"Gelu(x, approximate='none') == 0.5 * x * (Erf({sqrt(0.5)} * x) + 1)",
    f"Gelu(x, approximate='tanh') == 0.5 * x * (Tanh({_TANH} * (x + 0.044715 * x * x * x)) + 1)",
    f"Gelu(x, approximate='tanh') == 0.5 * x * (Tanh({_TANH} * x * (0.044715 * x * x + 1)) + 1)",
    f"HardSwish(x) == {1 / 6} * x * Clip(x + 3, 0, 6)",
    f"HardSwish(x) == x * HardSigmoid(x, alpha={1 / 6}, beta=0.5)",
    "Swish(x, alpha=alpha) == x * Sigmoid(alpha * x)",
    "Mish(x) == x * Tanh(Softplus(x))",
    f"HardSigmoid(x, alpha={1 / 6}, beta=0.5) == {1 / 6} * Clip(x + 3, 0, 6)",
)
Names = dict[str, Any]
"""The values that have a name, and the numbers that an expression leaves open, by name."""


@cache
def _parsed(text: str) -> Any:
    return ast.parse(text, mode="eval").body


def matched(text: str, value: ir.Value | None, names: Names) -> Names | None:
    """`names`, and those that `text` adds to them, if `text` is what computes `value`.

    Calls are operators of ONNX, keywords numbers that their attributes have, names any value (the
    same one, or an equal constant, wherever the name stands); `+ epsilon` names a number.
    """
    return _matched(_parsed(text), value, names)


def _recognised(product: Product) -> Found | None:
    """The activation that a product is; a clamp that others read too stays a clamp."""
    if len(product.factors) == 1 and single_use(product.factors[0]) is None:
        return None
    for equation in map(_parsed, ACTIVATIONS):
        names = _product(equation.comparators[0], product, {})
        if names is not None:
            made = equation.left
            said = {k.arg: getattr(k.value, "value", None) for k in made.keywords}
            attributes = tuple((name, names.get(name, value)) for name, value in said.items())
            return Found(made.func.id, names["x"], attributes)
    return None


def _matched(text: Any, value: ir.Value | None, names: Names) -> Names | None:
    """`names` and those that `text` adds to them, if the expression `text` is how `value` is
    computed.

    `text` is Python syntax: names are values, calls are operators, numbers are constants. None if
    it does not fit.
    """
    match text:
        case ast.Constant(float() | int() as number):
            return names if near(scalar(value), number) else None
        # A name that comes twice must mean one value.
        case ast.Name(name):
            return {name: value, **names} if _is_same(names.get(name, value), value) else None
        case ast.BinOp(inner, ast.Add(), ast.Name("epsilon")):
            sum_ = plus(value)
            found = None if sum_ is None else _matched(inner, sum_[0], names)
            return None if found is None or sum_ is None else {"epsilon": sum_[1], **found}
        case ast.BinOp(inner, ast.Add(), ast.Constant(float() | int() as number)):
            sum_ = plus(value)
            fits = sum_ is not None and near(sum_[1], number)
            return _matched(inner, sum_[0], names) if sum_ is not None and fits else None
        # ONNX's Add has no order: both are tried.
        case ast.BinOp(left, ast.Add(), right):
            node = producer(value, "Add")
            return None if node is None else _in_some_order((left, right), node.inputs, names)
        case ast.Call(ast.Name(op_type), operands, keywords):
            node = producer(value, op_type)
            if node is None or len(node.inputs) != len(operands) or not _said(node, keywords):
                return None
            return _in_order(operands, node.inputs, names)
    # Products are compared as sets of factors, because exporters group them in every way.
    return None if value is None else _product(text, factors(value), names)


def _is_same(left: ir.Value | None, right: ir.Value | None) -> bool:
    """Whether two values are one, or constants of the same elements."""
    one, other = array(left), array(right)
    return left is right or (one is not None and other is not None and np.array_equal(one, other))


def _said(node: ir.Node, keywords: Sequence[Any]) -> bool:
    """Whether the attributes of a node are the numbers that `keywords` say; defaults count."""
    formal = onnx.defs.get_schema(node.op_type).attributes
    defaults = {
        str(k.arg): onnx.helper.get_attribute_value(formal[str(k.arg)].default_value)
        for k in keywords
    }
    return all(
        near(float(attribute(node, name, defaults[name])), ast.literal_eval(k.value))
        for name, k in zip(defaults, keywords, strict=True)
    )


def _product(text: Any, product: Product, names: Names) -> Names | None:
    """Like `_matched`, for a product; squares of x that others read, too, are opened where they
    must be.
    """
    parts = _parts(text)
    numbers = [float(ast.literal_eval(p)) for p in parts if isinstance(p, ast.Constant)]
    left_open = [p.id for p in parts if isinstance(p, ast.Name) and p.id == "alpha"]
    if not left_open and not near(product.scale, prod(numbers), product.close):
        return None
    names = {**names, **dict.fromkeys(left_open, product.scale)}
    rest = parts[len(numbers) + len(left_open) :]
    values = list(product.factors)
    if len(values) < len(rest):
        opened = [factors(v, outer=v is not names.get("x")) for v in values]
        values = [f for v, o in zip(values, opened, strict=True) for f in _unscaled(v, o)]
    return _in_some_order(rest, values, names)


def _unscaled(value: ir.Value, opened: Product) -> tuple[ir.Value, ...]:
    return opened.factors if opened.scale == 1.0 else (value,)


def _parts(text: Any) -> list[Any]:
    """The factors of an expression, in its order: numbers come first."""
    if isinstance(text, ast.BinOp) and isinstance(text.op, ast.Mult):
        return [*_parts(text.left), *_parts(text.right)]
    return [text]


def _in_some_order(
    texts: Sequence[Any], values: Sequence[ir.Value | None], names: Names
) -> Names | None:
    """The first order of `values` in which each is what `texts` say."""
    orders = permutations(values) if len(texts) == len(values) else ()
    return next(filter(None, (_in_order(texts, order, names) for order in orders)), None)


def _in_order(
    texts: Sequence[Any], values: Sequence[ir.Value | None], names: Names
) -> Names | None:
    """Like `_matched`, for expressions and values in one order."""
    found: Names | None = names
    for text, value in zip(texts, values, strict=True):
        found = None if found is None else _matched(text, value, found)
    return found
