# SPDX-License-Identifier: Apache-2.0
"""Double members of a template's struct were spelled as float constants (clang warned)."""

from __future__ import annotations

import re

from onnx import parser

from aot.options import Options
from aot.pipeline import compile_model

MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
g (uint32[3, 4] a, uint32[4, 2] b) => (uint32[3, 2] y) { y = MatMul (a, b) }
"""


def test_members_behind_a_macro_have_their_type() -> None:
    made = compile_model(parser.parse_model(MODEL), Options(name="g", target="x86-64"))
    run = bytes(made.files["src/g_run.c"]).decode()
    assert "aot_matmul_u32_ref" in run
    assert re.findall(r"\.(?:alpha|beta) = ([^,\s}]+)", run) == ["0x1p+0", "0x1p+0"]
