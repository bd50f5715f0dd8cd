# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks and rewrites the tables of benchmarks/README.md between their markers.

    python benchmarks/all.py [--quick] [TABLE …]

TABLE: speed, int8, memory, embedded, everywhere, compile, kernels, accel, partition, packing (all).
A table whose data is not on this machine keeps its old text. --quick takes few models and rounds
and prints instead of writing. Exits 1 if a benchmark found a figure outside its bound.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPEED = (
    "resnet50",
    "squeezenet1_1",
    "mobilenetv2",
    "resnet18",
    "inceptionv3",
    "vgg16",
    "bert_tiny",
    "light_densenet121",
    "light_shufflenet",
    "ultraface_rfb320",
    "ppocr_v4_det",
)
LIGHT_SPEED = ("light_resnet50", "light_squeezenet", "light_shufflenet", "light_densenet121")


class Skipped(Exception):
    """What a table is made from is not here."""


class Outside(Exception):
    """A benchmark ended with exit code 1; its text is the argument."""


def script(name: str, *words: object) -> str:
    """What a benchmark prints; Outside if a figure is not within its bound."""
    command = [sys.executable, HERE / name, *words]
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True)
    if done.returncode == 1 and done.stdout:
        raise Outside(done.stdout)
    if done.returncode:
        raise SystemExit(f"{name} ended with {done.returncode}")
    return done.stdout


def fenced(text: str) -> str:
    """Plain output as a block."""
    return f"```text\n{text.rstrip()}\n```\n"


def machine(_quick: bool) -> str:
    """CPU, cores, compiler and versions, in a sentence."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", info.read_text() if info.is_file() else "")
    cpu = " ".join(found[1].split()) if found else platform.machine()
    shown = subprocess.run(
        [os.environ.get("CC", "cc"), "--version"], capture_output=True, text=True
    )
    compiler = shown.stdout.splitlines()[0]
    versions = [f"Python {platform.python_version()}"]
    for name in ("numpy", "onnx", "onnxruntime"):
        versions.append(f"{name} {__import__(name).__version__}")
    return f"{cpu}, {os.cpu_count()} cores; {compiler}; {', '.join(versions)}.\n"


def speed(quick: bool) -> str:
    """Against onnxruntime."""
    models = SPEED if os.environ.get("AOT_TEST_MODELS") else LIGHT_SPEED
    if quick:
        return script("host.py", "light_squeezenet", "--rounds", 2)
    return script("host.py", *models)


def int8(quick: bool) -> str:
    """8-bit networks and their spellings."""
    if not os.environ.get("AOT_TEST_MODELS"):
        raise Skipped("AOT_TEST_MODELS does not name a folder of models")
    return script("int8.py", *(["resnet8", "--rounds", 2] if quick else []))


def memory(quick: bool) -> str:
    """Arenas and bounds, for both objectives."""
    models = ("light_squeezenet",) if quick else ()
    parts, bad = [], False
    for objective in ("latency", "ram"):
        try:
            text = script("bundle_memory.py", "--objective", objective, *models)
        except Outside as error:
            text, bad = str(error), True
        parts.append(f"`--objective {objective}`:\n\n{text}")
    joined = "\n".join(parts)
    if bad:
        raise Outside(joined)
    return joined


def embedded(quick: bool) -> str:
    """Microcontrollers under QEMU."""
    if quick or not os.environ.get("AOT_TEST_MODELS"):
        return script("embedded.py", "--target", "cortex-m4")
    return script("embedded.py") + script("embedded.py", "--requant", "onnx")


def everywhere(quick: bool) -> str:
    """The same bytes on every target."""
    words = ["digits_int8", "--target", "host", "--target", "cortex-m4"] if quick else []
    return script("everywhere.py", *words)


def compiling(quick: bool) -> str:
    """aotc and the C compiler."""
    return script("compile_time.py", *(["--no-build", "squeezenet"] if quick else []))


def kernels(quick: bool) -> str:
    """GFLOP/s by layer."""
    return fenced(script("kernels.py", *(["64->256"] if quick else [])))


def partition(quick: bool) -> str:
    """Random and large graphs."""
    return fenced(script("partition.py", 50 if quick else 100_000))


def accel(quick: bool) -> str:
    """AX1 beside Ethos-U55."""
    if not os.environ.get("AOT_TEST_MODELS"):
        raise Skipped("AOT_TEST_MODELS does not name a folder of models")
    return script("accel.py", *(["kws"] if quick else []))


def packing(_quick: bool) -> str:
    """Packing instances of others."""
    folder = os.environ.get("AOT_PACKING", "")
    if not Path(folder or "/nonexistent").is_dir():
        raise Skipped("AOT_PACKING does not name a folder of instances")
    return fenced(script("memory.py", folder))


TABLES: dict[str, Callable[[bool], str]] = {
    "machine": machine,
    "speed": speed,
    "int8": int8,
    "memory": memory,
    "embedded": embedded,
    "everywhere": everywhere,
    "compile": compiling,
    "kernels": kernels,
    "accel": accel,
    "partition": partition,
    "packing": packing,
}


def rewritten(page: str, table: str, text: str) -> str:
    """`page` with `text` between the markers of `table`."""
    begin, end = f"<!-- begin {table} -->", f"<!-- end {table} -->"
    head, _, rest = page.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise SystemExit(f"benchmarks/README.md has no markers for {table}")
    return f"{head}{begin}\n{text.strip()}\n{end}{tail}"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("tables", nargs="*", choices=[*TABLES, []], metavar="TABLE")
    p.add_argument("--quick", action="store_true")
    a = p.parse_args()
    readme, outside = HERE / "README.md", []
    for table in ("machine", *(t for t in a.tables or TABLES if t != "machine")):
        print(f"{table} …", file=sys.stderr, flush=True)
        try:
            text = TABLES[table](a.quick)
        except Skipped as why:
            print(f"{table}: skipped, {why}", file=sys.stderr)
            continue
        except Outside as error:
            text = str(error)
            outside.append(table)
        print(text, flush=True)
        if not a.quick:
            readme.write_text(rewritten(readme.read_text(), table, text), encoding="utf-8")
    if outside:
        print(f"figures outside their bounds: {', '.join(outside)}", file=sys.stderr)
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
