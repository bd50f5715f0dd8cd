# SPDX-License-Identifier: Apache-2.0
"""A compilation's result: what the tools, the command line and Python get."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aot.ir.deferred_import import ir
from aot.ir.plan import Plan
from aot.ir.program import Program
from aot.partition.result import Partition
from aot.target import Target


@dataclass(frozen=True, slots=True)
class Compiled:
    """Everything a compilation produced. `files` maps paths in the bundle to their bytes, `code` is
    the estimate of bytes of code by what takes them."""

    name: str
    target: Target
    model: ir.Model
    partition: Partition
    program: Program
    plan: Plan
    files: dict[str, Any]
    manifest: dict[str, Any] = field(default_factory=dict)
    code: dict[str, int] = field(default_factory=dict)
