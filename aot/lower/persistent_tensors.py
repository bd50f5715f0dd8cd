# SPDX-License-Identifier: Apache-2.0
"""Tensors that live in the arena between runs: `--io arena`, the pairs of `--state`, shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from aot.errors import ModelError
from aot.ir.deferred_import import ir
from aot.ir.layout import PLAIN
from aot.ir.program import (
    DynamicDimension,
    KeptDimension,
    Origin,
    Program,
    Role,
    RunTimeShape,
    Tensor,
)
from aot.options import Options
from aot.shapes.dynamic.dims import KEPT_SIZE, RUN_TIME_SHAPES
from aot.shapes.dynamic.input_dims import dimensions_of
from aot.shapes.dynamic.kept_dims import kept_sizes
from aot.target import Target
from aot.vendor.arguments import Handle
from aot.vendor.match import ValueRef
from aot.vendor.recorder import ALIGN, Recorder

#: Records the copy of a value to the tensor of that name.
Fill = Callable[[Recorder, str, ValueRef], None]
#: Alignment in bytes on boards, whose memory is small: of tensors in the arena (no vector is
#: longer), and of constants (no scalar is).
BOARD_ALIGN, BOARD_CONST_ALIGN = 16, 8


def place_io(program: Program, target: Target, options: Options) -> Program:
    """`program` with its inputs and outputs where they belong, aligned as the target needs.

    A lowering sees inputs and outputs as the caller's; in the arena they are temporaries that the
    planner keeps apart, and may put results in the place of inputs that are no longer needed.
    """
    io = options.io or ("arena" if target.board or options.push else "caller")
    tensors: Mapping[str, Tensor] = program.tensors
    own = {*program.kept, *((*program.inputs, *program.outputs) if io == "arena" else ())}
    tensors = {n: replace(t, role=Role.TEMP) if n in own else t for n, t in tensors.items()}
    if target.board:
        tensors = {n: replace(t, align=min(t.align, _align(t))) for n, t in tensors.items()}
    return replace(program, tensors=tensors, io=io)


def stage_outputs(program: Program) -> Program:
    """`program` with outputs in the arena until no call can fail any more.

    A vendor's error, or a shape that the data turn out to have, must leave the caller's memory as
    it was. Outputs whose calls need the results of all that can fail are written last anyway;
    they and programs without a call that can fail are not changed.
    """
    if program.io == "arena" or not any(program.failing()):
        return program
    behind = _behind_failing(program)
    own = {
        n
        for n in program.outputs
        if program.tensors[n].role is Role.OUTPUT and not behind.get(program.base(n)[0])
    }
    tensors = {n: replace(t, role=Role.TEMP) if n in own else t for n, t in program.tensors.items()}
    return replace(program, tensors=tensors)


def _behind_failing(program: Program) -> dict[str, bool]:
    """By tensor that owns memory: whether each call that writes it needs the results of all calls
    that can fail, and cannot fail itself.
    """
    failing = {
        i
        for i, c in enumerate(program.calls)
        if c.status and (not c.bodies or any(any(b.program.failing()) for b in c.bodies))
    }
    needs: dict[str, set[int]] = {}
    for i, call in enumerate(program.calls):
        read = {program.base(n)[0] for n in call.reads()}
        before = set[int]().union(*(needs.get(n, ()) for n in read))
        for name in {program.base(n)[0] for n in call.writes()}:
            own = before | {i} if i in failing and name not in program.outputs else before
            # Another call that writes a part of the tensor may come before.
            needs[name] = needs[name] & own if name in needs else own
    return {name: found >= failing for name, found in needs.items()}


def _align(tensor: Tensor) -> int:
    """The most that a board aligns a tensor to; constants of which a vendor asks more get that."""
    usual = tensor.role is Role.CONST and tensor.align == ALIGN
    return BOARD_CONST_ALIGN if usual else BOARD_ALIGN


def output_count(graph: ir.Graph) -> int:
    """The number of the model's own outputs; the graph's last ones hold run-time shapes."""
    return len(graph.outputs) - len(graph.meta.get(RUN_TIME_SHAPES, ()))


def run_time_shapes(
    c: Recorder, graph: ir.Graph, states: Sequence[int], fill: Fill
) -> tuple[RunTimeShape, ...]:
    """Record the calls that put the shapes of outputs where NAME_output_shape finds them.

    `states` are the outputs that are handed to the next run. ModelError if one is as long as the
    data say.
    """
    first = output_count(graph)
    found = []
    for at, (index, axes) in enumerate(graph.meta.get(RUN_TIME_SHAPES, ())):
        if index == KEPT_SIZE:
            continue
        if index in states:
            name = ValueRef(graph.outputs[index]).onnx_name
            raise ModelError(
                f'the shape of "{name}" depends on the data', f"--state of output {name}"
            )
        value = ValueRef(graph.outputs[first + at])
        c.begin(Origin((value.name,), ("Output",), "the true shape"), None, -1, ())
        made = c.temp(value.shape, value.dtype, PLAIN, "shape")
        fill(c, made.name, value)
        # Indices count outputs of the program, which has none for states.
        place = index - sum(0 <= s < index for s in states)
        found.append(RunTimeShape(place, tuple(axes), made.name))
    return tuple(found)


def dynamic_dimensions(graph: ir.Graph, states: set[str]) -> tuple[DynamicDimension, ...]:
    """The dimensions that a run says, with the tensors that hold them.

    `states` are inputs that are handed from run to run.
    """
    dimensions = dimensions_of(graph)
    values = [ValueRef(v) for v in graph.inputs]
    first = len(values) - len(dimensions)
    places = [i for i, v in enumerate(values) if v.name not in states]
    found = []
    for at, d in enumerate(dimensions):
        axes = tuple((places.index(index), axis) for index, axis in d.axes)
        found.append(DynamicDimension(d.name, d.least, d.most, axes, values[first + at].name))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair of `--state`: input `place` gets the model's output number `output`, `source`."""

    place: ValueRef
    source: ValueRef
    output: int


def pairs(graph: ir.Graph, states: Mapping[str, str]) -> tuple[Pair, ...]:
    """The pairs of a state's input with the output that replaces it, in the order of `states`.

    `states` are names of outputs by names of inputs. ModelError if one is unknown or if the two
    differ in shape or type. Caches that keep their size from run to run follow, each with its size
    as a state of its own.
    """
    inputs = {ValueRef(v).onnx_name: ValueRef(v) for v in graph.inputs}
    # Names of the model's own file, which a user types; values may have got other names since.
    values = [ValueRef(v) for v in graph.outputs[: output_count(graph)]]
    outputs = {v.onnx_name: (i, v) for i, v in enumerate(values)}
    found = []
    for name, source in states.items():
        where = f"--state {name}={source}"
        _check_known(name, inputs, "input", where)
        _check_known(source, outputs, "output", where)
        pair = Pair(inputs[name], outputs[source][1], outputs[source][0])
        ends = [f"{v.dtype}{list(v.shape)}" for v in (pair.place, pair.source)]
        if ends[0] != ends[1]:
            raise ModelError(
                f'state input "{name}" is {ends[0]}, output "{source}" is {ends[1]}',
                where,
                "both must have one shape and type",
            )
        found.append(pair)
    # Behind the user's outputs come those that carry sizes: each kept size is a state as well.
    first = output_count(graph)
    for at, (index, axes) in enumerate(graph.meta.get(RUN_TIME_SHAPES, ())):
        if index == KEPT_SIZE:
            own, following = graph.inputs[axes[0]], graph.outputs[first + at]
            found.append(Pair(ValueRef(own), ValueRef(following), KEPT_SIZE))
    return tuple(found)


def kept_dimensions(graph: ir.Graph) -> tuple[KeptDimension, ...]:
    """The dimensions of states that runs hand on, with the tensors that hold them."""
    values = [ValueRef(v).name for v in graph.inputs]
    return tuple(
        KeptDimension(
            k.name, k.most, tuple((values[i], a) for i, a in k.axes), k.next, values[k.place]
        )
        for k in kept_sizes(graph)
    )


def _check_known(name: str, known: Mapping[str, object], what: str, where: str) -> None:
    if name not in known:
        raise ModelError(
            f'the model has no {what} "{name}"',
            where,
            f"the model has {', '.join(list(known)[:8]) or 'none'}",
        )


def carry(
    c: Recorder,
    states: Sequence[Pair],
    fill: Fill,
) -> None:
    """Record the calls that put the new states where the next run finds them.

    What lies in the place of another state is set aside first, before any place is written.
    """
    places = {s.place.name for s in states}
    aside: dict[str, Handle] = {}
    for s in states:
        _begin(c, s)
        owner, offset = _owner(c, s.source)
        # Written in turn, one place would overwrite a new state that is still to be moved.
        if owner in places and (owner, offset) != (s.place.name, 0):
            made = c.temp(s.place.shape, s.place.dtype, PLAIN, "aside")
            fill(c, made.name, s.source)
            aside[s.place.name] = made
    for s in states:
        _begin(c, s)
        name = s.place.name
        if name in aside:
            c.copy(c.write(Handle(name)), c.read(aside[name]), c.tensors[name].nbytes)
        elif _owner(c, s.source) != (name, 0):
            fill(c, name, s.source)


def _begin(c: Recorder, pair: Pair) -> None:
    c.begin(Origin((pair.place.name,), ("State",), "for the next run"), None, -1, ())


def _owner(c: Recorder, value: ValueRef) -> tuple[str, int]:
    """The tensor that owns the memory of `value`, and the byte offset in it; "" for a constant."""
    if value.is_const:
        return "", 0
    tensor, offset = c.tensors[value.name], 0
    while tensor.view is not None:
        offset += tensor.view.offset
        tensor = c.tensors[tensor.view.base]
    return tensor.name, offset
