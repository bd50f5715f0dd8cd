# SPDX-License-Identifier: Apache-2.0
"""A run in steps where calls are not cut: a vendor's region, rows, control flow; and where they are
cut below a row."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aot
from aot.cli import main
from aot.npz import read_npz
from needs import need
from sliced_graphs import columns, parts

DIGITS = Path(__file__).resolve().parents[2] / "examples/digits/digits_int8.onnx"
BOUND = 4000


def branching(folder: Path) -> Path:
    """A convolution, a Loop of three steps and an If whose branch depends on the data."""
    info, node = helper.make_tensor_value_info, helper.make_node
    shape = (1, 4, 8, 8)
    flag, number = (TensorProto.BOOL, ()), (TensorProto.INT64, ())
    body = helper.make_graph(
        [node("Add", ["v", "v"], ["w"]), node("Identity", ["c"], ["d"])],
        "body",
        [info("i", *number), info("c", *flag), info("v", TensorProto.FLOAT, shape)],
        [info("d", *flag), info("w", TensorProto.FLOAT, shape)],
    )
    sides = {
        f"{op}_branch": helper.make_graph(
            [node(kind, ["l"], [kind])], kind, [], [info(kind, TensorProto.FLOAT, shape)]
        )
        for op, kind in (("then", "Abs"), ("else", "Neg"))
    }
    weights = np.random.default_rng(5).standard_normal((4, 2, 3, 3)).astype(np.float32)
    consts = {"k": weights, "n": np.int64(3), "t": np.bool_(True), "z": np.float32(0)}
    graph = helper.make_graph(
        [
            node("Conv", ["x", "k"], ["a"], pads=[1, 1, 1, 1]),
            node("Loop", ["n", "t", "a"], ["l"], body=body),
            node("ReduceSum", ["l"], ["s"], keepdims=0),
            node("Greater", ["s", "z"], ["p"]),
            node("If", ["p"], ["y"], **sides),
        ],
        "branching",
        [info("x", TensorProto.FLOAT, (1, 2, 8, 8))],
        [info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in consts.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(made, folder / "branching.onnx")
    return folder / "branching.onnx"


@pytest.mark.parametrize(
    "options", [{"objective": "ram"}, {"backends": ["accel_sim"]}, {}], ids=["rows", "ax1", "flow"]
)
def test_steps_have_the_bits_of_a_run(options: dict[str, Any], tmp_path: Path) -> None:
    bundle = compared(DIGITS if options else branching(tmp_path), tmp_path, BOUND, **options)
    assert (bundle.manifest["slices"]["count"] == 1) == ("backends" in options)  # one region
    assert bool(bundle.manifest["memory"].get("by_rows")) == ("objective" in options)


def compared(model: Any, folder: Path, bound: int, **options: Any) -> aot.Bundle:
    """The bundle of a model with slices of `bound`, whose results have the bits of a whole run."""
    results = []
    for macs in (0, bound):
        bundle = aot.compile(model, folder / str(macs), slice_macs=macs, **options).build()
        given = bundle.manifest["inputs"][0]
        data = np.random.default_rng(3).integers(-128, 128, given["shape"])
        np.savez(folder / "in.npz", **{given["name"]: data.astype(given["dtype"])})
        words = ["--inputs", str(folder / "in.npz"), "--outputs", str(folder / "out.npz")]
        assert main(["run", str(bundle.out), *words]) == 0
        results.append([v.tobytes() for v in read_npz(folder / "out.npz").values()])
    assert results[0] == results[1]
    return bundle


BOARDS = {"cortex-m4": "qemu-system-arm", "cortex-m55": "qemu-system-arm"}
BOARDS |= {"cortex-m0": "qemu-system-arm", "rv32imac": "qemu-system-riscv32"}
SOME = [("host", np.int8), *((t, k) for t in BOARDS for k in (np.int8, np.int16))]


@pytest.mark.parametrize(("target", "kind"), SOME if os.environ.get("AOT_FULL") else SOME[:1])
def test_parts_of_rows_have_the_bits_of_a_run(target: str, kind: type, tmp_path: Path) -> None:
    if target in BOARDS:
        need(BOARDS[target])
    bundle = compared(parts(kind), tmp_path, 1, name="net", target=target)
    assert any(s["end_row"] == 25 for s in bundle.manifest["slices"]["slices"])


@pytest.mark.parametrize(("target", "kind"), SOME if os.environ.get("AOT_FULL") else SOME[:1])
def test_parts_of_a_row_have_the_bits_of_a_run(target: str, kind: type, tmp_path: Path) -> None:
    if target in BOARDS:
        need(BOARDS[target])
    bundle = compared(columns(kind), tmp_path, 700, name="net", target=target)
    longest = {n["macs"]: 0 for n in bundle.manifest["nodes"]}
    for part in bundle.manifest["slices"]["slices"]:
        macs = bundle.manifest["nodes"][part["call"]]["macs"]
        longest[macs] = max(longest[macs], part["macs"])
    assert all(2 * part <= macs for macs, part in longest.items() if macs > 700), longest
