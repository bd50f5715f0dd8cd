# SPDX-License-Identifier: Apache-2.0
"""What a source asks of the compiler it is given to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aot.emit_c import ctext

if TYPE_CHECKING:
    from aot.target import Target


def demands(name: str, target: Target) -> list[str]:
    """Stops a compiler that was not told of the instructions the layouts were chosen for."""
    tests = []
    if target.arch == "x86_64":
        tests.append("!defined(__x86_64__)")
        if target.vlen >= 16:
            tests.append("!defined(__AVX512F__)")
        elif target.vlen == 8:
            tests.append("!defined(__AVX2__) || !defined(__FMA__)")
    if not tests:
        return []
    flags = " ".join(target.cflags)
    text = ctext.plain(f"{name} was generated for {target.cpu}: compile it with {flags}".strip())
    return [f"#if {' || '.join(tests)}", f"#error {ctext.string(text)}", "#endif", ""]
