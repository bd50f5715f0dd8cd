# SPDX-License-Identifier: Apache-2.0
"""A toy operator and a toy backend dropped in a temporary folder compile; no other file changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx

from graphs import model

OPERATOR = """
from aot.ir.dtypes import F32
from aot.ops.registry import op
from aot.shapes.evaluate import elementwise, evaluates

triple = op("Triple", inputs="x", domain="toy")
evaluates("Triple", domain="toy")(elementwise(lambda x: 3 * x))

@triple.infer
def same(node, inputs):
    return [(inputs[0].shape, inputs[0].dtype)]

@triple.check
def supported(m):
    yield m.x.dtype is F32, f"dtype {m.x.dtype} (needs float32)"

@triple.lower
def to_kernel(c, m):
    n = 1
    for d in m.x.shape:
        n *= d
    c.call("toy_triple_f32", m.y, m.x, c.params(n=n), inplace=[(m.y, m.x)])
"""
KERNEL = """/* SPDX-License-Identifier: MIT-0 */
#ifndef TOY_TRIPLE_F32_H
#define TOY_TRIPLE_F32_H
#include <stdint.h>
typedef struct { int32_t n; } toy_triple_f32_params;
static inline void toy_triple_f32(float *y, const float *x, const toy_triple_f32_params *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        y[i] = 3.0f * x[i];
    }
}
#endif
"""
BACKEND = """
from aot.vendor.backend import Backend

backend = Backend("toy", header="toy_npu.h", sources=("toy_npu.c",))

@backend.pattern
def relu(op, x):
    return op.Relu(x)

@relu.check
def small(m):
    yield m.x.shape[-1] <= 8, f"{m.x.shape[-1]} columns (the chip holds 8)"

@relu.lower
def to_npu(c, m):
    n = 1
    for d in m.x.shape:
        n *= d
    c.call("toy_npu_relu", m.y, m.x, c.params(n=n))
"""
NPU_H = """/* SPDX-License-Identifier: MIT-0 */
#ifndef TOY_NPU_H
#define TOY_NPU_H
#include <stdint.h>
typedef struct { int32_t n; } toy_npu_relu_params;
void toy_npu_relu(float *y, const float *x, const toy_npu_relu_params *p);
#endif
"""
NPU_C = """/* SPDX-License-Identifier: MIT-0 */
#include "toy_npu.h"
void toy_npu_relu(float *y, const float *x, const toy_npu_relu_params *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        y[i] = x[i] > 0.0f ? x[i] : 0.0f;
    }
}
"""
ENTRY_POINTS = "[aotc.backends]\ntoy = toy_vendor:backend\n[aotc.operators]\ntoy = toy_ops\n"


def plugin(folder: Path) -> Path:
    """A pip package as it lies in site-packages: two modules, their C files, entry points."""
    files = {
        "toy_ops.py": OPERATOR,
        "toy_triple_f32.h": KERNEL,
        "toy_vendor/__init__.py": BACKEND,
        "toy_vendor/toy_npu.h": NPU_H,
        "toy_vendor/toy_npu.c": NPU_C,
        "toy-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n",
        "toy-1.0.dist-info/entry_points.txt": ENTRY_POINTS,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def aotc(plug: Path, *args: object) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(plug)}
    command = [sys.executable, "-m", "aot", *map(str, args)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_toy_operator_and_toy_backend(tmp_path: Path) -> None:
    plug = plugin(tmp_path / "site")
    path, out = tmp_path / "toy.onnx", tmp_path / "out"
    rows = [("toy.Triple", "x", "t"), ("Relu", "t", "r"), ("Relu", "wide", "w")]
    rows += [("toy.Triple", "two", "six"), ("Mul", "wide six", "v")]
    results = {"r": [2, 4], "w": [2, 9], "v": [2, 9]}
    two = {"two": np.full(1, 2, np.float32)}
    proto = model(rows, {"x": [2, 4], "wide": [2, 9]}, results, two, domains=["toy"])
    onnx.save(proto, path)
    done = aotc(plug, path, "-o", out, "--backend", "toy")
    assert done.returncode == 0, done.stderr
    subprocess.run(["cmake", "--build", out], check=True, capture_output=True)
    x = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
    wide = np.linspace(-2, 2, 18, dtype=np.float32).reshape(2, 9)
    np.savez(tmp_path / "in.npz", x=x, wide=wide)
    done = aotc(plug, "run", out, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "o.npz")
    assert done.returncode == 0, done.stderr
    got = np.load(tmp_path / "o.npz")
    np.testing.assert_array_equal(got["r"], np.maximum(3 * x, 0))
    np.testing.assert_array_equal(got["w"], np.maximum(wide, 0))
    np.testing.assert_array_equal(got["v"], 6 * wide)
    manifest = json.loads((out / "bundle" / "manifest.json").read_text())
    assert sorted(n["op"] for n in manifest["nodes"]) == ["Mul", "Relu", "Relu", "Triple"]
    assert sorted(n["backend"] for n in manifest["nodes"]) == ["c", "c", "c", "toy"]
    assert any("9 columns (the chip holds 8)" in r["reason"] for r in manifest["refusals"])


def test_explain_names_the_reason(tmp_path: Path) -> None:
    plug = plugin(tmp_path / "site")
    path = tmp_path / "m.onnx"
    onnx.save(model([("Relu", "x", "y")], {"x": [1, 16]}, {"y": [1, 16]}), path)
    done = aotc(plug, "explain", path, "--backend", "toy")
    assert done.returncode == 0, done.stderr
    assert "toy.relu" in done.stdout and "16 columns (the chip holds 8)" in done.stdout
