# SPDX-License-Identifier: Apache-2.0
"""Writing a bundle: all or nothing."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from aot.emit_c import write
from aot.emit_c.write import Blob, write_bundle
from aot.errors import BuildError, InternalError


def tree(folder: Path) -> dict[str, bytes]:
    found = (p for p in sorted(folder.rglob("*")) if p.is_file())
    return {str(p.relative_to(folder)): p.read_bytes() for p in found}


class Broken(Blob):
    """A file whose bytes cannot be had."""

    def write(self, stream) -> None:
        stream.write(b"half")
        raise OSError(28, "No space left on device")


def test_replaces_the_old_bundle_whole(tmp_path: Path) -> None:
    write_bundle({"a.txt": b"1", "d/b.txt": b"2"}, tmp_path / "x" / "out")
    (tmp_path / "x" / "out" / "CMakeCache.txt").write_text("kept")
    made = write_bundle({"a.txt": b"3", "e/c.txt": b"4"}, tmp_path / "x" / "out")
    assert made == tmp_path / "x" / "out" / "bundle"
    assert tree(tmp_path) == {
        "x/out/CMakeCache.txt": b"kept",
        "x/out/bundle/a.txt": b"3",
        "x/out/bundle/e/c.txt": b"4",
    }
    assert os.stat(made).st_mode & 0o777 == 0o777 & ~write._umask()


def test_a_failure_keeps_the_old_bundle(tmp_path: Path) -> None:
    write_bundle({"a.txt": b"1"}, tmp_path)
    with pytest.raises(BuildError, match="No space left on device"):
        write_bundle({"a.txt": b"2", "z.bin": Broken((), 4)}, tmp_path)
    assert tree(tmp_path) == {"bundle/a.txt": b"1"}


def test_a_failure_leaves_no_new_folder(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="cannot write the bundle"):
        write_bundle({"z.bin": Broken((), 4)}, tmp_path / "new" / "out")
    assert list(tmp_path.iterdir()) == []


def test_without_an_atomic_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "_exchange", lambda _a, _b: False)
    write_bundle({"a.txt": b"1"}, tmp_path)
    write_bundle({"b.txt": b"2"}, tmp_path)
    assert tree(tmp_path) == {"bundle/b.txt": b"2"}
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]


def test_out_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(BuildError, match="cannot write the bundle") as error:
        write_bundle({"a.txt": b"1"}, tmp_path / "out")
    assert "hint" in str(error.value)
    assert tree(tmp_path) == {"out": b"mine"}


def test_bundle_is_a_file_or_a_link(tmp_path: Path) -> None:
    (tmp_path / "bundle").write_text("in the way")
    write_bundle({"a.txt": b"1"}, tmp_path)
    assert tree(tmp_path) == {"bundle/a.txt": b"1"}
    other = tmp_path / "other"
    (tmp_path / "bundle").rename(other)
    (tmp_path / "bundle").symlink_to(other)
    write_bundle({"b.txt": b"2"}, tmp_path)
    assert tree(tmp_path) == {"bundle/b.txt": b"2", "other/a.txt": b"1"}


def test_no_path_leaves_the_bundle(tmp_path: Path) -> None:
    for path in ("../x", "/tmp/x", "a/../../x"):
        with pytest.raises(InternalError, match="leaves the bundle"):
            write_bundle({path: b""}, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_blob(tmp_path: Path) -> None:
    parts = ((0, np.arange(3, dtype=np.uint8)), (64, np.array([1.0], np.float32)))
    blob = Blob(parts, 70)
    want = bytes([0, 1, 2]) + bytes(61) + b"\0\0\x80\x3f" + bytes(2)
    assert bytes(blob) == want
    assert len(blob) == 70
    assert write.sha256(blob) == write.sha256(want)
    write_bundle({"w.bin": blob}, tmp_path)
    assert tree(tmp_path) == {"bundle/w.bin": want}
