# SPDX-License-Identifier: Apache-2.0
"""A vendor that is a plain C compiler: sums, differences and products, alone and in pairs."""

import math

from aot.vendor import F32, Backend

backend = Backend("csource", header="csource.h", sources=("csource.h", "csource.c"))
OPERATORS = ("Add", "Sub", "Mul")


def fits(m):
    shapes = [v.shape for _, v in m.inputs()]
    yield all(v.dtype is F32 for _, v in m.inputs()), f"dtype {m.y.dtype} (needs float32)"
    yield all(s == m.y.shape for s in shapes), f"shapes {shapes} (nothing is broadcast)"


def call(first, second):
    def lowering(c, m):
        params = c.params(n=math.prod(m.y.shape), first=first, second=second)
        c.call("csource_run", m.y, m.a, m.b, m.c if second >= 0 else None, params)

    return lowering


def declare(first, second=None):
    """One pattern: a first b, or (a first b) second c."""
    one, two = OPERATORS[first], OPERATORS[second] if second is not None else ""
    if two:
        pattern = backend.pattern(lambda op, a, b, c: getattr(op, two)(getattr(op, one)(a, b), c))
    else:
        pattern = backend.pattern(lambda op, a, b: getattr(op, one)(a, b))
    pattern.name = f"{one}_{two}".lower().rstrip("_")
    pattern.check(fits)
    pattern.lower(call(first, -1 if second is None else second))


for i in range(len(OPERATORS)):
    declare(i)
    for j in range(len(OPERATORS)):
        declare(i, j)
