# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: whole, and its search leads a newcomer to answers in two clicks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from browser import browser
from gallery import SHOTS, pictures
from needs import need_module
from site_search import QUESTIONS, clicks

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site; a warning of MkDocs is an error."""
    need_module("mkdocs")
    to = tmp_path_factory.mktemp("site") / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(to)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return to


def test_the_site_is_whole(site: Path) -> None:
    """No page outside the menus, no link that leads nowhere, and search knows every page."""
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {p.relative_to(site).as_posix() for p in site.rglob("*.html")}
    assert pages - found == {"404.html"} and "docs/tutorial/own-model.html" in pages


def test_search_answers_a_newcomer_in_two_clicks(site: Path) -> None:
    """In a browser, with words that the pages need not have in this order or form."""
    browser()
    asked = {**QUESTIONS, "zzzz": QUESTIONS["zephyr"]}
    counts = clicks(site, asked)
    assert counts.pop("zzzz") == 3  # no page has the word: nothing leads to an answer
    assert len(counts) >= 20 and max(counts.values()) <= 2, counts


def test_every_question_is_asked() -> None:
    """Each heading of docs/questions.md has words of its own in the search test."""
    page = (ROOT / "docs" / "questions.md").read_text()
    headings = re.findall("^## (.+)$", page, flags=re.MULTILINE)
    assert len(headings) >= 10 and len(QUESTIONS) == 2 * len(headings)


def test_the_gallery_has_its_pictures() -> None:
    """Each is made by the two commands above it, and no picture is without a place."""
    made = dict(pictures())
    docs = ROOT / "docs"
    assert set(made) == set(SHOTS) == {p.relative_to(docs).as_posix() for p in docs.rglob("*.png")}
    for path, commands in made.items():
        assert 5_000 < (docs / path).stat().st_size < 150_000, path
        assert sum(c.startswith(("aotc ", "pip ")) for c in commands) == 2, path
