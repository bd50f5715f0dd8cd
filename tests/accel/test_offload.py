# SPDX-License-Identifier: Apache-2.0
"""Networks that AX1 computes: from ONNX to a bundle, compared with portable C bit by bit."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import aot
from aot.cli import main
from aot.errors import TargetError, UnsupportedError, UsageError, VerifyError
from aot.options import Options
from aot.target import load_target
from needs import need
from quant_graphs import Net, feeds_of

S8, U8 = np.int8, np.uint8
SX, SW = 0.03, 0.02


def weights(net: Net, *shape: int) -> str:
    """Constant int8 weights in float32, one scale per output channel."""
    rng = np.random.default_rng(shape)
    data = rng.integers(-127, 128, shape).astype(S8)
    steps = np.linspace(0.004, 0.02, shape[0]).astype(np.float32)
    return net.add("DequantizeLinear", data, steps, np.zeros(shape[0], S8), axis=0)


def bias(net: Net, count: int, sx: float = SX) -> str:
    data = np.random.default_rng(count).integers(-3000, 3000, count).astype(np.int32)
    steps = (np.float32(sx) * np.linspace(0.004, 0.02, count).astype(np.float32)).astype(np.float32)
    return net.add("DequantizeLinear", data, steps, np.zeros(count, np.int32), axis=0)


def conv(net: Net, x: str, oc: int, ic: int, k: int = 3, relu: bool = True, **attrs: object) -> str:
    """A quantised convolution; its quantised values have scale 0.05 and zero point -20 (relu:
    -128)."""
    pads = attrs.pop("pads", [k // 2] * 4)
    w = weights(net, oc, ic, k, k)
    y = net.add("Conv", net.dq(x, SX, S8(-3)), w, bias(net, oc), pads=pads, **attrs)
    y = net.add("Relu", y) if relu else y
    return net.q(y, SX, S8(-3))


def residual() -> onnx.ModelProto:
    net = Net(x=(S8, [1, 5, 11, 9]))
    a = conv(net, "x", 24, 5)
    b = conv(net, a, 24, 24)
    c = conv(net, b, 24, 24, relu=False)
    total = net.add("Relu", net.add("Add", net.dq(a, SX, S8(-3)), net.dq(c, SX, S8(-3))))
    d = net.q(total, 0.05, S8(-100))
    e = conv(net, net.q(net.dq(d, 0.05, S8(-100)), SX, S8(-3)), 40, 24, strides=[2, 2])
    f = conv(net, e, 40, 1, group=40, strides=[2, 2])
    g = net.q(net.add("GlobalAveragePool", net.dq(f, SX, S8(-3))), 0.02, S8(7))
    h = net.add("Reshape", g, np.array([1, 40]))
    w = np.random.default_rng(1).integers(-127, 128, (40, 10)).astype(S8)
    dot = net.add("MatMul", net.dq(h, 0.02, S8(7)), net.dq(w, 0.01, S8(0)))
    logits = net.q(dot, 0.06, S8(11))
    soft = net.add("Softmax", net.dq(logits, 0.06, S8(11)), axis=-1)
    net.q(soft, 1 / 256, S8(-128), out="y")
    return net.model(y=S8)


def branches() -> onnx.ModelProto:
    net = Net(x=(U8, [1, 12, 10, 3]))  # rows, columns, channels: as TFLite has it
    transposed = net.add("Transpose", "x", perm=[0, 3, 1, 2])
    a = net.q(net.dq(transposed, SX, U8(120)), SX, S8(-3))
    a = conv(net, a, 16, 3)
    b = net.add("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2])
    c = conv(net, a, 8, 4, group=4, strides=[2, 2])
    d = net.add("Concat", b, c, axis=1)
    e = net.add("Slice", d, np.array([4]), np.array([20]), np.array([1]))
    f = net.q(net.add("HardSwish", net.dq(e, SX, S8(-3))), SX, S8(-3))
    g = net.add("AveragePool", net.dq(f, SX, S8(-3)), kernel_shape=[2, 2], strides=[2, 2])
    g = net.q(g, 0.021, S8(5))
    h = net.q(net.add("Mul", net.dq(g, 0.021, S8(5)), net.dq(g, 0.021, S8(5))), 0.1, S8(-9))
    offsets = np.random.default_rng(3).integers(-90, 90, (1, 16, 1, 1)).astype(S8)
    i = net.add("Sub", net.dq(h, 0.1, S8(-9)), net.dq(offsets, 0.03, S8(0)))
    i = net.q(i, 0.1, S8(1))
    flat = net.add("Reshape", i, np.array([1, 96]))
    w = np.random.default_rng(2).integers(-127, 128, (96, 20)).astype(S8)
    dot = net.add("MatMul", net.dq(flat, 0.1, S8(1)), net.dq(w, 0.01, S8(0)))
    net.q(dot, 0.3, S8(3), out="y")
    net.add("Transpose", i, out="z", perm=[0, 2, 3, 1])
    return net.model(y=S8, z=S8)


def lines() -> onnx.ModelProto:
    """One axis, and a table behind a convolution."""
    net = Net(x=(S8, [1, 6, 40]))
    w = weights(net, 12, 6, 5)
    y = net.add("Conv", net.dq("x", SX, S8(-3)), w, bias(net, 12), pads=[4, 4], dilations=[2])
    quantised = net.q(y, SX, S8(-3))
    net.q(net.add("Sigmoid", net.dq(quantised, SX, S8(-3))), 1 / 256, S8(-128), out="y")
    return net.model(y=S8)


def flattened() -> onnx.ModelProto:
    """Rows, columns, channels in the order of the weights behind them, as TFLite has it."""
    net = Net(x=(S8, [1, 3, 6, 7]))
    transposed = net.add("Transpose", conv(net, "x", 16, 3), perm=[0, 2, 3, 1])
    flat = net.add("Reshape", transposed, np.array([1, 672]))
    w = np.random.default_rng(2).integers(-127, 128, (672, 20)).astype(S8)
    dot = net.add("MatMul", net.dq(flat, SX, S8(-3)), net.dq(w, 0.01, S8(0)))
    net.q(dot, 0.3, S8(3), out="y")
    return net.model(y=S8)


def floats() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    make = helper.make_node
    consts = {
        "w1": rng.standard_normal((10, 3, 3, 3)) * 0.2,
        "b1": rng.standard_normal(10),
        "w2": rng.standard_normal((10, 1, 3, 3)) * 0.3,
        "w3": rng.standard_normal((7, 10)) * 0.3,
        "b3": rng.standard_normal(7),
        "k": rng.standard_normal((1, 10, 1, 1)),
    }
    nodes = [
        make("Conv", ["x", "w1", "b1"], ["a"], pads=[1] * 4),
        make("Relu", ["a"], ["b"]),
        make("Conv", ["b", "w2"], ["c"], pads=[1] * 4, group=10),
        make("Add", ["c", "b"], ["d"]),
        make("LeakyRelu", ["d"], ["d1"], alpha=0.2),
        make("Mul", ["d1", "k"], ["e"]),
        make("MaxPool", ["e"], ["f"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        make("GlobalAveragePool", ["f"], ["g"]),
        make("Flatten", ["g"], ["h"]),
        make("Gemm", ["h", "w3", "b3"], ["y"], transB=1),
    ]
    consts["w3"] = np.ascontiguousarray(consts["w3"])
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 9, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 7])],
        [helper.make_tensor(n, 1, d.shape, d.ravel()) for n, d in consts.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


MODELS = {f.__name__: f for f in (residual, branches, lines, flattened, floats)}


def outputs(proto: onnx.ModelProto, out: Path, **options: object) -> tuple[list, dict]:
    """(results for four samples, the manifest)."""
    bundle = aot.compile(proto, out, name="net", **options).build()
    library, found = bundle.load(), []
    for seed in range(4):
        made = library(*feeds_of(proto, seed).values())
        found += [np.array(a) for a in (made if isinstance(made, tuple | list) else [made])]
    shutil.rmtree(out)
    return found, bundle.manifest


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "machine", "requant"),
    [
        ("residual", "64", "onnx"),
        ("residual", "256", "tflite"),
        ("branches", "256", "onnx"),
        ("branches", "512", "tflite"),
        ("lines", "64", "onnx"),
        ("flattened", "64", "onnx"),
        ("floats", "256", "onnx"),
    ],
)
def test_whole_networks(name: str, machine: str, requant: str, tmp_path: Path) -> None:
    proto = MODELS[name]()
    one = {"requant": requant}
    with_it = {**one, "backends": (f"accel_sim:{machine}",), "require_backend": True}
    made, manifest = outputs(proto, tmp_path / "accel", **with_it)
    want, _ = outputs(proto, tmp_path / "c", **one)
    assert len(manifest["regions"]) == 1
    for a, b in zip(made, want, strict=True):
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(a, b)
            assert len(np.unique(a)) > 3 or a.size < 8


def test_options_are_checked() -> None:
    from aot.vendor.find import backends_for

    for names, given, what in (
        (("accel_sim",), {"accel_sim.weights": "rom"}, "not one of flash, sram"),
        (("accel_sim",), {"accel_sim.size": "1"}, "no option 'size'"),
        (("dnnl",), {"dnnl.size": "1"}, "no options"),
        ((), {"accel_sim.weights": "flash"}, "does not name"),
    ):
        with pytest.raises(UsageError, match=what):
            backends_for(names, options=Options(backends=names, backend_options=given))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("target", "machine", "weights"), [("cortex-m4", "256", "flash"), ("rv32imac", "64", "sram")]
)
def test_boards_sleep_until_the_interrupt(
    target: str, machine: str, weights: str, tmp_path: Path
) -> None:
    chip = load_target(target)
    need(chip.compiler)
    need(chip.emulator[0])
    proto = residual()
    want, _ = outputs(proto, tmp_path / "c")
    backends = (f"accel_sim:{machine}",)
    told = {"accel_sim.weights": weights}
    out = tmp_path / "out"
    options = Options(name="net", target=target, backends=backends, backend_options=told)
    aot.compile(proto, out, options=options).build()
    for seed in range(2):
        np.savez(tmp_path / "in.npz", **feeds_of(proto, seed))
        where = str(tmp_path / "out.npz")
        line = ["run", str(out), "--inputs", str(tmp_path / "in.npz"), "--outputs", where]
        assert main(line) == 0
        np.testing.assert_array_equal(np.load(where)["y"], want[seed])
    assert b"AX1_BOARD" in (out / "bundle" / "CMakeLists.txt").read_bytes()


def test_constants_that_changed_are_noticed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    bundle = aot.compile(residual(), out, name="net", backends=("accel_sim",), configure=False)
    (blob,) = (out / "bundle" / "src").glob("*accel_sim*.bin")
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 4
    blob.write_bytes(data)
    with pytest.raises(VerifyError, match="net_init returned status"):
        bundle.build().load()


def test_hardware_by_a_switch(tmp_path: Path) -> None:
    """With the address of registers the simulator is not linked."""
    out, build = tmp_path / "out", tmp_path / "build"
    aot.compile(lines(), out, name="net", backends=("accel_sim",), configure=False)
    configure = ["cmake", "-S", str(out / "bundle"), "-B", str(build)]
    found = {}
    for base in ("", "0x40010000"):
        shutil.rmtree(build, ignore_errors=True)
        subprocess.run([*configure, f"-DAX1_MMIO_BASE={base}"], check=True, capture_output=True)
        subprocess.run(["cmake", "--build", str(build)], check=True, capture_output=True)
        names = subprocess.run(["nm", str(build / "bin" / "net")], check=True, capture_output=True)
        found[base] = names.stdout.decode()
    assert "ax1v1_256_mmio_read" in found[""]
    assert "ax1v1_256_driver_start" in found["0x40010000"]
    assert "ax1v1_256_mmio_read" not in found["0x40010000"]


def refused() -> onnx.ModelProto:
    """Layers that the machine lacks between some that it has."""
    net = Net(x=(S8, [1, 6, 5, 4]))
    a = conv(net, "x", 12, 6)
    b = conv(net, a, 4200, 12, 1)  # more channels than a field holds
    c = conv(net, b, 12, 350, 1, group=12)  # many groups
    d = net.add("Conv", net.dq(c, SX, S8(-3)), weights(net, 12, 1, 3, 3), group=12, pads=[1] * 4)
    e = net.q(d, SX, S8(-3))
    f = net.add("AveragePool", net.dq(e, SX, S8(-3)), kernel_shape=[3, 3], pads=[1] * 4)
    net.q(f, SX, S8(-3), out="y")
    return net.model(y=S8)


def test_what_is_refused_has_a_reason_and_is_computed(tmp_path: Path) -> None:
    made, manifest = outputs(refused(), tmp_path / "accel", backends=("accel_sim",))
    want, _ = outputs(refused(), tmp_path / "c")
    for a, b in zip(made, want, strict=True):
        np.testing.assert_array_equal(a, b)
    reasons = " ".join(r["reason"] for r in manifest["refusals"] if r["backend"] == "accel_sim")
    for what in ("4200 channels", "12 groups", "windows at the border"):
        assert what in reasons
    taken = [n["op"] for n in manifest["nodes"] if n["backend"] == "accel_sim"]
    assert len(taken) == 2
    with pytest.raises(UnsupportedError, match="--require-backend"):
        options = {"backends": ("accel_sim",), "require_backend": True}
        aot.compile(refused(), tmp_path / "out", name="net", configure=False, **options)


def test_a_board_without_room_for_the_simulator_names_it(tmp_path: Path) -> None:
    with pytest.raises(TargetError) as caught:
        aot.compile(
            residual(),
            tmp_path,
            name="net",
            target="cortex-m0",
            backends=("accel_sim",),
            configure=False,
        )
    assert "are variables of accel_sim" in caught.value.where
    assert "accel_sim:64" in caught.value.hint
