# SPDX-License-Identifier: Apache-2.0
"""Streams of a bundle as text: files that end in .ax1 hold nothing but instructions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aot.vendor import BackendError
from aot.vendor.accel_sim.asm import disassemble
from aot.vendor.accel_sim.encode import StreamError
from aot.vendor.accel_sim.isa import BYTES

SUFFIX = ".ax1"


@dataclass(frozen=True, slots=True)
class Listing:
    """A stream as text; `name` is relative to where it was looked for."""

    name: str
    count: int
    text: str


def listings(path: Path) -> list[Listing]:
    """The listing of the stream `path`, or of every stream below the folder `path`.

    Raises BackendError if there is none, or for one that is not a stream.
    """
    if not path.exists():
        raise BackendError(f"{path} does not exist")
    folder = path if path.is_dir() else path.parent
    files = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not files:
        raise BackendError(
            f"no commands of an accelerator (*{SUFFIX}) in {path}",
            hint="compile the model with --backend accel_sim to get some",
        )
    return [_listing(f, str(f.relative_to(folder))) for f in files]


def _listing(file: Path, name: str) -> Listing:
    """The listing of one file; BackendError if it cannot be read or is no stream of
    instructions.
    """
    try:
        data = file.read_bytes()
        return Listing(name, len(data) // BYTES, disassemble(data))
    except OSError as error:
        raise BackendError(f"{file} cannot be read: {error.strerror}") from error
    except StreamError as error:
        where = f"{file}, {error.where}" if error.where else str(file)
        raise BackendError(error.what, where) from error
