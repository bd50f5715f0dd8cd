# SPDX-License-Identifier: Apache-2.0
"""Softmax and LogSoftmax of 16-bit codes on integers, against onnxruntime and TFLite."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import aot
from aot.ops.qsoftmax16 import power_table, rate_of
from needs import need_module
from quant_graphs import Net

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).resolve().parents[1]
RNG = np.random.default_rng(16)


def model(op: str, x: Array, source: tuple[float, int], result: tuple[float, int]) -> Any:
    """One operator along axis 1 between codes of the type of x."""
    dtype = x.dtype.type
    net = Net(x=(dtype, x.shape))
    soft = net.add(op, net.dq("x", source[0], dtype(source[1])), axis=1)
    net.q(soft, result[0], dtype(result[1]), out="y")
    return net.model(y=dtype)


def compiled(made: Any, x: Array, kernel: str, folder: Path, **options: Any) -> Array:
    """What the bundle makes of x with this one kernel."""
    onnx.save(made, folder / "m.onnx")
    bundle = aot.compile(folder / "m.onnx", folder / "out", **options)
    assert [n["kernel"] for n in bundle.manifest["nodes"]] == [kernel]
    return np.asarray(bundle.load()(x)).astype(int)


def in_onnxruntime(made: Any, x: Array) -> Array:
    """Node by node in float32."""
    need_module("onnxruntime")
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(made.SerializeToString(), options)
    return np.asarray(session.run(None, {"x": x})[0]).astype(int)


def rows(dtype: str, extent: int) -> Array:
    """Random rows of all widths, and rows of equal codes, extremes, neighbours and a ramp."""
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, (3000, extent, 2), endpoint=True)
    x[1000:] //= 2 ** RNG.integers(0, 12, (2000, 1, 2))
    x[:4], x[4:8], x[8:10] = info.max, info.min, 7
    x[:2, 0], x[4:6, -1] = info.min, info.max
    x[8, ::2] += 1
    x[10] = np.linspace(info.min, info.max, extent).astype(int)[:, None]
    return x.astype(dtype)


@pytest.mark.parametrize(
    ("op", "dtype", "extent", "source", "result"),
    [
        ("Softmax", "int16", 10, (3e-4, 0), (1 / 32768, 0)),
        ("Softmax", "uint16", 4, (2.0**-11, 30000), (1 / 65535, 0)),
        ("Softmax", "int16", 3, (700.0, -5), (0.5, 100)),
        ("Softmax", "uint16", 40, (1e-9, 65535), (2.0**-20, 5)),
        ("LogSoftmax", "int16", 10, (3e-4, 100), (6.2e-4, 32767)),
        ("LogSoftmax", "uint16", 5, (2.0**-9, 0), (2.0**-9, 65000)),
        ("LogSoftmax", "int8", 30, (0.11, 3), (0.12, 127)),
    ],
)
def test_codes_are_those_of_float32(
    op: str, dtype: str, extent: int, source: Any, result: Any, tmp_path: Path
) -> None:
    x = rows(dtype, extent)
    made = model(op, x, source, result)
    off = np.abs(compiled(made, x, "aot_qsoftmax16", tmp_path) - in_onnxruntime(made, x))
    assert off.max() <= 1
    assert np.mean(off > 0) <= 0.001


def test_the_bits_of_tflite(tmp_path: Path) -> None:
    """What LiteRT 2.3.0 made of the same codes with a model of one int16 Softmax."""
    x = ((np.arange(3000 * 7) * 40503) % 65536 - 32768).astype(np.int16).reshape(3000, 7)
    x[1000:2000] //= 37
    x[2000:] //= 1024
    x[0], x[1], x[2, 1:] = 32767, -32768, -32768
    made = model("Softmax", x, (3.3e-4, 0), (1 / 32768, 0))
    got = compiled(made, x, "aot_qsoftmax_s16", tmp_path, requant="tflite")
    digest = hashlib.sha256(got.astype("<i2").tobytes()).hexdigest()
    assert digest == "80ad39c8acc086e56af7758c72fc8561ea95bc18f34ca3c2fd2709dfc1eb5249"


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
