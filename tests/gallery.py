# SPDX-License-Identifier: Apache-2.0
"""`make picture`: runs the commands of docs/gallery.md and takes its pictures in Debian's chromium.

A picture shows the page that the last command before it wrote.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from browser import CLICK, chromium
from test_docs import ROOT, Folder

PAGE = ROOT / "docs" / "gallery.md"


@dataclass(frozen=True)
class Shot:
    """How a page is shown: ids of its sections ("" for all), pixels, colours."""

    sections: tuple[str, ...]
    height: int
    dark: bool = False


SHOTS = {
    "report.png": Shot(("graph", "memory"), 1440),
    "gallery/costs.png": Shot(("summary", "costs"), 1100, dark=True),
    "gallery/camera.png": Shot(("memory",), 710),
    "gallery/diff.png": Shot((), 950),
    "gallery/accelerator.png": Shot(("accelerator",), 1120),
    "gallery/state.png": Shot(("memory",), 710),
    "gallery/vendor.png": Shot(("graph",), 535),
    "gallery/device.png": Shot(("graph",), 535),
}


def pictures() -> Iterator[tuple[str, list[str]]]:
    """(path below docs/, the commands that make its page) of every picture, in order."""
    text = PAGE.read_text(encoding="utf-8")
    commands: list[str] = []
    for command, path in re.findall(r"^\$ (.+)$|^!\[.*\]\((.+)\)$", text, flags=re.MULTILINE):
        commands += [command] if command else []
        if path:
            yield path, commands
            commands = []


def shown(page: str, shot: Shot) -> str:
    """The page with nothing but the sections of the shot, and one box of its graph chosen."""
    hidden = ", ".join(f":not(#{name})" for name in shot.sections).replace(", ", "")
    style = f"header, main > section{hidden}" if shot.sections else "nav"
    added = f"<style>{style}, .graph + h3 {{ display: none; }} h2 {{ margin-top: 0; }}</style>"
    click = f"<script>for (const b of document.querySelectorAll('a.box')) {CLICK}</script>"
    return page.replace("</body>", f"{added}{click}</body>")


def main() -> None:
    """Take every picture again."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Folder(Path(temporary, "work"))
        for path, commands in pictures():
            for command in commands:
                folder.run(command)
            page = folder.path / commands[-1].split(" -o ")[-1].split()[0]
            shot, to = SHOTS[path], ROOT / "docs" / path
            page.write_text(shown(page.read_text(encoding="utf-8"), shot), encoding="utf-8")
            size = f"--window-size=1100,{shot.height}"
            chromium(page, size, f"--screenshot={to}", dark=shot.dark)


if __name__ == "__main__":
    main()
