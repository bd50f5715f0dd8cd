# SPDX-License-Identifier: Apache-2.0
"""Vendors' sources that use libm did not link: -lm stood before their archive, and only where a
portable kernel needs it too."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path

import numpy as np
import pytest

import aot
from abi import toy
from aot.vendor import find
from graphs import model

APP = """\
#include "net.h"
int main(void) {
    net_context c;
    return (int)net_init(&c, NET_ARENA_BYTES ? net_arena() : NULL, NET_ARENA_BYTES);
}
"""
PROJECT = """\
cmake_minimum_required(VERSION 3.16)
project(app C)
find_package(net REQUIRED)
add_executable(app main.c)
target_link_libraries(app PRIVATE aot::net)
"""
X = np.linspace(-2, 2, 6, dtype=np.float32)


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vendor of the folder beside: it takes Cos, in C that needs libm."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    backend = importlib.import_module("acme").backend
    real = find.find_backend
    monkeypatch.setattr(find, "find_backend", lambda n, w="": backend if n == "acme" else real(n))


def compiled(folder: Path, last: str, **options: object) -> aot.Bundle:
    """The bundle of last(cos(x)); the vendor takes the cosine."""
    proto = model([("Cos", "x", "c"), (last, "c", "y")], {"x": X.shape}, {"y": None})
    return aot.compile(proto, folder, name="net", backends=["acme"], **options)


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize("last", ["Neg", "Erf"])
def test_every_way_to_link(last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neg needs no libm itself. A linker that takes only what is needed so far finds all."""
    monkeypatch.setenv("LDFLAGS", "-Wl,--as-needed")
    out = tmp_path / "out"
    loaded = compiled(out, last).load()
    want = -np.cos(X) if last == "Neg" else np.array([math.erf(v) for v in np.cos(X)], np.float32)
    np.testing.assert_allclose(loaded(X), want, rtol=1e-5, atol=1e-6)

    toy.run("cmake", "--install", str(out), "--prefix", str(tmp_path / "usr"))
    (tmp_path / "main.c").write_text(APP)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    toy.configure(tmp_path, tmp_path / "b", f"-DCMAKE_PREFIX_PATH={tmp_path / 'usr'}")
    toy.run("cmake", "--build", str(tmp_path / "b"))
    toy.run(str(tmp_path / "b" / "app"))


def _joined(page: str) -> str:
    """The text, its commands in one line each."""
    return re.sub(r" \\\n[ *]+", " ", page)


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize("page", ["README.md", "example_main.c"])
def test_the_command_that_is_shown(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every archive stands before what it needs, so static libraries link too."""
    bundle = compiled(tmp_path / "out", "Neg", configure=False).out / "bundle"
    text = _joined((bundle / page).read_text())
    (command,) = re.findall(r"^[ *]+(cc .*_vendors\.a.* -lm)\b", text, re.MULTILINE)
    toy.run("cmake", "-S", str(bundle), "-B", str(bundle / "build"))
    toy.run("cmake", "--build", str(bundle / "build"), "--target", "net")
    monkeypatch.chdir(bundle)
    toy.run(*command.split(), "-static", "-o", "app")
    toy.run("./app")


@pytest.mark.usefixtures("acme")
def test_a_board_is_told_the_order(tmp_path: Path) -> None:
    out = compiled(tmp_path / "out", "Neg", configure=False, target="cortex-m4").out
    for page in ("README.md", "example_main.c"):
        text = _joined((out / "bundle" / page).read_text())
        assert "build/lib/libnet.a build/lib/libnet_vendors.a -lm" in text
