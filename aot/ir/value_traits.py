# SPDX-License-Identifier: Apache-2.0
"""Traits that say how the values of a result follow from the values of operands.

They are promises as those of `aot.ir.operators`, and `tests/ops/traits.py` proves them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Curve:
    """A few pieces of quadratic functions describe the result as a function of one element.

    The function has neither jump nor pole, and far from zero it only rises or only falls, so that
    it is straight, settles, or leaves every range of quantised values. Other operands are single
    constants.
    """


@dataclass(frozen=True, slots=True)
class Clamp:
    """The result is the first operand, limited to `low` and `high`.

    A bound is a number or the operand that holds it; without that operand there is no bound.
    """

    low: float | str
    high: float | str


@dataclass(frozen=True, slots=True)
class Compares:
    """The result is integers that follow from the order of the first operand's elements alone.

    No other operand holds elements.
    """


@dataclass(frozen=True, slots=True)
class Converts:
    """The result has the numbers of the first operand in another type."""


@dataclass(frozen=True, slots=True)
class Averages:
    """One result is the mean of all elements along some axes.

    `axes` names the operand or the attribute that holds these axes ("" = all axes behind the
    channels).
    """

    axes: str = ""


@dataclass(frozen=True, slots=True)
class Recurrent:
    """A layer computes step by step; the operands `states` are what the first step starts with.

    Its weights are the operands 1, for the inputs, and 2, for the states. `activations` are the
    usual functions of one direction, in small letters.
    """

    states: str
    activations: str


@dataclass(frozen=True, slots=True)
class Indexes:
    """Elements of `indices` are positions along the axis `axis` of `data`.

    Negative ones count from behind its last position. `axis` is an attribute.
    """

    indices: str
    data: str


@dataclass(frozen=True, slots=True)
class Quantises:
    """The first result holds integers for the numbers of the first operand.

    They are the nearest ones to x / scale + zero that the type has. `scale` and `zero` name the
    operands, or the results, that hold the two.
    """

    scale: str
    zero: str


@dataclass(frozen=True, slots=True)
class Dequantises:
    """The result is (x - zero) * scale of the first operand's integers.

    `scale` and `zero` name the operands that hold the two.
    """

    scale: str
    zero: str


@dataclass(frozen=True, slots=True)
class Scales:
    """The result is something computed of the first operand, times `scale`, plus `shift`.

    The two name operands of one element per channel, or per place along the last axes; `shift` may
    be "", which adds nothing.
    """

    scale: str
    shift: str = ""


ValueTrait = (
    Curve
    | Clamp
    | Compares
    | Converts
    | Averages
    | Recurrent
    | Indexes
    | Quantises
    | Dequantises
    | Scales
)


def named_operands(trait: object) -> set[str]:
    """The operands, results or attributes that a trait of values names."""
    match trait:
        case Clamp(low, high):
            return {bound for bound in (low, high) if isinstance(bound, str)}
        case Averages(axes):
            return {axes} - {""}
        case Recurrent(states):
            return set(states.split())
        case Indexes(indices, data):
            return {indices, data}
        case Quantises(scale, zero) | Dequantises(scale, zero) | Scales(scale, zero):
            return {scale, zero} - {""}
        case _:
            return set()
