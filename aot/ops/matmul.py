# SPDX-License-Identifier: Apache-2.0
"""MatMul and Gemm, alone or with bias, residual Add, activation, and transposes of operands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.dtypes import F32, F64, S32, S64, U32, U64
from aot.ir.graph_nodes import attribute, dtype_of, given, shape_of
from aot.ir.node_traits import stored_as_given
from aot.ir.operators import Exact, Linear, trait_of
from aot.ir.value_traits import Dequantises
from aot.ops import conv_plan as plan
from aot.ops.conv_plan import MatMulShape
from aot.ops.fused import fuse, with_bounds
from aot.ops.matmul_views import Strided, batches, three
from aot.ops.narrow import halved, record_narrow, rounds, table_of
from aot.ops.registry import op, portable
from aot.partition.cost.costs import Shape, multiplications
from aot.shapes.dynamic.dims import Axes, DynamicDims, refused
from aot.shapes.dynamic.equality_constraints import fit_inputs, require_equal
from aot.shapes.dynamic.products import APART, multiplied
from aot.shapes.dynamic.rules import dynamic, needed, pass_on
from aot.shapes.operands import operand_shape, operands_fit, repeats
from aot.shapes.partial_values import PartialValues
from aot.vendor import OP, Handle, MatrixProduct, Recorder, wildcard
from aot.vendor.activations import NO_ACT, Act
from aot.vendor.cases import Case, case, f32, ints
from aot.vendor.match import Match, NodeRef, ValueRef, product_shape
from aot.vendor.pattern import OpPat, names

DTYPES = (F32, F64, S32, S64, U32, U64)

matmul = op(
    "MatMul",
    "a b",
    traits=[Exact(rounds_once=True), Linear("a", "b", out_axis=-1, result_axis=-1)],
)
gemm = op(
    "Gemm",
    "a b c?",
    traits=[
        Exact(rounds_once=True),
        Linear("a", "b", "c", out_axis=1, transposed="transB"),
    ],
)


@multiplications("MatMul Gemm")
def row_macs(node: ir.Node, x: Shape, w: Shape, y: Shape) -> int:
    """Multiplications of a product: each result sums a row of x, or a column with transA."""
    if not x:
        return 0
    return math.prod(y) * (x[0] if attribute(node, "transA", 0) else x[-1])


# -- products with constant weights -----------------------------------------------------------


def packed(m: Match, node: NodeRef) -> bool:
    """Whether aot_gemm_f32 computes the whole match: constant weights, one bias and one residual at
    most.
    """
    found = MatrixProduct.of(m, node)
    if found.weights is None or m.a.dtype is not F32 or found.others:
        return False
    known = len(found.residuals) <= 1 and len(found.biases) <= 1
    return known and m.y.shape == product_shape(m)


def record_packed(c: Recorder, m: Match, node: NodeRef, act: Act) -> None:
    """Record the product of m.a [.., k] and constant weights [k, n] with bias, residual and `act`.

    Weights that are stored as the model gives them are read where they are, others are packed, in
    16 bits where these hold them or may round them. The result may replace the residual.
    """
    found = MatrixProduct.of(m, node)
    w, bias = found.weights, next(iter(found.biases.values()), None)
    assert w is not None
    rows, sizes = math.prod(m.a.shape[:-1]), (w.shape[0], w.shape[1])
    r = next(iter(found.residuals.values()), None)
    in_place = r is not None and r.ir is not m.a.ir
    weights: ValueRef | Handle = m.b
    # Other nodes read these weights as they are: packed ones would be stored beside them.
    if stored_as_given(m.b.ir) and w.dtype == np.float32 and float(node.attr("alpha", 1.0)) == 1.0:
        transposed = node.op_type == "Gemm" and bool(node.attr("transB", 0))
        call = plan.plan_gemm_rows(rows, sizes, transposed, bias, c.vlen, act)
    elif (table := table_of(c, m.b, node, w)) is not None:
        call = plan.plan_gemm_rows(rows, sizes, True, bias, c.vlen, act, True)
        weights = c.const(table, "table")
    elif (half := halved(c, w, rows, rounds(c, node, rows))) is not None:
        record_narrow(c, m, m.a, half, bias, r, act)
        return
    else:
        call = plan.plan_gemm(rows, w, bias, c.vlen, act)
        weights = c.const(call.weights, "w")
    c.call(
        call.kernel,
        m.y,
        m.a,
        weights,
        c.const(call.bias, "b"),
        r,
        *(() if call.scratch is None else (c.scratch(call.scratch),)),
        c.params(**call.fields),
        instance=call.instance,
        inplace=[(m.y, r)] if in_place else (),
        macs=rows * w.size,
        splits=call.splits,
    )


# -- products of activations ------------------------------------------------------------------


def views_of(m: Match) -> tuple[Strided, Strided, Strided]:
    """a, b and y as the MatMul node sees them, as strided views of the stored tensors.

    Transposes that the match folds are in the strides; a vector gets an axis of 1.
    """
    a, b, y = (Strided.contiguous(v.shape) for v in (m.a, m.b, m.y))
    if (ta := getattr(m, "ta", None)) is not None:
        a = a.permuted([int(p) for p in ta.attr("perm")])
    if (tb := getattr(m, "tb", None)) is not None:
        b = b.permuted([int(p) for p in tb.attr("perm")])
    if (ty := getattr(m, "ty", None)) is not None:
        y = y.inverse([int(p) for p in ty.attr("perm")])
    vector_a, vector_b = len(a.shape) == 1, len(b.shape) == 1
    if vector_b:
        y = Strided((*y.shape, 1), (*y.strides, 1))
    if vector_a:
        y = Strided((*y.shape[:-1], 1, y.shape[-1]), (*y.strides[:-1], 0, y.strides[-1]))
    return a.matrix(row=True), b.matrix(row=False), y


def record_views(
    c: Recorder,
    m: Match,
    left: Handle | None = None,
    size: ValueRef | None = None,
    sized: int = 0,
) -> None:
    """Record aot_matmul_f32: a batched product of two computed operands, read through their
    strides.

    `left` takes the place of m.a. `size`, an int64 tensor of one element, is how many columns
    (`sized` 1) or summands (`sized` 2) count.
    """
    a, b, y = views_of(m)
    sizes, (sa, sb, sy) = batches(a, b, y)
    call = plan.plan_matmul(
        MatMulShape(
            m=y.shape[-2],
            n=y.shape[-1],
            k=a.shape[-1],
            batch=three(sizes, 1),
            a_batch=three(sa, 0),
            b_batch=three(sb, 0),
            y_batch=three(sy, 0),
            a_row=a.strides[-2],
            b_row=b.strides[-2],
            b_col=b.strides[-1],
            y_row=y.strides[-2],
        ),
        c.vlen,
    )
    macs = math.prod(y.shape) * a.shape[-1]
    scratch = c.scratch(call.scratch or 0)
    params, instance = c.params(**call.fields), call.instance
    operands = m.y, m.a if left is None else left, m.b
    if size is None:
        rest = scratch, params
        c.call(call.kernel, *operands, *rest, instance=instance, macs=macs, splits=call.splits)
        return
    instance = {**instance, "SIZED": sized}
    c.call(f"{call.kernel}_sized", *operands, size, scratch, params, instance=instance, macs=macs)


def record_general(c: Recorder, m: Match, node: NodeRef) -> None:
    """Record aot_matmul_DTYPE_ref: y = alpha * a @ b + beta * c, of any type.

    `node` is the MatMul or Gemm of the match; a Gemm's transpositions are strides, but constant
    weights are transposed here, so that vectors take neighbours. Batch axes are merged to three at
    most, which MatMul broadcasts; the addend `c` [m, n] repeats along axes of 1. Strides are in
    elements.
    """
    a, b, y = views_of(m)
    addend = m.values.get("c")
    alpha = beta = 1.0
    weights: ValueRef | Handle = m.b
    if node.op_type == "Gemm":
        a = a.permuted((1, 0)) if node.attr("transA", 0) else a
        b = b.permuted((1, 0)) if node.attr("transB", 0) else b
        alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
        if m.b.data is not None and b.strides[-1] != 1 and not stored_as_given(m.b.ir):
            weights, b = c.const(m.b.data.T.copy(), "w"), Strided.contiguous(b.shape)
    sizes, (sa, sb, sy) = batches(a, b, y)
    cs: tuple[int, ...] = (0, 0)
    if addend is not None:
        view = Strided.contiguous((*[1] * (2 - addend.rank), *addend.shape))
        cs = tuple(0 if n == 1 else s for n, s in zip(view.shape, view.strides, strict=True))
    params = c.params(
        m=y.shape[-2],
        n=y.shape[-1],
        k=a.shape[-1],
        batch=three(sizes, 1),
        a_batch=three(sa, 0),
        b_batch=three(sb, 0),
        c_batch=(0, 0, 0),
        y_batch=three(sy, 0),
        a_row=a.strides[-2],
        a_col=a.strides[-1],
        b_row=b.strides[-2],
        b_col=b.strides[-1],
        c_row=cs[0],
        c_col=cs[1],
        y_row=y.strides[-2],
        y_col=y.strides[-1],
        alpha=alpha,
        beta=beta,
    )
    macs = math.prod(y.shape) * a.shape[-1]
    kernel = f"aot_matmul_{m.a.dtype.short}_ref"
    c.call(kernel, m.y, m.a, weights, addend, params, macs=macs)


def folds(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks that the batch axes, once merged, are at most the kernels' three."""
    a, b, y = views_of(m)
    sizes, _ = batches(a, b, y)
    yield len(sizes) <= 3, f"{len(sizes)} batch axes that cannot be merged (at most 3)"


def contiguous_rows(m: Match) -> bool:
    """Whether the elements of each row of a, and of y, follow one another in memory."""
    a, _, y = views_of(m)
    return all(v.strides[-1] == 1 or v.shape[-1] == 1 for v in (a, y))


# -- the operators ----------------------------------------------------------------------------


@matmul.check
def matmul_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of the type, and that the batch axes fit the kernels' three."""
    yield m.a.dtype in DTYPES, f"dtype {m.a.dtype} (needs a float or integer of 32 or 64 bits)"
    yield from folds(m)


@matmul.lower
def matmul_kernel(c: Recorder, m: Match) -> None:
    """Record a MatMul by the packed kernel, by the kernel on views, or by the general one."""
    if packed(m, m.root):
        record_packed(c, m, m.root, NO_ACT)
    elif m.a.dtype is F32 and contiguous_rows(m):
        record_views(c, m)
    else:
        record_general(c, m, m.root)


@gemm.check
def gemm_supported(m: Match) -> Iterator[tuple[bool, str]]:
    """Checks of the type, and that integers have whole alpha and beta."""
    yield m.a.dtype in DTYPES, f"dtype {m.a.dtype} (needs a float or integer of 32 or 64 bits)"
    scales = [float(m.root.attr(k, 1.0)) for k in ("alpha", "beta")]
    whole = all(s.is_integer() for s in scales)
    yield m.a.dtype.is_float or whole, f"alpha, beta {scales} with integers (need whole numbers)"


@gemm.lower
def gemm_kernel(c: Recorder, m: Match) -> None:
    """Record a Gemm by the packed kernel, or by the general one."""
    if packed(m, m.root):
        record_packed(c, m, m.root, NO_ACT)
    else:
        record_general(c, m, m.root)


# -- fused forms ------------------------------------------------------------------------------


#: The reason why no kernel with packed weights computes a whole match.
NOT_PACKED = "needs constant float32 weights, a bias, at most one residual"


def fused_case(graph: OpPat) -> Iterator[Case]:
    """A product with bias, residual and bounds as the pattern has them."""
    arrays, held = [f32(3, 20), f32(20, 18, low=-0.3, high=0.3)], names(graph)[0]
    arrays += [f32(18)] * ("c" in held) + [f32(3, 18)] * ("r" in held)
    yield with_bounds(graph, arrays, const=(1, 2) if "c" in held else (1,))


_A, _B, _C, _R = map(wildcard, "abcr")
_MATMUL = OP.MatMul(_A, _B, _outputs=["product"])
_GEMM = OP.Gemm(_A, _B, _C, _outputs=["product"], _optional=1)
for _name, _graph in (
    ("matmul", _MATMUL),
    ("matmul_add", OP.Add(_MATMUL, _C)),
    ("matmul_add_add", OP.Add(OP.Add(_MATMUL, _C), _R)),
    ("gemm", _GEMM),
    ("gemm_add", OP.Add(_GEMM, _R)),
):
    fuse(
        _name,
        _graph,
        lambda m: [(packed(m, m.product), NOT_PACKED)],
        record=lambda c, m, act: record_packed(c, m, m.product, act),
        case_of=fused_case,
    )


def _attention(name: str, ta: bool, tb: bool, ty: bool) -> None:
    """Register the pattern `name`: a MatMul with Transposes of a (`ta`), b (`tb`), the result
    (`ty`).

    The Transposes are folded into strides.
    """

    left = OP.Transpose(_A, _outputs=["ta"]) if ta else _A
    right = OP.Transpose(_B, _outputs=["tb"]) if tb else _B
    product = OP.MatMul(left, right, _outputs=["product"])
    graph = OP.Transpose(product, _outputs=["ty"]) if ty else product

    made = portable.declare(name, graph, lower=record_views)

    @made.check
    def fits(m: Match) -> Iterator[tuple[bool, str]]:
        """Checks of float32 without constant weights, whose rows stay contiguous after the
        Transposes.
        """
        yield m.a.dtype is F32, f"dtype {m.a.dtype} (needs float32)"
        yield not (m.b.is_const and m.b.rank == 2), "constant weights are packed instead"
        # Vectors take neighbouring elements of a row.
        yield contiguous_rows(m), "a transpose moves the rows' elements apart"
        yield from folds(m)

    @made.cases
    def one() -> Iterator[Case]:
        """One case of four axes, with the Transposes that the pattern folds."""
        perm = {"ta.perm": [0, 2, 1, 3], "tb.perm": [0, 2, 3, 1]}
        attrs: dict[str, Any] = {k: v for k, v in perm.items() if (ta, tb)["tb" in k]}
        if ty:
            attrs["perm"] = [0, 2, 1, 3]
        a = f32(2, 5, 3, 8) if ta else f32(2, 3, 5, 8)
        b = f32(2, 7, 3, 8) if tb else f32(2, 3, 8, 7)
        yield case(a, b, **attrs)


for _ta, _tb, _ty in [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)]:
    if _ta or _tb or _ty:
        _name = "matmul" + "_ta" * _ta + "_tb" * _tb + "_ty" * _ty
        _attention(_name, bool(_ta), bool(_tb), bool(_ty))


@matmul.cases
def matmul_cases() -> Iterator[Case]:
    """MatMul(A, B): vectors, matrices, batches that broadcast; B constant or computed."""
    yield case(f32(3, 20), f32(20, 18), const=(1,))
    yield case(f32(1, 70), f32(70, 131), const=(1,))
    yield case(f32(2, 5, 33), f32(33, 64), const=(1,))
    yield case(f32(2, 3, 5, 8), f32(2, 3, 8, 17))
    yield case(f32(3, 1, 5, 8), f32(2, 8, 9))
    yield case(f32(2, 1, 4, 3, 5), f32(1, 3, 1, 5, 2))
    yield case(f32(5), f32(2, 5, 3))
    yield case(f32(2, 3, 5), f32(5))
    yield case(f32(7), f32(7))
    yield case(f32(7), f32(7, 4), const=(1,))
    yield case(f32(1, 521), f32(521, 515).astype(np.float16).astype(np.float32), const=(1,))
    yield case(f32(4, 6), f32(6, 3), const=(0,))
    yield case(f32(2, 0), f32(0, 3))
    yield case(f32(4, 2, 0), f32(4, 0, 3))
    yield case(f32(2, 0), f32(0))
    for dtype in ("int64", "int32"):
        yield case(ints(2, 3, 4, dtype=dtype), ints(4, 5, dtype=dtype))
    yield case(*(f32(*s).astype(np.float64) for s in ((3, 4), (4, 5))), rtol=1e-7)


@gemm.cases
def gemm_cases() -> Iterator[Case]:
    """Gemm(A, B, C): transposed operands, factors, a bias that broadcasts."""
    yield case(f32(3, 20), f32(20, 18), f32(18), const=(1, 2))
    yield case(f32(3, 20), f32(18, 20), f32(18), const=(1, 2), transB=1, alpha=0.5, beta=2.0)
    yield case(f32(20, 3), f32(20, 18), f32(3, 1), transA=1, beta=0.5)
    yield case(f32(3, 20), f32(18, 20), transB=1)
    yield case(f32(3, 20), f32(20, 18), f32(3, 18), const=(1,))
    yield case(f32(3, 4), f32(4, 5), f32(1), const=(1, 2))
    wide = [f32(*shape).astype(np.float64) for shape in ((5, 7), (37, 7), (37,))]
    yield case(*wide, const=(1,), transB=1, alpha=0.5, beta=2.0, rtol=1e-7)


@dynamic("MatMul")
def matmul_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a MatMul: rows, columns and batches pass; the summed axis is padded by
    0.

    Columns behind the true size become 0 at once, which lets a kernel leave them out.
    """
    multiplied(x, node, 0, 1)
    y, b = node.outputs[0], needed(node, 1)
    last, axes = len(shape_of(y)) - 1, x.run_sizes(y)
    makers = [needed(node, i).producer() for i in range(2)]
    quantised = any(maker is not None and trait_of(maker, Dequantises) for maker in makers)
    matrix = len(shape_of(b)) > 1 and last in axes and dtype_of(y) == ir.DataType.FLOAT
    if x.frozen or quantised or not matrix:
        return
    kind = [(int(dtype_of(y)), shape_of(y))]
    product = x.node(node, "MatMul", node.inputs, kind)[0]
    x.set(product, axes)
    x.substitute(node, x.neutral(node, product, 0, [last]), axes)


@dynamic("Gemm")
def gemm_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Gemm with dynamic rows or columns, which pass to the result, or a dynamic inner dimension.

    The padding of the inner dimension is 0 in both operands, which are cut to one upper bound.
    Refused: an inner dimension that is dynamic in one operand and known in the other, and an addend
    C that repeats, or does not have, a dynamic dimension of the result.
    """
    a, b, c = needed(node, 0), needed(node, 1), given(node, 2)
    row = int(bool(attribute(node, "transA", 0)))
    column = 1 - int(bool(attribute(node, "transB", 0)))
    found: Axes = {}
    if row in x.run_sizes(a):
        found[0] = x.run_sizes(a)[row]
    if column in x.run_sizes(b):
        found[1] = x.run_sizes(b)[column]
    ends = x.run_sizes(a).get(1 - row), x.run_sizes(b).get(1 - column)
    if (ends[0] is None) != (ends[1] is None):
        raise refused(node, "multiplies a dimension known at run time by a known one")
    if ends[0] is not None and ends[1] is not None:
        require_equal(x, node, ends[0], ends[1], APART)
        node.replace_input_with(0, x.neutral(node, a, 0, [1 - row]))
        node.replace_input_with(1, x.neutral(node, b, 0, [1 - column]))
        fit_inputs(x, node, {0: {1 - row: 0}, 1: {1 - column: 0}})
    if c is not None:
        more = 2 - len(shape_of(c))
        for place, n in list(found.items()):
            axis = place - more
            own = x.run_sizes(c).get(axis)
            if own is None and axis >= 0 and shape_of(c)[axis] != 1:
                raise refused(node, f"adds a known number to dimension {place}")
            if own is not None:
                found[place] = require_equal(
                    x, node, n, own, "adds a bias that may have another size"
                )
        if any(a + more not in found for a in x.run_sizes(c)):
            raise refused(node, "repeats a dimension known at run time only")
    pass_on(x, node, found)


@operands_fit("Gemm")
def gemm_operands(node: ir.Node, partial_values: PartialValues) -> str:
    """The reason why the shapes of a Gemm's operands do not fit each other; "" if they do."""
    a, b = operand_shape(node, 0) or (), operand_shape(node, 1) or ()
    if len(a) != 2 or len(b) != 2:
        return f"a product of {list(a)} and {list(b)} (needs two axes each)"
    rows = a[1 if attribute(node, "transA", 0) else 0]
    columns = b[0 if attribute(node, "transB", 0) else 1]
    return repeats("the addend", operand_shape(node, 2), (rows, columns))
