# SPDX-License-Identifier: Apache-2.0
"""Targets: what a chip is to the compiler, read from TOML (`aot/targets/*.toml` or a user's file).

A target file holds the fields of `Target` but `name` and `cpu` (which come from the file's name),
`[[memory]]` tables, and may start from another target: `base = "x86-64-v3"`. docs/new-target.md
describes every key.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from aot.errors import TargetError, meant
from aot.options import Options, parse_bytes
from aot.textfile import read_toml

FOLDER = Path(__file__).with_name("targets")

#: Architecture → its levels from the most capable down: what `host` resolves to.
LEVELS = {
    "x86_64": (
        *("x86-64-v4-bf16", "x86-64-v4-vnni", "x86-64-v4", "x86-64-v3-vnni"),
        *("x86-64-v3", "x86-64-v2", "x86-64"),
    ),
    "aarch64": (
        *("aarch64-bf16", "aarch64-i8mm", "aarch64-fp16", "aarch64-dotprod", "aarch64-linux"),
    ),
}

#: Families of targets for `--target FAMILY:LEVEL,LEVEL`, each with its target for any CPU.
FAMILIES = {"x86-64": "x86-64", "aarch64": "aarch64-linux"}

SUPPORTED_ARCHS = ("x86_64", "aarch64", "arm", "riscv32", "riscv64")

#: What `platform.machine()` calls the 32-bit Arm cores.
_ARM_MACHINES = ("armv7l", "armv8l")

#: Integer vector units: Armv7E-M DSP instructions, Helium, dot products of four 8-bit values.
SIMD = ("", "dsp", "mve", "dot")

#: What a memory may be for: `data` is .data and .bss, `arena` the built-in one.
USES = ("code", "weights", "data", "arena", "stack")
#: What a memory may be for besides, which no board needs: a copy of the functions of a run.
HOT = "hot"


#: Arm cores, and names of their architectures, without the whole of Thumb-2.
_THUMB1 = (
    *("cortex-m0", "cortex-m0plus", "cortex-m1", "cortex-m23"),
    *("armv6-m", "armv6s-m", "armv8-m.base"),
)


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory of a chip: `bytes` large, `speed` relative to the fastest, linker `section`.

    `use` says what may live there (see USES); the first memory of the file that has room gets it.
    """

    name: str
    bytes: int
    speed: float = 1.0
    section: str = ""
    address: int = 0
    use: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """A chip and its toolchain.

    `name` is what the user asked for, `cpu` what it resolved to. `vlen` counts float32 lanes of a
    vector (1 without vectors): activation layouts and packed weights depend on it. `cflags` go to
    the C compiler of the bundle's own sources; `toolchain` names a file of cmake/toolchains;
    `requires` are units, in the words of /proc/cpuinfo, that a machine needs to run the code (init
    asks for them); `fpu` is "none", "single" or "double"; `packages` the apt packages that build
    for it; `system` is "linux" or "none".

    `compiler` is the program the toolchain needs ("" is this machine's own). `emulator` is the
    command that runs a program of the target here, `emulator_packages` what installs it. On boards
    (`system` "none") `port` names the start-up code (a folder of runtime_c/ports), `ldflags` go to
    the linker, `stack` is what the image reserves in bytes, and `tick_hz` the rate of the counter
    in emulated time at one instruction per nanosecond (0: it counts instructions). `simd` is the
    integer vector unit that kernels of integer networks use (see SIMD; "" for none). `cache` are
    the bytes of a core's second-level cache, 0 where nobody measured that rows in it are faster.

    `levels` are further targets of the same family, for each of which the library has the kernels
    once more; init takes the last one whose units the CPU has (`--target x86-64:v2,v3`).
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
    compiler: str = ""
    emulator: tuple[str, ...] = ()
    emulator_packages: tuple[str, ...] = ()
    port: str = ""
    ldflags: tuple[str, ...] = ()
    stack: int = 8192
    tick_hz: int = 0
    simd: str = ""
    cache: int = 0
    levels: tuple[Target, ...] = ()

    @property
    def board(self) -> bool:
        """Whether there is no operating system: an image with its own start-up code is linked."""
        return self.system == "none"

    @property
    def thumb1(self) -> bool:
        """Whether `cflags` name an Arm core without the whole of Thumb-2."""
        cpus = [f.partition("=")[2] for f in self.cflags if f.startswith(("-mcpu=", "-march="))]
        return any(c.partition("+")[0] in _THUMB1 for c in cpus)

    def native(self) -> bool:
        """Whether this machine is of the target's architecture and system."""
        return not self.board and machine() == self.arch

    def runs_here(self) -> bool:
        """Whether this machine can execute what is built for the target."""
        return self.native() and set(self.requires) <= cpu_flags()

    def missing_flags(self) -> tuple[str, ...]:
        """CPU features the target needs and this machine lacks, in the target's order."""
        return tuple(f for f in self.requires if f not in cpu_flags())


def machine() -> str:
    """This machine's architecture, in the words of SUPPORTED_ARCHS."""
    name = platform.machine()
    return "arm" if name in _ARM_MACHINES else name


@cache
def cpu_flags() -> frozenset[str]:
    """The feature flags of this machine's CPU (empty where /proc/cpuinfo does not tell)."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith(("flags", "Features")):
            return frozenset(line.partition(":")[2].split())
        if line.startswith("isa"):  # rv64imafdcv_zicsr_…
            letters, *others = line.partition("rv")[2].split("_")
            return frozenset([*letters[2:], *others])
    return frozenset()


def names() -> tuple[str, ...]:
    """Every name that `--target` takes: `host`, and those of the files of aot/targets.

    Systems come before boards; then the order is that of SUPPORTED_ARCHS and of the names, whose
    numbers count as numbers (cortex-m7 before cortex-m33).
    """
    files = [p.stem for p in FOLDER.glob("*.toml")]
    return ("host", *sorted((n for n in files if re.fullmatch(_NAME, n)), key=_rank))


def _rank(name: str) -> tuple[bool, int, list[tuple[int, str]]]:
    target = _named(name, name)
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    natural = [(int(p), "") if p.isdigit() else (-1, p) for p in parts]
    return target.board, SUPPORTED_ARCHS.index(target.arch), natural


def listing() -> list[dict[str, str]]:
    """Every target with one line of text: what it is, and what is missing here to build for it."""
    return [{"name": name, "text": _status(name)} for name in names()]


def _status(name: str) -> str:
    """What the target is, whether it can be built and run here."""
    try:
        target = load_target(name)
    except TargetError:
        return "no code generation for this machine"
    if name == "host":
        return f"this machine: {target.cpu}"
    # A native target needs no emulator: the slice is empty then.
    emulator = target.emulator[: not target.native()]
    needed = [
        (
            target.compiler or "C compiler",
            (target.compiler,) if target.compiler else ("cc", "gcc", "clang"),
            target.packages,
        ),
        *((program, (program,), target.emulator_packages) for program in emulator),
    ]
    texts = [
        f"no {what}: apt-get install {' '.join(packages)}"
        for what, programs, packages in needed
        if not any(map(shutil.which, programs))
    ]
    if not emulator and not target.runs_here():
        texts.append(
            f"builds here, does not run (CPU lacks {', '.join(target.missing_flags()[:3])})"
        )
    return "; ".join([target.summary, *texts])


def load_target(spec: str = "host") -> Target:
    """The target called `spec`, or described by the file `spec` (anything that ends in .toml).

    `FAMILY:A,B` is the target of level A with that of level B in its `levels`. Raises TargetError
    for an unknown name, a bad file, or a chip this version has no kernels for.
    """
    if spec.endswith(".toml"):
        return _from_file(Path(spec))
    if ":" in spec:
        return _with_levels(spec)
    if spec == "host":
        return _named("host", _host_level())
    named = re.fullmatch(_NAME, spec)
    if not named or not (FOLDER / f"{spec}.toml").is_file():
        hint = meant(spec, names(), "`aotc targets` lists them")
        raise TargetError(f"unknown target {spec!r}", hint=hint if named else f"{hint}; {_NAMING}")
    return _named(spec, spec)


def _with_levels(spec: str) -> Target:
    """The first level of `FAMILY:A,B,C`, the others as its `levels`, in the order given.

    Raises TargetError for a family or a level that does not exist, for one that comes twice, and
    for one that a less capable one behind it makes useless.
    """
    family, _, text = spec.partition(":")
    if family not in FAMILIES:
        hint = f"families with levels: {', '.join(FAMILIES)}"
        raise TargetError(f"target {spec!r}: {family!r} has no levels", hint=hint)
    words, known = text.split(","), levels_of(family)
    for word in words:
        if word not in known or words.count(word) > 1:
            what = f"level {word!r} comes twice" if word in known else f"no level {word!r}"
            hint = f"levels: {', '.join(known)}"
            hint = hint if word in known else meant(word, known, hint)
            raise TargetError(f"target {spec!r}: {what}", hint=hint)
    first, *others = chips = [_named(known[word], known[word]) for word in words]
    # NAME_init takes the last level that the CPU has, so what comes later must ask for more.
    for (before, one), (word, chip) in combinations(zip(words, chips, strict=True), 2):
        if set(chip.requires) < set(one.requires):
            what = f"level {before!r} would never be taken: every CPU that has it has {word!r}"
            raise TargetError(f"target {spec!r}: {what}", hint=f"put {word} before {before}")
    return replace(first, name=spec, levels=tuple(others))


def levels_of(family: str) -> dict[str, str]:
    """The levels of a family of FAMILIES, from the least, each with the name of its target."""
    base = FAMILIES[family]
    found = [n for n in names() if n.startswith(f"{family}-") and n != base]
    return {"base": base, **{n.removeprefix(f"{family}-"): n for n in found}}


def _host_level() -> str:
    here = machine()
    if here not in LEVELS:
        raise TargetError(
            f"target host: no code generation for {here or 'this machine'} in this version",
            hint="cross-compile for one of: " + ", ".join(names()[1:]),
        )
    return next(level for level in LEVELS[here] if _named(level, level).runs_here())


@cache
def _table(path: Path) -> Mapping[str, Any]:
    """The keys of a target file, over those of its `base`."""
    table = read_toml(path, "target file", TargetError)
    base = table.pop("base", None)
    if base is None:
        return table
    if not isinstance(base, str) or base.endswith(".toml") or base == path.stem:
        raise TargetError(f"base {base!r} is not the name of another target", str(path))
    return {**_table(FOLDER / f"{load_target(base).cpu}.toml"), **table}


def _named(name: str, cpu: str) -> Target:
    path = FOLDER / f"{cpu}.toml"
    return _build(name, cpu, _table(path), path.name)


#: A target's name: it stands in every file of the bundle.
_NAME = r"[A-Za-z0-9_.+-]+"


def _from_file(path: Path) -> Target:
    table = _table.__wrapped__(path)  # a user's file may have changed
    if not re.fullmatch(_NAME, path.stem):
        raise TargetError(f"target file {path}: {path.stem!r} is no name", hint=_NAMING)
    return _build(path.stem, path.stem, table, str(path))


def _build(name: str, cpu: str, table: Mapping[str, Any], where: str) -> Target:
    known = {f.name for f in fields(Target)} - {"name", "cpu", "memories", "levels"}
    # A misspelled key would otherwise be reported as one that is missing.
    for key in sorted(table):
        if key not in known | {"memory"}:
            raise TargetError(f"unknown key {key!r}", where, f"known: {', '.join(sorted(known))}")
    values = {k: _checked(k, table[k], where) for k in sorted(table) if k != "memory"}
    if not isinstance(table.get("memory", []), list):
        raise TargetError("memory is not a list of [[memory]] tables", where)
    _check_board(values, table, where)
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
    _check_values(target, where)
    return target


#: What fields with a choice may hold.
_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "simd": SIMD,
    "vlen": (1, 4, 8, 16),
    "pointer_bits": (32, 64),
    "byte_order": ("little", "big"),
    "fpu": ("none", "single", "double"),
}


def _check_values(target: Target, where: str) -> None:
    for key, choices in _CHOICES.items():
        value = getattr(target, key)
        if value not in choices:
            known = ", ".join(str(c) for c in choices if c != "")
            raise TargetError(f"{key} {str(value)[:40]} is none of {known}", where)
    for key in ("toolchain", "port"):
        if not re.fullmatch("[A-Za-z0-9_-]*", getattr(target, key)):
            raise TargetError(f"{key} {getattr(target, key)!r} is no name", where)
    if not 0 <= target.tick_hz < 1 << 63:
        raise TargetError(f"tick_hz {str(target.tick_hz)[:40]!r} is no rate", where)


_NAMING = "its name is the target's: letters, digits and . _ + -"
_TUPLES = ("cflags", "requires", "packages", "emulator", "emulator_packages", "ldflags")
_INTEGERS = ("vlen", "pointer_bits", "tick_hz")
_SIZES = ("stack", "cache")


def _check_board(values: Mapping[str, Any], table: Mapping[str, Any], where: str) -> None:
    """A board needs start-up code, and a memory for everything an image has."""
    system = values.get("system", "linux")
    if system not in ("linux", "none"):
        raise TargetError(f"system {system!r} is not linux or none", where)
    if system != "none":
        return
    if not values.get("port"):
        raise TargetError("key 'port' is missing", where, 'for example: port = "cortex_m"')
    memories = [_memory(m, where) for m in table.get("memory", ())]
    _check_places(memories, 1 << (32 if values.get("pointer_bits") == 32 else 64), where)
    held = {u for m in memories for u in m.use}
    lacking = [u for u in USES if u not in held]
    if lacking:
        raise TargetError(
            f"no [[memory]] is for {lacking[0]}", where, f'a memory says: use = ["{lacking[0]}"]'
        )


def _check_places(memories: Sequence[Memory], space: int, where: str) -> None:
    """TargetError for two memories of one name or at one address, or beyond `space` bytes."""
    for i, m in enumerate(memories):
        end = m.address + m.bytes
        if end > space:
            what = f"memory {m.name} ends at {end:#x}, beyond the last address {space - 1:#x}"
            raise TargetError(what, where, "a smaller `size`, or another `address`")
        for o in memories[:i]:
            if m.name.upper() == o.name.upper():
                hint = "capital letters make no difference: macros of the bundle have the name"
                raise TargetError(f"two memories are called {m.name!r}", where, hint)
            if max(m.address, o.address) < min(end, o.address + o.bytes):
                what = f"memory {m.name} at {m.address:#x} overlaps {o.name} at {o.address:#x}"
                hint = "one [[memory]] may have several uses; memories end at `address` + `size`"
                raise TargetError(what, where, hint)


def _checked(key: str, value: Any, where: str) -> Any:
    if key in _SIZES:
        return _bytes(value, key, where)
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
    extra = sorted(set(table) - {"name", "size", "speed", "section", "address", "use"})
    if extra:
        raise TargetError(f"unknown key {extra[0]!r} in [[memory]]", where)
    name = str(table["name"])
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]{0,30}", name):
        raise TargetError(f"memory name {name!r} is not an identifier", where)
    section = str(table.get("section", ""))
    if not re.fullmatch("[A-Za-z0-9_.$]{0,60}", section):
        raise TargetError(f"section {section!r} of memory {name} is no section name", where)
    speed = table.get("speed", 1.0)
    # In Python True and False are numbers, too.
    if not isinstance(speed, int | float) or isinstance(speed, bool) or not 0 < speed < 1e12:
        raise TargetError(
            f"speed {speed!r} of memory {name} is no number above 0 and below 1e12",
            where,
            "the fastest memory has speed = 1; 3 is three times as slow",
        )
    address = table.get("address", 0)
    if not isinstance(address, int) or isinstance(address, bool) or not 0 <= address < 1 << 63:
        raise TargetError(f"address {address!r} of memory {name} is no address", where)
    use = table.get("use", [])
    known = (*USES, HOT)
    wrong = [u for u in use if u not in known] if isinstance(use, list) else [use]
    if wrong:
        raise TargetError(
            f"use {wrong[0]!r} of memory {name} is unknown", where, f"known: {', '.join(known)}"
        )
    size = _bytes(table["size"], "size", where)
    return Memory(name, size, float(speed), section, address, tuple(use))


def _bytes(value: Any, key: str, where: str) -> int:
    """A size: an integer, or text with a suffix."""
    if isinstance(value, str):
        return parse_bytes(value, where)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise TargetError(f"{key} {value!r:.40} is not a number of bytes", where)
    return value


def widths(target: Target, options: Options) -> Iterator[Target]:
    """The target, and for `--objective ram` the same with narrower channel blocks.

    Channels are padded to whole blocks, so narrower vectors waste less of the arena. With
    `--accuracy strict` only the target without vectors: lanes add in an order of their own, and the
    bits would depend on the target.
    """
    if options.accuracy == "strict":
        yield replace(target, vlen=1)
        return
    yield target
    if options.objective == "ram":
        yield from (replace(target, vlen=v) for v in (8, 4, 1) if v < target.vlen)
