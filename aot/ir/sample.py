# SPDX-License-Identifier: Apache-2.0
"""A set of inputs with the outputs expected of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aot.ir.graph_nodes import Array


@dataclass(frozen=True, slots=True)
class Sample:
    """One set of inputs in the bundle's order, and the expected outputs stored with it by name."""

    label: str
    inputs: tuple[Array, ...]
    expected: Mapping[str, Array] = field(default_factory=dict)
