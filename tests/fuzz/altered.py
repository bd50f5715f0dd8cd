# SPDX-License-Identifier: Apache-2.0
"""A draft that differs in one place: an operand's shape, where it comes from, an attribute.

What families draw is what their author thought of; a compiler's mistake is what its author did not
think of. All behind the place is computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import onnx

from aot.load.flags import FLAGS
from fuzz.draft import Array, Draft, Reject, captured
from fuzz.stretched import another, is_joined


def altered(d: Draft) -> Draft:
    """The draft with one thing changed; as it is if that does not go."""
    way: Callable[[Draft], Draft] = d.one(reshaped, rewired, attributed)
    try:
        return way(d)
    except (Reject, ValueError, TypeError, IndexError, OverflowError, MemoryError):
        return d


def again(d: Draft, nodes: list[onnx.NodeProto], loose: dict[str, Array]) -> Draft:
    """A draft of these nodes, inputs and constants."""
    feeds, consts = ({n: loose[n] for n in names} for names in (d.feeds, d.consts))
    made = replace(d, nodes=[], values=dict(loose), feeds=feeds, consts=consts)
    made.errors, made.coarse = {}, set()
    for n in nodes:
        made.adopt(n)
        for o in n.output:
            if d.errors.get(o, 0.0) > made.errors.get(o, 0.0):
                made.errors[o] = d.errors[o]
        made.may_be_one_off(n)
    return made


def reshaped(d: Draft) -> Draft:
    """An operand of another shape, that others are joined with or that is joined with others."""
    used = Counter(i for n in d.nodes for i in (*n.input, *captured(n)))
    loose = {**d.feeds, **d.consts}
    found = [n for n, a in loose.items() if used[n] == 1 and a.size and is_joined(d.nodes, n)]
    if not found:
        raise Reject
    name = d.one(*found)
    loose[name] = another(d, loose[name])
    return again(d, copied(d.nodes), loose)


def rewired(d: Draft) -> Draft:
    """A node reads another value of the same type, mostly of the same shape."""
    k = d.upto(0, len(d.nodes) - 1)
    places = [i for i, name in enumerate(d.nodes[k].input) if name in d.values]
    if not places:
        raise Reject
    place = d.one(*places)
    name = d.nodes[k].input[place]
    old = d.values[name]
    known = [*d.feeds, *d.consts, *(o for n in d.nodes[:k] for o in n.output if o)]
    same = d.chance(0.7)
    found = [
        n
        for n in known
        if n != name
        and n in d.values
        and d.values[n].dtype == old.dtype
        and (d.values[n].shape == old.shape or not same)
    ]
    if not found:
        raise Reject
    nodes = copied(d.nodes)
    nodes[k].input[place] = d.one(*found)
    return again(d, nodes, {**d.feeds, **d.consts})


#: Attributes that are changed: those that say along what, and how much of it.
AXES = ("axis", "perm", "axes", "keepdims", "group", "groups", "num_groups", "transA", "transB")
SIZES = ("alpha", "beta", "epsilon", "strides", "dilations", "pads", "ceil_mode", "to")


def attributed(d: Draft) -> Draft:
    """An attribute has another value."""
    nodes = copied(d.nodes)
    found = [(n, a) for n in nodes for a in n.attribute if a.name in (*AXES, *SIZES)]
    if not found:
        raise Reject
    node, attribute = d.one(*found)
    rank = max((d.values[i].ndim for i in node.input if i in d.values), default=1)
    change(d, attribute, rank)
    return again(d, nodes, {**d.feeds, **d.consts})


def change(d: Draft, a: onnx.AttributeProto, rank: int) -> None:
    """Another value for an attribute of a node whose operands have up to `rank` axes."""
    if a.type == onnx.AttributeProto.FLOAT:
        a.f = d.one(0.0, 1.0, 0.5 * a.f, 2.0 * a.f, -a.f)
    elif a.type == onnx.AttributeProto.INT:
        few = d.one(0, 1) if a.name in FLAGS else d.one(0, 1, 2)
        few = d.one(1, 2, 3, 6, 7, 9, 10, 11) if a.name == "to" else few
        a.i = d.upto(-rank, rank - 1) if a.name == "axis" else few
    elif a.name == "perm":
        a.ints[:] = [int(i) for i in d.rng.permutation(len(a.ints))]
    elif a.ints:
        a.ints[d.upto(0, len(a.ints) - 1)] = d.upto(0, 3)
    else:
        raise Reject


def copied(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Nodes of their own; bodies no longer say what shapes their results have."""
    made = []
    for n in nodes:
        own = onnx.NodeProto()
        own.CopyFrom(n)
        for a in own.attribute:
            for o in a.g.output if a.HasField("g") else ():
                o.type.tensor_type.ClearField("shape")
        made.append(own)
    return made
