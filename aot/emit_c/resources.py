# SPDX-License-Identifier: Apache-2.0
"""Where the C runtime and the CMake files are: in a checkout, an editable install or a wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from aot.errors import InternalError

_PACKAGE = Path(__file__).resolve().parents[1]


@cache
def folder(name: str) -> Path:
    """The folder `runtime_c` or `cmake`.

    A wheel carries them as `aot/_data/<name>`; a checkout (and an editable install, which points
    into one) has them beside the package.
    """
    for candidate in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise InternalError(f"this installation of aotc lacks its folder {name}/")


def runtime_c() -> Path:
    """C headers, kernels and ports that bundles carry."""
    return folder("runtime_c")


def cmake() -> Path:
    """CMake modules and toolchain files."""
    return folder("cmake")
