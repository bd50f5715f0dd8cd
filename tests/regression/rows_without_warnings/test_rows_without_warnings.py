# SPDX-License-Identifier: Apache-2.0
"""The file of calls by rows did not compile with -Wextra -Werror: a depthwise convolution of floats
left parameters unused where rows are found by a table."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot
from needs import need

RUNTIME = Path(__file__).resolve().parents[3] / "runtime_c"
WARN = "-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Wdouble-promotion -Werror".split()
#: Headers of kernels that read windows of rows, those for one kind of core apart.
WINDOWED = sorted(
    p.name
    for p in (RUNTIME / "kernels").glob("*.h")
    if "AOT_AT" in p.read_text() and p.name != "aot_rows.h"
)
HOST = {1: [], 4: [], 8: ["-mavx2", "-mfma"], 16: ["-mavx512f", "-mavx512dq", "-mfma"]}
CORES = {"__dsp": "cortex-m4", "__mve": "cortex-m55"}


def compiled(folder: Path, compiler: str, headers: list[str], batch: int, flags: list[str]) -> None:
    """The headers in one file by rows have no warning; AOT_ROW_BATCH is 1 where a row is alone."""
    defined = f"#define AOT_ROW_TABLES\n#define AOT_ROW_BATCH {batch}\n#define AOT_ROW_UNIT 4\n"
    defined += "#include <stdint.h>\ntypedef uint16_t aot_row_place;\n"
    source = folder / "rows.c"
    source.write_text(defined + "".join(f'#include "{h}"\n' for h in headers))
    include = [f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'kernels'}"]
    command = [need(compiler), *WARN, *flags, *include, "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[:3000]


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("vlen", HOST)
def test_kernels_of_hosts(vlen: int, batch: int, tmp_path: Path) -> None:
    assert len(WINDOWED) > 15
    skipped = (*CORES, "__dot", "__bf16", *(["__vec"] if vlen == 1 else []))
    headers = [h for h in WINDOWED if not any(s in h for s in skipped)]
    compiled(tmp_path, "gcc", headers, batch, [f"-DAOT_VLEN={vlen}", *HOST[vlen]])


@pytest.mark.parametrize("kind", CORES)
def test_kernels_of_cores(kind: str, tmp_path: Path) -> None:
    headers = [h for h in WINDOWED if kind in h]
    flags = [f"-mcpu={CORES[kind]}", "-mthumb", "-mfloat-abi=hard", "-DAOT_VLEN=1"]
    compiled(tmp_path, "arm-none-eabi-gcc", headers, 1, flags)


def test_a_window_whose_rows_are_all_there(tmp_path: Path) -> None:
    """What a call says of its window is a variable only where the call is told."""
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", (1, 3, 20, 6)), ("y", (1, 3, 19, 2)))
    )
    known = [
        numpy_helper.from_array(np.array([1, 3, 40, 6], np.int64), "s"),
        numpy_helper.from_array(np.ones((3, 1, 3, 3), np.float32), "w"),
    ]
    modes = {"mode": "nearest", "nearest_mode": "floor"}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["v"], group=3, pads=[1, 1, 1, 1]),
        helper.make_node("Resize", ["v", "", "", "s"], ["r"], **modes),
        helper.make_node("Conv", ["r", "w"], ["y"], group=3, strides=[2, 2]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], known)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m")
    bundle = aot.compile(
        tmp_path / "m", tmp_path / "out", objective="ram", target="x86-64", configure=False
    )
    assert bundle.manifest["memory"]["by_rows"]
    rows = next((tmp_path / "out" / "bundle" / "src").glob("*rows*.c"))
    include = [f"-I{tmp_path}/out/bundle/{n}" for n in ("include", "src")]
    command = [need("gcc"), *WARN, *include, "-fsyntax-only"]
    done = subprocess.run([*command, str(rows)], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[:3000]
