# SPDX-License-Identifier: Apache-2.0
"""Dropout: what comes in at inference, and draws where a constant says that it trains.

Before: y = Dropout(x, ratio, training_mode=True)
After: y = Mul(x, Where(RandomUniformLike(x) >= ratio, 1 / (1 - ratio), 0))
"""

from __future__ import annotations

from typing import Any

from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import array, attribute
from aot.ir.operators import Elementwise, Random, operator
from aot.normalise.decompose import FLOAT, Body, decompose
from aot.normalise.identities import identity
from aot.shapes.cures import Sizing, sizings, zeros

operator(
    "Dropout",
    "x ratio? training?",
    "y mask?",
    traits=[Elementwise("x"), Random()],
    rules=[sizings.by(Sizing(examples={2: zeros}))],
)


@identity("Dropout")
def _infers(node: ir.Node) -> bool:
    """Whether a Dropout hands its input on: it has no training_mode, or a constant that is
    false.
    """
    training = node.inputs[2] if len(node.inputs) > 2 else None
    if training is None:
        return True
    mode = array(training)
    return mode is not None and not bool(mode.ravel()[0])


@decompose("Dropout")
def _dropout(b: Body) -> bool:
    """Decompose a Dropout: Identity at inference or with ratio 0, else draws decide.

    A mask of the inference is all true. Refused: a training_mode computed at run time.
    """
    ratio = array(b.node.inputs[1]) if b.has(1) else None
    training = array(b.node.inputs[2]) if b.has(2) else None
    kept = ratio is not None and not ratio.any()
    if b.has(2) and not kept and (training is None or training.any()):
        if training is None:
            return b.refuse("training_mode is computed at run time (needs a constant)")
        return _dropped(b)
    b.add("Identity", "i0", out="o0")
    if len(b.node.outputs) > 1 and b.node.outputs[1].name:
        true = onnx.helper.make_tensor("c", 9, (1,), [True])
        b.add("ConstantOfShape", b.add("Shape", "i0"), value=true, out="o1")
    return True


def _dropped(b: Body) -> bool:
    """Add the nodes of a Dropout that trains; always True.

    Elements whose draw is below the ratio become 0, others grow by 1 / (1 - ratio).
    """
    given = b.add("Cast", "i1", to=FLOAT) if b.has(1) else b.constant(FLOAT, (), [0.5])
    ratio = b.add("Reshape", given, b.ints(1)) if b.has(1) and b.shape(1) == () else given
    seed = attribute(b.node, "seed", None)
    seeded: dict[str, Any] = {} if seed is None else {"seed": float(seed)}
    draws = b.add("RandomUniformLike", "i0", dtype=FLOAT, **seeded)
    mask = b.add("GreaterOrEqual", draws, ratio)
    grown = b.add("Reciprocal", b.add("Sub", b.constant(FLOAT, (1,), [1.0]), ratio))
    factor = b.add("Where", mask, grown, b.constant(FLOAT, (1,), [0.0]))
    b.add("Mul", "i0", b.add("Cast", factor, to=b.kind()), out="o0")
    if len(b.node.outputs) > 1 and b.node.outputs[1].name:
        b.add("Identity", mask, out="o1")
    return True
