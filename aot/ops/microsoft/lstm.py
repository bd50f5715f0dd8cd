# SPDX-License-Identifier: Apache-2.0
"""The body of onnxruntime's LSTM whose input and state are quantised while it runs.

Before: y = com.microsoft.DynamicQuantizeLSTM(x, W, R, B, …, sW, zW, sR, zR)
After:  q, s, z = DynamicQuantizeLinear(x); g = MatMulInteger(q, W, z, zW) · s · sW
        y = Scan(0, 0, g, body={q, s, z = DynamicQuantizeLinear(h)
                                g' = g + MatMulInteger(q, R, z, zR) · s · sR + B
                                h', c' = the gates of g'})

The input has one scale over all steps and samples, the state one per step over all samples, as
onnxruntime computes them in one thread (in several it quantises the samples of each by themselves).
Samples that have ended count as zeros, and so do steps in which all have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import array, attribute
from aot.ir.operators import OneOf, operator
from aot.normalise.decompose import FLOAT, INT64, Body, decompose
from aot.ops.microsoft import MICROSOFT
from aot.ops.rnn import ACTIVATION_NAMES, DIRECTION
from aot.shapes.types import Type, given, infer_types, need

operator(
    "DynamicQuantizeLSTM",
    "x w r b? lens? h0? c0? peep? ws wz rs rz",
    domain=MICROSOFT,
    direction=DIRECTION,
    activations=OneOf(ACTIVATION_NAMES, any_case=True),
)
BIAS, LENGTHS, STATE, CELL, PEEPHOLES = 3, 4, 5, 6, 7
Add = Callable[..., str]
FUNCTIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
USUAL = ("Sigmoid", "Tanh", "Tanh")


@infer_types("DynamicQuantizeLSTM", MICROSOFT)
def _dynamic_lstm_types(node: ir.Node, types: list[Type | None]) -> list[Type]:
    """The types of all states, last states and cells; ValueError for operands that do not fit."""
    dtype, x = need(types, 0)
    _, r = need(types, 2)
    if len(x) != 3 or len(r) != 3:
        raise ValueError(f"an input of rank {len(x)}, weights of rank {len(r)} instead of 3")
    ways, hidden = r[:2]
    state = (ways, x[1], hidden)
    scales = ((ways,), (ways, 4 * hidden))
    fitting = {
        1: ((ways, x[2], 4 * hidden),),
        2: ((ways, hidden, 4 * hidden),),
        3: ((ways, 8 * hidden),),
        4: ((x[1],),),
        5: (state,),
        6: (state,),
        7: ((ways, 3 * hidden),),
        **dict.fromkeys(range(8, 12), scales),
    }
    for index, shapes in fitting.items():
        # Operands from 3 to 7 may be absent, weights and their scales may not.
        found = given(types, index) if 2 < index < 8 else need(types, index)
        if found is not None and tuple(found[1]) not in shapes:
            raise ValueError(f"input {index} is {list(found[1])} (needs {list(shapes[0])})")
    return [(dtype, (x[0], *state)), (dtype, state), (dtype, state)]


@dataclass(frozen=True, slots=True)
class Layer:
    """The sizes and attributes of the node; `functions` activate gates, cell and state, direction
    by direction."""

    steps: int
    batch: int
    hidden: int
    backward: tuple[bool, ...]
    functions: tuple[str, ...]
    clip: float | None
    joined: bool  # input_forget: the forget gate is what the input gate leaves
    lengths: bool  # samples may end early


@dataclass(frozen=True, slots=True)
class Direction:
    """Names of one direction's operands; those of 8 bits wait for MatMulInteger."""

    index: int
    quantised: str  # R [H, 4H]
    scale: str
    zero: str
    bias: str | None  # [4H], both halves in one
    peepholes: tuple[str, ...]  # of input, output and forget gate [H]


@dataclass(slots=True)
class Steps:
    """The body of the Scan in the making."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def add(self, op_type: str, *inputs: str, out: str = "", **attrs: Any) -> str:
        """The output of a new node; DynamicQuantizeLinear has three, named …, …_s and …_z."""
        out = out or f"t{len(self.nodes)}"
        outs = [out, f"{out}_s", f"{out}_z"] if op_type == "DynamicQuantizeLinear" else [out]
        self.nodes.append(onnx.helper.make_node(op_type, list(inputs), outs, **attrs))
        return out


@decompose("DynamicQuantizeLSTM", MICROSOFT)
def dynamic_lstm(b: Body) -> bool:
    """Before: DynamicQuantizeLSTM. After: its sums by integer products, the gates in a Scan.

    Sequences are zeros behind their lengths; every direction is a Scan of its own, and the results
    are put together along the axis of directions. Returns whether the node is replaced: not if it
    has attributes or operands for which onnxruntime defines no result (`_layer`).
    """
    layer = _layer(b)
    if layer is None:
        return False
    x, given = "i0", ""
    if layer.lengths:
        given = b.add("Cast", f"i{LENGTHS}", to=INT64)
        x = b.add("Where", _within(b, layer, given), x, b.constant(FLOAT, (), [0.0]))
    quantised = _quantised(b, x)
    results: list[list[str]] = [[], [], []]
    for index in range(len(layer.backward)):
        direction = _direction(b, index)
        part = _part(b, "i1", index), *_parameters(b, 8, index)
        sums = _product(b.add, quantised, *part)
        for found, name in zip(results, _scanned(b, layer, direction, sums, given), strict=True):
            # The sequence of states has its steps first, so directions are its second axis.
            found.append(b.add("Unsqueeze", name, b.ints(int(found is results[0]))))
    for k, (parts, axis) in enumerate(zip(results, (1, 0, 0), strict=True)):
        if k < len(b.node.outputs) and b.node.outputs[k].name:
            b.add("Concat", *parts, out=f"o{k}", axis=axis)
    return True


def _layer(b: Body) -> Layer | None:
    """The node's sizes and attributes as a record; None where onnxruntime defines no result."""
    x, r = b.shape(0), b.shape(2)
    value = b.node.inputs[0]
    named = str(attribute(b.node, "direction", None) or "forward")
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(named)
    names = [str(n) for n in attribute(b.node, "activations", None) or USUAL * r[0]]
    functions = tuple(FUNCTIONS.get(n.lower(), "") for n in names)
    clip = attribute(b.node, "clip", None)
    if ways is None or value is None or int(value.dtype or 0) != FLOAT or len(x) != 3:
        return None
    if r[0] != len(ways) or not all(x):
        return None
    if len(functions) != 3 * len(ways) or not all(functions):
        return None
    if clip is not None and not clip > 0:
        return None
    lengths = _may_end(b, x[0])
    if lengths and not b.node.outputs[0].name:
        return None  # onnxruntime then quantises what is left of the samples that ended
    joined = bool(attribute(b.node, "input_forget", 0))
    clip = None if clip is None else float(clip)
    return Layer(x[0], x[1], r[1], ways, functions, clip, joined, lengths)


def _may_end(b: Body, steps: int) -> bool:
    """Whether a sample may be shorter than all `steps`, by lengths that are given."""
    if not b.has(LENGTHS):
        return False
    known = array(b.node.inputs[LENGTHS])
    return known is None or not np.all(known == steps)


def _within(b: Body, layer: Layer, lengths: str) -> str:
    """The name of bool [steps, 1, 1]: whether some sample reaches a step."""
    longest = b.add("ReduceMax", lengths, b.ints(0), keepdims=0)
    steps = np.arange(layer.steps, dtype=np.int64).reshape(-1, 1, 1)
    return b.add("Less", b.data(steps), longest)


# -- operands ---------------------------------------------------------------------------------


def _quantised(b: Body, x: str) -> tuple[str, str, str]:
    """The names of (quantised values, scale, zero point) of `x`, quantised while running."""
    outs = [f"q{k}" for k in range(3)]
    b.nodes.append(onnx.helper.make_node("DynamicQuantizeLinear", [x], outs))
    return outs[0], outs[1], outs[2]


def _product(add: Add, quantised: Sequence[str], w: str, scale: str, zero: str) -> str:
    """The name of the float32 product of `quantised` (values, scale, zero point) with 8-bit
    weights.
    """
    q, s, z = quantised
    sums = add("Cast", add("MatMulInteger", q, w, z, zero), to=FLOAT)
    return add("Mul", sums, add("Mul", scale, s))


def _part(b: Body, name: str, index: int) -> str:
    """The name of direction `index` of an operand, without the axis of directions."""
    return b.add("Gather", name, b.constant(INT64, (), [index]), axis=0)


def _parameters(b: Body, first: int, index: int) -> tuple[str, str]:
    """The names of scale and zero point of a direction's weights, from input `first` on."""
    return _part(b, f"i{first}", index), _part(b, f"i{first + 1}", index)


def _direction(b: Body, index: int) -> Direction:
    """The names of one direction's operands; both halves of the bias are summed."""
    bias, peepholes = None, []
    if b.has(BIAS):
        whole = b.add("Reshape", _part(b, f"i{BIAS}", index), b.ints(2, -1))
        bias = b.add("ReduceSum", whole, b.ints(0), keepdims=0)
    if b.has(PEEPHOLES):
        rows = b.add("Reshape", _part(b, f"i{PEEPHOLES}", index), b.ints(3, -1))
        peepholes = [_part(b, rows, k) for k in range(3)]
    scale, zero = _parameters(b, 10, index)
    return Direction(index, _part(b, "i2", index), scale, zero, bias, tuple(peepholes))


def _start(b: Body, layer: Layer, index: int, input_: int) -> str:
    """The name of the state or cell [B, H] before the first step: input `input_`, or zeros."""
    if b.has(input_):
        return _part(b, f"i{input_}", index)
    return b.data(np.zeros((layer.batch, layer.hidden), np.float32))


# -- the steps --------------------------------------------------------------------------------


def _scanned(
    b: Body, layer: Layer, way: Direction, sums: str, lengths: str
) -> tuple[str, str, str]:
    """The names of all states [S, B, H], the last one [B, H] and the last cell, of one direction.

    `sums` are the products of the input [S, B, 4H], `lengths` those of the samples, if they may
    end.
    """
    back = layer.backward[way.index]
    # Samples end at different steps, which the direction of a Scan cannot say.
    if layer.lengths and back:
        sums = b.add("ReverseSequence", sums, lengths, time_axis=0, batch_axis=1)
    if way.bias:
        sums = b.add("Add", sums, way.bias)
    states = [_start(b, layer, way.index, k) for k in (STATE, CELL)]
    scanned = [sums]
    if layer.lengths:
        states.append(b.data(np.zeros((layer.batch, layer.hidden), np.float32)))
        scanned.append(b.data(np.arange(layer.steps, dtype=np.int64)[:, None]))
    outs = [f"d{way.index}_{k}" for k in range(len(states) + 1)]
    sense = int(back and not layer.lengths)
    b.nodes.append(
        onnx.helper.make_node(
            "Scan",
            [*states, *scanned],
            outs,
            body=_steps(layer, way, lengths),
            num_scan_inputs=len(scanned),
            scan_input_directions=[sense] * len(scanned),
            scan_output_directions=[sense],
        )
    )
    if not layer.lengths:
        return outs[2], outs[0], outs[1]
    y = outs[3]
    if back:
        y = b.add("ReverseSequence", y, lengths, time_axis=0, batch_axis=1)
    none = b.constant(FLOAT, (), [0.0])
    began = b.add("Unsqueeze", b.add("Greater", lengths, b.constant(INT64, (), [0])), b.ints(1))
    return y, outs[2], b.add("Where", began, outs[1], none)


def _steps(layer: Layer, way: Direction, lengths: str) -> onnx.GraphProto:
    """The Scan's body: from state h and cell c (and last state l) and sums g [B, 4H] to the next
    ones.

    With lengths it also gets its number t, and samples that have ended keep their cell.
    """
    steps = Steps()
    q = steps.add("DynamicQuantizeLinear", "h")
    total = steps.add(
        "Add", "g", _product(steps.add, (q, f"{q}_s", f"{q}_z"), way.quantised, way.scale, way.zero)
    )
    new_h, new_c = _gates(steps, layer, way, total)
    plain = [("h", FLOAT), ("c", FLOAT)]
    if layer.lengths:
        runs = steps.add("Less", "t", lengths)
        axis = steps.add("Constant", value_ints=[1])
        runs = steps.add("Unsqueeze", runs, axis)
        none = steps.add("Constant", value_float=0.0)
        steps.add("Where", runs, new_h, none, out="h_next")
        steps.add("Where", runs, new_c, "c", out="c_next")
        # Behind the end of a sample h is 0, so its last state is kept apart.
        steps.add("Where", runs, new_h, "l", out="l_next")
        plain.append(("l", FLOAT))
    else:
        steps.add("Identity", new_h, out="h_next")
        steps.add("Identity", new_c, out="c_next")
    steps.add("Identity", "h_next", out="y")
    shape = [layer.batch, layer.hidden]
    state = [onnx.helper.make_tensor_value_info(n, k, shape) for n, k in plain]
    state.append(onnx.helper.make_tensor_value_info("g", FLOAT, [layer.batch, 4 * layer.hidden]))
    if layer.lengths:
        state.append(onnx.helper.make_tensor_value_info("t", INT64, [1]))
    names = [f"{n}_next" for n, _ in plain] + ["y"]
    results = [onnx.helper.make_tensor_value_info(n, FLOAT, shape) for n in names]
    return onnx.helper.make_graph(steps.nodes, "step", state, results)


def _gates(steps: Steps, layer: Layer, way: Direction, total: str) -> tuple[str, str]:
    """The names of (state, cell) after a step whose sums of gates i, o, f and c are `total`."""
    gate, cell, last = layer.functions[3 * way.index : 3 * way.index + 3]
    size = steps.add("Constant", value_ints=[layer.hidden] * 4)
    names = ["gi", "go", "gf", "gc"]
    steps.nodes.append(onnx.helper.make_node("Split", [total, size], names, axis=1))

    def opened(name: str, place: int, c: str) -> str:
        """The name of a gate's value: its activation of the sum, with the peephole at `place` from
        cell c.
        """
        if way.peepholes:
            name = steps.add("Add", name, steps.add("Mul", way.peepholes[place], c))
        return steps.add(gate, _clipped(steps, layer, name))

    i = opened("gi", 0, "c")
    # With input_forget the forget gate is what the input gate leaves.
    if layer.joined:
        f = steps.add("Sub", steps.add("Constant", value_float=1.0), i)
    else:
        f = opened("gf", 2, "c")
    fresh = steps.add("Mul", i, steps.add(cell, _clipped(steps, layer, "gc")))
    new_c = steps.add("Add", steps.add("Mul", f, "c"), fresh)
    o = opened("go", 1, new_c)
    return steps.add("Mul", o, steps.add(last, new_c)), new_c


def _clipped(steps: Steps, layer: Layer, x: str) -> str:
    """The name of `x` between -clip and clip; x itself if the layer has no clip."""
    if layer.clip is None:
        return x
    ends = [steps.add("Constant", value_float=v) for v in (-layer.clip, layer.clip)]
    return steps.add("Clip", x, *ends)
