# SPDX-License-Identifier: Apache-2.0
"""Whatever has no family of its own: declared cases, strings, random numbers, new operators."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from aot.ops.registry import load_all
from aot.vendor.backend import Pattern
from aot.vendor.cases import Case
from fuzz.agreed import is_float
from fuzz.draft import Draft, Reject
from fuzz.families import family
from fuzz.kernel_cache import Cache

STRINGS = ("", "a", "Hello", "World7", "b_c", "a,b,,c", "x y  z", "UPPER lower", "0x1F", "end.")


@cache
def declared() -> list[tuple[Pattern, Case]]:
    """Every case that an operator declares and a model can hold."""
    found = []
    for pattern in load_all().patterns:
        if pattern.name.startswith(("aot.", "Random", "Bernoulli", "Multinomial")):
            continue
        for one in pattern.all_cases():
            found.append((pattern, one))
    return found


#: Cases of a pattern that a command takes.
CASES = 4


def cases_of_command(text: str) -> tuple[list[tuple[Pattern, Case]], Cache]:
    """The declared cases that a command line asks for, and where its kernels are."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--only", default="")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "aotc-fuzz")
    a = parser.parse_args()
    part, parts = map(int, a.part.split("/"))
    seen: Counter[str] = Counter()
    chosen = []
    for pattern, one in declared():
        seen[pattern.name] += 1
        fits = a.only in pattern.name and not pattern.name.endswith(".half")
        if fits and seen[pattern.name] <= CASES:
            chosen.append((pattern, one))
    return chosen[part::parts], Cache(a.cache)


@family(4)
def case_of(d: Draft) -> None:
    """A declared case with its floats in another order, as part of the draft."""
    pattern, one = d.one(*declared())
    adopt_case(d, pattern, one)


def adopt_case(d: Draft, pattern: Pattern, one: Case, loosely: bool = False) -> None:
    """Add the nodes of a declared case; quantised values may be one off if it is taken
    `loosely`."""
    from harness import model_of

    if any(a is not None and a.size > 5000 for a in one.inputs):
        raise Reject
    try:
        model = model_of(pattern.graph, one)
    except Exception as error:
        raise Reject from error
    if any(not available(d, n) for n in model.graph.node):
        raise Reject
    wild, d.wild = d.wild, True
    names: dict[str, str] = {"": ""}
    try:
        for i, array in enumerate(one.inputs):
            if array is not None:
                moved = array if i in one.const else shuffled(d, array)
                names[f"x{i}"] = d.const(moved) if i in one.const else d.feed(moved)
        for node in model.graph.node:
            own = onnx.NodeProto()
            own.CopyFrom(node)
            own.name = ""
            if own.domain and pattern.name.endswith(".half"):
                narrow(own, d.values[names[own.input[0]]].dtype)
            for end in (own.input, own.output):
                for k, name in enumerate(end):
                    end[k] = names.setdefault(name, d.name("v"))
            if own.domain:
                d.enter(own.domain, own.op_type)
            d.adopt(own)
            if loosely:
                d.may_be_one_off(own)
    finally:
        d.wild = wild


def narrow(node: onnx.NodeProto, kind: np.dtype[Any]) -> None:
    """Give the floats among a node's attributes, which have the type of its input, that type."""
    for a in node.attribute:
        if a.HasField("t") and a.t.data_type == onnx.TensorProto.FLOAT:
            a.t.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(a.t).astype(kind)))


def opset_of(pattern: Pattern, one: Case) -> int:
    """The oldest opset of those drawn in which a case means what it says."""
    from harness import model_of

    model = model_of(pattern.graph, one)
    told = {i.name: i.type.tensor_type.elem_type for i in model.graph.input}
    told |= {t.name: t.data_type for t in model.graph.initializer}
    for opset in (21, 22, 23, 24, 25):
        d = Draft(np.random.default_rng(0), opset)
        if all(available(d, n) and takes(n, opset, told) for n in model.graph.node):
            return opset
    return onnx.defs.onnx_opset_version()


def takes(node: onnx.NodeProto, opset: int, told: dict[str, int]) -> bool:
    """Whether an operator takes its first input's type, as far as that is known, in an opset."""
    kind = told.get(node.input[0], 0) if node.input else 0
    if node.domain or not kind:
        return True
    schema = onnx.defs.get_schema(node.op_type, opset)
    name = onnx.TensorProto.DataType.Name(kind).lower()
    return f"tensor({name})" in schema.inputs[0].types


def available(d: Draft, node: onnx.NodeProto) -> bool:
    """Whether the draft's opset has the node's operator, of the version the case is written for."""
    if node.domain:
        return True
    version = onnx.defs.get_schema(node.op_type).since_version
    return version <= d.opset or (node.op_type in SAME and node.op_type in known(d.opset))


@cache
def known(opset: int) -> frozenset[str]:
    """Operators of the default domain in an opset."""
    every = {s.name for s in onnx.defs.get_all_schemas()}
    return frozenset(n for n in every if onnx.defs.has(n, opset))


#: Operators of which newer opsets only add types.
SAME = set(
    "Identity Cast Reshape Transpose Flatten Squeeze Unsqueeze Pad QuantizeLinear DequantizeLinear "
    "Clip Relu Split Concat MaxPool AveragePool Resize TopK ReduceMax ReduceMin ReduceSum "
    "Conv".split()
)


def shuffled(d: Draft, array: np.ndarray) -> np.ndarray:
    """The elements in another order, if they are floats: they stay in their domain."""
    if not is_float(array):
        return array
    order = d.rng.permutation(array.size)
    return np.asarray(array.reshape(-1)[order].reshape(array.shape))


def words(d: Draft, count: int) -> str:
    """An input of strings."""
    return d.feed(np.array([d.one(*STRINGS) for _ in range(count)], object))


@family(0.7)
def strings(d: Draft) -> None:
    x = words(d, d.upto(1, 5))
    n = d.values[x].size
    op = d.word("StringConcat StringNormalizer StringSplit RegexFullMatch LabelEncoder TfIdf")
    if op == "LabelEncoder":
        keys = list(STRINGS[1:5])
        attrs: dict[str, Any] = {"keys_strings": keys, "values_int64s": [3, 1, 4, 1]}
        d.add(op, [x], domain="ai.onnx.ml", default_int64=-7, **attrs)
        return
    if op in ("StringNormalizer", "TfIdf"):
        action = d.word("LOWER UPPER NONE")
        attrs = {"stopwords": ["a", "Hello"]} if d.chance(0.5) else {}
        attrs |= {"case_change_action": action, "is_case_sensitive": 1, "locale": "C"}
        d.add("StringNormalizer", [x], **attrs)
        d.dynamic.update(d.nodes[-1].output)
        return
    if d.opset < 20:
        raise Reject
    if op == "StringConcat":
        d.add(op, [x, words(d, n)])
    elif op == "StringSplit":
        _, count = d.add(op, [x], 2, delimiter=d.one(",", " "), maxsplit=d.one(1, 2))
        d.dynamic.add(d.nodes[-1].output[0])
        del count
    else:
        d.add(op, [x], pattern=d.one(r"[a-z]+", r"\w{1,5}", r".*,.*", r"(a|b|end).*", r"\d+x?.*"))


@family(0.5)
def random_numbers(d: Draft) -> None:
    """Distributions so narrow that every draw is the same."""
    op = d.word("RandomUniform RandomNormal RandomUniformLike RandomNormalLike Bernoulli Dropout")
    x = d.pick(lambda a: a.dtype == np.float32 and 0 < a.size < 3000)
    shape = list(d.shape(x))
    narrow = {"low": 2.0, "high": 2.000001} if "Uniform" in op else {"mean": 2.0, "scale": 1e-7}
    ends = [d.name("v")]
    value = np.full(shape, 2.0, np.float32)
    attrs: dict[str, Any] = dict(narrow)
    inputs = [x]
    if op in ("RandomUniform", "RandomNormal"):
        inputs, attrs["shape"] = [], shape
    elif op == "Bernoulli":
        inputs = [d.feed(d.rng.integers(0, 2, shape).astype(np.float32))]
        value, attrs = d.values[inputs[0]], {}
    elif op == "Dropout":
        value, attrs = d.values[x], {}
        inputs = [x, d.const(np.float32(0.0)), d.const(np.array(True))]
    d.nodes.append(onnx.helper.make_node(op, inputs, ends, **attrs))
    d.values[ends[0]] = value
    d.errors[ends[0]] = max(3e-6, d.errors.get(x, 0.0) if op == "Dropout" else 0.0)


@family(0.6)
def sequences(d: Draft) -> None:
    """A sequence inside the model."""
    x = d.pick(lambda a: a.ndim >= 1 and 0 < a.size < 2000)
    parts = [x] + [d.like(x) for _ in range(d.upto(1, 2))]
    name = d.name("s")
    nodes = [onnx.helper.make_node("SequenceConstruct", parts, [name])]
    at = d.const(np.array(d.upto(-2, 1), np.int64))
    end = d.name("v")
    draw = d.rng.random()
    if draw < 0.4:
        nodes.append(onnx.helper.make_node("SequenceAt", [name, at], [end]))
    elif draw < 0.8:
        axis, new = d.upto(0, d.values[x].ndim - 1), d.upto(0, 1)
        nodes.append(
            onnx.helper.make_node("ConcatFromSequence", [name], [end], axis=axis, new_axis=new)
        )
    else:
        nodes.append(onnx.helper.make_node("SequenceLength", [name], [end]))
    d.adopt_all(nodes, end)


@family(0.5)
def attention(d: Draft) -> None:
    if d.opset < 24:
        raise Reject
    b, heads, s, t, e = d.one(1, 2), d.one(1, 2, 4), d.upto(1, 5), d.upto(1, 6), d.one(2, 4)
    groups = d.one(1, heads)
    q, k, v = (
        d.operand([b, h, n, e], constant=0.1) for h, n in ((heads, s), (groups, t), (groups, t))
    )
    inputs = [q, k, v]
    if d.chance(0.4):
        inputs.append(d.operand([s, t], constant=0.3))
    # Both oracles multiply values of hidden keys by zero; here they are not looked at.
    finite = all(bool(np.isfinite(d.values[n].astype(np.float64)).all()) for n in inputs[:3])
    attrs: dict[str, Any] = {"is_causal": d.upto(0, 1) if finite else 0}
    if d.chance(0.3):
        attrs["softcap"] = 2.0
    if d.chance(0.3):
        attrs["scale"] = 0.3
    d.add("Attention", inputs, **attrs)


@family(0.4)
def rotary(d: Draft) -> None:
    if d.opset < 23:
        raise Reject
    b, h, s, e = d.one(1, 2), d.one(1, 2), d.upto(1, 5), d.one(4, 8)
    x = d.operand([b, h, s, e], constant=0.1)
    cos, sin = d.operand([b, s, e // 2]), d.operand([b, s, e // 2])
    d.add("RotaryEmbedding", [x, cos, sin], interleaved=d.upto(0, 1))


@family(0.4)
def trees(d: Draft) -> None:
    """A stump or two."""
    x = d.pick(lambda a: a.dtype.name in ("float32", "float64") and a.ndim == 2 and a.size > 0)
    if d.values[x].dtype != np.float32:
        raise Reject
    d.enter("ai.onnx.ml", "TreeEnsembleRegressor")
    cut = [float(np.float32(v)) for v in d.rng.normal(0, 1, 2)]
    feature = d.upto(0, d.shape(x)[1] - 1)
    d.add(
        "TreeEnsembleRegressor",
        [x],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[feature, 0, 0],
        nodes_modes=[d.one("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT"), "LEAF", "LEAF"],
        nodes_values=[cut[0], 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[1.5, -0.5],
    )
