# SPDX-License-Identifier: Apache-2.0
"""Cores without FPU: the library of an integer network calls no floating-point routine."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from quant_graphs import Net
from targets.images import ROOT, need_tools
from targets.quant_kinds import KINDS, kernels, network, still_float

FULL = bool(os.environ.get("AOT_FULL"))
DIGITS = ROOT / "examples" / "digits"
ARM = "arm-none-eabi-nm"
NM = {"cortex-m0": ARM, "cortex-m3": ARM, "rv32imac": "riscv64-unknown-elf-nm"}
#: libgcc's, in the names of the Arm ABI and of all others (__addsf3, __fixdfsi), and libm's.
ROUTINE = re.compile(r"__aeabi_c?[fd]|__aeabi_u?[il]2[fd]|__\w*[sd]f|^\w+f$")


def called(model: Path, target: str, requant: str, folder: Path) -> set[str]:
    """What the library of a model takes from elsewhere."""
    bundle = aot.compile(model, folder, target=target, requant=requant, name="net").build()
    command = [NM[target], "--undefined-only", str(bundle.out / "lib/libnet.a")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in text.splitlines() if line.startswith(" ")}
    assert any(n.startswith("net_") for n in names)
    return {n for n in names if not n.startswith("net_")}


@pytest.mark.parametrize("requant", ["onnx", "tflite"])
@pytest.mark.parametrize("target", ["cortex-m0", "rv32imac"])
def test_integer_networks_stay_integer(target: str, requant: str, tmp_path: Path) -> None:
    need_tools(target)
    names = called(DIGITS / "digits_int8.onnx", target, requant, tmp_path)
    assert not [n for n in names if ROUTINE.search(n)], names


def every_kind(dtype: type, folder: Path) -> Path:
    """A network of what is computed between quantised values of one type."""
    step = 0.03 if dtype is np.int8 else 3e-4
    fine = 1 / 256 if dtype is np.int8 else 1 / 32768
    net = Net(x=(dtype, (1, 6, 8, 8)))

    def again(value: str, scale: float = 5 * step) -> str:
        return net.dq(net.q(value, scale, dtype(0)), scale, dtype(0))

    x = net.dq("x", step, dtype(0))
    weights = np.arange(324).reshape(6, 6, 3, 3) % 251 - 125
    w = net.dq(weights.astype(np.int8), 0.01, np.int8(0))
    made = again(net.add("Conv", x, w, pads=[1, 1, 1, 1]))
    total = again(net.add("Add", again(net.add("Relu", made)), x))
    gated = again(net.add("Mul", total, again(net.add("Sigmoid", made), fine)))
    ratio = again(net.add("Div", gated, made))
    up, down = (np.array([1, 6, k, k], np.int64) for k in (11, 8))
    larger = again(net.add("Resize", ratio, "", "", up, mode="linear"))
    same = again(net.add("Resize", larger, "", "", down, mode="cubic"))
    shares = again(net.add("Softmax", same, axis=1), fine)  # of int16 TFLite's, and another
    same = again(net.add("Softmax", shares, axis=3), fine * 1.5)
    largest = again(net.add("MaxPool", same, kernel_shape=[2, 2], strides=[2, 2]))
    mean = again(net.add("AveragePool", largest, kernel_shape=[2, 2], strides=[2, 2]))
    flat = again(net.add("Flatten", net.add("GlobalAveragePool", mean)))
    square = net.dq(np.arange(36, dtype=np.int8).reshape(6, 6), 0.01, np.int8(0))
    dense = net.dq(np.arange(30, dtype=np.int8).reshape(6, 5), 0.01, np.int8(0))
    if dtype is np.int8:  # no quantised values between a product and the sum
        flat = again(net.add("Add", net.add("MatMul", flat, square), flat))
    flat = again(net.add("HardSwish", again(net.add("MatMul", flat, dense))))
    net.q(net.add("LogSoftmax", flat), step, dtype(0), out="y")
    onnx.save(net.model(y=dtype), folder / "m.onnx")
    return folder / "m.onnx"


@pytest.mark.sample(3)
@pytest.mark.parametrize("target", sorted(NM))
@pytest.mark.parametrize(
    ("dtype", "requant"), [(np.int8, "onnx"), (np.int16, "onnx"), (np.int16, "tflite")]
)
def test_every_kind_of_layer(target: str, dtype: type, requant: str, tmp_path: Path) -> None:
    need_tools(target)
    names = called(every_kind(dtype, tmp_path), target, requant, tmp_path / "out")
    assert not [n for n in names if ROUTINE.search(n)], names


def is_float(kernel: str) -> bool:
    return "f32" in kernel or "quantize" in kernel


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint16])
def test_every_operator_on_quantised_values(dtype: type) -> None:
    if dtype is np.uint16 and not FULL:
        pytest.skip("AOT_FULL=1 compiles these too")
    wanted = [k for k in KINDS if k not in still_float(dtype)]
    assert not [k for k in kernels(network(wanted, dtype)) if is_float(k)]


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_those_that_are_float_are_named(dtype: type) -> None:
    for kind in still_float(dtype):
        assert any(is_float(k) for k in kernels(network([kind], dtype))), kind


@pytest.mark.parametrize("target", sorted(NM))
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_no_operator_calls_a_routine(target: str, dtype: type, tmp_path: Path) -> None:
    if (target, dtype) != ("cortex-m3", np.int16) and not FULL:
        pytest.skip("AOT_FULL=1 links all of them")
    need_tools(target)
    wanted = [k for k in KINDS if k not in still_float(dtype)]
    few = 8 if dtype is np.int8 else 4  # 16 KiB of memory hold no more
    count = few if target == "cortex-m0" else len(wanted)
    for k in range(0, len(wanted), count):
        onnx.save(network(wanted[k : k + count], dtype), tmp_path / "m.onnx")
        names = called(tmp_path / "m.onnx", target, "onnx", tmp_path / "out")
        assert not [n for n in names if ROUTINE.search(n)], names


def test_float_networks_do_not(tmp_path: Path) -> None:
    """The names looked for are those the compiler uses."""
    for target in ("cortex-m0", "rv32imac"):
        need_tools(target)
        names = called(DIGITS / "digits.onnx", target, "onnx", tmp_path / target)
        assert [n for n in names if ROUTINE.search(n)], names
