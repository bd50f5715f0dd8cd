# SPDX-License-Identifier: Apache-2.0
"""`aotc new-backend NAME`: a pip package with a vendor that works, and its test."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path

from aot.errors import AotError, UsageError
from aot.vendor.find import available

#: A folder per kind of vendor, beside the files that all have in common.
TEMPLATE = Path(__file__).parent / "template"
#: The name in the template's files and paths.
PLACEHOLDER = "acme"
#: Packages that the backend's own would hide, and `none` of aotc's messages.
TAKEN = ("aot", "none", "onnx", "numpy", "test")


def scaffold(name: str, folder: Path, kind: str = "library") -> list[Path]:
    """Write the package of backend `name` into `folder`, which must be new or empty.

    `kind`, one of BACKEND_KINDS, says how the vendor computes. The files written, sorted.

    Raises UsageError for a name that Python, C or aotc cannot use, AotError if nothing can be
    written.
    """
    known = [n for n in available() if n != PLACEHOLDER]
    usable = re.fullmatch(r"[a-z][a-z0-9_]{0,30}", name) and not keyword.iskeyword(name)
    if not usable:
        hint = "lower-case letters, digits and _, a letter first: it names a Python package and C"
        raise UsageError(f"{name!r} is no name for a backend", hint=hint)
    if name in known or name in TAKEN or name in sys.stdlib_module_names:
        hint = f"backends here: {', '.join(known)}; nor may it be a module of Python's library"
        raise UsageError(f"the name {name} is taken", hint=hint)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not an empty folder", hint="-o names another")
    parts = [copy_template(TEMPLATE / part, folder, name) for part in ("common", kind)]
    return sorted(path for part in parts for path in part)


def copy_template(template: Path, folder: Path, name: str) -> list[Path]:
    """Write the files of `template` into `folder`, called `name` where they have the placeholder.

    Raises AotError if one cannot be written.
    """
    made = []
    try:
        for source in sorted(p for p in template.rglob("*") if p.is_file()):
            inside = str(source.relative_to(template)).removesuffix(".txt")
            path = folder / _renamed(inside, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = source.read_text(encoding="utf-8")
            path.write_text(_renamed(text, name), encoding="utf-8")
            made.append(path)
    except OSError as error:
        raise AotError(f"cannot write to {folder}: {error.strerror}") from error
    return made


def _renamed(text: str, name: str) -> str:
    """`text` with the placeholder exchanged for `name`, in upper and lower case."""
    return text.replace(PLACEHOLDER.upper(), name.upper()).replace(PLACEHOLDER, name)
