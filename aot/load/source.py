# SPDX-License-Identifier: Apache-2.0
"""Bytes to ModelProto: only regular files, only well-formed ones, each refused in one sentence."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from aot.errors import ModelError, UsageError, near, shell_word
from aot.ir.deferred_import import ir, onnx

#: No message of protobuf can be larger.
PROTOBUF_LIMIT = (1 << 31) - 1


def read_model(source: str | os.PathLike[str] | bytes) -> tuple[onnx.ModelProto, Path | None]:
    """The model and the folder its external data lives in (None for bytes)."""
    if isinstance(source, bytes):
        return parse(source, "the bytes given"), None
    path = Path(source)
    return parse(read_regular(path), str(path)), path.resolve().parent


def _neighbour(path: Path) -> str:
    """A hint: the file of the same folder that was probably meant, "" if none is."""
    try:
        name = near(path.name, os.listdir(path.parent))
    except OSError:
        return ""
    return f"did you mean {shell_word(path.with_name(name))}?" if name else ""


def read_regular(path: Path) -> bytes:
    """The bytes of the regular file `path`; ModelError for anything else, and above 2 GiB."""
    where = str(path)
    try:
        info = path.stat()
    except FileNotFoundError:
        raise ModelError("the model file does not exist", where, _neighbour(path)) from None
    except (OSError, ValueError) as e:
        raise ModelError(f"the model file cannot be read: {_reason(e)}", where) from None
    # A pipe or a device may block, or never end.
    if not stat.S_ISREG(info.st_mode):
        raise ModelError(f"the model is {_kind(info.st_mode)}, not a regular file", where)
    if info.st_size == 0:
        raise ModelError("the model file is empty (0 bytes)", where)
    if info.st_size > PROTOBUF_LIMIT:
        hint = "save the model with its weights as external data"
        raise ModelError(f"the model file has {info.st_size} bytes (limit 2 GiB)", where, hint)
    try:
        return path.read_bytes()
    except OSError as e:
        raise ModelError(f"the model file cannot be read: {_reason(e)}", where) from None


def parse(data: bytes, where: str) -> onnx.ModelProto:
    """The model in `data`, which at least has a graph and an opset; ModelError otherwise."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        hint = "the file may be truncated, nested too deeply, or of another format"
        what = f"not an ONNX model: its {len(data)} bytes cannot be decoded"
        raise ModelError(what, where, hint) from None
    if not model.HasField("graph"):
        hint = "the file may be truncated or of another format"
        raise ModelError("not an ONNX model: it holds no graph", where, hint)
    if not model.opset_import:
        raise ModelError("the model does not say which opset it uses (opset_import)", where)
    return model


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _kind(mode: int) -> str:
    """The kind of a file of this mode in words, for a message."""
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")


class Opened(NamedTuple):
    """A model that has been read: `read_proto` gives it as it is."""

    proto: onnx.ModelProto
    folder: Path | None
    path: Path | None = None
    sha256: str | None = None


def open_model(source: Any) -> Opened:
    """A model that is read once: also the path of its file and the SHA-256 of its bytes, None for
    an object that is no file's content."""
    path = Path(source) if isinstance(source, (str, os.PathLike)) else None
    data = source if path is None else read_regular(path)
    if not isinstance(data, bytes):
        return Opened(*read_proto(source))
    where, folder = (
        ("the bytes given", None) if path is None else (str(path), path.resolve().parent)
    )
    return Opened(parse(data, where), folder, path, hashlib.sha256(data).hexdigest())


def read_proto(source: Any) -> tuple[onnx.ModelProto, Path | None]:
    """The ModelProto behind whatever holds a model, and the folder of its external data.

    Raises UsageError for an object of another kind.
    """
    if isinstance(source, Opened):
        return source.proto, source.folder
    if isinstance(source, (str, os.PathLike, bytes)):
        return read_model(source)

    if isinstance(source, ir.Model):
        return ir.to_proto(source), None
    if not isinstance(source, onnx.ModelProto):
        kinds = "a path, bytes, a ModelProto or an onnx_ir.Model"
        raise UsageError(f"the model is of type {type(source).__name__}, not {kinds}")
    return source, None
