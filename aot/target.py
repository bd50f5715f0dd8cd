# SPDX-License-Identifier: Apache-2.0
"""Targets: what a chip is to the compiler, read from TOML (`aot/targets/*.toml` or a user's file).

A target file holds the fields of `Target` but `name` and `cpu` (which come from the file's name),
`[[memory]]` tables, and may start from another target: `base = "x86-64-v3"`.
"""

from __future__ import annotations

import platform
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from aot.errors import TargetError

FOLDER = Path(__file__).with_name("targets")

#: Every target name of the interface, in the order they are listed.
NAMES = (
    *("host", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"),
    *("aarch64-linux", "armv7-linux", "riscv64-linux"),
    *("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"),
    *("rv32imac", "rv32imafc", "rv64gc"),
)

#: x86-64 levels from the most capable down: what `host` resolves to.
LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64")

SUPPORTED_ARCHS = ("x86_64",)


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory of a chip: `bytes` large, `speed` relative to the fastest, linker `section`."""

    name: str
    bytes: int
    speed: float = 1.0
    section: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A chip and its toolchain.

    `name` is what the user asked for, `cpu` what it resolved to. `vlen` counts float32 lanes of a
    vector (1 without vectors): activation layouts and packed weights depend on it. `cflags` go to
    the C compiler of the bundle's own sources; `toolchain` names a file of cmake/toolchains;
    `requires` are /proc/cpuinfo flags a machine needs to run the code; `fpu` is "none", "single"
    or "double"; `packages` the apt packages that build for it; `system` is "linux" or "none".
    """

    name: str
    cpu: str
    arch: str
    summary: str = ""
    system: str = "linux"
    vlen: int = 1
    cflags: tuple[str, ...] = ()
    toolchain: str = "host"
    pointer_bits: int = 64
    byte_order: str = "little"
    fpu: str = "double"
    requires: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    memories: tuple[Memory, ...] = ()

    def runs_here(self) -> bool:
        """Whether this machine can execute what is built for the target."""
        return platform.machine() == self.arch and set(self.requires) <= cpu_flags()

    def missing_flags(self) -> tuple[str, ...]:
        """CPU features the target needs and this machine lacks, in the target's order."""
        return tuple(f for f in self.requires if f not in cpu_flags())


@cache
def cpu_flags() -> frozenset[str]:
    """The feature flags of this machine's CPU (empty where /proc/cpuinfo does not tell)."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def implemented() -> tuple[str, ...]:
    """Names of the targets this version builds for, `host` first."""
    return tuple(n for n in NAMES if n == "host" or (FOLDER / f"{n}.toml").is_file())


def listing() -> list[dict[str, str]]:
    """Every target with one line of text: what it is, and what is missing here to build for it."""
    rows = []
    for name in NAMES:
        if name not in implemented():
            text = "not available in this version"
        elif name == "host":
            host = _host()
            text = f"this machine: {host}" if host else "no code generation for this machine"
        else:
            text = _status(_named(name, name))
        rows.append({"name": name, "text": text})
    return rows


def _host() -> str:
    try:
        return _host_level()
    except TargetError:
        return ""


def _status(target: Target) -> str:
    """What the target is, whether it can be built and run here."""
    text = target.summary
    if not any(shutil.which(c) for c in ("cc", "gcc", "clang")):
        text += f"; no C compiler: apt-get install {' '.join(target.packages)}"
    if not target.runs_here():
        lacking = target.missing_flags()
        text += f"; builds here, does not run (CPU lacks {', '.join(lacking[:3])})"
    return text


def load_target(spec: str = "host") -> Target:
    """The target called `spec`, or described by the file `spec` (anything that ends in .toml).

    Raises TargetError for an unknown name, a bad file, or a chip this version has no kernels for.
    """
    if spec.endswith(".toml"):
        return _from_file(Path(spec))
    if spec == "host":
        return _named("host", _host_level())
    if spec not in NAMES:
        raise TargetError(f"unknown target {spec!r}", hint="`aotc targets` lists them")
    if spec not in implemented():
        raise TargetError(
            f"target {spec} is not available in this version of aotc",
            hint="available: " + ", ".join(implemented()),
        )
    return _named(spec, spec)


def _host_level() -> str:
    machine = platform.machine()
    if machine not in SUPPORTED_ARCHS:
        raise TargetError(
            f"target host: no code generation for {machine or 'this machine'} in this version",
            hint="cross-compile for one of: " + ", ".join(n for n in implemented() if n != "host"),
        )
    for level in LEVELS:
        if _named(level, level).runs_here():
            return level
    return LEVELS[-1]


@cache
def _table(cpu: str) -> Mapping[str, Any]:
    return tomllib.loads((FOLDER / f"{cpu}.toml").read_text(encoding="utf-8"))


def _named(name: str, cpu: str) -> Target:
    return _build(name, cpu, _table(cpu), f"{cpu}.toml")


def _from_file(path: Path) -> Target:
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise TargetError(f"cannot read target file {path}: {e.strerror}") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise TargetError(f"target file {path} is not TOML: {e}") from e
    base = table.pop("base", None)
    if base is not None:
        if not isinstance(base, str) or base.endswith(".toml"):
            raise TargetError(f"base {base!r} is not the name of a target", str(path))
        known = load_target(base)
        table = {**_table(known.cpu), **table}
    return _build(path.stem, path.stem, table, str(path))


def _build(name: str, cpu: str, table: Mapping[str, Any], where: str) -> Target:
    known = {f.name for f in fields(Target)} - {"name", "cpu", "memories"}
    for key in sorted(table):
        if key not in known | {"memory"}:
            raise TargetError(f"unknown key {key!r}", where, f"known: {', '.join(sorted(known))}")
    values = {k: _checked(k, table[k], where) for k in sorted(table) if k != "memory"}
    memories = tuple(_memory(m, where) for m in table.get("memory", ()))
    if "arch" not in values:
        raise TargetError("key 'arch' is missing", where, 'for example: arch = "x86_64"')
    target = Target(name, cpu, memories=memories, **values)
    if target.arch not in SUPPORTED_ARCHS:
        raise TargetError(
            f"arch {target.arch!r} is not available in this version of aotc",
            where,
            "available: " + ", ".join(SUPPORTED_ARCHS),
        )
    if target.vlen not in (1, 4, 8, 16):
        raise TargetError(f"vlen {target.vlen} is not 1, 4, 8 or 16", where)
    return target


_TUPLES = ("cflags", "requires", "packages")
_INTEGERS = ("vlen", "pointer_bits")


def _checked(key: str, value: Any, where: str) -> Any:
    if key in _TUPLES:
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return tuple(value)
        raise TargetError(f"key {key!r} is not a list of strings: {value!r}", where)
    wanted = int if key in _INTEGERS else str
    if not isinstance(value, wanted) or isinstance(value, bool):
        kind = "an integer" if wanted is int else "a string"
        raise TargetError(f"key {key!r} is not {kind}: {value!r}", where)
    return value


def _memory(table: Any, where: str) -> Memory:
    if not isinstance(table, dict) or not {"name", "size"} <= set(table):
        raise TargetError("a [[memory]] needs name and size", where)
    extra = sorted(set(table) - {"name", "size", "speed", "section"})
    if extra:
        raise TargetError(f"unknown key {extra[0]!r} in [[memory]]", where)
    size = table["size"]
    speed = table.get("speed", 1.0)
    if not isinstance(speed, int | float) or isinstance(speed, bool) or speed <= 0:
        raise TargetError(f"speed {speed!r} of memory {table['name']} is not positive", where)
    return Memory(
        str(table["name"]),
        size if isinstance(size, int) else parse_bytes(str(size), where),
        float(speed),
        str(table.get("section", "")),
    )


def parse_bytes(text: str, where: str = "") -> int:
    """A size with an optional K or M suffix (1024, 1024²) in bytes; TargetError otherwise."""
    scale = {"K": 1024, "M": 1024**2}.get(text[-1:].upper(), 1)
    digits = text[:-1] if scale > 1 else text
    if not (digits.isascii() and digits.isdigit()):
        raise TargetError(f"size {text!r} is not a number of bytes (K and M are 1024)", where)
    return int(digits) * scale
