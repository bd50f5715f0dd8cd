# SPDX-License-Identifier: Apache-2.0
"""Every declared case of every operator, one thing about its node or its operands damaged.

An attribute far off or of another length, an operand of another type, rank or extent, one that is
missing, that a node before it should have computed and cannot, or that is a constant with numbers
nobody would write.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

sys.path.append(str(Path(__file__).parents[1] / "ops"))

from harness import model_of

from aot.ops.registry import load_all
from aot.vendor.backend import Pattern
from aot.vendor.cases import Case as Declared
from hostile.case import Case, saved

INTS = (0, -1, 1, 2, 3, 7, -9, 1 << 31, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -1.0, 1.0, 1e30, float("nan"), float("inf"))
TEXTS = ("", "x", "SAME_UPPER", "linear", "ij,jk->ik", "sum", "i,i")
EXTENTS = (0, 1, 2, 5, 1 << 20, 1 << 40)
TYPES = (1, 2, 3, 6, 7, 9, 10, 11, 16, 17, 21, 22)
#: How often each case is damaged.
TIMES = 2


def cases() -> Iterator[Case]:
    """Two damages of every declared case."""
    count: Counter[str] = Counter()
    for pattern in load_all().patterns:
        for one in pattern.all_cases():
            count[pattern.name] += 1
            for k in range(TIMES):
                name = f"{pattern.name} {count[pattern.name]}.{k}"
                yield Case("damaged operators", name, _make(pattern, one, name))


def _make(pattern: Pattern, one: Declared, name: str) -> Callable[[Path], Path | str]:
    return lambda folder: saved(damaged(pattern, one, name))(folder)


def damaged(pattern: Pattern, one: Declared, name: str) -> onnx.ModelProto:
    """The model of a declared case with one thing damaged; `name` is the seed."""
    rng = random.Random(name)
    model = model_of(pattern.graph, one)
    for _ in range(20):
        made = onnx.ModelProto()
        made.CopyFrom(model)
        if rng.choice(DAMAGES)(made, rng):
            break
    return made


def attribute(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Another value of an attribute, or of one that was not there."""
    node = rng.choice(model.graph.node)
    if rng.random() < 0.4 and onnx.defs.has(node.op_type, node.domain):
        known = sorted(onnx.defs.get_schema(node.op_type, domain=node.domain).attributes.items())
        absent = [(k, a) for k, a in known if all(b.name != k for b in node.attribute)]
        if absent:
            key, kind = rng.choice(absent)
            node.attribute.add(name=key, type=int(kind.type.value))
    if not node.attribute:
        return False
    _other(rng.choice(node.attribute), rng)
    return True


def _other(a: AttributeProto, rng: random.Random) -> None:
    if a.type == AttributeProto.INT:
        a.i = rng.choice(INTS)
    elif a.type == AttributeProto.FLOAT:
        a.f = rng.choice(FLOATS)
    elif a.type == AttributeProto.STRING:
        a.s = rng.choice(TEXTS).encode()
    elif a.type in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
        _other_list(a, rng)
    elif a.type == AttributeProto.TENSOR:
        shape = [rng.choice((0, 1, 3))] * rng.randrange(3)
        a.t.CopyFrom(numpy_helper.from_array(np.zeros(shape, rng.choice(("f4", "i8", "i4")))))
    elif a.type == AttributeProto.GRAPH:
        del a.g.node[: rng.randrange(3)], a.g.output[: rng.randrange(2)]


def _other_list(a: AttributeProto, rng: random.Random) -> None:
    values: Any = {6: a.floats, 7: a.ints, 8: a.strings}[int(a.type)]
    some: Any = {6: FLOATS, 7: INTS, 8: [t.encode() for t in TEXTS]}[int(a.type)]
    way = rng.randrange(3)
    if way == 0 and values:
        del values[rng.randrange(len(values)) :]
    elif way == 1 or not values:
        values.append(rng.choice(some))
    else:
        values[rng.randrange(len(values))] = rng.choice(some)


def lost(model: onnx.ModelProto, rng: random.Random) -> bool:
    """An attribute, an operand or a result less."""
    node = rng.choice(model.graph.node)
    values: Any = rng.choice([v for v in (node.attribute, node.input, node.output) if v] or [[]])
    if not values:
        return False
    place = rng.randrange(len(values))
    if values is node.attribute or rng.random() < 0.3:
        del values[place]
    else:
        values[place] = ""
    return True


def swapped(model: onnx.ModelProto, rng: random.Random) -> bool:
    """An operand in the place of another, or behind the last."""
    node = rng.choice(model.graph.node)
    names = [i.name for i in (*model.graph.input, *model.graph.initializer)]
    if not names or not node.input:
        return False
    if rng.random() < 0.3:
        node.input.append(rng.choice(names))
    else:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    return True


def shape(model: onnx.ModelProto, rng: random.Random) -> bool:
    """An input of another rank or extent."""
    if not model.graph.input:
        return False
    dims = rng.choice(model.graph.input).type.tensor_type.shape.dim
    if dims and rng.random() < 0.6:
        dims[rng.randrange(len(dims))].dim_value = rng.choice(EXTENTS)
    elif dims and rng.random() < 0.5:
        del dims[rng.randrange(len(dims)) :]
    else:
        dims.add(dim_value=rng.choice(EXTENTS[:4]))
    return True


def element(model: onnx.ModelProto, rng: random.Random) -> bool:
    """An input of another type."""
    if not model.graph.input:
        return False
    rng.choice(model.graph.input).type.tensor_type.elem_type = rng.choice(TYPES)
    return True


def uncomputed(model: onnx.ModelProto, rng: random.Random) -> bool:
    """An input that a node should have computed which onnx refuses; old opsets now and then."""
    if not model.graph.input:
        return False
    old = rng.choice(model.graph.input)
    bad = helper.make_node("Conv", ["odd", "odd"], [old.name], strides=[0, 0])
    nodes = [bad, *model.graph.node]
    model.graph.input.remove(old)
    model.graph.input.append(helper.make_tensor_value_info("odd", 1, [1, 1, 4]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    if rng.random() < 0.5:
        next(o for o in model.opset_import if o.domain == "").version = rng.choice((13, 17, 21))
    return True


def constant(model: onnx.ModelProto, rng: random.Random) -> bool:
    """An input that is a constant of odd numbers, or a constant whose numbers are odd."""
    held = list(model.graph.initializer)
    if held and (not model.graph.input or rng.random() < 0.7):
        tensor = rng.choice(held)
        array = numpy_helper.to_array(tensor)
    elif model.graph.input:
        value = rng.choice(model.graph.input)
        kind = value.type.tensor_type
        dims = [d.dim_value for d in kind.shape.dim]
        array = np.zeros(dims, helper.tensor_dtype_to_np_dtype(kind.elem_type))
        model.graph.input.remove(value)
        tensor = model.graph.initializer.add(name=value.name)
    else:
        return False
    odd = np.array(array)
    if array.dtype.kind in "iuf" and array.size:
        some = INTS if array.dtype.kind in "iu" else FLOATS
        for _ in range(rng.choice((1, 1, array.size))):
            with np.errstate(all="ignore"):
                number = np.array(rng.choice(some), "O" if array.dtype.kind in "iu" else "f8")
                info = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
                if info is not None:
                    number = np.clip(int(number), info.min, info.max)
                odd.reshape(-1)[rng.randrange(array.size)] = number
    tensor.CopyFrom(numpy_helper.from_array(odd, tensor.name))
    return True


DAMAGES = (
    attribute,
    attribute,
    attribute,
    lost,
    swapped,
    shape,
    shape,
    element,
    uncomputed,
    constant,
)
