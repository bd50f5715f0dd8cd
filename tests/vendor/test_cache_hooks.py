# SPDX-License-Identifier: Apache-2.0
"""Devices beside a data cache: what a region reads is cleaned before, what it writes forgotten
after."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from aot.cli import main
from needs import need_module

CONFIG = """
#include <stddef.h>
void told(char what, const void *p, size_t bytes);
#define aot_cache_clean(p, bytes) told('c', (p), (bytes))
#define aot_cache_invalidate(p, bytes) told('i', (p), (bytes))
"""
PROGRAM = """
#include <stdio.h>
#include "net.h"
void told(char what, const void *p, size_t bytes);
void told(char what, const void *p, size_t bytes) {
    printf("%c %td %zu\\n", what, (const char *)p - (const char *)net_arena(), bytes);
}
static net_context ctx;
int main(void) {
    aot_status status = net_init(&ctx, net_arena(), NET_ARENA_BYTES);
    return status != AOT_OK || net_run(&ctx, NULL, NULL) != AOT_OK;
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(told C)
add_subdirectory("${MODEL}" model)
add_executable(told told.c)
target_link_libraries(told PRIVATE aot::net)
"""

Span = tuple[int, int]


def groups(lines: list[str]) -> list[dict[str, list[Span]]]:
    """By use of the device: what was cleaned, then what was invalidated, as (begin, end)."""
    found: list[dict[str, list[Span]]] = []
    for line in lines:
        what, at, size = line.split()
        if what == "c" and (not found or found[-1]["i"]):
            found.append({"c": [], "i": []})
        found[-1][what].append((int(at), int(at) + int(size)))
    return found


def inside(span: Span, spans: list[Span]) -> bool:
    return any(a <= span[0] and span[1] <= b for a, b in spans)


@pytest.mark.parametrize("backend", ["accel_sim:64", "ethos_u:u55-128"])
def test_each_region_is_cleaned_and_invalidated(
    models_folder: Path, tmp_path: Path, backend: str
) -> None:
    if backend.startswith("ethos"):
        need_module("ethosu")
    (tmp_path / "cache.h").write_text(CONFIG)
    (tmp_path / "told.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    out = tmp_path / "out"
    words = [str(models_folder / "mlperf_kws_int8.onnx"), "-o", str(out), "--name", "net", "-q"]
    words += ["--backend", backend, "--io", "arena", "--objective", "ram", "--no-configure"]
    assert main(words) == 0
    manifest: dict[str, Any] = json.loads((out / "bundle" / "manifest.json").read_text())
    given = [f"-DMODEL={out / 'bundle'}", f"-DAOT_CONFIG={tmp_path / 'cache.h'}"]
    for step in (["-S", tmp_path, "-B", tmp_path / "b", *given], ["--build", tmp_path / "b"]):
        subprocess.run(["cmake", *step], check=True, capture_output=True)
    ran = subprocess.run([tmp_path / "b" / "told"], capture_output=True, text=True, check=True)
    uses = groups(ran.stdout.splitlines())
    calls = [n for n in manifest["nodes"] if n["backend"] != "c"]
    assert len(uses) == len(calls) > 0
    sizes = {b["tensor"]: b["nbytes"] for b in manifest["memory"]["buffers"]}
    scratch = {b["tensor"] for b in manifest["memory"]["buffers"] if b["scratch"]}
    for use, call in zip(uses, calls, strict=True):
        spans = {n: (at, at + sizes[n]) for n, at in call["offsets"].items() if n in sizes}
        # What is no operand is scratch; the glue of Ethos-U copies operands into it.
        own = {n for n in spans if n in scratch} if backend.startswith("ethos") else set(spans)
        written = own - {r["tensor"] for r in call["reads"]}
        assert own and all(inside(spans[n], use["c"]) for n in own)
        assert all(inside(spans[n], use["i"]) for n in written)
        # Nothing that is only read is forgotten.
        assert not {n for n in own - written if inside(spans[n], use["i"])}
