# SPDX-License-Identifier: Apache-2.0
"""What a source asks of the compiler it is given to.

A bundle is also compiled by hand, with flags of the user's own. Of what changes results without a
word the compiler sees most: it is asked here, in every source that computes.
"""

from __future__ import annotations

from aot.emit_c import ctext
from aot.target import Target

#: Options that take from floats what kernels rely on: NaN, infinities, sums that round in order.
_LOOSE = """\
defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) ||
    defined(_M_FP_FAST) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)"""
#: Results wider than their type are rounded twice.
_WIDER = """\
defined(__FLT_EVAL_METHOD__) &&
    (__FLT_EVAL_METHOD__ < 0 || __FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2)"""


def demands(name: str, target: Target) -> list[str]:
    """Stops a compiler whose layouts, byte order or floats are others than the constants'."""
    return [
        *_instructions(name, target),
        *_width(name, target),
        *_byte_order(name, target),
        *_floats(name),
        "",
    ]


def refuse(condition: str, what: str) -> list[str]:
    """`#error` under a condition of the preprocessor."""
    return [*ctext.continued(f"#if {condition}".splitlines()), *_error(what), "#endif"]


def _error(what: str) -> list[str]:
    """`#error "what"`, in pieces where it is long."""
    text = ctext.string(ctext.plain(what))
    if len("#error ") + len(text) <= ctext.COLUMNS:
        return [f"#error {text}"]
    first, *rest = ctext.literals(ctext.plain(what)).splitlines()
    return ctext.continued([f"#error {first}", *rest])


def _instructions(name: str, target: Target) -> list[str]:
    """Preprocessor lines that refuse a compiler whose flags lack the vector unit of `target`; []
    elsewhere.
    """
    tests = []
    if target.arch == "x86_64":
        tests.append("!defined(__x86_64__)")
        if target.vlen >= 16:
            tests.append("!defined(__AVX512F__)")
        elif target.vlen == 8:
            tests.append("!defined(__AVX2__) || !defined(__FMA__)")
    elif target.arch == "riscv64" and target.vlen > 1:
        tests.append("!defined(__riscv_vector)")
    if not tests:
        return []
    flags = " ".join(target.cflags)
    text = f"{name} was generated for {target.cpu}: compile it with {flags}".strip()
    return refuse(" || ".join(tests), text)


def _width(name: str, target: Target) -> list[str]:
    """The lanes that constants and scratch are laid out for, unless a flag says others."""
    own = f"{name} was generated for AOT_VLEN {target.vlen}"
    text = f"{own}: compile it with -DAOT_VLEN={target.vlen} or without that option"
    return [
        "#ifndef AOT_VLEN",
        f"#define AOT_VLEN {target.vlen} /* floats of a vector: constants are laid out for it */",
        f"#elif AOT_VLEN != {target.vlen}",
        *_error(text),
        "#endif",
    ]


def _byte_order(name: str, target: Target) -> list[str]:
    """Preprocessor lines that refuse a compiler of another byte order than the constants have."""
    order = f"__ORDER_{target.byte_order.upper()}_ENDIAN__"
    other = f"defined(__BYTE_ORDER__) && __BYTE_ORDER__ != {order}"
    text = f"the constants of {name} are {target.byte_order}-endian: generate it for this target"
    return refuse(other, text)


def _floats(name: str) -> list[str]:
    """Preprocessor lines that refuse flags under which floats are not those of IEEE 754."""
    loose = f"{name} needs the floats of IEEE 754: compile it without -ffast-math and its parts"
    wider = f"{name} needs floats that are rounded to their type: compile it without -mfpmath=387"
    return [*refuse(_LOOSE, loose), *refuse(_WIDER, wider)]
