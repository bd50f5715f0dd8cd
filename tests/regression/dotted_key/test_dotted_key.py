# SPDX-License-Identifier: Apache-2.0
"""A TOML file of 100 KB, all one dotted key, took 6 GiB: tomllib keeps every beginning of a key."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from aot.errors import TargetError
from aot.target import load_target
from aot.textfile import read_toml

MANY = 3000  # took 36 MB then: little enough for a test that fails


@pytest.mark.parametrize(
    "text",
    [
        "a." * MANY + "a = 1",
        "[" + "a." * MANY + "a]",
        "[[" + "a . " * MANY + "a]]",
        '"a" . ' * MANY + "a = 1",
        "'a'.\"b\"." * MANY + "a = 1",
        "x = {" + "a." * MANY + "a = 1}",
        '"' + "\\" * 2 + '".a' + ".a" * MANY + " = 1",
    ],
)
def test_a_key_of_many_names_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "chip.toml"
    path.write_text(text)
    tracemalloc.start()
    with pytest.raises(TargetError, match="a dotted key has more than 32 names"):
        load_target(str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_dots_elsewhere_are_no_key(tmp_path: Path) -> None:
    path = tmp_path / "chip.toml"
    dots = "a." * MANY
    lines = [
        f"# {dots}a",
        f"one = '{dots}a'",
        f'two = "{dots}\\"a"',
        f'three = """\n{dots}a = 1\n"""',
        f"four = '''\n{dots}a\n'''",
        "five.six.seven = [1.5, 2.5]",
    ]
    path.write_text("\n".join(lines))
    found = read_toml(path, "file")
    assert list(found) == ["one", "two", "three", "four", "five"]
    assert found["five"]["six"]["seven"] == [1.5, 2.5]
