# SPDX-License-Identifier: Apache-2.0
"""`aotc doctor`: parts that are installed here, missing ones, the line that installs them.

Nothing is imported or started to find out, and no network is used: packages are known by their
metadata, programs by PATH, libraries by their headers.
"""

from __future__ import annotations

import argparse
import glob
import operator
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from aot.cli.progress import Progress
from aot.cli.subcommand import Answer
from aot.errors import AotError
from aot.target import load_target, names
from aot.textfile import read_toml
from aot.tools.build import find_program, find_tools

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
#: The comparisons that a requirement of pip makes.
COMPARE = {"==": operator.eq, ">=": operator.ge, "<": operator.lt}


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """The answer; it fails with the reason where models cannot be compiled for this machine."""
    table = read_toml(Path(__file__).with_suffix(".toml"), "table of packages")
    parts = _parts(table["part"])
    needed = (p for p in parts if p["kind"] == "Python packages")
    absent = [f"needs {requirement}" for p in needed for requirement in p["lacks"]]
    works = [_works(name, absent) for name in names()]
    install = {m: _line(m, parts, table) for m in table["manager"]}
    here = [m for m in install if m != "pip" and find_program(m)][:1] or list(install)
    rest = [f"  {install[m]}" for m in here if install[m]]
    return Answer(
        {"parts": parts, "targets": works, "install": install, "managers": here},
        "\n".join([*_text([*parts, *works]), *["To get the rest"][: len(rest)], *rest]),
        works[0]["use"] and f"host: {works[0]['use']}",
    )


def _text(rows: Sequence[Row]) -> list[str]:
    """Lines: every kind of part as a heading, with its rows below it."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        note = f" ({row['use']})" if row["lacks"] or not row["found"] else ""
        line = f"  {row['name']:<24} {row['found'] or 'not installed'}{note}"
        lines.setdefault(row["kind"], [row["kind"]]).append(line)
    return [line for group in lines.values() for line in group]


def _parts(optional: Sequence[Row]) -> Rows:
    """A record of each part: aotc needs it, `optional` (doctor.toml) or a target names it."""
    python = {"kind": "Python", "name": "python", "found": sys.version.split()[0], "use": ""}
    needed = [
        {"kind": "Python packages", "requirement": r, "use": f"needed: {r}"}
        for r in _requirements()
    ]
    return [{**python, "lacks": []}, *map(_part, [*needed, *optional, *_programs()])]


def _requirements() -> list[str]:
    """What aotc itself needs of pip, by its metadata or, in a checkout, by pyproject.toml."""
    if _version("aotc"):
        lines = metadata.requires("aotc") or []
    else:
        file = Path(__file__).parents[3] / "pyproject.toml"
        lines = read_toml(file, "project file")["project"]["dependencies"]
    return [line.split(";")[0].strip() for line in lines if "extra ==" not in line]


def _programs() -> Rows:
    """A row for every compiler and emulator that a target names, as doctor.toml has them."""
    compilers = dict[str, Rows]()
    emulators = dict[str, Rows]()
    for target in (load_target(name) for name in names()[1:]):
        if target.compiler:
            row = {"target": target.name, "packages": target.packages}
            compilers.setdefault(target.compiler, []).append(row)
        if target.emulator and not target.native():
            row = {"target": target.name, "packages": target.emulator_packages}
            emulators.setdefault(target.emulator[0], []).append(row)
    return [
        *(_program("C compilers", name, users) for name, users in compilers.items()),
        *(_program("Emulators", name, users) for name, users in emulators.items()),
    ]


def _program(kind: str, name: str, users: Rows) -> dict[str, Any]:
    """The row of a program that targets use: `users` name the target and packages of apt."""
    packages = dict.fromkeys(package for user in users for package in user["packages"])
    packages.pop("make", None)  # a part of its own, for which ninja may stand
    use = ", ".join(user["target"] for user in users)
    return {"kind": kind, "name": name, "packages": list(packages), "use": use}


def _part(row: Row) -> dict[str, Any]:
    """The part that a row describes, with `found`, its version or path ("": it is absent).

    `lacks` are the packages that would install it, [] if nothing is lacking: requirements of pip
    for Python packages, else packages of apt.
    """
    requirement = row.get("requirement", "")
    name = row.get("name") or re.split(r"[^\w.-]", requirement)[0]
    found = _found(name, row)
    enough = found and _fits(found, requirement)
    enough = enough or any(map(find_program, row.get("or", ())))
    packages = [requirement] if requirement else row.get("packages", [])
    part = {"kind": row["kind"], "name": name, "found": found, "use": row["use"]}
    return {**part, "lacks": [] if enough else packages}


def _found(name: str, row: Row) -> str:
    """The version of a package of pip, the path of a program or of a library's header, or ""."""
    if "requirement" in row:
        return _version(name)
    if "files" not in row:
        return find_program(name) or ""
    patterns = (os.path.expandvars(f.replace("@prefix", sys.prefix)) for f in row["files"])
    return next((file for p in patterns for file in sorted(glob.glob(p))), "")


def _version(name: str) -> str:
    """The version of an installed Python package, "" of another one."""
    return next((str(d.version) for d in metadata.distributions(name=name)), "")


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _fits(version: str, requirement: str) -> bool:
    """Whether the version is within the bounds (`>=`, `<`, `==`) of the requirement."""
    bounds = re.findall(r"(==|>=|<)\s*([\d.]+)", requirement)
    return all(COMPARE[sign](_numbers(version), _numbers(bound)) for sign, bound in bounds)


def _works(name: str, absent: Sequence[str]) -> dict[str, Any]:
    """Whether a bundle for the target can be built and run here; `use` says why it cannot.

    `absent` are reasons why nothing can be compiled.
    """
    run = False
    try:
        target = load_target(name)
        # A native target needs no emulator: the slice is empty then.
        run = target.runs_here() or any(map(find_program, target.emulator[: not target.native()]))
        find_tools(target.packages, target.compiler)
    except AotError as error:
        absent = [*absent, error.what]
    build, run = not absent, run and not absent
    return {
        "kind": "What works now",
        "name": name,
        "found": f"build {'yes' if build else 'no'}, run {'yes' if run else 'no'}",
        "use": "; ".join(absent),
        "lacks": absent,
        "build": build,
        "run": run,
    }


def _line(manager: str, parts: Sequence[Row], table: Row) -> str:
    """The line to type for all that is lacking and that the manager or pip has; "" for nothing."""
    python, native = list[str](), list[str]()
    for part in parts:
        if part["kind"].startswith("Python"):
            python += [f'"{requirement}"' for requirement in part["lacks"]]
            continue
        for apt in part["lacks"]:
            by_manager = {"apt-get": [apt], **table["names"].get(apt, {})}
            native += by_manager.get(manager, ())
    if manager == "pip":
        python, native = [*native, *python], []
    lines = [" ".join([table["manager"][manager], *dict.fromkeys(native)])] if native else []
    if python:
        lines.append(" ".join([table["manager"]["pip"], *dict.fromkeys(python)]))
    return " && ".join(lines)
