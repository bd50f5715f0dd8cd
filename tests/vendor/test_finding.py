# SPDX-License-Identifier: Apache-2.0
"""What CMake says of a folder that is not there, and of a library that lacks a function."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from aot.emit_c.resources import cmake
from aot.vendor.find import find_backend

PROJECT = """cmake_minimum_required(VERSION 3.16)
project(p NONE)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER c++)
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
set({vendor}_ROOT "{root}")
include("{macro}")
aot_find_vendor({vendor} {target} "Install it.")
"""
XNNPACK = "".join(f"xnn_create_{n}\n" for n in ("convolution2d_nhwc_qc8", "subtract_nd_qs8"))
VERSION = "#define DNNL_VERSION_MAJOR 3\n#define DNNL_VERSION_MINOR 1\n"
#: Headers, with what is in them, and libraries of a folder; the function that is looked for.
LIBRARIES = {
    "acl": (
        {
            f"arm_compute/{n}.h": ""
            for n in ("runtime/NEON/NEFunctions", "core/CPP/ICPPSimpleKernel")
        },
        ("arm_compute", "arm_compute_core"),
        "NEElementwiseMin",
    ),
    "cblas": ({"cblas.h": ""}, ("openblas",), "cblas_sgemm"),
    "cudnn": (
        {"cudnn.h": "", "cublas_v2.h": "", "cuda_runtime_api.h": ""},
        ("cudnn", "cublas", "cudart"),
        "cudnnGetConvolutionForwardAlgorithm_v7",
    ),
    "dnnl": (
        {"dnnl.h": "", "dnnl_version.h": VERSION},
        ("dnnl",),
        "dnnl_convolution_forward_primitive_desc_create",
    ),
    "ort": ({}, ("onnxruntime",), "OrtGetApiBase"),
    "xnnpack": (
        {"xnnpack.h": XNNPACK + "xnn_create_max_pooling2d_nhwc_s8\n", "pthreadpool.h": ""},
        ("XNNPACK", "pthreadpool"),
        "xnn_create_convolution2d_nhwc_qc8",
    ),
}


def said(folder: Path, vendor: str, root: Path) -> str:
    """What CMake says, in one line, of a search under `root`; it must fail."""
    backend = find_backend(vendor)
    assert backend.folder is not None
    (folder / "cmake").mkdir()
    (folder / "cmake" / f"find_{vendor}.cmake").symlink_to(backend.folder / backend.find)
    macro = (cmake() / "vendors.cmake").as_posix()
    text = PROJECT.format(vendor=vendor, root=root.as_posix(), macro=macro, target=backend.link)
    (folder / "CMakeLists.txt").write_text(text)
    command = ["cmake", "-S", str(folder), "-B", str(folder / "build")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return " ".join(done.stderr.split())


@pytest.mark.parametrize("vendor", LIBRARIES)
def test_a_folder_that_is_not_there_is_named(vendor: str, tmp_path: Path) -> None:
    """CMake passes over it: the system's library would be taken."""
    root = tmp_path / "nowhere"
    text = f"vendor {vendor}: {vendor}_ROOT names {root}, which is no folder: correct {vendor}_ROOT"
    assert text in said(tmp_path, vendor, root)


@pytest.mark.parametrize("vendor", LIBRARIES)
def test_a_function_that_a_library_lacks_is_named(vendor: str, tmp_path: Path) -> None:
    headers, libraries, symbol = LIBRARIES[vendor]
    for name, text in headers.items():
        (tmp_path / "root" / "include" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / "include" / name).write_text(text)
    (tmp_path / "root" / "lib").mkdir(parents=True)
    for name in libraries:
        (tmp_path / "root" / "lib" / f"lib{name}.so").write_text("another_function")
    library = tmp_path / "root" / "lib" / f"lib{libraries[0]}.so"
    told = said(tmp_path, vendor, tmp_path / "root")
    assert f"vendor {vendor}: {library} has no {symbol}: it is another version" in told
    assert told.count("Install it.") == 1
