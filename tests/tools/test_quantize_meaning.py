# SPDX-License-Identifier: Apache-2.0
"""`aotc quantize` keeps what a model means: graphs that quantisers take for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from aot.tools.quantize import Quantisation, quantize
from needs import need_module
from quant_graphs import Net, in_onnxruntime

RNG = np.random.default_rng(5)
FORMATS = ("qdq", "qoperator")
IMAGE = (1, 3, 8, 8)
Feeds = dict[str, np.ndarray[Any, Any]]


def normal(*shape: int, by: float = 1.0) -> np.ndarray[Any, Any]:
    return (RNG.standard_normal(shape) * by).astype(np.float32)


def image_net() -> Net:
    """A convolution of an image, `c`, to begin with."""
    net = Net(x=(np.float32, IMAGE))
    net.add("Conv", "x", net.const(normal(4, 3, 3, 3), "w"), normal(4), out="c", pads=[1] * 4)
    return net


def quantised(folder: Path, model: onnx.ModelProto, feeds: Feeds, spelling: str) -> onnx.ModelProto:
    need_module("onnxruntime")
    paths = [folder / n for n in ("m.onnx", "c.npz", "q.onnx")]
    onnx.save(model, paths[0])
    np.savez(paths[1], **feeds)
    quantize(*paths, Quantisation(format=spelling), lambda _: None)
    made = onnx.load(paths[2])
    onnx.checker.check_model(made, full_check=True)
    return made


def apart(folder: Path, model: onnx.ModelProto, feeds: Feeds, spelling: str) -> float:
    """The largest difference of the quantised model's results, of the largest result."""
    made = quantised(folder, model, feeds, spelling)
    assert [o.name for o in made.graph.output] == [o.name for o in model.graph.output]
    found = zip(in_onnxruntime(model, feeds), in_onnxruntime(made, feeds), strict=True)
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in found)


def read_twice(net: Net) -> list[str]:
    net.add("Relu", "c", out="y")
    net.add("Neg", "c", out="n")
    return ["y", "n"]


def read_by_the_caller(net: Net) -> list[str]:
    net.add("Relu", "c", out="y")
    return ["c", "y"]


def clip_away_from_zero(net: Net) -> list[str]:
    net.add("Clip", "c", np.float32(1), np.float32(3), out="y")
    return ["y"]


def clip_to_one_number(net: Net) -> list[str]:
    flat = net.add("Clip", "c", np.float32(0), np.float32(0))
    net.add("Add", flat, np.float32(2), out="y")
    return ["y"]


def residual(net: Net) -> list[str]:
    branch = net.add("Conv", net.add("Relu", "c"), normal(4, 4, 3, 3, by=0.3), pads=[1] * 4)
    net.add("Add", "c", branch, out="y")
    return ["y"]


def moved_before_the_relu(net: Net) -> list[str]:
    net.add("Relu", net.add("Transpose", "c", perm=[0, 1, 3, 2]), out="y")
    return ["y"]


def one_bias_for_two(net: Net) -> list[str]:
    bias = next(iter(net.consts.keys() - {"w"}))
    net.add("Conv", "c", normal(4, 4, 3, 3), bias, out="y", pads=[1] * 4)
    return ["y"]


def padded_with_a_number(net: Net) -> list[str]:
    pads, value = np.array([0, 0, 1, 1, 0, 0, 1, 1]), net.const(np.float32(-20), "v")
    net.add("Pad", "c", pads, value, out="y")
    net.add("Pad", "c", pads, value, out="z")
    return ["y", "z"]


def resized_between(net: Net) -> list[str]:
    sizes = np.array([1, 4, 16, 16])
    net.add("Resize", "c", "", "", sizes, out="y", mode="linear")
    return ["y"]


def names_of_the_quantiser(net: Net) -> list[str]:
    more = net.const(normal(4, 4, 3, 3), "w_scale")
    deep = net.add("Conv", "c", more, out="c_quantized", pads=[1] * 4)
    net.add("Relu", deep, out="w_zero_point")
    return ["w_zero_point"]


def captured_by_a_body(net: Net) -> list[str]:
    net.add("Relu", "c", out="y")
    net.inputs["yes"] = np.dtype(bool), ()
    branches = {}
    for name, op_type in (("then_branch", "Neg"), ("else_branch", "Abs")):
        result = helper.make_tensor_value_info(op_type, 1, None)
        body = [helper.make_node(op_type, ["c"], [op_type])]
        branches[name] = helper.make_graph(body, name, [], [result])
    net.add("If", "yes", out="z", **branches)
    return ["y", "z"]


@pytest.mark.parametrize("spelling", FORMATS)
@pytest.mark.parametrize(
    "rest",
    [
        read_twice, read_by_the_caller, clip_away_from_zero, clip_to_one_number, residual,
        moved_before_the_relu, one_bias_for_two, padded_with_a_number, resized_between,
        names_of_the_quantiser, captured_by_a_body,
    ],
)  # fmt: skip
def test_images(rest, spelling, tmp_path):
    net = image_net()
    model = net.model(**dict.fromkeys(rest(net), np.float32))
    feeds: Feeds = {"x": normal(*IMAGE)}
    if "yes" in net.inputs:
        feeds["yes"] = np.array(True)
    assert apart(tmp_path, model, feeds, spelling) < 0.08


#: Other operands and attributes of the operators that the quantiser has quantised values for.
WINDOW = {"kernel_shape": [2, 2]}
BEHIND: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    **{name: (("c",), {}) for name in ("Add", "Mul")},
    "AveragePool": ((), WINDOW),
    "Concat": (("c",), {"axis": 1}),
    "Conv": ((normal(5, 4, 3, 3, by=0.1),), {}),
    "Gather": ((np.array([1, 2]),), {"axis": 1}),
    "InstanceNormalization": ((normal(4), normal(4)), {}),
    "MatMul": ((normal(8, 5, by=0.3),), {}),
    "MaxPool": ((), WINDOW),
    "Pad": ((np.array([0, 0, 1, 1, 0, 0, 1, 1]),), {}),
    "Reshape": ((np.array([4, 64]),), {}),
    "Resize": (("", np.ones(4, np.float32) * 2), {}),
    "Split": ((np.array([4]),), {"axis": 1}),
    "Unsqueeze": ((np.array([0]),), {}),
}
#: Operators of other operands or results than numbers of an image.
OTHERS = ("ArgMax", "EmbedLayerNormalization", "Gemm", "Where")


@pytest.mark.parametrize("spelling", FORMATS)
def test_a_clamp_behind_every_operator_of_the_quantiser(spelling, tmp_path):
    """Quantised values that it takes for clamped have the clamp's range, or the clamp stays."""
    need_module("onnxruntime")
    from onnxruntime.quantization.registry import QLinearOpsRegistry

    for name in sorted(set(QLinearOpsRegistry) - set(OTHERS)):
        net = Net(x=(np.float32, IMAGE))
        net.add("Conv", "x", normal(4, 3, 3, 3, by=0.1), normal(4), out="c", pads=[1] * 4)
        more, attributes = BEHIND.get(name, ((), {}))
        made = net.add(name, "c", *more, **attributes)
        net.add("Clip", made, np.float32(-0.5), np.float32(0.5), out="y")
        found = apart(tmp_path, net.model(y=np.float32), {"x": normal(*IMAGE)}, spelling)
        assert found < 0.2, name


@pytest.mark.parametrize("spelling", FORMATS)
@pytest.mark.parametrize("shape", [(5,), (1,), (), (1, 5), (4, 1), (4, 5), None, "run"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, 1.0), (1.0, 2.0), (-2.0, 0.25)])
def test_gemm(alpha, beta, shape, spelling, tmp_path):
    net = Net(a=(np.float32, (4, 64)))
    feeds: Feeds = {"a": normal(4, 64)}
    bias = [] if shape is None else [normal(*shape, by=20)] if shape != "run" else ["r"]
    if shape == "run":
        net.inputs["r"] = np.dtype(np.float32), (5,)
        feeds["r"] = normal(5, by=20)
    net.add("Gemm", "a", normal(5, 64), *bias, out="y", transB=1, alpha=alpha, beta=beta)
    assert apart(tmp_path, net.model(y=np.float32), feeds, spelling) < 0.08


@pytest.mark.parametrize("spelling", FORMATS)
def test_products_that_share_weights_and_a_bias(spelling, tmp_path):
    net = Net(a=(np.float32, (4, 6)))
    weights, bias = net.const(normal(6, 6, by=0.4), "w"), net.const(normal(6, by=5), "b")
    h = net.add("Gemm", "a", weights, bias)
    net.add("Gemm", net.add("MatMul", h, weights), weights, bias, out="y", transB=1)
    assert apart(tmp_path, net.model(y=np.float32), {"a": normal(4, 6)}, spelling) < 0.08


def test_what_is_given_back(tmp_path):
    """Nodes and values keep their names, the file is sorted, two nodes may have had one name."""
    net = image_net()
    for n in net.nodes:
        n.name = "twin"
    outputs = names_of_the_quantiser(net)
    net.nodes[-1].name = "twin"
    made = quantised(tmp_path, net.model(w_zero_point=np.float32), {"x": normal(*IMAGE)}, "qdq")
    assert {"twin", "twin_2"} & {n.name for n in made.graph.node}
    assert [o.name for o in made.graph.output] == outputs
    assert "w_quantized" in {i.name for i in made.graph.initializer}
    text = made.SerializeToString()
    assert b"aotc." not in text


def test_nothing_of_onnxruntime_on_the_terminal(tmp_path, capfd):
    net = Net(x=(np.float32, IMAGE))
    net.const(normal(3), "unused")
    net.add("Relu", net.add("Conv", "x", normal(4, 3, 3, 3)), out="y")
    quantised(tmp_path, net.model(y=np.float32), {"x": normal(*IMAGE)}, "qdq")
    assert "".join(capfd.readouterr()) == ""


def test_a_sample_of_random_models(capsys):
    need_module("onnxruntime")
    from fuzz.quantising import PASS, generate, hows, judged

    for seed in range(48):
        verdict, why = judged(*generate(seed), hows()[seed % len(hows())])
        assert verdict == PASS, f"seed {seed}: {why}"
