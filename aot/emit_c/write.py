# SPDX-License-Identifier: Apache-2.0
"""Files of a bundle, and how they get to disk: all or nothing."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from aot.errors import BuildError, InternalError
from aot.ir.deferred import Constant, parts_of


@dataclass(frozen=True, slots=True, eq=False)
class Blob:
    """A large file: arrays at byte offsets, zeros between; written without being built in memory.

    `parts` are (offset, constant) in increasing order, in the target's byte order.
    """

    parts: tuple[tuple[int, Constant], ...]
    nbytes: int

    def chunks(self) -> Iterator[memoryview | bytes]:
        """The bytes, in order."""
        at = 0
        for offset, data in self.parts:
            yield bytes(offset - at)
            for part in parts_of(data):
                yield part.reshape(-1).view(np.uint8).data
            at = offset + data.nbytes
        yield bytes(self.nbytes - at)

    def write(self, stream: IO[bytes]) -> None:
        """Write the bytes to `stream`."""
        for chunk in self.chunks():
            stream.write(chunk)

    def sha256(self) -> str:
        """Checksum of the bytes, in hexadecimal."""
        digest = hashlib.sha256()
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.hexdigest()

    def __bytes__(self) -> bytes:
        return b"".join(self.chunks())

    def __len__(self) -> int:
        return self.nbytes


File = bytes | Blob

#: A full disk, or a user's share of it; and what helps.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
MAKE_ROOM = "free some space, or choose -o on another disk"


def sha256(content: File) -> str:
    """Checksum of a file's bytes, in hexadecimal."""
    return content.sha256() if isinstance(content, Blob) else hashlib.sha256(content).hexdigest()


def write_bundle(files: Mapping[str, File], out: Path, name: str = "bundle") -> Path:
    """Replace the folder `name` of `out` by `files` and return its path.

    The new folder is complete before the old one goes; whatever fails, the old one stays and
    nothing half-written is left. Raises BuildError when `out` cannot be written.
    """
    made = _first_missing(out)
    target = out / name
    try:
        out.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=".bundle-", dir=out))
    except OSError as error:
        _remove_empty(made, out)
        raise unwritable(
            "cannot write the bundle", error, str(out), "choose another folder with -o"
        ) from error
    try:
        for path in sorted(files):
            _write(fresh, path, files[path])
        # A temporary folder is the user's alone; a bundle has the permissions of any new folder.
        fresh.chmod(0o777 & ~_umask())
        _swap(fresh, target)
    except OSError as error:
        raise unwritable(
            "cannot write the bundle", error, str(out), "choose another folder with -o"
        ) from error
    finally:
        remove(fresh, quietly=True)
        _remove_empty(made, out)
    return target


def _write(folder: Path, path: str, content: File) -> None:
    """Write one file of the bundle below `folder`; InternalError for a path that leaves it."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise InternalError(f"{path!r} leaves the bundle")
    place = folder / pure
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as stream:
        if isinstance(content, Blob):
            content.write(stream)
        else:
            stream.write(content)


def _swap(fresh: Path, target: Path) -> None:
    """Put `fresh` where `target` is, in one step where the system can; failures change nothing.

    What was at `target` is then at `fresh`, or gone.
    """
    if not target.is_symlink() and not target.exists():
        os.rename(fresh, target)
        return
    if _exchange(fresh, target):
        return
    # Between the two renames nothing is at `target`; if the second one fails, the old bundle
    # returns.
    old = Path(tempfile.mkdtemp(prefix=".bundle-", dir=target.parent))
    try:
        os.rename(target, old / "bundle")
        try:
            os.rename(fresh, target)
        except OSError:
            os.rename(old / "bundle", target)
            raise
    finally:
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Swap two paths atomically; False where the system or the file system has no such call."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(a), here, os.fsencode(b), ctypes.c_uint(exchange)) == 0)


def remove(path: Path, quietly: bool = False) -> None:
    """Remove a file, a link or a whole folder; `quietly` leaves of a folder what will not go."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=quietly)
    else:
        path.unlink(missing_ok=True)


def _umask() -> int:
    """The process's mask of permissions, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _first_missing(out: Path) -> Path | None:
    """The topmost folder that `mkdir -p out` would make."""
    missing = None
    for folder in (out, *out.parents):
        if folder.exists() or folder.is_symlink():
            break
        missing = folder
    return missing


def _remove_empty(made: Path | None, out: Path) -> None:
    """Remove the folders made for a bundle that was not written."""
    if made is None:
        return
    for folder in (out, *out.parents):
        try:
            folder.rmdir()
        except OSError:
            return
        if folder == made:
            return


def unwritable(what: str, error: OSError, where: str = "", otherwise: str = "") -> BuildError:
    """The error that `what` fails for, in `where`; `otherwise` is the hint where there is space."""
    hint = MAKE_ROOM if error.errno in NO_SPACE else otherwise
    return BuildError(f"{what}: {error.strerror or error}", where, hint)
