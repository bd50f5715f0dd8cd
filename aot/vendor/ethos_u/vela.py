# SPDX-License-Identifier: Apache-2.0
"""Networks of the TFLite format as command streams: Vela, in a process of its own."""

from __future__ import annotations

import atexit
import hashlib
import pickle
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aot.vendor.ethos_u.configs import Npu

#: How Vela is asked to compile: performance first, one scratch memory that holds inputs and
#: outputs, the header that every driver of Arm reads.
OPTIONS = """
[compiler]
output_format=Raw
cop_format=COP1

[scheduler]
optimize={objective}
arena_size_limit={limit}
disable_feature=
cpu_tensor_alignment=16
tensor_allocator=HillClimb
"""
#: Bytes of scratch up to which Vela may trade memory for speed, where its file says nothing.
ARENA = str(4 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A region as Vela compiled it. Sizes in bytes; `fast` is 0 where one memory is both.

    `inputs` and `outputs` are (region of memory, first byte, bytes), in the network's order;
    `memories` are bytes used of each memory, by Vela's name of it.
    """

    commands: bytes
    weights: bytes
    scratch: int
    fast: int
    inputs: list[tuple[int, int, int]]
    outputs: list[tuple[int, int, int]]
    cycles: int
    npu_cycles: int
    operations: int
    macs: int
    memories: dict[str, int]


class VelaError(Exception):
    """Vela cannot compile a network for the NPU alone; the text says why."""


class Worker:
    """The process, which is started at its first request and again after one that ended it."""

    def __init__(self) -> None:
        """No process yet, and no answers; `_known` holds answers by what was asked."""
        self._process: subprocess.Popen[bytes] | None = None
        self._said: Any = None
        self._known: dict[bytes, Compiled | str] = {}

    def compile(self, npu: Npu, network: bytes, objective: str = "Performance") -> Compiled:
        """The network, a TFLite flatbuffer, compiled for an NPU.

        Raises VelaError, with the last words of Vela, where Vela ends without a result.
        """
        limit = npu.value(f"Memory_Mode.{npu.memory}", "arena_cache_size", ARENA)
        options = OPTIONS.format(objective=objective, limit=limit)
        request = (npu.architecture, npu.settings(), options, network)
        key = hashlib.blake2b(pickle.dumps(request)).digest()
        if key not in self._known:
            self._known[key] = self._ask(request)
        found = self._known[key]
        if isinstance(found, str):
            raise VelaError(found)
        return found

    def _ask(self, request: tuple[str, str, str, bytes]) -> Compiled | str:
        """Send a request to the process and return its answer: the compiled network, or a text if
        refused.

        A process that ended is closed; the text then holds the last line that it printed.
        """
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.close()
            self._said.seek(0)
            lines = self._said.read().decode("utf-8", "replace").split("\n")
            return f"Vela ended: {next((t for t in reversed(lines) if t.strip()), 'no word')}"
        return answer if isinstance(answer, str) else Compiled(**answer)

    def _running(self) -> subprocess.Popen[bytes]:
        """The process, started if there is none; it is closed when Python exits."""
        if self._process is None:
            self._said = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
            command = [sys.executable, str(Path(__file__).with_name("worker.py"))]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._said)
            atexit.register(self.close)
        return self._process

    def close(self) -> None:
        """End the process, which keeps nothing."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


worker = Worker()
