# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators, with broadcasting, of every element type."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from fuzz.agreed import is_float
from fuzz.draft import Draft, Reject
from fuzz.families import family

UNARY = (
    "Relu Sigmoid Tanh LeakyRelu HardSwish Neg Abs Exp Floor Ceil Elu Softplus HardSigmoid Erf "
    "Sqrt Reciprocal Round Sign Selu Mish Softsign Gelu Celu Sin Cos Identity ThresholdedRelu Log "
    "Tan Sinh Cosh Asin Acos Atan Asinh Acosh Atanh Shrink Swish"
)
#: Where a function is defined.
DOMAIN = {
    "Sqrt": (0.01, 4.0),
    "Log": (0.05, 4.0),
    "Asin": (-0.95, 0.95),
    "Acos": (-0.95, 0.95),
    "Atanh": (-0.9, 0.9),
    "Acosh": (1.1, 5.0),
    "Reciprocal": (0.2, 3.0),
    "Tan": (-1.2, 1.2),
}
INT_UNARY = {
    "Abs": "int8 int16 int32 int64 uint8 uint16 uint32 uint64",
    "Neg": "int8 int16 int32 int64",
    "Sign": "int8 int16 int32 int64 uint8 uint16 uint32 uint64",
    "Relu": "int8 int16 int32 int64",
    "BitwiseNot": "int8 int16 int32 int64 uint8 uint16 uint32 uint64",
    "Identity": "int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool",
}
INTS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64"


@family(5)
def unary(d: Draft) -> None:
    op = d.word(UNARY)
    if op == "Swish" and d.opset < 24:
        raise Reject
    x = d.floats()
    if op in DOMAIN and not d.wild and d.chance(0.8):
        low, high = DOMAIN[op]
        bounded = np.asarray(d.rng.uniform(low, high, d.shape(x))).astype(d.dtype)
        x = d.feed(bounded)
    d.add(op, [x], **unary_attributes(d, op))


def unary_attributes(d: Draft, op: str) -> dict[str, object]:
    """Attributes of an activation, sometimes."""
    if op == "Gelu":
        return {"approximate": d.one("none", "tanh")}
    if op == "Shrink":
        return {"lambd": d.one(0.5, 0.2), "bias": d.one(0.0, 0.1)}
    if d.chance(0.5):
        return {}
    if op in ("LeakyRelu", "Elu", "Celu", "ThresholdedRelu", "Swish"):
        return {"alpha": d.one(0.01, 0.3, 1.0, 2.0)}
    if op == "Selu":
        return {"alpha": 1.5, "gamma": 1.1}
    return {"alpha": 0.3, "beta": 0.4} if op == "HardSigmoid" else {}


def is_int(a: np.ndarray) -> bool:
    return a.dtype.kind in "iu" and a.dtype.name in INTS.split()


@family(1)
def int_unary(d: Draft) -> None:
    op = d.one(*INT_UNARY)
    kinds = INT_UNARY[op].split()
    x = d.pick(lambda a: a.dtype.name in kinds)
    d.add(op, [x])


@family(4)
def binary(d: Draft) -> None:
    x = d.floats(empty=True)
    p = [x, d.like(x)]
    d.rng.shuffle(p)
    d.add(d.word("Add Add Add Mul Mul Sub Max Min Div"), p)


@family(3)
def broadcast(d: Draft) -> None:
    x = d.floats(empty=True)
    shape = [s if d.chance(0.6) else 1 for s in d.shape(x)]
    shape = shape[d.upto(0, len(shape)) :]
    y = d.operand(shape)
    if d.chance(0.3):
        d.add(d.word("Add Mul Sub Div Max Min"), [y, x])
    else:
        d.add(d.word("Add Mul Sub Div Max Min PRelu"), [x, y])


@family(0.7)
def power(d: Draft) -> None:
    x = d.floats()
    if d.chance(0.5):
        d.add("Pow", [x, d.const(np.array(d.one(2, 3, 1, 0, 4)).astype(d.dtype))])
        return
    base = d.feed(np.asarray(d.rng.uniform(0.3, 2.0, d.shape(x))).astype(d.dtype))
    shape = [s if d.chance(0.5) else 1 for s in d.shape(x)]
    d.add("Pow", [base, d.operand(shape)])


@family(0.6)
def int_power(d: Draft) -> None:
    x = d.pick(lambda a: a.dtype.name in ("int32", "int64") and np.abs(a).max(initial=0) < 50)
    d.add("Pow", [x, d.const(d.values[x].dtype.type(d.one(2, 3, 1)))])


@family(1)
def several(d: Draft) -> None:
    x = d.floats()
    others = [d.like(x) for _ in range(d.upto(0, 3))]
    d.add(d.word("Sum Max Min Mean"), [x, *others])


@family(2)
def int_binary(d: Draft) -> None:
    x = d.pick(lambda a: is_int(a) and not wide(a))
    a = d.values[x]
    op = d.word("Add Mul Sub Max Min Div Mod BitwiseAnd BitwiseOr BitwiseXor BitShift")
    if op in ("Div", "Mod", "BitShift"):
        low = 1
        drawn = d.rng.integers(low, 6, [s if d.chance(0.6) else 1 for s in a.shape])
        y = d.const(np.asarray(drawn).astype(a.dtype))
        if op == "BitShift" and a.dtype.kind != "u":
            raise Reject
        attrs = {"direction": d.one("LEFT", "RIGHT")} if op == "BitShift" else {}
        d.add(op, [x, y], **attrs)
        return
    y = d.like(x) if d.chance(0.5) else d.operand(a.shape[d.upto(0, a.ndim) :], a.dtype)
    d.add(op, [x, y] if d.chance(0.7) else [y, x])


def wide(a: np.ndarray) -> bool:
    """Whether the elements are so large that sums and products may overflow (not defined)."""
    top = np.abs(a.astype(np.float64)).max(initial=0.0)
    return bool(top > min(1e6, np.iinfo(a.dtype).max / 16 if a.dtype.itemsize > 1 else 12))


@family(0.6)
def modulo(d: Draft) -> None:
    x = d.floats()
    y = np.abs(d.array(d.shape(x)[-1:])).astype(np.float64) + 0.3
    d.add("Mod", [x, d.const(y.astype(d.dtype))], fmod=1)


@family(2)
def compare(d: Draft) -> None:
    x = d.pick(lambda a: is_float(a) or is_int(a) or a.dtype == np.bool_)
    a = d.values[x]
    op = d.word("Greater Less GreaterOrEqual LessOrEqual Equal")
    if a.dtype == np.bool_:
        op = "Equal"
    y = d.like(x) if d.chance(0.5) else d.operand(a.shape[d.upto(0, a.ndim) :], a.dtype)
    c = d.add(op, [x, y])[0]
    if d.chance(0.3):
        c = d.add("Not", [c])[0]
    if d.chance(0.4):
        other = d.const(np.zeros((), a.dtype)) if d.chance(0.5) else d.like(x)
        pair = [d.like(x), other]
        d.add("Where", [c, *(pair if d.chance(0.5) else pair[::-1])])


@family(0.7)
def logic(d: Draft) -> None:
    x = d.pick(lambda a: a.dtype == np.bool_)
    op = d.word("And Or Xor Not Equal")
    d.add(op, [x] if op == "Not" else [x, d.like(x)])


@family(0.5)
def special_values(d: Draft) -> None:
    x = d.floats()
    if d.chance(0.5):
        d.add("IsNaN", [x])
    else:
        d.add("IsInf", [x], detect_negative=d.upto(0, 1), detect_positive=d.upto(0, 1))


@family(1.5)
def clip(d: Draft) -> None:
    x = d.pick(lambda a: is_float(a) or is_int(a))
    kind = d.values[x].dtype
    low, high = d.one((0, 6), (1, 4), (2, 2), (5, 6))
    if kind.kind != "u":
        low, high = d.one((0, 6), (-1, 1), (-2, -1), (1, 3), (low, high))
    inputs = [x, d.const(np.array(low).astype(kind)), d.const(np.array(high).astype(kind))]
    if d.chance(0.2):
        inputs = inputs[:2]
    elif d.chance(0.25):
        inputs[1] = ""
    d.add("Clip", inputs)


KINDS = f"float32 float64 float16 bool {INTS}"


@family(1.5)
def cast(d: Draft) -> None:
    x = d.pick(lambda a: is_float(a) or is_int(a) or a.dtype == np.bool_)
    a = d.values[x]
    to = d.word(KINDS) if d.chance(0.6) else d.float_
    if is_float(a) and to in INTS:
        wide_ = a.astype(np.float64)
        if not np.isfinite(wide_).all() or (to.startswith("u") and (wide_ < 0).any()):
            x = d.add("Abs", [x])[0]
            wide_ = d.values[x].astype(np.float64)
        info = np.iinfo(to)
        if not np.isfinite(wide_).all() or not (wide_ < info.max).all():
            raise Reject
        if not (wide_ > info.min - 0.5).all():
            raise Reject
    d.add("Cast", [x], to=helper.np_dtype_to_tensor_dtype(kind_of(to)))


def kind_of(name: str) -> np.dtype:
    """The NumPy type of a name, those of ml_dtypes too."""
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))


@family(1)
def repeated(d: Draft) -> None:
    """A sum or product that repeats what it takes: the other operand is the larger one."""
    x = d.floats()
    shape = d.shape(x)
    grown = [d.upto(2, 3) if n == 1 and d.chance(0.7) else n for n in shape]
    if len(shape) < 5 and (tuple(grown) == shape or d.chance(0.2)):
        grown = [2, *grown]
    ends = [x, d.operand(grown, constant=0.4)]
    d.add(d.word("Add Add Mul Mul Sub Div Max Min"), ends if d.chance(0.5) else ends[::-1])


@family(0.5)
def cast_narrow(d: Draft) -> None:
    """Float8, float4 and packed integers, there and back (they are no type of an operator)."""
    x = d.pick(lambda a: a.dtype == np.float32 and a.ndim > 0)
    names = "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz"
    names += " int4 uint4" if d.opset >= 21 else ""
    names += " float4_e2m1fn" if d.opset >= 23 else ""
    names += " int2 uint2" if d.opset >= 25 else ""
    to = d.word(names)
    attrs = {"saturate": d.upto(0, 1)} if to.startswith("float8") else {}
    if "int" in to:
        bits = int(to[-1])
        unsigned = to.startswith("u")
        low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        drawn = d.rng.integers(low, high + 1, d.shape(x)).astype(np.float32)
        x = d.feed(drawn)
    y = d.add("Cast", [x], to=helper.np_dtype_to_tensor_dtype(kind_of(to)), **attrs)[0]
    d.add("Cast", [y], to=TensorProto.FLOAT)


@family(0.3)
def cast_like(d: Draft) -> None:
    x, y = d.floats(), d.pick(lambda a: is_float(a))
    d.add("CastLike", [x, y])


@family(0.3)
def bit_cast(d: Draft) -> None:
    if d.opset < 26:
        raise Reject
    x = d.pick(lambda a: a.dtype.name in ("float32", "int32", "int8", "uint8", "int64"))
    same = {"float32": "int32 uint32", "int32": "float32 uint32", "int64": "uint64"}
    to = d.word(same.get(d.values[x].dtype.name, "int8 uint8"))
    if to == "float32" and d.values[x].dtype.kind == "i":
        raise Reject
    d.add("BitCast", [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))
