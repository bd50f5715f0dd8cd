# SPDX-License-Identifier: Apache-2.0
"""The C compiler of this machine: the one asked for, or PyPI's zig where there is no other."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
from pathlib import Path

from aot.errors import BuildError

#: Where scripts lie that stand for programs of zig, below OUT: CMake's own folder.
_SCRIPTS = "CMakeFiles"
_ZIG = """\
#!/bin/sh
# SPDX-License-Identifier: MIT-0
# zig spells the names of CPUs with _.
for word do
    shift
    case $word in
    -march=x86-64) word=-march=x86_64 ;;
    -march=x86-64-v?) word=-march=x86_64_v${{word##*v}} ;;
    esac
    set -- "$@" "$word"
done
exec {zig} {tool} "$@"
"""


def find_zig() -> str:
    """The program zig in PATH, or that of PyPI's ziglang; "" without one."""
    spec = importlib.util.find_spec("ziglang")
    inside = str(Path(spec.origin).parent) if spec and spec.origin else ""
    return shutil.which("zig") or (inside and shutil.which("zig", path=inside)) or ""


def is_found(asked: str) -> bool:
    """Whether the compiler `asked` is there; "" is any."""
    if asked == "zig":
        return bool(find_zig())
    if asked:
        return shutil.which(asked) is not None
    return any(map(shutil.which, ("cc", "gcc", "clang"))) or bool(find_zig())


def settings(out: Path, asked: str) -> list[str]:
    """The arguments of CMake that make it take the compiler `asked` in the build tree `out`.

    `asked` is `zig`, a name or a path; "" leaves the choice to CC and CMake, and is zig where no
    other compiler is found. Raises BuildError if the compiler is missing.
    """
    if not is_found(asked):
        hint = "pip install 'aotc[zig]'" if asked == "zig" else "a program in PATH, or its path"
        raise BuildError(f"the C compiler --compiler {asked} was not found", hint=hint)
    others = any(map(shutil.which, ("cc", "gcc", "clang"))) or os.environ.get("CC")
    if asked != "zig" and (asked or others):
        return [f"-DCMAKE_C_COMPILER={shutil.which(asked)}"] if asked else []
    folder = out.absolute() / _SCRIPTS
    folder.mkdir(exist_ok=True)
    made = []
    for tool, variable in (("cc", "C_COMPILER"), ("ar", "AR"), ("ranlib", "RANLIB")):
        script = folder / f"zig-{tool}"
        text = _ZIG.format(zig=shlex.quote(find_zig()), tool=tool)
        script.write_text(text, encoding="utf-8")
        script.chmod(0o755)
        made.append(f"-DCMAKE_{variable}={script}")
    return made
