# SPDX-License-Identifier: Apache-2.0
"""Two oracles, and what a difference is.

Both have bugs, so an output counts only where they agree; where onnxruntime does not load a model
(types or opsets it lacks) or is known to be wrong, onnx.reference speaks alone and the model is
counted apart.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np

from aot.ops.text import encode
from aot.options import MAX_STRING
from fuzz.draft import Array, is_float, session, untrusted
from fuzz.generate import Model

#: (rtol, of the largest, absolute): the contract's, and a third of it for oracles among themselves.
TOLERANCE = {
    "float32": (1e-3, 1e-4, 1e-6),
    "float16": (1e-2, 1e-2, 1e-6),
    "bfloat16": (0.0, 2.0**-6, 1e-6),
    "float64": (1e-7, 1e-7, 0.0),
}


@dataclass
class Expected:
    """What the oracles say: values by output, those they disagree on, whether both spoke."""

    values: dict[str, Array] = field(default_factory=dict)
    ambiguous: list[str] = field(default_factory=list)
    both: bool = False
    refusal: str = ""


def expected(model: Model) -> Expected:
    """Ask both oracles. Raises what onnx.reference raises."""
    from onnx.reference import ReferenceEvaluator

    nodes = [*model.proto.graph.node, *(n for f in model.proto.functions for n in f.node)]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = ReferenceEvaluator(model.proto).run(None, model.feeds)
    found = Expected(dict(zip(model.outputs, map(np.asarray, told), strict=True)))
    alone = any(untrusted(n) for n in nodes)
    try:
        second = session(model.proto).run(None, model.feeds)
    except Exception as error:
        if alone:
            raise
        found.refusal = str(error).splitlines()[0][:200]
        return found
    if alone:
        found.values = dict(zip(model.outputs, map(np.asarray, second), strict=True))
        return found
    found.both = True
    for name, b in zip(model.outputs, map(np.asarray, second), strict=True):
        a = found.values[name]
        if difference(a, b, model.errors.get(name, 0.0), 0.3):
            found.ambiguous.append(name)
        elif is_float(a):
            found.values[name] = b
    return found


def difference(
    got: Array, want: Array, error: float = 0.0, slack: float = 1.0, fast: bool = False
) -> str:
    """Why `got` is not `want`; "" if it is. `error` is what codes may be off by."""
    if want.dtype.kind in "OSU":
        want = encode(want, MAX_STRING) if got.dtype == np.uint8 else want
        same = got.shape == want.shape and bool((got == want).all())
        return "" if same else f"strings {got.tolist()!r:.200}, expected {want.tolist()!r:.200}"
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    if not is_float(want):
        gap = np.abs(got.astype(np.float64) - want.astype(np.float64))
        bad = gap > error if want.dtype.itemsize <= 2 and want.dtype != np.bool_ else got != want
    else:
        bad = _floats_off(got, want, slack, fast)
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{at}: {got[at]!r}, expected {want[at]!r}; {int(bad.sum())} of {bad.size}"


def _floats_off(got: Array, want: Array, slack: float, fast: bool) -> Array:
    rtol, of_max, atol = TOLERANCE[want.dtype.name]
    g, w = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(g) & np.isfinite(w)
    top = float(np.max(np.abs(w), initial=0.0, where=np.isfinite(w)))
    if fast:
        of_max = max(of_max, 1e-2)
    with np.errstate(all="ignore"):
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        limit = slack * (rtol * np.abs(w) + of_max * top + atol)
        near = finite & (np.abs(g - w) <= limit)
        # Next to the type's largest number the last step may round to infinity.
        bad: Array = ~(same | near)
    return bad
