# SPDX-License-Identifier: Apache-2.0
"""The file of calls by rows did not compile with -Wextra -Werror: a depthwise convolution of floats
left parameters unused where rows are found by a table."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

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
    skipped = (*CORES, "__dot", *(["__vec"] if vlen == 1 else []))
    headers = [h for h in WINDOWED if not any(s in h for s in skipped)]
    compiled(tmp_path, "gcc", headers, batch, [f"-DAOT_VLEN={vlen}", *HOST[vlen]])


@pytest.mark.parametrize("kind", CORES)
def test_kernels_of_cores(kind: str, tmp_path: Path) -> None:
    headers = [h for h in WINDOWED if kind in h]
    flags = [f"-mcpu={CORES[kind]}", "-mthumb", "-mfloat-abi=hard", "-DAOT_VLEN=1"]
    compiled(tmp_path, "arm-none-eabi-gcc", headers, 1, flags)
