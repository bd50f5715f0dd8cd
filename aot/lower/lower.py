# SPDX-License-Identifier: Apache-2.0
"""Partition → Program: every match's lowering runs once, in topological order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aot.errors import AotError, BackendError, UnsupportedError, one_line
from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import subgraphs
from aot.ir.layout import PLAIN, Layout, same_bytes
from aot.ir.program import Origin, Program, Quantisation, Role, Tensor, View
from aot.ir.rows import Rowwise
from aot.lower.persistent_tensors import (
    Pair,
    carry,
    dynamic_dimensions,
    kept_dimensions,
    output_count,
    pairs,
    place_io,
    run_time_shapes,
)
from aot.normalise.quantised.ends import quantisation_of_ends
from aot.options import Options
from aot.partition.assign_layouts import Placed, assign_layouts
from aot.partition.result import BodyPart, Partition, Selected
from aot.target import Target
from aot.vendor.arguments import Handle, Used
from aot.vendor.backend import RegionView
from aot.vendor.match import Match, ValueRef
from aot.vendor.recorder import Recorder, layout_name

__all__ = ["Recorder", "lower", "lower_body", "lower_part"]


#: Calls of a program: more are not planned and written within half a minute.
MOST_ITEMS = 50_000
#: A library has at most so many bytes of constants for a byte of weights, and so many more.
MOST_GROWTH, MOST_MORE = 2, 1 << 20
#: Cycles that a byte of transformed weights must save: the first with which a library is within
#: those limits is taken. F(2,3) in place of F(4,3) gives a tenth of a cycle back for a byte.
PRICES = (0.0, 0.05, 0.07, 0.1, 0.15, 0.25, 0.5, 1.0, 6.4)


def lower(
    name: str, graph: ir.Graph, partition: Partition, target: Target, options: Options
) -> Program:
    """The program of a partitioned, normalised graph.

    Raises BackendError, naming the vendor and the node, when a lowering breaks its contract, and
    UnsupportedError for more calls than MOST_ITEMS.
    """
    if len(partition.items) > MOST_ITEMS:
        what = f"the model needs {len(partition.items)} calls (limit {MOST_ITEMS})"
        raise UnsupportedError(what, hint="loops of the same nodes can be an ONNX Loop or Scan")
    whole, states = (graph, *subgraphs(graph)), pairs(graph, options.states)
    weights = [v.const_value for g in whole for v in g.initializers.values()]
    limit = MOST_GROWTH * sum(w.nbytes for w in weights if w is not None) + MOST_MORE

    def priced(price: float) -> tuple[int, Program]:
        """(bytes of constants, program) where a byte of transformed weights has this price."""
        c = Recorder(target, options, price=price)
        c.reserve(str(v.name) for g in whole for n in g for v in n.outputs)
        c.reserve(str(v) for g in whole for v in g.initializers)
        program = _program(c, name, graph, partition, states)
        return sum(data.nbytes for data in program.consts.values()), program

    size, program = priced(PRICES[0])
    if size > limit:
        least, smallest = priced(PRICES[-1])
        if least < size:  # else no constant is larger than it must be
            tried = (priced(price) for price in PRICES[1:-1])
            fitting = (found for bytes_, found in tried if bytes_ <= limit)
            program = next(fitting, smallest)
    return place_io(replace(program, weights=options.weights), target, options)


def lower_body(around: Recorder, name: str, part: BodyPart, states: Sequence[Pair]) -> Program:
    """The program of a body, whose inputs and outputs are its caller's.

    Its `states` are carried from step to step in an arena of its own. Raises UnsupportedError if a
    call of the body keeps values of its own between runs.
    """
    c = Recorder(around.target, around.options, around)
    program = _program(c, name, part.graph, part.partition, states)
    if len(program.carried) > len(states):
        what = "what it keeps between runs cannot be kept in the body of an If or a Loop"
        raise UnsupportedError(f"{', '.join(c.carried)}: {what}")
    for state in c.states:
        for arg in state.create.pointers():
            if arg.tensor in c.tensors:
                around.tensors.setdefault(arg.tensor, c.tensors[arg.tensor])
    return place_io(replace(program, states=()), c.target, replace(c.options, io="caller"))


def _program(
    c: Recorder, name: str, graph: ir.Graph, partition: Partition, states: Sequence[Pair]
) -> Program:
    """The program of a graph: every match lowered to calls in order, then what carries `states`
    over.

    A region whose backend lowers regions as a whole is lowered at its first match. Results of the
    model that a call can write in place are declared as outputs from the start; the others are
    copied at the end. Inputs and outputs of the program are those of the model without states and
    without tensors that hold sizes of dynamic dimensions.
    """
    layouts = assign_layouts(partition, c.vlen)
    c.parts = {(p.node, p.label): p for p in partition.bodies}
    inputs = [ValueRef(v) for v in graph.inputs]
    for value in inputs:
        _declare(c, value, Role.INPUT, PLAIN)
    outputs = _outputs(graph) - {s.source.name for s in states}
    # Behind the outputs of the model the graph lists true shapes, which stay temporaries.
    outputs -= {str(v.name) for v in graph.outputs[output_count(graph) :]}
    wanted = dict.fromkeys(sorted(outputs), PLAIN)
    for index, placed in enumerate(layouts.items):
        region = placed.selected.region
        whole = placed.selected.pattern.region_lowering
        if region >= 0 and (index == 0 or layouts.items[index - 1].selected.region != region):
            inside = [p for p in layouts.items[index:] if p.selected.region == region]
            _enter_region(c, inside)
            if whole is not None:
                _lower_region(c, inside, wanted)
        if region < 0 or whole is None:
            _lower_match(c, placed, wanted)
    names = _finish_outputs(c, graph, {s.output for s in states})
    shapes = run_time_shapes(c, graph, tuple(s.output for s in states), _fill)
    carry(c, states, _fill)
    carried = (*(s.place.name for s in states), *c.carried)
    dims = dynamic_dimensions(graph, {s.place.name for s in states})
    hidden = {*carried, *(e.tensor for e in dims)}
    return Program(
        name,
        dict(c.tensors),
        dict(c.consts),
        tuple(v.name for v in inputs if v.name not in hidden),
        tuple(names),
        tuple(c.calls),
        c.vlen,
        states=tuple(sorted(c.states, key=lambda state: state.last)),
        carried=carried,
        shapes=shapes,
        dynamic_dims=dims,
        kept_dims=kept_dimensions(graph),
        attached=tuple(sorted(c.attached.items())),
        quantisation=_quantisation(graph, names, {s.output for s in states}),
    )


def _quantisation(
    graph: ir.Graph, outputs: Sequence[str], states: set[int]
) -> tuple[tuple[str, Quantisation], ...]:
    """That of inputs and outputs by tensor; `outputs` are the tensors of those that stay."""
    ends = quantisation_of_ends(graph)
    visible = [v for i, v in enumerate(graph.outputs[: output_count(graph)]) if i not in states]
    tensors = {str(v.name): str(v.name) for v in graph.inputs}
    made = [(t, str(v.name)) for t, v in zip(outputs, visible, strict=True)]
    return tuple((t, ends[v]) for t, v in (*tensors.items(), *made) if v in ends)


def lower_part(
    name: str,
    items: Sequence[Selected],
    inputs: Sequence[ValueRef],
    outputs: Sequence[ValueRef],
    target: Target,
    options: Options,
) -> Program:
    """The program of some matches: `inputs` are stored as their layouts say, so will be `outputs`.

    Inputs and outputs are the caller's; the alignment of blocked ones is the arena's.
    """
    arriving = {v.name: v.layout for v in inputs}
    layouts = assign_layouts(Partition(tuple(items), ()), target.vlen, arriving)
    c = Recorder(target, options)
    for value in inputs:
        _declare(c, value, Role.INPUT, value.layout)
    wanted: dict[str, Layout] = {}
    for v in outputs:
        made = layouts.produced[v.name]
        size, requested = (math.prod(at.physical(v.shape)) for at in (made, v.layout))
        fits = size == requested and same_bytes(v.shape, made, v.layout)
        # Lanes past the last channel are bytes too; of a value in two layouts the first one counts.
        wanted.setdefault(v.name, made if fits else v.layout)
    for placed in layouts.items:
        _lower_match(c, placed, wanted)
    names = [_deliver(c, v) for v in outputs]
    ends = tuple(v.name for v in inputs), tuple(names)
    program = Program(name, dict(c.tensors), dict(c.consts), *ends, tuple(c.calls), target.vlen)
    return place_io(program, target, replace(options, io="caller"))


def _deliver(c: Recorder, value: ValueRef) -> str:
    """The name of the output that holds `value` in the layout that `value` asks for.

    A value that is no output yet is copied if both layouts have the same bytes; between two blocked
    layouts it is converted by way of a plain temporary, otherwise by one reorder.
    """
    own = c.tensors[value.name]
    if own.role is Role.OUTPUT and same_bytes(value.shape, own.layout, value.layout):
        return own.name
    c.begin(Origin((value.name,), ("Output",)), None, -1, ())
    name = c._fresh(f"{value.name}_border")
    c.tensors[name] = Tensor(
        name, value.shape, value.dtype, Role.OUTPUT, value.layout, onnx_name=value.onnx_name
    )
    made = ValueRef(value.ir, own.layout)
    to, source = c.write(Handle(name)), c.read(made)
    # Equal bytes need no conversion, but the output may be larger by the padding of its blocks.
    if same_bytes(value.shape, own.layout, value.layout) and c.tensors[name].nbytes <= own.nbytes:
        c.copy(to, source, c.tensors[name].nbytes)
    # Kernels reorder between plain and blocked only; blocks of two sizes meet in plain form.
    elif own.layout.blocked and value.layout.blocked:
        between = c.temp(value.shape, value.dtype, name="plain")
        _reorder(c, value, (c.write(between), PLAIN), (source, own.layout))
        _reorder(c, value, (to, value.layout), (c.read(between), PLAIN))
    else:
        _reorder(c, value, (to, value.layout), (source, own.layout))
    return name


def _outputs(graph: ir.Graph) -> set[str]:
    """Values that a node may write straight into the caller's memory."""
    names = Counter(str(v.name) for v in graph.outputs)
    return {n for n, times in names.items() if times == 1}


def _declare(c: Recorder, value: ValueRef, role: Role, layout: Layout) -> None:
    c.tensors[value.name] = Tensor(
        value.name,
        value.shape,
        value.dtype,
        role,
        layout,
        onnx_name=value.onnx_name,
        code_offset=value.code_offset,
        channels=value.channels,
    )


def _enter_region(c: Recorder, items: Sequence[Placed]) -> None:
    """Convert what comes into a region before its first call, so that its calls follow in a row."""
    inside = {v.name for p in items for v in p.selected.match.outputs()}
    for placed in items:
        match = placed.selected.match.with_layouts(placed.layouts)
        c.begin(_origin(match), None, -1, ())
        for _, value in match.inputs():
            if value.name not in inside:
                _convert(c, value)


def _lower_region(c: Recorder, items: Sequence[Placed], wanted: Mapping[str, Layout]) -> None:
    """Let a backend lower a region, whose matches are `items`, as a whole.

    `wanted` are the layouts of results of the model by name: a value that leaves the region in this
    layout is written to the output itself. BackendError if the lowering raises anything but an
    AotError or does not write each value that leaves the region.
    """
    first = items[0].selected
    matches = [p.selected.match.with_layouts(p.layouts) for p in items]
    nodes = {id(n.ir) for m in matches for n in m.nodes}
    made = [v for m in matches for v in m.outputs()]
    inner = {v.name for v in made}
    entering = [v for m in matches for _, v in m.inputs() if not v.is_const]
    inputs = {v.name: v for v in reversed(entering) if v.name not in inner}
    outputs = [v for v in made if v.is_output or any(id(u.node) not in nodes for u in v.ir.uses())]
    for value in outputs:
        role = Role.OUTPUT if wanted.get(value.name) == value.layout else Role.TEMP
        _declare(c, value, role, value.layout)
    patterns = [p.selected.pattern for p in items]
    # Inputs come in the order in which the matches read them first.
    order = {v.name: i for i, v in reversed(list(enumerate(entering)))}
    ins = tuple(sorted(inputs.values(), key=lambda v: order[v.name]))
    view = RegionView(first.region, tuple(zip(patterns, matches, strict=True)), ins, tuple(outputs))
    c.begin(_origin(matches[-1]), first.pattern, first.region, [v.name for v in outputs])
    lowering = first.pattern.region_lowering
    assert lowering is not None
    where = f"region {first.region} ({first.backend}), up to node {matches[-1].root.onnx_name}"
    try:
        lowering(c, view)
    except AotError as error:
        error.where = error.where or where
        raise
    except Exception as error:
        raise BackendError(
            f"{first.backend}: its region lowering raised {type(error).__name__}: "
            f"{one_line(str(error))}",
            where,
            "this is a defect of the backend, not of the model",
        ) from error
    missing = sorted(c.unwritten())
    if missing:
        what = f"{first.backend}: its region lowering never writes {missing[0]}"
        raise BackendError(what, where)


def _lower_match(c: Recorder, placed: Placed, outputs: Mapping[str, Layout]) -> None:
    """Record the calls of one match, with conversions of its inputs to the layouts it asks for.

    Values of `outputs` that come out in the layout given there are written in place. BackendError
    if the lowering raises anything but an AotError or leaves a result unwritten.
    """
    selected = placed.selected
    match = selected.match.with_layouts(placed.layouts)
    for value in match.outputs():
        role = Role.OUTPUT if outputs.get(value.name) == value.layout else Role.TEMP
        _declare(c, value, role, value.layout)
    origin = _origin(match)
    name = f"{selected.backend}.{selected.pattern.name}"
    where = f"node {match.root.onnx_name} ({match.root.op_type})"
    where += "" if selected.backend == "c" else f", {name}"
    written = [v.name for v in match.outputs()]
    own = selected.region >= 0  # a conversion within a region is the region's
    c.begin(origin, selected.pattern if own else None, selected.region, ())
    for _, value in match.inputs():
        _convert(c, value)
    c.begin(origin, selected.pattern, selected.region, written)
    try:
        selected.pattern.record(c, match)
    except AotError as error:
        error.where = error.where or where
        raise
    except Exception as error:
        raise BackendError(
            f"{name}: its lowering raised {type(error).__name__}: {one_line(str(error))}",
            where,
            "this is a defect of the backend, not of the model",
        ) from error
    missing = sorted(c.unwritten())
    if missing:
        raise BackendError(f"{name}: its lowering never writes {missing[0]}", where)


def _origin(match: Match) -> Origin:
    nodes = tuple(n.name for n in reversed(match.nodes))
    ops = tuple(n.op_type for n in reversed(match.nodes))
    return Origin(nodes, ops, onnx_names=tuple(n.onnx_name for n in reversed(match.nodes)))


def _convert(c: Recorder, value: ValueRef) -> None:
    """Make `value` available in the layout in which the match reads it.

    Nothing happens if a tensor in this layout exists. Layouts with the same bytes are a view; any
    other pair is a call that reorders into a temporary.
    """
    if value.is_const:
        return
    own = c.tensors[value.name]
    name = layout_name(value.name, value.layout)
    if own.layout == value.layout or name in c.tensors:
        return
    converted = Tensor(
        name,
        value.shape,
        value.dtype,
        Role.TEMP,
        value.layout,
        onnx_name=value.onnx_name,
        code_offset=value.code_offset,
        channels=value.channels,
    )
    # One channel per pixel, or one pixel per channel: the order of bytes is the same.
    if same_bytes(value.shape, own.layout, value.layout) and converted.nbytes <= own.nbytes:
        c.tensors[name] = Tensor(
            name,
            value.shape,
            value.dtype,
            Role.TEMP,
            value.layout,
            View(own.name, 0),
            value.onnx_name,
        )
        return
    c.tensors[name] = converted
    source = ValueRef(value.ir, own.layout)
    reorder(c, value, source)


def reorder(c: Recorder, y: ValueRef, x: ValueRef) -> None:
    """Record the conversion of a value between the plain and a blocked layout.

    From one blocked layout to another by way of the plain one, whose pad lanes become zero.
    """
    if y.layout.blocked and x.layout.blocked:
        between = c.temp(y.shape, y.dtype, name="plain")
        _reorder(c, y, (c.write(between), PLAIN), (c.read(x), x.layout))
        _reorder(c, y, (c.write(y), y.layout), (c.read(between), PLAIN))
    else:
        _reorder(c, y, (c.write(y), y.layout), (c.read(x), x.layout))


def _reorder(
    c: Recorder, value: ValueRef, to: tuple[Used, Layout], source: tuple[Used, Layout]
) -> None:
    """Record the call that copies `value` from a blocked layout to a plain one, or the other way.

    `to` and `source` are the argument written and the one read, each with its layout. One image
    whose channels fill one block can be converted row by row.
    """
    n, ch, *spatial = value.shape
    kernel = "aot_to_blocked" if to[1].blocked else "aot_from_blocked"
    block, elem = to[1].block or source[1].block, value.dtype.nbytes
    params = c.params(n=n, c=ch, s=int(np.prod(spatial)), elem=elem)
    by_rows = n == 1 and to[1].blocked and block >= ch and len(spatial) == 2
    name, how = _reordering(c, kernel, 0 if by_rows else elem, block)
    c.call(
        name,
        to[0],
        source[0],
        params,
        **how,
        comment=f"layout {source[1]} to {to[1]}",
        rowwise=Rowwise(spatial[0], (0,), kernel=f"{kernel}_row", whole=(1,)) if by_rows else None,
    )


def _reordering(c: Recorder, kernel: str, elem: int, block: int) -> tuple[str, dict[str, Any]]:
    """The kernel of a reorder of elements of `elem` bytes, with the rest of its call: `kernel`, or
    its form for vectors where a block of channels is one.
    """
    if elem == 4 and block == c.vlen:
        return f"{kernel}_32", {"header": "aot_reorder_32.h"}
    return kernel, {"instance": {"V": block}, "header": "aot_reorder.h"}


def _finish_outputs(c: Recorder, graph: ir.Graph, states: set[int]) -> list[str]:
    """Give every output of the model its own tensor, copying what is not written in place.

    `states` are the indices of outputs that are handed to the next run instead.
    """
    names: list[str] = []
    members: set[str] = set()
    for i, v in enumerate(graph.outputs[: output_count(graph)]):
        if i in states:
            continue
        value = ValueRef(v)
        own = c.tensors.get(value.name)
        if own is not None and own.role is Role.OUTPUT:
            names.append(value.name)
            # A value that is two outputs is one member of the struct of outputs and one copy.
            members.add(value.name)
            continue
        c.begin(Origin((value.name,), ("Output",)), None, -1, ())
        name = c._fresh(f"{value.name}_out{i}")
        c.tensors[name] = Tensor(
            name,
            value.shape,
            value.dtype,
            Role.OUTPUT,
            PLAIN,
            onnx_name=value.onnx_name,
            code_offset=value.code_offset,
            channels=value.channels,
            member="" if value.name in members else value.name,
        )
        _fill(c, name, value)
        members.add(value.name)
        names.append(name)
    return names


def _fill(c: Recorder, name: str, value: ValueRef) -> None:
    """Record the copy of `value` to the tensor `name`, which is stored plain; blocks are taken
    apart.
    """

    source = value
    if not value.is_const:
        own = c.tensors[value.name]
        # The tensor is plain, because the caller reads it: blocks are not part of the interface.
        if own.layout.blocked and not same_bytes(value.shape, own.layout, PLAIN):
            n, ch, *spatial = value.shape
            params = c.params(n=n, c=ch, s=int(np.prod(spatial)), elem=value.dtype.nbytes)
            elem, block = value.dtype.nbytes, own.layout.block
            kernel, how = _reordering(c, "aot_from_blocked", elem, block)
            c.call(kernel, c.write(Handle(name)), c.read(Handle(own.name)), params, **how)
            return
        source = ValueRef(value.ir, own.layout)
    c.copy(c.write(Handle(name)), c.read(source), c.tensors[name].nbytes)
