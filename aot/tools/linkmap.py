# SPDX-License-Identifier: Apache-2.0
"""A board's link map: how much of the image's flash each part of it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

#: Output sections that are stored in flash.
_STORED = (".text", ".weights", ".rodata", ".ARM.exidx", ".data")
_LINE = re.compile(r" (\*fill\*|\.\S+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+)(?: (\S.*))?")
_OUTPUT = re.compile(r"(\.\S+)")
#: Sources of the image that are not the model's library → the part they are.
_PARTS = {"startup.c": "startup", "semihost.c": "startup", "runner.c": "runner"}


def flash_parts(path: Path) -> dict[str, int]:
    """Bytes of `library` (the model), `startup`, `runner`, `toolchain` (libc, libgcc), `padding`.

    Empty if there is no map.
    """
    found = dict.fromkeys(("library", "startup", "runner", "toolchain", "padding"), 0)
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    for nbytes, file in _inputs(text):
        found[_part(file)] += nbytes
    return found


def _inputs(text: str) -> Iterator[tuple[int, str]]:
    """(bytes, object file) of every input section in flash; "" for padding."""
    _, _, body = text.partition("Linker script and memory map")
    body = re.sub(r"^( \.\S+)\n +", r"\1 ", body, flags=re.MULTILINE)  # long names end their line
    stored = False
    for line in body.splitlines():
        head = _OUTPUT.match(line)
        if head is not None:
            stored = head[1] in _STORED
            continue
        match = _LINE.match(line)
        if stored and match is not None:
            yield int(match[2], 16), "" if match[1] == "*fill*" else match[3] or ""


def _part(file: str) -> str:
    """The part of an image that an object file belongs to, as "startup", "library" or
    "toolchain".
    """
    if not file:
        return "padding"
    source = re.sub(r"\.obj$|\.o$", "", file.replace("\\", "/").rpartition("/")[2])
    if source in _PARTS:
        return _PARTS[source]
    return "toolchain" if re.search(r"lib(gcc|c|m|c_nano|m_nano|nosys)\.a", file) else "library"
