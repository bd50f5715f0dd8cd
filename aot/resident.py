# SPDX-License-Identifier: Apache-2.0
"""Tensors that live in the arena between runs: `--io arena`, and the pairs of `--state`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aot.options import Options
from aot.program import Program, Role, Tensor
from aot.target import Target

#: Alignment of tensors in bytes on boards, whose vectors are no longer and whose memory is small.
BOARD_ALIGN = 16


def io_of(options: Options, target: Target) -> str:
    """Where inputs and outputs live: as asked, else the arena on boards, the caller's on hosts."""
    return options.io or ("arena" if target.board else "caller")


def settle(program: Program, target: Target, options: Options) -> Program:
    """`program` with its inputs and outputs where they belong, aligned as the target needs.

    A lowering sees inputs and outputs as the caller's; in the arena they are temporaries that the
    planner keeps apart, and may put results in the place of inputs that are no longer needed.
    """
    io = io_of(options, target)
    tensors: Mapping[str, Tensor] = program.tensors
    if io == "arena":
        tensors = {n: _own(t) for n, t in tensors.items()}
    if target.board:
        tensors = {n: replace(t, align=min(t.align, BOARD_ALIGN)) for n, t in tensors.items()}
    return replace(program, tensors=tensors, io=io)


def _own(tensor: Tensor) -> Tensor:
    external = tensor.role in (Role.INPUT, Role.OUTPUT)
    return replace(tensor, role=Role.TEMP) if external else tensor
