# SPDX-License-Identifier: Apache-2.0
"""Quantisation parameters that mean nothing: node, value and number are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aot.cli import main
from quant_graphs import S8, S16, S32, U8, Net, quantised_values, scales

MS = "com.microsoft"


def message(model, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    path, out = folder / "model.onnx", folder / "out"
    path.write_bytes(model.SerializeToString())
    assert main([str(path), "-o", str(out)]) == 1
    captured = capsys.readouterr()
    assert not out.exists() and captured.out == ""
    text = captured.err
    assert text.startswith("aotc: ") and "internal error" not in text and "Traceback" not in text
    assert len(text.splitlines()) <= 8 and len(text) <= 2000
    return text


def layer(scale, zero, op_type="QuantizeLinear", **more):
    """One layer named q with a scale called s and a zero point called z."""
    net = Net(x=(np.float32, (2, 3)))
    net.consts.update(s=np.asarray(scale, np.float32), z=np.asarray(zero))
    net.add(op_type, "x", "s", "z", out="q", **more)
    net.nodes[-1].name = "quantised"
    net.add("DequantizeLinear", "q", scales(0.1), np.asarray(zero).ravel()[0], out="y")
    return net.model(y=np.float32)


@pytest.mark.parametrize(
    ("scale", "says"),
    [(0, "is 0"), (np.nan, "is nan"), (-0.5, "is -0.5"), (np.inf, "is inf")],
)
def test_a_scale_is_finite_and_positive(scale, says, tmp_path, capsys):
    text = message(layer(scale, S8(0)), tmp_path, capsys)
    for part in ("quantised (QuantizeLinear)", f'scale "s" {says}', "hint: "):
        assert part in text, text


def test_the_channel_of_a_bad_scale_is_named(tmp_path, capsys):
    model = layer([0.1, 0.2, 0.0], np.zeros(3, S8), axis=1)
    assert 'scale "s"[2] is 0' in message(model, tmp_path, capsys)


def test_scales_of_operators_on_quantised_values_are_checked_too(tmp_path, capsys):
    net = Net(x=(S8, (2, 3)))
    net.consts["s"] = np.float32(0)
    inputs = ["x", scales(0.1), S8(0), quantised_values(3), "s", S8(0), scales(0.1), S8(0)]
    net.add("QLinearAdd", *inputs, out="y", domain=MS)
    net.nodes[-1].name = "sum"
    text = message(net.model(y=S8), tmp_path, capsys)
    assert "sum" in text and 'scale "s" is 0' in text


def test_zero_points_of_biases_are_zero(tmp_path, capsys):
    net = Net(x=(np.float32, (2, 3)))
    net.consts["z"] = S32(7)
    bias = net.add("DequantizeLinear", np.arange(3, dtype=S32), scales(0.1), "z")
    net.nodes[-1].name = "bias"
    net.add("Add", "x", bias, out="y")
    text = message(net.model(y=np.float32), tmp_path, capsys)
    assert "bias (DequantizeLinear)" in text and 'zero point "z" is 7' in text


@pytest.mark.parametrize(
    ("zero", "says"),
    [
        (np.zeros(2, S8), "zero points of shape [2] for scales of shape [3]"),
        (np.zeros((), S8), "zero points of shape [] for scales of shape [3]"),
    ],
)
def test_zero_points_have_the_shape_of_the_scales(zero, says, tmp_path, capsys):
    assert says in message(layer([0.1, 0.2, 0.3], zero, axis=1), tmp_path, capsys)


def test_scales_fit_their_axis(tmp_path, capsys):
    text = message(layer([0.1, 0.2], np.zeros(2, S8), axis=1), tmp_path, capsys)
    assert "2 scales for axis 1 of [2, 3]" in text, text


def test_a_zero_point_of_another_type(tmp_path, capsys):
    net = Net(x=(S8, (2, 3)))
    net.consts["z"] = U8(200)
    net.add("DequantizeLinear", "x", scales(0.1), "z", out="y")
    net.nodes[-1].name = "numbers"
    text = message(net.model(y=np.float32), tmp_path, capsys)
    assert "numbers (DequantizeLinear)" in text and "uint8" in text and "int8" in text, text


def test_operators_on_quantised_values_name_what_they_lack(tmp_path, capsys):
    net = Net(x=(S8, (2, 3)), s=(np.float32, ()))
    inputs = ["x", "s", S8(0), quantised_values(3, 4), scales(0.1), S8(0), np.arange(4, dtype=S32)]
    net.add("QGemm", *inputs, out="y", domain=MS)
    net.nodes[-1].name = "dense"
    text = message(net.model(y=np.float32), tmp_path, capsys)
    assert "dense (com.microsoft.QGemm): the scale of C is known at run time only" in text, text


def test_half_precision_division_is_refused(tmp_path, capsys):
    text = message(layer(0.1, S16(0), precision=10), tmp_path, capsys)
    assert "precision" in text, text
