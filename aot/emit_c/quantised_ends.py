# SPDX-License-Identifier: Apache-2.0
"""Quantised inputs and outputs in the public header: their parameters, and functions from and to
numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from aot.emit_c import ctext
from aot.emit_c.interface import identifier, inputs, outputs
from aot.ir.program import Program, Quantisation, Tensor

#: The least and the largest value of the types that the functions convert.
_RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}


@dataclass(frozen=True, slots=True)
class End:
    """What the template is told of an input or output `index` with quantised values.

    `places` are its elements before, along and behind the axis of its scales, as C's numbers.
    """

    index: int
    scales: str
    zero_points: str
    places: str
    limits: str


def values(program: Program) -> dict[str, object]:
    """The values of templates: macros of the parameters, and the ends that functions convert."""
    return {
        "quantisation": macros(program),
        "quantised_inputs": _ends(program, inputs(program)),
        "quantised_outputs": _ends(program, outputs(program)),
    }


def converted(program: Program) -> bool:
    """Whether the header has functions that convert an input or output."""
    return bool(_ends(program, inputs(program)) or _ends(program, outputs(program)))


def macros(program: Program) -> str:
    """Macros of the quantised inputs and outputs: NET_X_SCALE and NET_X_ZERO_POINT.

    Along an axis they are NET_X_SCALES and NET_X_ZERO_POINTS, initialisers, and NET_X_AXIS.
    """
    by_tensor, lines = dict(program.quantisation), []
    for t in inputs(program) + outputs(program):
        found = by_tensor.get(t.name)
        if found is None:
            continue
        prefix = f"#define {_prefix(program, t)}"
        scales = [ctext.decimal_float32(s) for s in found.scale]
        # In parentheses a negative number stays one operand wherever the macro is used.
        zeros = [f"({z})" if z < 0 else str(z) for z in found.zero_point]
        if found.axis is None:
            lines += [f"{prefix}_SCALE {scales[0]}", f"{prefix}_ZERO_POINT {zeros[0]}"]
        else:
            lines += [_list_macro(f"{prefix}_SCALES", scales)]
            lines += [_list_macro(f"{prefix}_ZERO_POINTS", zeros), f"{prefix}_AXIS {found.axis}"]
    if not lines:
        return ""
    head = "/* Quantised inputs and outputs: q stands for (q - ZERO_POINT) * SCALE. */"
    return "\n".join(["", head, *lines])


def _prefix(program: Program, tensor: Tensor) -> str:
    """The beginning of the names of a tensor's macros."""
    return f"{program.name.upper()}_{ctext.ident(identifier(tensor)).upper()}"


def _ends(program: Program, tensors: Sequence[Tensor]) -> list[End]:
    """The quantised ones among inputs or outputs; none if a run decides their sizes."""
    by_tensor = {} if program.dynamic_dims or program.shapes else dict(program.quantisation)
    return [
        _end(program, i, t, by_tensor[t.name])
        for i, t in enumerate(tensors)
        if t.name in by_tensor and str(t.dtype) in _RANGES
    ]


def _end(program: Program, index: int, tensor: Tensor, found: Quantisation) -> End:
    """The End of a tensor."""
    prefix, shape = _prefix(program, tensor), tensor.shape
    axis = found.axis
    split = (1, 1, prod(shape)) if axis is None else _split(shape, axis)
    least, most = _RANGES[str(tensor.dtype)]
    scales = f"{{{prefix}_SCALE}}" if axis is None else f"{prefix}_SCALES"
    zeros = f"{{{prefix}_ZERO_POINT}}" if axis is None else f"{prefix}_ZERO_POINTS"
    return End(index, scales, zeros, ", ".join(map(str, split)), f"{least}, {most}")


def _split(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Elements before, along and behind an axis."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def _list_macro(head: str, items: Sequence[str]) -> str:
    """A macro that is an initialiser, in lines of at most 100 columns that clang-format leaves."""
    one = f"{head} {{{', '.join(items)}}}"
    if len(one) > 100:
        filled = ctext.wrap(items, width=96).splitlines()
        one = " \\\n".join([f"{head} {{", *filled, "    }"])
    return ctext.fenced(one)
