# SPDX-License-Identifier: Apache-2.0
"""The fixed list of the zoo: lists/*.toml as records."""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LISTS = HERE / "lists"
ENVIRONMENTS = HERE / "environments.toml"


@dataclass(frozen=True, slots=True)
class Row:
    """A model of the zoo.

    `maker` is `module:function` of makers/; it runs in `environment` (a list of packages of
    environments.toml) with `name` and `options`. `dims` are the only options that aotc is given.
    """

    name: str
    family: str
    environment: str
    packages: tuple[str, ...]
    maker: str
    options: str  # JSON with sorted keys
    dims: tuple[str, ...]

    @property
    def digest(self) -> str:
        """It changes when the row does, so that old results and models of the row are dropped."""
        text = repr((self.name, self.environment, self.packages, self.maker, self.options))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def origin(self) -> str:
        """How the model is made, for the table: packages, then the maker with its options."""
        options = json.loads(self.options)
        said = ", ".join(f"{k}={v}" for k, v in options.items() if k not in ("inputs", "config"))
        return f"{' '.join(self.packages)}: {said or self.maker}"


def environments() -> dict[str, list[str]]:
    """Name of an environment → arguments of pip install."""
    return {k: list(v) for k, v in tomllib.loads(ENVIRONMENTS.read_text()).items()}


def rows() -> tuple[Row, ...]:
    """Every row, in the order of the files. Raises ValueError for a name that stands twice."""
    found: dict[str, Row] = {}
    for path in sorted(LISTS.glob("*.toml")):
        for group in tomllib.loads(path.read_text())["group"]:
            for entry in group["models"]:
                row = _row(group, {"name": entry} if isinstance(entry, str) else entry)
                if row.name in found:
                    raise ValueError(f"{path.name}: the name {row.name!r} stands twice")
                found[row.name] = row
    return tuple(found.values())


def _row(group: dict[str, Any], entry: dict[str, Any]) -> Row:
    """The row of `entry`: `dims` and `packages` replace the group's, other keys are options."""
    options = dict(group.get("options", {}))
    options |= {k: v for k, v in entry.items() if k not in ("name", "dims", "packages")}
    return Row(
        entry["name"],
        group["family"],
        group.get("environment", "none"),
        tuple(entry.get("packages", group.get("packages", ()))),
        group["maker"],
        json.dumps(options, sort_keys=True),
        tuple(entry.get("dims", group.get("dims", ()))),
    )
