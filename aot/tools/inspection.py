# SPDX-License-Identifier: Apache-2.0
"""`aotc inspect`: what a model takes and gives, and the exact options its open dimensions need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aot.errors import AotError, InternalError, model_word, one_line, typed
from aot.ir.deferred_import import onnx
from aot.ir.pins import Pin, pinned
from aot.load.containers import is_container
from aot.load.cut import part_of
from aot.load.examples import SIZES, example_pins, open_shapes
from aot.load.inputs import user_inputs
from aot.load.pin import check_names, declared_shapes
from aot.load.source import Opened, read_model
from aot.load.state_detection import state_pairs
from aot.options import Options

#: The front half of the compiler, which raises AotError for a model that it refuses.
Compiles = Callable[[Opened, Options], object]


@dataclass(frozen=True, slots=True)
class Inspection:
    """A model's interface. `options` are what must still be typed to compile it.

    `given` are the options that the user typed and that stay. `refused` is why the model cannot be
    compiled with all of them, and `advice` what would help ("" where it can). `states` are pairs
    that look like what one run hands to the next, as (input, output).
    """

    model: str
    opsets: tuple[tuple[str, int], ...]
    producer: str
    inputs: tuple[tuple[str, str, tuple[str, ...] | None], ...]
    outputs: tuple[tuple[str, str, tuple[str, ...] | None], ...]
    operators: tuple[tuple[str, int], ...]
    options: tuple[str, ...]
    states: tuple[tuple[str, str], ...] = ()
    given: tuple[str, ...] = ()
    refused: str = ""
    advice: str = ""

    def record(self) -> dict[str, Any]:
        """For --json."""
        return {
            "model": self.model,
            "opsets": dict(self.opsets),
            "producer": self.producer,
            "inputs": [_value(v) for v in self.inputs],
            "outputs": [_value(v) for v in self.outputs],
            "operators": dict(self.operators),
            "states": [
                {"input": i, "output": o, "option": option}
                for (i, o), option in zip(self.states, self.state_options(), strict=True)
            ],
            "options": list(self.options),
            "refused": self.refused,
        }

    def text(self) -> str:
        """A few lines to read; the last is the command to type, or what would help."""
        opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in self.opsets)
        by = f", {self.producer}" if self.producer else ""
        lines = [one_line(f"{self.model}: opset {opsets}{by}")]
        lines += [f"input  {_line(v)}" for v in self.inputs]
        lines += [f"output {_line(v)}" for v in self.outputs]
        operators = ", ".join(f"{n} {k}" for k, n in self.operators)
        lines.append(one_line(f"operators: {operators or 'none'}"))
        if self.states:
            lines.append(one_line("streaming: " + " ".join(self.state_options())))
        if self.refused:
            lines.append(one_line(f"refused: {self.refused}"))
            return "\n".join([*lines, *([one_line(f"hint: {self.advice}")] if self.advice else [])])
        words = ["aotc", model_word(self.model), "-o", "OUT", *self.given, *self.options]
        if self.options:
            lines.append("sizes and values are examples that can be compiled: put in yours")
        lines.append(("to type: " if self.options else "ready: ") + " ".join(words))
        return "\n".join(lines)

    def state_options(self) -> list[str]:
        """`--state IN=OUT` for every pair, as a shell takes it."""
        return [typed("--state", f"{i}={o}") for i, o in self.states]


def _value(v: tuple[str, str, tuple[str, ...] | None]) -> dict[str, Any]:
    """A value (name, type, dimensions or None) as JSON."""
    name, dtype, dims = v
    shape = None if dims is None else [int(d) if d.isdigit() else d for d in dims]
    return {"name": name, "dtype": dtype, "shape": shape}


def _line(v: tuple[str, str, tuple[str, ...] | None]) -> str:
    """A value (name, type, dimensions or None) as text."""
    name, dtype, dims = v
    shape = " of unknown rank" if dims is None else f"[{','.join(dims)}]"
    return one_line(f"{name}: {dtype}{shape}")


def inspect_model(
    path: Path,
    options: Options,
    compiles: Compiles,
    given: Sequence[tuple[str, str]] = (),
) -> Inspection:
    """Read `path` and say what it needs beyond `options`; ModelError if it is no model.

    `compiles` tries the options that are proposed: sizes that the compiler refuses are replaced by
    others. `given` are the options of the command line that pin something, with their values.
    """

    opened, options = part_of(Opened(*read_model(path)), options)
    graph = opened.proto.graph
    if not any(is_container(i) for i in graph.input):  # parts of these have names of their own
        check_names([i for i in user_inputs(graph) if i.type.HasField("tensor_type")], options)
    pins, error = _proposed(opened, options, compiles)
    counts = Counter(f"{n.domain}.{n.op_type}" if n.domain else n.op_type for n in graph.node)
    inputs = [i for i in user_inputs(graph) if i.name not in options.bindings]
    again = {(p.option, p.name) for p in pins}
    return Inspection(
        str(path),
        tuple(sorted((o.domain, o.version) for o in opened.proto.opset_import)),
        f"{opened.proto.producer_name} {opened.proto.producer_version}".strip(),
        tuple(_typed(i) for i in inputs),
        tuple(_typed(o) for o in graph.output),
        tuple(sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))),
        tuple(map(str, pins)),
        tuple(p for p in state_pairs(graph) if p[0] not in options.bindings),
        tuple(typed(o, v) for o, v in given if (o, v.rpartition("=")[0]) not in again),
        "" if error is None else error.what,
        "" if error is None else error.advice(),
    )


#: How often options that an error names are added.
_CURES = 4
#: After how many other sizes the same refusal is taken for one of all sizes.
_SURE = 2


def _proposed(
    opened: Opened, options: Options, compiles: Compiles
) -> tuple[list[Pin], AotError | None]:
    """(options to add so that the model compiles, None), or ([], the first error) if none are
    found.

    Sizes of open dimensions are tried in turn; options that an error names are added.
    """

    graph = opened.proto.graph
    open_ = open_shapes(declared_shapes(graph), options)
    first: AotError | None = None
    for tried, (size, rank) in enumerate(SIZES if open_ else SIZES[:1]):
        pins = example_pins(graph, open_, size, rank)
        refusal = error = _refusal(opened, pinned(options, pins), compiles)
        for _ in range(_CURES):
            added = [] if error is None else [p for p in error.add if p not in pins]
            if error is None or not added:
                break
            pins = [*pins, *added]
            error = _refusal(opened, pinned(options, pins), compiles)
        if error is None or refusal is None:
            return pins, None
        # Other sizes did not change the error, so it is not about sizes.
        if first is not None and refusal.what == first.what and tried >= _SURE:
            break
        first = first or refusal
    return [], first


def _refusal(opened: Opened, options: Options, compiles: Compiles) -> AotError | None:
    """Why the front half of the compiler refuses the model, None if it does not."""
    try:
        compiles(opened, options)
    except InternalError:
        raise
    except AotError as error:
        return error
    return None


def _typed(info: onnx.ValueInfoProto) -> tuple[str, str, tuple[str, ...] | None]:
    return info.name, *_kind(info.type)


def _kind(kind: onnx.TypeProto) -> tuple[str, tuple[str, ...] | None]:
    """The element type, with what holds the tensors before it, and the dimensions."""
    which = kind.WhichOneof("value") or "value"
    if which in ("sequence_type", "optional_type"):
        dtype, dims = _kind(getattr(kind, which).elem_type)
        return f"{which.removesuffix('_type')} of {dtype}", dims
    if which != "tensor_type":
        return which.replace("_type", "").replace("_", " "), None
    tensor = kind.tensor_type
    names = onnx.TensorProto.DataType
    known = tensor.elem_type in names.values()
    dtype = names.Name(tensor.elem_type).lower() if known else f"type {tensor.elem_type}"
    dtype = {"float": "float32", "double": "float64"}.get(dtype, dtype)
    if not tensor.HasField("shape"):
        return dtype, None
    return dtype, tuple(_dim(d) for d in tensor.shape.dim)


def _dim(dim: Any) -> str:
    """A dimension as text: its size, its name, or "?"."""
    if dim.HasField("dim_value") and dim.dim_value != -1:
        return str(dim.dim_value)
    return str(dim.dim_param) or "?"
