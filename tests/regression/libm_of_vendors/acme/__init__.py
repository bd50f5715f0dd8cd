# SPDX-License-Identifier: Apache-2.0
"""A vendor with C that needs libm."""

import math

from aot.vendor.backend import Backend

backend = Backend("acme", header="acme.h", sources=("acme.h", "acme.c"))


@backend.pattern
def cos(op, x):
    return op.Cos(x)


@cos.lower
def to_acme(c, m):
    c.call("acme_cos", m.y, m.x, c.params(n=math.prod(m.y.shape)))
