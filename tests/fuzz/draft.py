# SPDX-License-Identifier: Apache-2.0
"""A model being drawn: nodes are computed as they are added, so that every value is known.

Each value carries a bound of the error that arithmetic in another order may have made in it. A node
is rejected when that error could show in an integer (a rounding, a comparison, an index) or grows
beyond what the tolerances of the comparison allow: whatever differs later is a difference.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from fuzz.agreed import FLOATS, STASHING, fits, is_float, ties, untrusted
from fuzz.corrected import evaluator

Array = np.ndarray[Any, Any]
F32 = np.dtype(np.float32)
LARGEST = 20_000  # elements of a value
#: Error of one operation, relative to the largest result.
STEP = {"float64": 1e-14, "float32": 2e-6, "float16": 1.5e-3, "bfloat16": 1e-2}
#: How much error a value may have, relative to its largest element.
LIMIT = {"float64": 1e-9, "float32": 3e-5, "float16": 5e-3, "bfloat16": 1.2e-2}
#: The same where quantised values have been one off before, and how far off later quantised values
#: may be.
COARSE = {"float32": 0.05}
MOST_CODES = 12
#: Nodes that round nothing.
EXACT = set(
    "Reshape Transpose Squeeze Unsqueeze Flatten Concat Split Slice Gather GatherElements GatherND "
    "Pad Expand Tile Identity Where Relu Neg Abs Max Min Clip MaxPool GlobalMaxPool ReduceMax "
    "ReduceMin DepthToSpace SpaceToDepth ScatterND ScatterElements TopK Trilu ReverseSequence If "
    "Compress Dropout".split()
)


#: Types that any operator may have; others come and go within a family.
KINDS = set(FLOATS) | set("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64".split())


def is_quantised(array: Array) -> bool:
    """Whether the elements are quantised values of 8 or 16 bits."""
    return array.dtype.kind in "iu" and array.dtype.itemsize < 4


class Reject(Exception):
    """What was drawn does not fit here; draw something else."""


def evaluate(
    nodes: Sequence[onnx.NodeProto],
    feeds: dict[str, Array],
    outputs: Sequence[str],
    opsets: Sequence[onnx.OperatorSetIdProto],
    functions: Sequence[onnx.FunctionProto] = (),
) -> list[Any]:
    """What onnx.reference computes of some nodes."""
    ends = [typed(n, a) for n, a in feeds.items()]
    graph = helper.make_graph(nodes, "g", ends, [onnx.ValueInfoProto(name=o) for o in outputs])
    model = helper.make_model(graph, opset_imports=opsets, functions=functions)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: list[Any] = evaluator(model, list(feeds.values())).run(None, feeds)
    return found


def second_opinion(
    nodes: Sequence[onnx.NodeProto],
    feeds: dict[str, Array],
    outputs: Sequence[str],
    opsets: Sequence[onnx.OperatorSetIdProto],
) -> list[Any]:
    """What onnxruntime computes of some nodes."""
    ends = [typed(n, a) for n, a in feeds.items()]
    graph = helper.make_graph(nodes, "g", ends, [onnx.ValueInfoProto(name=o) for o in outputs])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    found: list[Any] = session(model).run(None, feeds)
    return found


def session(model: onnx.ModelProto) -> Any:
    """An onnxruntime session without optimisations."""
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def typed(name: str, array: Array) -> onnx.ValueInfoProto:
    """A value's name, type and shape."""
    kind = onnx.TensorProto.STRING if array.dtype.kind in "OSU" else None
    kind = kind or helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, list(array.shape))


@dataclass
class Draft:
    """`values` are all known values, `feeds` those that are inputs, `consts` the initialisers.

    `errors` bounds what arithmetic may differ by (0 where absent), `dynamic` are values whose shape
    depends on the data, `coarse` are floats that come of quantised values which may be one off.
    """

    rng: np.random.Generator
    opset: int = 21
    float_: str = "float32"
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    feeds: dict[str, Array] = field(default_factory=dict)
    consts: dict[str, Array] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    dynamic: set[str] = field(default_factory=set)
    domains: dict[str, int] = field(default_factory=dict)
    coarse: set[str] = field(default_factory=set)
    wild: bool = False
    rough: bool = False
    count: int = 0

    # -- chance ------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        """True with probability `p`."""
        return bool(self.rng.random() < p)

    def one(self, *choices: Any) -> Any:
        """One of the arguments."""
        return choices[int(self.rng.integers(len(choices)))]

    def word(self, words: str) -> str:
        """One of the words of a text."""
        return str(self.one(*words.split()))

    def upto(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return int(self.rng.integers(low, high + 1))

    # -- values ------------------------------------------------------------------------------

    def name(self, stem: str) -> str:
        """A name that is not taken."""
        self.count += 1
        return f"{stem}{self.count}"

    def array(self, shape: Sequence[int], dtype: Any = None) -> Array:
        """Random elements: floats around zero, small integers."""
        kind = np.dtype(dtype or self.dtype)
        if kind == np.bool_:
            return np.asarray(self.rng.random(tuple(shape)) < 0.5)
        if kind.kind in "iu":
            low = 0 if kind.kind == "u" else -6
            return np.asarray(self.rng.integers(low, 8, tuple(shape))).astype(kind)
        drawn = np.asarray(self.rng.standard_normal(tuple(shape)))
        if self.wild and drawn.size and self.chance(0.5):
            flat = drawn.reshape(-1)
            for _ in range(max(1, flat.size // 16)):
                odd = self.one(np.nan, np.inf, -np.inf, 0.0, -0.0, 60.0, -60.0, 1e-3, 3e4, -3e4)
                flat[self.upto(0, flat.size - 1)] = odd
        return drawn.astype(kind)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The float type of this draft."""
        if self.float_ == "bfloat16":
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(self.float_)

    def feed(self, array: Array) -> str:
        """A new input of the graph."""
        name = self.name("x")
        self.feeds[name] = self.values[name] = np.asarray(array)
        return name

    def const(self, array: Any) -> str:
        """A new initialiser."""
        name = self.name("c")
        self.consts[name] = self.values[name] = np.asarray(array)
        return name

    def ints(self, *values: int) -> str:
        """A constant of int64."""
        return self.const(np.array(values, np.int64))

    def ints32(self, values: Any) -> str:
        """A constant or input of int32."""
        array = np.asarray(values).astype(np.int32)
        return self.const(array) if self.chance(0.5) else self.feed(array)

    def operand(self, shape: Sequence[int], dtype: Any = None, constant: float = 0.7) -> str:
        """A constant or an input of this shape."""
        array = self.array(shape, dtype)
        return self.const(array) if self.chance(constant) else self.feed(array)

    def pick(self, suits: Callable[[Array], bool] | None = None, dynamic: bool = False) -> str:
        """A value that suits, rather a late one; not a constant while there is another."""
        found = [
            n
            for n, a in self.values.items()
            if (dynamic or n not in self.dynamic)
            and a.dtype.name in KINDS
            and n not in self.consts
            and (suits is None or suits(a))
        ]
        if not found:
            raise Reject
        if self.chance(0.6):
            return found[-1 - min(len(found) - 1, int(self.rng.exponential(2.0)))]
        return str(self.one(*found))

    def floats(self, rank: Sequence[int] = (), empty: bool = False) -> str:
        """A value of the draft's float type, of one of these ranks if any are given."""
        return self.pick(
            lambda a: (
                a.dtype == self.dtype and (not rank or a.ndim in rank) and (empty or a.size > 0)
            )
        )

    def like(self, name: str) -> str:
        """A value of the same type and shape, perhaps the same."""
        a = self.values[name]
        return self.pick(lambda b: b.dtype == a.dtype and b.shape == a.shape)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value."""
        return tuple(self.values[name].shape)

    # -- nodes -------------------------------------------------------------------------------

    @property
    def opsets(self) -> list[onnx.OperatorSetIdProto]:
        """The opsets in use."""
        own = {"": self.opset, **self.domains}
        return [helper.make_opsetid(d, v) for d, v in own.items()]

    def enter(self, domain: str, op: str) -> None:
        """Use a domain, in a version that has the operator."""
        version = 5 if domain == "ai.onnx.ml" else 1
        if op.startswith(("TreeEnsembleR", "TreeEnsembleC")):
            version = 3
        if self.domains.setdefault(domain, version) != version:
            raise Reject

    def add(
        self, op: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", **attrs: Any
    ) -> list[str]:
        """Add a node and compute it; Reject if it is not to be had."""
        if domain:
            self.enter(domain, op)
        ends = [self.name("v") for _ in range(outputs)]
        node = helper.make_node(op, list(inputs), ends, domain=domain, **attrs)
        return self.adopt(node)

    def adopt(self, node: onnx.NodeProto, exact: bool = False) -> list[str]:
        """Add a node that is there already."""
        if not node.domain and not onnx.defs.has(node.op_type, self.opset):
            raise Reject
        used = [n for n in dict.fromkeys([*node.input, *captured(node)]) if n in self.values]
        if not fits(node, self.values):
            raise Reject
        feeds = {n: self.values[n] for n in used}
        ends = [n for n in node.output if n]
        found = self._computed(node, feeds, ends)
        errors = self._errors(node, feeds, ends, found, exact or node.op_type in EXACT)
        self.nodes.append(node)
        for name, array in zip(ends, found, strict=True):
            self.values[name] = array
            if errors[name]:
                self.errors[name] = errors[name]
        return list(node.output)

    def may_be_one_off(self, node: onnx.NodeProto) -> None:
        """Note that quantised values of computed floats may differ by one: other sums are
        rounded."""
        free = (*self.feeds, *self.consts)
        if node.op_type == "QuantizeLinear" and node.input[0] not in free:
            q = node.output[0]
            self.errors[q] = max(self.errors.get(q, 0.0), 1.0)

    def adopt_all(self, nodes: Sequence[onnx.NodeProto], end: str) -> None:
        """Add nodes whose inner values are no tensors; `end` is the one that is."""
        used = [n for node in nodes for n in node.input if n in self.values]
        if any(self.errors.get(n) for n in used):
            limit = max(self.errors.get(n, 0.0) for n in used)
        else:
            limit = 0.0
        try:
            feeds = {n: self.values[n] for n in dict.fromkeys(used)}
            value = np.asarray(evaluate(nodes, feeds, [end], self.opsets)[0])
        except Exception as error:
            raise Reject from error
        self.nodes += nodes
        self.values[end] = value
        if limit:
            self.errors[end] = limit

    def _computed(
        self, node: onnx.NodeProto, feeds: dict[str, Array], ends: list[str]
    ) -> list[Array]:
        try:
            if untrusted(node):
                found = second_opinion([node], feeds, ends, self.opsets)
            else:
                found = evaluate([node], feeds, ends, self.opsets)
        except Exception as error:
            raise Reject(f"{node.op_type}: {error}") from error
        if any(not isinstance(a, np.ndarray | np.generic) for a in found):
            raise Reject(f"{node.op_type} gives no tensor")
        arrays = [np.asarray(a) for a in found]
        for a in arrays:
            if a.size > LARGEST:
                raise Reject("large")
            if is_float(a) and not self.wild and a.size:
                top = np.abs(a.astype(np.float64)).max()
                if not top < (200.0 if a.dtype.itemsize == 2 else 1e4):
                    raise Reject(f"{node.op_type} gives {top}")
        return arrays

    def _errors(
        self,
        node: onnx.NodeProto,
        feeds: dict[str, Array],
        ends: list[str],
        found: list[Array],
        exact: bool,
    ) -> dict[str, float]:
        """The error bound of each result, from results on operands that are off by theirs."""
        stashing = node.op_type in STASHING
        bounds = {n: self._bound(n, a, stashing) for n, a in feeds.items()}
        inexact = {n: a for n, a in feeds.items() if bounds[n]}
        if ties(node, inexact):
            raise Reject("what is equal here may differ by some there")
        others = []
        coarse = any(n in self.coarse or is_quantised(a) for n, a in inexact.items())
        if inexact:
            ways = [{n: self.rng.choice([-1.0, 1.0], a.shape) for n, a in inexact.items()}]
            if coarse:  # quantised values of one kind are off in one direction
                ways.append({n: np.ones(a.shape) for n, a in inexact.items()})
            for signs in ways:
                for side in (1.0, -1.0):
                    moved = {n: _off(a, bounds[n], side * signs[n]) for n, a in inexact.items()}
                    others.append(self._computed(node, {**feeds, **moved}, ends))
        errors = {}
        limits = COARSE if coarse else LIMIT
        for k, (name, a) in enumerate(zip(ends, found, strict=True)):
            off = [self._moved_by(node, a, other[k]) for other in others]
            errors[name] = max(off, default=0.0)
            if not is_float(a):
                self.rough = self.rough or bool(others)
                continue
            good = np.abs(a[np.isfinite(a)].astype(np.float64))
            top = float(good.max(initial=0.0))
            if errors[name] > limits.get("float32" if stashing else a.dtype.name, 0.0) * top:
                raise Reject(f"{node.op_type} loses digits")
            if coarse:
                self.coarse.add(name)
            step = STEP.get(a.dtype.name, 0.0)
            if stashing:
                step = max(step, STEP["float32"])
            own = 0.0 if exact else step * top
            errors[name] = 2 * errors[name] + own
        return errors

    def _moved_by(self, node: onnx.NodeProto, a: Array, b: Array) -> float:
        """The largest difference between a result and one of inexact operands."""
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Reject(f"{node.op_type}: the shape hangs by a thread")
        if not is_float(a):
            return self._code_error(node, a, b)
        wide, off = a.astype(np.float64), b.astype(np.float64)
        good = np.isfinite(wide) & np.isfinite(off)
        if not (good | (wide == off) | (np.isnan(wide) & np.isnan(off))).all():
            raise Reject(f"{node.op_type}: not finite by a thread")
        return float(np.abs(wide[good] - off[good]).max(initial=0.0))

    def _bound(self, name: str, a: Array, stashing: bool) -> float:
        """How far an operand may be off; operators that compute in float32 round float64 first."""
        known = self.errors.get(name, 0.0)
        if not stashing or a.dtype != np.float64:
            return known
        top = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
        return max(known, STEP["float32"] * top)

    def _code_error(self, node: onnx.NodeProto, a: Array, b: Array) -> float:
        """Quantised values of 8 and 16 bits that operands off by a step move may be off by one."""
        if (a == b).all():
            return 0.0
        if node.op_type not in CODES or a.dtype.itemsize > 2:
            raise Reject(f"{node.op_type}: an integer hangs by a thread")
        off = float(np.abs(a.astype(np.int64) - b.astype(np.int64)).max()) + 1.0
        if off > MOST_CODES:
            raise Reject(f"{node.op_type}: quantised values that are {off} off")
        return off


def _off(a: Array, error: float, signs: Array) -> Array:
    """The value, wrong by as much as it may be."""
    if a.dtype.kind in "iu":
        info, step = np.iinfo(a.dtype), max(1, round(error))
        moved = a.astype(np.int64) + step * signs.astype(np.int64)
        return moved.clip(info.min, info.max).astype(a.dtype)
    with np.errstate(all="ignore"):
        return np.asarray(a.astype(np.float64) + error * signs).astype(a.dtype)


#: Operators whose result are quantised values that may differ by rounding.
CODES = {"QuantizeLinear", "QLinearConv", "QLinearMatMul", *EXACT}


def captured(node: onnx.NodeProto) -> list[str]:
    """Names that bodies of a node may take from outside."""
    found = []
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                found += [*inner.input, *captured(inner)]
            found += [o.name for o in graph.output]
    return found


def initialiser(name: str, array: Array) -> onnx.TensorProto:
    """A tensor of a model."""
    return numpy_helper.from_array(np.ascontiguousarray(array) if array.ndim else array, name)
