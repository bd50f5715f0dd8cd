# SPDX-License-Identifier: Apache-2.0
"""Which calls share a function of the bundle, and whose function knows their parameters."""

from __future__ import annotations

from collections import Counter

from aot.ir.program import Arg, Call, Program, Scalar, StateArg

#: What calls that share a function have in common.
Signature = tuple[object, ...]


def signature(call: Call) -> Signature:
    """The key by which calls share one C function."""
    kinds = tuple(_kind(a) for a in call.args)
    own = call.kernel, call.header, call.instance, kinds, bool(call.params), call.status
    return (*own, tuple(f.kind for f in call.fetches))


def _kind(arg: Arg | Scalar | StateArg) -> str:
    """The part of the key that an argument is: "state", how a tensor is accessed, "null", or a C
    type.
    """
    if isinstance(arg, StateArg):
        return "state"
    if isinstance(arg, Arg):
        return arg.access.value
    return "null" if is_null(arg) else arg.ctype.strip()


def is_null(arg: Arg | Scalar | StateArg) -> bool:
    """Whether the argument is a null pointer."""
    return isinstance(arg, Scalar) and arg.ctype.replace(" ", "") == "void*"


def specialised(program: Program, specialise: str) -> frozenset[int]:
    """Indices of calls whose function is compiled for their very parameters.

    "none": no call, so a function serves all calls of its signature. "hot": where that costs no
    code, because the signature has one call, or a tenth of the work is done there and the kernel
    is not one of those whose loops are assembly anyway. "all": each.
    """
    if specialise == "all":
        return frozenset(range(len(program.calls)))
    if specialise == "none":
        return frozenset()
    count = Counter(signature(c) for c in program.calls)
    total = sum(c.macs for c in program.calls)
    hot = (
        i
        for i, c in enumerate(program.calls)
        if count[signature(c)] == 1
        or (0 < total <= 10 * c.macs and not c.kernel.endswith(("__dsp", "__mve")))
    )
    return frozenset(hot)
