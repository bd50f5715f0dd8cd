# SPDX-License-Identifier: Apache-2.0
"""What an operator computes of other inputs, for proofs of what its record claims.

onnx.reference computes ONNX's operators, onnxruntime those of other domains that it has, and the
operator's own rule of `evaluates` those of anybody else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

import harness
import numpy as np
import onnx
import onnx_ir
import onnxruntime
import test_ml
from onnx import helper
from onnx.reference import ReferenceEvaluator

from aot.ir.operators import Operator
from aot.shapes.evaluate import evaluate
from aot.vendor.cases import Case, case, f32, ints

Array = np.ndarray[Any, Any]
#: Every record is proven from `START` on, so that no proof depends on the ones before.
RNG = np.random.default_rng(11)
START = RNG.bit_generator.state
#: Domains whose operators onnxruntime computes.
OF_RUNTIME = ("ai.onnx.ml", "com.microsoft")
#: The newest opset of ONNX that onnxruntime mixes with other domains.
MOST_OF_RUNTIME = 21
OPSET = defaultdict(lambda: 1, TreeEnsembleRegressor=3, TreeEnsembleClassifier=3, TreeEnsemble=5)
#: Proofs of axes and of values try no array with more elements.
MOST = 2000
SCALE, ZERO = np.array(0.5, np.float32), np.array(3, np.int8)
BOXES = (
    np.array([[[0, 0, 1, 1], [2, 2, 3, 3]]], np.float32),
    np.array([[[1, 2]]], np.float32),
)
#: Cases that operators without a kernel lack, and cases of numbers where others are declared.
CASES: dict[str, list[Case]] = {
    "CastLike": [case(f32(2, 3), np.zeros(1, np.int32))],
    "DequantizeLinear": [case(np.arange(-9, 12, dtype=np.int8), np.float32(0.25), np.int8(3))],
    "GlobalAveragePool": [case(f32(2, 3, 4, 5))],
    "GroupNormalization": [case(f32(2, 4, 5), f32(4, seed=1), f32(4, seed=2), num_groups=2)],
    "Bernoulli": [case(np.full(64, 0.5, np.float32))],
    "BlackmanWindow": [case(np.array(10))],
    "CenterCropPad": [case(f32(4, 5), np.array([3, 7]))],
    "Compress": [case(f32(4, 5), np.array([True, False, True, True]), axis=0)],
    "Dropout": [case(f32(3, 4))],
    "EyeLike": [case(f32(3, 4))],
    "Identity": [case(f32(3, 4))],
    "HammingWindow": [case(np.array(10))],
    "HannWindow": [case(np.array(10))],
    "MelWeightMatrix": [case(*map(np.array, (8, 16, 8000)), np.float32(0), np.float32(4000))],
    "NonMaxSuppression": [case(*BOXES, np.array([2]), *(np.full(1, 0.5, np.float32),) * 2)],
    "NonZero": [case(np.array([-1, 3, 0]))],
    "Range": [case(*map(np.array, (0, 9, 2)))],
    "RandomNormal": [case(shape=[64])],
    "RandomNormalLike": [case(f32(64))],
    "RandomUniform": [case(shape=[64])],
    "RandomUniformLike": [case(f32(64))],
    "StringConcat": [case(np.array(["a"], object), np.array(["b", "c"], object))],
    "StringNormalizer": [case(np.array(["a", "b"], object), stopwords=["a"])],
    "StringSplit": [case(np.array(["a b", "c"], object))],
    "Tokenizer": [
        case(np.array(["a b", "c"], object), mark=0, mincharnum=1, pad_value="#", tokenexp="[a-z]+")
    ],
    "Unique": [case(np.array([2, 1, 1, 0]))],
    "QuantizeLinear": [case(f32(3, 7), np.float32(0.01), np.int8(3))],
    "QLinearConv": [
        case(
            *(ints(2, 3, 6, 7, dtype="int8"), SCALE, ZERO),
            *(ints(5, 3, 3, 2, low=-9, high=9, dtype="int8"), SCALE, np.array(0, np.int8)),
            *(np.array(8, np.float32), ZERO),
            pads=[1, 0, 2, 1],
        )
    ],
    "GlobalMaxPool": [case(f32(2, 3, 5, 4))],
    "GlobalLpPool": [case(f32(2, 3, 5, 4), p=3)],
    "LayerNormalization": [case(f32(4, 3, 5), f32(3, 5, seed=1), axis=1)],
    "RMSNormalization": [case(f32(4, 3, 5), f32(5, seed=1))],
    "BiasGelu": [case(f32(4, 3, 5), f32(5, seed=1))],
    "FastGelu": [case(f32(4, 3, 5), f32(5, seed=1))],
    "SimplifiedLayerNormalization": [case(f32(4, 3, 5), f32(5, seed=1))],
    "SkipLayerNormalization": [case(f32(4, 3, 5), f32(4, 3, 5, seed=2), f32(5, seed=1))],
    "SkipSimplifiedLayerNormalization": [case(f32(4, 3, 5), f32(4, 3, 5, seed=2), f32(5, seed=1))],
    "AveragePool": [case(f32(2, 3, 9, 8), kernel_shape=[3, 2], strides=[2, 1])],
}


class Counterexample(Exception):
    """The result of a case is not as a claim has it."""


def declared(record: Operator) -> tuple[Case, ...]:
    """The cases that an operator declares, and those of this file.

    Without cases whose result onnx.reference does not compute as ONNX says, and without those that
    it refuses.
    """
    return _declared(record.name, record.domain)


def node_of(
    record: Operator, inputs: Sequence[Array | None], attrs: dict[str, Any]
) -> onnx_ir.Node:
    """A node of the operator, for rules and for the predicates of traits."""
    values = [
        None
        if a is None
        else onnx_ir.Value(
            name=f"x{i}",
            shape=onnx_ir.Shape(np.shape(a)),
            const_value=onnx_ir.Tensor(a) if i and a.dtype == np.int64 else None,
        )
        for i, a in enumerate(inputs)
    ]
    made = onnx_ir.node(record.name, values, attrs, domain=record.domain)
    made.outputs[0].name = "y0"
    return made


def model_of(node: onnx.NodeProto, feeds: dict[str, Array], domain: str) -> onnx.ModelProto:
    """A model of one node, for inputs as those of `feeds` and the opset of a domain."""
    newest = onnx.defs.onnx_opset_version()
    versions = [helper.make_opsetid("", MOST_OF_RUNTIME if domain else newest)]
    if domain:
        versions.append(helper.make_opsetid(domain, OPSET[node.op_type]))
    typed = [harness.info(n, a) for n, a in feeds.items()]
    ends = [onnx.ValueInfoProto(name=o) for o in node.output]
    graph = helper.make_graph([node], "g", typed, ends)
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


@cache
def _declared(name: str, domain: str) -> tuple[Case, ...]:
    record, label = Operator(name, (), domain=domain), f"{domain}.{name}" if domain else name
    found = next((p for p in harness.load_all().patterns if p.name == label), None)
    known = () if found is None or not harness.single(found.graph) else found.all_cases()
    own = is_of_others(record)
    kept = [c for c in known if own or (not c.expected and is_computed(record, c))]
    return (*kept, *CASES.get(name, ()))


def is_computed(record: Operator, one: Case) -> bool:
    """Whether onnx.reference computes a case."""
    try:
        return bool(results(record, one.inputs, one.attrs))
    except Exception:  # whatever NumPy and Python raise
        return False


def small(record: Operator) -> tuple[Case, ...]:
    """The cases of an operator without a large array."""
    return tuple(
        c for c in declared(record) if all(np.size(a) <= MOST for a in c.inputs if a is not None)
    )


def is_of_others(record: Operator) -> bool:
    """Whether neither onnx.reference nor onnxruntime has the operator."""
    return bool(record.domain) and record.domain not in OF_RUNTIME


def compute(record: Operator, inputs: Sequence[Array | None], attrs: dict[str, Any]) -> Array:
    """The first result."""
    return results(record, inputs, attrs)[0]


def results(
    record: Operator, inputs: Sequence[Array | None], attrs: dict[str, Any], outputs: int = 1
) -> list[Array]:
    """The first results of a node, `outputs` of them, and the scores of a classifier."""
    arrays = [None if a is None else np.asarray(a) for a in inputs]
    if is_of_others(record):
        return evaluate(node_of(record, arrays, attrs), arrays)
    if record.name == "GlobalLpPool":  # which onnx.reference lacks
        assert not set(attrs) - {"p"}
        x, p = np.asarray(inputs[0]), float(attrs.get("p", 2))
        powers = np.abs(x) ** p
        return [np.asarray(powers.sum(tuple(range(2, x.ndim)), x.dtype, keepdims=True) ** (1 / p))]
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(arrays)]
    feeds = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
    ends = [f"y{i}" for i in range(outputs + record.name.endswith("Classifier"))]
    domain = "" if record.name.startswith("Simplified") else record.domain
    node = helper.make_node(record.name, names, ends, domain=domain, **attrs)
    with np.errstate(all="ignore"):
        if record.domain and record.name != "TreeEnsemble":
            node_model = model_of(node, feeds, record.domain).SerializeToString()
            found = onnxruntime.InferenceSession(node_model).run(None, feeds)
        else:
            found = ReferenceEvaluator(model_of(node, feeds, record.domain)).run(None, feeds)
    return [np.asarray(a) for a in found]


def like(data: Array) -> Array:
    """Random numbers of the shape and the type of an array."""
    if data.dtype.kind == "f":
        return RNG.standard_normal(data.shape).astype(data.dtype)
    return RNG.integers(-5, 6, data.shape).astype(data.dtype)


def of_forests() -> None:
    """Add the cases of ai.onnx.ml that are compared with onnxruntime elsewhere."""
    for name, x, attrs, _ in test_ml.cases():
        CASES.setdefault(name, []).append(case(x, **attrs))


of_forests()


def is_same(left: Array, right: Array, relative: float = 1e-6, absolute: float = 0) -> bool:
    """Whether the arrays are equal but for the last bits that libm gives lanes of a vector."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return bool(np.allclose(left, right, relative, absolute, equal_nan=True))
    if left.dtype.kind == "V":  # types that NumPy lacks, among them NaNs
        return left.tobytes() == right.tobytes()
    return bool((left == right).all())


def same(got: Array, want: Array, relative: float = 1e-6, absolute: float = 0) -> bool:
    """True; raises Counterexample for a result `got` that is not `want`, which the claim says."""
    got, want = np.asarray(got), np.asarray(want)
    if is_same(got, want, relative, absolute):
        return True
    if got.shape != want.shape or got.dtype != want.dtype:
        kinds = (f"{a.dtype}{list(a.shape)}" for a in (got, want))
        raise Counterexample("the result is {}, the claim says {}".format(*kinds))
    pairs = zip(got.reshape(-1), want.reshape(-1), strict=True)
    apart = (
        i for i, (a, b) in enumerate(pairs) if not is_same(a[None], b[None], relative, absolute)
    )
    place = np.unravel_index(next(apart), got.shape)
    where = [int(i) for i in place]
    raise Counterexample(f"element {where} is {got[place]}, the claim says {want[place]}")


def close(got: Array, want: Array) -> bool:
    """True if the results are equal up to the order of additions in float32, as `same`."""
    return same(got, want, 1e-4, 1e-4)


def holds(condition: object, otherwise: str) -> bool:
    """True; raises Counterexample, which says `otherwise`, if the condition is false."""
    if not condition:
        raise Counterexample(otherwise)
    return True
