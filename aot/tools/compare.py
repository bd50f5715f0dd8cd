# SPDX-License-Identifier: Apache-2.0
"""Comparing arrays with a reference: tolerances by dtype, largest difference, ULP, cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.errors import one_line
from aot.ir.graph_nodes import Array


@dataclass(frozen=True, slots=True)
class Tolerance:
    """|a − b| ≤ rtol·|b| + of_max·max|b| + atol for floats; None = by dtype. `lsb` for integers.

    `slack` widens the defaults: values inside a network may lose digits (a variance as the
    difference of large sums) that its outputs do not show.
    """

    rtol: float | None = None
    of_max: float | None = None
    atol: float = 1e-6
    lsb: int | None = None
    slack: float = 1.0

    def like(self, dtype: str, accuracy: str = "normal") -> Tolerance:
        """This tolerance for values that are of `dtype` and only stored in a wider one."""
        rtol, of_max, _ = self.bounds(dtype, accuracy)
        return Tolerance(rtol, of_max, self.atol, self.lsb)

    def bounds(self, dtype: str, accuracy: str = "normal") -> tuple[float, float, float]:
        """(rtol, of_max, atol) for a float dtype."""
        rtol, of_max = (x * self.slack for x in _BY_DTYPE.get(dtype, (1e-3, 1e-4)))
        if accuracy == "fast":
            rtol, of_max = max(rtol, 0.0), max(of_max, 1e-2)
        atol = 0.0 if dtype == "float64" else self.atol
        return (
            rtol if self.rtol is None else self.rtol,
            of_max if self.of_max is None else self.of_max,
            atol,
        )


_BY_DTYPE = {
    "float32": (1e-3, 1e-4),
    "float16": (1e-2, 1e-2),
    "bfloat16": (0.0, 2.0**-6),
    "float64": (1e-7, 1e-7),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """How far `name` is from the reference. `reason` is empty when every element is in tolerance.

    One that is not `gated` is shown and never fails.
    """

    name: str
    max_abs: float
    max_ulp: int
    cosine: float
    reason: str = ""
    gated: bool = True

    @property
    def passed(self) -> bool:
        """Whether every element is within its tolerance, or need not be."""
        return not (self.reason and self.gated)

    def text(self) -> str:
        """One line."""
        numbers = f"max abs {self.max_abs:.3g}, {self.max_ulp} ULP, cosine {self.cosine:.7f}"
        verdict = f"{'MISMATCH' if self.gated else 'differs'}, {self.reason}"
        return f"{one_line(self.name)}: {numbers}: {verdict if self.reason else 'ok'}"

    def record(self) -> dict[str, Any]:
        """For --json."""
        return {
            "name": self.name,
            "max_abs": _finite(self.max_abs),
            "max_ulp": self.max_ulp,
            "cosine": _finite(self.cosine),
            "passed": self.passed,
            "reason": self.reason,
        }


def _finite(x: float) -> float | str:
    return x if np.isfinite(x) else str(x)


def compare(
    name: str,
    ours: Array,
    reference: Array,
    dtype: str,
    tolerance: Tolerance = Tolerance(),
    accuracy: str = "normal",
) -> Difference:
    """Compare `ours` with `reference`, both of the model's `dtype` (bfloat16 as raw bits)."""
    if ours.shape != reference.shape:
        reason = f"shape {list(ours.shape)}, the reference has {list(reference.shape)}"
        return Difference(name, float("nan"), 0, 0.0, reason)
    if dtype == "bfloat16":
        ours, reference = _widen(ours), _widen(reference)
    if ours.dtype != reference.dtype:
        reason = f"dtype {ours.dtype}, the reference has {reference.dtype}"
        return Difference(name, float("nan"), 0, 0.0, reason)
    if ours.dtype.kind != "f":
        return _integers(name, ours, reference, tolerance)
    return _floats(name, ours, reference, tolerance.bounds(dtype, accuracy))


def _widen(bits: Array) -> Array:
    """Bfloat16 bits (or an array of a bfloat16 type) as float32."""
    raw = bits.view(np.uint16) if bits.dtype.itemsize == 2 else bits
    return (raw.astype(np.uint32) << 16).view(np.float32)


def _integers(name: str, ours: Array, reference: Array, tolerance: Tolerance) -> Difference:
    """The difference of two arrays of integers: exact, or within the tolerance's number of
    steps.
    """
    a, b = ours.astype(object), reference.astype(object)
    gaps = np.abs(a.astype(np.float64) - b.astype(np.float64))
    wrong = ours != reference
    worst = int(gaps.max()) if gaps.size else 0
    allowed = tolerance.lsb or 0
    cosine = _cosine(a.astype(np.float64), b.astype(np.float64))
    if not wrong.any() or 0 < worst <= allowed:
        return Difference(name, worst, worst, cosine)
    at = int(np.argmax(gaps)) if worst else int(np.argmax(wrong.ravel()))
    reason = f"{int(wrong.sum())} of {wrong.size} differ; {_element(ours, reference, at)}"
    return Difference(name, worst, worst, cosine, reason)


def _floats(
    name: str, ours: Array, reference: Array, bounds: tuple[float, float, float]
) -> Difference:
    """The difference of two arrays of floats; `bounds` are relative, of the largest magnitude,
    absolute.

    Infinities and NaN must be equal. The worst element is named where one is off.
    """
    rtol, of_max, atol = bounds
    a, b = ours.astype(np.float64), reference.astype(np.float64)
    special = ~(np.isfinite(a) & np.isfinite(b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.where(np.isfinite(b), np.abs(b), 0.0)
    largest = float(finite.max()) if finite.size else 0.0
    # The difference of two infinities is invalid; `same` has judged these elements.
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b))
    excess = gap - (rtol * finite + of_max * largest + atol)
    # A comparison with NaN is false, so NaN counts as wrong.
    wrong = ~same & (special | ~(excess <= 0.0))
    measured = gap[~special]
    worst = float(measured.max()) if measured.size else 0.0
    ulp = _ulp(ours[~special], reference[~special])
    cosine = _cosine(a[~special], b[~special])
    if not wrong.any():
        return Difference(name, worst, ulp, cosine)
    score = np.where(wrong, np.where(special, np.inf, excess), -np.inf)
    text = _element(ours, reference, int(np.argmax(score)))
    return Difference(name, worst, ulp, cosine, f"{int(wrong.sum())} of {wrong.size} off; {text}")


def _element(ours: Array, reference: Array, at: int) -> str:
    """The index and both values of element `at` (in row-major order), as text."""
    index = [int(i) for i in np.unravel_index(at, ours.shape)]
    return f"at {index}: {ours.flat[at]} (reference {reference.flat[at]})"


_WORDS = {2: np.int16, 4: np.int32, 8: np.int64}


def _ulp(a: Array, b: Array) -> int:
    """The most representable numbers between two finite arrays of one float dtype."""
    if not a.size:
        return 0
    word = _WORDS[a.dtype.itemsize]
    return int(max(abs(int(p) - int(q)) for p, q in _extremes(_rank(a, word), _rank(b, word))))


def _rank(x: Array, word: Any) -> Array:
    """Floats as integers in the same order, -0 and +0 alike."""
    bits = np.ascontiguousarray(x).view(word).astype(np.int64)
    low = np.int64(np.iinfo(word).min)
    ranks: Array = np.where(bits < 0, low - bits, bits)
    return ranks


def _extremes(a: Array, b: Array) -> list[tuple[int, int]]:
    """The pair furthest apart (found in float64, whose rounding cannot hide a large gap)."""
    at = int(np.argmax(np.abs(a.astype(np.float64) - b.astype(np.float64))))
    exact = int(np.argmax(np.abs(a // 2 - b // 2)))
    return [(int(a[i]), int(b[i])) for i in (at, exact)]


def _cosine(a: Array, b: Array) -> float:
    """Cosine of the angle between two arrays; 1 if both are zero."""
    x, y = a.ravel(), b.ravel()
    scale_x, scale_y = (float(np.abs(v).max()) if v.size else 0.0 for v in (x, y))
    if scale_x == 0.0 or scale_y == 0.0:
        return 1.0 if scale_x == scale_y else 0.0
    x, y = x / scale_x, y / scale_y
    return float(np.dot(x, y) / np.sqrt(np.dot(x, x) * np.dot(y, y)))
