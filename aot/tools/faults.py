# SPDX-License-Identifier: Apache-2.0
"""What a failed program reports, in words: fault registers, status codes, errors of vendors."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aot.errors import AotError, shell_word
from aot.tools.build import scratch

#: Bits of the Configurable Fault Status Register of Arm Cortex-M.
_CFSR = {
    0: "instruction access violation",
    1: "data access violation",
    3: "memory fault on exception return",
    4: "memory fault on exception entry",
    5: "memory fault saving floating-point registers",
    8: "bus error on instruction fetch",
    9: "bus error on data access",
    10: "imprecise bus error",
    11: "bus error on exception return",
    12: "bus error on exception entry",
    13: "bus error saving floating-point registers",
    16: "undefined instruction",
    17: "invalid state (not Thumb)",
    18: "invalid return address",
    19: "no coprocessor (floating-point unit absent or off)",
    20: "stack overflow",
    24: "unaligned access",
    25: "division by zero",
}
#: Exception quantised values of RISC-V's mcause.
_MCAUSE = (
    "misaligned instruction address",
    "instruction access fault",
    "illegal instruction",
    "breakpoint",
    "misaligned load",
    "load access fault",
    "misaligned store",
    "store access fault",
    *("environment call",) * 4,
    "instruction page fault",
    "load page fault",
    "fault 14",
    "store page fault",
)
_ILLEGAL = 2


def failure(program: str, code: int, stderr: str) -> str:
    """One sentence about a program that failed."""
    said = [line for line in stderr.strip().splitlines() if line.strip()]
    if code < 0:
        text = f"{program} was killed by signal {-code} ({signal.Signals(-code).name})"
        return f"{text}: {said[0]}" if said else text
    return f"{program} failed: {said[-1] if said else f'exit status {code}'}"


def fault_text(report: str) -> str:
    """The cause of a fault in words, from the registers of a board's report; "" if it holds
    none.
    """
    found = {k: int(v, 16) for k, v in re.findall(r"([a-z]+) (0x[0-9a-f]+)", report)}
    # RISC-V reports mcause, Cortex-M cfsr, and other programs the place alone.
    if "mcause" in found:
        cause, value = found["mcause"], found.get("mtval", 0)
        text = _MCAUSE[cause] if cause < len(_MCAUSE) else "unexpected interrupt"
        if value:
            text += f"{', instruction' if cause == _ILLEGAL else ' at address'} {value:#x}"
    elif "cfsr" in found:
        bits = [t for b, t in _CFSR.items() if found["cfsr"] >> b & 1]
        table = "vector table cannot be read" if found.get("hfsr", 0) & 2 else "hard fault"
        text = ", ".join(bits) or table
        if "address" in found:
            text += f" at address {found['address']:#x}"
    elif "pc" in found:
        text = "hard fault"
    else:
        return ""
    overflow = "stack overflow" in report and "stack overflow" not in text
    return text + (", stack overflow" if overflow else "")


def status_text(report: str, header: Path) -> str:
    """`report` with the text of the status code it ends in, as the bundle's aot.h words it."""
    match = re.search(r"status (0x[0-9a-f]+)$", report)
    if match is None or not header.is_file():
        return report
    source = header.read_text(encoding="ascii", errors="replace")
    names = {int(v): n for n, v in re.findall(r"(AOT_[A-Z_]+) = (\d+)", source)}
    name = names.get(int(match[1], 16), "")
    text = re.search(rf'case {name}:\s*return "([^"]*)"', source) if name else None
    return f"{report[: match.start()]}{text[1]}" if text else report


#: What a program says of AOT_VENDOR (`aot_status_text`).
VENDOR_ERROR = "a vendor library reported an error"


def of_vendor(
    manifest: Mapping[str, Any], built: Path, stderr: str, traced: Callable[[str], object]
) -> tuple[str, str]:
    """(whose error stopped the program, what to do), of the bundle in `built`; "" if it was none.

    A vendor's own line on `stderr` begins with its name. Without one, a node says where the region
    begins that fails again while `traced(folder)` runs, or where all do if none does.
    """
    if VENDOR_ERROR not in stderr:
        return "", ""
    first: dict[str, dict[int, str]] = {}
    for call in manifest["nodes"]:
        if call["region"] >= 0:
            first.setdefault(call["backend"], {}).setdefault(call["region"], call["nodes"][0])
    own = [line for line in stderr.splitlines() if line.split(":")[0] in first]
    several = not own and sum(map(len, first.values())) > 1
    last = _last_call(built, traced) if several else None
    failed = [] if last is None else [c for c in manifest["nodes"][last + 1 :] if c["region"] >= 0]
    # The call that comes next is in the region that failed.
    first = {c["backend"]: {0: first[c["backend"]][c["region"]]} for c in failed[:1]} or first
    begun = (f"{v} (region that begins at {' or '.join(n.values())})" for v, n in first.items())
    option = " ".join(f"-DAOT_{vendor.upper()}=OFF" for vendor in first)
    out = shell_word(str(built))
    hint = f"`cmake {option} {out}`, built again, is portable C"
    return own[-1] if own else "; ".join(begun), hint


def _last_call(out: Path, traced: Callable[[str], object]) -> int | None:
    """The last call that is made while `traced(folder)` runs, which leaves a file of each there,
    before a vendor fails; None if none does.
    """
    with scratch(out) as place:
        try:
            traced(place)
        except AotError as error:
            if VENDOR_ERROR in error.what:
                calls = (int(f.name.partition("_")[0]) for f in Path(place).glob("*_*.bin"))
                return max(calls, default=-1)
        return None
