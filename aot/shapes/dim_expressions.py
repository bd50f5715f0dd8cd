# SPDX-License-Identifier: Apache-2.0
"""Dimensions that are written as expressions of others: `past + 1`, `2*N`, `ceil(T/160)`.

Exporters write them in dim_param: + - * / //, Max, Min, floor, ceil and whole numbers. A text is a
name of its own unless it is such an expression; a minus without blanks is part of a name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import TypeVar

#: Characters beyond which a text is a name.
LONGEST = 256
OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
#: Functions as sympy, torch and people write them, in small letters, and their least operands.
FUNCTIONS = {
    "floor": ("floor", 1),
    "floortoint": ("floor", 1),
    "ceil": ("ceil", 1),
    "ceiling": ("ceil", 1),
    "ceiltoint": ("ceil", 1),
    "max": ("largest", 2),
    "min": ("smallest", 2),
}
_GLUED = re.compile(r"[^\s(,][-+]\S")

T = TypeVar("T")


class Unsettled(Exception):
    """An expression has no value: the text says why."""


#: What an expression is computed with: `number` of a Fraction, and the words of OPERATORS and
#: FUNCTIONS.
Numbers = Mapping[str, Callable[..., T]]


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression; `names` are the dimensions in it, in order."""

    tree: ast.expr
    names: tuple[str, ...]

    def computed(self, names: Mapping[str, T], numbers: Numbers[T]) -> T:
        """The value for those of the names. Raises Unsettled."""
        return _computed(self.tree, names, numbers)

    def limits(self, sizes: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        """The least and the most of the value where every name is between two sizes.

        Raises Unsettled where it may be negative or no whole number.
        """
        given = {n: (Fraction(low), Fraction(high)) for n, (low, high) in sizes.items()}
        low, high = self.computed(given, _LIMITS)
        if low == high and low.denominator > 1:
            raise Unsettled(f"is {low}, no whole number")
        if low < 0:
            raise Unsettled(f"is {ceil(low)}, a negative size")
        return ceil(low), floor(high)

    def with_numbers(self, sizes: Mapping[str, int]) -> str:
        """The text with numbers in the place of names."""
        text = ast.unparse(self.tree)
        tree = _Numbers(sizes).visit(ast.parse(text, mode="eval"))
        return ast.unparse(tree)


class _Numbers(ast.NodeTransformer):
    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A number where the name has one."""
        return ast.Constant(self.sizes[node.id]) if node.id in self.sizes else node


def parsed(text: str) -> Expression | None:
    """The expression in `text`; None where it is a name, a number, or no expression."""
    if len(text) > LONGEST or _GLUED.search(text) or text.isidentifier():
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if isinstance(tree, ast.UnaryOp):  # no size is below zero: `-n` is a name
        return None
    names: dict[str, None] = {}
    return Expression(tree, tuple(names)) if _fits(tree, names) and names else None


def _fits(tree: ast.expr, names: dict[str, None]) -> bool:
    """Whether the tree has nothing but OPERATORS, FUNCTIONS, integers and names, which are
    noted.
    """
    if isinstance(tree, ast.Name):
        names[tree.id] = None
        return True
    if isinstance(tree, ast.Constant):
        # `True` is an int to Python, and no size.
        return type(tree.value) is int
    if isinstance(tree, ast.UnaryOp):
        return isinstance(tree.op, ast.USub) and _fits(tree.operand, names)
    if isinstance(tree, ast.BinOp):
        known = type(tree.op) in OPERATORS or isinstance(tree.op, ast.FloorDiv)
        return known and _fits(tree.left, names) and _fits(tree.right, names)
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.keywords:
        return False
    # An expression comes from a file: only names and numbers of this list are computed.
    _, least = FUNCTIONS.get(tree.func.id.lower(), ("", 0))
    count = len(tree.args)
    fits = count == least if least == 1 else least == 2 and count >= 2
    return fits and all(_fits(a, names) for a in tree.args)


def _computed(tree: ast.expr, names: Mapping[str, T], by: Numbers[T]) -> T:
    """The number that the tree gives for numbers of its names, computed with the functions `by`."""
    # One walk serves all kinds of numbers, since `by` has the arithmetic of each.
    if isinstance(tree, ast.Name):
        return names[tree.id]
    if isinstance(tree, ast.Constant):
        return by["number"](Fraction(int(str(tree.value))))
    if isinstance(tree, ast.UnaryOp):
        return by["sub"](by["number"](Fraction(0)), _computed(tree.operand, names, by))
    if isinstance(tree, ast.BinOp):
        left, right = (_computed(side, names, by) for side in (tree.left, tree.right))
        if isinstance(tree.op, ast.FloorDiv):
            return by["floor"](by["div"](left, right))
        return by[OPERATORS[type(tree.op)]](left, right)
    assert isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
    first, *rest = (_computed(a, names, by) for a in tree.args)
    name, _ = FUNCTIONS[tree.func.id.lower()]
    if not rest:
        return by[name](first)
    for value in rest:
        first = by[name](first, value)
    return first


Limits = tuple[Fraction, Fraction]


def _product(left: Limits, right: Limits) -> Limits:
    """The limits of a product of numbers within two limits."""
    ends = [one * other for one in left for other in right]
    return min(ends), max(ends)


def _quotient(left: Limits, right: Limits) -> Limits:
    """The limits of a quotient; Unsettled if the divisor may be 0."""
    if right[0] <= 0 <= right[1]:
        raise Unsettled("divides by 0")
    return _product(left, (1 / right[1], 1 / right[0]))


_LIMITS: Numbers[Limits] = {
    "number": lambda value: (value, value),
    "add": lambda left, right: (left[0] + right[0], left[1] + right[1]),
    "sub": lambda left, right: (left[0] - right[1], left[1] - right[0]),
    "mul": _product,
    "div": _quotient,
    "floor": lambda value: (Fraction(floor(value[0])), Fraction(floor(value[1]))),
    "ceil": lambda value: (Fraction(ceil(value[0])), Fraction(ceil(value[1]))),
    "largest": lambda left, right: (max(left[0], right[0]), max(left[1], right[1])),
    "smallest": lambda left, right: (min(left[0], right[0]), min(left[1], right[1])),
}
