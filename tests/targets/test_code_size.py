# SPDX-License-Identifier: Apache-2.0
"""Flash that is estimated before anything is built, and the image that is linked."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aot
from aot.options import Options
from aot.pipeline import compile_model
from aot.plan import code_size
from aot.target import load_target
from aot.tools.elf_image import measure_image
from aot.tools.run import open_out
from aot.tools.size import estimate
from targets.images import ROOT, need_tools

TARGETS = ("cortex-m0", "cortex-m4", "cortex-m55", "rv32imac")
NETWORKS = ("ic", "kws", "vww", "ad", "sww")
#: What lets a network fit into the micro:bit's 16 KiB of RAM.
SMALL: dict[str, dict[str, Any]] = {
    "ic": {"objective": "ram"},
    "kws": {"objective": "ram"},
}
PAIRS = [(n, t) for n in (*NETWORKS, "mobilenetv2") for t in TARGETS]
for large in ("mobilenetv2", "ad", "vww"):  # more constants, or inputs, than the micro:bit holds
    PAIRS.remove((large, "cortex-m0"))
#: One pair a day's seed chooses; all of them by AOT_FULL=1.
FULL = bool(os.environ.get("AOT_FULL"))
SAMPLE = PAIRS if FULL else [PAIRS[int(np.random.default_rng(26).integers(len(PAIRS) - 3))]]


@pytest.mark.parametrize(("name", "target"), SAMPLE)
def test_the_estimate_is_near_the_image(
    name: str, target: str, models_folder: Path, tmp_path: Path
) -> None:
    need_tools(target)
    given = SMALL.get(name, {}) if target == "cortex-m0" else {}
    model = models_folder / f"mlperf_{name}_int8.onnx"
    if name == "mobilenetv2":
        sys.path.append(str(ROOT / "benchmarks"))
        from streamed_models import saved

        model = saved("mobilenetv2_96_int8", tmp_path)
    size = estimate(compile_model(model, Options(target=target, **given)))
    bundle = aot.compile(model, tmp_path / "o", target=target, **given)
    linked = measure_image(open_out(bundle.build().out).program()).flash
    assert abs(size.constants + size.code - linked) <= code_size.MOST_OFF * linked


def test_a_target_like_a_measured_one_and_one_like_none() -> None:
    own = replace(load_target("cortex-m4"), name="mine")
    assert code_size.alike(own) == "cortex-m4"
    assert code_size.alike(replace(own, fpu="double")) == ""
    assert code_size.alike(load_target("x86-64-v3")) == ""


def test_what_takes_the_code_is_named() -> None:
    model = ROOT / "examples/digits/digits_int8.onnx"
    made = compile_model(model, Options(target="cortex-m4"))
    kernels = {c.kernel for c in made.program.every_call()}
    assert kernels <= set(made.code) and made.code["start-up code, entries, runner"] > 2000
    names = [line.rpartition(" ")[0] for line in code_size.largest(made.code)]
    sizes = [made.code[n] for n in names]
    assert sizes == sorted(sizes, reverse=True) and 0 not in sizes
    every = compile_model(model, Options(target="cortex-m4", specialise="none"))
    assert sum(every.code.values()) != sum(made.code.values())
