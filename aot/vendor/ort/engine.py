# SPDX-License-Identifier: Apache-2.0
"""The backend: a pattern per operator, checks that ask onnxruntime, regions as one call each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import onnx

from aot.vendor import (
    OP,
    Backend,
    BackendOptions,
    DType,
    Limits,
    Match,
    NodeRef,
    Operand,
    Recorder,
    RegionView,
    UnsupportedError,
    UsageError,
    ValueRef,
    wildcard,
)
from aot.vendor.ort.cases import CASES
from aot.vendor.ort.network import INTERFACE, computed, session

NAME, HEADER, FOLDER = "ort", "aot_ort.h", Path(__file__).parent
Inputs = tuple[ValueRef | None, ...]
#: Operators that portable C does not compute and onnxruntime does, of fixed sizes.
OTHERS = tuple(f"com.microsoft.{name}" for name in CASES)
#: Operators that a region cannot compute for all inputs: for which it can, why not for others.
CONDITIONS: dict[str, tuple[Callable[[Inputs], bool], str]] = {
    "com.microsoft.BifurcationDetector": (
        lambda inputs: len(inputs) < 4,
        "data decide the size of its result (needs no predicted tokens)",
    ),
    "com.microsoft.DynamicTimeWarping": (
        lambda inputs: inputs[0] is not None and 1 in inputs[0].shape[-2:],
        "data decide the size of its result (needs one row or one column)",
    ),
    "com.microsoft.SparseAttention": (
        lambda inputs: False,
        "onnxruntime writes its results over its inputs (they lie beside them in a bundle)",
    ),
}
#: The inputs and the outputs that one call can name, and the axes of each.
MOST_TENSORS, MOST_AXES = 8, 8
#: Results that a node may have.
RESULTS = ("y", *(f"y{k}" for k in range(1, MOST_TENSORS)))


def fits(m: Match) -> Iterable[tuple[bool, str]]:
    """Conditions of a match: sizes that a call can say, no body, and that onnxruntime makes a
    session of the node."""
    clean = True
    for name, value in m.values.items():
        if value is not None and not value.is_const:
            sized = value.rank <= MOST_AXES and 0 < math.prod(value.shape) < 2**31
            clean = clean and sized
            yield (
                sized,
                f"{name} is {list(value.shape)} (needs 1 to 2^31 elements, {MOST_AXES} axes)",
            )
    body = any(a.type.name in ("GRAPH", "GRAPHS") for a in m.root.ir.attributes.values())
    yield not body, "a body (needs a node without one)"
    # A session takes longest, so it is only made of nodes that pass all else.
    if clean and not body:
        try:
            session(m.root.as_model()[0])
        except UnsupportedError as refused:
            yield False, refused.what


def types_of(node: NodeRef, inputs: Inputs) -> list[tuple[tuple[int, ...], DType]]:
    """(shape, element type) of each result that onnxruntime computes for inputs that are zero.

    UnsupportedError with the node where onnxruntime computes none, a condition of the operator does
    not hold, or a result has elements that the compiler does not know.
    """
    where = f"node {node.onnx_name}"
    condition = CONDITIONS.get(f"{node.ir.domain}.{node.op_type}")
    if condition is not None and not condition[0](inputs):
        raise UnsupportedError(condition[1], where)
    try:
        return [(a.shape, DType.from_numpy(a.dtype)) for a in computed(node)]
    except UnsupportedError as refused:
        raise UnsupportedError(refused.what, where) from refused
    except KeyError as unknown:
        raise UnsupportedError(f"a result of type {unknown}", where) from unknown


def lower(c: Recorder, region: RegionView) -> None:
    """A region as one call: its model, a session of it, and its tensors where they lie."""
    model = region.as_model()
    count = len(region.matches)
    c.covers([m for _, m in region.matches], f"onnxruntime: {count} operators, {len(model)} bytes")
    held = c.const(np.frombuffer(model, np.uint8), "onnx")
    made = c.state(
        "aot_ort_open", held, c.params(bytes=len(model)), release="aot_ort_close", slots=3
    )
    params = c.params(
        outputs=len(region.outputs),
        inputs=len(region.inputs),
        **_described(region.outputs, "out"),
        **_described(region.inputs, "in"),
    )
    tensors: list[Operand] = []
    for values, access in ((region.outputs, c.write), (region.inputs, c.read)):
        # The function takes a fixed number of tensors; unused places are null.
        tensors += [*map(access, values), *[None] * (MOST_TENSORS - len(values))]
    c.call("aot_ort_run", made, *tensors, params, status=True)


def _described(values: Sequence[ValueRef], side: str) -> dict[str, tuple[int, ...]]:
    """Fields of tensors: element types (ONNX's numbers), sizes in bytes, ranks, extents."""
    unused = (0,) * (MOST_TENSORS - len(values))
    extents = [n for v in values for n in (*v.shape, *[0] * (MOST_AXES - v.rank))]
    return {
        f"{side}_type": (*(v.dtype.onnx for v in values), *unused),
        f"{side}_bytes": (*(math.prod(v.shape) * v.dtype.nbytes for v in values), *unused),
        f"{side}_rank": (*(v.rank for v in values), *unused),
        f"{side}_shape": (*extents, *unused * MOST_AXES),
    }


def declare(backend: Backend, name: str) -> None:
    """Add the pattern of an operator with any number of inputs: `Conv`, `com.microsoft.CDist`."""
    domain, _, op_type = name.rpartition(".")
    graph = getattr(OP.domain(domain), op_type)(wildcard("xs"), _optional=-1)
    cases = (lambda: [CASES[op_type]()]) if name in OTHERS else None
    made = backend.declare(op_type, graph, fits, cases=cases, outputs=RESULTS)
    if domain.startswith("com."):
        made.infer(types_of)


def backend_for(operators: Sequence[str]) -> Backend:
    """The backend that takes these operators."""
    made = Backend(
        NAME,
        header=HEADER,
        sources=("aot_ort.c", "aot_ort_api.h", HEADER),
        link="onnxruntime::onnxruntime",
        find="find_ort.cmake",
        hint="pip install onnxruntime, or set ort_ROOT, a variable of CMake or of the environment, "
        "to the folder that libonnxruntime.so lies in.",
        definitions=(f"AOT_ORT_INTERFACE={INTERFACE}",),
        configure=configure,
        systems=("linux",),
        limits=Limits(inputs=MOST_TENSORS, outputs=MOST_TENSORS),
        folder=FOLDER,
    )
    for name in operators:
        declare(made, name)
    made.region(lower)
    return made


def configure(said: BackendOptions) -> Backend:
    """The backend as the user asks for it: `ort`, or `ort:Softmax+com.microsoft.CDist`.

    Raises UsageError for what is no operator, and for options.
    """
    said.only(NAME)
    names = said.config.split("+") if said.config else OTHERS
    for name in names:
        domain, _, op_type = name.rpartition(".")
        written = re.fullmatch(r"[A-Za-z_][\w.]*", name, re.ASCII) is not None
        if not written or (not domain.startswith("com.") and not onnx.defs.has(op_type, domain)):
            hint = "operators between plus signs: --backend ort:Softmax+com.microsoft.CDist"
            raise UsageError(
                f"--backend ort:{said.config}: ONNX has no operator {name!r}", hint=hint
            )
    return backend_for(names)


backend = backend_for(OTHERS)
