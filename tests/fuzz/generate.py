# SPDX-License-Identifier: Apache-2.0
"""A random valid model from a seed: inputs, nodes of the families, outputs, functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from fuzz.altered import altered
from fuzz.draft import KINDS, Array, Draft, Reject, captured, initialiser, typed
from fuzz.families import Family, load

#: The newest opset that onnxruntime loads, and others.
OPSETS = (21, 21, 21, 21, 18, 19, 20, 22, 23, 24, 25)
NEWEST = onnx.defs.onnx_opset_version()
IR_VERSION = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13}
FLOATS = ("float32",) * 14 + ("float64", "float16", "float16", "bfloat16")
INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")


#: How often one thing of what was drawn is changed.
ALTERED = 0.35
#: How often what would be given to the run is known to the compiler.
KNOWN = 0.08
#: How often each family is drawn alone behind the declared cases, one opset after the other.
ROUNDS = 8


@dataclass
class Model:
    """A model with one set of inputs. `errors` bounds what outputs may differ by (see Draft).

    One that was `altered` may be no model: onnx.reference computes many that onnxruntime refuses.
    """

    seed: int
    proto: onnx.ModelProto
    feeds: dict[str, Array]
    errors: dict[str, float] = field(default_factory=dict)
    rough: bool = False
    families: tuple[str, ...] = ()
    pairs: frozenset[tuple[str, str]] = frozenset()
    altered: bool = False

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return [o.name for o in self.proto.graph.output]


def draft_of(seed: int, plain: bool = False) -> Draft:
    """An empty draft with inputs."""
    rng = np.random.default_rng([7, seed])
    d = Draft(rng)
    d.opset = int(d.one(*OPSETS)) if d.chance(0.93) else NEWEST
    d.float_ = d.one(*FLOATS)
    d.wild = d.chance(0.12)
    if plain:
        d.opset, d.float_, d.wild = 21, "float32", False
    for _ in range(d.one(1, 1, 2, 3)):
        d.feed(d.array(input_shape(d)))
    for _ in range(d.one(0, 0, 1, 2)):
        d.feed(d.array(input_shape(d)[-2:], np.dtype(d.one(*INTS))))
    return d


def input_shape(d: Draft) -> list[int]:
    """A shape of up to five axes."""
    draw = d.rng.random()
    if draw < 0.4:
        sides = (1, 4, 5, 7, 8, 12), (1, 4, 6, 7, 9, 13)
        channels = d.one(1, 3, 4, 8, 16, 17, 20, 32)
        return [d.one(1, 1, 2, 3), channels, d.one(*sides[0]), d.one(*sides[1])]
    if draw < 0.65:
        return [d.one(1, 2), d.one(1, 3, 8, 17), d.one(1, 5, 16, 20)]
    if draw < 0.82:
        return [d.one(1, 2, 5), d.one(1, 7, 16, 33)]
    if draw < 0.9:
        return [d.one(1, 5, 40)]
    if draw < 0.93:
        return []
    if draw < 0.96:
        return d.one([0], [0, 3], [2, 0, 4], [1, 3, 0, 5])
    return [1, d.one(2, 4), d.one(3, 5), 4, d.one(3, 4)]


def grow(d: Draft, wanted: int, only: tuple[str, ...] = ()) -> list[str]:
    """Add families until there are `wanted` nodes; the names of those that were added."""
    families = load()
    names = [n for n in families if not only or n in only]
    weights = np.array([float(families[n][1]) for n in names])
    weights /= weights.sum()
    used = []
    for _ in range(12 * wanted):
        if len(d.nodes) >= wanted:
            break
        name = str(d.rng.choice(names, p=weights))
        if attempt(d, families[name][0]):
            used.append(name)
    return used


def attempt(d: Draft, add: Family) -> bool:
    """Let a family add its nodes; all or none."""
    nodes, values, feeds = list(d.nodes), dict(d.values), dict(d.feeds)
    consts, errors, dynamic = dict(d.consts), dict(d.errors), set(d.dynamic)
    domains, rough, coarse = dict(d.domains), d.rough, set(d.coarse)
    try:
        add(d)
        return True
    except (Reject, ValueError, TypeError, IndexError, OverflowError, MemoryError):
        d.nodes, d.values, d.feeds, d.consts = nodes, values, feeds, consts
        d.errors, d.dynamic, d.domains, d.rough = errors, dynamic, domains, rough
        d.coarse = coarse
        return False


def generate(seed: int, only: tuple[str, ...] = (), plain: bool = False) -> Model | None:
    """The model of a seed, None if nothing came of it.

    `only` names the families to draw from; `plain` asks for opset 21, float32, finite numbers.

    Seed −k starts with the declared case number k (modulo their number).
    """
    d = draft_of(abs(seed), plain)
    wanted = d.one(1, 1, 2, 4, 6, 8, 12, 16) if not only else d.upto(1, 5)
    used = directed(d, -seed) if seed < 0 else grow(d, wanted, only)
    if not d.nodes:
        return None
    drawn = d
    if d.chance(ALTERED):
        d = altered(d)
    if d.chance(KNOWN):
        d.consts, d.feeds = d.feeds | d.consts, {}
    outputs, pairs = choose_outputs(d), pairs_of(d)
    functions = [outlined(d, outputs)] if d.chance(0.12) else []
    proto = assemble(d, outputs, [f for f in functions if f])
    if not well_typed(proto, d):
        return None
    kept = {i.name: d.feeds[i.name] for i in proto.graph.input}
    errors = {o: d.errors.get(o, 0.0) for o in outputs}
    return Model(seed, proto, kept, errors, d.rough, tuple(used), pairs, d is not drawn)


def well_typed(proto: onnx.ModelProto, d: Draft) -> bool:
    """Whether ONNX's own inference accepts the model and gives every value the type it has.

    onnx.reference computes some operators in another type than they have.
    """
    # What ONNX defines it by mixes types when its own are short.
    strict = "MeanVarianceNormalization" not in {n.op_type for n in d.nodes}
    try:
        context = onnx.checker.C.CheckerContext()
        context.ir_version = proto.ir_version
        context.opset_imports = {o.domain: o.version for o in proto.opset_import}
        for n in d.nodes:
            if n.domain != "local" and not captured(n):
                onnx.checker.check_node(n, context)
        known = onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=strict)
    except Exception:
        return False
    told = {v.name: v.type.tensor_type.elem_type for v in known.graph.value_info}
    for o in proto.graph.output:
        told[o.name] = o.type.tensor_type.elem_type
    strings = {n for n, a in d.values.items() if a.dtype.kind in "OSU"}
    return all(
        n in strings or n not in d.values or told[n] == kind_of(d.values[n])
        for n in told
        if told[n]
    )


def kind_of(array: Array) -> int:
    """ONNX's number of an array's type."""
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def directed(d: Draft, number: int) -> list[str]:
    """A declared case, in the oldest opset that has it, perhaps a node or two more; or a family."""
    from fuzz.special import adopt_case, declared, opset_of

    families = load()
    index = number % (len(declared()) + ROUNDS * len(families))
    if index >= len(declared()):
        turn, k = divmod(index - len(declared()), len(families))
        d.wild, d.opset = False, (21, 24, 25, NEWEST)[turn % 4]
        return grow(d, 1, (list(families)[k],))
    pattern, one = declared()[index]
    d.opset, d.wild = opset_of(pattern, one), False
    d.feeds.clear()
    d.values.clear()
    if not attempt(d, lambda e: adopt_case(e, pattern, one)):
        return []
    if d.opset <= max(IR_VERSION) and d.chance(0.3):
        return ["case_of", *grow(d, len(d.nodes) + 1)]
    return ["case_of"]


def pairs_of(d: Draft) -> frozenset[tuple[str, str]]:
    """(operator, type of its first input) of every node."""
    found = set()
    for n in d.nodes:
        first = next((d.values[i] for i in n.input if i in d.values), None)
        name = f"{n.domain}.{n.op_type}" if n.domain else n.op_type
        if first is not None:
            found.add((name, str(first.dtype)))
    return frozenset(found)


def choose_outputs(d: Draft) -> list[str]:
    """What is used nowhere, now and then an inner value, an input or a constant."""
    used = {i for n in d.nodes for i in (*n.input, *captured(n))}
    made = [o for n in d.nodes for o in n.output if o in d.values]
    outputs = [o for o in made if o not in used and d.chance(0.85)] or made[-1:]
    outputs += [o for o in made if o not in outputs and d.chance(0.1)]
    if d.chance(0.07) and d.feeds:
        outputs.append(d.one(*d.feeds))
    if d.chance(0.05) and d.consts:
        outputs.append(d.one(*d.consts))
    kept = [o for o in dict.fromkeys(outputs) if is_common(d.values[o])][:8]
    d.rng.shuffle(kept)
    return kept or made[-1:]


def is_common(a: Any) -> bool:
    """Whether an output can be of this type everywhere."""
    return a.dtype.kind in "OSU" or a.dtype.name in KINDS


def assemble(d: Draft, outputs: list[str], functions: list[onnx.FunctionProto]) -> onnx.ModelProto:
    """The model of a draft: only the inputs and constants that are used."""
    used = {i for n in d.nodes for i in (*n.input, *captured(n))} | set(outputs)
    results = []
    for name in outputs:
        info = typed(name, d.values[name])
        if name in d.dynamic or any(n in d.dynamic for n in ancestors(d, name)):
            info.type.tensor_type.ClearField("shape")
        results.append(info)
    graph = helper.make_graph(
        d.nodes,
        "fuzz",
        [typed(n, a) for n, a in d.feeds.items() if n in used],
        results,
        [initialiser(n, a) for n, a in d.consts.items() if n in used],
    )
    opsets = d.opsets + [helper.make_opsetid(f.domain, 1) for f in functions]
    version = IR_VERSION.get(d.opset, 13)
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=version)


def ancestors(d: Draft, name: str) -> set[str]:
    """Names of all values that `name` is computed from."""
    makers = {o: n for n in d.nodes for o in n.output}
    found: set[str] = set()
    queue = [name]
    while queue:
        node = makers.get(queue.pop())
        for i in (*node.input, *captured(node)) if node else ():
            if i and i not in found:
                found.add(i)
                queue.append(i)
    return found


def outlined(d: Draft, outputs: list[str]) -> onnx.FunctionProto | None:
    """Turn some nodes in a row into a function that is called in their place."""
    plain_ = [i for i, n in enumerate(d.nodes) if not n.domain and not captured(n)]
    if not plain_:
        return None
    first = d.one(*plain_)
    last = first
    while last + 1 in plain_ and last - first < 3:
        last += 1
    inner = d.nodes[first : last + 1]
    made = {o for n in inner for o in n.output if o}
    taken = dict.fromkeys(i for n in inner for i in n.input if i and i not in made)
    later = {i for n in d.nodes[last + 1 :] for i in (*n.input, *captured(n))} | set(outputs)
    given = [o for n in inner for o in n.output if o in later]
    if not given:
        return None
    function = helper.make_function(
        "local", "Part", list(taken), given, inner, [helper.make_opsetid("", d.opset)]
    )
    call = helper.make_node("Part", list(taken), given, domain="local")
    d.nodes[first : last + 1] = [call]
    return function
