# SPDX-License-Identifier: Apache-2.0
"""CMSIS-NN as a vendor: TensorFlow Lite's bits on a host and on emulated boards, its sizes."""

from __future__ import annotations

import os
import random
import subprocess
from functools import partial
from pathlib import Path

import harness
import merged
import numpy as np
import pytest
from cmsis_nn_roots import ROOTS, VARIABLE, root

from aot.api import compile_to
from aot.cli import main as aotc
from aot.options import Options
from aot.target import load_target
from aot.tools.run import execute, open_out
from aot.vendor.cmsis_nn import backend
from aot.vendor.cmsis_nn.base import Geometry
from aot.vendor.tflite_layers import BY_ROWS
from corpus_models import tflite_outputs
from needs import need
from quant_graphs import Net, quantised_values

HERE = Path(__file__).parent
FULL = bool(os.environ.get("AOT_FULL"))
TARGETS = ("host", "cortex-m4", "cortex-m33", "cortex-m55") if FULL else ("cortex-m4", "cortex-m55")
#: Networks of MLPerf Tiny whose stored results are TensorFlow Lite's, and on what they run here.
TINY = ("ic", "kws", "sww", "vww") if FULL else ("kws",)
BOARDS = ("cortex-m4", "cortex-m33", "cortex-m55") if FULL else ("cortex-m4",)


def can_run(target: str) -> None:
    """Skip where the target's compiler or emulator is not installed."""
    wanted = load_target(target)
    for program in (wanted.compiler, *wanted.emulator[:1]):
        if program:
            need(program, f"apt-get install {' '.join(wanted.packages)}")


@pytest.fixture(scope="module")
def parts() -> list[merged.Part]:
    """The cases of the vendor's patterns that it takes."""
    found = []
    for job in harness.collect(patterns=backend.patterns):
        assert job.model is not None and not job.error, job.error
        given = harness.feeds(job.model, job.case)
        part = merged.Part(job.label, job.model, given, job.want, job.case)
        part.taken = merged.taken_by(part, "cmsis_nn")
        found += [part] if part.taken else []
    return found


def test_every_pattern_has_a_case(parts: list[merged.Part]) -> None:
    assert {t for part in parts for t in part.taken} == {p.name for p in backend.patterns}


def rounded_once(part: merged.Part) -> bool:
    """Whether the library multiplies sums by 16 bits and rounds once, TensorFlow Lite's arithmetic
    where a bias has 64 bits: a result may be one away from that of a bias of 32 bits."""
    wide = part.want[0].dtype == np.int16
    deep = dict(part.case.attrs).get("conv.group", 1) > 1
    return wide and (deep or part.taken[0].startswith("qmatmul"))


def results(out: Path, switch: str, place: Path, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of the bundle in OUT, built with the vendor ON or OFF."""
    env = {**os.environ, VARIABLE: str(place)}
    options = [f"-DAOT_CMSIS_NN={switch}", "-DAOT_WERROR=ON"]
    for command in (["-S", out / "bundle", "-B", out, *options], ["--build", out]):
        done = subprocess.run(["cmake", *command], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
    return list(execute(open_out(out), arrays))


@pytest.mark.parametrize("kind", ROOTS)
@pytest.mark.parametrize("target", TARGETS)
def test_the_bits_of_tflite(
    parts: list[merged.Part], target: str, kind: str, tmp_path: Path
) -> None:
    can_run(target)
    place, out = root(kind), tmp_path / "out"
    model, arrays = merged.merge(parts)
    options = Options(name="net", backends=("cmsis_nn",), target=target, requant="tflite")
    compile_to(model, out, options, configure=False)
    theirs, ours = (results(out, switch, place, arrays) for switch in ("ON", "OFF"))
    names = [(p.label, rounded_once(p)) for p in parts for _ in p.want]
    off = [int(np.abs(a.astype(int) - b).max()) for a, b in zip(theirs, ours, strict=True)]
    assert [(n, d) for (n, most), d in zip(names, off, strict=True) if d > most] == []


def test_without_the_library_the_cases_are_the_nodes(
    parts: list[merged.Part], tmp_path: Path
) -> None:
    """Portable C in the library's place computes with float32 scales unless it is asked not to."""
    some = [p for p in parts if FULL or "qadd" in p.taken]
    arrays = merged.compile_parts(some, "cmsis_nn", tmp_path)
    results(tmp_path, "OFF", root(ROOTS[0]), arrays)
    assert merged.run(some, arrays, tmp_path) == []


#: Patterns whose functions take windows of rows.
BY_WINDOWS = {"qconv", "qaverage", "qmaxpool", "qmaxpool16", "qadd", "qmul"}


def some_images(parts: list[merged.Part]) -> list[merged.Part]:
    """Parts of one image of several rows, of each pattern and number of operators."""
    images = [p for p in parts if {len(a.shape) for a in p.feeds.values()} == {4}]
    images = [p for p in images if BY_WINDOWS.intersection(p.taken)]
    alone = [p for p in images if all(a.shape[0] == 1 for a in p.feeds.values())]
    return alone if FULL else alone[::3]


def test_rows_are_those_of_whole_tensors(parts: list[merged.Part], tmp_path: Path) -> None:
    place = root(ROOTS[0])
    model, arrays = merged.merge(some_images(parts))
    declared, streamed = merged.by_rows(model, "cmsis_nn", tmp_path / "rows", requant="tflite")
    assert declared == streamed and len(declared) > 6, declared - streamed
    options = Options(name="net", backends=("cmsis_nn",), requant="tflite")
    compile_to(model, tmp_path / "whole", options, configure=False)
    whole, rows = (results(tmp_path / n, "ON", place, arrays) for n in ("whole", "rows"))
    assert [k for k, (a, b) in enumerate(zip(whole, rows, strict=True)) if (a != b).any()] == []


@pytest.mark.parametrize("ram", (20, 30) if FULL else (20,))
def test_a_budget_of_ram_is_met_by_rows(ram: int, models_folder: Path, tmp_path: Path) -> None:
    """Also what the library takes of the stack is counted."""
    target, model = BOARDS[0], models_folder / "mlperf_ic_int8.onnx"
    can_run(target)
    data = np.random.default_rng(2).integers(-128, 128, (1, 32, 32, 3)).astype(np.int8)
    found = []
    for budget in (None, ram * 1024):
        out = tmp_path / str(budget)
        options = Options(name="net", backends=("cmsis_nn",), target=target, ram=budget)
        memory = compile_to(model, out, options, configure=False).manifest["memory"]
        taken = memory["arena_bytes"] + memory["static_bytes"] + memory["stack_bytes"]
        assert (taken > ram * 1024, not memory.get("by_rows")) == (budget is None, budget is None)
        found += results(out, "ON", root(ROOTS[0]), [data])
    np.testing.assert_array_equal(*found)
    assert len(np.unique(found[0])) > 1


def test_a_window_that_is_declared_wrong(
    parts: list[merged.Part], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the function is not told of its rows is wrong in the results."""
    monkeypatch.delitem(BY_ROWS, "pad[0]")
    padded = next(p for p in some_images(parts) if dict(p.case.attrs).get("conv.pads") == [1] * 4)
    merged.by_rows(padded.model, "cmsis_nn", tmp_path / "rows", requant="tflite")
    arrays = [padded.feeds[v.name] for v in padded.model.graph.input]
    (found,) = results(tmp_path / "rows", "ON", root(ROOTS[0]), arrays)
    assert (found != padded.want[0]).any()


@pytest.mark.parametrize("kind", ROOTS)
@pytest.mark.parametrize("target", BOARDS)
@pytest.mark.parametrize("name", TINY)
def test_networks_are_wholly_the_vendors(
    name: str,
    target: str,
    kind: str,
    models_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    can_run(target)
    monkeypatch.setenv(VARIABLE, str(root(kind)))
    model, out = f"mlperf_{name}_int8", str(tmp_path / "out")
    np.savez(tmp_path / "io.npz", **tflite_outputs(models_folder, model))
    compiled = [str(models_folder / f"{model}.onnx"), "-o", out, "--requant", "tflite"]
    compiled += ["--target", target, "--backend", "cmsis_nn", "--require-backend"]
    assert aotc(compiled) == 0, capsys.readouterr().err
    subprocess.run(["cmake", "--build", out], check=True, capture_output=True)
    capsys.readouterr()
    assert aotc(["verify", out, "--inputs", str(tmp_path / "io.npz"), "--per-region"]) == 0
    said = capsys.readouterr().out
    stored = [line for line in said.splitlines() if "(stored)" in line]
    regions = [line for line in said.splitlines() if line.startswith("  region ")]
    assert len(stored) == 4 and all("max abs 0," in line for line in stored + regions), said


def conv(
    x: tuple[int, ...],
    w: tuple[int, ...],
    zeros: tuple[int, int] = (3, 1),
    wide: bool = False,
    **attrs: object,
) -> Net:
    """A convolution between quantised values, int16 ones if `wide`; transposed with a `kind`."""
    of = np.int16 if wide else np.int8
    net = Net(x=(of.__name__, x))
    weights = net.dq(net.const(quantised_values(*w)), 0.01, np.int8(0))
    kind = str(attrs.pop("kind", "Conv"))
    y = net.add(kind, net.dq("x", 0.05, of(zeros[0])), weights, **attrs)
    net.q(y, 0.2, of(zeros[1]), out="y")
    return net


turned = partial(conv, kind="ConvTranspose")


def unary(
    op_type: str, shape: tuple[int, ...], to: tuple[float, int], *more: np.ndarray, **attrs: object
) -> Net:
    """An operator from quantised values of 0.05 and 3, and constants, to others."""
    net = Net(x=("int8", shape))
    y = net.add(op_type, net.dq("x", 0.05, np.int8(3)), *map(net.const, more), **attrs)
    net.q(y, to[0], np.int8(to[1]), out="y")
    return net


def pair(op_type: str, a: tuple[int, ...], b: tuple[int, ...], scale: float = 0.1) -> Net:
    """An operator of two operands."""
    net = Net(a=("int8", a), b=("int8", b))
    y = net.add(op_type, net.dq("a", 0.05, np.int8(3)), net.dq("b", 0.07, np.int8(-4)))
    net.q(y, scale, np.int8(0), out="y")
    return net


SAME = (0.05, 3)
POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}
REFUSED = [
    (conv((1, 4, 4, 4, 4), (4, 4, 1, 1, 1)), "rank 5 (needs 3 or 4)"),
    (conv((1, 1, 40000), (1, 1, 3)), "an extent of 40000 (needs less than 32768)"),
    (conv((1, 4, 1, 1), (4, 4, 1, 1), pads=[1, 1, 1, 1]), "pads [1, 1, 1, 1] of one position"),
    (conv((1, 4, 1, 9), (4, 4, 1, 1), pads=[1, 1, 1, 1]), "pads [1, 1, 1, 1] of one position"),
    (unary("AveragePool", (1, 4, 8, 8), (0.06, 3), **POOL), "need to be those of x"),
    (
        unary("AveragePool", (1, 4, 8, 8), SAME, **POOL, pads=[1, 1, 1, 1], count_include_pad=1),
        "padding that counts",
    ),
    (unary("Softmax", (2, 10), (1 / 255, -128)), "(needs 1/256 and -128)"),
    (unary("Softmax", (2, 600), (1 / 256, -128)), "rows of 600 (need at most 511)"),
    (unary("Softmax", (2, 10, 3), (1 / 256, -128), axis=1), "axis 1 of [2, 10, 3]"),
    (pair("Add", (1, 4, 8, 8), (1, 4, 1, 1)), "(need equal shapes)"),
    (pair("MatMul", (2, 4, 8), (8, 5)), "operands [2, 4, 8] and [8, 5] (need as many matrices)"),
    (conv((1, 8, 4, 4), (4, 8, 1, 1), wide=True), "zero points [3, 1] of int16 (need to be 0)"),
    (
        conv((1, 4, 4, 4), (4, 2, 3, 3), (0, 0), wide=True, group=2),
        "2 groups (int16 needs 1, or one a",
    ),
    (turned((1, 4, 4, 4), (4, 4, 3, 3), dilations=[2, 2]), "dilations [2, 2] (need to be 1)"),
    (turned((1, 4, 4, 4), (4, 4, 3, 3), group=2), "2 groups (needs 1)"),
    (turned((1, 4, 4, 4), (4, 4, 2, 2), strides=[2, 2], pads=[0, 0, 1, 1]), "a result of [7, 7]"),
    (unary("Pad", (2, 4), SAME, np.array([-1, 0, 0, 0])), "pads [-1, 0, 0, 0] (need 0 or more)"),
    (unary("Transpose", (1, 4, 5, 6), SAME, perm=[0, 2, 3, 1]), "perm [0, 2, 3, 1] (channels"),
]


@pytest.mark.parametrize(("net", "reason"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_refusals_say_why(net: Net, reason: str) -> None:
    (dtype, _), *_ = net.inputs.values()
    partition = merged.partition_of(net.model(y=dtype.name), ("cmsis_nn",))
    reasons = [r.reason for r in partition.refusals if r.backend == "cmsis_nn"]
    assert any(reason in r for r in reasons), reasons
    assert {s.backend for s in partition.items} == {"c"}


@pytest.mark.parametrize(
    ("net", "backend"),
    [
        (conv((1, 32, 16, 16), (32, 32, 3, 3)), "c"),
        (conv((1, 32, 16, 16), (32, 16, 3, 3), group=2), "cmsis_nn"),
        (turned((1, 8, 8, 8), (8, 8, 2, 2), strides=[2, 2]), "c"),
        (turned((1, 16, 16, 16), (16, 16, 3, 3), strides=[2, 2]), "cmsis_nn"),
    ],
    ids=["conv", "groups", "phases", "transposed"],
)
def test_the_choice_by_cost(net: Net, backend: str, tmp_path: Path) -> None:
    """Portable C has only its general kernel for two groups, and for strides that do not divide a
    transposed window, which takes longer.
    """
    options = Options(target="cortex-m4", backends=("cmsis_nn",), partition="cost")
    compile_to(net.model(y="int8"), tmp_path / "out", options, configure=False)
    nodes = merged.manifest_of(tmp_path / "out")["nodes"]
    assert [n["backend"] for n in nodes if n["macs"]] == [backend]


def some_geometry(r: random.Random) -> Geometry:
    """A convolution of two axes or of one row, with one group, or two, or one per channel."""
    h, w = r.choice([1, 1, 7, 12]), r.randint(6, 20)
    kh, kw = (r.randint(1, min(3, h)), r.randint(1, 5)) if h > 1 else (1, r.randint(1, 5))
    stride, dilation = (r.randint(1, 2), r.randint(1, 3)), r.choice([(1, 1), (1, 1), (1, 2)])
    pad = (r.randint(0, 1) if h > 1 else 0, r.randint(0, 2))
    channels, group = r.choice([(4, 1), (6, 2), (3, 1), (16, 1), (6, 6)])
    y = [
        (n + 2 * p - (k - 1) * d - 1) // s + 1
        for n, k, p, s, d in zip((h, w), (kh, kw), pad, stride, dilation, strict=True)
    ]
    out = channels * r.randint(1, 2)
    weights = (out, kh, kw, channels // group)
    return Geometry((r.randint(1, 2), h, w, channels), weights, (1, *y, out), stride, pad, dilation)


@pytest.mark.parametrize("kind", ROOTS)
def test_scratch_is_as_large_as_the_library_says(kind: str, tmp_path: Path) -> None:
    place, r = root(kind), random.Random(5)
    made = [some_geometry(r) for _ in range(500)]
    made = [g.as_column() if g.in_a_row and not g.row_exact else g for g in made]
    files = [*(place / "Source").rglob("*conv*_buffer_size*_s*.c")]
    files += (place / "Source").glob("*.c")
    program = tmp_path / "sizes"
    command = ["gcc", "-w", "-I", place / "Include", HERE / "cmsis_nn_sizes.c", *files]
    subprocess.run([*command, "-o", program], check=True)
    rows = [
        " ".join(str(n) for v in (g.x, g.w, g.y, g.stride, g.pad, g.dilation) for n in v)
        for g in made
    ]
    said = subprocess.run([program], input="\n".join(rows), capture_output=True, text=True).stdout
    found = [[int(n) for n in line.split()] for line in said.splitlines()]
    own = [
        [
            size(core, kind)
            for kind in ("", "4", "16")
            for size in (g.bytes, g.depthwise_bytes)
            for core in ("", "dsp", "mve")
        ]
        for g in made
    ]
    assert [row[:18] for row in found] == own
    assert len({tuple(row) for row in own}) > 50
    for g, row in zip(made, found, strict=True):
        (plain, extra), (helium, _) = map(g.transposed_bytes, ("", "mve"))
        mine, theirs = [plain, helium, extra], row[18:]
        assert not g.whole or (mine == theirs if g.stride[0] >= g.stride[1] else mine >= theirs)
