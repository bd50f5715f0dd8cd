# SPDX-License-Identifier: Apache-2.0
"""Bodies of DFT and STFT: a transform of constant length is one product with a constant matrix.

Before: y = DFT(x)      After: y = Reshape(MatMul(Reshape(x, [-1, n · c]), M), …)
"""

from __future__ import annotations

from math import prod

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array, array, attribute, given, operand, shape_of
from aot.normalise.decompose import Body, decompose
from aot.shapes.cures import Sizing, always, sizings
from aot.shapes.dynamic.dims import DynamicDims, constant_ints, refused
from aot.shapes.dynamic.rules import dynamic, needed, only_first, pass_on

MOST = 1 << 22
"""Elements that the matrix of a transform may have."""
KINDS = {1: np.float32, 11: np.float64}


def number(b: Body, index: int, default: int) -> int | None:
    """The constant number that input `index` holds; `default` if absent, None if computed at run
    time.
    """
    if not b.has(index):
        return default
    data = array(b.node.inputs[index])
    return None if data is None else int(data.reshape(-1)[0])


sizings("DFT")(Sizing(examples={1: always(8), 2: always(1)}))
sizings("STFT")(Sizing(examples={1: always(4), 3: always(8)}))


@decompose("DFT")
def dft(b: Body) -> bool:
    """Before: DFT(x, length, axis). After: Transpose, MatMul with a table of sines, Transpose.

    x is [..., samples, ..., 1 or 2] (real, or real and imaginary); samples and parts become one row
    of the product. Returns whether the node is replaced: the length and the axis must be constants,
    the type one of KINDS, and the table at most MOST numbers (`matrix`).
    """
    x = operand(b.node, 0)
    inverse = bool(attribute(b.node, "inverse", 0))
    onesided = bool(attribute(b.node, "onesided", 0))
    shape, rank = b.shape(0), len(b.shape(0))
    axis = number(b, 2, -2)
    if axis is None:
        return b.refuse("the axis is computed at run time (needs a constant)")
    if int(x.dtype or 0) not in KINDS:
        return b.refuse(f"dtype {x.dtype}")
    axis %= rank
    n, parts = shape[axis], shape[-1]
    length = number(b, 1, 2 * (n - 1) if inverse and onesided else n)
    if length is None:
        return b.refuse("the length is computed at run time (needs a constant)")
    # The table grows with the square of the length.
    if length < 1 or n * parts * length * 2 > MOST:
        return b.refuse(f"{n} samples to {length} frequencies (a table of at most {MOST} numbers)")
    m = matrix(n, parts, length, inverse, onesided)
    count, width = m.shape[2:]
    others = [i for i in range(rank - 1) if i != axis]
    result = tuple(shape[i] for i in others) + (count, width)
    perm = [*others, axis, rank - 1]
    transposed = b.add("Transpose", "i0", perm=perm)
    rows = b.ints(prod(shape[i] for i in others), n * parts)
    flat = b.data(m.reshape(n * parts, count * width).astype(KINDS[int(x.dtype or 0)]))
    product = b.add("MatMul", b.add("Reshape", transposed, rows), flat)
    shaped = b.add("Reshape", product, b.ints(*result))
    b.add("Transpose", shaped, out="o0", perm=[perm.index(i) for i in range(rank)])
    return shape_of(b.node.outputs[0]) == tuple(result[perm.index(i)] for i in range(rank))


def matrix(n: int, parts: int, length: int, inverse: bool, onesided: bool) -> Array:
    """The table of a DFT, float64 [n, parts, count, width].

    It holds what part i (real, imaginary) of input j adds to part k of output c. `parts` is 2 for
    complex inputs, 1 for real ones; `length` is the DFT's. With `onesided` only length // 2 + 1
    outputs exist, or with `inverse` so many inputs, whose conjugates are counted in, and real
    outputs (width 1).
    """
    half = length // 2 + 1
    count = half if onesided and not inverse else length
    used = min(n, half if onesided and inverse else length)
    turns = np.outer(np.arange(used), np.arange(count)) % length
    angle = 2 * np.pi * turns / length
    cos, sin = np.cos(angle), np.sin(angle) * (1 if inverse else -1)
    m = np.zeros((n, 2, count, 2))
    m[:used, 0, :, 0], m[:used, 0, :, 1] = cos, sin
    m[:used, 1, :, 0], m[:used, 1, :, 1] = -sin, cos
    if inverse:
        m /= length
    if onesided and inverse:
        # The other half of the spectrum is the conjugate of this one.
        single = (0, length // 2) if length % 2 == 0 else (0,)
        m[[j for j in range(used) if j not in single]] *= 2
        return m[:, :parts, :, :1]
    return m[:, :parts]


@decompose("STFT")
def stft(b: Body) -> bool:
    """The nodes of an STFT whose step and frame length are constants: frames, window, DFT.

    A signal is [batch, samples, 1] or, complex, [batch, samples, 2]; [batch, samples] is taken as
    real, as onnxruntime takes it.
    """
    x, rank = b.node.inputs[0], len(b.shape(0))
    if rank not in (2, 3):
        return b.refuse(f"a signal of rank {rank} (needs [batch, samples, 1 or 2])")
    step = number(b, 1, 0)
    window = b.shape(2)[0] if b.has(2) else 0
    length = number(b, 3, window)
    if not step or not length:
        return b.refuse("the step or the length of frames is computed at run time, or 0")
    if x is None or int(x.dtype or 0) not in KINDS:
        return b.refuse(f"dtype {x.dtype if x is not None else None}")
    if window not in (0, length) or length > b.shape(0)[1]:
        return b.refuse(f"frames of {length}, a window of {window}, {b.shape(0)[1]} samples")
    frames = 1 + (b.shape(0)[1] - length) // step
    # Frames overlap, so their samples are gathered.
    index = np.arange(frames)[:, None] * step + np.arange(length)[None, :]
    signal = "i0" if rank == 3 else b.add("Unsqueeze", "i0", b.ints(2))
    cut = b.add("Gather", signal, b.data(index.astype(np.int64)), axis=1)
    if window:
        cut = b.add("Mul", cut, b.add("Reshape", "i2", b.ints(length, 1)))
    onesided = int(attribute(b.node, "onesided", 1))
    b.add("DFT", cut, "", b.data(np.array(2, np.int64)), out="o0", onesided=onesided)
    return True


@dynamic("DFT")
def dft_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic dimensions of a DFT pass; along a dynamic axis zeros fill up to a known length.

    UnsupportedError for a dynamic axis without a length.
    """
    data, own = only_first(x, node), x.run_sizes(needed(node, 0))
    axis = (constant_ints(x, given(node, 2)) or [-2])[0] % len(shape_of(data))
    if axis in own:
        if given(node, 1) is None:
            raise refused(node, "transforms a dimension known at run time only")
        node.replace_input_with(0, x.neutral(node, data, 0, [axis]))
    pass_on(x, node, {a: n for a, n in own.items() if a != axis})


@dynamic("STFT")
def stft_dynamic(x: DynamicDims, node: ir.Node) -> None:
    """Dynamic samples of an STFT give as many frames as they fill, which read no padding.

    UnsupportedError for a step read at run time.
    """
    own, window = dict(x.run_sizes(only_first(x, node))), given(node, 2)
    step, size = constant_ints(x, given(node, 1)), constant_ints(x, given(node, 3))
    length = shape_of(window)[0] if window is not None else (size or [0])[0]
    x.sweep.type_outputs(node)
    if 1 in own:
        if not step:
            raise refused(node, "gets its step at run time")
        most = shape_of(node.outputs[0])[1]
        rest = x.sub(node, own[1], x.ints(node, [length - step[0]]))
        count = x.div(node, x.largest(node, rest, x.ints(node, [0])), x.ints(node, step))
        own[1] = x.new(count, most)
    pass_on(x, node, own)
