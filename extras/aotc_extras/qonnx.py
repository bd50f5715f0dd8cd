# SPDX-License-Identifier: Apache-2.0
"""Quantisers of any number of bits, as brevitas and QONNX write them, by ONNX's own operators.

Before: y = Quant(x, scale, zero, bits)
After:  y = (Round(Clip(x / scale + zero, least, most)) - zero) * scale
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import array, attribute
from aot.normalise.decompose import FLOAT, Body, decompose
from aot.shapes.types import Type, infer_types, need

#: Domains under which exporters wrote these operators, the newest first.
DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
#: Modes of rounding and the operator that does it; ROUND takes the even one of two neighbours.
_ROUNDING = {"ROUND": "Round", "CEIL": "Ceil", "FLOOR": "Floor"}
#: Integers of more bits are no float32.
_MOST_BITS = 24


def _types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The input's type; scales and zero points broadcast to its shape."""
    dtype, shape = need(types, 0)
    if dtype != FLOAT:
        raise ValueError(f"element type {dtype} (needs float32)")
    for other in types[1:]:
        if other is not None and np.broadcast_shapes(shape, other[1]) != shape:
            raise ValueError(f"shape {list(other[1])} does not broadcast to {list(shape)}")
    return [(dtype, shape)]


def _bits(b: Body, index: int) -> int:
    """A number of bits; 0 if it is no constant of 1 to _MOST_BITS."""
    data = array(b.node.inputs[index])
    value = -1.0 if data is None or data.size != 1 else float(data.reshape(-1)[0])
    if value != int(value) or not 1 <= value <= _MOST_BITS:
        return 0
    return int(value)


def _rounded(b: Body, x: str, mode: str) -> str:
    """`x` rounded by `mode`; "" for one that is not known."""
    if mode == "ROUND_TO_ZERO":
        return b.add("Mul", b.add("Sign", x), b.add("Floor", b.add("Abs", x)))
    return b.add(_ROUNDING[mode], x) if mode in _ROUNDING else ""


def _scaled(b: Body) -> str:
    """x / scale + zero, in units of the scale."""
    return b.add("Add", b.add("Div", "i0", "i1"), "i2")


def _unscaled(b: Body, quantised: str) -> bool:
    """Make the result (quantised - zero) * scale of the node; always True: nothing is refused."""
    b.add("Mul", b.add("Sub", quantised, "i2"), "i1", out="o0")
    return True


def _quant(b: Body) -> bool:
    """Quant: the value of the nearest code of `bits` bits."""
    bits = _bits(b, 3)
    mode = str(attribute(b.node, "rounding_mode", "ROUND")).upper()
    if not bits:
        return b.refuse(f"a number of bits that is no constant of 1 to {_MOST_BITS}")
    signed, narrow = (int(attribute(b.node, n, d)) for n, d in (("signed", 1), ("narrow", 0)))
    least = -(1 << (bits - 1)) + narrow if signed else 0
    most = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1 - narrow
    ends = (b.constant(FLOAT, (), [float(v)]) for v in (least, most))
    quantised = _rounded(b, b.add("Clip", _scaled(b), *ends), mode)
    return _unscaled(b, quantised) if quantised else b.refuse(f"rounding_mode {mode}")


def _bipolar(b: Body) -> bool:
    """BipolarQuant: the scale, with the sign of the input; 0 counts as positive."""
    zero = b.constant(FLOAT, (), [0.0])
    b.add("Where", b.add("Less", "i0", zero), b.add("Neg", "i1"), "i1", out="o0")
    return True


def _trunc(b: Body) -> bool:
    """Trunc: the code without its lowest bits, in the units of what is left."""
    before, after = _bits(b, 3), _bits(b, 4)
    mode = str(attribute(b.node, "rounding_mode", "FLOOR")).upper()
    if not before or not after or after > before:
        return b.refuse("numbers of bits that are no constants, or more after than before")
    left = b.add(
        "Mul", b.add("Round", _scaled(b)), b.constant(FLOAT, (), [2.0 ** (after - before)])
    )
    quantised = _rounded(b, left, mode)
    return _unscaled(b, quantised) if quantised else b.refuse(f"rounding_mode {mode}")


for _domain in DOMAINS:
    infer_types("Quant BipolarQuant Trunc", _domain)(_types)
    for _name, _rule in (("Quant", _quant), ("BipolarQuant", _bipolar), ("Trunc", _trunc)):
        decompose(_name, _domain)(_rule)
