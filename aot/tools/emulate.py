# SPDX-License-Identifier: Apache-2.0
"""The command that runs a bundle's program: directly, by QEMU's user mode, or on a QEMU board.

Everything comes from `target` in the bundle's manifest, so a user's own chip needs nothing more.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aot.errors import TargetError, UsageError
from aot.target import cpu_flags, machine

#: Seconds after which a board is taken to hang: an emulated one runs some 10^8 instructions in one.
TIMEOUT = 240.0

#: Semihosting gives the program files, arguments and an exit status. One instruction takes one
#: nanosecond of emulated time, so counters count instructions and every run is the same.
_BOARD = ("-icount", "shift=0", "-nographic", "-monitor", "none", "-serial", "none")

_RUNNER = "for instance --runner 'ssh HOST {}'"


def patience() -> float:
    """Seconds to wait for a board: more where other programs keep this machine's CPUs busy."""
    try:
        busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        busy = 1.0
    return TIMEOUT * max(1.0, busy)


def is_board(target: Mapping[str, Any]) -> bool:
    """Whether the program is an image without operating system, `bin/NAME.elf`."""
    return target.get("system") == "none"


def is_native(target: Mapping[str, Any]) -> bool:
    """Whether this machine is of the target's architecture and system."""
    return not is_board(target) and target.get("arch", machine()) == machine()


def command(
    name: str, target: Mapping[str, Any], program: Path, arguments: Sequence[str]
) -> list[str]:
    """The command that runs `program` with `arguments` on this machine or in the target's emulator.

    TargetError if there is no emulator for the target, or its program is not installed.
    """
    place = str(program.resolve())
    if is_native(target):
        check_cpu(name, target)
        return [place, *arguments]
    emulator = [str(word) for word in target.get("emulator", ())]
    if not emulator:
        raise TargetError(
            f"{name} is built for {target.get('name')}: no emulator is known for it",
            hint='the target file names one: emulator = ["qemu-system-arm", "-M", "BOARD"]',
        )
    found = shutil.which(emulator[0])
    if found is None:
        packages = " ".join(target.get("emulator_packages", ())) or emulator[0]
        raise TargetError(
            f"{name} is built for {target.get('name')}: {emulator[0]} was not found",
            hint=f"apt-get install --no-install-recommends {packages}",
        )
    emulator[0] = os.path.abspath(found)  # the program runs in a folder of its own
    if not is_board(target):
        return [*emulator, place, *arguments]
    words = [name, *arguments]
    given = "".join(",arg=" + word.replace(",", ",,") for word in words)
    config = "enable=on,target=native" + given
    return [*emulator, *_BOARD, "-semihosting-config", config, "-kernel", place]


def by_runner(
    runner: str, target: Mapping[str, Any], program: Path, arguments: Sequence[str]
) -> list[str]:
    """The words of the command `runner`, with `program` and `arguments` in place of the word `{}`.

    Without `{}` they come last. UsageError for a runner that is no command or has quotes left open,
    and for boards, whose images get their arguments by semihosting.
    """
    if is_board(target):
        what = f"--runner {runner}: an image of {target.get('name')} takes no words as arguments"
        raise UsageError(what, hint="a target file names the command: emulator = [...]")
    try:
        words = shlex.split(runner)
    except ValueError as error:
        raise UsageError(f"--runner {runner}: {error}", hint=_RUNNER) from error
    if not words or words[0] == "{}" or shutil.which(words[0]) is None:
        what = f"--runner {runner}: {words[0] if words else 'nothing'} is no command here"
        raise UsageError(what, hint=_RUNNER)
    whole = [str(program.resolve()), *arguments]
    at = words.index("{}") if "{}" in words else len(words)
    return [*words[:at], *whole, *words[at + 1 :]]


def check_cpu(name: str, target: Mapping[str, Any]) -> None:
    """TargetError, with the units' names, if this machine lacks some that `name` is built for."""
    missing = [f for f in target.get("requires", ()) if f not in cpu_flags()]
    if missing:
        raise TargetError(
            f"{name} is built for {target.get('cpu')}, this CPU lacks {', '.join(missing)}",
            hint="compile with --target host",
        )
