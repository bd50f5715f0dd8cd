# SPDX-License-Identifier: Apache-2.0
"""Zero padding before a convolution becomes its own.

Before: y = Conv(Pad(x, [0,0,1,1, 0,0,1,1]), w, pads=[0,0,0,0])
After:  y = Conv(x, w, pads=[1,1,1,1])
Pools take padding the same way, a MaxPool that of -infinity; a convolution of quantised values that
of the zero point: Before: y = Conv(DequantizeLinear(Pad(x, [0,0,1,1, 0,0,1,1], z), s, z), w,
pads=[0,0,0,0]) After:  y = Conv(DequantizeLinear(x, s, z), w, pads=[1,1,1,1])
"""

from __future__ import annotations

import numpy as np

from aot.ir.deferred_import import ir
from aot.ir.graph_edit import Editor, producer, single_use
from aot.ir.graph_nodes import array, attribute, shape_of
from aot.ir.operators import Window, trait_of
from aot.load.options import LoadOptions
from aot.normalise.form import Form
from aot.normalise.quantised.common import add_dequantise, dequantised, params_of

_ELSE = (
    "other axes than those of space are padded, amounts are negative, or the mode is another one"
)
FORMS = (
    Form('Conv(Pad(x, p, mode="constant"), w, *)', "Conv(x, w, pads=…)", _ELSE),
    Form('Conv(Pad(x, p, 0, mode="constant"), w, *)', "Conv(x, w, pads=…)", _ELSE),
)


def padding(edit: Editor, options: LoadOptions) -> None:
    """Merge constant Pads on spatial axes into the only node that reads them."""
    for node in edit.graph:
        window = trait_of(node, Window)
        if window is None or not isinstance(window.padding, float | int):
            continue
        # Kernels of quantised values pad with the zero point: a Pad of the float values becomes
        # that.
        quantised = dequantised(node.inputs[0]) if window.kernel else None
        if quantised is not None:
            _of_quantised(edit, node, quantised)
            continue
        pad = producer(node.inputs[0], "Pad")
        # A padded value that others read, too, must be there anyway.
        if pad is None or single_use(pad.outputs[0]) is not node:
            continue
        amounts = _spatial_amounts(pad, window.padding)
        if amounts is None:
            continue
        begins, ends = amounts
        old = [int(p) for p in attribute(node, "pads")]
        merged = [a + b for a, b in zip(old, [*begins, *ends], strict=True)]
        # ONNX demands that a pool's pads are smaller than its kernel, and AveragePool's count anew.
        if not window.kernel and (
            any(old) or not _smaller(merged, attribute(node, "kernel_shape"), len(old) // 2)
        ):
            continue
        edit.set_attribute(node, "pads", merged)
        edit.set_input(node, 0, pad.inputs[0])
        edit.remove(pad)


def _of_quantised(edit: Editor, conv: ir.Node, source: ir.Node) -> None:
    """Merge the Pad of the quantised values that `source` dequantises for the convolution."""
    pad, p = producer(source.inputs[0], "Pad"), params_of(source)
    if pad is None or p is None or not p.per_tensor:
        return
    if single_use(pad.outputs[0]) is not source or single_use(source.outputs[0]) is not conv:
        return
    amounts, quantised = _spatial_amounts(pad, float(p.zero)), pad.inputs[0]
    if amounts is None or quantised is None:
        return
    old = [int(v) for v in attribute(conv, "pads")]
    merged = [a + b for a, b in zip(old, [*amounts[0], *amounts[1]], strict=True)]
    edit.set_attribute(conv, "pads", merged)
    edit.set_input(conv, 0, add_dequantise(edit, quantised, p, before=conv))
    edit.remove(source, pad)


def _smaller(pads: list[int], kernel: list[int], rank: int) -> bool:
    """Whether every window holds at least one real element."""
    return all(p < k for p, k in zip(pads, [*kernel[:rank], *kernel[:rank]], strict=True))


def _spatial_amounts(pad: ir.Node, fill: float) -> tuple[list[int], list[int]] | None:
    """(begins, ends) per spatial axis of a Pad with `fill` on no other axis."""
    if str(attribute(pad, "mode", "constant")) != "constant" or pad.inputs[0] is None:
        return None
    value = pad.inputs[2] if len(pad.inputs) > 2 else None
    filled = 0.0
    if value is not None:
        data = array(value)
        if data is None or data.size != 1:
            return None
        filled = float(data.ravel()[0])
    # The fill must be what the window's own padding stands for, 0 or -infinity.
    if filled != fill:
        return None
    amounts = array(pad.inputs[1])
    rank = len(shape_of(pad.inputs[0]))
    axes = array(pad.inputs[3]) if len(pad.inputs) > 3 else np.arange(rank)
    if amounts is None or axes is None or np.any(amounts < 0):
        return None
    begins, ends = [0] * rank, [0] * rank
    for index, axis in enumerate(axes.tolist()):
        begins[axis], ends[axis] = int(amounts[index]), int(amounts[index + axes.size])
    # Windows pad spatial axes only.
    if any(begins[:2]) or any(ends[:2]):
        return None
    return begins[2:], ends[2:]
