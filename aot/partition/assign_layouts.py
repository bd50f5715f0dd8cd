# SPDX-License-Identifier: Apache-2.0
"""Which layout every match reads and writes its values in, and where conversions are needed.

One forward walk: a pattern says what it wants given what arrives. A value is converted at most
once per layout; a conversion that moves no byte is a view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aot.errors import AotError, BackendError
from aot.ir.layout import PLAIN, Layout
from aot.partition.result import Partition, Selected
from aot.vendor.backend import Pattern
from aot.vendor.match import Match, ValueRef


@dataclass(frozen=True, slots=True)
class Placed:
    """A selected match and the layout of each of its named values."""

    selected: Selected
    layouts: dict[str, Layout]


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """Matches with layouts, in order; `produced` is each value's own layout by value name."""

    items: tuple[Placed, ...]
    produced: dict[str, Layout] = field(default_factory=dict)


def assign_layouts(
    partition: Partition, vlen: int, arriving: Mapping[str, Layout] | None = None
) -> LayoutPlan:
    """A layout for each value of each match, chosen match by match in the order of the partition.

    A match sees the layouts that its inputs come in (PLAIN if nothing is promised) and chooses
    those of its own values; whoever reads a value in another layout pays for a conversion later.
    `vlen` is the number of floats in a vector, `arriving` has layouts by value name that are there
    from the start. BackendError if a rule raises or wants blocks of channels for a rank that has
    none.
    """
    produced: dict[str, Layout] = dict(arriving or {})
    maker: dict[str, str] = {}
    items = []
    for selected in partition.items:
        match = selected.match
        incoming = {
            name: promised(produced.get(v.name, PLAIN), maker.get(v.name) == selected.backend)
            for name, v in match.values.items()
            if v is not None
        }
        # Portable kernels read blocks of their own width only: another block count becomes PLAIN
        # here.
        if selected.backend == "c":
            incoming = {n: _portable(match, n, at, vlen) for n, at in incoming.items()}
        wanted = wanted_layouts(selected.pattern, match, incoming, vlen)
        layouts = {name: wanted.get(name, PLAIN) for name in match.values}
        for name in match.output_names:
            value = match.values[name]
            if value is not None:
                _legal(selected, value, layouts[name])
                produced[value.name] = layouts[name]
                maker[value.name] = selected.backend
        items.append(Placed(selected, layouts))
    return LayoutPlan(tuple(items), produced)


def promised(layout: Layout, own: bool) -> Layout:
    """Zeros in pad lanes are a promise a backend's kernels make to each other only."""
    return layout if own else Layout(layout.block)


def _portable(match: Match, name: str, layout: Layout, vlen: int) -> Layout:
    """`layout` as portable C sees it: kernels of floats know blocks of `vlen` channels alone."""
    value = match.values[name]
    known = layout.block in (0, vlen) or value is None or value.dtype.nbytes == 1
    return layout if known else PLAIN


def wanted_layouts(
    pattern: Pattern, match: Match, incoming: dict[str, Layout], vlen: int
) -> dict[str, Layout]:
    """The layouts that a match wants by name, PLAIN left out; BackendError if its rule raises, or
    gives what is no value of the pattern or no layout.
    """
    label = f"{pattern.backend}.{pattern.name}: its layout rule"
    where = f"node {match.root.onnx_name} ({match.root.op_type})"
    try:
        wanted = pattern.choose_layouts(match, incoming, vlen)
        for name, layout in wanted.items():
            if name not in match.values or not isinstance(layout, Layout):
                what = f"{label} gives {name!r} the layout {layout!r}"
                known = f"the pattern's values are {', '.join(match.values)}; each may get a Layout"
                raise BackendError(what, where, known)
        return wanted
    except AotError:
        raise
    except Exception as error:
        raise BackendError(
            f"{label} raised {type(error).__name__}: {error}",
            where,
            "this is a defect of the backend, not of the model",
        ) from error


def _legal(selected: Selected, value: ValueRef, layout: Layout) -> None:
    """Raise BackendError if `layout` has blocks of channels and `value` is not of rank 3, 4
    or 5.
    """
    if layout.blocked and not 3 <= value.rank <= 5:
        raise BackendError(
            f"{selected.backend}.{selected.pattern.name} wants layout {layout} for a value of "
            f"rank {value.rank} (needs 3 to 5)",
            f"node {selected.match.root.onnx_name}",
        )
