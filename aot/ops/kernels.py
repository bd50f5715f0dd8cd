# SPDX-License-Identifier: Apache-2.0
"""Which kernel header computes an elementwise function for an element type."""

from __future__ import annotations

from aot.errors import UnsupportedError
from aot.ir.dtypes import BF16, BOOL, F16, F32, F64, S8, S16, S32, S64, U8, U16, U32, U64, DType

FLOATS: tuple[DType, ...] = (F32, F64)
SIGNED: tuple[DType, ...] = (S8, S16, S32, S64)
UNSIGNED: tuple[DType, ...] = (U8, U16, U32, U64)
INTS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTS

SCALAR = "aot_scalar.h"
RARE = "aot_rare_f32.h"
#: Functions of aot_rare_f32.h.
RARE_NAMES = frozenset(
    {"sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"}
    | {"pow", "mod", "fmod"}
)
#: Functions that aot_scalar.h has for every type, floats included.
EVERYWHERE = frozenset(
    {"equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isinf"}
)
#: float64 kernels made of exactly rounded operations only.
EXACT_F64 = frozenset(
    {"abs", "neg", "reciprocal", "square", "cube", "sqrt", "rsqrt", "floor", "ceil", "round"}
    | {"sign", "relu", "leaky_relu", "clip", "hard_sigmoid", "hard_swish", "shrink", "affine"}
    | {"thresholded_relu", "softsign", "add", "sub", "mul", "div", "min", "max", "prelu"}
    | {"pow_half", "mod", "fmod"}
)


#: Functions of aot_half.h of two operands and of one, by the numbers it has for them.
PAIRS = ("add", "sub", "mul", "div")
SINGLES = (
    *("abs", "neg", "relu", "clip", "leaky_relu", "hard_sigmoid", "hard_swish", "sigmoid", "tanh"),
    *("exp", "sqrt", "erf", "gelu", "gelu_tanh"),
)


def kernel_of(name: str, dtype: DType, names: tuple[str, ...]) -> tuple[str, dict[str, int]]:
    """The kernel that computes `name`, of PAIRS or SINGLES (`names`) for half precision, and its
    instance constants.
    """
    if dtype not in (F16, BF16):
        return f"aot_{name}_{dtype.short}", {}
    number = {"OP": names.index(name), "BF16": int(dtype is BF16)}
    return "aot_binary_half" if names is PAIRS else "aot_unary_half", number


def header_of(name: str, dtype: DType, vector: str, accuracy: str) -> str:
    """The header of `aot_<name>_<dtype>`; `vector` is the float32 one.

    Raises UnsupportedError for a float64 function that strict accuracy rules out.
    """
    if name in EVERYWHERE or dtype in INTS or dtype is BOOL:
        return SCALAR
    if dtype in (F16, BF16):
        return "aot_half.h"
    if dtype is F32:
        return RARE if name in RARE_NAMES else vector
    if accuracy == "strict" and name not in EXACT_F64:
        raise UnsupportedError(
            f"float64 {name} needs the C library, whose last bits differ between systems",
            hint="use --accuracy normal, or float32",
        )
    return "aot_math_f64.h"


def listing(types: tuple[DType, ...]) -> str:
    """The names of the types in words, `float32 or int8`, for the reason of a refusal."""
    return " or ".join(map(str, types))
