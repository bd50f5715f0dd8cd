# SPDX-License-Identifier: Apache-2.0
"""Files beside the model: arrays, target files, regions, tables of costs, bundles somebody changed,
and messages that protobuf reads in its own way."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from hostile.case import Case, info, net, node, saved, seeds
from hostile.texts import CANARY

BASE = 'base = "x86-64"\n'


def cases() -> Iterator[Case]:
    for what, content in arrays().items():
        npz = zipped(content)
        yield beside("arrays", f"{what} as test data", "t.npz", npz, "--test-data", "{}")
        yield beside("arrays", f"{what} as a binding", "t.npy", content, "--bind", "x={}")
    for what, content in archives().items():
        yield beside("arrays", f"{what} as test data", "t.npz", content, "--test-data", "{}")
        yield quantised(what, content)
    for what, text in TARGETS.items():
        yield beside("tables", f"target: {what}", "t.toml", text.encode(), "--target", "{}")
    for what, text in REGIONS.items():
        yield beside("tables", f"regions: {what}", "t.toml", text.encode(), "--regions", "{}")
    for what, text in COSTS.items():
        words = ("--backend", "cblas", "--partition", "cost", "--tune", "{}")
        yield beside("tables", f"costs: {what}", "t.json", text.encode(), *words)
    for file in ("bundle/manifest.json", "aotc.json"):
        for what, text in RECORDS.items():
            for words in COMMANDS:
                yield changed(f"{words[0]}, {file}: {what}", file, text, words)
    for what, content in messages().items():
        yield Case("messages", what, _bytes(content))


def _bytes(content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "model.onnx").write_bytes(content)
        return folder / "model.onnx"

    return write


def _model(folder: Path) -> Path:
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "y")]
    ends = [info("x", (2, 3))], [info("y", (2, 4))]
    return saved(net(nodes, *ends, {"w": np.ones((3, 4), np.float32)}))(folder)


def beside(family: str, what: str, name: str, content: bytes, *options: str) -> Case:
    """A good model with a file beside it; {} in an option is its path."""

    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return _model(folder)

    return Case(
        family, what, make, options=tuple(o.replace("{}", f"../in/{name}") for o in options)
    )


def quantised(what: str, content: bytes) -> Case:
    """The same file as what `aotc quantize` calibrates with."""

    def make(folder: Path) -> Path:
        (folder / "t.npz").write_bytes(content)
        return _model(folder)

    words = ("quantize", "{model}", "--calibrate", "../in/t.npz", "-o", "out/q.onnx")
    return Case("arrays", f"{what} to calibrate", make, "refuse", words=words)


# -- Arrays ---------------------------------------------------------------------------------------


class _Boom:
    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (CANARY, "w")


def stored(array: np.ndarray) -> bytes:
    """The bytes of a .npy, objects pickled."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=True)
    return file.getvalue()


def headed(text: str, data: bytes = b"") -> bytes:
    """A .npy with this header."""
    head = text.encode() + b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def _of(shape: str, descr: str = "'<f4'") -> bytes:
    return headed(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}", bytes(24))


def arrays() -> dict[str, bytes]:
    good = stored(np.ones((2, 3), np.float32))
    return {
        "good": good,
        "a pickle in an array": stored(np.array([_Boom()], object)),
        "a pickle": b"cos\nsystem\n(S'touch canary'\ntR.",
        "2^40 elements": _of("(1 << 40,)".replace("1 << 40", str(1 << 40))),
        "2^126 elements": _of(f"({(1 << 63) - 1}, {(1 << 63) - 1})"),
        "a negative size": _of("(-1,)"),
        "true as size": _of("(True,)"),
        "text as size": _of("('a',)"),
        "no type": _of("(2, 3)", "'zz'"),
        "fields": _of("(2,)", "[('a', '<f4'), ('b', '<i8')]"),
        "objects in fields": _of("(2,)", "[('a', '|O')]"),
        "elements without bytes": _of("(1000000000000,)", "'|V0'"),
        "brackets": headed("(" * 5000),
        "code as header": headed("__import__('os').system('touch canary')"),
        "no dictionary": headed("[1, 2, 3]"),
        "cut": good[:-4],
        "version 9": good[:6] + b"\x09\x00" + good[8:],
        "nothing": b"",
        "magic alone": b"\x93NUMPY",
        "texts": stored(np.array(["a\x1b[31m", "b"])),
        "dates": stored(np.array(["2020-01-01"], "M8[D]")),
        "complex": stored(np.ones((2, 3), np.complex64)),
        "long doubles": stored(np.ones((2, 3), np.longdouble)),
        "the other byte order": stored(np.ones((2, 3), ">f4")),
        "column order": stored(np.asfortranarray(np.ones((2, 3), np.float32))),
        "NaN": stored(np.full((2, 3), np.nan, np.float32)),
    }


def zipped(content: bytes, name: str = "x.npy", method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def archives() -> dict[str, bytes]:
    good = stored(np.ones((2, 3), np.float32))
    plain, squeezed = zipped(good), bytearray(zipped(good * 50, method=zipfile.ZIP_DEFLATED))
    squeezed[60:80] = b"\xff" * 20
    listed = plain.find(b"PK\x01\x02")

    def patched(place: int, value: int) -> bytes:
        data = bytearray(plain)
        data[place] = data[listed + place + 2] = value
        return bytes(data)

    return {
        "an encrypted archive": patched(6, 1),
        "an unknown method": patched(8, 99),
        "damaged deflate": bytes(squeezed),
        "half an archive": plain[: len(plain) // 2],
        "an archive without a list": plain[:-30],
        "an archive of text": zipped(b"abc", "x"),
        "an archive that leads out": zipped(good, "../../x.npy"),
        "an archive of escapes": zipped(good, "\x1b[31m.npy"),
        "an empty archive": b"PK\x05\x06" + bytes(18),
        "zeros": bytes(100000),
        "an archive that swells": zipped(bytes(300 << 20), method=zipfile.ZIP_DEFLATED),
    }


# -- Tables ---------------------------------------------------------------------------------------

DEEP = "[" * 20000
DIGITS = "9" * 5000
TARGETS = {
    "good": BASE,
    "nothing": "",
    "deep": f"a = {DEEP}",
    "NUL": "\0\0",
    "5000 digits": f"{BASE}vlen = {DIGITS}",
    "a stack of 5000 digits": f'{BASE}stack = "{DIGITS}M"',
    "a negative stack": f"{BASE}stack = -5",
    "memory is a number": f"{BASE}memory = 5",
    "memory is a table": f'{BASE}[memory]\nname = "a"\nsize = 5',
    "a speed of 400 digits": f'{BASE}[[memory]]\nname = "a"\nsize = 5\nspeed = {"9" * 400}',
    "a speed that is none": f'{BASE}[[memory]]\nname = "a"\nsize = 5\nspeed = nan',
    "a memory of 2^80": f'{BASE}[[memory]]\nname = "a"\nsize = {1 << 80}\nuse = ["arena"]',
    "a toolchain elsewhere": f'{BASE}toolchain = "../../../../etc/passwd"',
    "a port elsewhere": 'base = "cortex-m4"\nport = "../../.."',
    "CMake as toolchain": f'{BASE}toolchain = "x)\\nfile(WRITE canary x)"',
    "a base that is a file": 'base = "x.toml"',
    "escapes": '"\\u001b[31m" = 1',
    "7-bit pointers": f"{BASE}pointer_bits = 7",
    "a summary of controls": f'{BASE}summary = "*/ \\u001b[2J\\n#"',
}
REGIONS = {
    "nothing": "",
    "deep": f"a = {DEEP}",
    "5000 digits": f"[keep]\na = {DIGITS}",
    "a number": "regions = 5",
    "a list": "keep = [1]",
    "unknown names": '[keep]\n"\\u001b[31m" = "\\u001b[31m"',
    "a name that ends comments": '[regions."*/ \\n#"]\nbackend = "c"\nnodes = ["MatMul_a"]',
    "a long name": f'[regions.{"n" * 70000}]\nbackend = "c"\nnodes = ["MatMul_a"]',
    "backwards": '[regions.r]\nbackend = "c"\nbegin = ["y"]\nend = ["x"]',
}
COSTS = {
    "nothing": "",
    "deep": DEEP,
    "null": "null",
    "5000 digits": f'{{"version": {DIGITS}}}',
    "another version": '{"version": "\\u001b[31m"}',
    "no numbers": '{"version": 1, "cpu": "x86-64-v4", "matches": {"a": "b"}}',
    "400 digits": f'{{"version": 1, "cpu": "x86-64-v4", "matches": {{"a": {"9" * 400}}}}}',
}

# -- Bundles that were changed --------------------------------------------------------------------

RECORDS = {
    "nothing": "",
    "deep": DEEP,
    "no object": "[]",
    "empty": "{}",
    "numbers": '{"name": 5, "inputs": 5, "outputs": 5, "options": 5, "target": 5, "nodes": 5}',
    "a name elsewhere": '{"name": "../../../../bin/true", "inputs": [], "outputs": []}',
    "escapes": '{"name": "\\u001b[31m", "inputs": [{"name": "\\u001b[31m"}]}',
    "2^40 elements": (
        '{"name": "net", "inputs": [{"name": "x", "shape": [1099511627776], "dtype": "float32"}],'
        ' "outputs": [], "target": {}, "nodes": [], "memory": {"arena_bytes": 1}}'
    ),
}
COMMANDS = (
    ("run", "../in/o", "--inputs", "../in/x.npz"),
    ("verify", "../in/o"),
    ("report", "../in/o", "-o", "out/r.html"),
    ("size", "../in/o"),
    ("disasm", "../in/o"),
)


def changed(what: str, file: str, text: str, words: tuple[str, ...]) -> Case:
    def make(folder: Path) -> Path:
        out = folder / "o"
        (out / "bundle").mkdir(parents=True)
        (out / "bin").mkdir()
        (out / "bin" / "net").write_text("#!/bin/sh\nexit 1\n")
        (out / "bin" / "net").chmod(0o755)
        manifest = {"name": "net", "inputs": [], "outputs": [], "target": {}, "nodes": []}
        (out / "bundle" / "manifest.json").write_text(json.dumps(manifest))
        (out / "aotc.json").write_text(json.dumps({"model": str(_model(folder)), "options": {}}))
        (out / file).write_text(text)
        np.savez(folder / "x.npz", x=np.ones((2, 3), np.float32))
        return out

    return Case("records", what, make, "refuse" if words[0] != "disasm" else "either", words=words)


# -- Messages -------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes(found) + bytes([value])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def messages() -> dict[str, bytes]:
    """What protobuf merges, repeats or skips: fields twice, unknown ones, packed or not."""
    good, other = seeds()["conv"], seeds()["text"]
    data = good.SerializeToString()
    axes = b"".join(b"\x40" + _varint(i) for i in (1, 1, 1, 1))  # ints, not packed
    both = _field(20, b"") + b"\x18\x05" + _field(4, b"text")
    tensor = b"\x10\x01" + _field(8, b"c")
    two = _field(7, _field(5, _field(8, b"twice") + b"\x08\x02\x10\x01" + _field(9, bytes(8))))
    return {
        "the same model twice": data + data,
        "two models in one": data + other.SerializeToString(),
        "half a second model": data + other.SerializeToString()[:200],
        "unknown fields behind": data + _field(9999, b"x" * 100) + b"\xf8\xff\xff\xff\x0f\x01",
        "an unknown field of 1 MiB": data + _field(777, bytes(1 << 20)),
        "an overlong varint": data + b"\x08" + b"\x80" * 9 + b"\x01",
        "a varint of eleven bytes": data + b"\x08" + b"\xff" * 10 + b"\x01",
        "a version of 2^64 - 1": data + b"\x08" + b"\xff" * 9 + b"\x01",
        "a group": data + b"\x0b\x08\x01\x0c",
        "a group without end": data + b"\x0b\x08\x01",
        "wire type 6": data + b"\x0e\x01",
        "field number 0": data + b"\x02\x01x",
        "a graph of another wire type": data + b"\x38\x05",
        "an attribute of many kinds": data
        + _field(7, _field(1, _field(5, _field(1, b"a") + both))),
        "an attribute of packed and single numbers": data
        + _field(7, _field(1, _field(5, _field(1, b"pads") + axes + _field(8, b"\x01\x01")))),
        "dimensions packed": data
        + _field(7, _field(5, tensor + _field(1, b"\x02") + _field(4, bytes(8)))),
        "dimensions not packed": data
        + _field(7, _field(5, tensor + b"\x08\x02" + _field(4, bytes(8)))),
        "one float of two": data + _field(7, _field(5, tensor + b"\x08\x02" + b"\x25" + bytes(4))),
        "half a float": data + _field(7, _field(5, tensor + b"\x08\x02" + _field(4, bytes(6)))),
        "a constant twice": data + two + two,
        "a type that is tensor and map": data
        + _field(
            7, _field(11, _field(1, b"x") + _field(2, _field(1, b"\x08\x01") + _field(5, b"")))
        ),
        "opsets 2^64 - 1 times 1": data + _field(8, b"\x10" + b"\xff" * 9 + b"\x01") * 200,
    }
