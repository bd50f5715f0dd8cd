# SPDX-License-Identifier: Apache-2.0
"""A process that runs Vela: requests come in on its standard input, answers leave on its output.

Vela's C++ ends the process for some input. A request is (architecture, settings, options, network);
an answer is a dictionary, or a text that says why there is none.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

LEFT = "Vela leaves a part of it to the CPU"
#: What Vela says of a network that is not one operator of the NPU in the end.
SEVERAL = "RawWriter expects"


def _tensor(made: Any) -> tuple[int, int, int]:
    """(region of memory, first byte, bytes) of a tensor that Vela placed."""
    return int(made.region), int(made.address), int(made.size)


def answer(architecture: str, settings: str, options: str, network: bytes) -> dict[str, Any] | str:
    """What Vela makes of a network; a text where it raises or leaves operators to the CPU."""
    # Imported here, in the worker, whose crash does not end the compiler.
    from ethosu import regor

    try:
        made = regor.compile(architecture, network, "TFLITE", settings, options=options)
    except Exception as error:
        text = " ".join(str(error).split())
        return LEFT if SEVERAL in text else f"Vela: {text}"
    report = made.perf_report
    if report.cpuOps:
        return LEFT
    return {
        "commands": bytes(made.command_stream),
        "weights": bytes(made.read_only.data),
        "scratch": _tensor(made.scratch)[2],
        "fast": _tensor(made.scratch_fast)[2],
        "inputs": [_tensor(t) for t in made.inputs],
        "outputs": [_tensor(t) for t in made.outputs],
        "cycles": int(report.totalCycles),
        "npu_cycles": int(report.npuCycles),
        "operations": int(report.npuOps),
        "macs": int(report.macCount),
        "memories": {m.memoryName: int(m.peakUsage) for m in report.memories.values()},
    }


def main() -> None:
    """Answer requests until there are no more."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Vela prints
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(answer(*request), out)
        out.flush()


if __name__ == "__main__":
    main()
