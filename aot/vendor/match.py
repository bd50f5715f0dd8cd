# SPDX-License-Identifier: Apache-2.0
"""What a check, a cost or a lowering sees of the graph: read-only references by name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aot.errors import InternalError, UnsupportedError
from aot.ir import dtypes
from aot.ir.dtypes import DType
from aot.ir.graph_nodes import attribute
from aot.ir.layout import PLAIN, Layout
from aot.vendor.matcher import Binding
from aot.vendor.region_model import onnx_of

if TYPE_CHECKING:
    import onnx_ir as ir


class _Named:
    """The two names that values and nodes have."""

    __slots__ = ()
    ir: Any

    @property
    def name(self) -> str:
        """Its C identifier."""
        return str(self.ir.name)

    @property
    def onnx_name(self) -> str:
        """The name in the user's file."""
        return str(self.ir.metadata_props.get("aot.onnx_name", self.ir.name))


@dataclass(frozen=True, slots=True)
class ValueRef(_Named):
    """A value of the normalised graph: typed and static.

    `layout` is how the match sees it stored; known during lowering, plain before.
    """

    ir: ir.Value
    layout: Layout = PLAIN

    @property
    def code_offset(self) -> int:
        """How much larger the quantised values in the user's file are than these; 0 if they are the
        same.

        Normalisation makes unsigned quantised values signed.
        """
        return int(self.ir.metadata_props.get("aot.code_offset", "0"))

    @property
    def channels(self) -> tuple[int, ...]:
        """The channels (indices along axis 1) of the user's value that this one has; () for all of
        them.
        """
        return tuple(map(int, self.ir.metadata_props.get("aot.channels", "").split()))

    @property
    def shape(self) -> tuple[int, ...]:
        """The static shape, in elements per axis; InternalError if normalisation left none."""
        if self.ir.shape is None:
            raise InternalError(f"value {self.name} has no shape after normalisation")
        return tuple(int(str(d)) for d in self.ir.shape)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, several to a byte where they are packed."""
        return (math.prod(self.shape) * self.dtype.bits + 7) // 8

    @property
    def packed(self) -> bool:
        """Whether several elements share a byte (False where the type is not known)."""
        found = None if self.ir.dtype is None else dtypes.from_onnx(int(self.ir.dtype))
        return found is not None and found.packed

    @property
    def dtype(self) -> DType:
        """The element type; UnsupportedError if the value has none, or one that C has not."""
        d = dtypes.from_onnx(int(self.ir.dtype)) if self.ir.dtype is not None else None
        if d is None:
            kind = "no element type" if self.ir.dtype is None else self.ir.dtype.name.lower()
            raise UnsupportedError(f'"{self.onnx_name}" has the element type {kind}')
        return d

    @property
    def is_const(self) -> bool:
        """Whether the value is known at compile time."""
        return self.ir.const_value is not None

    @property
    def data(self) -> np.ndarray[Any, Any] | None:
        """The constant's elements, None for other values."""
        return None if self.ir.const_value is None else self.ir.const_value.numpy()

    @property
    def is_input(self) -> bool:
        """Whether it is an input of the graph."""
        return self.ir.is_graph_input()

    @property
    def is_output(self) -> bool:
        """Whether it is an output of the graph."""
        return self.ir.is_graph_output()

    @property
    def uses(self) -> int:
        """How many node inputs read the value."""
        return len(self.ir.uses())


@dataclass(frozen=True, slots=True)
class NodeRef(_Named):
    """A node of the normalised graph."""

    ir: ir.Node

    @property
    def op_type(self) -> str:
        """The operator."""
        return self.ir.op_type

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its first output."""
        return ValueRef(self.ir.outputs[0]).shape

    def attr(self, name: str, default: Any = None) -> Any:
        """The value of attribute `name`, or `default`."""
        return attribute(self.ir, name, default)

    @property
    def first_alone(self) -> tuple[bool, str]:
        """The condition that nobody reads another output of it than the first, with the reason."""
        used = [bool(v.name and (v.uses() or v.is_graph_output())) for v in self.ir.outputs]
        number = next((n for n, read in enumerate(used[1:], 1) if read), 0)
        return not number, f"output {number} is used (only output 0 is computed)"

    def as_model(self) -> tuple[bytes, tuple[ValueRef, ...]]:
        """(the file of a model of ONNX that is this node, what it reads at run time).

        Inputs are called i0, i1 …, outputs o0, o1 ….
        """
        given = dict.fromkeys(v for v in self.ir.inputs if v is not None and v.const_value is None)
        made = [v for v in self.ir.outputs if v.name]
        return onnx_of([self.ir], list(given), made), tuple(map(ValueRef, given))


class Match:
    """A pattern found in the graph. Attributes are the names the pattern gave.

    `m.x` is a ValueRef (None for an absent optional input), `m.conv` a NodeRef where the pattern
    named a node, `m.y` the root's first output (or the names declared as outputs), `m.axis` an
    attribute an operator declared.
    """

    def __init__(
        self,
        nodes: tuple[ir.Node, ...],
        values: dict[str, ValueRef | None],
        named: dict[str, NodeRef],
        attrs: dict[str, Any],
        outputs: tuple[str, ...],
    ) -> None:
        """Keep the parts of a match, all reachable as attributes by their names.

        `nodes` has the root first; `values` are operands and results, `named` nodes with a name,
        `attrs` attributes of the root and groups of variadic inputs, `outputs` names of results.
        """
        self._names: dict[str, Any] = {**attrs, **values, **named}
        self.nodes = tuple(NodeRef(n) for n in nodes)
        self.values = values
        self.attrs = attrs
        self.output_names = outputs

    def __getattr__(self, name: str) -> Any:
        """The value, node or attribute that the pattern calls `name`; AttributeError lists the
        names.
        """
        names = self.__dict__.get("_names")
        if names is None or name not in names:
            raise AttributeError(f"the pattern has no {name!r}; it has {sorted(names or {})}")
        return names[name]

    def with_values(self, values: dict[str, ValueRef | None]) -> Match:
        """The same match on other values, given by name; groups of variadic inputs are exchanged,
        too.
        """
        nodes = tuple(n.ir for n in self.nodes)
        named = {k: v for k, v in self._names.items() if isinstance(v, NodeRef)}
        swapped = {id(v.ir): values[k] for k, v in self.values.items() if v is not None}
        attrs = dict(self.attrs)
        for name, group in self.attrs.items():
            if _is_values(group):
                attrs[name] = tuple(v and swapped[id(v.ir)] for v in group)
        return Match(nodes, values, named, attrs, self.output_names)

    def with_layouts(self, layouts: dict[str, Layout]) -> Match:
        """The same match, its values stored as `layouts` says (by name; others plain)."""
        return self.with_values(
            {k: v and ValueRef(v.ir, layouts.get(k, PLAIN)) for k, v in self.values.items()}
        )

    @property
    def root(self) -> NodeRef:
        """The node whose outputs are the match's results."""
        return self.nodes[0]

    def outputs(self) -> Iterator[ValueRef]:
        """The results of the match that exist, in the order of their names."""
        for name in self.output_names:
            value = self.values[name]
            if value is not None:
                yield value

    def inputs(self) -> Iterator[tuple[str, ValueRef]]:
        """(name, value) of each operand that the match itself does not compute, in the pattern's
        order.

        Constants are among them; absent operands are not.
        """
        inside = {id(o) for n in self.nodes for o in n.ir.outputs}
        for name, value in self.values.items():
            if value is not None and id(value.ir) not in inside:
                yield name, value


def match_of(
    found: Binding,
    outputs: tuple[str, ...],
    attrs: Mapping[str, Any],
    declared: tuple[tuple[str, ...], tuple[str, ...]],
) -> Match:
    """What a backend sees of `found`.

    `outputs` name the results, `attrs` are attributes of the root with their defaults, `declared`
    the names of values and of nodes in all alternatives: those not taken are None.
    """
    values: dict[str, ValueRef | None] = {
        k: None if v is None else ValueRef(v) for k, v in found.values.items()
    }
    for name, value in zip(outputs, found.results, strict=False):
        values[name] = ValueRef(value) if value.name else None
    for name in outputs[len(found.results) :]:
        values[name] = None
    named = {k: NodeRef(n) for k, n in found.nodes.items()}
    # A name given by `_outputs` is the node; its value is found as `<name>_out`.
    for key in named:
        if key in values:
            values[f"{key}_out"] = values.pop(key)
    groups = {
        k: tuple(v and values[f"{k}{i}"] for i, v in enumerate(g)) for k, g in found.groups.items()
    }
    for name in declared[0]:
        absent = name not in values and name not in named and name not in groups
        if absent and name not in declared[1]:
            values[name] = None
    gone: dict[str, Any] = {k: None for k in declared[1] if k not in named}
    known = {k: attribute(found.root, k, v) for k, v in attrs.items()}
    return Match(tuple(found.covered), values, named, {**known, **gone, **groups}, outputs)


def _is_values(a: Any) -> bool:
    """Whether an attribute of a match is a group of values: a tuple that holds a ValueRef."""
    return isinstance(a, tuple) and any(isinstance(v, ValueRef) for v in a)


#: Products that may take an operand of a sum behind them into their own pass.
PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")


def product_shape(m: Match) -> tuple[int, ...]:
    """The shape of the result of the convolution or matrix product in match `m`.

    The match's own result may be larger, where an operand behind the product broadcasts.
    """
    return next(n for n in m.nodes if n.op_type in PRODUCTS).shape


def same_shapes(m: Match, other: ValueRef) -> tuple[bool, str]:
    """A condition and its reason: `other`, the product in `m` and the result have one shape."""
    own = product_shape(m)
    return own == other.shape == m.y.shape, f"{list(other.shape)} beside a product {list(own)}"
