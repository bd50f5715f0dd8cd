# SPDX-License-Identifier: Apache-2.0
"""Stack of functions that a bundle calls but does not hold: the C library's and the compiler's.

These are assumptions, larger than what newlib-nano, picolibc, libgcc (gcc 12) and glibc take.
"""

from __future__ import annotations

import re

#: Kernels in assembly push as much at most, which gcc does not see: `aot_dsp_pixels.h`.
ASSEMBLY = 112
#: Bytes below the stack pointer that x86-64 gives to functions which call none.
RED_ZONE = 128
#: What moves or reads memory.
_MEMORY = {"memcpy", "memmove", "memset", "memcmp", "memchr", "strlen", "getauxval"}
_MEMORY_BYTES = 64
#: The compiler's arithmetic and locks where the machine may have no instruction for it.
_ARITHMETIC = re.compile(
    r"__(aeabi_\w+|(add|sub|mul|div|neg)[sdt]f3|(eq|ne|ge|gt|le|lt|unord|cmp)[sdt]f2"
    r"|(u?div|u?mod|mul|ash[lr]|lshr|u?divmod|neg|cl[zt]|ct[zt]|ff|popcount|bswap)[sdt]i[2345]"
    r"|fix(uns)?[sdt]f[sdt]i|float(un)?[sdt]i[sdt]f|(extend|trunc)[hsdt]f[hsdt]f2|riscv_\w+"
    r"|gnu_[hf]2[hf]_ieee|aarch64_(swp|cas|ldadd)\d_\w+)"
)
_ARITHMETIC_BYTES = 128
#: Sines reduce large arguments with tables.
_TRIGONOMETRIC = re.compile(r"(sin|cos|tan|sincos)f?$")
_TRIGONOMETRIC_BYTES = 1024
_MATH = re.compile(
    r"a?(sin|cos|tan)h?f?$|(exp|exp2|expm1|log|log2|log10|log1p|pow|sqrt|cbrt|fmod|erf|floor"
    r"|ceil|rint|nearbyint|trunc|fabs|fma|ldexp|round|copysign|fmin|fmax|lrint|llrint|isnan)f?$"
)
_MATH_BYTES = 256


def known(name: str) -> bool:
    """Whether the function is one of those above."""
    return of(name) >= 0


def of(name: str) -> int:
    """Bytes of stack that the function takes; -1 if nothing is known about it."""
    if name in _MEMORY:
        return _MEMORY_BYTES
    if _ARITHMETIC.match(name):
        return _ARITHMETIC_BYTES
    if _TRIGONOMETRIC.match(name):
        return _TRIGONOMETRIC_BYTES
    return _MATH_BYTES if _MATH.match(name) else -1
