# SPDX-License-Identifier: Apache-2.0
"""Layer by layer: every call is fed the reference's values, and what it makes of them is compared.

The trace program dumps what a call wrote and then puts the reference's value in its place, so the
differences of one layer never reach the next. This is the gate of quantised models: a value that
rounds the other way is no error, but it moves everything behind it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aot.ir import layout as lay
from aot.ir.graph_nodes import Array
from aot.ir.layout import PLAIN, Layout
from aot.ir.node_traits import trait_named
from aot.ir.value_traits import Quantises
from aot.ops.registry import load_all
from aot.tools.compare import Difference, Tolerance, compare
from aot.tools.run import Spec

#: Types of quantised values.
QUANTISED = ("int8", "uint8", "int16", "uint16", "int4", "uint4")
#: Quantised values that several layers make may be so far off on average, or else correlate so
#: well.
DRIFT, CORRELATION = 0.5, 0.98
Key = tuple[int, int]  # call, written argument


@dataclass(frozen=True, slots=True)
class Written:
    """A tensor that a call leaves: the model's value it holds, and how.

    Its quantised values are those of the model less `code_offset`, of `channels` alone if there are
    any. They may differ by `lsb`: one, or three where the call computes quantised values from
    quantised values that it never stores, each of which may differ by one (but see `_allowed`).
    `region` is the vendor's that computes it, or -1; `chain` tells that the call computes several
    layers in a row.
    """

    value: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout
    code_offset: int
    channels: tuple[int, ...] = ()
    lsb: int = 1
    region: int = -1
    chain: bool = False

    def part(self, theirs: Array) -> Array:
        """What is kept of the model's array."""
        return theirs.take(self.channels, axis=1) if self.channels else theirs

    def of_model(self, stored: Array) -> Array:
        """Stored elements as the model has them."""
        if not self.code_offset:
            return stored
        wide = stored.astype(np.int32) + self.code_offset
        return wide.astype(np.uint8 if self.dtype == "int8" else np.uint16)

    def read(self, file: Path) -> Array:
        """The array of a file that a trace program dumped, as the model has it."""
        spec = Spec(self.value, self.shape, self.dtype)
        return self.of_model(stored_array(file.read_bytes(), spec, str(self.layout)))

    def to_store(self, theirs: Array) -> bytes:
        """The model's array in the order and the quantised values of the bundle."""
        data = theirs = self.part(theirs)
        if self.code_offset:
            kind = np.int8 if self.dtype == "int8" else np.int16
            data = (theirs.astype(np.int32) - self.code_offset).astype(kind)
        return lay.to_physical(data, self.layout).tobytes()


@dataclass(frozen=True, slots=True)
class Layers:
    """What the comparison found: a Difference per value, and how many quantised values are
    equal."""

    differences: tuple[Difference, ...] = ()
    quantised: int = 0
    equal: int = 0

    def __add__(self, other: Layers) -> Layers:
        """Of two samples."""
        both = self.differences + other.differences
        return Layers(both, self.quantised + other.quantised, self.equal + other.equal)

    def record(self) -> dict[str, Any]:
        """For --json: a record per value; how many elements are quantised, how many are equal."""
        return {
            "values": [d.record() for d in self.differences],
            "codes": self.quantised,
            "equal_codes": self.equal,
        }

    def text(self) -> str:
        """One line."""
        good = sum(d.passed for d in self.differences)
        share = 100.0 * self.equal / self.quantised if self.quantised else 100.0
        return (
            f"layer by layer: {good} of {len(self.differences)} values agree, "
            f"{self.equal} of {self.quantised} quantised values are equal ({share:.3f} %)"
        )


def is_quantised(manifest: Mapping[str, Any]) -> bool:
    """Whether the model computes with quantised values: it quantises values, or multiplies
    integers."""
    load_all()  # the records of operators say which ones quantise
    ops = {op for node in manifest["nodes"] for op in str(node["op"]).split(" + ")}
    return any(trait_named(op, Quantises) is not None for op in ops)


def written(manifest: Mapping[str, Any]) -> dict[Key, Written]:
    """By (call, number of the result), the values that calls leave behind and that the
    model names.
    """
    segments = manifest.get("memory", {}).get(
        "by_rows", ()
    )  # what is between their ends stays there
    by_rows = {i for s in segments for i in range(s["first"] + 1, s["last"] + 1)}
    return {
        (i, k): Written(
            w["value"],
            tuple(w["shape"]),
            w["dtype"],
            _layout(w["layout"]),
            int(w.get("code_offset", 0)),
            tuple(w.get("channels", ())),
            _allowed(node),
            int(node.get("region", -1)),
            node["op"].split(" + ").count("QuantizeLinear") > 2 or i in by_rows,
        )
        for i, node in enumerate(manifest["nodes"])
        for k, w in enumerate(node.get("writes", ()))
        if w["value"] and w["last"]
    }


def _allowed(node: Mapping[str, Any]) -> int:
    """By how much the quantised values of a call may differ.

    TFLite's 16-bit Softmax counts two units of 2^-15 for each power of e below exp(-10), and its
    tables and roundings add a few: on long rows its results are far from those of float32.
    """
    if node.get("kernel") == "aot_qsoftmax_s16":
        return 2 * int(node["instance"]["AXIS"]) + 8
    return 3 if node["op"].split(" + ").count("QuantizeLinear") > 1 else 1


def _layout(text: str) -> Layout:
    """The layout that a manifest spells, as "plain", "NC16" or "NC16z"."""
    if text == "plain":
        return PLAIN
    return Layout(int(text.removeprefix("NC").removesuffix("z")), text.endswith("z"))


def known(values: Mapping[Key, Written], theirs: Mapping[str, Array]) -> dict[Key, Written]:
    """Those of `values` that the reference has too, with the same shape and type."""
    found = {}
    for key, w in values.items():
        array = theirs.get(w.value)
        if array is None or not _fits(array.shape, w):
            continue
        own = {"int8": "uint8", "int16": "uint16"}[w.dtype] if w.code_offset else w.dtype
        if array.dtype.name == own:
            found[key] = w
    return found


def _fits(shape: tuple[int, ...], w: Written) -> bool:
    """Whether a reference's value of `shape` can be compared with what a call wrote, channels
    chosen.
    """
    if not w.channels:
        return shape == w.shape
    inside = len(shape) > 1 and max(w.channels) < shape[1]
    return inside and (shape[0], len(w.channels), *shape[2:]) == w.shape


def place(folder: Path, values: Mapping[Key, Written], theirs: Mapping[str, Array]) -> None:
    """Write the files that the trace program puts in place of what calls wrote."""
    for (call, k), w in values.items():
        (folder / f"r{call}_{k}.bin").write_bytes(w.to_store(np.asarray(theirs[w.value])))


def differences(
    folder: Path,
    values: Mapping[Key, Written],
    theirs: Mapping[str, Array],
    floats: Callable[[Written, Array, Array], Difference],
) -> Layers:
    """What the trace program dumped against `theirs`.

    `floats` compares what are no quantised values. Quantised
    values that a region's portable fallback computes from what enters the region, layer after
    layer, are gated by `chained`.
    """
    found, quantised, equal = [], 0, 0
    files = dumped(folder)
    # A value without a dump is inside of a vendor's region: what leaves it went through several
    # layers.
    wholes = {w.region for key, w in values.items() if key not in dict(files)} - {-1}
    for key, file in files:
        w = values.get(key)
        if w is None:
            continue
        ours = w.read(file)
        expected = w.part(np.asarray(theirs[w.value]))
        if w.dtype not in QUANTISED:
            found.append(floats(w, ours, expected))
            continue
        quantised += ours.size
        equal += int((ours == expected).sum())
        one = compare(w.value, ours, expected, str(expected.dtype), Tolerance(lsb=w.lsb))
        several = w.chain or w.region in wholes
        found.append(chained(one, ours, expected) if several else one)
    return Layers(tuple(found), quantised, equal)


def dumped(folder: Path) -> list[tuple[Key, Path]]:
    """What a trace program wrote to `folder`, in order: which tensor, and the file of its bytes."""
    lines = (folder / "index.jsonl").read_text(encoding="utf-8").splitlines()
    entries = map(json.loads, lines)
    return [((e["call"], e["k"]), folder / e["file"]) for e in entries]


def not_gated(difference: Difference) -> Difference:
    """A difference that is shown and does not fail, unless it is one of shapes, types or NaN."""
    return replace(difference, gated=math.isnan(difference.max_abs))


def chained(difference: Difference, ours: Array, theirs: Array) -> Difference:
    """The gate of quantised values that several layers make: their mean distance, or their
    correlation.

    A quantised value that rounds the other way moves those behind it, the more the deeper the
    network; a layer that computes something else changes what they say.
    """
    if math.isnan(difference.max_abs) or not difference.reason:
        return difference
    a, b = (x.astype(np.float64).ravel() for x in (ours, theirs))
    mean, alike = float(np.abs(a - b).mean()), _correlation(a, b)
    if mean <= DRIFT or alike >= CORRELATION:
        return not_gated(difference)
    reason = (
        f"{mean:.2f} quantised values off on average (at most {DRIFT}) and correlation {alike:.3f} "
        f"(at least {CORRELATION}); {difference.reason}"
    )
    return replace(difference, reason=reason)


def _correlation(a: Array, b: Array) -> float:
    """Pearson's; 0 if either is constant."""
    x, y = a - a.mean(), b - b.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size else 0.0


def stored_array(data: bytes, spec: Spec, layout: str) -> Array:
    """Stored bytes as an array in ONNX's order; "NC16" is [N, ceil(C/16), *S, 16]."""
    array = np.frombuffer(data, spec.array_dtype)
    if layout == "plain":
        return array.reshape(spec.shape)
    lanes = int(layout.removeprefix("NC").removesuffix("z"))
    n, c, *space = spec.shape
    stored = array.reshape(n, -(-c // lanes), *space, lanes)
    order = (0, 1, stored.ndim - 1, *range(2, stored.ndim - 1))
    return stored.transpose(order).reshape(n, -1, *space)[:, :c]
