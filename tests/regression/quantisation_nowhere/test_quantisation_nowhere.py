# SPDX-License-Identifier: Apache-2.0
"""Scale and zero point of quantised inputs and outputs stood nowhere for a firmware to use.

They are in the manifest and macros of the header, as is the stack that the manifest declares.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from abi import toy
from graphs import model
from needs import need

CONSTANTS = {
    "s": np.array(0.0235, np.float32),
    "z": np.array(3, np.uint8),
    "t": np.array(0.5, np.float32),
    "m": np.array(-7, np.int8),
    "ss": np.array([0.5, 0.25, 2.0], np.float32),
    "zs": np.array([1, 0, -2], np.int8),
    "other": np.array(0.125, np.float32),
}
U8, I8 = onnx.TensorProto.UINT8, onnx.TensorProto.INT8


def compiled(rows: list[tuple], out: Path, shape: tuple[int, ...], **more: Any) -> aot.Bundle:
    """A network of `rows` from x to y, of 8 bits."""
    kinds = {"x": more.pop("x", U8), "y": more.pop("y", I8)}
    used = {name for row in rows for name in row[1].split()}
    constants = {k: v for k, v in CONSTANTS.items() if k in used}
    proto = model(rows, {"x": shape}, {"y": None}, constants, dtypes=kinds)
    return aot.compile(proto, out, name="net", configure=False, **more)


def macros(bundle: aot.Bundle) -> dict[str, str]:
    text = (bundle.out / "bundle/include/net.h").read_text()
    return dict(re.findall(r"#define (NET_\w+) ([^/\n]*[^/\s])", text))


LAYER = [
    ("DequantizeLinear", "x s z", "a"),
    ("Relu", "a", "b"),
    ("QuantizeLinear", "b t m", "c"),
    ("Transpose", "c", "y", {"perm": [1, 0]}),
]


@pytest.mark.parametrize("target", ["host", "cortex-m4"])
def test_per_tensor(target: str, tmp_path: Path) -> None:
    """Also where the compiler turns unsigned integers into signed ones and moves elements last."""
    bundle = compiled(LAYER, tmp_path, (2, 3), target=target)
    (x,), (y,) = bundle.manifest["inputs"], bundle.manifest["outputs"]
    assert x["quantisation"] == {
        "scale": float(np.float32(0.0235)),
        "zero_point": 3,
        "axis": None,
    }
    assert y["quantisation"] == {"scale": 0.5, "zero_point": -7, "axis": None}
    found = macros(bundle)
    assert np.float32(found["NET_X_SCALE"].rstrip("F")) == np.float32(0.0235)
    assert found["NET_X_ZERO_POINT"] == "3"
    assert (found["NET_Y_SCALE"], found["NET_Y_ZERO_POINT"]) == ("5.0e-01F", "(-7)")
    assert int(found["NET_STACK_BYTES"]) == bundle.manifest["memory"]["stack_bytes"] > 0
    need("g++")
    include = f"-I{bundle.out / 'bundle/include'}"
    source = tmp_path / "use.cpp"
    source.write_text(
        '#include "net.h"\nfloat f(int q) { return float(q - NET_X_ZERO_POINT) * NET_X_SCALE; }\n'
    )
    toy.run("g++", "-std=c++11", "-pedantic", "-Werror", "-fsyntax-only", include, str(source))


def test_along_an_axis(tmp_path: Path) -> None:
    rows = [("DequantizeLinear", "x ss zs", "a", {"axis": 1}), ("QuantizeLinear", "a t m", "y")]
    bundle = compiled(rows, tmp_path, (2, 3), x=I8)
    assert bundle.manifest["inputs"][0]["quantisation"] == {
        "scale": [0.5, 0.25, 2.0],
        "zero_point": [1, 0, -2],
        "axis": 1,
    }
    found = macros(bundle)
    assert found["NET_X_SCALES"] == "{5.0e-01F, 2.5e-01F, 2.0e+00F}"
    assert (found["NET_X_ZERO_POINTS"], found["NET_X_AXIS"]) == ("{1, 0, (-2)}", "1")


def test_plain_values_have_none(tmp_path: Path) -> None:
    """Integers that are numbers, and an input that two readers understand in two ways."""
    twice = [
        ("DequantizeLinear", "x s z", "a"),
        ("DequantizeLinear", "x other z", "b"),
        ("Add", "a b", "y"),
    ]
    bundle = compiled(twice, tmp_path / "twice", (2, 3), y=onnx.TensorProto.FLOAT)
    assert bundle.manifest["inputs"][0]["quantisation"] is None
    bundle = compiled([("Neg", "x", "y")], tmp_path / "plain", (2, 3), x=I8)
    ends = (*bundle.manifest["inputs"], *bundle.manifest["outputs"])
    assert all(t["quantisation"] is None for t in ends)
    assert not [m for m in macros(bundle) if m.endswith(("SCALE", "ZERO_POINT"))]


def test_operators_on_integers(tmp_path: Path) -> None:
    """QLinearMatMul, which has scales as operands."""
    rows = [("QLinearMatMul", "x s z w other m t m", "y")]
    constants = {k: CONSTANTS[k] for k in ("s", "z", "other", "m", "t")}
    constants["w"] = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    proto = model(rows, {"x": (2, 3)}, {"y": (2, 4)}, constants, dtypes={"x": U8, "y": I8})
    bundle = aot.compile(proto, tmp_path, name="net", configure=False)
    found = macros(bundle)
    assert (found["NET_X_ZERO_POINT"], found["NET_Y_ZERO_POINT"]) == ("3", "(-7)")
    assert found["NET_Y_SCALE"] == "5.0e-01F"


def test_scales_of_half_precision(tmp_path: Path) -> None:
    rows = [("DequantizeLinear", "x h z", "a"), ("QuantizeLinear", "a k m", "y")]
    halves = {"h": np.array(0.0235, np.float16), "k": np.array(0.3, np.float16)}
    constants = {**halves, "z": CONSTANTS["z"], "m": CONSTANTS["m"]}
    proto = model(rows, {"x": (2, 3)}, {"y": None}, constants, dtypes={"x": U8, "y": I8})
    bundle = aot.compile(proto, tmp_path, name="net", configure=False)
    (x,), (y,) = bundle.manifest["inputs"], bundle.manifest["outputs"]
    assert x["quantisation"]["scale"] == float(halves["h"])
    assert y["quantisation"] == {"scale": float(halves["k"]), "zero_point": -7, "axis": None}
    assert np.float16(macros(bundle)["NET_X_SCALE"].rstrip("F")) == halves["h"]
