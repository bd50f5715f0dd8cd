# SPDX-License-Identifier: Apache-2.0
"""Reading TOML and JSON files that a user names: whatever they hold, one message."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aot.errors import AotError

#: Bytes; a table that somebody wrote is smaller.
MOST_TOML = 1 << 20
#: Names in a dotted key. tomllib keeps all beginnings of a key: a hundred kilobytes take gigabytes.
MOST_NAMES = 32
#: Strings and comments, which go on to the end of the line or text if nothing closes them.
_TEXTS = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)|\'\'\'.*?(?:\'\'\'|\Z)'
    r'|"(?:\\.|[^"\\\n])*"?|\'[^\'\n]*\'?|#[^\n]*',
    re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MOST_NAMES}}}")


def read_toml(path: Path, what: str, kind: type[AotError] = AotError) -> dict[str, Any]:
    """The table in the TOML file `path`.

    Messages call the file `what` (a noun: `target`). Raises `kind` if the file cannot be read,
    has more than MOST_TOML bytes or holds no table.
    """
    table: dict[str, Any] = _read(path, what, "TOML", _toml, kind, MOST_TOML)
    return table


def _toml(text: str) -> dict[str, Any]:
    """The table of a TOML text; ValueError if it is none, or a key has too many names."""
    if _LONG_KEY.search(_TEXTS.sub(_name_or_nothing, text)):
        raise ValueError(f"a dotted key has more than {MOST_NAMES} names")
    return tomllib.loads(text)


def _name_or_nothing(found: re.Match[str]) -> str:
    """What stands for a string or comment: a name where it can be a part of a key."""
    text = found[0]
    return "x" if text[0] in "\"'" and text[:3] not in ('"""', "'''") else " "


def read_json(path: Path, what: str, kind: type[AotError] = AotError) -> Any:
    """The value in the JSON file `path`, whatever its size.

    Messages call the file `what`, as in `read_toml`. Raises `kind` if it cannot be read or is
    no JSON.
    """
    return _read(path, what, "JSON", json.loads, kind, 0)


def _read(
    path: Path,
    what: str,
    form: str,
    parse: Callable[[str], Any],
    kind: type[AotError],
    most: int,
) -> Any:
    """The value that `parse` makes of the UTF-8 text of `path`; messages call it `form`.

    `most` is the largest size in bytes, 0 for any. Raises `kind` for every failure.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # it might never end
            raise kind(f"cannot read {what} {path}: not a regular file")
        if most and path.exists() and path.stat().st_size > most:
            raise kind(f"{what} {path} has more than {most} bytes")
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise kind(f"cannot read {what} {path}: {error.strerror}") from error
    except (RecursionError, MemoryError) as error:
        raise kind(f"{what} {path} is no {form} that a program can read") from error
    except ValueError as error:  # also of numbers with too many digits
        raise kind(f"{what} {path} is no {form}: {str(error)[:300]}") from error
