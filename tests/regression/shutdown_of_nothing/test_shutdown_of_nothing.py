# SPDX-License-Identifier: Apache-2.0
"""The example called NAME_shutdown on a context whose init had failed, and so did the documents.

Such a context holds whatever was on the stack. Every program that is shown to users is linked with
a library here whose init refuses and in which every other call that takes a context aborts.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import aot
from abi import toy
from graphs import model
from test_docs import blocks

PAGES = ("README.md", "docs/bundle.md", "docs/dynamic.md")
#: How the example reaches the network: each way has other lines in the template.
WAYS: dict[str, dict[str, object]] = {
    "caller": {"io": "caller"},
    "arena": {"io": "arena"},
    "weights": {"io": "caller", "weights": "blob"},
    "both": {"io": "arena", "weights": "blob"},
}


def compiled(folder: Path, name: str, **options: object) -> Path:
    """The bundle, not built, of a network with one table of weights."""
    rows = [("MatMul", "image w", "y"), ("Relu", "y", "probabilities")]
    weights = {"w": np.ones((64, 10), np.float32)}
    net = model(rows, {"image": [1, 64]}, {"probabilities": [1, 10]}, weights)
    aot.compile(net, folder, target="x86-64", name=name, configure=False, **options)
    return folder / "bundle"


def stubs(header: str, name: str) -> str:
    """Definitions of all functions of NAME.h: init refuses, what takes a context aborts."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    text = re.sub(r"^#if defined\(__GNUC__\).*?^#endif", "", text, flags=re.DOTALL | re.MULTILINE)
    found = re.findall(rf"^((?:AOT_WARN_UNUSED )?[\w ]+[ *]+{name}_(\w+)\([^;]*\));", text, re.M)
    assert {"init", "run", "shutdown"} <= {function for _, function in found}
    bodies = {"init": "return AOT_VENDOR;", "arena": "return arena;"}
    lines = [
        f"{head.removeprefix('AOT_WARN_UNUSED ')} {{ {bodies.get(what, 'abort();')} }}"
        for head, what in found
    ]
    return "\n".join(
        [
            "#include <stdlib.h>",
            "#define AOT_NO_INLINE_RUN 1",
            f'#include "{name}.h"',
            "static unsigned char arena[4];",
            *lines,
            f"const unsigned char {name}_blob_weights[4] = {{0}};",
        ]
    )


def refused(bundle: Path, name: str, program: Path, *flags: str) -> tuple[int, str]:
    """Exit status and output of `program` where no init succeeds."""
    stub = program.with_suffix(".stub.c")
    stub.write_text(stubs((bundle / f"include/{name}.h").read_text(), name))
    binary = program.with_suffix(".bin")
    words = ["gcc", "-std=c99", "-Wno-unused-parameter", *flags, f"-I{bundle / 'include'}"]
    toy.run(*words, str(program), str(stub), "-o", str(binary))
    done = subprocess.run([str(binary)], capture_output=True, text=True, cwd=program.parent)
    return done.returncode, done.stdout


@pytest.mark.parametrize("way", list(WAYS))
def test_the_example(way: str, tmp_path: Path) -> None:
    bundle = compiled(tmp_path, "net", **WAYS[way])
    program = bundle / "example_main.c"
    for flags in ((), ("-DUSE_BUILT_IN_ARENA",)):
        status, said = refused(bundle, "net", program, *flags)
        assert (status, said) == (1, "net: a vendor library reported an error\n")


def shown() -> Iterator[tuple[str, str, str]]:
    """(page, name of the model, text) of every whole program with a context."""
    for page in PAGES:
        for block in blocks(page):
            found = re.search(r"(\w+)_init\(&", block.text)
            if block.language == "c" and block.note and found:
                yield page, found[1], block.text


@pytest.mark.parametrize(("page", "name", "text"), [pytest.param(*s, id=s[1]) for s in shown()])
def test_the_documents(page: str, name: str, text: str, tmp_path: Path) -> None:
    ways = {"inner": WAYS["arena"], "apart": WAYS["weights"]}
    bundle = compiled(tmp_path, name, **ways.get(name, {}))
    blob = bundle / "src/apart_blob_weights.bin"
    if blob.exists():  # the program reads it where the page has made it
        (tmp_path / "apart").mkdir()
        (tmp_path / "apart/bundle").symlink_to(bundle)
    program = tmp_path / "program.c"
    program.write_text(text)
    status, said = refused(bundle, name, program)
    assert status == 1 and "ok" not in said.split(), f"{page}: exit {status}\n{said}"


def test_every_page_is_read() -> None:
    assert {name for _, name, _ in shown()} == {"digits", "net", "inner", "apart", "lengths"}
