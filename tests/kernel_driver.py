# SPDX-License-Identifier: Apache-2.0
"""Calls kernels in a C program with its data inside, on the host (sanitizers) or on a board.

The program prints the bytes of each result and, on a board, how many ticks its second run took.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

RUNTIME = Path(__file__).resolve().parent.parent / "runtime_c"
WARN = "-Wall -Wextra -Wconversion -Wshadow -Wdouble-promotion -Werror -pedantic".split()
Array = np.ndarray[Any, Any]
CTYPES = {"int8": "int8_t", "int32": "int32_t"}

COMMON = """
static void hex(const int8_t *y, int n) {
    static char text[64];
    int i, at = 0;
    for (i = 0; i < n; ++i) {
        text[at++] = "0123456789abcdef"[(y[i] >> 4) & 15];
        text[at++] = "0123456789abcdef"[y[i] & 15];
        if (at == 60) { text[at] = 0; say(text); at = 0; }
    }
    text[at] = 0;
    say(text);
    say("\\n");
}
static void number(uint32_t v) {
    char text[12];
    int at = 11;
    text[at] = 0;
    do { text[--at] = (char)('0' + v % 10U); v /= 10U; } while (v != 0);
    say(text + at);
    say("\\n");
}
"""

HOST = """
#include <stdio.h>
static void say(const char *s) { fputs(s, stdout); }
static uint32_t ticks(void) { return 0; }
"""

BOARD = """
static intptr_t semihost(intptr_t op, const void *arg) {
    register intptr_t r0 __asm__("r0") = op;
    register const void *r1 __asm__("r1") = arg;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
static void say(const char *s) { (void)semihost(4, s); }
#define REG(a) (*(volatile uint32_t *)(uintptr_t)(a))
static uint32_t ticks(void) { return 0xFFFFFFU - REG(0xE000E018U); }
int main(void);
extern uint32_t top_of_stack, data_from[], data_start[], data_end[], bss_start[], bss_end[];
void start(void);
void start(void) {
    uint32_t *s, *d;
    static const uint32_t leave[2] = {0x20026, 0};
    for (s = data_from, d = data_start; d < data_end;) { *d++ = *s++; }
    for (d = bss_start; d < bss_end;) { *d++ = 0; }
    REG(0xE000E014U) = 0xFFFFFFU;
    REG(0xE000E018U) = 0;
    REG(0xE000E010U) = 5;
    (void)main();
    (void)semihost(0x20, leave);
}
static void fault(void) {
    static const uint32_t leave[2] = {0x20026, 1};
    say("fault\\n");
    (void)semihost(0x20, leave);
}
__attribute__((naked, used)) void reset(void);
void reset(void) {
    __asm__ volatile("ldr r0, =0xE000ED88\\n ldr r1, [r0]\\n orr r1, r1, #0xF00000\\n"
                     "str r1, [r0]\\n dsb\\n isb\\n bl start\\n .ltorg\\n");
}
typedef struct { void *stack; void (*to[15])(void); } vectors_t;
__attribute__((section(".vectors"), used)) const vectors_t vectors = {
    &top_of_stack, {reset, fault, fault, fault, fault, fault, fault}};
"""

LINK = """
MEMORY {{ flash (rx) : ORIGIN = {flash}, LENGTH = {flash_size}
ram (rwx) : ORIGIN = {ram}, LENGTH = {ram_size} }}
SECTIONS {{
  .text : {{ KEEP(*(.vectors)) *(.text*) *(.rodata*) . = ALIGN(8); data_from = .; }} > flash
  .ARM.exidx : {{ *(.ARM.exidx*) }} > flash
  .data : AT(data_from) {{ data_start = .; *(.data*) . = ALIGN(8); data_end = .; }} > ram
  .bss (NOLOAD) : {{ bss_start = .; *(.bss*) *(COMMON) . = ALIGN(8); bss_end = .; }} > ram
  top_of_stack = ORIGIN(ram) + LENGTH(ram);
}}
"""


@dataclass(frozen=True)
class Board:
    """A machine of QEMU and how to build for it."""

    machine: str
    flags: Sequence[str]
    flash: str = "0x0"
    ram: str = "0x20000000"
    flash_size: str = "4M"
    ram_size: str = "4M"
    per_tick: float = 40.0


M4 = Board("mps2-an386", "-mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard".split())
M55 = Board(
    "mps3-an547",
    "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard".split(),
    flash="0x10000000",
    ram="0x31000000",
    flash_size="512K",
    per_tick=31.25,
)


@dataclass(frozen=True)
class Invocation:
    """One call: y [bytes], x, w, bias, mult, shift (None = NULL), scratch bytes, fields, instance.

    `repeat` calls are made (the second one is timed).
    """

    kernel: str
    size: int
    inputs: Sequence[Array | None]
    scratch: int
    fields: Mapping[str, int]
    instance: Mapping[str, int] = field(default_factory=dict)
    header: str = ""


def source(calls: Sequence[Invocation], board: bool) -> str:
    """The program's text."""
    heads = sorted({c.header or f"{c.kernel}.h" for c in calls})
    out = ["#include <stdint.h>", "#include <stddef.h>", *(f'#include "{h}"' for h in heads)]
    out += [BOARD if board else HOST, COMMON]
    # One function per kernel and instance constants, as bundles have them.
    made: dict[str, None] = {}
    body: list[str] = []
    for i, c in enumerate(calls):
        name = "_".join(
            [f"run_{c.kernel}", *(str(v).replace("-", "m") for v in c.instance.values())]
        )
        if name not in made:
            made[name] = None
            args = ", ".join(str(v) for v in c.instance.values())
            out.append(
                f"static AOT_NOINLINE void {name}(int8_t *y, const int8_t *x, const int8_t *w, "
                "const int32_t *b, const int32_t *m, const int8_t *s, void *t, "
                f"const {c.kernel}_params *p) {{ {c.kernel}(y, x, w, b, m, s, t, p"
                + (f", {args}" if args else "")
                + "); }"
            )
        names = []
        for j, a in enumerate(c.inputs):
            if a is None:
                names.append("NULL")
                continue
            values = ",".join(map(str, a.reshape(-1).tolist()))
            names.append(f"d{i}_{j}")
            out.append(
                f"AOT_ALIGNED(8) static const {CTYPES[str(a.dtype)]} d{i}_{j}[] = {{{values}}};"
            )
        values = ", ".join(f"{v}" for v in c.fields.values())
        out.append(f"static const {c.kernel}_params p{i} = {{{values}}};")
        out.append(f"AOT_ALIGNED(8) static int8_t y{i}[{c.size}];")
        scratch = "NULL"
        if c.scratch:
            out.append(f"AOT_ALIGNED(8) static int8_t t{i}[{c.scratch}];")
            scratch = f"t{i}"
        run = f"{name}(y{i}, {', '.join(names)}, {scratch}, &p{i});"
        body.append(
            f"{run} before = ticks(); {run} after = ticks(); hex(y{i}, {c.size});"
            " number((after - before) & 0xFFFFFFU);"
        )
    calls_text = "\n    ".join(body)
    out.append(
        f"int main(void) {{\n    uint32_t before, after;\n    {calls_text}\n    return 0;\n}}"
    )
    return "\n".join(out) + "\n"


def run(
    folder: Path,
    calls: Sequence[Invocation],
    board: Board | None = None,
    flags: Sequence[str] = ("-O2",),
    cc: str = "",
) -> list[tuple[Array, float]]:
    """The int8 results of the calls, and the instructions of each (0 on the host)."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "driver.c"
    text.write_text(source(calls, board is not None))
    image = folder / "driver.elf"
    command = ["-std=c99", *WARN, *flags, f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'kernels'}"]
    if board is None:
        sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1"]
        subprocess.run(
            [cc or "gcc", *command, *sanitize, "-o", str(image), str(text), "-lm"], check=True
        )
        command = [str(image)]
    else:
        link = folder / "driver.ld"
        link.write_text(LINK.format(**vars(board)))
        subprocess.run(
            [cc or "arm-none-eabi-gcc", *command, *board.flags, "-nostartfiles",
             "--specs=nano.specs", f"-T{link}", "-o", str(image), str(text)],
            check=True,
        )  # fmt: skip
        command = [
            "qemu-system-arm", "-M", board.machine, "-icount", "shift=0", "-semihosting-config",
            "enable=on,target=native", "-nographic", "-monitor", "none", "-serial", "none",
            "-kernel", str(image),
        ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    printed = done.stdout if board is None else done.stderr
    assert done.returncode == 0, printed + done.stderr
    lines = printed.split()
    tick = board.per_tick if board else 0.0
    return [
        (np.frombuffer(bytes.fromhex(a), np.int8), int(b) * tick)
        for a, b in zip(lines[::2], lines[1::2], strict=True)
    ]
