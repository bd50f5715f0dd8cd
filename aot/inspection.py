# SPDX-License-Identifier: Apache-2.0
"""`aotc inspect`: what a model takes and gives, and the exact options its open dimensions need."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aot.errors import one_line, typed
from aot.options import Options

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, slots=True)
class Inspection:
    """A model's interface. `options` are what must still be typed to compile it.

    `states` are pairs that look like what one run hands to the next, as (input, output).
    """

    model: str
    opsets: tuple[tuple[str, int], ...]
    producer: str
    inputs: tuple[tuple[str, str, tuple[str, ...] | None], ...]
    outputs: tuple[tuple[str, str, tuple[str, ...] | None], ...]
    operators: tuple[tuple[str, int], ...]
    options: tuple[str, ...]
    states: tuple[tuple[str, str], ...] = ()

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
        }

    def text(self) -> str:
        """A few lines to read; the last is the command to type."""
        opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in self.opsets)
        by = f", {self.producer}" if self.producer else ""
        lines = [one_line(f"{self.model}: opset {opsets}{by}")]
        lines += [f"input  {_line(v)}" for v in self.inputs]
        lines += [f"output {_line(v)}" for v in self.outputs]
        operators = ", ".join(f"{n} {k}" for k, n in self.operators)
        lines.append(one_line(f"operators: {operators or 'none'}"))
        if self.states:
            lines.append(one_line("streaming: " + " ".join(self.state_options())))
        command = ["aotc", self.model, "-o", "OUT", *self.options]
        lines.append(one_line(("to type: " if self.options else "ready: ") + " ".join(command)))
        return "\n".join(lines)

    def state_options(self) -> list[str]:
        """`--state IN=OUT` for every pair, as a shell takes it."""
        return [typed(f"--state {i}={o}") for i, o in self.states]


def _value(v: tuple[str, str, tuple[str, ...] | None]) -> dict[str, Any]:
    name, dtype, dims = v
    shape = None if dims is None else [int(d) if d.isdigit() else d for d in dims]
    return {"name": name, "dtype": dtype, "shape": shape}


def _line(v: tuple[str, str, tuple[str, ...] | None]) -> str:
    name, dtype, dims = v
    shape = " of unknown rank" if dims is None else f"[{','.join(dims)}]"
    return one_line(f"{name}: {dtype}{shape}")


def inspect_model(path: Path, options: Options) -> Inspection:
    """Read `path` (no weights) and say what it needs beyond `options`; ModelError if it is none."""
    from aot.load.containers import is_container
    from aot.load.pin import check_names, unpinned, user_inputs
    from aot.load.source import read_model
    from aot.streaming import state_pairs

    model, _ = read_model(path)
    graph = model.graph
    if not any(is_container(i) for i in graph.input):  # parts of these have names of their own
        check_names([i for i in user_inputs(graph) if i.type.HasField("tensor_type")], options)
    left = [o for o in unpinned(model) if not _pinned(o.input, o.axis, o.symbol, options)]
    needed = sorted({o.option for o in left}, key=[o.option for o in left].index)
    counts = Counter(f"{n.domain}.{n.op_type}" if n.domain else n.op_type for n in graph.node)
    inputs = [i for i in user_inputs(graph) if i.name not in options.bindings]
    return Inspection(
        str(path),
        tuple(sorted((o.domain, o.version) for o in model.opset_import)),
        f"{model.producer_name} {model.producer_version}".strip(),
        tuple(_typed(i) for i in inputs),
        tuple(_typed(o) for o in graph.output),
        tuple(sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))),
        tuple(map(typed, needed)),
        tuple(p for p in state_pairs(graph) if p[0] not in options.bindings),
    )


def _pinned(name: str, axis: int, symbol: str, options: Options) -> bool:
    if name in options.bindings:
        return True
    shape = options.input_shapes.get(name)
    if shape is not None and (axis < 0 or (axis < len(shape) and shape[axis] != -1)):
        return True
    return bool(symbol) and symbol in options.dims


def _typed(info: onnx.ValueInfoProto) -> tuple[str, str, tuple[str, ...] | None]:
    dtype, dims = _kind(info.type)
    return info.name, dtype, dims


def _kind(kind: onnx.TypeProto) -> tuple[str, tuple[str, ...] | None]:
    """The element type, with what holds the tensors before it, and the dimensions."""
    import onnx

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
    if dim.HasField("dim_value") and dim.dim_value != -1:
        return str(dim.dim_value)
    return str(dim.dim_param) or "?"
