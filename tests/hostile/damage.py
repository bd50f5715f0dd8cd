# SPDX-License-Identifier: Apache-2.0
"""Damaged bytes, files that are none, and external data that leads elsewhere."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from onnx import TensorProto as T

from hostile.case import Case, info, net, node, seeds

FLIPS = 60


def cases() -> Iterator[Case]:
    yield from _truncations()
    yield from _flips()
    yield from _garbage()
    yield from _files()
    yield from _external()


def _bytes(content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "model.onnx"
        path.write_bytes(content)
        return path

    return write


def _truncations() -> Iterator[Case]:
    for seed, proto in seeds().items():
        data = proto.SerializeToString()
        for length in range(0, len(data), max(1, len(data) // 40)):
            yield Case("truncated", f"{seed} at {length}", _bytes(data[:length]))


def _flips() -> Iterator[Case]:
    for seed, proto in seeds().items():
        data = proto.SerializeToString()
        rng = random.Random(f"flips of {seed}")
        for i in range(FLIPS):
            changed = bytearray(data)
            for _ in range(1 + i % 3):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            yield Case("bit flips", f"{seed} {i}", _bytes(bytes(changed)))
        for i in range(FLIPS // 2):
            changed = bytearray(data)
            start = rng.randrange(len(changed))
            if i % 2:
                del changed[start : start + rng.randrange(1, 9)]
            else:
                changed[start:start] = rng.randbytes(rng.randrange(1, 9))
            yield Case("bit flips", f"{seed} cut or stuffed {i}", _bytes(bytes(changed)))


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes(found) + bytes([value])


def _nested(depth: int) -> bytes:
    """A graph in an attribute of a node in a graph …, as bytes (no library writes it so deep)."""
    tail, before, length = b"\xa0\x01\x05", [], 0
    for _ in range(depth):
        head = b"\x0a\x01g\x32" + _varint(length)
        attribute = len(head) + length + len(tail)
        head = b"\x22\x02If\x2a" + _varint(attribute) + head
        inner = len(head) + length + len(tail)
        before.append(b"\x0a" + _varint(inner) + head)
        length = len(before[-1]) + length + len(tail)
    graph = b"".join(reversed(before)) + tail * depth
    return b"\x08\x0a\x3a" + _varint(len(graph)) + graph + b"\x42\x02\x10\x15"


def _garbage() -> Iterator[Case]:
    contents = {
        "nothing": b"",
        "zeros": bytes(4096),
        "newlines": b"\n" * 50,
        "all bytes": bytes(range(256)) * 16,
        "text": b"not a model\n" * 100,
        "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
        "zip": b"PK\x03\x04" + bytes(100),
        "elf": b"\x7fELF" + bytes(100),
        "huge length": b"\x08\x0a\x3a\xff\xff\xff\xff\x07" + bytes(64),
        "endless varint": b"\xff" * 64,
        "groups": b"\x0b" * 5000,
        "unknown fields": b"\xf8\x7f\x01" * 5000,
    }
    for name, content in contents.items():
        yield Case("garbage", name, _bytes(content), "refuse")
    for seed in range(20):
        yield Case("garbage", f"random {seed}", _bytes(random.Random(seed).randbytes(2000)))
    for depth in (30, 99, 101, 5000, 100000):
        yield Case("garbage", f"nested {depth} deep", _bytes(_nested(depth)), "refuse")


def _files() -> Iterator[Case]:
    def fifo(folder: Path) -> Path:
        os.mkfifo(folder / "model.onnx")
        return folder / "model.onnx"

    def bound(folder: Path) -> Path:
        here = os.getcwd()
        os.chdir(folder)  # a socket's path is short
        with socket.socket(socket.AF_UNIX) as s:
            s.bind("model.onnx")
        os.chdir(here)
        return folder / "model.onnx"

    def link_to(target: str) -> Callable[[Path], Path]:
        def make(folder: Path) -> Path:
            (folder / "model.onnx").symlink_to(target)
            return folder / "model.onnx"

        return make

    def sparse(folder: Path) -> Path:
        with (folder / "model.onnx").open("wb") as file:
            file.truncate(3 << 30)
        return folder / "model.onnx"

    def unreadable(folder: Path) -> Path:
        path = folder / "model.onnx"
        path.write_bytes(b"x")
        path.chmod(0)
        return path

    yield Case("files", "folder", lambda folder: folder, "refuse")
    yield Case("files", "missing", lambda folder: folder / "none.onnx", "refuse")
    yield Case("files", "long name", lambda folder: folder / ("n" * 5000), "refuse")
    yield Case("files", "name with NUL", lambda folder: f"{folder}/a\0b.onnx", "refuse")
    yield Case("files", "name with escapes", lambda folder: folder / "\x1b[31m\n.onnx", "refuse")
    yield Case("files", "fifo", fifo, "refuse")
    yield Case("files", "socket", bound, "refuse")
    yield Case("files", "3 GiB of zeros", sparse, "refuse")
    yield Case("files", "no permission", unreadable, "refuse")
    for device in ("/dev/zero", "/dev/null", "/dev/tty", "/proc/self/mem", "/proc/self/environ"):
        yield Case("files", device, lambda _folder, d=device: Path(d), "refuse")
        yield Case("files", f"link to {device}", link_to(device), "refuse")
    yield Case("files", "link to itself", link_to("model.onnx"), "refuse")
    yield Case("files", "link to nowhere", link_to("nowhere"), "refuse")


COUNT = 3000
FULL = np.arange(COUNT, dtype=np.float32).tobytes()
#: What (location, other entries) of external data is right, what must be refused.
EXTERNAL: list[tuple[str, str, dict[str, str], str]] = [
    ("plain", "w.bin", {}, "ok"),
    ("in a folder below", "sub/w.bin", {}, "ok"),
    ("with offset and length", "w4.bin", {"offset": "4", "length": str(len(FULL))}, "ok"),
    ("dots inside", "sub/./w.bin", {}, "either"),
    ("up", "../secret.bin", {}, "refuse"),
    ("up in the middle", "sub/../../secret.bin", {}, "refuse"),
    ("up and back", "../in/w.bin", {}, "refuse"),
    ("up, backslashes", "..\\secret.bin", {}, "refuse"),
    ("absolute", "/etc/passwd", {}, "refuse"),
    ("absolute, two slashes", "//etc/passwd", {}, "refuse"),
    ("drive", "C:\\secret.bin", {}, "refuse"),
    ("home", "~/secret.bin", {}, "refuse"),
    ("url", "file:///etc/passwd", {}, "refuse"),
    ("symbolic link out", "link.bin", {}, "refuse"),
    ("folder that is a link out", "away/secret.bin", {}, "refuse"),
    ("link to a link", "second.bin", {}, "refuse"),
    ("link in a circle", "circle.bin", {}, "refuse"),
    ("hard link", "hard.bin", {}, "refuse"),
    ("fifo", "pipe", {}, "refuse"),
    ("device link", "zero", {}, "refuse"),
    ("folder", "sub", {}, "refuse"),
    ("itself", ".", {}, "refuse"),
    ("nothing", "", {}, "refuse"),
    ("missing", "missing.bin", {}, "refuse"),
    ("NUL", "w.bin\0x", {}, "refuse"),
    ("escapes", "\x1b[2J\r\n.bin", {}, "refuse"),
    ("short", "short.bin", {}, "refuse"),
    ("empty", "empty.bin", {}, "refuse"),
    ("offset past the end", "w.bin", {"offset": "4"}, "refuse"),
    ("offset huge", "w.bin", {"offset": str(1 << 62)}, "refuse"),
    ("offset wider than 64 bits", "w.bin", {"offset": "9" * 300}, "refuse"),
    ("offset negative", "w.bin", {"offset": "-4"}, "refuse"),
    ("offset a float", "w.bin", {"offset": "1e3"}, "refuse"),
    ("offset in other digits", "w.bin", {"offset": "４"}, "refuse"),
    ("length short", "w.bin", {"length": "4"}, "refuse"),
    ("length long", "w.bin", {"length": str(1 << 40)}, "refuse"),
    ("length negative", "w.bin", {"length": "-1"}, "refuse"),
    ("unknown key", "w.bin", {"basedir": "/"}, "refuse"),
    ("attribute as key", "w.bin", {"__class__": "x"}, "refuse"),
    ("the model itself", "model.onnx", {}, "either"),
]


def _external() -> Iterator[Case]:
    for name, location, entries, expect in EXTERNAL:
        for where in ("initialiser", "attribute", "small"):
            if where == "small" and expect == "ok":
                continue

            def make(
                folder: Path, at: str = location, more: dict[str, str] = entries, how: str = where
            ) -> Path:
                return _external_model(folder, at, more, how)

            yield Case("external data", f"{name} ({where})", make, expect)  # type: ignore[arg-type]


def _external_model(folder: Path, location: str, entries: dict[str, str], where: str) -> Path:
    count = 3 if where == "small" else COUNT
    tensor = T(name="w", data_type=T.FLOAT, dims=[count], data_location=T.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    outputs, inputs = [info("y", (count,))], [info("x", (1,))]
    if where == "attribute":
        nodes = [node("Constant", "", "w", value=tensor), node("Add", "x w", "y")]
        model = net(nodes, inputs, outputs)
    else:
        model = net([node("Add", "x w", "y")], inputs, outputs, {"w": tensor})
    for path, content in {
        "w.bin": FULL[: 4 * count],
        "sub/w.bin": FULL[: 4 * count],
        "w4.bin": b"pad!" + FULL[: 4 * count],
        "../secret.bin": FULL[: 4 * count],
        "short.bin": FULL[: 4 * count - 1],
        "empty.bin": b"",
    }.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    (folder / "link.bin").symlink_to("../secret.bin")
    (folder / "second.bin").symlink_to("link.bin")
    (folder / "circle.bin").symlink_to("circle.bin")
    (folder / "away").symlink_to("..")
    (folder / "zero").symlink_to("/dev/zero")
    os.link(folder / ".." / "secret.bin", folder / "hard.bin")
    os.mkfifo(folder / "pipe")
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path
