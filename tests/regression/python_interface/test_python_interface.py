# SPDX-License-Identifier: Apache-2.0
"""aot.compile: what is no model or no value of an option gets a message, never a stray exception.

An onnx_ir.Model was promised and crashed; `None`, `ram="1G"` or `dims=3` gave AttributeError or
TypeError; a negative offload_limit was accepted; a refused run gave only a number; OUT compiled
again and loaded in the same process computed what the first model did. `backends="dnnl"` looked for
a backend called 'd'.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

import aot
from aot.errors import BackendError, UsageError, VerifyError
from aot.options import Options
from graphs import model

MODEL = model([("Relu", "x", "y")], {"x": [2, 3]}, {"y": [2, 3]})


def test_an_onnx_ir_model_is_compiled() -> None:
    bundle = aot.compile(ir.from_proto(MODEL), configure=False)
    assert [i["name"] for i in bundle.manifest["inputs"]] == ["x"]


@pytest.mark.parametrize("source", [None, 5, {}, MODEL.graph])
def test_what_is_no_model(source: Any) -> None:
    with pytest.raises(UsageError, match=r"the model is of type .*, not a path"):
        aot.compile(source, configure=False)


@pytest.mark.parametrize(
    "option",
    [
        {"ram": "1G"},
        {"dims": 3},
        {"name": 5},
        {"plan_effort": "a"},
        {"offload_limit": -1},
        {"target": 5},
        {"backends": [5]},
        {"backends": 5},
        {"backends": {"cblas", "dnnl"}},
        {"backend_options": {"accel_sim.weights": 1}},
        {"input_shapes": {"x": "2,3"}},
        {"input_shapes": {"x": 2}},
        {"states": {"x": ["y"]}},
        {"options": "ram=1K"},
        {"weights": 5},
        {"test_data": 5},
    ],
)
def test_what_is_no_value(option: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(option))):
        aot.compile(MODEL, configure=False, **option)


@pytest.mark.parametrize("one", ["cblas", ["cblas"], ("cblas",)])
def test_one_backend_is_a_name(one: Any) -> None:
    """A string was taken for the list of its letters."""
    product = model([("MatMul", "x w", "y")], {"x": [2, 3], "w": [3, 4]}, {"y": [2, 4]})
    for given in ({"backends": one}, {"options": Options(backends=one)}):
        bundle = aot.compile(product, configure=False, **given)
        assert [n["backend"] for n in bundle.manifest["nodes"]] == ["cblas"]
    with pytest.raises(BackendError, match="no backend is called 'blas'"):
        aot.compile(MODEL, configure=False, backends="blas")


@pytest.mark.parametrize("size", [1.5, "2", 1 << 80, (1, 1 << 63), (2, 1), -1])
def test_what_is_no_size(size: Any) -> None:
    made = model([("Relu", "x", "y")], {"x": ["N", 3]}, {"y": ["N", 3]})
    with pytest.raises(UsageError, match="--dim N"):
        aot.compile(made, configure=False, dims={"N": size})


def test_inputs_may_be_called_anything(tmp_path: Path) -> None:
    made = model([("Relu", "self", "y")], {"self": [2, 3]}, {"y": [2, 3]})
    net = aot.compile(made, tmp_path / "out", name="net").load()
    assert net(self=np.ones((2, 3), np.float32)).shape == (2, 3)


def test_a_refused_run_says_why(tmp_path: Path) -> None:
    relu = aot.compile(MODEL, tmp_path / "out").load()
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(VerifyError, match="overlaps"):
        relu(x, out=x)
    odd = np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)
    with pytest.raises(VerifyError, match="not aligned"):
        relu(odd)


def test_what_is_compiled_again_is_loaded_again(tmp_path: Path) -> None:
    x = np.array([[-1, 0, 1], [2, -3, 4]], np.float32)
    nets = []
    for op in ("Relu", "Abs", "Neg"):
        made = model([(op, "x", "y")], {"x": [2, 3]}, {"y": [2, 3]})
        nets.append(aot.compile(made, tmp_path / "out").load())
    for net, want in zip(nets, (np.maximum(x, 0), np.abs(x), -x), strict=True):
        np.testing.assert_array_equal(net(x), want)
