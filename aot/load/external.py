# SPDX-License-Identifier: Apache-2.0
"""External data: proven to lie in the model's folder before a byte of it is read."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np

from aot.errors import ModelError
from aot.ir.deferred_import import ir, onnx
from aot.load.tensors import BITS, expected_bytes

KEYS = ("location", "offset", "length", "checksum")


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether the elements of `tensor` live in another file."""
    return bool(tensor.data_location == 1)


def locate(tensor: onnx.TensorProto, folder: Path | None) -> tuple[Path, int, int]:
    """(file, offset, length), in bytes, of an external tensor, proven to be contained and complete.

    ModelError for anything else.
    """
    where = f'tensor "{tensor.name}"'
    if folder is None:
        raise ModelError("external data needs a model that is a file", where)
    entries = _entries(tensor, where)
    location = entries.get("location", "")
    path = _contained(location, folder, where)
    needed = expected_bytes(tensor)
    offset = _number(entries.get("offset", "0"), "offset", where)
    length = _number(entries.get("length", str(needed)), "length", where)
    if length != needed:
        what = f"external data has length {length}, its shape {list(tensor.dims)} needs {needed}"
        raise ModelError(what, where)
    size = _regular_size(path, location, where)
    # Reading a mapped file beyond its end kills the process, so the size is checked before.
    if offset + length > size:
        what = f'external data ends at byte {offset + length}, "{location}" has {size}'
        raise ModelError(what, where, "the file may be truncated")
    return path, offset, length


def mapped(tensor: onnx.TensorProto, folder: Path | None, name: str) -> ir.TensorProtocol:
    """A tensor called `name` that maps the bytes of the external tensor `tensor`, and only those,
    when its elements are first asked for.

    Raises ModelError as `locate` does, and later for a file that can no longer be mapped.
    """
    path, offset, length = locate(tensor, folder)
    dtype, shape = ir.DataType(tensor.data_type), ir.Shape(tensor.dims)
    packed = BITS[tensor.data_type] < 8
    element = np.dtype(np.uint8 if packed else dtype.numpy()).newbyteorder("<")
    count = length // element.itemsize

    def load() -> ir.TensorProtocol:
        """Map the bytes of the tensor; ModelError if the file cannot be read."""
        try:
            # memmap begins at the page of `offset`: onnx_ir's own ExternalTensor maps the whole
            # file for every tensor, which is more than the address space for a large model.
            # It takes no empty range at the end of a file.
            data = np.memmap(path, element, "r", offset, count) if count else np.empty(0, element)
        except (OSError, ValueError) as e:
            raise ModelError(f'external data "{path.name}": {e}', f'tensor "{name}"') from None
        if packed:
            return ir.PackedTensor(np.asarray(data), dtype, shape=shape)
        return ir.Tensor(np.asarray(data).reshape(shape.numpy()), dtype=dtype)

    return ir.LazyTensor(load, dtype, shape, cache=True, name=name)


def _entries(tensor: onnx.TensorProto, where: str) -> dict[str, str]:
    """The entries of external data by key; ModelError for an unknown key or one given twice."""
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key not in KEYS:
            raise ModelError(f'external data has an unknown key "{entry.key}"', where)
        if entry.key in entries:
            raise ModelError(f'external data gives "{entry.key}" twice', where)
        entries[entry.key] = entry.value
    return entries


def _contained(location: str, folder: Path, where: str) -> Path:
    """The file at `location` below `folder`, symbolic links followed; it need not exist.

    ModelError for a path that leads outside; `where` is the place that an error names.
    """
    plain = location.replace("\\", "/")
    parts = PurePosixPath(plain).parts
    if not parts or "\0" in location:
        raise ModelError(f'external data has no usable location ("{location}")', where)
    if PurePosixPath(plain).is_absolute() or PureWindowsPath(location).drive or ".." in parts:
        hint = "external data must lie in the model's folder"
        raise ModelError(f'external data at "{location}" is outside the folder', where, hint)
    root = Path(os.path.realpath(folder))
    path = Path(os.path.realpath(root / location))
    if not path.is_relative_to(root) or path == root:
        hint = "external data must lie in the model's folder, also after symbolic links"
        raise ModelError(f'external data at "{location}" leads outside the folder', where, hint)
    return path


def _regular_size(path: Path, location: str, where: str) -> int:
    """The bytes of a file; ModelError unless it is a regular file with one name."""
    try:
        info = path.stat()
    except OSError as e:
        raise ModelError(f'external data "{location}": {e.strerror or e}', where) from None
    if not stat.S_ISREG(info.st_mode):
        raise ModelError(f'external data "{location}" is not a regular file', where)
    # A second name may lie outside the folder.
    if info.st_nlink > 1:
        what = f'external data "{location}" has {info.st_nlink} hard links (1 is safe)'
        raise ModelError(what, where, "copy the file")
    return info.st_size


def _number(text: str, key: str, where: str) -> int:
    """A number of bytes from its text; ModelError for any other text."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ModelError(f'external data: {key} is "{text}", not a number of bytes', where)
    return int(text)
