# SPDX-License-Identifier: Apache-2.0
"""aotc.toml: what `aotc build` compiles, with the options of the command line as keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aot.cli.parser import compile_parser
from aot.errors import AotError, meant
from aot.textfile import read_toml

FILE = "aotc.toml"
#: Keys that are no option, or that are called otherwise.
_KEYS = {"model": "", "out": "--output", "dims": "--dim"}
#: Tables whose keys are options, too.
_TABLES = ("budgets",)
#: Options of a single call.
_CALLS = ("help", "version", "cmake-dir", "output", "dump-after", "json", "verbose", "quiet")


def words_of(file: Path) -> list[str]:
    """The command line that the project file says, with OUT `out` where it names none.

    Raises AotError for a file that cannot be read and for a key that no option has.
    """
    table = {"out": "out", **read_toml(file, "project file")}
    if not isinstance(table.get("model"), str):
        raise AotError("the project file names no model", str(file), 'model = "model.onnx"')
    options = {o: a for a in compile_parser()._actions for o in a.option_strings}
    known = {o.removeprefix("--"): o for o in options if o.startswith("--")}
    known = {k: o for k, o in (known | _KEYS).items() if k not in _CALLS}
    words = []
    for key, value in _flat(table):
        if key not in known:
            hint = meant(key, [*known, *_TABLES], "`aotc --help` lists the options")
            raise AotError(f"unknown key {key!r}", str(file), hint)
        flag = known[key]
        if flag and options[flag].nargs == 0:
            if not isinstance(value, bool):
                raise AotError(f"{key} is {value!r}", str(file), f"{key} = true, or false")
            words += [flag] * value
        elif isinstance(value, Mapping):
            words += [f"{flag}={name}={_spelled(v)}" for name, v in value.items()]
        elif flag and value != []:
            words.append(f"{flag}={_spelled(value)}")
    # The name of a model may begin with a dash.
    return [*words, "--", table["model"]]


def _flat(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The keys of the file, those of its tables of options among them."""
    for key, value in table.items():
        if key in _TABLES and isinstance(value, Mapping):
            yield from value.items()
        else:
            yield key, value


def _spelled(value: Any) -> str:
    """A value as it is typed: a list has commas."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
