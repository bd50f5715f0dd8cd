# SPDX-License-Identifier: Apache-2.0
"""Pages in a real browser, Debian's chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from needs import missing_in_full

#: Where `make full` lets npm put axe-core.
AXE = Path(__file__).parents[1] / "build/axe/node_modules/axe-core/axe.min.js"
#: Chooses the box `b`: links of SVG have no click().
CLICK = 'b.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}))'
#: Shows all that can be shown, then writes what axe-core finds into the page.
CHECK = """
for (const d of document.querySelectorAll("details")) d.open = true;
for (const b of document.querySelectorAll("a.box")) CLICK;
axe.run().then((found) => { document.documentElement.dataset.axe = JSON.stringify({
  violations: found.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 200))]),
  passes: found.passes.map((p) => p.id) }); });
""".replace("CLICK", CLICK)


def browser() -> str:
    """The path of chromium; without it the test is skipped, for `make test` does not install it."""
    return shutil.which("chromium") or missing_in_full("chromium")


def axe() -> str:
    """The text of axe-core; without it the test is skipped."""
    if not AXE.is_file():
        missing_in_full("axe-core (npm)")
    return AXE.read_text(encoding="utf-8").replace("</script", "<\\/script")


def chromium(page: Path, *options: str, dark: bool = False) -> str:
    """Open a page; what the browser prints."""
    words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    words += ["--blink-settings=preferredColorScheme=0"] if dark else []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [browser(), *words, f"--user-data-dir={profile}", *options, page.resolve().as_uri()]
        return subprocess.run(words, capture_output=True, text=True, timeout=300).stdout


def accessibility(page: Path, dark: bool = False) -> dict[str, Any]:
    """The violations that axe-core finds in a page, and the names of its rules that it passes."""
    script = f"<script>{axe()}</script><script>{CHECK}</script></body>"
    checked = page.with_suffix(".axe.html")
    checked.write_text(
        page.read_text(encoding="utf-8").replace("</body>", script), encoding="utf-8"
    )
    shown = chromium(checked, "--virtual-time-budget=60000", "--dump-dom", dark=dark)
    found = re.search(r'data-axe="([^"]*)"', shown)
    assert found, shown[:500]
    result: dict[str, Any] = json.loads(html.unescape(found[1]))
    return result
