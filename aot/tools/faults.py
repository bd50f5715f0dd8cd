# SPDX-License-Identifier: Apache-2.0
"""What a failed program reports, in words: fault registers, status codes, errors of vendors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aot.errors import shell_word

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


def of_vendor(manifest: Mapping[str, Any], built: Path, stderr: str) -> tuple[str, str]:
    """(whose error stopped the program, what to do), of the bundle in `built`; "" if it was none.

    A vendor's own line on `stderr` begins with its name; without one, nodes say where its regions
    begin.
    """
    if VENDOR_ERROR not in stderr:
        return "", ""
    first: dict[str, dict[int, str]] = {}
    for call in manifest["nodes"]:
        if call["region"] >= 0:
            first.setdefault(call["backend"], {}).setdefault(call["region"], call["nodes"][0])
    own = [line for line in stderr.splitlines() if line.split(":")[0] in first]
    begun = (f"{v} (regions that begin at {', '.join(n.values())})" for v, n in first.items())
    option = " ".join(f"-DAOT_{vendor.upper()}=OFF" for vendor in first)
    out = shell_word(str(built))
    hint = f"`cmake {option} {out}`, built again, is portable C; --offload-limit N finds the region"
    return own[-1] if own else "; ".join(begun), hint
