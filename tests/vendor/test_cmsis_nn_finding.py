# SPDX-License-Identifier: Apache-2.0
"""Where CMake finds CMSIS-NN, and what it says where it does not; what a wrong library does."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from cmsis_nn_roots import STANDIN, VARIABLE

from aot.cli import main as aotc
from aot.vendor.cmsis_nn import backend
from quant_graphs import Net, quantised_values

PROJECT = """cmake_minimum_required(VERSION 3.16)
project(p NONE)
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
{before}
set(aot_vendor_why "its library was not found.")
include("{find}")
if(NOT TARGET CMSIS::NN)
  message(FATAL_ERROR "vendor cmsis_nn: ${{aot_vendor_why}}")
endif()
get_target_property(links CMSIS::NN INTERFACE_LINK_LIBRARIES)
get_target_property(headers CMSIS::NN INTERFACE_INCLUDE_DIRECTORIES)
message(STATUS "links ${{links}} headers ${{headers}}")
"""


def configured(folder: Path, root: Path | None, before: str = "") -> str:
    """What CMake says of a project with that text before the search, in one line."""
    assert backend.folder is not None
    text = PROJECT.format(before=before, find=(backend.folder / backend.find).as_posix())
    (folder / "CMakeLists.txt").write_text(text)
    env = {k: v for k, v in os.environ.items() if k not in (VARIABLE, "CMSIS_PACK_ROOT")}
    env |= {} if root is None else {VARIABLE: str(root)}
    command = ["cmake", "-S", str(folder), "-B", str(folder / "build")]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    return " ".join((done.stdout + done.stderr).split())


def library(root: Path, version: str = "7.0.0", archive: bool = True) -> Path:
    """Headers of the stand-in, an archive and a description as a pack has them."""
    shutil.copytree(STANDIN / "Include", root / "Include")
    if archive:
        (root / "lib").mkdir()
        (root / "lib" / "libcmsis-nn.a").touch()
    text = f'<releases>\n  <release version="{version}" date="2025-01-01">\n'
    (root / "ARM.CMSIS-NN.pdsc").write_text(text)
    return root


def without_function(root: Path) -> Path:
    """A library that lacks a function."""
    header = library(root) / "Include" / "arm_nnfunctions.h"
    text = header.read_text().replace("arm_fully_connected_per_channel_s8", "older_one")
    header.write_text(text)
    return root


def empty(root: Path) -> Path:
    root.mkdir()
    return root


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (empty, "has no Include/arm_nnfunctions.h"),
        (lambda root: library(root, archive=False), "neither ../Source nor a library"),
        (lambda root: library(root, "6.0.0"), "CMSIS-NN 6.0.0 in"),
        (lambda root: library(root, "8.0.0"), "does not fit (needs 7)"),
        (without_function, "has no arm_fully_connected_per_channel_s8"),
    ],
    ids=["empty", "headers", "old", "new", "lacking"],
)
def test_what_is_missing_is_named(make: Callable[[Path], Path], said: str, tmp_path: Path) -> None:
    assert said in configured(tmp_path, make(tmp_path / "root"))


def test_nothing_at_all(tmp_path: Path) -> None:
    assert "vendor cmsis_nn: its library was not found." in configured(tmp_path, None)


def test_a_relative_folder(tmp_path: Path) -> None:
    """It counts from the top of the project, wherever CMake is called."""
    library(tmp_path / "root")
    assert f"headers {tmp_path}/root/Include" in configured(tmp_path, Path("root"))


ZEPHYR = """add_library(zephyr_interface INTERFACE IMPORTED)
set(ZEPHYR_CMSIS_NN_MODULE_DIR "{root}")
"""


def test_zephyrs_module(tmp_path: Path) -> None:
    before = ZEPHYR.format(root=library(tmp_path / "module").as_posix())
    assert "prj.conf needs CONFIG_CMSIS_NN=y" in configured(tmp_path, None, before)
    said = configured(tmp_path, None, before + "set(CONFIG_CMSIS_NN y)\n")
    assert "links zephyr_interface" in said and "module/Include" in said


def test_a_target_of_the_project(tmp_path: Path) -> None:
    before = "add_library(cmsis-nn INTERFACE)"
    assert "links cmsis-nn headers" in configured(tmp_path, tmp_path / "nowhere", before)


def test_packs_and_the_newest_of_them(tmp_path: Path) -> None:
    for version in ("6.0.0", "7.0.0"):
        library(tmp_path / "packs" / "ARM" / "CMSIS-NN" / version, version)
    said = configured(tmp_path, tmp_path / "packs")
    assert "CMSIS-NN/7.0.0/lib/libcmsis-nn.a" in said, said


def depthwise() -> onnx.ModelProto:
    """A convolution that wants scratch of a core with DSP instructions, and of no other."""
    net = Net(x=("int8", (1, 8, 9, 9)))
    x = net.dq("x", 0.05, np.int8(3))
    w = net.dq(net.const(quantised_values(8, 1, 5, 5)), 0.01, np.int8(0))
    y = net.add("Conv", x, w, group=8, kernel_shape=[5, 5])
    net.q(y, 0.2, np.int8(1), out="y")
    return net.model(y="int8")


def test_a_library_of_another_core_fails_the_run_and_writes_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    onnx.save(depthwise(), tmp_path / "net.onnx")
    out = tmp_path / "out"
    for name in (VARIABLE, "CMSIS_PACK_ROOT"):
        monkeypatch.delenv(name, raising=False)
    compiled = [str(tmp_path / "net.onnx"), "-o", str(out), "--backend", "cmsis_nn"]
    assert aotc([*compiled, "--no-configure"]) == 0
    configure = ["cmake", "-S", str(out / "bundle"), "-B", str(out)]
    failed = subprocess.run(configure, capture_output=True, text=True)
    said = " ".join(failed.stderr.split())
    whole = f"{backend.hint} Or -DAOT_CMSIS_NN=OFF: portable C instead"
    assert failed.returncode != 0 and whole in said, said
    options = [f"-D{VARIABLE}={STANDIN}", "-DCMAKE_C_FLAGS=-D__ARM_FEATURE_DSP=1"]
    subprocess.run([*configure, *options], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(out)], check=True, capture_output=True)
    np.savez(tmp_path / "in.npz", x=quantised_values(1, 8, 9, 9))
    ran = ["run", str(out), "--inputs", str(tmp_path / "in.npz")]
    assert aotc([*ran, "--outputs", str(tmp_path / "out.npz")]) == 1
    assert "vendor" in capfd.readouterr().err
