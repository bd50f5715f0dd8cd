# SPDX-License-Identifier: Apache-2.0
"""`aotc size --per-node` gave the calls of a vendor's region the functions of the portable program
that can stand in for it: both count their calls from 0, and the file that came last won.
"""

from __future__ import annotations

import re
from pathlib import Path

from aot.cli import main
from aot.tools.run import open_out
from aot.tools.symbols import calls_in_c

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


def test_calls_are_those_of_the_vendor(tmp_path: Path) -> None:
    words = [str(DIGITS), "-o", str(tmp_path), "-q", "--no-configure", "--backend", "dnnl"]
    assert main(words) == 0
    built = open_out(tmp_path)
    found = calls_in_c(built)
    assert list(tmp_path.glob("bundle/src/digits_fallback_*_run.c"))
    assert sorted(found) == [n["call"] for n in built.manifest["nodes"]]
    for node in built.manifest["nodes"]:
        call = found[node["call"]]
        assert call.function.endswith(node["kernel"].removeprefix("aot_")), node
        own = "digits_dnnl.c" if node["backend"] == "dnnl" else "digits_run.c"
        assert call.file == own
        source = (tmp_path / "bundle" / "src" / call.file).read_text().splitlines()
        assert re.match(rf" *(STEP|TRY|TRY_SAYING)\({node['call']},", source[call.line - 1])
