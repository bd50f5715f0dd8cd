# SPDX-License-Identifier: Apache-2.0
"""What calls of CMSIS-NN take of the stack, the library's functions included, for stack.py.

The library's sources, in the folder that AOT_CMSIS_NN_ROOT names, are compiled as CMake compiles
them with a bundle; gcc's call graphs say what the deepest chain from each call takes.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import stack_calls
from aot.emit_c.project import CFLAGS
from aot.plan.stack import outside
from aot.target import Target
from aot.tools.call_graph import deepest, read_graph, short

#: What the names of the calls begin with.
PREFIX = "aot_cmsis_nn_"
VENDOR = stack_calls.ROOT / "aot" / "vendor" / "cmsis_nn"
#: Ends of files that CMake leaves out.
FLOATS = ("_f16", "_f32", "_flt")


def library_rows(target: Target, folder: Path) -> dict[str, int]:
    """Call of the library → the most bytes that it takes on a target; {} without the library."""
    if "AOT_CMSIS_NN_ROOT" not in os.environ:
        return {}
    root = Path(os.environ["AOT_CMSIS_NN_ROOT"])
    files = [f for f in (root / "Source").rglob("*.c") if not f.stem.endswith(FLOATS)]
    headers = [root / "Include", VENDOR, stack_calls.ROOT / "runtime_c" / "include"]
    command = [stack_calls.compiler_of(target), "-std=gnu99", "-w", *CFLAGS, *target.cflags]
    command += ["-O2"] if target.board else ["-O3", "-fPIC"]
    command += [*(f"-I{h}" for h in headers), "-fcallgraph-info=su", "-c"]
    sources = [*files, VENDOR / "aot_cmsis_nn.c"]
    subprocess.run([*command, *map(str, sources)], cwd=folder, check=True)
    graph = read_graph(folder.glob("*.ci"))
    entries = [f for f in graph.frames if f.startswith(PREFIX)]
    more = outside.ASSEMBLY if target.arch == "arm" else 0
    return {e: deepest(graph, e, stack_calls.assumed(short(e))).bytes + more for e in entries}
