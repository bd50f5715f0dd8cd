# SPDX-License-Identifier: Apache-2.0
"""The analysers: a command for a translation unit, and what it says as findings."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from analyse.corpus import ROOT, Unit
from aot.emit_c.project import CFLAGS
from aot.target import Target, load_target

RUNTIME = ROOT / "runtime_c"
WARNINGS = (
    "-pedantic -Wall -Wextra -Wconversion -Wshadow -Wundef -Wdouble-promotion -Wvla"
    " -Wmisleading-indentation -Wimplicit-fallthrough -Wwrite-strings -Wstrict-prototypes"
)
CPPCHECK = (
    "--std=c99 --language=c --addon=misra --enable=warning,style,performance,portability"
    " --inline-suppr --max-ctu-depth=0"
    # What headers declare for others, and what instance constants decide.
    " --suppress=unusedStructMember --suppress=variableScope --suppress=knownConditionTrueFalse"
    " --suppress=missingInclude --suppress=missingIncludeSystem"
)
STANDARDS = ("c99", "c11")
#: Calls are summarised: a model's function has a hundred of them, and paths multiply. Kernels are
#: analysed behind the first optimisations, as all are inlined in their callers and take hours else.
ANALYZER = "-fanalyzer -fanalyzer-call-summaries"
#: System headers of the boards' C libraries, for clang.
LIBRARIES = {
    "arm": "/usr/include/newlib",
    "riscv32": "/usr/lib/picolibc/riscv64-unknown-elf/include",
}
TRIPLES = {"arm": "arm-none-eabi", "riscv32": "riscv32-unknown-elf"}
#: What the compiler would define for the instruction sets that kernels ask about.
MACROS = {
    "x86": "__x86_64__ __AVX__ __AVX2__ __FMA__ __SSE2__",
    "dsp": "__arm__ __ARM_ARCH=7 __ARM_FEATURE_DSP=1 __ARM_FEATURE_SIMD32=1",
    "mve": "__arm__ __ARM_ARCH=8 __ARM_FEATURE_DSP=1 __ARM_FEATURE_MVE=3",
    "riscv": "__riscv __riscv_xlen=32",
}
_GNU = re.compile(r"^(.+?):(\d+):\d+: (?:warning|error|fatal error): (.*?)(?: \[([^\]]+)\])?$")
_CPPCHECK = re.compile(r"^([\w.-]+)\t(.+?)\t(\d+)\t(.*)$")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One line that a tool complains about; `file` as `place` names it."""

    tool: str
    rule: str
    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    """A translation unit of a bundle or a port."""

    bundle: Path
    path: str
    target: Target

    @property
    def includes(self) -> list[str]:
        """Folders for -I, and the width of vectors the bundle was made for."""
        text = (self.bundle / "CMakeLists.txt").read_text()
        width = re.findall(r"AOT_VLEN=\d+", text)[0]
        folders = ("include", "src", "host", "board")
        return [f"-D{width}", *(f"-I{f}" for f in folders if (self.bundle / f).is_dir())]

    @property
    def flags(self) -> list[str]:
        return [*self.includes, *CFLAGS, *self.target.cflags]


def sources(unit: Unit, bundle: Path) -> list[Source]:
    """The C files of a bundle: what its CMake project compiles.

    Of joined cases only the calls of kernels: all else is the same text as in the small networks.
    """
    target = load_target(unit.target)
    folders = ("src", "board" if target.board else "host")
    paths = [p for f in folders for p in sorted((bundle / f).glob("*.c"))]
    kept = [p for p in paths if not (target.board and p.name.endswith("_ffi.c"))]
    if unit.joined:
        kept = [p for p in kept if p.name.endswith("_run.c")]
    return [Source(bundle, p.relative_to(bundle).as_posix(), target) for p in kept]


def warnings(source: Source, standard: str) -> list[Finding]:
    """The compiler's warnings, errors among them: those that need data flow in C99 only."""
    command = [source.target.compiler or "gcc", f"-std={standard}", *WARNINGS.split()]
    how = ["-O1", "-c", "-o", "/dev/null"] if standard == "c99" else ["-fsyntax-only"]
    return _gnu("gcc", source, [*command, *source.flags, *how])


def analyzer(source: Source) -> list[Finding]:
    """The paths of gcc -fanalyzer."""
    command = [source.target.compiler or "gcc", "-std=c99", *ANALYZER.split(), *source.flags]
    command += ["-O1" if source.path.endswith("_run.c") else "-O0"]
    command += ["-fdiagnostics-path-format=none", "-c", "-o", "/dev/null"]
    return _gnu("gcc", source, command)


def clang_tidy(source: Source) -> list[Finding]:
    """The checks of .clang-tidy, in headers too."""
    flags = [*source.flags, "-std=c99"]
    if source.target.board:
        arch = source.target.arch
        flags = [f for f in flags if not f.startswith("--specs")]
        flags += [f"--target={TRIPLES[arch]}", "-isystem", LIBRARIES[arch]]
    config = f"--config-file={ROOT / 'tests' / 'analyse' / 'clang-tidy.yaml'}"
    command = ["clang-tidy", "-quiet", "-header-filter=.", config, source.path, "--", *flags]
    return _gnu("clang-tidy", source, command, last=False)


def _gnu(tool: str, source: Source, command: list[str], last: bool = True) -> list[Finding]:
    """Findings spelled FILE:LINE:COLUMN: warning: TEXT [RULE]."""
    command = [*command, source.path] if last else command
    done = subprocess.run(command, cwd=source.bundle, capture_output=True, text=True, check=False)
    found = []
    for line in (done.stdout + done.stderr).splitlines():
        match = _GNU.match(line)
        if match:
            rule = (match[4] or "error").split(",")[0].removeprefix("-W").split("=")[0]
            place_ = place(source.bundle, match[1])
            found.append(Finding(tool, rule, place_, int(match[2]), match[3]))
    if done.returncode and not found:
        raise RuntimeError(f"{shlex.join(command)}\n{done.stderr[-2000:]}")
    return found


def place(bundle: Path, path: str) -> str:
    """Where a file comes from: its path under runtime_c, or `emitted/` and what it is."""
    full = (bundle / path).resolve()
    try:
        parts = full.relative_to(bundle.resolve()).parts
    except ValueError:
        return f"outside/{full.name}"
    name = parts[-1]
    port = "ports/board" if "board" in parts else "ports/host"  # which have files of one name
    for folder in ("kernels", "src", "include/aot", "ports", port):
        if (RUNTIME / folder / name).is_file():
            return f"{folder}/{name}"
    copy = bundle / "board" / name  # of one family of cores
    for own in sorted((RUNTIME / "ports").glob(f"*/{name}")):
        if copy.is_file() and copy.read_bytes() == own.read_bytes():
            return own.relative_to(RUNTIME).as_posix()
    stem = bundle.parent.name
    return f"emitted/{name.replace(stem + '_', '').replace(stem, 'model')}"


# -- cppcheck --------------------------------------------------------------------------------


def instructions(header: str) -> str:
    """The instruction set under which a kernel header has its code."""
    if "mve" in header:
        return "mve"
    if "dsp" in header or "arm" in header:
        return "dsp"
    return "riscv" if "riscv" in header else "x86"


@dataclass(frozen=True, slots=True)
class Text:
    """A file for cppcheck: kernel headers by themselves, other files as part of a bundle."""

    folder: Path
    path: str
    macros: tuple[str, ...]
    flags: tuple[str, ...]

    def check(self) -> list[Finding]:
        """What cppcheck and its MISRA addon say; findings in other files are theirs to report."""
        macros = [f"-D{m}" for m in ("__GNUC__=12", *self.macros)]
        command = ["cppcheck", "-q", *CPPCHECK.split(), *macros, *self.flags]
        command += ["--template={id}\t{file}\t{line}\t{message}", self.path]
        # Else a list of one name for all files of a folder: two processes lose 2.3, 2.4 and 2.5.
        with tempfile.TemporaryDirectory() as notes:
            command.append(f"--cppcheck-build-dir={notes}")
            done = subprocess.run(
                command, cwd=self.folder, capture_output=True, text=True, check=False
            )
        found = []
        for line in done.stderr.splitlines():
            match = _CPPCHECK.match(line)
            if match is None:
                raise RuntimeError(f"{shlex.join(command)}\n{done.stderr[-2000:]}")
            rule, where = match[1], place(self.folder, match[2])
            if match[2] == self.path or match[2].endswith(TEMPLATES):
                tool = "misra" if rule.startswith("misra") else "cppcheck"
                rule = rule.removeprefix("misra-c2012-")
                found.append(Finding(tool, rule, where, int(match[3]), match[4]))
        return found


#: Included by kernels once per type or size: their findings are those of who includes them.
TEMPLATES = ("_body.h", "_set.h")


def headers(folder: Path) -> list[Text]:
    """Every kernel header, with the macros of the instruction set that it is for.

    They are copies in `folder`, which differ in one place: of the register tiles, 38 instances of
    one template, two remain; cppcheck takes minutes for all.
    """
    copied = folder / "cppcheck" / "bundle"
    for name in ("kernels", "include"):
        shutil.copytree(RUNTIME / name, copied / name, dirs_exist_ok=True)
    one_tile(copied / "kernels")
    found = []
    for path in sorted((RUNTIME / "kernels").glob("*.h")):
        if not path.name.endswith(TEMPLATES):
            isa = instructions(path.name)
            flags = ("-I../include", f"-DAOT_VLEN={8 if isa == 'x86' else 1}")
            macros = tuple(MACROS[isa].split())
            found.append(Text(copied / "kernels", path.name, macros, flags))
    for path in sorted((RUNTIME / "include" / "aot").glob("*.h")):
        macros = tuple(MACROS["x86"].split())
        found.append(Text(copied / "include" / "aot", path.name, macros, ()))
    return found


@cache
def machine(target: Target) -> tuple[str, ...]:
    """What the compiler defines about a target's instruction set."""
    command = [target.compiler or "gcc", *target.cflags, "-dM", "-E", "-x", "c", "/dev/null"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(
        r"(?m)^#define (__(?:x86_64|[a-z]*arm|ARM|AVX|SSE|FMA|BMI|riscv)\w*) (.*)$", text
    )
    return tuple(f"{name}={value}" for name, value in sorted(found) if " " not in value)


def one_tile(kernels: Path) -> None:
    """Leave one register tile with and one without runs."""
    path = kernels / "aot_tile_f32_set.h"
    if path.is_file():
        lines = ["#define AOT_TILE_O 2", "#define AOT_TILE_P 2", '#include "aot_tile_f32_body.h"']
        path.write_text("\n".join([*lines, "#undef AOT_TILE_O", "#undef AOT_TILE_RUNS", ""]))


def emitted(unit: Unit, bundle: Path, folder: Path) -> list[Text]:
    """What the compiler wrote for a model, and the ports and checks it copied."""
    copied = folder / "cppcheck" / unit.name / "bundle"
    shutil.copytree(bundle, copied)
    one_tile(copied / "src" / "kernels")
    macros = machine(load_target(unit.target))
    found = [Text(copied, s.path, macros, tuple(s.includes)) for s in sources(unit, bundle)]
    folders = ("-Iinclude", "-Isrc", "-Ihost", "-Iboard", "-DAOT_VLEN=1")
    for path in sorted(p for p in bundle.glob("*/*.h") if p.parent.name != "cmake"):
        found.append(Text(copied, path.relative_to(bundle).as_posix(), macros, folders))
    return found
