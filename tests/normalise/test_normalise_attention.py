# SPDX-License-Identifier: Apache-2.0
"""Normalisation recognises attention spelt as several nodes, and gives Attention one form."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto as T
from onnx.reference import ReferenceEvaluator

import aot
from aot.ops.registry import load_all
from aot.options import Options
from aot.partition.claims import load_options
from normalise_graphs import f32, model_of, node, only, run

SHAPES = {"q": (2, 6, 12), "k": (2, 6, 12), "v": (2, 6, 12)}
CONSTANTS = {
    "heads": np.array([2, 6, 3, 4], np.int64),
    "flat": np.array([2, 6, 12], np.int64),
    "two": np.float32(2),
    "half": np.float32(0.5),
    "root": np.float32(np.sqrt(0.5)),
}


def split(name, perm=(0, 2, 1, 3)):
    return [
        node("Reshape", [name, "heads"], [name + "r"]),
        node("Transpose", [name + "r"], [name + "t"], perm=list(perm)),
    ]


def chain(scale="after", mask=""):
    """Three heads of four columns, as PyTorch writes them; the scale is a half."""
    nodes = [*split("q"), *split("k", (0, 2, 3, 1)), *split("v")]
    q, k, scores = "qt", "kt", "s"
    if scale in ("q", "both"):
        factor = "half" if scale == "q" else "root"
        nodes.append(node("Mul", [q, factor], ["qs"]))
        q = "qs"
    if scale == "both":
        nodes.append(node("Mul", [k, "root"], ["ks"]))
        k = "ks"
    nodes.append(node("MatMul", [q, k], [scores]))
    if scale == "after":
        nodes.append(node("Div", [scores, "two"], ["d"]))
        scores = "d"
    if mask:
        nodes.append(node("Add", [scores, mask], ["m"]))
        scores = "m"
    return [
        *nodes,
        node("Softmax", [scores], ["p"], axis=-1),
        node("MatMul", ["p", "vt"], ["o"]),
        node("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]),
        node("Reshape", ["ot", "flat"], ["y"]),
    ]


@pytest.mark.parametrize("scale", ["after", "q", "both", "none"])
@pytest.mark.parametrize("mask", [None, (2, 1, 1, 6), (6, 6)])
def test_the_chain_of_exporters_is_recognised(scale, mask):
    shapes = SHAPES | ({"mask": mask} if mask else {})
    model = model_of(chain(scale, "mask" if mask else ""), shapes, ["y"], CONSTANTS)
    counts, result = run(model)
    assert counts == {"Reshape": 4, "Transpose": 4, "Attention": 1}
    found = only(result, "Attention")
    assert found.attributes["scale"].value == pytest.approx(1 if scale == "none" else 0.5)
    assert len(found.inputs) == (4 if mask else 3)
    assert "aot.nan_rows" in found.metadata_props  # the scores themselves can be -inf


def test_batched_matrices_are_heads():
    shapes = {"q": (5, 4, 8), "k": (5, 7, 8), "v": (5, 7, 3), "mask": (5, 4, 7)}
    nodes = [
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Add", ["mask", "s"], ["m"]),
        node("Softmax", ["m"], ["p"]),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    counts, _ = run(model_of(nodes, shapes, ["y"]))
    assert counts["Attention"] == 1 and "Transpose" not in counts and "MatMul" not in counts


LATER = np.triu(np.ones((6, 6)), 1)


@pytest.mark.parametrize("low", [-np.inf, -1e38])
@pytest.mark.parametrize("spelling", ["added", "chosen"])
def test_a_triangle_is_the_order_of_keys(low, spelling):
    if spelling == "added":
        nodes = chain(mask="mask")
        mask = np.where(LATER, low, 0).astype(np.float32)[None, None]
    else:
        nodes = chain(mask="mask")
        nodes[-5] = node("Where", ["mask", "d", "low"], ["m"])
        mask = LATER == 0
    constants = CONSTANTS | {"mask": mask, "low": np.float32(low)}
    counts, result = run(model_of(nodes, SHAPES, ["y"], constants))
    found = only(result, "Attention")
    assert found.attributes["is_causal"].value == 1 and found.inputs[3:] in ((), (None,))
    assert "Where" not in counts


def test_keys_before_the_first_query():
    shapes = {"q": (2, 2, 3, 8), "k": (2, 2, 7, 8), "v": (2, 2, 7, 8)}
    mask = np.where(np.triu(np.ones((3, 7)), 5), -np.inf, 0).astype(np.float32)
    call = node("Attention", ["q", "k", "v", "mask"], ["y"])
    _, result = run(model_of([call], shapes, ["y"], {"mask": mask}))
    lens = only(result, "Attention").inputs[6]
    assert lens.const_value.numpy().tolist() == [7, 7]


@pytest.mark.parametrize("change", [(1, 0, -np.inf), (0, 5, 0), (5, 0, -1.0), (0, 5, -100)])
def test_other_masks_stay(change):
    mask = np.where(LATER, -np.inf, 0).astype(np.float32)
    mask[change[:2]] = change[2]
    _, result = run(model_of(chain(mask="mask"), SHAPES, ["y"], CONSTANTS | {"mask": mask}))
    assert only(result, "Attention").inputs[3] is not None


def test_a_chosen_mask_known_at_run_time():
    nodes = chain(mask="mask")
    nodes[-5] = node("Where", ["mask", "d", "low"], ["m"])
    shapes = SHAPES | {"mask": (T.BOOL, (2, 1, 1, 6))}
    counts, _ = run(model_of(nodes, shapes, ["y"], CONSTANTS | {"low": np.float32(-3e38)}))
    assert counts["Attention"] == counts["Where"] == 1
    constants = CONSTANTS | {"low": np.float32(-1e4)}
    counts, _ = run(model_of(nodes, shapes, ["y"], constants))
    assert "Attention" not in counts


def shared(nodes):
    return [*nodes, node("Relu", ["s"], ["y2"])], ["y", "y2"], {}


def weights_are_wanted(nodes):
    return nodes, ["y", "p"], {}


def other_axis(nodes):
    nodes[-4].attribute[0].i = 2
    return nodes, ["y"], {}


def negative(nodes):
    return nodes, ["y"], {"two": np.float32(-2)}


def scale_per_head(nodes):
    return nodes, ["y"], {"two": f32(1, 3, 1, 1)}


@pytest.mark.parametrize(
    "change", [shared, weights_are_wanted, other_axis, negative, scale_per_head]
)
def test_something_close_to_attention_is_not(change):
    nodes, outputs, constants = change(chain())
    counts, _ = run(model_of(nodes, SHAPES, outputs, CONSTANTS | constants))
    assert "Attention" not in counts and counts["MatMul"] == 2


def test_a_mask_that_widens_the_scores_is_not():
    shapes = {"q": (1, 1, 4, 8), "k": (1, 1, 7, 8), "v": (1, 1, 7, 3), "mask": (2, 1, 4, 7)}
    nodes = [
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Add", ["s", "mask"], ["m"]),
        node("Softmax", ["m"], ["p"]),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    counts, _ = run(model_of(nodes, shapes, ["y"]))
    assert "Attention" not in counts


def test_many_columns_and_few_queries_stay():
    shapes = {"q": (1, 1, 3, 8), "k": (1, 1, 7, 8), "v": (1, 1, 7, 60)}
    nodes = [
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Softmax", ["s"], ["p"]),
        node("MatMul", ["p", "v"], ["y"]),
    ]
    counts, _ = run(model_of(nodes, shapes, ["y"]))
    assert "Attention" not in counts


@pytest.mark.parametrize("options", [{}, {"is_causal": 1}, {"left_window_size": 1}])
def test_flat_heads_and_a_past_are_written_out(options):
    shapes = {"q": (2, 3, 16), "k": (2, 3, 8), "v": (2, 3, 10)}
    shapes |= {"pk": (2, 2, 4, 4), "pv": (2, 2, 4, 5)}
    names = ["q", "k", "v", "", "pk", "pv"], ["y", "nk", "nv"]
    call = node("Attention", *names, q_num_heads=4, kv_num_heads=2, **options)
    counts, result = run(model_of([call], shapes, ["y", "nk", "nv"]))
    found = only(result, "Attention")
    assert counts["Concat"] == 2 and len(found.outputs) == 1
    assert [len(v.shape) for v in found.inputs[:3]] == [4, 4, 4]
    assert len(found.inputs) == (7 if options else 3)


def test_more_keys_than_queries_after_a_past_stay():
    shapes = {"q": (1, 2, 2, 4), "k": (1, 2, 3, 4), "v": (1, 2, 3, 4)}
    shapes |= {"pk": (1, 2, 5, 4), "pv": (1, 2, 5, 4)}
    call = node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "nk", "nv"], left_window_size=1)
    counts, result = run(model_of([call], shapes, ["y", "nk", "nv"]))
    assert counts == {"Attention": 1} and len(only(result, "Attention").outputs) == 3


def test_scores_are_kept():
    shapes = {"q": (2, 3, 8), "k": (2, 5, 8), "v": (2, 5, 8), "mask": (T.BOOL, (3, 5))}
    call = node(
        "Attention",
        ["q", "k", "v", "mask"],
        ["y", "", "", "qk"],
        q_num_heads=2,
        kv_num_heads=2,
        qk_matmul_output_mode=3,
    )
    counts, result = run(model_of([call], shapes, ["y", "qk"]))
    assert counts["Attention"] == 1 and counts["Transpose"] == 4
    assert len(only(result, "Attention").outputs) == 4


def test_backends_may_keep_the_products():
    model = model_of(chain(), SHAPES, ["y"], CONSTANTS)
    counts, _ = run(model, keeps=frozenset({"MatMul"}))
    assert "Attention" not in counts and counts["MatMul"] == 2


@pytest.mark.parametrize("op_type", ["Attention", "LayerNormalization"])
def test_what_kernels_refuse_becomes_its_body(op_type):
    known = load_options(Options(), [load_all()])
    options = {"native": known.native, "supports": known.supports}
    names = {"Attention": "qkv", "LayerNormalization": "xs"}[op_type]
    shapes = dict(zip("qkvxs", [(1, 2, 3, 4)] * 4 + [(4,)], strict=True))
    for kind, kept in ((T.FLOAT, True), (T.DOUBLE, False)):
        inputs = {n: (kind, shapes[n]) for n in names}
        _, result = run(model_of([node(op_type, list(names), ["y"])], inputs, ["y"]), **options)
        types = [n.inputs[0].dtype for n in result.graph if n.op_type == op_type]
        assert (ir.DataType(kind) in types) == kept


def test_a_query_without_a_key_gives_what_softmax_gives(tmp_path):
    mask = np.zeros((2, 1, 6, 6), np.float32)
    mask[1, 0, 2] = -np.inf
    model = model_of(chain(mask="mask"), SHAPES | {"mask": mask.shape}, ["y"], CONSTANTS, opset=21)
    model.graph.output[0].type.tensor_type.elem_type = T.FLOAT
    feeds = {name: f32(*SHAPES[name]) for name in "qkv"}
    with np.errstate(invalid="ignore"):
        (want,) = ReferenceEvaluator(model).run(None, {**feeds, "mask": mask})
    bundle = aot.compile(model, tmp_path)
    got = bundle.load()(*feeds.values(), mask)
    assert "aot_attention_f32" in [n["kernel"] for n in bundle.manifest["nodes"]]
    assert np.isnan(want[1, 2]).all() and np.isfinite(want).sum() == 11 * 12
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
