# SPDX-License-Identifier: Apache-2.0
"""`aotc init`: a project folder around a model."""

from __future__ import annotations

import argparse
import contextlib
import json
import runpy
import shutil
import tempfile
from pathlib import Path

from aot.api import compile_to
from aot.cli.compile import options_of
from aot.cli.progress import Progress
from aot.cli.project import FILE
from aot.cli.subcommand import Answer
from aot.errors import AotError, UsageError, shell_word
from aot.vendor.scaffold import copy_template

TEMPLATE = Path(__file__).parents[1] / "template"
_PROJECT = """\
# `aotc build` reads this file. Any option of `aotc` is a key by its long name, for instance
# backend = ["dnnl"]; [budgets] holds ram, flash and stack, as in ram = "64K".
model = "model.onnx"
name = "{}"
target = "host"
out = "out"
"""


def command(args: argparse.Namespace, progress: Progress) -> Answer:
    """Write a project whose model compiles, or nothing."""
    folder = Path(args.folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not an empty folder", hint="name another")
    args.name = args.name or Path(args.model or folder.resolve()).stem
    with tempfile.TemporaryDirectory() as temporary:
        made, out = Path(temporary) / "project", Path(temporary) / "out"
        source = Path(args.model).resolve() if args.model else made / "model.onnx"
        made.mkdir()
        if not args.model:
            with contextlib.chdir(made):
                runpy.run_path(str(TEMPLATE / "model.py.txt"))
        compiled = compile_to(source, out, options_of(args), progress, configure=False)
        copy_template(TEMPLATE, made, compiled.name)
        # In the package it has no dot, because git and package tools would heed it there.
        (made / "gitignore").rename(made / ".gitignore")
        if args.model:
            (made / "model.py").unlink()
            shutil.copyfile(source, made / "model.onnx")
        (made / FILE).write_text(_options(compiled.name, args), encoding="utf-8")
        example = (out / "bundle" / "example_main.c").read_text(encoding="utf-8")
        (made / "src").mkdir()
        code = "/* SPDX-License-Identifier: MIT-0 */\n" + example.split(" */\n", 2)[2]
        (made / "src" / "main.c").write_text(code, encoding="utf-8")
        try:
            shutil.copytree(made, folder, dirs_exist_ok=True)
        except OSError as error:
            raise AotError(f"cannot write to {folder}: {error.strerror}") from error
    files = sorted(str(p) for p in folder.rglob("*") if p.is_file())
    return Answer({"files": files}, "\n".join([*files, f"aotc build {shell_word(folder)}"]))


def _options(name: str, args: argparse.Namespace) -> str:
    """The text of aotc.toml, with the shapes that the command line gives."""
    sizes = {name: _spelled(size) for name, size in args.dim}
    shapes = {name: ",".join(map(_spelled, shape)) for name, shape in args.input_shape}
    tables = [
        f"\n[{title}]\n" + "".join(f"{json.dumps(n)} = {json.dumps(v)}\n" for n, v in said.items())
        for title, said in (("dims", sizes), ("input-shape", shapes))
        if said
    ]
    return _PROJECT.format(name) + "".join(tables)


def _spelled(size: int | tuple[int, int]) -> str:
    """A size or a range of sizes, as it is typed."""
    return "..".join(map(str, size)) if isinstance(size, tuple) else str(size)
