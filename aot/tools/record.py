# SPDX-License-Identifier: Apache-2.0
"""OUT/aotc.json: what was compiled and how, and whether the files are still as aotc wrote them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aot.errors import AotError
from aot.load.source import Opened
from aot.options import Options
from aot.tools import build as tree
from aot.version import __version__

#: The manifest, below OUT.
MANIFEST = "bundle/manifest.json"


def changed(out: Path) -> str:
    """Which of the files that aotc wrote to `out` for itself is another now, "" if none is."""
    try:
        record = tree.read_json(out / tree.RECORD, "record of a compilation")
        options_of(record)
        same = record.get("manifest") == file_digest(out / MANIFEST)
    except (AotError, OSError, TypeError, ValueError):
        return tree.RECORD
    return "" if same else MANIFEST


def refuse_changed(out: Path) -> None:
    """AotError if the manifest is not the one that OUT/aotc.json remembers; without one any is."""
    if (out / tree.RECORD).is_file() and changed(out) == MANIFEST:
        raise _foreign(out)


@contextlib.contextmanager
def as_written(out: Path) -> Iterator[None]:
    """AotError for a manifest that somebody changed: at once, as refuse_changed does, and for what
    goes wrong later in a bundle without OUT/aotc.json, which is no fault of the compiler."""
    refuse_changed(out)
    try:
        yield
    except (AotError, OSError):
        raise
    except Exception as error:
        if not changed(out):
            raise
        raise _foreign(out) from error


def _foreign(out: Path) -> AotError:
    return AotError(f"{out / MANIFEST} is not as aotc wrote it", hint="compile again")


def record_of(opened: Opened, options: Options) -> dict[str, Any]:
    """What OUT/aotc.json remembers: the model's path, the digest of the bytes that were compiled
    (the file may be another one since), and the options."""
    return {
        "aotc": __version__,
        "model": None if opened.path is None else str(opened.path.resolve()),
        "sha256": opened.sha256,
        "options": _plain(_fields(options)),
    }


def _fields(options: Options) -> dict[str, Any]:
    """Fields of the record by name."""
    return {name: getattr(options, name) for name in Options.__slots__}


def _plain(value: Any) -> Any:
    """`value` in the types of JSON."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def file_digest(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _alike(value: Any, default: Any) -> bool:
    """Whether a stored option has the type of its default (a budget's is None)."""
    if default is None:
        return value is None or type(value) is int
    return type(value) is type(default)


def _size(stored: Any) -> Any:
    return tuple(stored) if isinstance(stored, list) else stored


def options_of(record: Mapping[str, Any]) -> Options:
    """The Options that OUT/aotc.json remembers; AotError if it is damaged. Unknown keys are left
    out.
    """
    stored = record.get("options", {})
    defaults = {k: _plain(v) for k, v in _fields(Options()).items()}
    if not isinstance(stored, dict):
        raise AotError(f"{tree.RECORD} is damaged: options is no object")
    known = {k: v for k, v in stored.items() if k in defaults}
    for key, value in known.items():
        if not _alike(value, defaults[key]):
            raise AotError(f"{tree.RECORD} is damaged: options.{key} is {str(value)[:40]!r}")
    for name in ("backends", "cut_inputs", "cut_outputs"):
        known[name] = tuple(known.get(name, ()))
    shapes = known.get("input_shapes", {})
    known["input_shapes"] = {k: tuple(_size(d) for d in v) for k, v in shapes.items()}
    known["dims"] = {k: _size(v) for k, v in known.get("dims", {}).items()}
    return Options(**known)
