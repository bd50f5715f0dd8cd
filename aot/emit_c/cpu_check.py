# SPDX-License-Identifier: Apache-2.0
"""How `NAME_init` asks whether the CPU has the units that the kernels are compiled for.

Only files that compute get the compiler flags of these units. The interface, which asks, is
compiled for the architecture alone, so that the question cannot be an illegal instruction itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aot.emit_c import ctext
from aot.errors import TargetError
from aot.target import Target

#: Where a word about the CPU is: cpuid's leaf, subleaf and register, or an auxiliary vector entry.
Word = tuple[int, int, str]

#: Words of an architecture: bits of each, by the names of /proc/cpuinfo.
Words = Mapping[Word, Mapping[str, int]]

_LEAF1: Word = (1, 0, "ECX")
_OSXSAVE = 1 << 27
_XCR0: Word = (0, 0, "XCR0")
#: Bits of XCR0: what the system saves of registers of 256 and of 512 bits.
_YMM, _ZMM = 0x06, 0xE6


def _bits(text: str) -> Mapping[str, int]:
    """Names and bits from words `name=bit`."""
    return {name: int(bit) for name, _, bit in (word.partition("=") for word in text.split())}


_X86: Words = {
    _LEAF1: _bits(
        "pni=0 pclmulqdq=1 ssse3=9 fma=12 cx16=13 sse4_1=19 sse4_2=20 movbe=22 popcnt=23 aes=25 "
        "avx=28 f16c=29"
    ),
    (7, 0, "EBX"): _bits(
        "bmi1=3 avx2=5 bmi2=8 avx512f=16 avx512dq=17 adx=19 avx512ifma=21 avx512cd=28 sha_ni=29 "
        "avx512bw=30 avx512vl=31"
    ),
    (7, 0, "ECX"): _bits(
        "avx512vbmi=1 avx512_vbmi2=6 gfni=8 vaes=9 vpclmulqdq=10 avx512_vnni=11 avx512_bitalg=12 "
        "avx512_vpopcntdq=14"
    ),
    (7, 0, "EDX"): _bits("avx512_vp2intersect=8 avx512_fp16=23"),
    (7, 1, "EAX"): _bits("avx_vnni=4 avx512_bf16=5 avx_ifma=23"),
    (0x80000001, 0, "ECX"): _bits("lahf_lm=0 abm=5"),
}
_WIDE = ("avx", "fma", "f16c", "vaes", "vpclmulqdq")  # prefixes of what works on ymm at least

_HWCAP: Word = (16, 0, "EAX")
_HWCAP2: Word = (26, 0, "EAX")
_AARCH64: Words = {
    _HWCAP: _bits(
        "fp=0 asimd=1 aes=3 pmull=4 sha1=5 sha2=6 crc32=7 atomics=8 fphp=9 asimdhp=10 asimdrdm=12 "
        "jscvt=13 fcma=14 lrcpc=15 dcpop=16 sha3=17 asimddp=20 sha512=21 sve=22 asimdfhm=23 "
        "uscat=25 ilrcpc=26 flagm=27"
    ),
    _HWCAP2: _bits("sve2=1 flagm2=7 frint=8 i8mm=13 bf16=14"),
}
#: Architecture → the words that describe its CPUs, and the flag for any CPU of it.
_ARCHS: Mapping[str, tuple[Words, str]] = {
    "x86_64": (_X86, "-march=x86-64"),
    "aarch64": (_AARCH64, "-march=armv8-a"),
    "riscv64": ({_HWCAP: _bits("v=21")}, "-march=rv64gc"),
}

#: Flags that choose instructions. Others with `-m`, as -mcmodel=, are for every file.
_UNIT_FLAG = re.compile(r"-m((arch|cpu|tune)=.*|[^=]*)")


@dataclass(frozen=True, slots=True)
class CpuCheck:
    """What a bundle asks of the CPU: `names` of the units in a comment, `rows` of a C table.

    `units` are the compiler's flags of files that compute, `base` the one of the others.
    """

    names: str
    rows: str
    units: tuple[str, ...]
    base: str


def cpu_check(target: Target) -> CpuCheck | None:
    """What the library asks at init: nothing on boards and where any CPU of the architecture does.

    Raises TargetError for a name in `requires` that no word about the CPU has.
    """
    if target.board or not target.requires:
        return None
    words, base = _ARCHS.get(target.arch, ({}, ""))
    _refuse_unknown(target, words)
    rows = (
        f"{{{leaf:#x}U, {sub}U, AOT_CPU_{place}, {bits:#010x}U}},"
        for (leaf, sub, place), bits in _needs(target, words)
    )
    names = ctext.block(
        ["Units of the CPU that files use which compute: " + ", ".join(target.requires)]
    )
    return CpuCheck(names, "\n".join(f"    {row}" for row in rows), unit_flags(target), base)


def _needs(target: Target, words: Words) -> list[tuple[Word, int]]:
    """(word of a CPU register, bits that must be set in it) for the units that `target` requires.

    On x86-64 the first word also asks whether the system saves registers (OSXSAVE), and the second,
    XCR0, says which ones.
    """
    bits = {
        w: sum(1 << n for f, n in named.items() if f in target.requires)
        for w, named in words.items()
    }
    saved = max(map(_saved, target.requires)) if target.arch == "x86_64" else 0
    if saved:
        ask = bits.pop(_LEAF1) | _OSXSAVE
        bits = {_LEAF1: ask, _XCR0: saved, **bits}
    return [(word, mask) for word, mask in bits.items() if mask]


def common_flags(target: Target) -> tuple[str, ...]:
    """The target's flags for every file of the bundle."""
    if cpu_check(target) is None and not target.levels:
        return target.cflags
    units = unit_flags(target)
    return tuple(f for f in target.cflags if f not in units)


def base_flag(target: Target) -> str:
    """The flag for any CPU of the target's architecture; "" where none is known."""
    return _ARCHS.get(target.arch, ({}, ""))[1]


def unit_flags(target: Target) -> tuple[str, ...]:
    """The target's flags that choose instructions, for files that compute."""
    return tuple(f for f in target.cflags if _UNIT_FLAG.fullmatch(f))


def _saved(name: str) -> int:
    """Bits of XCR0 for the registers that a unit works on."""
    if name.startswith("avx512"):
        return _ZMM
    return _YMM if name.startswith(_WIDE) else 0


def _refuse_unknown(target: Target, words: Words) -> None:
    """Raise TargetError if `target` requires a unit that no word of its architecture tells."""
    known = [name for named in words.values() for name in named]
    unknown = [f for f in target.requires if f not in known]
    if unknown:
        hint = f"known: {', '.join(known)}" if known else "leave `requires` out"
        what = f"requires {unknown[0][:40]!r}: {target.arch} has no such unit that init can ask for"
        raise TargetError(f"target {target.name}: {what}", hint=hint)
