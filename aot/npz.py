# SPDX-License-Identifier: Apache-2.0
"""Reading and writing arrays in files: .npz, .npy. No pickles, no partly written file."""

from __future__ import annotations

import io
import os
import secrets
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from aot.errors import AotError, one_line

Array = np.ndarray[Any, Any]


def read_npz(path: Path) -> dict[str, Array]:
    """Every array of an .npz by key, in the file's order; AotError if it is none."""
    with _reading(path), np.load(path, allow_pickle=False) as file:
        if not hasattr(file, "files"):
            raise AotError(
                f"{path} holds one array, not an .npz",
                hint="an array needs the name of its input before it: x=array.npy",
            )
        twice = [key for key, count in Counter(file.files).items() if count > 1]
        if twice:
            raise AotError(f"{path} holds the key {one_line(twice[0][:200])!r} twice")
        found = {key: file[key] for key in file.files}
    for key, value in found.items():
        if not isinstance(value, np.ndarray):
            raise AotError(f"cannot read {path}: {one_line(key[:200])} is no array")
    return {key: _native(value) for key, value in found.items()}


def read_npy(path: Path) -> Array:
    """The array of a .npy file."""
    with _reading(path):
        value = np.load(path, allow_pickle=False)
    if not isinstance(value, np.ndarray):
        raise AotError(f"{path} is an .npz, not one array")
    return _native(value)


def _native(array: Array) -> Array:
    """The array in the byte order of this machine."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """AotError for whatever NumPy, zipfile and the decompressors raise at bytes of any kind."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise AotError(f"cannot read {path}: not a regular file")
        yield
    except AotError:
        raise
    except MemoryError as error:
        raise AotError(f"cannot read {path}: its arrays are larger than the memory") from error
    except Exception as error:
        why = "it is no .npz or .npy of plain arrays"
        if isinstance(error, OSError) and error.strerror:
            why = error.strerror
        raise AotError(f"cannot read {path}: {why}") from error


def same_file(a: Path, b: Path) -> bool:
    """Whether both names lead to one file that is there."""
    return os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b)


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays under any key (also those that are Python keywords); same arrays, same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for key, array in arrays.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
            file.writestr(zipfile.ZipInfo(key + ".npy"), entry.getvalue())
    write_bytes(path, buffer.getvalue())


def write_npy(path: Path, array: Array) -> None:
    """Write one array."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    write_bytes(path, buffer.getvalue())


def write_bytes(path: Path, data: bytes) -> None:
    """Write what a user asked for: a file is replaced in one step; a link (/dev/stdout), a pipe or
    a device stays and is written to. AotError if it cannot be written."""
    try:
        if path.is_symlink() or (path.exists() and not (path.is_file() or path.is_dir())):
            path.write_bytes(data)
            return
    except BrokenPipeError:
        raise
    except OSError as error:
        raise AotError(f"cannot write {path}: {error.strerror}") from error
    replace_file(path, data)


def replace_file(path: Path, data: bytes) -> None:
    """Replace `path`, or the link that is there, by a file with `data` in one step."""
    if not path.name or (path.is_dir() and not path.is_symlink()):
        raise AotError(f"cannot write {path}: it is a folder")
    partial = path.with_name(f".aotc-{secrets.token_hex(8)}")
    try:
        with partial.open("xb") as file:
            file.write(data)
        os.replace(partial, path)
    except (OSError, ValueError) as error:  # ValueError: a NUL
        with suppress(OSError):
            partial.unlink()
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise AotError(f"cannot write {path}: {why}") from error
