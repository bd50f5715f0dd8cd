# SPDX-License-Identifier: Apache-2.0
"""`aotc doctor`: parts that are installed here, missing ones, the line that installs them.

Nothing is imported or started to find out, and no network is used: packages are known by their
metadata, programs by PATH, libraries by their headers.
"""

from __future__ import annotations

import argparse
import glob
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


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """The answer; it fails with the reason where models cannot be compiled for this machine."""
    table = read_toml(Path(__file__).with_suffix(".toml"), "table of packages")
    parts = _parts(table["part"])
    absent = [f"needs {r}" for p in parts if p["kind"] == "Python packages" for r in p["lacks"]]
    works = [_works(name, absent) for name in names()]
    install = {m: _line(m, parts, table) for m in table["manager"]}
    here = [m for m in install if m != "pip" and find_program(m)][:1] or list(install)
    text = [
        line
        for kind in dict.fromkeys(row["kind"] for row in (*parts, *works))
        for line in (
            kind,
            *(
                f"  {row['name']:<24} {row['found'] or 'not installed'}"
                + f" ({row['use']})" * bool(row["lacks"] or not row["found"])
                for row in (*parts, *works)
                if row["kind"] == kind
            ),
        )
    ]
    rest = [f"  {install[m]}" for m in here if install[m]]
    return Answer(
        {"parts": parts, "targets": works, "install": install, "managers": here},
        "\n".join([*text, "To get the rest", *rest] if rest else text),
        works[0]["use"] and f"host: {works[0]['use']}",
    )


def _parts(optional: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A record of each part: aotc needs it, `optional` (doctor.toml) or a target names it."""
    requires = (
        metadata.requires("aotc") or ()
        if _version("aotc")
        else read_toml(Path(__file__).parents[3] / "pyproject.toml", "project file")["project"][
            "dependencies"
        ]
    )
    targets = [load_target(name) for name in names()[1:]]
    programs = [
        *(("C compilers", t.compiler, t.packages, t) for t in targets if t.compiler),
        *(
            ("Emulators", program, t.emulator_packages, t)
            for t in targets
            for program in t.emulator[: not t.native()]
        ),
    ]
    return [
        {
            "kind": "Python",
            "name": "python",
            "found": sys.version.split()[0],
            "use": "",
            "lacks": [],
        },
        *(
            _part({"kind": "Python packages", "requirement": r, "use": f"needed: {r}"})
            for r in (line.split(";")[0].strip() for line in requires if "extra ==" not in line)
        ),
        *map(_part, optional),
        *(
            _part(
                {
                    "kind": kind,
                    "name": name,
                    "packages": [
                        *dict.fromkeys(
                            p
                            for row in programs
                            if row[1] == name
                            for p in row[2]
                            if p != "make"  # a part of its own, for which ninja may stand
                        )
                    ],
                    "use": ", ".join(row[3].name for row in programs if row[1] == name),
                }
            )
            for kind, name in dict.fromkeys(row[:2] for row in programs)
        ),
    ]


def _part(row: Mapping[str, Any]) -> dict[str, Any]:
    """The part that a row describes, with `found`, its version or path ("": it is absent).

    `lacks` are the packages that would install it, [] if nothing is lacking: requirements of pip
    for Python packages, else packages of apt.
    """
    requirement = row.get("requirement", "")
    name = row.get("name") or re.split(r"[^\w.-]", requirement)[0]
    files = [os.path.expandvars(f.replace("@prefix", sys.prefix)) for f in row.get("files", ())]
    found = [f for pattern in files for f in sorted(glob.glob(pattern))] + [
        (_version(name) if requirement else "" if files else find_program(name)) or ""
    ]
    enough = (found[0] and _fits(found[0], requirement)) or any(
        map(find_program, row.get("or", ()))
    )
    return {
        "kind": row["kind"],
        "name": name,
        "found": found[0],
        "use": row["use"],
        "lacks": [] if enough else [requirement] if requirement else row.get("packages", []),
    }


def _version(name: str) -> str:
    """The version of an installed Python package, "" of another one."""
    return next((str(d.version) for d in metadata.distributions(name=name)), "")


def _fits(version: str, requirement: str) -> bool:
    """Whether the version is within the bounds (`>=`, `<`, `==`) of the requirement."""
    bounds = re.findall(r"(==|>=|<)\s*([\d.]+)", requirement)
    have, *limits = (
        [int(n) for n in re.findall(r"\d+", text)] for text in (version, *(b for _, b in bounds))
    )
    return all(
        {"==": have == limit, ">=": have >= limit, "<": have < limit}[sign]
        for (sign, _), limit in zip(bounds, limits, strict=True)
    )


def _works(name: str, absent: Sequence[str]) -> dict[str, Any]:
    """Whether a bundle for the target can be built and run here; `use` says why it cannot.

    `absent` are reasons why nothing can be compiled.
    """
    try:
        target = load_target(name)
        find_tools(target.packages, target.compiler)
    except AotError as error:
        absent = [*absent, error.what]
    run = not absent and (
        target.runs_here() or any(map(find_program, target.emulator[: not target.native()]))
    )
    return {
        "kind": "What works now",
        "name": name,
        "found": f"build {'no' if absent else 'yes'}, run {'yes' if run else 'no'}",
        "use": "; ".join(absent),
        "lacks": absent,
        "build": not absent,
        "run": run,
    }


def _line(manager: str, parts: Sequence[Mapping[str, Any]], table: Mapping[str, Any]) -> str:
    """What to type to get all that is lacking and that the manager or pip has; "" for nothing."""
    python = [f'"{r}"' for p in parts if p["kind"].startswith("Python") for r in p["lacks"]]
    native = [
        name
        for part in parts
        if not part["kind"].startswith("Python")
        for apt in part["lacks"]
        for name in {"apt-get": [apt], **table["names"].get(apt, {})}.get(manager, ())
    ]
    return " && ".join(
        " ".join([table["manager"][m], *dict.fromkeys(w)])
        for m, w in {
            manager: native,
            "pip": [*(native if manager == "pip" else ()), *python],
        }.items()
        if w
    )
