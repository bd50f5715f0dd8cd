# SPDX-License-Identifier: Apache-2.0
"""The C compiler that CMake is given: the one asked for, or PyPI's zig where there is no other.

For another machine gcc is the target's own; clang compiles, and the target's gcc links, whose C
library it is; zig has C libraries of its own, for Linux and not for boards.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from aot.errors import BuildError
from aot.target import Target

#: Where scripts lie that stand for programs of zig, below OUT: CMake's own folder.
_SCRIPTS = "CMakeFiles"
_ZIG = """\
#!/bin/sh
# SPDX-License-Identifier: MIT-0
# zig spells the names of CPUs with _, and has its own names for what every CPU of a kind has.
for word do
    shift
    case $word in
    -march=x86-64) word=-march=x86_64 ;;
    -march=x86-64-v?) word=-march=x86_64_v${{word##*v}} ;;
    -march=armv7-a) word=-mcpu=generic+v7a+neon+vfp4 ;;
    -march=rv64gc) word=-mcpu=baseline_rv64 ;;
    -march=rv64gcv) word=-mcpu=baseline_rv64+v ;;
    -march=armv8-a | -mfpu=*) continue ;;
    -march=armv8.?-a*)
        word=${{word#-march=armv8.}}
        word=-mcpu=generic+v8_${{word%%-*}}a${{word#?-a}} ;;
    -mcpu=*-*) word=${{word%%-${{word#-*-}}}}_${{word#-*-}} ;;
    esac
    set -- "$@" "$word"
done
exec {zig} {tool} "$@"
"""
_CLANG = """\
#!/bin/sh
# SPDX-License-Identifier: MIT-0
# clang compiles with the headers of gcc's C library, and gcc links with the library.
objects= sources=
for word do
    case $word in
    *.c) sources=1 ;;
    *.o | *.obj) objects=1 ;;
    esac
done
if [ -n "$objects" ] && [ -z "$sources" ]; then
    for word do
        shift
        case $word in
        --target=*) ;; # of the toolchain file for clang
        *) set -- "$@" "$word" ;;
        esac
    done
    exec {gcc} "$@"
fi
for word do
    shift
    case $word in
    --specs=*) ;;
    *) set -- "$@" "$word" ;;
    esac
done
exec {clang} --target={triple} {headers} "$@"
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


def check(asked: str, target: Target | None = None) -> None:
    """Raise BuildError unless the compiler `asked` is there and compiles for the target.

    `target` is None, or native, for this machine.
    """
    if not is_found(asked):
        hint = "pip install 'aotc[zig]'" if asked == "zig" else "a program in PATH, or its path"
        raise BuildError(f"the C compiler --compiler {asked} was not found", hint=hint)
    if target is None or not _is_cross(target):
        return
    kind, own = _kind(asked), _gcc(target)
    where = f"--compiler {asked} for {target.name}"
    apt = f"apt-get install --no-install-recommends {' '.join(target.packages)}"
    if kind == "zig" and target.board:
        hint = f"--compiler clang or gcc; each needs {own}: {apt}"
        raise BuildError(f"{where}: zig has no C library for boards", hint=hint)
    if kind in ("gcc", "clang") and not is_found(own):
        why = "" if kind == "gcc" else " (clang has no C library for the target)"
        instead = "" if target.board else "; --compiler zig needs none"
        raise BuildError(f"{where} needs {own}, which was not found{why}", hint=apt + instead)
    if kind == "other":
        made = _machine(asked)
        # Only the architecture is compared: compilers spell the rest of a triple in different ways.
        if made.partition("-")[0] != _triple(target).partition("-")[0]:
            what = f"{where}: it compiles for {made or 'an unknown machine'}"
            raise BuildError(what, f"{asked} -dumpmachine", f"a compiler for {_triple(target)}")


def settings(out: Path, asked: str, target: Target | None = None) -> list[str]:
    """The arguments of CMake that make it take the compiler `asked` in the build tree `out`.

    `asked` is `zig`, a name or a path; "" leaves the choice to CC and CMake, and is zig where no
    other compiler is found. Without `target` the tree is for this machine. Raises BuildError if
    the compiler is missing or is for another machine.
    """
    folder = out.absolute() / _SCRIPTS
    if target is not None and _is_cross(target):
        return _cross(folder, asked, target) if asked else []
    check(asked)
    others = any(map(shutil.which, ("cc", "gcc", "clang"))) or os.environ.get("CC")
    if asked != "zig" and (asked or others):
        return [f"-DCMAKE_C_COMPILER={shutil.which(asked)}"] if asked else []
    return _by_zig(folder)


def _is_cross(target: Target) -> bool:
    """Whether a compiler of this machine's own programs does not do for the target."""
    return bool(target.compiler) and not target.native()


def _cross(folder: Path, asked: str, target: Target) -> list[str]:
    """The arguments of CMake for another machine; scripts are written into `folder`."""
    check(asked, target)
    triple, kind, program = _triple(target), _kind(asked), shutil.which(asked)
    if kind == "zig":
        return _by_zig(folder, f" -target {triple}")
    if kind == "gcc":
        program = shutil.which(_gcc(target))
    found = {t: shutil.which(f"{triple}-{t}") for t in ("ar", "ranlib")}
    more = [f"-DCMAKE_{t.upper()}={path}" for t, path in found.items() if path]
    if kind == "clang":
        own = [f"-isystem{path}" for path in _headers(target)]
        # gcc for Arm's boards has enums of as few bytes as they need, and so has its C library.
        headers = shlex.join([*own, *["-fshort-enums"] * (triple == "arm-none-eabi")])
        words = {"gcc": _gcc(target), "clang": shlex.quote(program or asked), "headers": headers}
        text = _CLANG.format(triple=_clang_triple(target), **words)
        program = str(_script(folder / "clang-cc", text))
    return [f"-DCMAKE_C_COMPILER={program}", *more]


def _by_zig(folder: Path, machine: str = "") -> list[str]:
    """The arguments of CMake that make it take zig, whose option `machine` names the target."""
    made = []
    for tool, variable in (("cc", "C_COMPILER"), ("ar", "AR"), ("ranlib", "RANLIB")):
        words = tool + machine * (tool == "cc")
        text = _ZIG.format(zig=shlex.quote(find_zig()), tool=words)
        made.append(f"-DCMAKE_{variable}={_script(folder / f'zig-{tool}', text)}")
    return made


def _kind(asked: str) -> str:
    """Of a compiler asked for: "zig", "gcc" (the target's own), "clang", or "other"."""
    name = Path(asked).name
    return asked if asked in ("zig", "gcc") else "clang" if name.startswith("clang") else "other"


def _triple(target: Target) -> str:
    """The machine of the target's gcc, as "arm-none-eabi"."""
    return target.toolchain.removesuffix("-clang")


def _gcc(target: Target) -> str:
    """The target's gcc: what links for it, also where another compiler compiles."""
    return f"{_triple(target)}-gcc"


def _clang_triple(target: Target) -> str:
    """The same as clang wants it: RISC-V's gcc is one for all widths."""
    _, _, rest = _triple(target).partition("-")
    return f"{target.arch}-{rest}"


def _machine(program: str) -> str:
    """The machine that a compiler compiles for, "" where it does not tell."""
    try:
        words = [program, "-dumpmachine"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _headers(target: Target) -> list[str]:
    """The folders of the C library's headers that the target's gcc reads, without gcc's own."""
    words = [_gcc(target), *target.cflags, "-xc", "-E", "-v", os.devnull]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    listed = done.stderr.partition("search starts here:")[2].partition("End of search list")[0]
    found = [os.path.realpath(line.strip()) for line in listed.splitlines() if line[:1] == " "]
    return [path for path in found if "/lib/gcc" not in path]


def _script(path: Path, text: str) -> Path:
    """Write a script that can be executed; its path."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path
