# SPDX-License-Identifier: Apache-2.0
"""Pinning: every input gets a static shape from the file, `--dim`, `--input-shape` or `--bind`.

A range gives an axis the length of its upper end and makes it a Dimension that every run says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aot.errors import AotError, ModelError, UnsupportedError, UsageError, meant, raise_all
from aot.ir.deferred_import import onnx
from aot.ir.pins import Pin
from aot.load.examples import example_pins, is_batch, open_shapes, with_batch
from aot.load.inputs import user_inputs
from aot.load.options import LoadOptions, Size, size_of
from aot.options import Options
from aot.shapes.dim_expressions import Unsettled, parsed
from aot.shapes.dynamic.input_dims import Dimension
from aot.shapes.limits import excess

Dim = int | str | Dimension | None
"""A size, a symbol's name, a range, or None where the file says nothing."""

Known = dict[str, int | Dimension]

ANONYMOUS = ("", "?", "*", "-1", "None")
"""What exporters write for "any size": two of them need not be equal."""


@dataclass(frozen=True, slots=True)
class OpenAxis:
    """An axis of an input whose size must be given before the model can be compiled."""

    input: str
    axis: int
    symbol: str


def declared(info: onnx.ValueInfoProto) -> list[Dim] | None:
    """The sizes or names that the file declares for the axes of an input; None without a shape.

    A size that the file leaves open has no name (None). Errors for inputs that are no dense
    tensors.
    """
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        what = f'input "{info.name}" is a {str(kind or "value without type").replace("_", " ")}'
        raise UnsupportedError(what, hint="inputs must be dense tensors")
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims: list[Dim] = []
    for axis, dim in enumerate(tensor.shape.dim):
        # Some exporters write -1 for a size that is open.
        if dim.HasField("dim_value") and dim.dim_value != -1:
            if dim.dim_value < 0:
                what = f'input "{info.name}": dimension {axis} is {dim.dim_value} (negative)'
                raise ModelError(what)
            dims.append(dim.dim_value)
        else:
            dims.append(dim.dim_param if dim.dim_param not in ANONYMOUS else None)
    return dims


def _element(info: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """The input, or what it holds if it is a sequence or an optional."""
    found = info
    while (kind := found.type.WhichOneof("value")) in ("sequence_type", "optional_type"):
        held = onnx.ValueInfoProto(name=info.name)
        held.type.CopyFrom(getattr(found.type, kind).elem_type)
        found = held
    return found


def _open(name: str, dims: list[Dim] | None) -> Iterator[OpenAxis]:
    """Yield the axes of an input without a size; axis -1 stands for an unknown shape."""
    if dims is None:
        yield OpenAxis(name, -1, "")
        return
    for axis, dim in enumerate(dims):
        if dim is None or isinstance(dim, str):
            yield OpenAxis(name, axis, dim or "")


def declared_shapes(graph: onnx.GraphProto) -> dict[str, list[int | str | None] | None]:
    """By name of a user's input: its declared shape, None if none is declared.

    A dimension is a number, a name, or None where the file says nothing. A sequence or optional
    has the shape of its elements.
    """
    found: dict[str, list[int | str | None] | None] = {}
    for info in user_inputs(graph):
        found[info.name] = _plain(declared(_element(info)))
    return found


def pin(
    graph: onnx.GraphProto, options: LoadOptions
) -> tuple[tuple[Dimension, ...], tuple[str, ...]]:
    """Make every input static and every binding an initialiser; drop inner declared shapes.

    Axes with a range are as long as its upper end; these dimensions are returned. A first axis
    without size and name is a batch of 1; a note that says so is returned, too.
    """
    inputs = user_inputs(graph)
    check_names(inputs, options)
    symbols: Known = {n: _known(n, size_of(v, f"--dim {n}")) for n, v in options.dims.items()}
    shapes: dict[str, list[Dim] | None] = {}
    for info in inputs:
        dims = declared(info)
        wanted = _wanted(info.name, dims, options)
        shapes[info.name] = dims if wanted is None else _merge(info.name, dims, wanted, symbols)
    batches = [n for n, dims in shapes.items() if is_batch(dims)]
    for name in batches:
        shapes[name] = with_batch(shapes[name])
    # Errors of all inputs are gathered, so that one message tells them all.
    errors: list[AotError] = list(_evaluate_expressions(inputs, symbols))
    pins = _pins(graph, inputs, options)
    for info in inputs:
        dims = _substitute(shapes[info.name], symbols)
        errors += _errors(info.name, dims, pins)
        _set_shape(info, dims)
    raise_all(errors)
    bind(graph, inputs, options.bindings)
    kept = [i for i in inputs if i.name not in options.bindings]
    del graph.input[:]
    graph.input.extend(kept)
    dimensions = _dimensions([_substitute(shapes[i.name], symbols) or [] for i in kept])
    return dimensions, _batch_notes({n: _substitute(shapes[n], symbols) for n in batches})


def _batch_notes(shapes: Mapping[str, list[Dim] | None]) -> tuple[str, ...]:
    """A sentence for all inputs that got a batch of 1, with the option that gives another size."""
    if not shapes:
        return ()
    name, dims = next(iter(shapes.items()))
    other = Pin(
        "--input-shape",
        name,
        (2, *(_most(d) for d in (dims or ())[1:] if isinstance(d, int | Dimension))),
    )
    inputs = ", ".join(f'"{n}"' for n in list(shapes)[:4])
    more = f" and {len(shapes) - 4} more" if len(shapes) > 4 else ""
    said = f"dimension 0 has neither size nor name in the file and is 1 ({other} makes it 2)"
    return (f"{'input' if len(shapes) == 1 else 'inputs'} {inputs}{more}: {said}",)


def _evaluate_expressions(inputs: list[onnx.ValueInfoProto], symbols: Known) -> Iterator[AotError]:
    """Make expressions of known symbols known too; yield those that have no size, or another."""
    for info in inputs:
        for axis, dim in enumerate(declared(info) or ()):
            expression = parsed(dim) if isinstance(dim, str) else None
            # A name without a size is an open dimension, about which there is an error later.
            if expression is None or any(n not in symbols for n in expression.names):
                continue
            assert isinstance(dim, str)
            where = f'input "{info.name}": dimension {axis} ("{dim}")'
            sizes = {n: symbols[n] for n in expression.names}
            said = ", ".join(f"{n}={_text(s)}" for n, s in sizes.items())
            ends = {n: (_least(s), _most(s)) for n, s in sizes.items()}
            try:
                least, most = expression.limits(ends)
            except Unsettled as reason:
                yield ModelError(f"{where} {reason}", f"--dim {said}")
                continue
            numbers = {n: s for n, s in sizes.items() if isinstance(s, int)}
            found = _known(expression.with_numbers(numbers), size_of((least, most), where))
            other = symbols.get(dim, found)
            if (_least(other), _most(other)) != (least, most):
                what = f"{where} is given as {_text(other)}, {said} makes it {_text(found)}"
                yield ModelError(what, hint="leave one of them out")
            symbols[dim] = found


def _known(name: str, size: Size) -> int | Dimension:
    return Dimension(name, *size) if isinstance(size, tuple) else size


def _dimensions(shapes: list[list[Dim]]) -> tuple[Dimension, ...]:
    """The ranges among the inputs' shapes, each with its axes."""
    places: dict[Dimension, list[tuple[int, int]]] = {}
    for index, dims in enumerate(shapes):
        for axis, dim in enumerate(dims):
            if isinstance(dim, Dimension):
                places.setdefault(dim, []).append((index, axis))
    return tuple(replace(d, axes=tuple(axes)) for d, axes in places.items())


def _wanted(name: str, dims: list[Dim] | None, options: LoadOptions) -> tuple[Size, ...] | None:
    """The shape that the user gives an input; one number is a list of one where that is needed."""
    if name not in options.bindings:
        return options.input_shapes.get(name)
    shape = tuple(np.shape(options.bindings[name]))
    if shape or dims is None or not (len(dims) == 1 or all(d == 1 for d in dims)):
        return shape
    return (1,) * len(dims)


def check_names(inputs: list[onnx.ValueInfoProto], options: LoadOptions | Options) -> None:
    """ModelError where an option names an input or a symbolic dimension that there is none of."""
    names = [i.name for i in inputs]
    symbols: list[str] = []
    for info in inputs:
        texts = [d for d in declared(info) or () if isinstance(d, str)]
        within = [n for d in texts if (found := parsed(d)) is not None for n in found.names]
        # In the order of the file, so that a message is the same in every run.
        symbols += [d for d in dict.fromkeys((*within, *texts)) if d not in symbols]
    for given, option, known in (
        (options.input_shapes, "--input-shape", names),
        (options.bindings, "--bind", names),
        (options.dims, "--dim", symbols),
    ):
        for name in given:
            if name not in known:
                what = "symbolic dimension" if option == "--dim" else "input"
                has = ", ".join(known[:8]) if known else _sizes(inputs)
                hint = meant(name, known, f"the model has {has}")
                raise ModelError(f'the model has no {what} "{name}"', option, hint)
    for name, size in options.dims.items():
        if isinstance(size, int) and size < 0:
            raise UsageError(f"--dim {name}={size}: a dimension cannot be negative")


def _sizes(inputs: list[onnx.ValueInfoProto]) -> str:
    """For a hint: that there is no symbolic dimension, and the dimensions of the inputs."""
    found: list[str] = []
    for info in inputs[:4]:
        dims, sizes = declared(info), "of unknown rank"
        if dims is not None:
            sizes = "[" + ", ".join("?" if d is None else str(d) for d in dims) + "]"
        found.append(f"{info.name} {sizes}")
    return f"none, its inputs are {', '.join(found)}" if found else "none"


def _merge(
    name: str, dims: list[Dim] | None, wanted: tuple[Size, ...], symbols: Known
) -> list[Dim]:
    """`wanted` checked against the declared dims; names a whole shape gives become known."""
    if dims is None:
        return [_given(name, axis, None, size) for axis, size in enumerate(wanted)]
    if len(dims) != len(wanted):
        what = f'input "{name}" has rank {len(dims)}, the shape given {list(wanted)} has '
        raise ModelError(f"{what}{len(wanted)}")
    for axis, (dim, size) in enumerate(zip(dims, wanted, strict=True)):
        if isinstance(size, int) and size < -1:
            raise ModelError(f'input "{name}": dimension {axis} given as {size} (negative)')
        if isinstance(dim, int) and size not in (dim, -1):
            said = _text(size)
            raise ModelError(f'input "{name}": dimension {axis} is {dim} in the model, not {said}')
        if isinstance(dim, str) and size != -1:
            known = _known(dim, size_of(size, f"--input-shape {name}"))
            # A name stands for one size, in whichever inputs it occurs.
            if symbols.setdefault(dim, known) != known:
                what = f'input "{name}": dimension {axis} ("{dim}") is given as {_text(known)}'
                raise ModelError(f"{what} and as {_text(symbols[dim])}")
    pairs = zip(dims, wanted, strict=True)
    return [d if s == -1 else _given(name, a, d, s) for a, (d, s) in enumerate(pairs)]


def _given(name: str, axis: int, dim: Dim, size: Size) -> Dim:
    """A size of `--input-shape`; a range without a name in the file is called after its axis."""
    label = dim if isinstance(dim, str) else f"{name}[{axis}]"
    return _known(label, size_of(size, f"--input-shape {name}"))


def _text(size: Size | Dimension) -> str:
    """A size or range as the user writes it: "3", "1..64"."""
    if isinstance(size, Dimension):
        return f"{size.least}..{size.most}"
    return f"{size[0]}..{size[1]}" if isinstance(size, tuple) else str(size)


def _substitute(dims: list[Dim] | None, symbols: Mapping[str, int | Dimension]) -> list[Dim] | None:
    """The dims with names replaced by their sizes where `symbols` has them."""
    if dims is None:
        return None
    return [symbols.get(d, d) if isinstance(d, str) else d for d in dims]


def _pins(
    graph: onnx.GraphProto, inputs: list[onnx.ValueInfoProto], options: LoadOptions
) -> list[Pin]:
    """The options that pin what is open, with sizes that are examples."""
    pins = example_pins(graph, open_shapes({i.name: _plain(declared(i)) for i in inputs}, options))
    return [replace(p, instead=p.name in options.input_shapes) for p in pins]


def _plain(dims: list[Dim] | None) -> list[int | str | None] | None:
    """Dimensions as the file declares them: none is a range."""
    return None if dims is None else [d for d in dims if not isinstance(d, Dimension)]


def _errors(name: str, dims: list[Dim] | None, pins: list[Pin]) -> Iterator[AotError]:
    """Yield errors for axes of an input that have no size, and for shapes beyond the limits."""
    for axis in _open(name, dims):
        if axis.axis < 0:
            what = f'input "{name}" has no shape'
        else:
            symbol = f' ("{axis.symbol}")' if axis.symbol else ""
            what = f'input "{name}": dimension {axis.axis}{symbol} is not pinned'
        yield ModelError(what, hint="with sizes of yours", add=pins)
    if dims is not None and all(isinstance(d, int | Dimension) for d in dims):
        reason = excess([_most(d) for d in dims if isinstance(d, int | Dimension)])
        if reason:
            yield ModelError(f'input "{name}": {reason}')


def _least(dim: int | Dimension) -> int:
    return dim.least if isinstance(dim, Dimension) else dim


def _most(dim: int | Dimension) -> int:
    return dim.most if isinstance(dim, Dimension) else dim


def _set_shape(info: onnx.ValueInfoProto, dims: list[Dim] | None) -> None:
    """Write the shape of an input, in place; dynamic dimensions get their upper bound."""
    shape = info.type.tensor_type.shape
    del shape.dim[:]
    for dim in dims or ():
        entry = shape.dim.add()
        if isinstance(dim, int | Dimension):
            entry.dim_value = _most(dim)


def bind(
    graph: onnx.GraphProto, inputs: list[onnx.ValueInfoProto], bindings: Mapping[str, Any]
) -> None:
    """Turn bound inputs into initialisers, in place, of their declared element type.

    ModelError if a value does not fit the type exactly, or the shape.
    """
    for info in inputs:
        if info.name not in bindings:
            continue
        dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        given = np.asarray(bindings[info.name])
        if not _storable(given, dtype):
            what = f'input "{info.name}" is {dtype}, the value bound to it is {given.dtype}'
            raise ModelError(what)
        given = given.reshape(
            given.shape or tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
        )
        value = given.astype(dtype)
        exact = value.dtype.kind in "iub" or "int" in value.dtype.name  # 2 and 4 bits have no kind
        if exact and not np.array_equal(value.astype(_wide(value.dtype)), given):
            what = f'input "{info.name}" is {dtype}, the value bound to it is not ({given.dtype})'
            raise ModelError(what)
        graph.initializer.append(onnx.numpy_helper.from_array(value, info.name))


def _wide(dtype: Any) -> Any:
    """A type that NumPy compares, for the numbers of `dtype`."""
    import numpy as np

    return dtype if dtype.kind in "iub" else np.dtype(np.int8)


def _storable(given: Any, dtype: Any) -> bool:
    """Whether an array is of numbers (or texts, for an input of such) that have a text form."""
    if dtype.kind == "O":
        return bool(given.dtype.kind in "OSU")
    number = given.dtype.kind in "biuf" and given.itemsize <= 8
    return bool(number or given.dtype.isbuiltin == 2)
