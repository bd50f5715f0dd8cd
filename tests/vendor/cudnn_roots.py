# SPDX-License-Identifier: Apache-2.0
"""Where tests get cuDNN, cuBLAS and the CUDA runtime from: a stand-in of this tree, built into a
folder. `python tests/vendor/cudnn_roots.py FOLDER` builds it, to be given as cudnn_ROOT."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

STANDIN = Path(__file__).parent / "cudnn_standin"


def standin(folder: Path) -> Path:
    """A folder with headers and libraries of the stand-in, one library under three names."""
    shutil.copytree(STANDIN / "include", folder / "include")
    (folder / "lib").mkdir()
    library = folder / "lib" / "libcudnn.so"
    sources = sorted(map(str, STANDIN.glob("*.c")))
    words = ["cc", "-std=c11", "-O3", "-shared", "-fPIC", f"-I{folder / 'include'}", *sources]
    subprocess.run([*words, "-lm", "-Wl,-soname,libcudnn.so", "-o", library], check=True)
    for name in ("cublas", "cudart"):
        (folder / "lib" / f"lib{name}.so").symlink_to(library.name)
    return folder


if __name__ == "__main__":
    standin(Path(sys.argv[1]))
