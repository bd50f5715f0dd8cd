# SPDX-License-Identifier: Apache-2.0
"""`aotc size` of a build without optimisation added the declared stack to the RAM, of which it said
in the next line that entries take more."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import aot
from abi import toy
from aot.tools.run import open_out
from aot.tools.size import measure
from graphs import model
from targets.images import need_tools


def test_ram_of_a_build_without_optimisation(tmp_path: Path) -> None:
    need_tools("cortex-m4")
    weights = {"k": np.ones((8, 8, 3, 3), np.float32)}
    proto = model([("Conv", "x k", "y")], {"x": [1, 8, 9, 9]}, {"y": None}, weights)
    bundle = aot.compile(proto, tmp_path / "out", target="cortex-m4", name="net")
    toy.run("cmake", "-DCMAKE_BUILD_TYPE=Debug", str(bundle.out))
    toy.run("cmake", "--build", str(bundle.out))
    size = measure(open_out(bundle.out))
    assert size.stack.bytes is not None and size.stack.declared is not None
    assert size.stack.bytes > size.stack.declared, "the build is no example"
    assert size.ram == size.arena + size.static + size.stack.bytes
    assert f"stack {size.stack.bytes}; apart" in size.text()


def test_integer_kernels_have_a_bound_without_optimisation(tmp_path: Path) -> None:
    """A choice between two functions was a call through a pointer, which has no bound."""
    need_tools("cortex-m4")
    digits = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.onnx"
    bundle = aot.compile(digits, tmp_path / "out", target="cortex-m4")
    toy.run("cmake", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O0", str(bundle.out))
    toy.run("cmake", "--build", str(bundle.out))
    assert "dsp_job" in str(measure(open_out(bundle.out)).stack.chain)
