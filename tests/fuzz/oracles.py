# SPDX-License-Identifier: Apache-2.0
"""Two oracles, and what a difference is.

Both have bugs, so an output counts only where they agree; where onnxruntime does not load a model
(types or opsets it lacks) or is known to be wrong, onnx.reference speaks alone and the model is
counted apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx
from onnx import inliner
from onnx.numpy_helper import to_array

from aot.ir.string_rows import encode
from aot.options import MAX_STRING
from fuzz.agreed import is_float, misread, untrusted
from fuzz.corrected import evaluator, widen, widen_node
from fuzz.draft import Array, captured, session
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
    twin = wider(model)
    ends = [*model.feeds.values(), *(to_array(t) for t in model.proto.graph.initializer)]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = evaluator(model.proto, ends).run(None, model.feeds)
    found = Expected(dict(zip(model.outputs, map(np.asarray, told), strict=True)))
    if twin is not None:
        compare_twin(found, model, twin)
    alone, guessed = (tainted(model.proto, rule) for rule in (untrusted, misread))
    try:
        second = session(model.proto).run(None, model.feeds)
        wide = session(twin.proto).run(None, twin.feeds) if alone and twin else second
    except Exception as error:
        if alone:
            raise
        found.refusal = str(error).splitlines()[0][:200]
        return found
    found.both = not alone
    for name, b, c in zip(model.outputs, map(np.asarray, second), wide, strict=True):
        a = found.values[name]
        if name in alone:
            found.values[name] = b
            c = np.asarray(c)
            same = c.astype(b.dtype) if is_float(b) and c.dtype != b.dtype else c
            unsure = difference(same, b, model.errors.get(name, 0.0), 0.3)
            # No two agree on extremes of NaN; the reference is wrong here, but not about that.
            unsure = unsure or (a.shape == b.shape and bool((is_nan(a) != is_nan(b)).any()))
            if (unsure or name in guessed) and name not in found.ambiguous:
                found.ambiguous.append(name)
        elif difference(a, b, model.errors.get(name, 0.0), 0.3):
            found.ambiguous += [name] if name not in found.ambiguous else []
        elif is_float(a):
            found.values[name] = b
    return found


def is_nan(array: Array) -> Array:
    """Where a float is none."""
    return np.isnan(array.astype(np.float64)) if is_float(array) else np.zeros(1, np.bool_)


def compare_twin(found: Expected, model: Model, twin: Model) -> None:
    """Results that short floats give otherwise than float32, but for rounding, are not certain."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = evaluator(twin.proto, []).run(None, twin.feeds)
        for name, b in zip(model.outputs, map(np.asarray, exact), strict=True):
            a = found.values[name]
            same = b.astype(a.dtype) if is_float(a) and b.dtype != a.dtype else b
            if difference(same, a, model.errors.get(name, 0.0), 0.3):
                found.ambiguous.append(name)


def tainted(model: onnx.ModelProto, rule: Callable[[onnx.NodeProto], bool]) -> set[str]:
    """Values that depend on a node of which a rule is true."""
    flat = inliner.inline_local_functions(model) if model.functions else model
    found: set[str] = set()
    for n in flat.graph.node:
        if found & {*n.input, *captured(n)} or any(map(rule, [n, *bodies(n)])):
            found |= set(n.output)
    return found - {""}


def bodies(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes of a node's bodies and of theirs."""
    graphs = [a.g for a in node.attribute if a.HasField("g")]
    return [m for g in graphs for n in g.node for m in (n, *bodies(n))]


def wider(model: Model) -> Model | None:
    """The model with float32 in the place of float16 and bfloat16; None if it has none of them.

    onnx.reference rounds after every step inside an operator: only where that makes no difference
    does it say what the result is.
    """
    ends = [*model.feeds.values(), *(to_array(t) for t in model.proto.graph.initializer)]
    if not any(a.dtype.name in ("float16", "bfloat16") for a in ends):
        return None
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    widen(proto.graph)
    for f in proto.functions:
        for n in f.node:
            widen_node(n)
    feeds = {
        k: a.astype(np.float32) if a.dtype.name in ("float16", "bfloat16") else a
        for k, a in model.feeds.items()
    }
    return Model(model.seed, proto, feeds)


def difference(
    got: Array, want: Array, error: float = 0.0, slack: float = 1.0, fast: bool = False
) -> str:
    """Why `got` is not `want`; "" if it is. `error` is what it may be off by besides."""
    if want.dtype.kind in "OSU":
        want = encode(want, MAX_STRING) if got.dtype == np.uint8 else want
        same = got.shape == want.shape and bool((got == want).all())
        return "" if same else f"strings {got.tolist()!r:.200}, expected {want.tolist()!r:.200}"
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    if is_float(want) and want.dtype.name not in TOLERANCE:
        bad = got.view(np.uint8) != want.view(np.uint8)
    elif not is_float(want):
        gap = np.abs(got.astype(np.float64) - want.astype(np.float64))
        bad = gap > error if want.dtype.itemsize <= 2 and want.dtype != np.bool_ else got != want
    else:
        bad = _floats_off(got, want, slack, fast, error)
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{at}: {got[at]!r}, expected {want[at]!r}; {int(bad.sum())} of {bad.size}"


def _floats_off(got: Array, want: Array, slack: float, fast: bool, error: float) -> Array:
    rtol, of_max, atol = TOLERANCE[want.dtype.name]
    g, w = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(g) & np.isfinite(w)
    top = float(np.max(np.abs(w), initial=0.0, where=np.isfinite(w)))
    if fast:
        of_max = max(of_max, 1e-2)
    with np.errstate(all="ignore"):
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        limit = slack * (rtol * np.abs(w) + of_max * top + atol) + error
        near = finite & (np.abs(g - w) <= limit)
        # Next to the type's largest number the last step may round to infinity.
        lower = np.minimum(np.abs(g), np.abs(w))
        most = float(ml_dtypes.finfo(want.dtype).max) - slack * (rtol * lower + of_max * top)
        bad: Array = ~(same | near | ((g * w > 0) & (lower >= most)))
    return bad
