# SPDX-License-Identifier: Apache-2.0
"""8-bit quantised values in oneDNN: every case of its patterns within one code of the float
definition, on both generations of the library."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import harness
import merged
import numpy as np
import onnx
import pytest
from dnnl_libraries import ROOTS, library
from onnx import helper, numpy_helper

from aot.cli import main as aotc
from aot.vendor.dnnl import backend

PATTERNS = [p for p in backend.patterns if p.name.startswith("q")]
#: How many cases of the portable patterns the library cannot compute: 16-bit quantised values,
#: weights that do not fit int8 less their zero points.
REFUSED = {"qconv": 4, "qdense": 3}


def quantised_parts() -> tuple[list[merged.Part], dict[str, list[str]]]:
    """The cases that oneDNN takes, and why it refuses the others."""
    parts: list[merged.Part] = []
    refused: dict[str, list[str]] = {}
    for job in harness.collect(patterns=PATTERNS):
        assert job.model is not None and not job.error, job.error
        feeds = harness.feeds(job.model, job.case)
        part = merged.Part(job.label, job.model, feeds, job.want, job.case)
        part.taken = merged.taken_by(part, "dnnl")
        name = job.label.partition("[")[0]
        if part.taken:
            assert part.taken == [name]
            parts.append(part)
        else:
            refused.setdefault(name, []).append(job.label)
    return parts, refused


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list, list]:
    parts, refused = quantised_parts()
    assert {k: len(v) for k, v in refused.items()} == REFUSED
    out = tmp_path_factory.mktemp("codes") / "out"
    return out, parts, merged.compile_parts(parts, "dnnl", out)


def test_every_pattern_has_a_case(bundle: tuple[Path, list, list]) -> None:
    assert {t for part in bundle[1] for t in part.taken} == {p.name for p in PATTERNS}


@pytest.mark.parametrize("generation", sorted(ROOTS))
def test_within_one_code(bundle: tuple[Path, list, list], generation: str, tmp_path: Path) -> None:
    root = library(generation)
    out, parts, arrays = bundle
    mine = tmp_path / "out"
    shutil.copytree(out, mine)
    merged.build(mine, {"dnnl_ROOT": root})
    os.environ["OMP_NUM_THREADS"] = "1"
    got = iter(merged.execute(merged.open_out(mine), arrays))
    wrong, values_seen, off = [], 0, 0
    for part in parts:
        for want in part.want:
            apart = np.abs(next(got).astype(int) - want.astype(int))
            values_seen, off = values_seen + apart.size, off + int((apart > 0).sum())
            if apart.max(initial=0) > 1:
                wrong.append(f"{part.label}: {(apart > 1).sum()} of {apart.size}, {apart.max()}")
    assert not wrong, "\n".join(wrong)
    assert off < 0.01 * values_seen, f"{off} of {values_seen} quantised values are one off"


def chain() -> onnx.ModelProto:
    """Two convolutions, a pool, a Reshape and a product between quantised values."""
    rng = np.random.default_rng(7)
    consts: dict[str, np.ndarray] = {"zero": np.int8(3), "shape": np.array([1, -1])}
    nodes, x = [], "x"
    layers = (("Conv", (16, 3, 3, 3)), ("Conv", (8, 16, 3, 3)), ("MatMul", (32, 10)))
    for i, (kind, shape) in enumerate(layers):
        consts |= {f"s{i}": np.float32(0.05), f"w{i}": rng.integers(-99, 99, shape, np.int8)}
        consts |= {f"t{i}": np.float32(0.01)}
        nodes += [
            helper.make_node("QuantizeLinear", [x, f"s{i}", "zero"], [f"q{i}"]),
            helper.make_node("DequantizeLinear", [f"q{i}", f"s{i}", "zero"], [f"d{i}"]),
            helper.make_node("DequantizeLinear", [f"w{i}", f"t{i}"], [f"e{i}"]),
        ]
        given = f"d{i}"
        if kind == "MatMul":
            window = {"kernel_shape": [2, 2], "strides": [2, 2]}
            nodes.append(helper.make_node("MaxPool", [given], ["pool"], **window))
            nodes.append(helper.make_node("Reshape", ["pool", "shape"], ["flat"]))
            given = "flat"
        nodes.append(helper.make_node(kind, [given, f"e{i}"], [f"p{i}"]))
        x = f"p{i}"
    consts["end"] = np.float32(0.4)
    nodes += [
        helper.make_node("QuantizeLinear", [x, "end", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "end", "zero"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info("x", 1, [1, 3, 8, 8])]
    graph = helper.make_graph(
        nodes,
        "chain",
        ends,
        [helper.make_tensor_value_info("y", 1, [1, 10])],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in consts.items()],
    )
    opsets = [helper.make_opsetid("", 19)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def test_a_chain_of_layers_is_one_region(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    root = library("3")
    onnx.save(chain(), tmp_path / "chain.onnx")
    out = tmp_path / "out"
    words = [str(tmp_path / "chain.onnx"), "-o", str(out), "--backend", "dnnl", "-q"]
    assert aotc(words) == 0
    manifest = merged.manifest_of(out)
    kernels = [n["kernel"] for n in manifest["nodes"] if n["backend"] == "dnnl"]
    assert [r["backend"] for r in manifest["regions"]] == ["dnnl"]
    assert kernels.count("aot_dnnl_run") == 4 and set(kernels) == {
        "aot_dnnl_run",
        "aot_from_blocked",  # Reshape reads channels first
    }
    layouts = [w["layout"] for n in manifest["nodes"] for w in n["writes"]]
    assert {"NC3", "NC16", "NC8"} <= set(layouts)
    merged.build(out, {"dnnl_ROOT": root})
    assert aotc(["verify", str(out), "--per-region", "--max-lsb", "2"]) == 0
    assert "agree with portable C" in capsys.readouterr().out


def test_tflite_rounding_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    onnx.save(chain(), tmp_path / "chain.onnx")
    words = [str(tmp_path / "chain.onnx"), "-o", str(tmp_path / "out"), "--backend", "dnnl"]
    assert aotc([*words, "--requant", "tflite"]) == 1
    assert "oneDNN does not round as TensorFlow Lite does" in capsys.readouterr().err
