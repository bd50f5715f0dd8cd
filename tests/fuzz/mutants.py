# SPDX-License-Identifier: Apache-2.0
"""Fifty bugs to plant: in which file, which text becomes what, which families are to find it.

Most are of the kinds that were really made: a tail of a vector, an axis exchanged, a sign, a bound
off by one, a rounding, an attribute forgotten, a precondition dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

KERNELS = "runtime_c/kernels/aot_"
PASSES = "aot/normalise/"
RULES = "aot/ops/"


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old`, which `file` has, becomes `new`; cases of `families` have to show it."""

    file: str
    old: str
    new: str
    families: str


def kernel(name: str, old: str, new: str, families: str) -> Mutant:
    """A bug in a kernel."""
    return Mutant(f"{KERNELS}{name}.h", old, new, families)


def rewrite(name: str, old: str, new: str, families: str) -> Mutant:
    """A bug in a pass of normalisation."""
    return Mutant(f"{PASSES}{name}.py", old, new, families)


def rule(name: str, old: str, new: str, families: str) -> Mutant:
    """A bug in a rule of normalisation that stands beside its operator."""
    return Mutant(f"{RULES}{name}.py", old, new, families)


MUTANTS = (
    kernel("broadcast", "for (d = 3; d >= 0; --d)", "for (d = 2; d >= 0; --d)", "broadcast,clip"),
    kernel("broadcast", "b_ += p->sb[4]; ", "b_ += p->sa[4]; ", "broadcast,binary"),
    kernel(
        "binary_f32",
        "vb = aot_binary_load_n(b, i, rest, IB)",
        "vb = aot_binary_load_n(b, i, rest, IA)",
        "broadcast",
    ),
    kernel(
        "binary_f32",
        "const aot_vf w = v + aot_binary_load_n(c, i, rest, IC);",
        "const aot_vf w = v + aot_binary_load_n(c, i, 1, IC);",
        "batch_norm",
    ),
    kernel("pool", "(d - 1 - r.at) / d", "(-r.at) / d", "pool"),
    kernel("pool", "(room - 1) / p->d[axis] + 1", "room / p->d[axis] + 1", "pool"),
    kernel("pool_plain", "r = h.at + j * p->d[1];", "r = h.at + j;", "pool"),
    kernel("gather", "(int64_t)p->x_batch * E", "(int64_t)p->inner * E", "gather_nd"),
    kernel(
        "index", "v = v < -n ? 0 : v + n;", "v = v < -n ? 0 : v + n - 1;", "gather,gather_elements"
    ),
    kernel(
        "scatter",
        "(int64_t)((uint64_t)a * (uint64_t)b)",
        "(int64_t)((uint32_t)a * (uint32_t)b)",
        "scatter_nd,scatter_elements",
    ),
    kernel(
        "scatter",
        "*a = AOT_SCATTER_COMBINE(*a, b, R);\n    } else if (T == AOT_SCATTER_F64)",
        "*a = AOT_SCATTER_COMBINE(b, b, R);\n    } else if (T == AOT_SCATTER_F64)",
        "scatter_nd,scatter_elements",
    ),
    kernel("softmax_f32", "lane[k] = 0.0F;", "lane[k] = 1.0F;", "softmax"),
    kernel(
        "softmax_f32",
        "scale = LOG ? aot_vlog(sums) : 1.0F / sums;",
        "scale = LOG ? aot_vlog(sums) : 1.0F / (sums + 1.0F);",
        "softmax",
    ),
    kernel("reduce_f32", "MAP == 2 ? x * x : x", "MAP == 2 ? x * aot_vabs(x) : x", "reduce"),
    kernel("reduce_f32", "aot_vload(r + 3 * step)", "aot_vload(r + 2 * step)", "reduce"),
    kernel("reduce_f32", "i < rest; ++i", "i + 1 < rest; ++i", "reduce"),
    kernel("pad", "r < n ? r : period - r;", "r < n ? r : period - r - 1;", "pad"),
    kernel(
        "pad", "from += (int64_t)s * p->xs[k];", "from += (int64_t)(s - (s > 1)) * p->xs[k];", "pad"
    ),
    kernel("topk", "? v > to[(s - 1) * inner]", "? v >= to[(s - 1) * inner]", "top_k"),
    kernel("conv_f32_plain", "iy = oy * p->sh - p->pt", "iy = oy * p->sh - p->pl", "conv"),
    kernel("conv_f32_plain", "row >= 0 && row < p->ih", "row >= 1 && row < p->ih", "conv"),
    kernel(
        "norm_f32",
        "const aot_vf d = aot_vload_n(x + i, lanes, mean) - m;",
        "const aot_vf d = aot_vload_n(x + i, lanes, 0.0F) - m;",
        "layer_norm,instance_norm",
    ),
    kernel(
        "transpose",
        "aot_move1(y, k * ya + j, x, j * xb + k, E);",
        "aot_move1(y, k * ya + j, x, j * xb + i, E);",
        "transpose",
    ),
    kernel(
        "gru_f32",
        "if (p->coupled != 0) {\n                        v = v",
        "if (p->coupled == 0) {\n                        v = v",
        "recurrent",
    ),
    kernel(
        "lstm_f32",
        "out = aot_vfma(aot_vload(peep + hp + i), next, out);",
        "out = aot_vfma(aot_vload(peep + hp + i), old, out);",
        "recurrent",
    ),
    kernel("quantize", "a / p->block * p->sa", "a * p->sa", "dequantised"),
    kernel(
        "einsum",
        "off[1] -= (int64_t)sb[k] * dims[k];",
        "off[1] -= (int64_t)sa[k] * dims[k];",
        "einsum",
    ),
    kernel(
        "convtranspose_f32",
        "at / p->stride[axis] >= p->in[axis]",
        "at / p->stride[axis] > p->in[axis]",
        "conv_transpose",
    ),
    kernel("where", "(c)[k_ * IC]", "(c)[k_ * (IC & IB)]", "compare"),
    kernel(
        "resize",
        "sum += aot_resize_from(x, n, a[t], p, ROWS)[i] * f[t];",
        "sum += aot_resize_from(x, n, a[0], p, ROWS)[i] * f[t];",
        "resize",
    ),
    rewrite(
        "transposes",
        "[first[p] for p in second]",
        "[second[p] for p in first]",
        "transpose,inverse_pair",
    ),
    rewrite(
        "transposes",
        "{name: perm[axis] for name, axis in found.items()}",
        "dict(found)",
        "turned",
    ),
    rule("reduce", "np.argsort(np.argsort(left))", "np.argsort(left)", "turned"),
    rewrite(
        "transposes", "padded.transpose(inverse)", "padded.transpose(perm)", "transpose,broadcast"
    ),
    rule("transpose", "if shape[a] != 1]", "if shape[a] > 2]", "transpose"),
    rewrite("padding", "    if filled != fill:\n        return None\n", "", "pad_conv"),
    rule("binary", "(1 / other, np.zeros_like", "(other, np.zeros_like", "affine_chain"),
    rule("binary", "(-one, other) if place", "(one, -other) if place", "affine_chain"),
    rewrite(
        "cse",
        "return node.op_type, len(node.outputs), inputs, attributes, marks",
        "return node.op_type, len(node.outputs), inputs, marks",
        "several,reduce,softmax,alike",
    ),
    rewrite(
        "clips",
        "return min(max(first[0], low), high), min(max(first[1], low), high)",
        "return max(first[0], low), min(first[1], high)",
        "clip",
    ),
    rewrite("gemm", "new = weights.T if transposed else weights", "new = weights", "gemm"),
    rewrite(
        "gemm",
        "(bias.astype(np.float64) * beta)",
        "(bias.astype(np.float64) * (beta * beta))",
        "gemm",
    ),
    rewrite("scaling", "shift1 * scale2 + shift2", "shift1 + shift2", "affine_chain,batch_norm"),
    rewrite(
        "batchnorm",
        "gamma / np.sqrt(variance + epsilon)",
        "gamma / (variance + epsilon)",
        "batch_norm",
    ),
    rule(
        "power",
        "float(exponent.ravel()[0]) != 2.0",
        "float(exponent.ravel()[0]) not in (2.0, 3.0)",
        "power",
    ),
    rewrite("unroll", "range(steps)", "range(max(1, steps - 1))", "loop,scan"),
    rewrite(
        "quantised/bias",
        "if np.any(np.abs(steps - quantised) > CLOSE) or np.any(",
        "if np.any(",
        "qdq,fine_bias",
    ),
    rewrite("quantised/signed", "OFFSET = 128", "OFFSET = 127", "qdq"),
    Mutant(
        "aot/ops/slice.py",
        "Axis(len(r), a, b * r.step)",
        "Axis(len(r), a, b * abs(r.step))",
        "slice_",
    ),
    Mutant(
        "aot/ops/concat.py",
        "starts = [0, *itertools.accumulate(p.shape[axis] for p in parts)][:-1]",
        "starts = [0, *itertools.accumulate(p.shape[axis] for p in parts[1:])]",
        "concat",
    ),
)
