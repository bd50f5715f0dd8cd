# SPDX-License-Identifier: Apache-2.0
"""Functions that call kernels, each compiled once with the sanitizers and kept in a folder."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from aot.emit_c import kernels
from sanitizers import BY_CALLS

ROOT = Path(__file__).resolve().parents[2]
GROUP = 24  # kernels compiled together

TYPES = """\
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include "aot/aot.h"
#include "aot/port.h"
typedef struct { size_t at, bytes; } fuzz_range;
typedef struct { size_t bytes, elem; } end_;
typedef struct {
    int inputs, outputs;
    const end_ *ends;
    size_t arena;
    int arena_gaps;
    const fuzz_range *arena_gap;
    size_t weights;
    int weight_gaps;
    const fuzz_range *weight_gap;
    int zeros;
    const fuzz_range *zero;
    int reads;
    const fuzz_range *read;
    const unsigned char **place;
    aot_status (*execute)(unsigned char *, const unsigned char *const *, unsigned char *const *);
    int steps;
    size_t data;
} fuzz_case;
"""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function that calls a kernel: its text (with the name KERNEL), the header it needs."""

    text: str
    header: str

    def prototype(self, name: str) -> str:
        """Its declaration under another name."""
        return self.text.split(" {", 1)[0].replace("KERNEL", name, 1) + ";"


@cache
def closure(header: str) -> str:
    """A digest of a kernel header and all that it includes."""
    found = kernels.collect([header])
    digest = hashlib.sha256()
    for name in sorted(found.files):
        digest.update(name.encode() + b"\0" + bytes(found.files[name]))
    return digest.hexdigest()


@dataclass
class Cache:
    """Compiled kernels in `folder`: objects, and an index of which function is in which."""

    folder: Path
    compiler: str = "gcc"
    index: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "index"
        if path.exists():
            rows = (line.split() for line in path.read_text().splitlines())
            self.index = {r[0]: r[1] for r in rows if len(r) == 2}

    def name(self, kernel: Kernel, flags: Sequence[str]) -> str:
        """The external name of a function: same text, headers, compiler and flags, same name."""
        parts = [kernel.text, closure(kernel.header), self.compiler, *flags]
        return "k" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]

    def ensure(self, wanted: dict[str, Kernel], flags: Sequence[str]) -> dict[str, str]:
        """Compile what is missing of `wanted`; errors by name."""
        missing = [n for n in wanted if n not in self.index]
        missing.sort(key=lambda n: (wanted[n].header, wanted[n].text))
        errors: dict[str, str] = {}
        for i in range(0, len(missing), GROUP):
            self._compile({n: wanted[n] for n in missing[i : i + GROUP]}, flags, errors)
        return errors

    def _compile(self, part: dict[str, Kernel], flags: Sequence[str], errors: dict) -> None:
        includes = dict.fromkeys(f'#include "{k.header}"\n' for k in part.values())
        text = TYPES + "".join(includes)
        for name, kernel in part.items():
            text += kernel.prototype(name) + "\n" + kernel.text.replace("KERNEL", name, 1)
        digest = hashlib.sha256("".join(part).encode()).hexdigest()[:20]
        stem = self.folder / f"g{digest}"
        own = f"{stem}.{os.getpid()}"
        Path(f"{own}.c").write_text(text)
        how = [*flags, *([BY_CALLS] if self.compiler == "gcc" else []), *INCLUDE]
        failed = command([self.compiler, *how, "-c", f"{own}.c", "-o", f"{own}.o"])
        Path(f"{own}.c").unlink()
        if not failed:
            os.replace(f"{own}.o", f"{stem}.o")
            with (self.folder / "index").open("a") as file:
                file.write("".join(f"{n} {stem.name}.o\n" for n in part))
            self.index |= {n: f"{stem.name}.o" for n in part}
        elif len(part) == 1:
            errors[next(iter(part))] = failed
        else:
            rows = list(part.items())
            for piece in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
                self._compile(dict(piece), flags, errors)


INCLUDE = tuple(f"-I{ROOT}/runtime_c{part}" for part in ("/include", "/kernels", ""))


def command(words: Sequence[str]) -> str:
    """Run a compiler; what it complains of, "" if nothing."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return first_errors(done.stderr) or "failed" if done.returncode else ""


def first_errors(text: str) -> str:
    """The lines of a compiler's or sanitizer's output that say what is wrong."""
    lines = [s for s in text.splitlines() if re.search("rror|undefined reference|#[0-3] |fuzz:", s)]
    return " | ".join(s.strip() for s in lines[:5])[:700] or text[-300:]
