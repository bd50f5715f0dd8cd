# SPDX-License-Identifier: Apache-2.0
"""Operators of onnxruntime's optimiser: their bodies compute what onnxruntime computes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import aot
from aot.errors import AotError
from aot.load import load
from aot.normalise import normalise
from aot.ops.registry import load_all
from aot.options import Options
from aot.partition.claims import load_options
from aot.pipeline import compile_model
from aot.target import load_target
from aot.vendor.cases import f32

Arrays = dict[str, np.ndarray[Any, Any] | None]


def test_rows_of_several_axes_have_no_dimension_that_a_run_says() -> None:
    """Rows of SimplifiedLayerNormalization begin at `axis`, not at the last one."""
    inputs: Arrays = {"x": f32(2, 3, 4), "scale": f32(3, 4)}
    proto = model_of("SimplifiedLayerNormalization", inputs, ["y"], ("scale",), {"axis": 1})
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "N"
    with pytest.raises(AotError, match="mixes along a dimension known at run time"):
        compile_model(proto, Options(dims={"N": (1, 3)}))


def bits(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(list(shape)).integers(0, 256, shape, np.uint8)


def model_of(op, inputs: Arrays, outputs: list[str], const: tuple[str, ...], attrs) -> Any:
    names = [n if a is not None else "" for n, a in inputs.items()]
    given = {n: a for n, a in inputs.items() if a is not None}
    node = helper.make_node(op, names, outputs, domain="com.microsoft", **attrs)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given.items()
        if n not in const
    ]
    results = [
        helper.make_tensor_value_info(o, {"ends": 6, "codes": 2}.get(o, 1), None)
        for o in outputs
        if o
    ]
    consts = [numpy_helper.from_array(given[n], n) for n in const]
    graph = helper.make_graph([node], "g", infos, results, consts)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check(op, outputs=("y",), const=(), *, inputs: Arrays, count: int = 9, **attrs) -> None:
    """The first `count` outputs are onnxruntime's."""
    model = model_of(op, inputs, list(outputs), const, attrs)
    feeds = {n: a for n, a in inputs.items() if a is not None and n not in const}
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, feeds)
    options = load_options(Options(), [load_all()])
    result = normalise(
        load(onnx.ModelProto.FromString(model.SerializeToString()), options), options
    )
    assert all(n.domain == "" for n in result.graph)
    renamed = {v.name: feeds[v.metadata_props["aot.onnx_name"]] for v in result.graph.inputs}
    found = ReferenceEvaluator(ir.to_proto(result)).run(None, renamed)
    for want, got in list(zip(wanted, found, strict=True))[:count]:
        assert want.shape == got.shape and want.dtype == got.dtype
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


X = f32(2, 5, 12)


def test_activations():
    check("Gelu", inputs={"x": X})
    check("BiasGelu", inputs={"x": X, "b": f32(12)})
    check("FastGelu", inputs={"x": X})
    check("FastGelu", inputs={"x": X, "b": f32(12)})
    check("QuickGelu", inputs={"x": X}, alpha=1.3)


def test_max_pool_of_channels_behind() -> None:
    x, outs = bits(2, 7, 6, 3), ["codes"]
    check("NhwcMaxPool", outs, inputs={"x": x}, kernel_shape=[2, 3], strides=[2, 1])
    pads = {"pads": [1, 0, 1, 1], "ceil_mode": 1, "strides": [3, 2]}
    check("NhwcMaxPool", outs, inputs={"x": x}, kernel_shape=[3, 2], **pads)


@pytest.mark.parametrize("flags", [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (1, 1, 0, 0)])
def test_products_of_transposed_operands(flags):
    names = ("transA", "transB", "transBatchA", "transBatchB")
    a = f32(3, 6, 4) if flags[0] else f32(3, 4, 6)
    b = f32(3, 5, 6) if flags[1] else f32(3, 6, 5)
    check("FusedMatMul", inputs={"a": a, "b": b}, alpha=0.3, **dict(zip(names, flags, strict=True)))


def test_products_of_operands_with_their_batch_inside():
    check(
        "FusedMatMul", inputs={"a": f32(4, 3, 6), "b": f32(6, 3, 5)}, transBatchA=1, transBatchB=1
    )
    a, b = f32(2, 3, 7, 4), f32(3, 7, 4, 5)
    check("FusedMatMul", inputs={"a": a, "b": b}, transBatchA=1, transA=0)


@pytest.mark.parametrize(
    "activation", [{"activation": "Relu"}, {"activation": "LeakyRelu", "activation_alpha": 0.2}]
)
def test_gemm_with_an_activation(activation):
    inputs = {"a": f32(4, 6), "b": f32(5, 6), "c": f32(5)}
    check("FusedGemm", inputs=inputs, transB=1, alpha=0.5, **activation)


@pytest.mark.parametrize(
    "activation",
    [
        {"activation": "Relu"},
        {"activation": "Clip", "activation_params": [-0.5, 0.5]},
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
    ],
)
@pytest.mark.parametrize("residual", [False, True])
def test_convolution_with_an_activation(activation, residual):
    inputs = {"x": f32(1, 3, 6, 7), "w": f32(4, 3, 3, 3), "b": f32(4)}
    if residual:
        inputs["z"] = f32(1, 4, 3, 4)
    window = {"strides": [2, 2], "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    check("FusedConv", const=("w", "b"), inputs=inputs, **window, **activation)


@pytest.mark.parametrize("skip", [(2, 5, 12), (1, 5, 12), (5, 12)])
@pytest.mark.parametrize("bias", [False, True])
def test_residuals_are_normalised(skip, bias):
    inputs = {"x": X, "s": f32(*skip), "g": f32(12), "b": f32(12, seed=1)}
    if bias:
        inputs["c"] = f32(12, seed=2)
    outputs = ("y", "", "", "sum") if bias else ("y",)
    check("SkipLayerNormalization", outputs, inputs=inputs, epsilon=1e-5)
    del inputs["b"]
    check("SkipSimplifiedLayerNormalization", outputs, inputs=inputs, epsilon=1e-5)


def test_the_operator_that_onnxruntime_puts_in_the_domain_of_onnx():
    x, scale = f32(2, 5, 12), f32(12)
    node = helper.make_node("SimplifiedLayerNormalization", ["x", "s"], ["y", "r"], epsilon=1e-3)
    infos = [helper.make_tensor_value_info(n, 1, a.shape) for n, a in (("x", x), ("s", scale))]
    ends = [helper.make_tensor_value_info(n, 1, None) for n in ("y", "r")]
    graph = helper.make_graph([node], "g", infos, ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x, "s": scale})
    options = load_options(Options(), [load_all()])
    result = normalise(load(model, options), options)
    found = ReferenceEvaluator(ir.to_proto(result)).run(
        None, dict(zip([str(v.name) for v in result.graph.inputs], (x, scale), strict=True))
    )
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("columns", [1, 24])
def test_attention_on_quantised_values(masked, columns):
    rng = np.random.default_rng(3)
    inputs = {
        "x": rng.integers(0, 256, (2, 5, 8)).astype(np.uint8),
        "w": rng.integers(-128, 128, (8, 24)).astype(np.int8),
        "b": f32(24),
        "xs": np.array(0.02, np.float32),
        "ws": rng.uniform(0.005, 0.02, columns).astype(np.float32).reshape(columns),
        "mask": np.array([3, 5], np.int32) if masked else None,
        "xz": np.array(120, np.uint8),
        "wz": np.zeros(columns, np.int8),
    }
    check("QAttention", const=("w", "ws", "wz"), inputs=inputs, num_heads=2)


@pytest.mark.parametrize("kind", ["all", "no segments", "positions"])
def test_embeddings_are_normalised(kind):
    rng = np.random.default_rng(0)

    def ids(high: int, shape: tuple[int, ...] = (2, 5)) -> np.ndarray[Any, Any]:
        return rng.integers(0, high, shape).astype(np.int32)

    segments = kind != "no segments"
    inputs = {
        "ids": ids(9),
        "segments": ids(2) if segments else None,
        "words": f32(9, 8),
        "places": f32(6, 8),
        "kinds": f32(2, 8) if segments else None,
        "gamma": f32(8),
        "beta": f32(8, seed=1),
    }
    if kind != "no segments":
        inputs["mask"] = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    if kind == "positions":
        inputs["positions"] = ids(6)
    outputs = ("y", "ends", "sum") if segments else ("y", "ends")
    check("EmbedLayerNormalization", outputs, inputs=inputs, epsilon=1e-6)


MASKS = {
    "none": None,
    "lengths": np.array([3, 5], np.int32),
    "keys": np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]], np.int32),
    "queries": (np.tril(np.ones((2, 5, 5))) > 0).astype(np.int32),
}


@pytest.mark.parametrize("mask", MASKS)
def test_attention_from_one_product(mask):
    inputs = {"x": X, "w": f32(12, 36), "b": f32(36), "mask": MASKS[mask]}
    check("Attention", inputs=inputs, const=("w", "b"), num_heads=3)
    if mask in ("none", "queries"):
        check("Attention", inputs=inputs, const=("w", "b"), num_heads=3, unidirectional=1)


def test_causal_attention_with_a_mask_of_keys(tmp_path):
    """Built, because onnx.reference forgets the order of keys under a mask of one row."""
    inputs = {"x": X, "w": f32(12, 36), "b": f32(36), "mask": MASKS["keys"]}
    attrs = {"num_heads": 3, "unidirectional": 1}
    model = model_of("Attention", inputs, ["y"], ("w", "b"), attrs)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {"x": X, "mask": MASKS["keys"]}
    (want,) = session.run(None, feeds)
    got = aot.compile(model, tmp_path).load()(X, MASKS["keys"])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["plain", "bias", "mask", "added", "past", "apart"])
def test_attention_of_several_heads(kind):
    q, k, v = f32(2, 4, 12), f32(2, 7, 12, seed=1), f32(2, 7, 12, seed=2)
    inputs: Arrays = {"q": q, "k": k, "v": v}
    outputs = ("y",)
    if kind == "bias":
        inputs["bias"] = f32(36)
    if kind == "mask":
        mask = np.random.default_rng(1).integers(0, 2, (2, 7)).astype(np.int32)
        inputs |= {"bias": None, "mask": mask}
    if kind == "added":
        inputs |= {"bias": None, "mask": None, "added": f32(1, 3, 4, 7)}
    if kind == "past":
        past = {"pk": f32(2, 3, 5, 4, seed=3), "pv": f32(2, 3, 5, 4, seed=4)}
        inputs |= {"bias": None, "mask": None, "added": None, **past}
        outputs = ("y", "nk", "nv")
    if kind == "apart":
        inputs |= {"k": f32(2, 3, 7, 4, seed=1), "v": f32(2, 3, 7, 4, seed=2)}
    check("MultiHeadAttention", outputs, inputs=inputs, num_heads=3)


@pytest.mark.parametrize("kind", ["plain", "rotary", "window", "softcap", "ragged"])
@pytest.mark.parametrize("past", [0, 6])
def test_attention_of_groups(kind, past):
    length = 1 if past else 5
    total = length + past
    inputs: Arrays = {
        "q": f32(2, length, 4 * 16),
        "k": f32(2, length, 2 * 16, seed=1),
        "v": f32(2, length, 2 * 16, seed=2),
        "pk": f32(2, 2, past, 16, seed=3) if past else None,
        "pv": f32(2, 2, past, 16, seed=4) if past else None,
        "lens": np.full(2, total - 1, np.int32),
        "total": np.array(total, np.int32),
    }
    attrs: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}
    outputs = ("y", "nk", "nv")
    if kind == "rotary":
        angles = f32(20, 8)
        inputs |= {"cos": np.cos(angles), "sin": np.sin(angles)}
        attrs["do_rotary"] = 1
    elif kind == "window":
        attrs["local_window_size"] = 3
    elif kind == "softcap":
        attrs |= {"softcap": 1.5, "scale": 0.7, "k_quant_type": "NONE", "v_quant_type": "NONE"}
    elif kind == "ragged" and past:
        inputs["lens"] = np.array([total - 1, total - 4], np.int32)
    check(
        "GroupQueryAttention",
        outputs,
        ("total",),
        inputs=inputs,
        count=1 if kind == "ragged" else 3,
        **attrs,
    )


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("places", [np.array([3]), np.arange(10).reshape(2, 5)])
def test_rotary_embedding(interleaved, places):
    angles = f32(12, 2)
    tables = {"p": places.astype(np.int64), "cos": np.cos(angles), "sin": np.sin(angles)}
    check("RotaryEmbedding", inputs={"x": X, **tables}, interleaved=interleaved)
    split = {"x": f32(2, 3, 5, 4), **tables}
    check("RotaryEmbedding", inputs=split, interleaved=interleaved)


def nbits_inputs(rows: int, bits_: int, zeros: bool) -> Arrays:
    blocks = -(-rows // 32)
    inputs: Arrays = {"x": f32(3, rows), "w": bits(6, blocks, 4 * bits_), "s": f32(6 * blocks)}
    if zeros:
        inputs["z"] = bits(6 * -(-blocks * bits_ // 8))
    return inputs


@pytest.mark.sample(3)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("rows", "width"), [(72, 4), (64, 8), (40, 8)])
def test_weights_of_few_bits_stay(tmp_path, rows, width, zeros):
    inputs = nbits_inputs(rows, width, zeros)
    attrs = {"K": rows, "N": 6, "block_size": 32, "bits": width}
    const = tuple(n for n in inputs if n != "x")
    model = model_of("MatMulNBits", inputs, ["y"], const, attrs)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": inputs["x"]})
    bundle = aot.compile(model, tmp_path)
    np.testing.assert_allclose(bundle.load()(inputs["x"]), want, rtol=1e-4, atol=1e-2)
    assert [n["kernel"] for n in bundle.manifest["nodes"]] == ["aot_gemm_f32_narrow"]


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize(("accuracy", "within"), [("normal", 1e-6), ("fast", 1e-4)])
def test_a_single_row_is_multiplied_as_integers(accuracy, within, width, tmp_path):
    inputs = nbits_inputs(520, width, zeros=False) | {"x": f32(1, 520)}
    attrs = {"K": 520, "N": 6, "block_size": 32, "bits": width}
    model = model_of("MatMulNBits", inputs, ["y"], ("w", "s"), attrs)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    bundle = aot.compile(model, tmp_path, accuracy=accuracy)
    net, dots = bundle.load(), load_target("host").simd == "dot"
    kernel = "aot_gemm_f32_narrow" + "__dot" * dots
    assert [n["kernel"] for n in bundle.manifest["nodes"]] == [kernel]
    # Integers are left to floats where there are none for x.
    for end, value in ((64, 0.0), (64, 1e-40), (33, np.inf), (33, np.nan)):
        x = inputs["x"].copy()
        x[0, 32:end] = value
        (want,) = session.run(None, {"x": x})
        most = float(np.nan_to_num(np.abs(want), posinf=0.0).max())
        np.testing.assert_allclose(net(x), want, rtol=0, atol=within * most)


def one_row(kind: Any, rows: int = 1) -> onnx.ModelProto:
    """A product with weights [512, 513] that 16 bits hold, or of 8 bits by column, and a Gelu."""
    w, ends = f32(512, 513), [[rows, 512], [rows, 513]]
    given = {"w": w.astype(kind or np.float32).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"])]
    if kind == np.int8:
        scale = np.full(513, 0.01, np.float32)
        given = {"q": np.rint(w / 0.02).astype(np.int8), "s": scale, "z": np.ones(513, np.int8)}
        nodes.insert(0, helper.make_node("DequantizeLinear", list(given), ["w"], axis=1))
    nodes.append(helper.make_node("Gelu", ["m"], ["y"], approximate="tanh"))
    infos = [helper.make_tensor_value_info(n, 1, s) for n, s in zip("xy", ends, strict=True)]
    constants = [numpy_helper.from_array(a, n) for n, a in given.items()]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(
    ("kind", "size"),
    [(np.float16, 2), (ml_dtypes.bfloat16, 2), (np.int8, 1), (None, 4)],
)
def test_a_single_row_reads_no_more_bits_than_weights_have(kind, size, tmp_path):
    model, x = one_row(kind), f32(1, 512)
    bundle = aot.compile(model, tmp_path, target="host")
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(bundle.load()(x), want, rtol=1e-4, atol=1e-4)
    # Panels are whole vectors of columns.
    assert bundle.manifest["memory"]["constants_bytes"] < size * 512 * 528 + 16384
    with_rows = aot.compile(one_row(kind, 3), tmp_path / "rows").manifest
    assert with_rows["memory"]["constants_bytes"] > 4 * 512 * 513


def test_what_has_no_body_is_refused():
    inputs = {"x": X, "s": X, "g": f32(12)}
    with pytest.raises(AotError, match="SkipLayerNormalization"):
        model = model_of("SkipLayerNormalization", inputs, ["y", "mean"], (), {})
        compile_model(model, Options())
