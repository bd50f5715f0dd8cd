# SPDX-License-Identifier: Apache-2.0
"""float16 and bfloat16 as storage: any operator of float32, its operands converted on the way.

Every operator of one node that takes float32 gets a second pattern, tried after its own: half
operands are widened into temporaries, the operator's lowering runs on these, and its result is
rounded to nearest even, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir, onnx
from aot.ir.dtypes import BF16, F16, F32, DType
from aot.ir.graph_nodes import CONTROL, SHARED_KEY
from aot.ir.node_traits import stored_as_given
from aot.ops.broadcast import stored
from aot.vendor import Case, Layout, Match, Pattern, Recorder, ValueRef
from aot.vendor.by_rows import by_elements
from aot.vendor.pattern import Either, OpPat

HALVES = (F16, BF16)
SUFFIX = ".half"
#: Patterns that aot_half.h computes, where there are vectors.
IN_REGISTERS = frozenset(
    {"Add", "Sub", "Mul", "Div", "Abs", "Neg", "Relu", "Clip", "LeakyRelu", "HardSigmoid"}
    | {"HardSwish", "Sigmoid", "Tanh", "Exp", "Sqrt", "Erf", "Gelu"}
)
#: Operators whose result is not the rounded result on float32.
EXACT = frozenset({"BitCast", "Cast", "CastLike"})


def widened(pattern: Pattern) -> Pattern | None:
    """The pattern that computes `pattern` of float16 or bfloat16 operands in float32.

    Its match is checked and laid out as if it were of float32; its lowering widens the operands,
    records the calls of `pattern` and rounds the results once. It comes after all others (its
    priority is lower by 100). None for patterns of several operators, for control flow and for
    operators in EXACT, whose result is not the rounded one.
    """
    graph = pattern.graph
    if not isinstance(graph, OpPat) or graph.op_type in EXACT or graph.domain == CONTROL:
        return None
    # Every node of a chain rounds its result to half precision; in float32 only the last one would.
    if any(isinstance(i, OpPat | Either) for i in graph.inputs):
        return None
    made = Pattern(
        pattern.name + SUFFIX,
        graph,
        pattern.backend,
        pattern.outputs,
        pattern.attrs,
        pattern.priority - 100,
        pattern.folder,
        pattern.header,
    )

    @made.check
    def supported(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks that the float32 pattern would compute the match if its operands were float32."""
        for reason in pattern.refusals(_wide(m, {})):
            yield False, reason

    @made.layouts
    def same_layouts(m: Match, incoming: dict[str, Layout], vlen: int) -> dict[str, Layout]:
        """The layouts that the float32 pattern would choose."""
        return pattern.choose_layouts(_wide(m, {}), incoming, vlen)

    @made.lower
    def in_float32(c: Recorder, m: Match) -> None:
        """Record the operator computed in float32: operands widened, results rounded once."""
        _lower(c, m, pattern)

    @made.cases
    def cases() -> Iterator[Case]:
        """For float16 and bfloat16 the first simple float32 case, its data narrowed."""
        for t in filter(lambda t: _is_allowed(graph, t), HALVES):
            known = (c for c in pattern.all_cases() if _is_simple(c))
            yield from (_narrow(pattern, c, t) for c in islice(known, 1))

    return made


def _lower(c: Recorder, m: Match, pattern: Pattern) -> None:
    """Record the casts of half operands to float32 temporaries, the calls of `pattern`, and the
    casts back.

    Constants are widened at compile time; a value used twice is widened once. What is in
    IN_REGISTERS becomes a call that widens its operands itself.
    """
    types = {v.dtype for v in m.values.values() if v is not None}
    if pattern.name in IN_REGISTERS and c.vlen > 1 and len(types) == 1:
        pattern.record(c, m)
        return
    names: dict[int, str] = {}
    results = {id(v.ir) for v in m.outputs()}
    for value in m.values.values():
        half = value is not None and value.dtype in HALVES and not value.is_const
        if value is None or not half or id(value.ir) in names:
            continue
        wide = c.temp(value.shape, F32, value.layout, f"{value.name}_f32")
        names[id(value.ir)] = wide.name
        # A result is only written, so there is nothing to widen.
        if id(value.ir) in results:
            c.defines(wide)
        else:
            kernel = f"aot_cast_{value.dtype.short}_f32"
            _cast(c, kernel, wide, value, value)
    inner = _wide(m, names)
    pattern.record(c, inner)
    for own, wider in zip(m.outputs(), inner.outputs(), strict=True):
        if own.dtype in HALVES:
            kernel = f"aot_cast_f32_{own.dtype.short}"
            _cast(c, kernel, own, c.read(wider), own)


def _cast(c: Recorder, kernel: str, y: Any, x: Any, like: ValueRef) -> None:
    """Record the conversion of all elements that `like` has in memory, padding included."""
    n, rowwise = math.prod(stored(like)), by_elements(like, (0, 1), "n")
    c.call(kernel, y, x, c.params(n=n), header="aot_cast.h", rowwise=rowwise)


def _wide(m: Match, names: dict[int, str]) -> Match:
    """The match with float32 values in the place of half ones; others stay.

    `names` has names for the new values by id() of the old ones.
    """
    wide: dict[int, ValueRef] = {}
    for value in m.values.values():
        if value is not None and id(value.ir) not in wide:
            wide[id(value.ir)] = _widened(value, names) if value.dtype in HALVES else value
    values = {k: v and wide[id(v.ir)] for k, v in m.values.items()}
    return m.with_values(values)


def _widened(value: ValueRef, names: dict[int, str]) -> ValueRef:
    """A float32 value like the half one, constant elements converted, named by `names` if it is
    there.
    """
    data = value.data
    made = ir.Value(
        name=names.get(id(value.ir), f"{value.name}_f32"),
        shape=value.ir.shape,
        type=ir.TensorType(ir.DataType.FLOAT),
        const_value=None if data is None else ir.Tensor(np.asarray(data).astype(np.float32)),
    )
    made.metadata_props.update(value.ir.metadata_props)
    if data is not None and stored_as_given(value.ir):
        made.metadata_props[SHARED_KEY] = ""
    return ValueRef(made, value.layout)


# -- cases -----------------------------------------------------------------------------------


def _is_allowed(graph: OpPat, dtype: DType) -> bool:
    """Whether ONNX lets the operator's first input be `dtype`."""
    if not onnx.defs.has(graph.op_type, graph.domain):
        return False
    inputs = onnx.defs.get_schema(graph.op_type, graph.domain).inputs
    return bool(inputs) and f"tensor({dtype})" in inputs[0].types


def _is_simple(case: Case) -> bool:
    """Whether some input is float32 and the reference needs no help."""
    given = [a for a in case.inputs if a is not None]
    return any(a.dtype == np.float32 for a in given) and not case.expected


def _converted(data: Any, source: Any, dtype: Any) -> Any:
    """The array in `dtype` if its type is `source`; others, and None, are returned as they are."""
    return data.astype(dtype) if data is not None and data.dtype == source else data


def _narrow(pattern: Pattern, case: Case, dtype: DType) -> Case:
    """`case` with its float32 inputs as `dtype`; expected is the float32 result, rounded."""
    inputs = tuple(_converted(a, np.float32, dtype.numpy) for a in case.inputs)
    wide = [_converted(a, dtype.numpy, np.float32) for a in inputs]
    results = _reference(pattern, case, wide)
    expected = tuple(_converted(r, np.float32, dtype.numpy) for r in results)
    # Normalisation may split an operator in two, each rounded.
    step = 2.0 ** (-7 if dtype is BF16 else -10)
    top = max((float(np.max(np.abs(r), initial=0.0)) for r in results), default=0.0)
    near = step * top
    return Case(inputs, case.attrs, case.const, case.outputs, step, near, case.name, expected)


def _reference(pattern: Pattern, case: Case, inputs: list[Any]) -> list[Any]:
    """The results of onnx.reference for a case of one operator with these inputs (None: absent)."""
    from onnx.reference import ReferenceEvaluator

    graph = pattern.graph
    assert isinstance(graph, OpPat)
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    outputs = [f"y{i}" for i in range(case.outputs)]
    # ONNX leaves absent inputs at the end out.
    while names and not names[-1]:
        names.pop()
    node = onnx.helper.make_node(graph.op_type, names, outputs, domain=graph.domain, **case.attrs)
    fed = {f"x{i}": a for i, a in enumerate(inputs) if a is not None}
    infos = [
        onnx.helper.make_tensor_value_info(
            n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape
        )
        for n, a in fed.items()
    ]
    graph_proto = onnx.helper.make_graph(
        [node], "case", infos, [onnx.helper.make_empty_tensor_value_info(o) for o in outputs]
    )
    newest = {
        d: onnx.defs.get_schema(graph.op_type, graph.domain).since_version for d in [graph.domain]
    }
    newest[""] = onnx.defs.onnx_opset_version()
    imports = [onnx.helper.make_opsetid(d, v) for d, v in newest.items()]
    model = onnx.helper.make_model(graph_proto, opset_imports=imports)
    with np.errstate(all="ignore"):
        return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, fed)]
