# SPDX-License-Identifier: Apache-2.0
"""The type of a value, and the rule that gives the types of a node's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

Type = tuple[int, tuple[int, ...]]
"""Element type (TensorProto.DataType) and shape of a value."""

Rule = Callable[["ir.Node", list[Type | None]], list[Type]]
