# SPDX-License-Identifier: Apache-2.0
"""Options that pin dimensions and inputs, as records that messages print and `inspect` tries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from aot.errors import typed
from aot.options import Options


@dataclass(frozen=True, slots=True)
class Pin:
    """`--dim NAME=V`, `--input-shape NAME=V,V` or `--bind NAME=V,V`; its text can be pasted.

    `instead` tells that it takes the place of an option for the same name.
    """

    option: Literal["--dim", "--input-shape", "--bind"]
    name: str
    values: tuple[int, ...]
    instead: bool = False

    def __str__(self) -> str:
        return typed(self.option, f"{self.name}={','.join(map(str, self.values))}")


def pinned(options: Options, pins: Iterable[Pin]) -> Options:
    """`options` with `pins` added; a pin replaces what the user said of the same name."""
    dims, shapes = dict(options.dims), dict(options.input_shapes)
    bindings: dict[str, Any] = dict(options.bindings)
    for pin in pins:
        if pin.option == "--dim":
            dims[pin.name] = pin.values[0]
        elif pin.option == "--input-shape":
            shapes[pin.name] = pin.values
        else:
            bindings[pin.name] = pin.values[0] if len(pin.values) == 1 else list(pin.values)
    return replace(options, dims=dims, input_shapes=shapes, bindings=bindings)
