# SPDX-License-Identifier: Apache-2.0
"""Between the tensors of a bundle and the values of its model: strings, sequences, optionals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aot.errors import AotError
from aot.ir.deferred_import import onnx
from aot.ir.graph_nodes import Array
from aot.ir.string_rows import encode
from aot.load.inputs import user_inputs
from aot.options import Options
from aot.tools.reference import Reference

COUNT, PRESENT = "/count", "/present"
STRING = 8


class Converted:
    """A reference that is asked for the tensors of a bundle, and given such.

    What has no counterpart in a run, such as the elements behind the last one of a sequence, is
    None; inner values that are no tensors are left out.
    """

    def __init__(self, reference: Reference, graph: onnx.GraphProto, options: Options) -> None:
        """Wrap `reference` so that it takes and gives tensors where `graph` has sequences and
        optionals.
        """
        self.name = reference.name
        self._reference = reference
        self._graph = graph
        self._bound = options.bindings
        self._width = options.max_string

    def __call__(self, inputs: Mapping[str, Array], values: Sequence[str]) -> dict[str, Array]:
        """The values asked for, by name, computed by the wrapped reference."""
        known = {**self._bound, **inputs}
        feeds: dict[str, Any] = dict(inputs)
        for info in user_inputs(self._graph):
            if holds(info):
                feeds[info.name] = self._value(info.type, info.name, known)
        owner = {part: o.name for o in self._graph.output for part in self._names(o, values)}
        wanted = list(dict.fromkeys(owner.get(v, v) for v in values))
        results: Mapping[str, Any] = self._reference(feeds, wanted)
        found: dict[str, Any] = {}
        for value in values:
            whole = owner.get(value, value)
            if whole not in results:
                continue
            part = self._part(results[whole], whole, value)
            # A sequence of tensors has no array to compare.
            if not isinstance(part, list):
                found[value] = part
        return found

    def _value(self, kind: onnx.TypeProto, name: str, known: Mapping[str, Any]) -> Any:
        """An input as the model takes it."""
        which = kind.WhichOneof("value")
        if which == "optional_type":
            if not np.asarray(known.get(name + PRESENT, True)).any():
                return None
            return self._value(kind.optional_type.elem_type, name, known)
        if which == "sequence_type":
            parts: list[Any] = []
            while f"{name}/{len(parts)}" in known:
                element = kind.sequence_type.elem_type
                parts.append(self._value(element, f"{name}/{len(parts)}", known))
            count = int(np.asarray(known.get(name + COUNT, len(parts))).ravel()[0])
            return parts[:count]
        array = np.asarray(known[name])
        return decoded(array) if kind.tensor_type.elem_type == STRING else array

    def _names(self, info: onnx.ValueInfoProto, values: Sequence[str]) -> list[str]:
        """Which of `values` an output of the model is in the bundle."""
        if not holds(info):
            return []
        name = info.name
        own = [v for v in values if v in (name, name + COUNT, name + PRESENT)]
        return own + [
            v for v in values if v.startswith(f"{name}/") and v[len(name) + 1 :].isdigit()
        ]

    def _part(self, whole: Any, name: str, value: str) -> Any:
        """What the bundle's tensor `value` must be, where the model's output is `whole`."""
        rest = value[len(name) :]
        if rest == PRESENT:
            return np.array(whole is not None)
        if rest == COUNT:
            return np.array(0 if whole is None else len(whole), np.int64)
        if rest:
            index = int(rest[1:])
            whole = whole[index] if whole is not None and index < len(whole) else None
        if whole is None or isinstance(whole, list):
            return whole
        array = np.asarray(whole)
        return self._encoded(array, value) if array.dtype.kind in "OSU" else array

    def _encoded(self, array: Array, value: str) -> Array:
        """The strings of `array` as the bundle stores them: uint8 of shape [*array.shape, width].

        Each text is UTF-8 with zeros behind it; the width is the most bytes that a string may have.
        `value` is the bundle's name of the tensor, for the AotError about a longer string.
        """
        try:
            return encode(array, self._width)
        except ValueError as error:
            raise AotError(
                f"{value}: the reference's {error}", hint="a larger --max-string allows it"
            ) from None


def holds(info: onnx.ValueInfoProto) -> bool:
    """Whether an input or output is no plain tensor of numbers."""
    kind = info.type.WhichOneof("value")
    return kind in ("sequence_type", "optional_type") or is_text(info.type)


def is_text(kind: onnx.TypeProto) -> bool:
    """Whether the tensors of a type hold strings."""
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return is_text(getattr(kind, which).elem_type)
    return bool(which == "tensor_type" and kind.tensor_type.elem_type == STRING)


def text_inputs(graph: onnx.GraphProto, names: Sequence[str]) -> set[str]:
    """Which inputs of a bundle hold strings."""
    owners = [i.name for i in user_inputs(graph) if is_text(i.type)]
    return {
        n
        for n in names
        for o in owners
        if n == o or (n.startswith(f"{o}/") and n[len(o) + 1 :].isdigit())
    }


def decoded(rows: Array) -> Array:
    """Strings of an array of uint8 whose last axis holds their bytes."""
    texts = [bytes(row).rstrip(b"\0").decode("utf-8", "replace") for row in _rows(rows)]
    found = np.empty(len(texts), object)
    found[:] = texts
    return found.reshape(rows.shape[:-1])


def _rows(rows: Array) -> Array:
    return np.ascontiguousarray(rows).reshape(-1, rows.shape[-1])


def random_texts(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Short strings, some of them empty or the same, as rows of bytes."""

    words = ["", "a", "b", "Ab", "été", "two words", "0.5", "a-b", "中"]
    count = int(np.prod(shape[:-1]))
    picked = [words[int(i)] for i in rng.integers(0, len(words), count)]
    short = [w if len(w.encode()) <= shape[-1] // 2 else "a" for w in picked]
    return encode(np.array(short, object).reshape(shape[:-1]), shape[-1])
