# SPDX-License-Identifier: Apache-2.0
"""One step of the optimisers of ai.onnx.preview.training.

Before: x_new, v_new = Momentum(rate, step, x, gradient, v)
After: v_new = alpha * v + beta * gradient; x_new = x - rate * v_new
"""

from __future__ import annotations

from aot.ir.graph_nodes import attribute
from aot.ir.operators import OneOf, operator
from aot.normalise.decompose import INT64, Body, decompose

TRAINING = "ai.onnx.preview.training"


class Step:
    """What optimisers share: inputs R (rate) and T (step), then groups of `count` tensors each."""

    def __init__(self, b: Body, groups: int) -> None:
        """Take the node of b, whose inputs after R and T are `groups` groups of as many tensors
        each.
        """
        self.b, self.kind = b, b.kind(2)
        self.count = (len(b.node.inputs) - 2) // groups

    def number(self, name: str, default: float = 0.0) -> str:
        """An attribute as a constant scalar of the type of the tensors."""
        return self.b.constant(self.kind, (), [float(attribute(self.b.node, name, default))])

    def one_plus(self, x: str) -> str:
        """1 + x."""
        return self.b.add("Add", self.b.constant(self.kind, (), [1.0]), x)

    def group(self, index: int, tensor: int) -> str:
        """The input that is tensor number `tensor` of group `index`."""
        return f"i{2 + index * self.count + tensor}"

    def out(self, index: int, tensor: int) -> str:
        """The output that is tensor number `tensor` of group `index`."""
        return f"o{index * self.count + tensor}"

    def scalar(self, index: int) -> str:
        """R or T in the type of the tensors."""
        flat = self.b.add("Reshape", f"i{index}", self.b.constant(INT64, (0,), []))
        return self.b.add("Cast", flat, to=self.kind)

    def gradient(self, x: str, slope: str) -> str:
        """g with its L2 regularisation."""
        return self.b.add("Add", self.b.add("Mul", self.number("norm_coefficient"), x), slope)


@decompose("Adagrad", TRAINING)
def _adagrad(b: Body) -> bool:
    """For each x, gradient g and sum h: h += g * g, then x -= rate * g / (sqrt(h) + epsilon).

    The rate is R / (1 + T * decay_factor). Always True: no node is refused.
    """
    s = Step(b, 3)
    rate = b.add(
        "Div",
        s.scalar(0),
        s.one_plus(b.add("Mul", s.scalar(1), s.number("decay_factor"))),
    )
    for k in range(s.count):
        x = s.group(0, k)
        g = s.gradient(x, s.group(1, k))
        h = b.add("Add", s.group(2, k), b.add("Mul", g, g), out=s.out(1, k))
        size = b.add("Add", b.add("Sqrt", h), s.number("epsilon", 1e-6))
        b.add("Sub", x, b.add("Div", b.add("Mul", rate, g), size), out=s.out(0, k))
    return True


operator("Momentum", "rate count x*", domain=TRAINING, mode=OneOf("nesterov standard"))


@decompose("Momentum", TRAINING)
def _momentum(b: Body) -> bool:
    """For each x, gradient g and momentum v: v = alpha * v + beta * g, then x -= R * v.

    In step 0 beta is 1. In the mode "nesterov" x moves by g + alpha * v instead of v. Always True:
    no node is refused.
    """
    s = Step(b, 3)
    nesterov = attribute(b.node, "mode", "standard") == "nesterov"
    alpha = s.number("alpha")
    first = b.add("Equal", "i1", b.constant(INT64, (), [0]))
    flat = b.add("Reshape", first, b.constant(INT64, (0,), []))
    one = b.constant(s.kind, (), [1.0])
    beta = b.add("Where", flat, one, s.number("beta"))
    for k in range(s.count):
        x = s.group(0, k)
        g = s.gradient(x, s.group(1, k))
        moved = [b.add("Mul", alpha, s.group(2, k)), b.add("Mul", beta, g)]
        v = b.add("Add", *moved, out=s.out(1, k))
        by = b.add("Add", g, b.add("Mul", alpha, v)) if nesterov else v
        b.add("Sub", x, b.add("Mul", s.scalar(0), by), out=s.out(0, k))
    return True


@decompose("Adam", TRAINING)
def _adam(b: Body) -> bool:
    """For each x, gradient g and moments v and h: both decay, and x -= rate * v / (sqrt(h) +
    epsilon).

    The rate corrects the start of both moments in steps after step 0. Each x is then multiplied by
    1 - norm_coefficient_post. Always True: no node is refused.
    """
    s = Step(b, 4)
    alpha, beta = s.number("alpha", 0.9), s.number("beta", 0.999)
    one = b.constant(s.kind, (), [1.0])
    t = s.scalar(1)
    later = b.add("Greater", t, b.constant(s.kind, (), [0.0]))
    spread = b.add("Sqrt", b.add("Sub", one, b.add("Pow", beta, t)))
    scaled = b.add(
        "Div", b.add("Mul", s.scalar(0), spread), b.add("Sub", one, b.add("Pow", alpha, t))
    )
    # In step 0 the correction would divide by 1 - alpha^0, which is 0.
    rate = b.add("Where", later, scaled, s.scalar(0))
    after = b.add("Sub", one, s.number("norm_coefficient_post"))
    for k in range(s.count):
        x = s.group(0, k)
        g = s.gradient(x, s.group(1, k))
        kept = [b.add("Mul", alpha, s.group(2, k)), b.add("Mul", b.add("Sub", one, alpha), g)]
        v = b.add("Add", *kept, out=s.out(1, k))
        square = b.add("Mul", b.add("Sub", one, beta), b.add("Mul", g, g))
        h = b.add("Add", b.add("Mul", beta, s.group(3, k)), square, out=s.out(2, k))
        size = b.add("Add", b.add("Sqrt", h), s.number("epsilon"))
        moved = b.add("Sub", x, b.add("Div", b.add("Mul", rate, v), size))
        b.add("Mul", after, moved, out=s.out(0, k))
    return True
