# SPDX-License-Identifier: Apache-2.0
"""`import aot` told type checkers nothing (no py.typed, options of Any); dir(aot) lacked names."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from dataclasses import fields
from pathlib import Path

import aot
import aot.options
from aot.options import Options


def test_the_package_is_typed() -> None:
    assert (Path(aot.__file__).parent / "py.typed").is_file()


def test_dir_lists_what_is_public() -> None:
    code = "import sys, aot; print(*dir(aot)); assert 'aot.api' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"Bundle", "compile", "__version__"} <= set(done.stdout.split())


def test_every_option_has_a_type() -> None:
    parameters = inspect.signature(aot.compile).parameters
    (more,) = (p for p in parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD)
    assert more.annotation == "Unpack[Settings]"
    given = typing.get_type_hints(aot.options.Settings)
    assert set(given) | {"target", "backends"} == {f.name for f in fields(Options)}
    assert typing.Any not in given.values()
    assert not aot.options.Settings.__required_keys__
    for name in ("objective", "accuracy", "requant", "specialise"):
        assert given[name] == typing.get_type_hints(Options)[name]
    assert typing.get_args(given["dump_after"]) == ("", *aot.options.STAGES)
