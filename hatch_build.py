# SPDX-License-Identifier: Apache-2.0
"""Metadata that depends on where the project is: URLs, the page, and the package of extras."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

#: A link of Markdown to a file of the project, or a picture: "!", its text and its path.
_LINK = re.compile(r"(!?)\[([^]\n]+)\]\((?![a-z]+:|#)([^)\s]+)\)")
#: A block of code, as one group.
_CODE = re.compile(r"^(```.*?^```)$", re.DOTALL | re.MULTILINE)


def page(text: str, repository: str) -> str:
    """README.md as it is read outside of the project: its links are absolute, or words where the
    address of the repository is not known (""). Blocks of code stay as they are."""
    parts = _CODE.split(text)
    parts[::2] = [
        _LINK.sub(lambda found: _linked(*found.groups(), repository), part) for part in parts[::2]
    ]
    return "".join(parts)


def _linked(mark: str, text: str, path: str, repository: str) -> str:
    if mark:  # a picture, which nobody sees without its file
        return f"![{text}]({repository}/raw/HEAD/{path})" if repository else ""
    if repository:
        return f"[{text}]({repository}/blob/HEAD/{path})"
    return f"`{path}`" if text == path else f"{text} (`{path}`)"


def urls(repository: str) -> dict[str, str]:
    """What a package index shows beside the page; nothing without a repository."""
    if not repository:
        return {}
    files = {"Documentation": "README.md", "Changelog": "CHANGELOG.md"}
    shown = {name: f"{repository}/blob/HEAD/{path}" for name, path in files.items()}
    return {"Source": repository, "Issues": f"{repository}/issues", **shown}


class Metadata(MetadataHookInterface):
    """Fills in what pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the page and the URLs from `repository` of the hook's table in pyproject.toml."""
        repository = str(self.config.get("repository", "")).rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": page(text, repository)}
        metadata["urls"] = urls(repository)


def extras(root: Path, version: str, editable: bool) -> str:
    """The requirement of the extra `extras`: aotc-extras of the same version.

    An editable install is a checkout, whose own folder has it: an index may not, or may have a
    stranger's. pyproject.toml cannot name that folder, for requirements have no relative paths.
    """
    place = f" @ {(root / 'extras').as_uri()}" if editable else f"=={version}"
    return f"aotc-extras{place} ; extra == 'extras'"


def sbom(root: Path, version: str, required: list[str]) -> bytes:
    """The bill of materials of the wheel: aotc, the C runtime within it, what pip installs besides.

    `required` are requirements as pyproject.toml spells them.
    """
    spdx = runpy.run_path(str(root / "aot" / "tools" / "spdx.py"))
    package = spdx["package"]
    parts = [("CONTAINS", package("aotc-runtime-c", version, "MIT-0"))]
    for requirement in required:
        name, limits = re.fullmatch(r"([\w.-]+)(.*)", requirement).groups()
        parts.append(("DEPENDS_ON", package(name, comment=f"Versions: {limits or 'any'}")))
    return spdx["document"](f"aotc-{version}", package("aotc", version, "Apache-2.0"), (), parts)


class Build(BuildHookInterface):
    """Adds the requirement of the extra `extras` to the metadata of a wheel, and its SBOM."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version` is the kind of the wheel: "standard" or "editable"."""
        root, own = Path(self.root), self.metadata.version
        build_data["dependencies"].append(extras(root, own, version == "editable"))
        if version == "standard":
            required = [*self.metadata.core.dependencies]
            made = Path(self.directory) / "aotc.spdx.json"
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_bytes(sbom(root, own, required))
            build_data["sbom_files"].append(str(made))
