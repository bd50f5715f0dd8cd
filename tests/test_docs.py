# SPDX-License-Identifier: Apache-2.0
"""Every block of the documentation is executed; generated pages are current; links lead somewhere.

Blocks: ```LANG file=PATH is written to PATH; ```console runs each `$ command` and compares what it
prints. `…` on a line of its own skips lines. Numbers may differ (other CPUs have other plans), so
every run of digits compares equal; all other text is compared as it is, line by line, in order.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import files
import reference
import vendor_names
from aot.cli import canonical
from needs import need, need_module

ROOT = Path(__file__).resolve().parents[1]
EXECUTED = (
    "README.md",
    "docs/new-operator.md",
    "docs/new-backend.md",
    "docs/bundle.md",
    "docs/packages.md",
    "docs/reading-the-c.md",
    "docs/targets.md",
    "docs/new-target.md",
    "docs/quantised.md",
    "docs/dynamic.md",
    "docs/control-flow.md",
    "docs/streaming.md",
    "docs/weights.md",
    "docs/memories.md",
    "docs/several-models.md",
    "docs/step.md",
    "docs/rtos.md",
    "docs/threads.md",
    "docs/accel.md",
    "docs/cmsis_nn.md",
    "docs/esp_nn.md",
    "docs/ethos_u.md",
    "docs/ort.md",
    "docs/report.md",
    "docs/diff.md",
    "docs/gallery.md",
    "docs/python.md",
    "docs/project.md",
    "docs/exercises.md",
    *(f"docs/tutorial/{p.name}" for p in sorted(ROOT.glob("docs/tutorial/*.md"))),
    *(f"docs/explanation/{p.name}" for p in sorted(ROOT.glob("docs/explanation/*.md"))),
)
# Programs a page runs beyond what every test has.
NEEDS = {
    page: ("arm-none-eabi-gcc", "qemu-system-arm")
    for page in (
        *("docs/new-target.md", "docs/accel.md", "docs/cmsis_nn.md", "docs/report.md"),
        *("docs/ethos_u.md", "docs/tutorial/firmware.md", "docs/memories.md"),
    )
} | {"docs/esp_nn.md": ("riscv64-unknown-elf-gcc", "qemu-system-riscv32")}
PAGES = sorted(
    p.relative_to(ROOT).as_posix()
    for p in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md"))
    if not p.name.startswith(".")
)
# Pages that take long, or whose commands other pages and tests run, too: `make full` runs them.
FULL = (
    *("project", "first-model", "own-model", "firmware", "quantise", "vendor", "accelerator"),
    *("exactness", "exercises", "gallery", "accel", "diff", "several-models", "packages", "report"),
    *("streaming", "memories", "cmsis_nn", "esp_nn", "ethos_u"),
)
EVERY = bool(os.environ.get("AOT_FULL"))
# Pages that show make's words are built by make, the others by the generator of the tests.
MADE = "[100%] Built target"
# What stands for commands that set up a machine.
INSTEAD = {"make demo": "python examples/digits/demo.py out/demo"}


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the word after it, its text, the line it starts at."""

    language: str
    note: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    head: re.Match[str] | None = None
    body: list[str] = []
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        fence = re.fullmatch(r"```(\w*) ?(\S*)", line)
        if fence and head is None:
            head, body = fence, []
        elif line == "```" and head is not None:
            yield Block(head[1], head[2], "\n".join(body) + "\n", number - len(body) - 1)
            head = None
        elif head is not None:
            body.append(line)
    assert head is None, f"{page}: a block is not closed"


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """(command, lines it prints) of a console block."""
    command, printed = "", []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, printed
            command, printed = line[2:], []
        else:
            printed.append(line)
    yield command, printed


class Folder:
    """Where a page is executed: an empty folder with the example and a shell that has aotc."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        for name in ("examples", "tests"):
            (path / name).symlink_to(ROOT / name)
        programs = path / "programs"
        programs.mkdir()
        for name, words in (("aotc", "-m aot"), ("python", "")):
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
            (programs / name).chmod(0o755)
        where = f"{programs}:{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": where, "PYTHONPATH": f"{path}/site:{ROOT}"}

    def write(self, name: str, text: str) -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text)

    def run(self, command: str) -> str:
        if package := re.fullmatch(r"pip install -e (\S+)", command):
            self.install(package[1])
            return ""
        words = ["bash", "-c", "set -e; " + INSTEAD.get(command, command)]
        done = subprocess.run(words, cwd=self.path, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def install(self, package: str) -> None:
        """What pip does, without its network: build the wheel and unpack it on the path."""
        need_module("hatchling")
        code = "import hatchling.build as b; print(b.build_wheel('wheels'))"
        source = self.path / "packages" / package
        shutil.copytree(self.path / package, source)
        name = self.run(f'cd {source} && mkdir wheels && python -c "{code}"').split()[-1]
        with zipfile.ZipFile(source / "wheels" / name) as wheel:
            wheel.extractall(self.path / "site")


def plain(line: str) -> str:
    """A line without what differs between machines."""
    line = re.sub(r"x86-64(-v\d)?(-vnni|-bf16)?", "x86-64", line.rstrip())
    return re.sub(r"\d+([.,]\d+)*(e[-+]\d+)?", "N", line)


def expect(command: str, printed: str, expected: list[str]) -> None:
    """Each expected line follows the one before it, at once or, after `…`, later."""
    if not any(line.strip() for line in expected):
        return
    got = [plain(s) for s in printed.splitlines()]
    at, skip = 0, False
    for line in expected:
        if line == "…":
            skip = True
            continue
        wanted = plain(line)
        if skip and wanted in got[at:]:
            at += got[at:].index(wanted)
        assert at < len(got) and got[at] == wanted, f"$ {command}\n{line}\nnot in\n{printed}"
        at, skip = at + 1, False
    assert skip or at == len(got), f"$ {command} prints more than the page shows:\n{printed}"


def test_the_comparison_sees_differences() -> None:
    expect("c", "a 1\nb\nc\n", ["a 2", "…", "c"])
    for shown in (["a"], ["…", "d"], ["a 1", "c"], ["a 1", "b"], ["c", "…", "b"]):
        with pytest.raises(AssertionError):
            expect("c", "a 1\nb\nc\n", shown)


@pytest.mark.parametrize("page", [p for p in EXECUTED if EVERY or Path(p).stem not in FULL])
def test_page(page: str, tmp_path: Path) -> None:
    for program in NEEDS.get(page, ()):
        need(program)
    folder = Folder(tmp_path / "work")
    if MADE in (ROOT / page).read_text():
        folder.env.pop("CMAKE_GENERATOR", None)
    for block in blocks(page):
        where = f"{page}:{block.line}"
        if block.note.startswith("file="):
            folder.write(block.note.removeprefix("file="), block.text)
        elif block.language == "console":
            for command, expected in commands(block.text):
                expect(f"{where}: {command}", folder.run(command), expected)
        elif block.note == "torch":
            compile(block.text, where, "exec")  # torch is far too large for a test
        else:
            assert block.language == "sh", f"{where}: a block that no test executes"
            for line in block.text.splitlines():
                assert f"\n{line.split('#')[0].strip().split()[1]}:" in makefile(), where


def makefile() -> str:
    return (ROOT / "Makefile").read_text()


def test_the_two_commands_come_first() -> None:
    first = next(blocks("README.md")).text.splitlines()
    assert [line.split("#")[0].strip() for line in first] == ["make demo", "make test"]


def test_generated_pages_are_current() -> None:
    for name, page in (
        *((name, reference.page(name)) for name in reference.PAGES),
        ("canonical.md", canonical.page(canonical.read())),
        ("new-backend.md", vendor_names.page(vendor_names.PAGE.read_text())),
    ):
        assert (ROOT / "docs" / name).read_text() == page, f"docs/{name}: run make docs"
    listed = files.PAGE.read_text()
    assert listed == files.page(listed), "ARCHITECTURE.md: run make docs"


@pytest.mark.parametrize("page", PAGES)
def test_links_and_files_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", re.sub(r"`[^`]*`", "", prose)):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"
    tops = "aot|runtime_c|tests|docs|examples|benchmarks|cmake"
    for name in re.findall(rf"`((?:{tops})/[^`\s]*)`", prose):
        if not re.search(r"[<>{}]|NAME|aot/port\.h", name):  # a pattern, a path in a bundle
            assert list(ROOT.glob(name.rstrip("/"))), f"{page} names {name}"


def test_every_place_named_in_the_architecture_exists() -> None:
    """Every name in a row of "Where is …?" is defined in a file of the row."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("## Where is …?")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        words = re.findall("`([^`]+)`", row)
        files = [w for w in words if "/" in w]
        code = "\n".join((ROOT / f).read_text() for f in files)
        assert files, row
        for name in (w for w in words if w not in files and not w.startswith("--")):
            defined = rf"^ *(?:def {name}\(|class {name}\b|{name}\b.* = )"
            assert re.search(defined, code, flags=re.MULTILINE), f"{name} is not in {files}"


def test_make_help_lists_every_target() -> None:
    targets = re.findall(r"^([a-z]+):", makefile(), flags=re.MULTILINE)
    listed = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == targets
    assert shutil.which("make")


def test_benchmarks_have_their_markers() -> None:
    spec = importlib.util.spec_from_file_location("all_benchmarks", ROOT / "benchmarks" / "all.py")
    assert spec and spec.loader
    benchmarks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmarks)
    page = (ROOT / "benchmarks" / "README.md").read_text()
    for table in benchmarks.TABLES:
        page = benchmarks.rewritten(page, table, f"numbers of {table}")
        page = benchmarks.rewritten(page, table, f"new numbers of {table}")
    assert all(page.count(f"\nnew numbers of {table}\n") == 1 for table in benchmarks.TABLES)
