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
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from aot.errors import BackendError, meant
from aot.ir.deferred_import import onnx
from aot.ir.operators import AttributeRule, Given, Linear, Operator, Trait, operator, operators
from aot.ops.half import widened
from aot.ops.kernels import listing
from aot.vendor import Backend, DType, Match, Pattern
from aot.vendor.backend import Cases, Check, LayoutRule, Lowering
from aot.vendor.pattern import OpPat, Var

portable = Backend("c")


def op(
    op_type: str,
    inputs: str = "x",
    outputs: str = "y",
    domain: str = "",
    priority: int = 0,
    traits: Iterable[Trait] = (),
    types: tuple[DType, ...] = (),
    typed: str = "",
    constants: str = "",
    rules: Iterable[Given] = (),
    check: Check | None = None,
    lower: Lowering | None = None,
    layouts: LayoutRule | None = None,
    cases: Cases | None = None,
    **attrs: Any,
) -> Pattern:
    """Declare that portable C computes `op_type`; decorate the result with check, lower, cases.

    `types` are those that the kernels take of the operands named in `typed` ("" = the first one;
    none: any, or what a check says); the operands named in `constants` must be known when the model
    is compiled.
    `traits` are promises to the passes, `rules` answers to their questions. An attribute that is an
    axis is an `AxisOf`, one that is one of a few texts a `OneOf`, instead of its default
    (`aot.ir.operators`).
    """
    domains = {k: v for k, v in attrs.items() if isinstance(v, AttributeRule)}
    # Errors name the module that declares the operator.
    module = sys._getframe(1).f_globals["__name__"]
    operator(
        op_type,
        inputs,
        outputs,
        domain=domain,
        traits=traits,
        rules=rules,
        reads=attrs.keys() - domains.keys(),
        module=module,
        **domains,
    )
    defaults = attrs | {k: rule.default for k, rule in domains.items()}
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
    held = typed.split() or plain[:1]
    known = partial(_takes_operands, types=types, typed=held, constants=constants.split())
    checks: list[Check | None] = [known if types or constants else None, check]
    return portable.declare(
        name,
        graph,
        *filter(None, checks),
        lower=lower,
        layouts=layouts,
        cases=cases,
        outputs=outs,
        attrs=defaults,
        priority=priority,
        folder=folder,
    )


def _takes_operands(
    m: Match, types: tuple[DType, ...], typed: Iterable[str], constants: Iterable[str]
) -> Iterator[tuple[bool, str]]:
    """Checks that the operands named `typed` have one of `types` (none: any), `constants` are
    constants.

    Operands that are absent are not looked at.
    """
    for operand in filter(None, map(m.values.get, typed)):
        yield not types or operand.dtype in types, f"dtype {operand.dtype} (needs {listing(types)})"
    for name in constants:
        value = m.values.get(name)
        yield value is None or value.is_const, f"{name} is computed at run time (needs a constant)"


@functools.cache
def load_all() -> Backend:
    """Import every module of aot.ops (each registers its operators) and return the backend.

    Installed packages add operators by the entry point group `aotc.operators` (a module each).
    Raises BackendError for a record that contradicts ONNX's schema (`check_records`).
    """
    folder = [str(Path(__file__).parent)]
    for module in sorted(m.name for m in pkgutil.walk_packages(folder, "aot.ops.")):
        importlib.import_module(module)
    for entry in sorted(entry_points(group="aotc.operators"), key=lambda e: e.name):
        entry.load()
    check_records(operators())
    portable.patterns.extend([w for p in portable.patterns if (w := widened(p)) is not None])
    return portable


def check_records(records: Iterable[Operator]) -> None:
    """Raise BackendError for the first record that claims more than a schema of ONNX has.

    That is an attribute, an operand or a result that no version of the operator has; operators
    without a schema are not looked at. The error names the module of the record.
    """
    schemas: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        schemas.setdefault((schema.domain, schema.name), []).append(schema)
    for record in records:
        versions = schemas.get((record.domain, record.name))
        if versions is not None:
            _check_record(record, versions)


def _check_record(record: Operator, versions: Sequence[Any]) -> None:
    """Raise BackendError if no version of the operator has an attribute or an end of the record."""
    known = sorted({a for s in versions for a in s.attributes})
    product = record.trait(Linear)
    named = {product.groups, product.transposed} - {""} if product is not None else set()
    for name in sorted(named.union(record.attributes, record.reads).difference(known)):
        what = f"operator {record.name}: ONNX has no attribute {name}"
        has = f"its attributes are {', '.join(known)}" if known else "it has no attributes"
        raise BackendError(what, record.module, meant(name, known, has))
    for kind, names, most in (
        ("operands", record.operands, max(s.max_input for s in versions)),
        ("results", record.results, max(s.max_output for s in versions)),
    ):
        if len(names) > most:
            what = f"operator {record.name}: {', '.join(names)} are more {kind} than {most}"
            raise BackendError(what, record.module, "no version of ONNX has more")
