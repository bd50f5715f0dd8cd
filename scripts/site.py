# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: what mkdocs.yml asks of us before MkDocs reads a page.

The pages lie where people read them without a site, README.md above docs/, and link to each other
there. MkDocs takes one folder: `build/pages` is a copy with the same places, and with the page that
the manifest's schema makes.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from jsonschema_markdown import generate
from loguru import logger

ROOT = Path(__file__).resolve().parents[1]
#: What the site shows, and what its pages link to.
SHOWN = (
    *("*.md", "LICENSE", "runtime_c/LICENSE", "docs/**/*.*", "benchmarks/README.md"),
    *("extras/README.md", "examples/*/README.md"),
)
#: How much more, or less, a page counts in a search: answers for users come before pages that name
#: everything.
BOOSTS = {
    "docs/questions.md": 8,
    "README.md": 2,
    "docs/tutorial/": 4,
    "docs/explanation/": 2,
    **dict.fromkeys(("ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md", "benchmarks/"), 0.2),
    **dict.fromkeys(
        (f"docs/{name}" for name in ("accel_isa", "canonical", "zoo", "manifest")), 0.2
    ),
}
_MANIFEST = """\
# The manifest

`OUT/bundle/manifest.json` says what a bundle holds. This page is made from
[its schema](manifest.schema.json), which versions the file: keys may be added in a minor version,
removing one is a major version.

"""


def on_config(config: Any) -> None:
    """Copy the pages, and let MkDocs read the copy."""
    pages = ROOT / "build" / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    for path in (p for pattern in SHOWN for p in ROOT.glob(pattern) if p.is_file()):
        copied = pages / path.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)
    logger.disable("jsonschema_markdown")  # it warns of types that it writes rightly
    schema = json.loads((ROOT / "docs" / "manifest.schema.json").read_text(encoding="utf-8"))
    table = generate(schema, footer=False, hide_empty_columns=True, title="Keys")
    (pages / "docs" / "manifest.md").write_text(_MANIFEST + table, encoding="utf-8")
    config.docs_dir = str(pages)


def on_page_markdown(markdown: str, page: Any, **_site: Any) -> str:
    """The page as MkDocs' Markdown: the file that a block is written to is the block's title, and
    `W[i][m]` is no link. The page gets its boost in searches."""
    found = (boost for start, boost in BOOSTS.items() if page.file.src_uri.startswith(start))
    page.meta["search"] = {"boost": next(found, 1)}
    titled = re.sub(r"^```(\w+) file=(\S+)$", r'```\1 title="\2"', markdown, flags=re.MULTILINE)
    return re.sub(r"^```(\w+) torch$", r"```\1", titled, flags=re.MULTILINE).replace(
        "][m]", "]\\[m]"
    )
