# SPDX-License-Identifier: Apache-2.0
"""`aotc link`: models of one project share an arena and equal constants; a state outlives the runs
of other models."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from aot.cli import main
from aot.plan.memory import plan as planner
from graphs import model

N, WIDE = 24, 512
WEIGHTS = np.random.default_rng(5).standard_normal((N, WIDE)).astype(np.float32)


def listener() -> onnx.ModelProto:
    """The last four rows, one of them new; y is their sum times the weights."""
    nodes = [
        ("Concat", "s x", "all", {"axis": 0}),
        ("Slice", "all one end zero", "next"),
        ("ReduceSum", "next zero", "sum", {"keepdims": 1}),
        ("MatMul", "sum w", "y"),
    ]
    constants = {k: np.array([v]) for k, v in (("one", 1), ("end", 99), ("zero", 0))}
    ends = {"y": (1, WIDE), "next": (4, N)}
    return model(nodes, {"s": (4, N), "x": (1, N)}, ends, {**constants, "w": WEIGHTS})


def reader() -> onnx.ModelProto:
    """y is the largest of x times the same weights, over nine rows."""
    nodes = [("MatMul", "x w", "p"), ("Relu", "p", "q"), ("ReduceMax", "q zero", "y")]
    return model(nodes, {"x": (9, N)}, {"y": (1, WIDE)}, {"w": WEIGHTS, "zero": np.array([0])})


PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "listener.h"
#include "reader.h"
#include "tvmgen_listener.h"
#include "tvmgen_reader.h"

static float x[9 * 24], y[512], z[512];
static unsigned char alone[LISTENER_ARENA_BYTES + 64];

int main(void) {
    listener_context context;
    struct tvmgen_listener_inputs heard = {x};
    struct tvmgen_listener_outputs said = {y};
    struct tvmgen_reader_inputs page = {x};
    struct tvmgen_reader_outputs read = {z};
    float total = 0;
    int k, i;
    memset(alone, 0xa5, sizeof alone);
#ifdef TOGETHER
    if (listener_arena() != reader_arena() || LISTENER_ARENA_BYTES != READER_ARENA_BYTES)
        return 3;
#endif
    if (listener_init(&context, alone + (64 - (size_t)alone % 64), LISTENER_ARENA_BYTES) != AOT_OK)
        return 1;
    for (k = 0; k < 6; ++k) {
        for (i = 0; i < 24; ++i) x[i] = (float)(i % (k + 2)) - 1.0f;
        for (i = 24; i < 216; ++i) x[i] = (float)(i % 7);
        if (tvmgen_listener_run(&heard, &said) != 0 || tvmgen_reader_run(&page, &read) != 0)
            return 2;
        for (i = 0; i < 512; ++i) total += y[i] + z[i];
    }
    printf("%.9g\\n", (double)total);
    return 0;
}
"""

PROJECT = """\
cmake_minimum_required(VERSION 3.16)
project(app C)
{adds}
add_executable(app main.c)
target_link_libraries(app PRIVATE {libraries})
"""


def compiled(folder: Path, **options: str) -> list[Path]:
    outs = [folder / "listener", folder / "reader"]
    aot.compile(
        listener(), outs[0], name="listener", states={"s": "next"}, configure=False, **options
    )
    aot.compile(reader(), outs[1], name="reader", configure=False, **options)
    return outs


def answer(folder: Path, adds: str, libraries: str) -> str:
    """What the program prints in a project of its own."""
    folder.mkdir()
    (folder / "main.c").write_text(PROGRAM)
    (folder / "CMakeLists.txt").write_text(PROJECT.format(adds=adds, libraries=libraries))
    for words in (["-S", folder, "-B", folder / "b"], ["--build", folder / "b"]):
        subprocess.run(["cmake", *words], check=True, capture_output=True)
    return subprocess.run([folder / "b/app"], check=True, capture_output=True, text=True).stdout


def test_models_share_arena_and_constants(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    outs = compiled(tmp_path)
    alone = [json.loads((o / "bundle/manifest.json").read_text())["memory"] for o in outs]
    words = ["link", *map(str, outs), "-o", str(tmp_path / "both"), "--name", "both"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found == json.loads((tmp_path / "both/bundle/manifest.json").read_text())
    scratch = max(m["scratch_bytes"] for m in alone)
    kept = sum(s["bytes"] for s in alone[0]["states"])
    assert kept == 4 * N * 4
    assert scratch + kept <= found["memory"]["arena_bytes"] <= scratch + kept + 63
    assert found["memory"]["arena_bytes"] < sum(m["arena_bytes"] for m in alone)
    assert found["models"][1]["shared_constants_bytes"] >= WEIGHTS.nbytes
    assert found["memory"]["constants_bytes"] < 1.1 * WEIGHTS.nbytes
    for source in found["sources"]:
        assert (tmp_path / "both/bundle" / source["path"]).stat().st_size == source["bytes"]
    apart = answer(
        tmp_path / "a",
        f"add_subdirectory({outs[0]}/bundle a)\nadd_subdirectory({outs[1]}/bundle b)",
        "aot::listener aot::reader",
    )
    adds = f"add_subdirectory({tmp_path}/both/bundle m)\nadd_compile_definitions(TOGETHER)"
    together = answer(tmp_path / "t", adds, "aot::both")
    assert together == apart
    assert main(["run", str(tmp_path / "both")]) == 1
    assert "has several models" in capfd.readouterr().err


def test_a_state_among_other_values_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "states_last", lambda aliases, packing, carried, effort: packing)
    outs = compiled(tmp_path)
    words = ["link", *map(str, outs[::-1]), "-o", str(tmp_path / "both"), "--name", "both"]
    assert main([*words, "-q", "--no-configure"]) == 0
    header = (tmp_path / "both/bundle/listener/src/listener_internal.h").read_text()
    found = json.loads((tmp_path / "both/bundle/manifest.json").read_text())
    place = found["models"][1]["states"][0]["offset"]
    assert f"#define LISTENER_STATE_0 {place}\n" in header
    assert place >= found["memory"]["shared_bytes"]


def test_bundles_that_cannot_be_linked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outs = compiled(tmp_path, target="x86-64")
    other = tmp_path / "other"
    aot.compile(reader(), other, name="Reader", target="x86-64-v3", configure=False)
    words = ["-o", str(tmp_path / "both"), "--no-configure"]

    def said(*given: object) -> str:
        assert main(["link", *map(str, given), *words]) in (1, 2)
        assert not (tmp_path / "both").exists()
        return capfd.readouterr().err

    assert "two bundles or more" in said(outs[0])
    assert "both called Reader" in said(outs[1], other)
    assert f"{outs[0]} is for x86-64, {other} for x86-64-v3" in said(outs[0], other)
    assert "is the name of a model" in said(*outs, "--name", "Reader")
    assert "no bundle here" in said(outs[0], tmp_path / "nothing")
    source = outs[1] / "bundle/src/reader_run.c"
    text = source.read_bytes()
    source.write_bytes(text + b"\n")
    assert f"{source} is not as aotc wrote it" in said(*outs)
    source.unlink()
    assert f"{source} is not as aotc wrote it" in said(*outs)
    source.write_bytes(text)
    file = outs[1] / "bundle/manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["memory"]["states"]
    file.write_text(json.dumps(manifest))
    (outs[1] / "aotc.json").unlink()
    assert "of an aotc that could not link" in said(*outs)
