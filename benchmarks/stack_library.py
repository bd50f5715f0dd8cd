# SPDX-License-Identifier: Apache-2.0
"""What calls of CMSIS-NN and ESP-NN take of the stack, the libraries' functions included, for
stack.py.

The sources, in the folders that AOT_CMSIS_NN_ROOT and AOT_ESP_NN_ROOT name, are compiled as CMake
compiles them with a bundle; gcc's call graphs say what the deepest chain from each call takes.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import stack_calls
from aot.emit_c.project import CFLAGS
from aot.plan.stack import outside
from aot.target import Target
from aot.tools.call_graph import deepest, read_graph, short


@dataclass(frozen=True)
class Library:
    """A library of a vendor: the folders of its sources and headers, and the ends of files that
    CMake leaves out."""

    vendor: str
    sources: str
    headers: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def prefix(self) -> str:
        """What the names of the calls begin with."""
        return f"aot_{self.vendor}_"

    @property
    def variable(self) -> str:
        """What names its folder."""
        return f"AOT_{self.vendor.upper()}_ROOT"


LIBRARIES = (
    Library("cmsis_nn", "Source", ("Include",), ("_f16", "_f32", "_flt")),
    Library("esp_nn", "src", ("include", "src/common"), ("_esp32s3", "_esp32p4")),
)
#: What the names of calls begin with whose library is not there.
ABSENT = tuple(lib.prefix for lib in LIBRARIES if lib.variable not in os.environ)


def library_rows(target: Target, folder: Path) -> dict[str, int]:
    """Call of a library → the most bytes that it takes on a target; {} without the libraries."""
    rows: dict[str, int] = {}
    for library in LIBRARIES:
        if library.variable in os.environ:
            (folder / library.vendor).mkdir()
            rows |= _rows(library, target, folder / library.vendor)
    return rows


def _rows(library: Library, target: Target, folder: Path) -> dict[str, int]:
    """Those of one library."""
    root, vendor = Path(os.environ[library.variable]), stack_calls.ROOT / "aot" / "vendor"
    own = vendor / library.vendor
    files = [
        f for f in (root / library.sources).rglob("*.c") if not f.stem.endswith(library.others)
    ]
    headers = [
        *(root / h for h in library.headers),
        own,
        stack_calls.ROOT / "runtime_c" / "include",
    ]
    command = [stack_calls.compiler_of(target), "-std=gnu99", "-w", *CFLAGS, *target.cflags]
    command += ["-O2"] if target.board else ["-O3", "-fPIC"]
    command += [*(f"-I{h}" for h in headers), "-fcallgraph-info=su", "-c"]
    sources = [*files, own / f"aot_{library.vendor}.c"]
    subprocess.run([*command, *map(str, sources)], cwd=folder, check=True)
    graph = read_graph(folder.glob("*.ci"))
    entries = [f for f in graph.frames if f.startswith(library.prefix)]
    more = outside.ASSEMBLY if target.arch == "arm" else 0
    return {e: deepest(graph, e, stack_calls.assumed(short(e))).bytes + more for e in entries}
