# SPDX-License-Identifier: Apache-2.0
"""How an operator of the portable C backend is declared.

    softmax = op("Softmax", inputs="x", outputs="y", axis=AxisOf("x", -1))
    relu = op("Relu", "x", traits=[Elementwise()])

declares the operator with the names of its inputs and outputs (a trailing `?` marks an optional
one; a single `xs*` makes `m.xs` the tuple of all inputs) and the defaults of its attributes.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from aot.ir.operators import AttributeRule, Trait, operator
from aot.ops.half import widened
from aot.vendor.backend import Backend, Pattern
from aot.vendor.pattern import OpPat, Var

portable = Backend("c")


def op(
    op_type: str,
    inputs: str = "x",
    outputs: str = "y",
    domain: str = "",
    priority: int = 0,
    traits: Iterable[Trait] = (),
    **attrs: Any,
) -> Pattern:
    """Declare that portable C computes `op_type`; decorate the result with check, lower, cases.

    `traits` are promises to the passes. An attribute that is an axis is an `AxisOf`, one that is
    one of a few texts a `OneOf`, instead of its default (`aot.ir.operators`).
    """
    rules = {k: v for k, v in attrs.items() if isinstance(v, AttributeRule)}
    operator(op_type, inputs, outputs, domain=domain, traits=traits, **rules)
    defaults = attrs | {k: rule.default for k, rule in rules.items()}
    names = inputs.split()
    variadic = bool(names) and names[-1].endswith("*")
    optional = sum(1 for n in names if n.endswith("?"))
    plain = [n.rstrip("?*") for n in names]
    graph = OpPat(op_type, domain, tuple(Var(n) for n in plain), (), (), optional)
    if variadic:
        graph = OpPat(op_type, domain, (Var(plain[-1]),), (), (), -1)
    outs = tuple(o.rstrip("?") for o in outputs.split())
    folder = Path(sys._getframe(1).f_code.co_filename).parent
    name = op_type if not domain else f"{domain}.{op_type}"
    made = Pattern(name, graph, "c", outs, defaults, priority, folder)
    portable.patterns.append(made)
    return made


@functools.cache
def load_all() -> Backend:
    """Import every module of aot.ops (each registers its operators) and return the backend.

    Installed packages add operators by the entry point group `aotc.operators` (a module each).
    """
    folder = [str(Path(__file__).parent)]
    for module in sorted(m.name for m in pkgutil.walk_packages(folder, "aot.ops.")):
        importlib.import_module(module)
    for entry in sorted(entry_points(group="aotc.operators"), key=lambda e: e.name):
        entry.load()
    portable.patterns.extend([w for p in portable.patterns if (w := widened(p)) is not None])
    return portable
