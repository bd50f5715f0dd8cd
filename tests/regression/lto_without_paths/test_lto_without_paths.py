# SPDX-License-Identifier: Apache-2.0
"""README's flags with -flto: "file not found: net_weights.bin".

The assembler runs when the program is linked then, and gets no -I. The file is found by the path of
the C file beside it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import aot
from graphs import model
from needs import need


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose constants are too many for a table."""
    out = tmp_path_factory.mktemp("lto") / "out"
    weights = np.linspace(-1, 1, 64 * 96, dtype=np.float32).reshape(64, 96)
    proto = model([("MatMul", "x w", "y")], {"x": (1, 64)}, {"y": (1, 96)}, {"w": weights})
    aot.compile(proto, out, name="net", configure=False)
    return out / "bundle"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("inside", [True, False], ids=["in the bundle", "elsewhere"])
def test_the_flags_of_the_readme(compiler: str, inside: bool, bundle: Path, tmp_path: Path) -> None:
    need(compiler)
    readme = (bundle / "README.md").read_text()
    flags = next(line for line in readme.splitlines() if "-ffp-contract" in line).split()
    folder = Path() if inside else bundle
    sources = [folder / "src" / p.name for p in sorted(bundle.glob("src/*.c"))]
    sources = [s for s in sources if s.name != "net_ffi.c"]
    include = [f"-I{folder / d}" for d in ("include", "src")]
    words = [compiler, "-std=c99", "-O2", *flags, "-flto", *include, *map(str, sources)]
    program = str(tmp_path / "app")
    words += [str(folder / "example_main.c"), "-lm", "-o", program]
    place = bundle if inside else tmp_path
    done = subprocess.run(words, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.stdout == "net: ok\n"


def test_by_name_where_paths_are_changed(bundle: Path, tmp_path: Path) -> None:
    include = [f"-I{bundle / d}" for d in ("include", "src")]
    changed = f"-fmacro-prefix-map={bundle}=/nowhere"
    words = ["gcc", *include, changed, "-c", str(bundle / "src/net_weights.c")]
    words += ["-o", str(tmp_path / "w.o")]
    assert subprocess.run(words, capture_output=True).returncode != 0
    subprocess.run([*words, "-DAOT_WEIGHTS_BY_NAME"], check=True)
