# SPDX-License-Identifier: Apache-2.0
"""One forward sweep that leaves every value with an element type and a static shape.

onnx's bulk inference has typed what it can; here each node that is still open is inferred alone,
with every known value handed to it as a constant. What stays open is an error that names node,
value and dimension; what is inconsistent or absurdly large is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from aot.errors import AotError, ModelError, UnsupportedError, raise_all
from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_edit import inline_branch
from aot.ir.graph_nodes import (
    NOTES,
    Array,
    array,
    ir_dtype,
    is_typed,
    original_name,
    set_type,
    shape_of,
    static_shape,
    subgraphs,
    title,
)
from aot.ir.onnx_subprocess import Child, strictly
from aot.ir.operators import DataSized, Interface, trait_of
from aot.shapes.checks import axis_problem, misfit, problem
from aot.shapes.containers import Containers
from aot.shapes.control import Control, controls, types_bodies
from aot.shapes.control_flow_isolated import bodies, is_isolated, type_results
from aot.shapes.cures import Reading, late
from aot.shapes.dynamic.dims import DynamicDims, refused
from aot.shapes.dynamic.input_dims import Dimension, check_counts, open_dimensions
from aot.shapes.dynamic.kept_dims import hand_on
from aot.shapes.dynamic.propagate import flows
from aot.shapes.dynamic.rules import dynamic, is_sized_by_data
from aot.shapes.evaluate import Invalid, evaluate
from aot.shapes.geometry import counts_text, geometry_problem
from aot.shapes.infer_node import NodeError, infer_as, infer_node
from aot.shapes.known_late import KnownLate
from aot.shapes.limits import SMALL_ELEMENTS, excess
from aot.shapes.partial_values import Known, PartialValues, lookup, propagate, settle
from aot.shapes.reference import Unknown
from aot.shapes.signatures import type_problem
from aot.shapes.types import Rule, Type, TypedAs, infer_types

#: Operators that are others in other words: a rule rewrites the node in place before it is typed,
#: and raises ValueError if its attributes do not fit.
respells: Interface[Callable[[ir.Node], None]] = Interface("respell")

EVALUATED_ELEMENTS = 1 << 20
"""The most elements that an input may have of an operator that is evaluated for its size, and the
largest count that it may name."""


def infer(
    model: ir.Model,
    hints: Mapping[str, onnx.TypeProto] | None = None,
    rules: Mapping[tuple[str, str], Rule] | None = None,
    max_string: int = 0,
    dimensions: Sequence[Dimension] = (),
    pinned: bool = True,
    counts: Mapping[str, int] | None = None,
    states: Mapping[str, str] | None = None,
) -> None:
    """Type every value of `model` in place; raise all errors found.

    `hints` are the types the file declares for the outputs, compared with what is inferred;
    `rules` infers operators onnx does not know; strings have at most `max_string` bytes; every run
    says how long the `dimensions` are. `pinned` tells that the user said something about sizes;
    `counts` are inputs that every run compares with the most they can be, `states` maps inputs to
    the outputs that the next run gets for them.
    An If of known condition is replaced by its branch: the other one may not even fit.
    Postcondition: every value has a dtype and a static shape.
    """
    with Child(strictly) as child:
        sweep = Sweep(model, rules or {}, max_string, child)
        sweep.reading.ranges = open_dimensions(sweep.dims, model.graph, dimensions, states or {})
        check_counts(sweep.dims, model.graph, counts or {})
        sweep.run(model.graph)
    raise_all(sweep.errors)
    model.graph.meta[NOTES] = (*model.graph.meta.get(NOTES, ()), *sweep.control.notes)
    for node, branch in sweep.control.taken:
        axes = [(i, sweep.dims.run_sizes(v)) for i, v in enumerate(model.graph.outputs)]
        inline_branch(node, branch)
        for index, own in axes:  # an output of the If has become one of the branch
            sweep.dims.set(model.graph.outputs[index], own)
    sweep.containers.finish(model.graph)
    axes_of = {i: set(sweep.dims.run_sizes(v)) for i, v in enumerate(model.graph.outputs)}
    errors = _contradictions(model.graph, hints or {}, axes_of, pinned)
    raise_all(errors)
    hand_on(sweep.dims, model.graph, states or {})
    sweep.dims.finish(model.graph)
    for graph in [model.graph, *subgraphs(model.graph)]:
        settle(graph, sweep.partial_values)
    assert_typed(model)


def assert_typed(model: ir.Model) -> None:
    """ModelError unless every value has an element type and a static shape."""
    for graph in [model.graph, *subgraphs(model.graph)]:
        for node in graph:
            for value in node.outputs:
                if value.name and not is_typed(value):
                    raise _open_value(node, value)


#: What a rule raises on a node that onnx's checker should not have let pass.
BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class Sweep:
    """State of one inference: what is known, what went wrong."""

    def __init__(
        self,
        model: ir.Model,
        rules: Mapping[tuple[str, str], Rule],
        max_string: int,
        child: Child,
    ) -> None:
        """Prepare the inference of all values of `model`.

        `rules` are shape rules of backends by (domain, operator), `max_string` is the longest
        string in bytes, `child` the process in which onnx infers.
        """
        self.model = model
        self._child = child
        self.max_string = max_string
        self._rules = rules
        self.partial_values: PartialValues = {}
        self.errors: list[AotError] = []
        self.containers = Containers(self)
        self.dims = DynamicDims(self)
        self.reading = Reading()
        self.reading.note(model.graph)
        self.control = Control(self, self.dims, self.containers)

    def run(self, graph: ir.Graph) -> None:
        """Type the values of `graph`, whose inputs and outer values are typed."""
        for node in graph:
            self.step(node)

    def step(self, node: ir.Node) -> None:
        """Type the results of a node; what is wrong is noted."""
        if not self.containers.ready(node):
            return
        known, values = len(self.errors), [original_name(o) for o in node.outputs]
        self._try(node)
        for error in self.errors[known:]:
            error.values = error.values or tuple(values)  # those of a body have their own

    def _try(self, node: ir.Node) -> None:
        """Visit a node; an error is noted in `errors` with the node's title and inputs."""
        try:
            self.visit(node)
        except (Invalid, NodeError) as e:
            self.errors.append(ModelError(f"{title(node)}: {e}", _inputs_text(node)))
        except KnownLate as e:
            self.errors.append(late(node, e, self.dims, self.reading))
        except AotError as e:
            self.errors.append(e)
        except BROKEN as e:
            what = f"{title(node)}: its inputs and attributes fit no rule ({type(e).__name__}: {e})"
            hint = "the file may be damaged; if it runs elsewhere, please report it"
            self.errors.append(ModelError(what, _inputs_text(node), hint))

    def visit(self, node: ir.Node) -> None:
        """Infer, check and evaluate one node whose inputs are typed.

        Raises Invalid, KnownLate or another AotError for a node that cannot be compiled.
        """
        if is_isolated(node):
            for body in bodies(node):
                self.run(body)
            type_results(node)
            return
        control = controls.of(node)
        if control is None and self.containers.concerns(node):
            if self.dims.concern(node):
                raise refused(node, "holds a tensor whose shape is known at run time only")
            self.containers.visit(node)
            return
        if (respell := respells.of(node)) is not None:
            try:
                respell(node)
            except ValueError as e:
                raise Invalid(str(e)) from None
        reason = type_problem(node, self.model.opset_imports.get(node.domain, 0))
        reason = reason or axis_problem(node)
        if reason:
            raise Invalid(reason)
        reason, hint = geometry_problem(node, self.partial_values)
        if reason:
            raise ModelError(f"{title(node)}: {reason}", _inputs_text(node), hint)
        if control is not None:
            if control(self.control, node):
                return
        elif (rule := types_bodies.of(node)) and not self.dims.concern(node):
            rule(self.control, node)
            self.type_outputs(node)
        elif self.dims.concern(node):
            if self.dims.frozen:
                raise refused(node, "meets, in a loop, a dimension known at run time only")
            self._fitting(node)
            flows(self.dims, node)
        else:
            self.type_outputs(node)
            open_ = not _is_done(node) and not self.dims.frozen
            bounded = dynamic.of(node) if open_ and is_sized_by_data(node) else None
            if bounded is not None:
                self._fitting(node)
                bounded(self.dims, node)
        if node.graph is None:  # others took its place
            return
        for value in node.outputs:
            if not value.name:
                continue
            if not is_typed(value):
                raise _open_value(node, value)
            reason = excess(shape_of(value))
            if reason:
                given = counts_text(node, self.partial_values)
                where = ", ".join(part for part in (_inputs_text(node), given) if part)
                what = f'{title(node)}: output "{original_name(value)}": {reason}'
                raise ModelError(what, where)
        reason = problem(node, self.partial_values)
        if reason:
            raise Invalid(reason)
        propagate(node, self.partial_values)

    def type_outputs(self, node: ir.Node) -> None:
        """Infer what is open of the outputs; what stays open is left without a static shape."""
        if not _is_done(node):
            self._infer(node)

    def _fitting(self, node: ir.Node) -> None:
        """Compare the operands of a node before others take its place.

        What follows the first may be shorter in a run: that is for the operator's rule to say.
        """
        if any(self.dims.run_sizes(i) for i in node.inputs[1:]):
            return
        if reason := misfit(node, self.partial_values):
            raise Invalid(reason)

    def _infer(self, node: ir.Node) -> None:
        """Type the outputs of a node: by evaluation, by a rule, or by onnx. Raises Invalid."""
        # Values decide the shape: with all of them known, the result itself says it.
        if trait_of(node, DataSized) is not None and self._evaluated(node):
            return
        rule = self._rules.get((node.domain, node.op_type)) or infer_types.of(node)
        if rule is None:
            types = infer_node(node, self.partial_values, self.model, self._child)
        else:
            given = [_type(i) for i in node.inputs]
            try:
                if isinstance(rule, TypedAs):
                    types = infer_as(node, rule, given, self._child)
                else:
                    types = list(rule(node, given))
            except (ValueError, IndexError) as e:
                raise Invalid(str(e)) from None
            # A rule that meets an absent operand fails in such ways: the model is at fault, not the
            # rule.
            except (AssertionError, AttributeError, TypeError):
                raise Invalid(
                    "an operand is missing or of a kind that its rule is not for"
                ) from None
        for value, found in zip(node.outputs, types, strict=False):
            if found is not None and value.name:
                set_type(value, *found)

    def _evaluated(self, node: ir.Node) -> bool:
        """Type a node of small constant inputs by its results; whether that was possible."""
        inputs: list[Array | None] = []
        for value in node.inputs:
            known = lookup(value, self.partial_values)
            data = known.data if known is not None and known.full else array(value)
            if value is not None and (data is None or data.size > EVALUATED_ELEMENTS):
                return False
            inputs.append(data)
        # An operator may make much of little: a large count would evaluate without end.
        if any(i is not None and _counts_too_much(i) for i in inputs):
            return False
        try:
            results = evaluate(node, inputs)
        except Unknown:
            return False
        for value, result in zip(node.outputs, results, strict=False):
            if value.name:
                dtype = value.dtype or ir_dtype(result)
                set_type(value, int(dtype), result.shape)
                if result.size <= SMALL_ELEMENTS:
                    self.partial_values[value] = Known(result)
        return True


def _is_done(node: ir.Node) -> bool:
    return all(is_typed(o) for o in node.outputs if o.name)


def _counts_too_much(data: Array) -> bool:
    """Whether a scalar names a size no result should have."""
    return data.size == 1 and data.dtype.kind in "iuf" and abs(data.item()) > EVALUATED_ELEMENTS


def _type(value: ir.Value | None) -> Type | None:
    """(element type, shape) of a value; None if it has no type."""
    if value is None or value.dtype is None:
        return None
    return int(value.dtype), shape_of(value)


def _open_value(node: ir.Node, value: ir.Value) -> AotError:
    """The error for an output whose type or shape is not known, with the axis and a hint."""
    name = original_name(value)
    if value.dtype is None:
        return UnsupportedError(f'{title(node)}: the type of "{name}" cannot be inferred')
    sized = trait_of(node, DataSized)
    if value.shape is None or (sized is not None and sized.counts):
        what = f'the shape of "{name}" depends on the data'
        if value.shape is not None:
            open_axes = [i for i, d in enumerate(value.shape) if not isinstance(d, int)]
            what = f'dimension {open_axes[0]} of "{name}" depends on the data'
    else:
        axis = next(i for i, d in enumerate(value.shape) if not isinstance(d, int))
        what = f'dimension {axis} of "{name}" is not known before the model runs'
    if sized is not None and sized.hint:
        return UnsupportedError(f"{title(node)}: {what}", _inputs_text(node), sized.hint)
    return KnownLate(f"{title(node)}: {what} (not supported yet)", _inputs_text(node))


def _inputs_text(node: ir.Node) -> str:
    """The first four inputs of a node with their shapes, as text of an error."""
    parts = [_value_text(v) for v in node.inputs[:4] if v is not None]
    return "input " + ", ".join(parts) if parts else ""


def _value_text(value: ir.Value) -> str:
    """The user's name of a value and its shape, as text of an error."""
    shape = static_shape(value)
    dims = "?" if shape is None else ",".join(map(str, shape))
    return f'"{original_name(value)}" [{dims}]'


def _contradictions(
    graph: ir.Graph,
    hints: Mapping[str, onnx.TypeProto],
    dynamic: Mapping[int, Collection[int]],
    pinned: bool,
) -> list[AotError]:
    """Outputs whose declared type is not what the graph computes.

    `dynamic` are axes by output that a run says. Where inputs were `pinned` sizes are not compared:
    files with open dimensions are careless about those of their outputs.
    """
    errors: list[AotError] = []
    for index, value in enumerate(graph.outputs):
        hint = hints.get(original_name(value)) or hints.get(str(value.name))
        if hint is None or not hint.HasField("tensor_type") or value.dtype is None:
            # Types that a file declares are hints; a wrong one would break what callers allocate.
            continue
        name, tensor = original_name(value), hint.tensor_type
        if tensor.elem_type not in (0, int(value.dtype)):
            said, found = ir.DataType(tensor.elem_type).name, value.dtype.name
            what = f'graph output "{name}" is declared {said.lower()} but computed {found.lower()}'
            errors.append(ModelError(what))
        elif tensor.HasField("shape") and not pinned:
            dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
            shape, own = shape_of(value), dynamic.get(index, ())
            if len(dims) != len(shape) or any(
                d >= 0 and d != n and axis not in own
                for axis, (d, n) in enumerate(zip(dims, shape, strict=True))
            ):
                text = ["?" if d < 0 else str(d) for d in dims]
                what = f'graph output "{name}" is declared [{",".join(text)}] but computed '
                errors.append(ModelError(f"{what}{list(shape)}"))
    return errors
