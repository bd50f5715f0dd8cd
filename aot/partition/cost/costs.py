# SPDX-License-Identifier: Apache-2.0
"""What matches cost in nanoseconds: measured where a table knows, estimated elsewhere.

An estimate is a backend's own (`@pattern.cost`), else its time per call, per multiplication and per
byte moved (`Backend.speed`). A table is what `aotc tune` writes: it holds medians by what a match
computes, so that it serves other models with the same layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from aot.errors import BackendError, UsageError, one_line
from aot.ir.deferred_import import ir
from aot.ir.operators import Interface
from aot.options import Options
from aot.partition.graph import is_view
from aot.target import load_target
from aot.textfile import read_json
from aot.vendor.backend import Backend, Pattern
from aot.vendor.limits import Speed
from aot.vendor.match import Match, NodeRef, ValueRef

Shape = tuple[int, ...]
#: A table of another version has another form, and is refused.
VERSION = 1
#: How much an estimate must be better than measured times to be chosen.
DOUBT = 2.0
#: Portable C on one lane of a vector: multiplications and bytes per nanosecond.
PORTABLE_MACS, PORTABLE_BYTES = 3.0, 0.6


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs on one machine: `lanes` floats to a vector, measured medians by `key_of` a match.

    `reorder_bytes_per_ns` is how fast a layout is changed. Estimates of a backend are multiplied by
    what `slower` has for its name.
    """

    lanes: int = 1
    measured: Mapping[str, float] = field(default_factory=dict)
    reorder_bytes_per_ns: float = 4.0
    slower: Mapping[str, float] = field(default_factory=dict)

    def of(self, backend: Backend, pattern: Pattern, match: Match) -> tuple[float, bool]:
        """(nanoseconds of a match, whether they were measured); a view takes none."""
        if is_view(match):
            return 0.0, True
        known = self.measured.get(key_of(pattern, match))
        if known is not None:
            return known, True
        factor = self.slower.get(backend.name, 1.0)
        own = _estimate(pattern, match)
        if own is not None:
            return own * factor, False
        speed = self.speed(backend)
        work = macs_of(match) / speed.macs_per_ns + bytes_of(match) / speed.bytes_per_ns
        return (speed.call_ns + work) * factor, False

    def calibrated(self, matches: Iterable[tuple[Backend, Pattern, Match]]) -> Costs:
        """The same with estimates made comparable to what was measured of the same backend.

        They are scaled by the median of measured to estimated times, and by DOUBT: of many
        estimates those that are too low would be chosen.
        """
        ratios: dict[str, list[float]] = {}
        for backend, pattern, match in matches if self.measured else ():
            time, known = self.of(backend, pattern, match)
            guess = replace(self, measured={}).of(backend, pattern, match)[0]
            if known and guess > 0:
                ratios.setdefault(backend.name, []).append(time / guess)
        return replace(self, slower={b: DOUBT * median(r) for b, r in ratios.items()})

    def speed(self, backend: Backend) -> Speed:
        """The backend's, or portable C's on this machine."""
        if backend.speed is not None:
            return backend.speed
        return Speed(PORTABLE_MACS * self.lanes, PORTABLE_BYTES * self.lanes)


def _estimate(pattern: Pattern, match: Match) -> float | None:
    """Nanoseconds of a match by the backend's own account, None if it has none.

    BackendError if the account raises, or is negative or not finite.
    """
    where = f"node {match.root.onnx_name} ({match.root.op_type})"
    name = f"{pattern.backend}.{pattern.name}"
    try:
        own = pattern.estimate(match)
        found = None if own is None else float(own)
    except Exception as error:
        why = f"{type(error).__name__}: {one_line(str(error))}"
        raise BackendError(f"{name}: its cost raised {why}", where) from error
    if found is not None and (not math.isfinite(found) or found < 0):
        raise BackendError(f"{name}: its cost is {own} ns", where)
    return found


def key_of(pattern: Pattern, match: Match) -> str:
    """What a match computes: the pattern, operators with attributes, types of operands."""
    nodes = " ".join(_node(n) for n in reversed(match.nodes))
    reads = ",".join(_value(v) for _, v in match.inputs())
    return f"{pattern.backend}.{pattern.name} {nodes} ({reads})"


def _node(node: NodeRef) -> str:
    """The operator and its attributes as text of a key: "Conv[group=1;strides=2x2]"."""
    attributes = node.ir.attributes
    shown = ";".join(f"{k}={_attribute(attributes[k])}" for k in sorted(attributes))
    return f"{node.op_type}[{shown}]" if shown else node.op_type


def _attribute(attribute: ir.Attr) -> str:
    """The value of an attribute as text of a key, or its type where the value is a tensor or a
    graph.
    """
    if attribute.type.name in ("INT", "INTS", "FLOAT", "FLOATS", "STRING", "STRINGS"):
        value: Any = attribute.value
        many = isinstance(value, list | tuple)
        return "x".join(map(str, value)) if many else str(value)
    return attribute.type.name.lower()


def _value(value: ValueRef) -> str:
    """Type and shape of a value as text of a key, with "*" behind a constant: "float32:8x3*"."""
    dims = "x".join(map(str, value.shape))
    return f"{value.dtype}:{dims}{'*' if value.is_const else ''}"


#: Multiplications of a node for the shapes of its first two inputs and of its first output.
multiplications: Interface[Callable[[ir.Node, Shape, Shape, Shape], int]] = Interface(
    "multiplications"
)


def macs_of(match: Match) -> int:
    """Multiplications of the products among a match's nodes."""
    return sum(_macs(n.ir) for n in match.nodes)


def _macs(node: ir.Node) -> int:
    """Multiply-accumulates of a node by the rule of its operator; 0 without a rule or with unknown
    shapes.
    """
    shapes = [_shape(v) for v in (*node.inputs[:2], node.outputs[0])]
    if None in shapes or len(shapes) < 3:
        return 0
    x, w, y = (s for s in shapes if s is not None)
    rule = multiplications.of(node)
    return 0 if rule is None else rule(node, x, w, y)


def _shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """The static shape of `value`, None if it has none."""
    if value is None or value.shape is None:
        return None
    return tuple(int(str(d)) for d in value.shape)


def bytes_of(match: Match) -> int:
    """Bytes of what a match reads and writes."""
    values = [v for _, v in match.inputs()] + list(match.outputs())
    return sum(v.nbytes for v in values)


#: Nanoseconds; larger numbers are no measurement.
_MOST_NS = 1e18


def read_costs(path: Path, cpu: str, lanes: int) -> Costs:
    """The table of costs that `aotc tune` wrote for `cpu`, for vectors of `lanes` floats.

    UsageError if it cannot be read, is of another version or CPU, or has something else than
    positive numbers.
    """
    where = f"--tune {path}"
    read = read_json(path, "table of costs", UsageError)
    if not isinstance(read, dict) or read.get("version") != VERSION:
        raise UsageError(
            f"{path} is no table of costs of this version", where, "aotc tune writes one"
        )
    # Costs of another CPU would look plausible and choose badly, so they are refused.
    if read.get("cpu") != cpu:
        what = f"{path} was measured on {read.get('cpu')}, the target is {cpu}"
        raise UsageError(what, where, "aotc tune, with the same --target, measures again")
    matches = read.get("matches")
    # The file comes from outside: NaN, negative or huge numbers would pass through the search.
    numbers = isinstance(matches, dict) and all(
        isinstance(v, int | float) and 0 <= v < _MOST_NS for v in matches.values()
    )
    rate = read.get("reorder_bytes_per_ns", Costs().reorder_bytes_per_ns)
    if not numbers or not isinstance(rate, int | float) or not 0 < rate < _MOST_NS:
        raise UsageError(f"{path}: its costs are not numbers of nanoseconds", where)
    assert isinstance(matches, dict)
    return Costs(lanes, {str(k): float(v) for k, v in matches.items()}, float(rate))


def costs_for(options: Options) -> Costs:
    """Measured costs if there is a table, else estimates for the target."""
    target = load_target(options.target)
    if options.tune:
        return read_costs(Path(options.tune), target.cpu, target.vlen)
    return Costs(target.vlen)
