# SPDX-License-Identifier: Apache-2.0
"""Files around the code that other programs read: CI, hooks, forms, metadata, the changelog."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aot.version import __version__
from hatch_build import page, urls
from needs import need_module

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS = {
    ".github/workflows/*.yml": "vendor.github-workflows",
    ".github/actions/*/action.yml": "vendor.github-actions",
    ".github/ISSUE_TEMPLATE/[!c]*.yml": "vendor.github-issue-forms",
    ".github/ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
    ".gitlab-ci.yml": "vendor.gitlab-ci",
}


def checked(*command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("files", SCHEMAS)
def test_files_of_ci_have_their_schema(files: str) -> None:
    need_module("check_jsonschema")
    found = [str(p) for p in ROOT.glob(files)]
    assert found
    checked("check_jsonschema", "--builtin-schema", SCHEMAS[files], *found)


def test_hooks_are_valid() -> None:
    need_module("pre_commit")
    checked("pre_commit", "validate-config", ".pre-commit-config.yaml")


def test_what_ci_runs_exists() -> None:
    """Scripts and targets of make that a file of CI names."""
    makefile = (ROOT / "Makefile").read_text()
    for path in (ROOT / ".gitlab-ci.yml", *ROOT.glob(".github/workflows/*.yml")):
        text = path.read_text()
        assert re.findall(r"scripts/\w+\.sh", text) and re.findall(r"make (\w+)\n", text)
        for script in re.findall(r"scripts/\w+\.sh", text):
            assert (ROOT / script).stat().st_mode & 0o100, script
        for target in re.findall(r"(?:- |run: )make (\w+)\n", text):
            assert f"\n{target}:" in makefile, target


def test_the_changelog_begins_with_this_version() -> None:
    titles = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert titles[0] == __version__


def test_an_index_shows_addresses_where_the_project_has_one() -> None:
    shown = urls("https://example.org/aotc")
    assert {"Source", "Issues", "Documentation", "Changelog"} == set(shown)
    assert all(address.startswith("https://example.org/aotc") for address in shown.values())


def test_pictures_of_the_page_are_absolute_or_left_out() -> None:
    text = "![a](docs/a.png) [b](docs/b.md)"
    at = "https://example.org/aotc"
    assert page(text, "") == " b (`docs/b.md`)"
    assert page(text, at) == f"![a]({at}/raw/HEAD/docs/a.png) [b]({at}/blob/HEAD/docs/b.md)"


@pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="of make full; AOT_FULL=1")
@pytest.mark.parametrize("name", ["torch", "onnxscript", "ziglang"])
def test_a_full_run_skips_no_package(name: str) -> None:
    """Tests of packages that are too large for `make test` skip without them."""
    assert importlib.util.find_spec(name), f"{name} is not installed: make full installs it"
