# SPDX-License-Identifier: Apache-2.0
"""Every hint in the sources: its options exist, its commands run, nothing is left to fill in.

Commands stand between backquotes. What a hint makes of names and folders at run time is in
`tests/regression/commands_to_paste`.
"""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from aot.cli import main, parser
from aot.cli.words import EXPLAIN

ROOT = Path(__file__).parents[2]
#: Functions and arguments whose text is a hint: name -> place of the hint, None for every string.
_CALLS = {"meant": 2, "_advice": None}
_NAMES = re.compile(r"_?(hint|advice|HINT|OPERATORS|CUSTOM|SCRATCH|MAKE_ROOM|WITHOUT_[A-Z]+|YOURS)")
#: What stands for something to fill in.
_OPEN = re.compile(r"…|\b(MODEL|OUT|NAME|VALUE|FILE|D0)\b|=(N|V)\b|<[a-z]+>")
#: Options of other programs.
_OTHERS = {"--build", "--no-install-recommends"}


def _text(node: ast.AST) -> str:
    """The text of a string, with {…} for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(v) for v in node.values)
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + "}"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string in an expression, outermost."""
    if isinstance(node, ast.JoinedStr | ast.Constant):
        if text := _text(node):
            yield getattr(node, "lineno", 0), text
        return
    for inner in ast.iter_child_nodes(node):
        yield from _strings(inner)


def _hints(tree: ast.AST) -> Iterator[ast.AST]:
    """The expressions of a module that are hints."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and _NAMES.fullmatch(t.id) for t in node.targets
        ):
            yield node.value
        if not isinstance(node, ast.Call):
            continue
        yield from (k.value for k in node.keywords if k.arg == "hint")
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        place = 2 if name.endswith("Error") else _CALLS.get(name)
        if place is not None and len(node.args) > place:
            yield node.args[place]


def _collected() -> list[tuple[str, str]]:
    """(place, text) of every hint that aotc can print."""
    found = []
    for path in sorted((ROOT / "aot").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for hint in _hints(tree):
            for line, text in _strings(hint):
                found.append((f"{path.relative_to(ROOT)}:{line}", text))
    return list(dict.fromkeys(found))


HINTS = _collected()


def _parsers() -> list[argparse.ArgumentParser]:
    return [parser.compile_parser(), *map(parser.command_parser, parser.COMMANDS)]


def test_hints_are_found() -> None:
    assert len(HINTS) > 120
    assert sum("`aotc " in text for _, text in HINTS) >= 8


@pytest.mark.parametrize(("place", "text"), HINTS, ids=[p for p, _ in HINTS])
def test_nothing_is_left_to_fill_in(place: str, text: str) -> None:
    plain = re.sub(r"\{[^}]*\}", "", text)
    assert not _OPEN.search(plain), text
    assert plain.count("`") % 2 == 0, text


def test_options_exist() -> None:
    known = {o for p in _parsers() for a in p._actions for o in a.option_strings} | _OTHERS
    for place, text in HINTS:
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text):
            assert option in known, f"{place}: {text}"


def test_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = {c for _, text in HINTS for c in re.findall(r"`(aotc [^`{]*)`", text)}
    assert commands
    for command in sorted(commands - {EXPLAIN.strip("`")}):
        assert main(shlex.split(command)[1:]) == 0, command
        assert capsys.readouterr().err == "", command


def test_subcommands_that_are_named_exist() -> None:
    for place, text in HINTS:
        for word in re.findall(r"\baotc ([a-z][a-z-]+)", text):
            assert word in parser.COMMANDS or word in ("with", "without"), f"{place}: {text}"


def test_names_are_words_of_a_shell() -> None:
    """Options with a name of the model in them are made by `typed` or by a Pin."""
    for place, text in HINTS:
        assert not re.search(r"--(bind|dim|input-shape|keep|state) \{", text), f"{place}: {text}"


def test_folders_and_models_are_words_of_a_shell() -> None:
    """Commands with a place in them spell it so that a shell takes it."""
    for place, text in HINTS:
        for command in re.findall(r"`((?:aotc|cmake|pip) [^`]*)`", text):
            for filled in re.findall(r"\{([^}]*)\}", command):
                assert "shell_word(" in filled or filled in ("target", "option", "out"), place
