# SPDX-License-Identifier: Apache-2.0
"""Attention of float32 in its canonical form (aot/normalise/attention_forms.py): operands of four
axes, no past. Transposes that interleave heads are folded into strides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import BOOL, F32, S64
from aot.ir.graph_nodes import NAN_ROWS, attribute, given, shape_of
from aot.ir.splits import Split
from aot.ops.attention_plan import FEW, plan
from aot.ops.matmul_views import Strided, turned
from aot.ops.narrow import rounds
from aot.ops.registry import op, portable
from aot.shapes.dynamic.dims import DynamicDims, refused
from aot.shapes.dynamic.equality_constraints import agreed, fit_inputs, require_equal
from aot.shapes.dynamic.rows import counted
from aot.shapes.dynamic.rules import BOOL_TYPE, dynamic, needed, with_input
from aot.shapes.operands import operand_shape, operands_fit, repeats, wrong
from aot.shapes.partial_values import PartialValues
from aot.vendor import OP, Case, Match, NodeRef, Recorder, ValueRef, case, f32, wildcard

INPUTS = "q k v mask? past_key? past_value? lens?"
OUTPUTS = "y present_key? present_value? qk?"
ATTRIBUTES: dict[str, Any] = {
    "scale": None,
    "softcap": 0.0,
    "is_causal": 0,
    "left_window_size": -1,
    "right_window_size": -1,
    "qk_matmul_output_mode": 0,
    "softmax_precision": None,
}
attention = op("Attention", INPUTS, OUTPUTS, **ATTRIBUTES)


def node_of(m: Match) -> NodeRef:
    """The Attention node of a match."""
    return next(n for n in m.nodes if n.op_type == "Attention")


def attr(m: Match, name: str) -> Any:
    """The value of attribute `name` of the match's Attention node, or the operator's default."""
    return node_of(m).attr(name, ATTRIBUTES[name])


def views_of(m: Match) -> tuple[Strided, Strided, Strided, Strided]:
    """q, k, v and y as the Attention node sees them: [batch, heads, rows, columns]."""
    found = []
    for value, name in ((m.q, "tq"), (m.k, "tk"), (m.v, "tv")):
        view = Strided.contiguous(value.shape)
        transposed = m.__dict__["_names"].get(name)
        found.append(view if transposed is None else view.permuted(_perm(transposed)))
    y = Strided.contiguous(m.y.shape)
    if m.root.op_type == "Transpose":
        y = y.inverse(_perm(m.root))
    q, k, v = found
    return q, k, v, y


def _perm(node: NodeRef) -> list[int]:
    """The permutation of a Transpose: for each axis of its result the axis of its operand."""
    return [int(p) for p in node.attr("perm")]


#: How far behind and before itself a query sees.
WINDOWS = ("left_window_size", "right_window_size")


def supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the kernel can compute the Attention of a match: float32, four axes, no past.

    An Attention that is refused is left to the body of smaller operators that ONNX defines.
    """
    for _, v in m.inputs():
        if v is not m.mask and v is not m.lens:
            yield v.dtype is F32, f"dtype {v.dtype} (needs float32)"
    yield m.q.rank == 4, f"operands of rank {m.q.rank} (needs 4)"
    whole = all(getattr(m, n, None) is None for n in ("past_key", "past_value"))
    kept = all(m.values.get(n) is None for n in ("present_key", "present_value"))
    yield whole and kept, "a past of keys and values (normalise joins it)"
    if m.mask is not None:
        yield m.mask.dtype in (F32, BOOL), f"mask of {m.mask.dtype} (needs float32 or bool)"
        yield 1 <= m.mask.rank <= 4, f"mask of rank {m.mask.rank} (needs 1 to 4)"
        keys = m.mask.shape[-1] if m.mask.rank else 0
        skv = views_of(m)[1].shape[2]
        # A mask of one column would be repeated along the keys, which the kernel does not do.
        yield keys == skv or 1 < keys < skv, f"mask of {keys} columns for {skv} keys"
    if m.lens is not None:
        yield m.lens.dtype is S64, f"lengths of {m.lens.dtype} (needs int64)"
    scale = attr(m, "scale")
    yield scale is None or float(scale) >= 0, f"scale {scale} (needs 0 or more)"
    precision = attr(m, "softmax_precision")
    yield precision in (None, 0, 1), f"softmax_precision {precision} (needs 1, float32)"
    heads = views_of(m)[0].shape[1], views_of(m)[1].shape[1]
    yield heads[1] > 0 and heads[0] % heads[1] == 0, f"{heads[0]} heads over {heads[1]} of keys"


attention.check(supported)


def mask_steps(mask: ValueRef | None) -> tuple[int, int, int, int]:
    """Strides of the mask along batch, head, query and key; 0 where it is repeated."""
    if mask is None:
        return 0, 0, 0, 0
    view = Strided.contiguous((*[1] * (4 - mask.rank), *mask.shape))
    steps = [0 if n == 1 else s for n, s in zip(view.shape, view.strides, strict=True)]
    return steps[0], steps[1], steps[2], steps[3]


def _heads(
    counts: tuple[int, int, int],
    views: tuple[Strided, ...],
    mask: ValueRef | None,
    qk: ValueRef | None,
) -> list[Split]:
    """How threads share an attention: by batches, or by heads of the keys.

    `counts` are batches, heads of the keys, and heads of queries for each of these; `views` are q,
    k, v and y. Scores `qk` have no steps of their own, so that heads of one batch are apart alone.
    """
    batch, kv_heads, group = counts
    step, scores = mask_steps(mask), 0 if qk is None else math.prod(qk.shape[2:])
    size = 0 if mask is None else mask.dtype.nbytes
    found = []
    for axis, (member, count) in enumerate((("batch", batch), ("kv_heads", kv_heads))):
        wide = group if axis else 1
        q, k, v, y = (4 * view.strides[axis] for view in views)
        heads = wide if axis else kv_heads * group
        moves = [(0, y * wide), (1, 4 * scores * heads), (2, q * wide), (3, k), (4, v)]
        moves += [(5, size * step[axis] * wide), *[(6, 8)] * (axis == 0)]
        if axis == 0 or qk is None or batch == 1:
            found.append(Split.pieces(member, count, moves))
    return found


@attention.lower
def to_kernel(c: Recorder, m: Match) -> None:
    """Record aot_attention_f32, which reads and writes operands by the steps of their views.

    Its products are of bfloat16 where `rounds` lets them. Views are [batch, heads, positions,
    elements]; steps count floats, scratch is in bytes. The result may replace the queries only
    where both have the same steps and no other operand is q.
    """
    q, k, v, y = views_of(m)
    (batch, heads, sq, d), (_, kv_heads, skv, _), dv = q.shape, k.shape, v.shape[3]
    group = heads // kv_heads
    latency = c.objective in ("latency", "energy")
    words = sq > FEW and rounds(c, node_of(m), sq) == "bf16"
    way = plan(sq, skv, d, dv, group, c.vlen, latency, words)
    scale = attr(m, "scale")
    # A wider window hides nothing, and the kernel's numbers have 32 bits.
    left, right = (min(int(attr(m, n)), sq + skv) for n in WINDOWS)
    right = 0 if attr(m, "is_causal") else right
    qk = m.values.get("qk")
    params = c.params(
        batch=batch,
        kv_heads=kv_heads,
        group=group,
        sq=sq,
        skv=skv,
        d=d,
        dv=dv,
        rows=way.rows,
        mask_cols=skv if m.mask is None else m.mask.shape[-1],
        left=left,
        right=right,
        q_step=q.strides[:3],
        k_step=k.strides[:3],
        v_step=v.strides[:3],
        y_step=y.strides[:3],
        mask_step=mask_steps(m.mask),
        scale=float(np.float32(1 / math.sqrt(d) if scale is None else scale)),
        softcap=float(attr(m, "softcap")),
    )
    kind = 0 if m.mask is None else 1 if m.mask.dtype is BOOL else 2
    nan_rows = NAN_ROWS in node_of(m).ir.metadata_props
    mode = 0 if qk is None else 1 + int(attr(m, "qk_matmul_output_mode"))
    same = q.strides == y.strides and d == dv and math.prod(m.q.shape) == math.prod(m.y.shape)
    alone = all(m.q.ir is not v.ir for v in (m.k, m.v))
    c.call(
        "aot_attention_f32__bf16" if words else "aot_attention_f32",
        m.y,
        qk,
        m.q,
        m.k,
        m.v,
        m.mask,
        m.lens,
        c.scratch(4 * way.floats),
        params,
        instance={
            "P": way.scores[0],
            "O": way.scores[1],
            "P2": way.values[0],
            "O2": way.values[1],
            "HOW": way.how,
            "MASK": kind,
            "ZERO": int(not nan_rows),
            "QK": mode,
        },
        inplace=[(m.y, m.q)] if same and alone else (),
        macs=batch * heads * sq * skv * (d + dv),
        splits=_heads((batch, kv_heads, group), (q, k, v, y), m.mask, qk),
    )


# -- transposes of operands and of the result -------------------------------------------------


def rows_stay(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the last axis of q, k, v and y is still contiguous after the transposes."""
    for name, view in zip("qkvy", views_of(m), strict=True):
        whole = view.strides[-1] == 1 or view.shape[-1] == 1
        yield whole, f"a transpose moves the elements of a row of {name} apart"


def transposed_cases(transposed: bool) -> Iterator[Case]:
    """Attention of Q, K, V whose heads stand behind the sequence: [N, S, H, D]."""
    swap = [0, 2, 1, 3]
    attrs: dict[str, Any] = {f"{t}.perm": swap for t in ("tq", "tk", "tv")}
    if transposed:
        attrs["perm"] = swap
    yield case(f32(2, 9, 3, 20), f32(2, 21, 3, 20), f32(2, 21, 3, 20), **attrs)
    mask = f32(2, 1, 1, 21, low=-4)
    yield case(f32(2, 9, 3, 20), f32(2, 21, 3, 20), f32(2, 21, 3, 20, seed=1), mask, **attrs)


# Each of q, k, v may be behind a Transpose.
_QKV = [turned(f"t{name}", wildcard(name)) for name in "qkv"]
_REST = (wildcard("mask"), None, None, wildcard("lens"))
_ATTENTION = OP.Attention(*_QKV, *_REST, _optional=4, _outputs=["attention"])
for _name, _graph, _transposed in (
    ("attention_views", _ATTENTION, False),
    ("attention_views_transposed", OP.Transpose(_ATTENTION), True),
):
    portable.declare(
        _name,
        _graph,
        supported,
        rows_stay,
        lower=to_kernel,
        cases=partial(transposed_cases, _transposed),
    )


# -- cases ------------------------------------------------------------------------------------


def _qkv(b: int, h: int, sq: int, skv: int, d: int, dv: int, groups: int = 1) -> list[Any]:
    """Float32 queries, keys and values [b, heads, positions, size] for a case.

    `h` heads of queries share h / `groups` heads of keys; queries and keys have size `d`, values
    `dv`.
    """
    kv = h // groups
    return [f32(b, h, sq, d), f32(b, kv, skv, d, seed=1), f32(b, kv, skv, dv, seed=2)]


def _bool_mask(*shape: int) -> np.ndarray[Any, Any]:
    """A random bool mask of this shape that keeps 6 of 10; its first row of queries keeps
    no key.
    """
    keep: np.ndarray[Any, Any] = np.random.default_rng([9, *shape]).random(shape) < 0.6
    keep[..., 0, :] = False
    return keep


@attention.cases
def cases() -> Iterator[Case]:
    """Attention(Q, K, V, mask, past_key, past_value, lengths): groups, masks, windows, softcap."""
    yield case(*_qkv(2, 3, 7, 19, 8, 12))
    yield case(*_qkv(1, 2, 33, 70, 20, 36), scale=0.3, softcap=1.5)
    yield case(*_qkv(1, 4, 5, 40, 16, 16, groups=2), is_causal=1)
    yield case(*_qkv(2, 2, 6, 6, 5, 3), f32(2, 1, 6, 6, low=-3), is_causal=1)
    yield case(*_qkv(2, 4, 6, 9, 5, 3), _bool_mask(2, 1, 6, 9))
    yield case(*_qkv(2, 2, 1, 37, 24, 65), _bool_mask(1, 37))
    yield case(*_qkv(2, 2, 2, 37, 24, 17), _bool_mask(1, 2, 1, 37))
    low = np.where(_bool_mask(1, 2, 7, 19), 0.5, -np.inf).astype(np.float32)
    yield case(*_qkv(1, 2, 7, 19, 8, 12), low)
    yield case(*_qkv(1, 1, 30, 300, 6, 7), left_window_size=40, right_window_size=3)
    lens = np.array([3, 12], np.int64)
    given = [*_qkv(2, 2, 5, 12, 8, 8), f32(5, 12), None, None, lens]
    yield case(*given, is_causal=1)
    yield case(*given, left_window_size=2)


@dynamic("Attention")
def attention_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of an Attention: batches and numbers of queries and keys.

    Keys in the padding are hidden by a mask, and are made 0; queries and batches of padding pass.
    Any other dynamic axis is refused with UnsupportedError.
    """
    q, k, v = (needed(node, i) for i in range(3))
    has_heads = len(shape_of(q)) == 4
    rows = 2 if has_heads else 1
    allowed = {0, rows}
    if any(set(x.run_sizes(i)) - allowed for i in (q, k, v)) or any(
        x.run_sizes(given(node, i)) or (given(node, i) is not None and rows in x.run_sizes(k))
        for i in (4, 5, 6)
    ):
        raise refused(node, "attends along a dimension known at run time only")
    batch, *others = (x.run_sizes(i).get(0) for i in (q, k, v))
    for other in others:
        batch = agreed(x, node, batch, other, "has queries and keys of other batches")
    n, m = x.run_sizes(k).get(rows), x.run_sizes(v).get(rows)
    n = agreed(x, node, n, m, "has other numbers of keys and of values")
    if n is not None:
        # Padding may hold NaN, which a mask does not hide: 0 * NaN is NaN.
        node.replace_input_with(1, x.neutral(node, k, 0, [rows]))
        node.replace_input_with(2, x.neutral(node, v, 0, [rows]))
    least = min(shape_of(needed(node, i))[rows] for i in (1, 2))
    _mask(x, node, n, x.run_sizes(q).get(rows), batch, least)
    _fit(x, node, rows)
    x.sweep.type_outputs(node)
    queries = x.run_sizes(q).get(rows)
    # Keys and values with their past, and the scores, always have an axis of heads.
    sizes = {1: {2: n}, 2: {2: n}, 3: {2: queries, 3: n}}
    for index, value in enumerate(node.outputs):
        ends = {0: batch, **sizes.get(index, {rows: queries})}
        x.set(value, {a: e for a, e in ends.items() if e is not None})


def _mask(
    x: DynamicDims,
    node: ir.Node,
    n: ir.Value | None,
    queries: ir.Value | None,
    batch: ir.Value | None,
    keys: int,
) -> None:
    """Give an Attention a mask that hides keys beyond `n`, or make padding of its own mask hide
    them.

    `n`, `queries` and `batch` are numbers at run time (None: static), `keys` the upper bound of n.
    Refused (UnsupportedError) is a mask whose sizes may differ from these.
    """
    mask = given(node, 3)
    if mask is None:
        if n is None:
            return
        rows = along_last(x, node, counted(x, node, keys))
        short = x.node(node, "Less", [rows, n], [(BOOL_TYPE, (1, keys))])[0]
        with_input(node, 3, short)
        return
    shape, own = shape_of(mask), x.run_sizes(mask)
    last = len(shape) - 1
    for axis, theirs in own.items():
        ours = {last: n, last - 1: queries, last - 3: batch}.get(axis)
        if ours is None:
            raise refused(node, "has a mask along another dimension known at run time only")
        require_equal(x, node, ours, theirs, "has a mask whose sizes may differ")
    for axis, ours in ((last, n), (last - 1, queries), (last - 3, batch)):
        # A mask of a known size is too short, or too long, for a size that a run says.
        if axis >= 0 and ours is not None and axis not in own and shape[axis] != 1:
            raise refused(node, f"has a mask of {shape[axis]} along dimension {axis}")
    if n is None or mask.dtype is None:
        return
    if last not in own:
        raise refused(node, "has a mask that is the same for all keys")
    fill = False if mask.dtype.numpy().kind == "b" else -np.inf
    node.replace_input_with(3, x.neutral(node, mask, fill, [last]))


def _fit(x: DynamicDims, node: ir.Node, rows: int) -> None:
    """Cut queries, keys, values and mask of an Attention to the same upper bounds where they are
    dynamic.

    `rows` is the axis of positions in queries and keys.
    """
    batch, queries, keys = range(3)
    places = {0: {0: batch, rows: queries}, 1: {0: batch, rows: keys}, 2: {0: batch, rows: keys}}
    mask = given(node, 3)
    if mask is not None:
        last = len(shape_of(mask)) - 1
        places[3] = {last: keys, last - 1: queries, last - 3: batch}
    dynamic = {
        i: {a: p for a, p in own.items() if a in x.run_sizes(node.inputs[i])}
        for i, own in places.items()
    }
    fit_inputs(x, node, dynamic)


def along_last(x: DynamicDims, node: ir.Node, vector: ir.Value) -> ir.Value:
    """A vector [n] as a matrix [1, n], by a Reshape in front of `node`."""
    length = shape_of(vector)[0]
    kind = int(vector.dtype or 0)
    return x.node(node, "Reshape", [vector, x.ints(node, [1, length])], [(kind, (1, length))])[0]


@operands_fit("Attention")
def attention_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """Why the operands of an Attention do not fit each other, "" if they do.

    Queries, keys and values are [batch, heads, positions, size], or [batch, positions, heads *
    size] with the numbers of heads as attributes. Batches are equal, keys and values have as many
    heads and positions, queries a multiple of those heads; past keys come before the keys. A mask's
    last axis is at most the keys' positions, and its others repeat to those of the queries.
    """
    q, k, v = (operand_shape(node, i) or () for i in range(3))
    if not len(q) == len(k) == len(v) or len(q) not in (3, 4):
        return f"queries {list(q)}, keys {list(k)}, values {list(v)} (need 3 or 4 axes each)"
    if len(q) == 3:
        heads, pairs = (int(attribute(node, n, 0)) for n in ("q_num_heads", "kv_num_heads"))
        if heads < 1 or pairs < 1 or q[2] % heads or k[2] % pairs or v[2] % pairs:
            return f"{heads} and {pairs} heads of {list(q)}, {list(k)} and {list(v)}"
        q = (q[0], heads, q[1], q[2] // heads)
        k, v = ((t[0], pairs, t[1], t[2] // pairs) for t in (k, v))
    same = q[0] == k[0] == v[0] and k[1:3] == v[1:3] and q[3] == k[3]
    if not same or not q[3] or not k[1] or q[1] % k[1]:
        return f"queries {list(q)}, keys {list(k)} and values {list(v)} that do not fit"
    past, past_v, mask = operand_shape(node, 4), operand_shape(node, 5), operand_shape(node, 3)
    if past is not None:
        more = past[2] if len(past) == 4 else 0
        reason = wrong("past_key", past, (*k[:2], more, k[3]))
        reason = reason or wrong("past_value", past_v, (*v[:2], more, v[3]))
        if reason:
            return reason
        k = (*k[:2], k[2] + more, k[3])
    if mask is None:
        return wrong("nonpad_kv_seqlen", operand_shape(node, 6), (q[0],))
    columns = mask[-1] if mask else 0
    fits = bool(mask) and columns <= k[2] and (columns > 0 or not k[2])
    if not fits or repeats("", mask[:-1], q[:3]):
        return f"a mask {list(mask)} for {list((*q[:3], k[2]))}"
    return wrong("nonpad_kv_seqlen", operand_shape(node, 6), (q[0],))
