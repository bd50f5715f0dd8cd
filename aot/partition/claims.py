# SPDX-License-Identifier: Apache-2.0
"""The loader's options: the user's, and what the patterns of the backends ask of the model."""

from __future__ import annotations

from collections.abc import Sequence

from aot.load.options import PACKED_FLASH, PACKED_LATENCY, LoadOptions
from aot.options import Options
from aot.partition.supports import supports
from aot.vendor.backend import Backend
from aot.vendor.infer import rule_of
from aot.vendor.pattern import all_ops, root_ops


def load_options(
    options: Options, backends: Sequence[Backend], keeps: Sequence[str] = ()
) -> LoadOptions:
    """What the user and the backends ask of the loader: pins, claims, shape rules."""
    patterns = [p for b in backends for p in b.patterns]
    claimed = {f"{d}::{o}" for p in patterns for d, o in all_ops(p.graph) if d}
    rules = {k: rule_of(p) for p in patterns if p.inference for k in root_ops(p.graph)}
    return LoadOptions(
        dims=options.dims,
        input_shapes=options.input_shapes,
        bindings=options.bindings,
        claimed=frozenset(claimed),
        keeps=frozenset(keeps).union(k for b in backends for k in b.keeps),
        rules=rules,
        native=frozenset(f"{d}::{o}" for p in patterns for d, o in all_ops(p.graph)),
        supports=supports(patterns),
        max_string=options.max_string,
        max_sequence=options.max_sequence,
        packed_from=PACKED_FLASH if options.objective == "flash" else PACKED_LATENCY,
    )
