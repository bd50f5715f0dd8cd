# SPDX-License-Identifier: Apache-2.0
"""Matrix products and convolutions by a BLAS with the C interface: OpenBLAS, BLIS."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from aot.vendor import (
    F32,
    OP,
    Backend,
    Case,
    Match,
    Recorder,
    ValueRef,
    WindowShape,
    case,
    f32,
    wildcard,
)

Checks = Iterator[tuple[bool, str]]

backend = Backend(
    "cblas",
    header="aot_cblas.h",
    sources=("aot_cblas.h", "aot_cblas.c"),
    link="CBLAS::cblas",
    find="find_cblas.cmake",
    hint="Install libopenblas-dev or libblis-dev (apt), or set cblas_ROOT to the folder it is in.",
    systems=("linux",),
    folder=Path(__file__).parent,
)
#: Bytes of unfolded image that a convolution multiplies at a time.
COLUMNS_BYTES = 256 * 1024
#: Sizes and strides of the library are C ints.
INT32 = 2**31


def floats(m: Match) -> Checks:
    """Float32 throughout, nothing empty."""
    for name, value in (*m.inputs(), *((n, m.values[n]) for n in m.output_names)):
        if value is not None:
            yield value.dtype is F32, f"{name} has dtype {value.dtype} (needs float32)"
            yield math.prod(value.shape) > 0, f"{name} is empty: {list(value.shape)}"
            yield math.prod(value.shape) < INT32, f"{name} has more than 2^31 elements"


# -- products ----------------------------------------------------------------------------------


def _sizes(m: Match) -> tuple[int, int, int, int, int, int]:
    """(products, m, n, k, elements from one a to the next, from one b to the next)."""
    a, b = m.a.shape, m.b.shape
    ta, tb = (int(m.product.attr(k, 0)) for k in ("transA", "transB"))
    k, n = (b[-1], b[-2]) if tb else (b[-2], b[-1])
    rows = a[-1] if ta else a[-2]
    if len(b) == 2:
        return 1, rows * math.prod(a[:-2]), n, k, 0, 0
    return math.prod(a[:-2]), rows, n, k, rows * k, k * n


def product_fits(m: Match) -> Checks:
    """Equal batches, or one matrix on the right; a bias per column."""
    a, b = m.a.shape, m.b.shape
    yield min(len(a), len(b)) >= 2, f"ranks {len(a)} and {len(b)} (need 2 or more)"
    if min(len(a), len(b)) < 2:
        return
    same = len(b) == 2 or a[:-2] == b[:-2]
    yield same, f"batches {list(a[:-2])} and {list(b[:-2])} (need to be equal)"
    c = m.values.get("c")
    if c is not None:
        n = m.product.ir.outputs[0].shape[-1]
        per_column = c.is_const and math.prod(c.shape) == n and c.shape[-1:] == (n,)
        yield per_column, f"bias of shape {list(c.shape)} (needs {n} constants, one per column)"
    sizes = _sizes(m)
    yield max(sizes) < INT32, f"sizes {list(sizes)} (need to be below 2^31)"


def to_product(c: Recorder, m: Match) -> None:
    """Record a product, alone or followed by Relu: y = relu(alpha * a @ b + beta * c).

    Steps between the matrices of a batch count floats, 0 for an operand that all of them share. The
    bias [n] is multiplied by beta at compile time.
    """
    batch, rows, n, k, step_a, step_b = _sizes(m)
    alpha, beta = float(m.product.attr("alpha", 1.0)), float(m.product.attr("beta", 1.0))
    bias = m.values.get("c")
    # The C function adds a row and knows no factor of it.
    held = None
    if bias is not None:
        held = c.const(np.asarray(bias.data, np.float32).reshape(-1) * np.float32(beta), "bias")
    params = c.params(
        batch=batch,
        m=rows,
        n=n,
        k=k,
        step_a=step_a,
        step_b=step_b,
        transposed_a=int(m.product.attr("transA", 0)),
        transposed_b=int(m.product.attr("transB", 0)),
        relu=m.root.op_type == "Relu",
        alpha=alpha,
    )
    c.call("aot_cblas_product", m.y, m.a, m.b, held, params, macs=batch * rows * n * k)


# -- convolutions ------------------------------------------------------------------------------


def conv_fits(m: Match) -> Checks:
    """Two axes, one group, constant weights."""
    yield m.x.rank == 4, f"rank {m.x.rank} (needs 4)"
    yield m.conv.attr("group", 1) == 1, f"group {m.conv.attr('group', 1)} (needs 1)"
    yield m.w.is_const, "weights are computed (need to be constant)"
    b = m.values.get("b")
    yield b is None or b.is_const, "the bias is computed (needs to be constant)"
    if m.x.rank == 4:
        columns = m.w.shape[1] * m.w.shape[2] * m.w.shape[3] * m.y.shape[3] * 4
        yield columns < INT32, f"a row of the unfolded image has {columns} bytes (needs < 2^31)"


def to_conv(c: Recorder, m: Match) -> None:
    """Record a float32 convolution of [n, ci, h, w] with groups = 1, then Relu if there is one.

    The call unfolds some rows of the image to columns, as many as COLUMNS_BYTES hold and one at
    least, and multiplies them with the weights; a 1 x 1 window without strides and padding is
    multiplied where it lies, without scratch.
    """
    window = WindowShape.of(m.conv, m.w.shape[2:])
    (sh, sw), (dh, dw), (pt, pl) = window.strides, window.dilations, window.before
    n, ci, h, w = m.x.shape
    co, _, kh, kw = m.w.shape
    oh, ow = m.y.shape[2:]
    padded = any(window.before + window.after)
    direct = (kh, kw) == (1, 1) and (sh, sw) == (1, 1) and not padded
    row = ci * kh * kw * ow * 4
    rows = oh if direct else max(1, min(oh, COLUMNS_BYTES // row))
    scratch = None if direct else c.scratch(rows * row, "columns")
    params = c.params(
        n=n, ci=ci, h=h, w=w, co=co, oh=oh, ow=ow, kh=kh, kw=kw, rows=rows,
        sh=sh, sw=sw, dh=dh, dw=dw, pt=pt, pl=pl, relu=m.root.op_type == "Relu",
    )  # fmt: skip
    macs = n * co * oh * ow * ci * kh * kw
    bias: ValueRef | None = m.values.get("b")
    c.call("aot_cblas_conv", m.y, m.x, m.w, bias, scratch, params, macs=macs)


# -- the patterns ------------------------------------------------------------------------------


def products() -> Iterator[Case]:
    """One matrix on the right, equal batches."""
    yield case(f32(5, 7), f32(7, 3, seed=1))
    yield case(f32(2, 3, 4, 6), f32(2, 3, 6, 5, seed=1))
    yield case(f32(2, 9, 6), f32(6, 4, seed=1), const=(1,))
    yield case(f32(1, 70), f32(70, 33, seed=1), const=(1,))


def gemms() -> Iterator[Case]:
    """Transposed and scaled operands."""
    yield case(f32(4, 6), f32(5, 6, seed=1), f32(5, seed=2), transB=1, const=(1, 2))
    yield case(f32(6, 4), f32(6, 5, seed=1), transA=1, alpha=0.5)


def convolutions() -> Iterator[Case]:
    """Direct, unfolded, strided, dilated, padded on one side, more than one image."""
    yield case(f32(2, 5, 6, 7), f32(4, 5, 1, 1, seed=1), const=(1,))
    yield case(f32(1, 3, 9, 8), f32(6, 3, 3, 3, seed=1), f32(6, seed=2), pads=[1, 1, 1, 1],
               const=(1, 2))  # fmt: skip
    yield case(f32(2, 4, 11, 9), f32(3, 4, 3, 2, seed=1), strides=[2, 3], pads=[0, 1, 2, 0],
               dilations=[2, 1], const=(1,))  # fmt: skip
    yield case(f32(1, 16, 70, 65), f32(8, 16, 5, 5, seed=1), const=(1,))


_MATMUL = OP.MatMul(wildcard("a"), wildcard("b"), _outputs=["product"])
_GEMM = OP.Gemm(*map(wildcard, "abc"), _optional=1, _outputs=["product"])
_CONV = OP.Conv(*map(wildcard, "xwb"), _optional=1, _outputs=["conv"])
for _name, _graph, _fits, _lower, _cases in (
    ("matmul_bias", OP.Add(_MATMUL, wildcard("c")), product_fits, to_product, None),
    ("matmul", _MATMUL, product_fits, to_product, products),
    ("gemm", _GEMM, product_fits, to_product, gemms),
    ("conv", _CONV, conv_fits, to_conv, convolutions),
):
    backend.declare(_name, _graph, floats, _fits, lower=_lower, cases=_cases)
    backend.declare(f"{_name}_relu", OP.Relu(_graph), floats, _fits, lower=_lower)
