# SPDX-License-Identifier: Apache-2.0
"""Deferred modules: not executed by an import statement, whole once used."""

from __future__ import annotations

import subprocess
import sys


def script(*lines: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], check=True, capture_output=True, text=True
    ).stdout


def test_onnx_ir_does_not_wake_sympy_and_sympy_still_works() -> None:
    out = script(
        "import sys",
        "from aot.ir.deferred_import import defer_symbolic",
        "defer_symbolic()",
        "import onnx_ir",
        "print('sympy.core' in sys.modules)",
        "import sympy",
        "print(sympy.Integer(2) + 1)",
        "from sympy.core import Expr",
        "print(Expr is sympy.Expr, onnx_ir.SymbolicDim('N') + 1)",
    )
    assert out.splitlines()[:2] == ["False", "3"]
    assert out.splitlines()[2].startswith("True")


def test_an_absent_or_loaded_module_is_left_alone() -> None:
    out = script(
        "import sys, json",
        "from aot.ir.deferred_import import defer",
        "defer('no_such_module_here')",
        "defer('json')",
        "print('no_such_module_here' in sys.modules, type(sys.modules['json']).__name__)",
    )
    assert out.split() == ["False", "module"]
