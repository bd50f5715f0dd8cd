# SPDX-License-Identifier: Apache-2.0
"""The instructions of one run of a bundle that QEMU's user mode runs, for processors of which
QEMU's times say nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from aot.tools.run import Built, start

PLUGIN = Path(__file__).with_suffix(".c")


def instructions(built: Built, files: list[str], work: Path) -> int:
    """Those of three runs less those of one, halved; `files` are the options with the inputs."""
    plugin, to = work / "instructions.so", work / "instructions.txt"
    command = ["cc", "-O2", "-shared", "-fPIC", "-Wall", "-Werror", str(PLUGIN), "-o", str(plugin)]
    subprocess.run(command, check=True)
    counts = []
    for runs in ("1", "3"):
        to.unlink(missing_ok=True)
        os.environ["QEMU_PLUGIN"] = f"{plugin},to={to}"
        try:
            start(built, [*files, "--repeat", runs, "--warmup", "1"])
        finally:
            del os.environ["QEMU_PLUGIN"]
        counts.append(int(to.read_text()))
    return (counts[1] - counts[0]) // 2
