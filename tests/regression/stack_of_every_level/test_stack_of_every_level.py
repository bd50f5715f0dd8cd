# SPDX-License-Identifier: Apache-2.0
"""Every x86-64 declared the stack of the widest one: 16 624 bytes where a build took 1672.

One figure per kernel stood for vectors of 4, 8 and 16 floats alike. They are measured apart.
"""

from __future__ import annotations

from pathlib import Path

import aot
from aot.options import Options
from aot.pipeline import compile_model
from aot.tools.run import open_out
from aot.tools.stack_built import stack_of

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits.onnx"


def test_wider_vectors_declare_more() -> None:
    levels = ("x86-64", "x86-64-v3", "x86-64-v4")
    declared = [
        compile_model(DIGITS, Options(target=t)).manifest["memory"]["stack_bytes"] for t in levels
    ]
    assert declared == sorted(set(declared)), dict(zip(levels, declared, strict=True))
    assert declared[-1] < 7000


def test_declared_is_near_what_a_build_takes(tmp_path: Path) -> None:
    aot.compile(DIGITS, tmp_path / "o", target="x86-64-v3").build()
    stack = stack_of(open_out(tmp_path / "o"))
    assert stack.bytes is not None and stack.declared is not None
    assert stack.bytes <= stack.declared < 2.5 * stack.bytes
