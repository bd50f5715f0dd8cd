# SPDX-License-Identifier: Apache-2.0
"""The compiler of AX1: what its programs compute in the C simulator is what the layers say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from accel_harness import Simulator
from accel_networks import Net, autoencoder, kws, reference, resnet8, vww

from aot.errors import UnsupportedError
from aot.vendor.accel_sim.compile import compile_network, layer_cycles, layer_refusal
from aot.vendor.accel_sim.config import config
from aot.vendor.accel_sim.kinds import Fault, Rq
from aot.vendor.accel_sim.network import FIRST_IO, AccelOptions, Network, Tensor

EVERY = (64, 256, 512)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Most tests need no search for better cuts."""
    monkeypatch.setattr("aot.vendor.accel_sim.search.BUDGET", 0)


def place(t: Tensor):
    """(elements of the region, the element of the region behind every element)."""
    row, pixel, channel = t.element_strides
    y, x, c = (np.arange(n) for n in t.shape)
    where = y[:, None, None] * row + x[:, None] * pixel + c * channel
    return t.extent // t.itemsize, where


def put(t: Tensor, values) -> bytes:
    size, where = place(t)
    region = np.zeros(size, np.float32 if t.dtype == "f32" else np.uint8)
    flip = 128 if t.dtype == "u8" else 0
    region[where] = values if t.dtype == "f32" else values.view(np.uint8) ^ flip
    return region.tobytes()


def got(t: Tensor, data: bytes):
    _, where = place(t)
    if t.dtype == "f32":
        return np.frombuffer(data, np.float32)[where]
    return (np.frombuffer(data, np.uint8)[where] ^ (128 if t.dtype == "u8" else 0)).view(np.int8)


def values_of(network: Network, seed: int = 3):
    rng = np.random.default_rng(seed)
    tensors = [network.tensors[n] for n in network.ios()[0]]
    return [
        rng.standard_normal(t.shape).astype(np.float32)
        if t.dtype == "f32"
        else rng.integers(-128, 128, t.shape).astype(np.int8)
        for t in tensors
    ]


def check(network: Network, macs: int, options: AccelOptions | None = None, varied=True):
    """Compile, run in time and in some other order, compare every output with the layers."""
    compiled = compile_network(network, config(macs), options or AccelOptions())
    inputs = values_of(network)
    wanted = reference(network, inputs)
    regions = [compiled.stream, compiled.weights.ljust(16, b"\0"), bytes(compiled.spill)]
    regions += [put(network.tensors[n], v) for n, v in zip(compiled.inputs, inputs, strict=True)]
    regions += [bytes(network.tensors[n].extent) for n in compiled.outputs]
    simulator = Simulator(macs)
    for seed in (0, 5):
        found = simulator.run(regions, compiled.regions, seed)
        assert found.fault == 0, (Fault(found.fault), hex(found.pc))
        if seed == 0:
            assert found.cycles == compiled.cycles
        for n, index in enumerate(compiled.outputs):
            data = found.regions[FIRST_IO + len(inputs) + n]
            t = network.tensors[index]
            assert (got(t, data) == wanted[index]).all(), (t.name, seed)
            assert not varied or wanted[index].size < 9 or len(np.unique(wanted[index])) > 1
    return compiled


def mixed(dtype="i8", rq=Rq.FLOAT, channels=20) -> Network:
    """Every kind of layer once."""
    n = Net(1, rq, dtype)
    image = n.input(13, 12, 3)
    a = n.conv(image, channels, 3, 3, table=dtype == "i8")
    b = n.dw(a, 3, 3, 2)
    b2 = n.conv(n.pool("max", a, 3, 3, 2, 1), channels, 1, 1, residual=b)
    c = n.concat("c", b, b2)
    d = n.conv(n.slice(c, (0, 3, 7), (7, 3, channels + 6)), 9, 3, 3, 1, same=False)
    e = n.alu("add", n.alu("mul", d, d), n.alu("clip", d))
    f = n.alu("maximum", e, n.alu("minimum", d, n.pool("average", d, 5, 1)))
    g = n.alu("lut", f) if dtype == "i8" else n.alu("copy", f)
    flat = n.reshape(g, 1, 1, int(np.prod(n.tensors[g].shape)))
    last = n.conv(flat, 11)
    return n.network(last if dtype == "f32" else n.alu("softmax", last), c)


@pytest.mark.parametrize("macs", EVERY)
@pytest.mark.parametrize("rq", [Rq.FLOAT, Rq.TFLITE])
def test_every_kind_of_quantised_values(macs, rq):
    check(mixed("i8", rq), macs)


@pytest.mark.parametrize("macs", EVERY)
def test_every_kind_of_floats(macs):
    check(mixed("f32"), macs)


def random_network(seed: int, wide: int = 40) -> Network:
    """A chain with branches of random layers; may need more than the scratchpad."""
    rng = np.random.default_rng(seed)
    dtype = "f32" if seed % 4 == 3 else "i8"
    n = Net(seed, Rq.TFLITE if seed % 2 else Rq.FLOAT, dtype)
    h, w = (int(v) for v in rng.integers(1, wide, 2))
    made = [n.input(h, w, int(rng.integers(1, 30)))]
    for _ in range(int(rng.integers(3, 9))):
        x = made[-1] if rng.random() < 0.8 else made[int(rng.integers(len(made)))]
        t = n.tensors[x]
        kind = rng.choice(["conv", "conv", "dw", "pool", "alu", "two", "concat", "slice", "big"])
        side = [int(rng.integers(1, 1 + min(5, s))) for s in t.shape[:2]]
        stride, co = int(rng.integers(1, 4)), int(rng.integers(1, 70))
        same = [m for m in made if n.tensors[m].shape == t.shape]
        if kind == "conv":
            y = n.conv(x, co, *side, stride, same=rng.random() < 0.6)
        elif kind == "big":
            y = n.conv(x, co, residual=None, dilation=1)
            y = n.conv(y, co, 3, 3, residual=y)
        elif kind == "dw":
            y = n.dw(x, *side, stride)
        elif kind == "pool":
            y = n.pool(str(rng.choice(["max", "average"])), x, *side, stride)
        elif kind == "two":
            y = n.alu(str(rng.choice(["add", "mul", "maximum"])), x, same[0])
        elif kind == "concat":
            y = n.concat(str(rng.choice(["y", "x", "c"])), x, same[int(rng.integers(len(same)))])
        elif kind == "slice":
            start = [int(rng.integers(s)) for s in t.shape]
            y = n.slice(x, tuple(start), tuple(s - a for s, a in zip(t.shape, start, strict=True)))
        else:
            y = n.alu(str(rng.choice(["clip", "copy", "lut"] if dtype == "i8" else ["clip"])), x)
        made.append(y)
    outputs = {made[-1]} | ({made[2]} if rng.random() < 0.3 else set())
    network = n.network(*sorted(outputs))
    tensors = [turned(t, rng) if t.where != "inner" else t for t in network.tensors]
    return replace(network, tensors=tuple(tensors))


def turned(t: Tensor, rng) -> Tensor:
    """The same tensor, channels first or unsigned in the system, or both."""
    if t.dtype == "i8" and rng.random() < 0.3:
        t = replace(t, dtype="u8")
    first = (t.width, 1, t.height * t.width)
    return replace(t, strides=first) if rng.random() < 0.4 else t


@pytest.mark.parametrize("seed", range(12))
def test_random_networks(seed):
    check(random_network(seed), EVERY[seed % 3], varied=False)


@pytest.mark.parametrize("make, macs", [(resnet8, 256), (kws, 64), (autoencoder, 512), (vww, 256)])
def test_seed_shapes(make, macs):
    check(make(), macs)


def test_system_strides_and_unsigned_quantised_values():
    n = Net(2)
    x = n.input(6, 5, 8, dtype="u8", strides=(5, 1, 30))
    y = n.conv(x, 4, 3, 3)
    network = n.network(y)
    tensors = list(network.tensors)
    tensors[y] = replace(tensors[y], dtype="u8", strides=(5, 1, 30))
    check(replace(network, tensors=tuple(tensors)), 64)


def test_a_constant_operand_repeats():
    n = Net(3)
    x = n.input(6, 5, 8)
    data = np.arange(8, dtype=np.int8).reshape(1, 1, 8)
    bias = n.tensor(1, 1, 8, where="const", data=data)
    check(n.network(n.alu("add", x, bias)), 256)


def test_options_change_places_and_sizes():
    network = kws()
    small = [
        x if x.weights is None else replace(x, weights=x.weights // 16) for x in network.layers
    ]
    network = replace(network, layers=tuple(small))
    plain = check(network, 256, AccelOptions(compress="off"))
    packed = check(network, 256, AccelOptions(compress="on"))
    near = check(network, 256, AccelOptions(weights="sram"))
    assert len(packed.weights) < len(plain.weights)
    assert near.cycles < plain.cycles and not near.regions[1].flash


def test_what_does_not_fit_is_refused():
    n = Net()
    y = n.conv(n.input(3, 2500, 3), 4)
    network = n.network(y)
    reason = layer_refusal(network.layers[0], network.tensors, config(256))
    assert reason is not None and "2500" in reason
    with pytest.raises(UnsupportedError, match="2500"):
        compile_network(network, config(256))
    many = Net()
    outs = [many.alu("copy", many.input(1, 1, 4)) for _ in range(3)]
    with pytest.raises(UnsupportedError, match="inputs and outputs"):
        compile_network(many.network(*outs), config(256))


def test_the_search_finds_something(monkeypatch):
    before = compile_network(kws(), config(256))
    monkeypatch.setattr("aot.vendor.accel_sim.search.BUDGET", 1500)
    after = check(kws(), 256)
    assert after.cycles < before.cycles


def test_layer_cycles_are_near():
    network = resnet8()
    compiled = compile_network(network, config(256), AccelOptions(weights="sram"))
    guess = sum(
        layer_cycles(x, network.tensors, config(256), AccelOptions(weights="sram"))
        for x in network.layers
    )
    assert 0.7 < guess / compiled.cycles < 1.3


def test_reports_name_every_layer():
    network = kws()
    compiled = compile_network(network, config(256))
    assert [x.name for x in compiled.layers] == [x.name for x in network.layers]
    assert all(x.end > x.start for x in compiled.layers)


def test_compiling_twice_gives_the_same_bytes():
    a, b = (compile_network(resnet8(), config(64)) for _ in range(2))
    assert (a.stream, a.weights) == (b.stream, b.weights)


def test_a_copy_where_memory_cannot_be_shared():
    n = Net(5)
    x = n.conv(n.input(4, 4, 3), 6)
    y = n.concat("c", x, x)
    part = n.reshape(n.slice(y, (0, 1, 0), (4, 2, 12)), 4, 2, 12)
    check(n.network(n.concat("y", n.reshape(y, 8, 2, 12), part)), 64)
