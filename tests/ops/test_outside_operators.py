# SPDX-License-Identifier: Apache-2.0
"""Two operators of an installed package, one file each: every engine treats them as its own.

Transposes sink below them, dynamic dimensions pass, constants are folded, and what moves elements
works on quantised values.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from graphs import model

BEND = '''"""Bend: y = x / (1 + |x|)."""

import math

from aot.ir.dtypes import F32
from aot.ir.operators import Elementwise
from aot.ops.registry import op
from aot.shapes.evaluate import elementwise, evaluates

bend = op("Bend", "x", domain="toy", traits=[Elementwise()])
evaluates("Bend", domain="toy")(elementwise(lambda x: x / (1 + abs(x))))


@bend.infer
def same(node, inputs):
    return [(inputs[0].shape, inputs[0].dtype)]


@bend.check
def supported(m):
    yield m.x.dtype is F32, f"dtype {m.x.dtype} (needs float32)"


@bend.lower
def to_kernel(c, m):
    params = c.params(n=math.prod(m.x.shape))
    c.call("toy_bend_f32", m.y, m.x, params, inplace=[(m.y, m.x)])
'''
BEND_H = """/* SPDX-License-Identifier: MIT-0 */
#ifndef TOY_BEND_F32_H
#define TOY_BEND_F32_H
#include <math.h>
#include <stdint.h>
typedef struct { int32_t n; } toy_bend_f32_params;
static inline void toy_bend_f32(float *y, const float *x, const toy_bend_f32_params *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        y[i] = x[i] / (1.0F + fabsf(x[i]));
    }
}
#endif
"""
PICK = '''"""Pick: the elements at constant indices along an axis, as those of Gather."""

import math

import numpy as np

from aot.ir.graph_nodes import attribute
from aot.ir.operators import AxisOf, Moves
from aot.normalise.transposes import along_axis, permute
from aot.ops.registry import op
from aot.shapes.dynamic.rules import dynamic, every_axis
from aot.shapes.evaluate import evaluates

pick = op("Pick", "x at", domain="toy", axis=AxisOf("x", 0), traits=[Moves("x", fewer=True)])
permute("Pick", domain="toy")(along_axis)
dynamic("Pick", domain="toy")(every_axis)


@evaluates("Pick", domain="toy")
def picked(node, inputs):
    return [inputs[0].take(inputs[1], axis=attribute(node, "axis", 0))]


@pick.infer
def fewer(node, inputs):
    shape = list(inputs[0].shape)
    shape[node.attr("axis", 0)] = inputs[1].shape[0]
    return [(tuple(shape), inputs[0].dtype)]


@pick.check
def supported(m):
    yield m.at.is_const, "indices are computed (needs constants)"


@pick.lower
def to_kernel(c, m):
    axis = m.axis % m.x.rank
    outer, inner = math.prod(m.x.shape[:axis]), math.prod(m.x.shape[axis + 1 :])
    count, width = m.at.shape[0], inner * m.x.dtype.nbytes
    params = c.params(outer=outer, axis=m.x.shape[axis], count=count, bytes=width)
    c.call("toy_pick", m.y, m.x, c.const(m.at.data.astype(np.int32), "at"), params)
'''
PICK_H = """/* SPDX-License-Identifier: MIT-0 */
#ifndef TOY_PICK_H
#define TOY_PICK_H
#include <stdint.h>
#include <string.h>
typedef struct { int32_t outer, axis, count, bytes; } toy_pick_params;
static inline void toy_pick(void *y, const void *x, const void *at, const toy_pick_params *p)
{
    const int32_t *index = (const int32_t *)at;
    for (int32_t o = 0; o < p->outer; o++) {
        for (int32_t i = 0; i < p->count; i++) {
            memcpy((char *)y + (int64_t)(o * p->count + i) * p->bytes,
                   (const char *)x + (int64_t)(o * p->axis + index[i]) * p->bytes,
                   (size_t)p->bytes);
        }
    }
}
#endif
"""
FILES = {
    "toy_bend.py": BEND,
    "toy_bend_f32.h": BEND_H,
    "toy_pick.py": PICK,
    "toy_pick.h": PICK_H,
    "toy-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n",
    "toy-1.0.dist-info/entry_points.txt": "[aotc.operators]\nbend = toy_bend\npick = toy_pick\n",
}
AT = np.array([2, 0])
Arrays = dict[str, np.ndarray[Any, Any]]


def bent(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What Bend computes."""
    return np.asarray(x / (1 + abs(x)))


@dataclass(frozen=True)
class Toy:
    """aotc with the package of both operators, and an empty folder."""

    site: Path
    folder: Path

    def aotc(self, *args: object) -> None:
        """Run the program; it must succeed."""
        self.run(sys.executable, "-m", "aot", *args)

    def run(self, *words: object) -> None:
        path = os.pathsep.join([str(self.site), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run([*map(str, words)], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def build(self, proto: onnx.ModelProto, *options: object) -> dict[str, Any]:
        """Compile the model and build the bundle; its manifest."""
        onnx.save(proto, self.folder / "m.onnx")
        self.aotc(self.folder / "m.onnx", "-o", self.folder / "out", *options)
        self.run("cmake", "--build", self.folder / "out")
        read = (self.folder / "out" / "bundle" / "manifest.json").read_text()
        return dict(json.loads(read))

    def compute(self, **feeds: np.ndarray[Any, Any]) -> Arrays:
        """What the bundle computes."""
        given, made = self.folder / "in.npz", self.folder / "out.npz"
        np.savez(given, **feeds)  # type: ignore[arg-type]
        self.aotc("run", self.folder / "out", "--inputs", given, "--outputs", made)
        with np.load(made) as found:
            return dict(found)


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    for name, text in FILES.items():
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(text)
    return Toy(tmp_path / "site", tmp_path)


def test_transposes_folding_and_quantised_values(toy: Toy) -> None:
    first, back = {"perm": [0, 3, 1, 2]}, {"perm": [0, 2, 3, 1]}
    rows = [
        ("Transpose", "a", "a1", first),
        ("toy.Bend", "a1", "a2"),
        ("Transpose", "a2", "bent", back),
        ("Transpose", "b", "b1", first),
        ("toy.Pick", "b1 at", "b2", {"axis": 3}),
        ("Transpose", "b2", "picked", back),
        ("toy.Pick", "table at", "c1"),
        ("toy.Bend", "c1", "c2"),
        ("Add", "c c2", "folded"),
        ("DequantizeLinear", "q scale zero", "q1"),
        ("toy.Pick", "q1 at", "q2", {"axis": 1}),
        ("QuantizeLinear", "q2 scale zero", "moved"),
    ]
    table = np.linspace(-3, 3, 12, dtype=np.float32).reshape(4, 3)
    consts = {"at": AT, "table": table, "scale": np.float32(0.05), "zero": np.int8(3)}
    consts = {name: np.asarray(data) for name, data in consts.items()}
    shapes = {"a": [1, 2, 3, 4], "b": [1, 2, 3, 4], "c": [2, 3], "q": [4, 6]}
    results = dict.fromkeys(("bent", "picked", "folded", "moved"))
    kinds = {"q": TensorProto.INT8, "moved": TensorProto.INT8}
    manifest = toy.build(model(rows, shapes, results, consts, kinds, domains=["toy"]))
    assert sorted(n["op"] for n in manifest["nodes"]) == ["Add", "Bend", "Pick", "Pick"]
    assert manifest["memory"]["arena_bytes"] == 0
    x = np.linspace(-3, 3, 24, dtype=np.float32).reshape(1, 2, 3, 4)
    q = np.arange(-12, 12, dtype=np.int8).reshape(4, 6)
    got = toy.compute(a=x, b=-x, c=table[:2], q=q)
    np.testing.assert_allclose(got["bent"], bent(x), 1e-6)
    np.testing.assert_array_equal(got["picked"], -x[:, :, AT])
    np.testing.assert_allclose(got["folded"], table[:2] + bent(table[AT]), 1e-6)
    np.testing.assert_array_equal(got["moved"], q[:, AT])


def test_dynamic_dimensions(toy: Toy) -> None:
    rows = [("toy.Bend", "x", "b"), ("toy.Pick", "b at", "y", {"axis": 1})]
    proto = model(rows, {"x": ["n", 3]}, {"y": ["n", 2]}, {"at": AT}, domains=["toy"])
    toy.build(proto, "--dim", "n=1..4")
    for n in (1, 3, 4):
        x = np.linspace(-2, 2, 3 * n, dtype=np.float32).reshape(n, 3)
        np.testing.assert_allclose(toy.compute(x=x)["y"], bent(x)[:, AT], 1e-6)
