# SPDX-License-Identifier: Apache-2.0
"""Eight pages of docs/ were missing from README's table."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_readme_lists_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("\n## Documentation\n")[2].partition("\n## ")[0]
    rows = [line.partition(" | ")[0] for line in section.splitlines() if line.startswith("| [")]
    listed = [name for row in rows for name in re.findall(r"\]\(docs/([\w.-]+)\)", row)]
    # A picture belongs to the page that shows it.
    pages = {p.name for p in (ROOT / "docs").iterdir() if p.is_file() and p.suffix != ".png"}
    assert sorted(listed) == sorted(pages)
