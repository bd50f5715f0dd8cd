# SPDX-License-Identifier: Apache-2.0
"""Softmax and LogSoftmax of 16-bit quantised values on integers, against onnxruntime and TFLite."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from aot.ops.quantised.softmax import power_table, rate_of
from aot.tools.layerwise import written
from quant_graphs import Net, in_onnxruntime

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(16)


def rows(dtype: type, extent: int) -> Array:
    """Random rows of all widths, and rows of equal quantised values, extremes, neighbours and a
    ramp."""
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, (3000, extent, 2), endpoint=True)
    x[1000:] //= 2 ** RNG.integers(0, 12, (2000, 1, 2))
    x[:4], x[4:8], x[8:10] = info.max, info.min, 7
    x[:2, 0], x[4:6, -1] = info.min, info.max
    x[8, ::2] += 1
    x[10] = np.linspace(info.min, info.max, extent).astype(int)[:, None]
    return x.astype(dtype)


#: Operator, type, extent, scale and zero point of the input and of the result.
LAYERS: list[tuple[str, type, int, tuple[float, int], tuple[float, int]]] = [
    ("Softmax", np.int16, 10, (3e-4, 0), (1 / 32768, 0)),
    ("Softmax", np.int16, 2, (1e-4, 7), (1 / 32768, 0)),
    ("Softmax", np.uint16, 4, (2.0**-11, 30000), (1 / 65535, 0)),
    ("Softmax", np.int16, 3, (700.0, -5), (0.5, 100)),
    ("Softmax", np.uint16, 40, (1e-9, 65535), (2.0**-20, 5)),
    ("LogSoftmax", np.int16, 10, (3e-4, 100), (6.2e-4, 32767)),
    ("LogSoftmax", np.uint16, 5, (2.0**-9, 0), (2.0**-9, 65000)),
    ("LogSoftmax", np.int8, 30, (0.11, 3), (0.12, 127)),
]


def test_quantised_values_are_those_of_float32(tmp_path: Path) -> None:
    net, feeds = Net(), {}
    for k, (op, dtype, extent, source, result) in enumerate(LAYERS):
        x = feeds[f"x{k}"] = rows(dtype, extent)
        net.inputs[f"x{k}"] = (x.dtype, x.shape)
        soft = net.add(op, net.dq(f"x{k}", source[0], dtype(source[1])), axis=1)
        net.q(soft, result[0], dtype(result[1]), out=f"y{k}")
    made = net.model(**{f"y{k}": v[1] for k, v in enumerate(LAYERS)})
    onnx.save(made, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out")
    assert {n["kernel"] for n in bundle.manifest["nodes"]} == {"aot_qsoftmax16"}
    results = zip(bundle.load()(*feeds.values()), in_onnxruntime(made, feeds), LAYERS, strict=True)
    for got, want, what in results:
        off = np.abs(np.asarray(got).astype(int) - want)
        assert off.max() <= 1, what
        assert np.mean(off > 0) <= 0.001, what


def test_the_bits_of_tflite(tmp_path: Path) -> None:
    """What LiteRT 2.3.0 made of the same quantised values with a model of one int16 Softmax."""
    x = ((np.arange(3000 * 7) * 40503) % 65536 - 32768).astype(np.int16).reshape(3000, 7)
    x[1000:2000] //= 37
    x[2000:] //= 1024
    x[0], x[1], x[2, 1:] = 32767, -32768, -32768
    zero = np.int16(0)
    net = Net(x=(np.int16, x.shape))
    net.q(net.add("Softmax", net.dq("x", 3.3e-4, zero)), 1 / 32768, zero, out="y")
    model = net.model(y=np.int16)
    onnx.save(model, tmp_path / "m.onnx")
    bundle = aot.compile(tmp_path / "m.onnx", tmp_path / "out", requant="tflite")
    assert [n["kernel"] for n in bundle.manifest["nodes"]] == ["aot_qsoftmax_s16"]
    got = np.asarray(bundle.load()(x)).astype("<i2")
    digest = hashlib.sha256(got.tobytes()).hexdigest()
    assert digest == "80ad39c8acc086e56af7758c72fc8561ea95bc18f34ca3c2fd2709dfc1eb5249"
    off = np.abs(got.astype(int) - in_onnxruntime(model, {"x": x})[0])
    [layer] = written(bundle.manifest).values()
    assert 1 < off.max() <= layer.lsb == 2 * 7 + 8  # what verify allows


def power(distance: list[int], exponent: int) -> list[int]:
    """The kernel's exp(-distance * 2^exponent) in Q1.31, with the constants of its source."""
    text = (ROOT / "runtime_c/kernels/aot_qsoftmax16.h").read_text()
    body = text[text.index("aot_qsoftmax16_power(") : text.index("turns the powers")]
    square, cube, line = (int(n) for n in re.findall(r"UINT32_C\((\d{5,})\)", body))
    rate, bits = rate_of(exponent)
    table = [int(v) for v in power_table()]
    made = []
    for d in distance:
        t = (d >> 16) * rate + ((d % 65536 * rate) >> 16)
        assert rate < 2**32 and t < 2**63
        whole, part = t >> bits, (t >> (bits - 32)) % 2**32
        entry, r = table[part >> 26], part % 2**26
        s = square - ((cube * r) >> 32)
        s = ((line - ((s * r) >> 32)) * r) >> 32
        total = ((entry << 32) - entry * s) + (1 << (31 + whole))
        made.append(0 if whole > 31 else total >> (32 + whole))
    return made


@pytest.mark.parametrize("exponent", [-64, -41, -36, -30, -22, -18, -17])
def test_powers_are_exact_to_30_bits(exponent: int) -> None:
    """Random distances, and those on both sides of every entry of the table."""
    most = min(2.0**42, 24 * 2.0**-exponent)
    edges = np.arange(1, 64 * 34) * (np.log(2) / 64 * 2.0**-exponent)
    near = np.concatenate([edges - 1, edges, edges + 1])
    drawn = np.concatenate([RNG.uniform(0, most, 10000), near[near < most], [0, most - 1]])
    distance = [int(d) for d in drawn]
    want = np.exp(-np.array(distance, np.longdouble) * np.longdouble(2) ** exponent)
    off = np.array(power(distance, exponent), np.longdouble) / 2**31 - want
    assert np.abs(off).max() < 2.0**-30
    assert power([0], exponent) == [2**31]
