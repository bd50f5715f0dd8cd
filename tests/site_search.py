# SPDX-License-Identifier: Apache-2.0
"""A newcomer at the built site: words typed into its search, and the clicks from there to answers.

`python tests/site_search.py SITE` prints the table that tests/test_site.py checks.
"""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from browser import browser

#: Pages of results that a newcomer looks at.
LOOKED_AT = 3
_OTHERS = "docs/explanation/comparison.html#kinds-of-tools"
#: Words that are typed → the section that answers, and words of the answer.
QUESTIONS = {
    "compile my first model": ("docs/tutorial/first-model.html#compile", "cmake --build"),
    "convert onnx to c": ("docs/tutorial/first-model.html#compile", "cmake --build"),
    "install without root": ("docs/tutorial/first-model.html", "[zig]"),
    "no c compiler": ("docs/tutorial/first-model.html", "[zig]"),
    "dynamic batch size": ("docs/tutorial/own-model.html#ask-what-it-needs", "--dim"),
    "symbolic dimension": ("docs/tutorial/own-model.html#ask-what-it-needs", "--dim"),
    "export pytorch": ("index.html#from-pytorch", "torch.onnx.export"),
    "torch module": ("docs/python.html#modules-of-pytorch", "aot.torch.compile"),
    "microcontroller": ("docs/tutorial/firmware.html#compile-build-run", "cortex-m4"),
    "run on cortex-m4": ("docs/tutorial/firmware.html#compile-build-run", "cortex-m4"),
    "not enough ram": ("docs/tutorial/firmware.html#will-it-fit", "--ram"),
    "reduce memory": ("docs/streaming.html", "--objective ram"),
    "quantize int8": ("docs/tutorial/quantise.html#calibrate", "aotc quantize"),
    "quantise to 8 bits": ("docs/tutorial/quantise.html#calibrate", "aotc quantize"),
    "unsupported operator": ("docs/new-operator.html", "operator"),
    "model refused": ("docs/refused.html", "--unsupported"),
    "call from c++": ("docs/packages.html#a-session", "digits.hpp"),
    "call from python": ("docs/python.html#calling-a-model", "load()"),
    "zephyr": ("docs/packages.html", "zephyr"),
    "arduino library": ("docs/packages.html", "arduino"),
    "are the results right": ("docs/explanation/exactness.html", "strict"),
    "verify accuracy": ("docs/tutorial/first-model.html#is-it-right", "aotc verify"),
    "my own accelerator": ("docs/tutorial/vendor.html#start-from-one-that-works", "new-backend"),
    "custom kernels": ("docs/new-backend.html", "new-backend"),
    "tensorflow lite micro": (_OTHERS, "TensorFlow Lite"),
    "alternative to onnxruntime": (
        "docs/explanation/comparison.html#kinds-of-tools",
        "onnxruntime",
    ),
    "license": ("index.html#licence", "MIT-0"),
    "ship in a product": ("index.html#licence", "MIT-0"),
}
#: Types each word of WORDS, then posts for each the pages that the site shows, with the links of
#: each that are visible: those behind "more on this page" are not.
TYPING = """
(async () => {
  const until = async (good) => {
    while (!good()) await new Promise((go) => setTimeout(go, 10));
  };
  const input = document.querySelector("[data-md-component=search-query]");
  const said = document.querySelector(".md-search-result__meta");
  const idle = () => said.textContent.includes("Type to start");
  const type = (words) => {
    input.value = words;
    input.dispatchEvent(new Event("keyup"));
  };
  const found = {};
  document.querySelector("#__search").click();
  input.focus();
  for (const words of WORDS) {
    type("");
    await until(idle);
    type(words);
    await until(() => !idle());
    const pages = [...document.querySelectorAll(".md-search-result__item")];
    found[words] = pages.slice(0, 10).map((page) =>
      [...page.querySelectorAll("a.md-search-result__link")]
        .filter((link) => !link.closest("details"))
        .map((link) => link.href.slice(location.origin.length + 1)));
  }
  await fetch("/found", {method: "POST", body: JSON.stringify(found)});
})();
"""


class Sections(HTMLParser):
    """The text and the links of each section of a page; the first, "", begins at its title."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.page, self.inside, self.at = page, 0, ""
        self.texts: dict[str, str] = {}
        self.links: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.inside += tag == "article"
        if tag in ("h2", "h3", "h4") and self.inside:
            self.at = f"#{known.get('id')}"
        href = known.get("href") or ""
        if tag == "a" and self.inside and href and ":" not in href:
            folder = posixpath.dirname(self.page)
            to = self.page + href if href[0] == "#" else posixpath.join(folder, href)
            self.links.setdefault(self.page + self.at, []).append(posixpath.normpath(to))

    def handle_endtag(self, tag: str) -> None:
        self.inside -= tag == "article"

    def handle_data(self, data: str) -> None:
        if self.inside:
            place = self.page + self.at
            self.texts[place] = self.texts.get(place, "") + data


@contextmanager
def served(
    site: Path, words: Sequence[str]
) -> Iterator[tuple[str, threading.Event, dict[str, Any]]]:
    """The address of the site with a page that types, an event when it has, and what it found."""
    done, found = threading.Event(), dict[str, Any]()
    typing = f"<script>{TYPING.replace('WORDS', json.dumps(words))}</script></body>"
    page = (site / "index.html").read_text(encoding="utf-8").replace("</body>", typing).encode()

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(site))

        def log_message(self, *_given: Any) -> None:
            pass

        def do_POST(self) -> None:
            found.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()
            done.set()

        def do_GET(self) -> None:
            if self.path == "/typed.html":
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(page)
            else:
                super().do_GET()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/typed.html", done, found
        server.shutdown()


def searched(site: Path, words: Sequence[str]) -> Mapping[str, list[list[str]]]:
    """For each of `words` the pages that search shows, best first, as visible links."""
    # The browser may still write when it is told to end.
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with served(site, words) as (address, done, found), folder as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([browser(), *options, address], **quiet) as shown:
            finished = done.wait(120)
            shown.terminate()
    assert finished, "the page has not typed all words"
    return found


def sections(site: Path) -> Sections:
    """The sections of all pages."""
    texts: dict[str, str] = {}
    links: dict[str, list[str]] = {}
    for path in site.rglob("*.html"):
        page = Sections(path.relative_to(site).as_posix())
        page.feed(path.read_text(encoding="utf-8"))
        texts |= page.texts
        links |= page.links
    every = Sections("")
    every.texts, every.links = texts, links
    return every


def clicks(site: Path, asked: Mapping[str, tuple[str, str]] = QUESTIONS) -> dict[str, int]:
    """The fewest clicks from typed words to the section that answers them; 3 stands for more."""
    found, known = searched(site, list(asked)), sections(site)
    counts = {}
    for words, (answer, text) in asked.items():
        assert text in known.texts[answer], f"{answer} does not say {text!r}"
        first = [link for page in found[words][:LOOKED_AT] for link in page]
        places = [re.sub(r"\?[^#]*", "", link) for link in first]
        second = {link for place in places for link in known.links.get(place, ())}
        counts[words] = 1 if answer in places else 2 if answer in second else 3
    return counts


if __name__ == "__main__":
    for typed, number in clicks(Path(sys.argv[1])).items():
        print(f"{typed:30} {number}  {QUESTIONS[typed][0]}")
