# SPDX-License-Identifier: Apache-2.0
"""What normalise leaves of ONNX's operators, as its own node tests show it.

`python -m aot.cli.canonical` writes aot/vendor/canonical.json, which patterns are compared with
when they are declared, and docs/canonical.md.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aot.errors import AotError
from aot.ir.deferred_import import ir, onnx
from aot.ir.graph_nodes import all_nodes
from aot.ir.operators import AxisOf, Operator, operators
from aot.load import load
from aot.load.options import LoadOptions
from aot.normalise import PASSES, normalise
from aot.normalise.gemm import DEFAULTS
from aot.ops.registry import load_all

#: Inputs of at most this many elements are bound to their values where a model is refused without.
MOST_BOUND = 8
DATA = Path(__file__).parents[1] / "vendor" / "canonical.json"
PAGE = Path(__file__).parents[2] / "docs" / "canonical.md"

_HEAD = """\
# Operators that vendors see

Written by `make docs` from onnx's own tests of operators and from the passes of `aot/normalise/`;
do not edit.

Patterns ([patterns.md](patterns.md)) are matched after normalise, which spells each operation in
one way. This page lists what is left then. A pattern with an operator, an attribute or a
combination that normalise rewrites first does not match; `Backend.pattern` warns of it where it is
declared.

## Operators

A pattern may name these, and operators of other domains. *Inputs* is how many of them nodes were
seen with after normalise (Conv always has a bias, Slice always steps), *attributes* are those seen;
all others were dropped or became inputs or nodes. An attribute at its default may be absent; axes
count from the front. An operator that ONNX defines by others (SwiGLU, GroupNormalization) stays
only where a backend, or portable C, has a pattern with it.
"""
_REWRITTEN = """\
## Operators that are always rewritten

A pattern must name what they become; names with a dot are the compiler's own. One marked *kept*
stays where a backend asks for it: `Backend(keeps=("NAME",))`.
"""
_FORMS = """\
## Combinations that are rewritten

Lower-case letters are any value, `const(…)` is any constant, numbers are constants of that value,
`*` is further inputs, names in capitals are one of the operators below the table.
"""
_PASSES = """\
## All rewrites

The passes in the order in which they run, until nothing changes, in their own words.
"""


@dataclass(slots=True)
class Seen:
    """What models of one operator each showed, by operators of ONNX's own domain.

    `given` are the attributes before normalise, `left` those after (no operator that did not stay);
    `given_inputs` and `inputs` how many inputs nodes had before and after; `becomes` the operators
    that one turned into. Names of other domains have the domain before.
    """

    given: dict[str, set[str]] = field(default_factory=dict)
    left: dict[str, set[str]] = field(default_factory=dict)
    given_inputs: dict[str, set[int]] = field(default_factory=dict)
    inputs: dict[str, set[int]] = field(default_factory=dict)
    becomes: dict[str, set[str]] = field(default_factory=dict)

    def note(self, op_type: str, before: onnx.GraphProto, after: Iterable[ir.Node]) -> None:
        """Count one model that was normalised."""
        for made in before.node:
            self.given.setdefault(op_type, set()).update(a.name for a in made.attribute)
            count = max((i + 1 for i, name in enumerate(made.input) if name), default=0)
            self.given_inputs.setdefault(op_type, set()).add(count)
        becomes = self.becomes.setdefault(op_type, set())
        for node in after:
            name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            self.left.setdefault(name, set()).update(node.attributes)
            self.inputs.setdefault(name, set()).add(len(node.inputs))
            becomes.add(name)

    def rewritten(self) -> dict[str, list[str]]:
        """Operators that never stayed, and what they became instead."""
        gone = {k: v for k, v in self.becomes.items() if k not in self.left}
        return {k: sorted(v - {"Identity"}) for k, v in sorted(gone.items())}

    def dropped(self) -> dict[str, list[str]]:
        """Attributes that models gave to operators and that never stayed."""
        lost = {k: sorted(self.given.get(k, set()) - v) for k, v in sorted(self.left.items())}
        return {k: v for k, v in lost.items() if v}

    def lost_inputs(self) -> dict[str, list[int]]:
        """How many inputs models gave to operators that never stayed with so many."""
        given = self.given_inputs
        lost = {k: sorted(given.get(k, set()) - v) for k, v in sorted(self.inputs.items())}
        return {k: v for k, v in lost.items() if v}


def observe(most: int = 0, only: Collection[str] = (), keeps: Collection[str] = ()) -> Seen:
    """Load and normalise onnx's node tests of one node in its own domain; what is left of them.

    At most `most` models of an operator (0: all), of the operators in `only` (empty: all), where a
    backend keeps `keeps`.
    """
    from onnx.backend.test.case.node import collect_testcases

    load_all()  # the passes ask the operators' records
    seen, counts = Seen(), dict[str, int]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in sorted(cases, key=lambda c: str(c.name)):
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].domain or (only and nodes[0].op_type not in only):
            continue
        name = str(nodes[0].op_type)
        counts[name] = counts.get(name, 0) + 1
        if not most or counts[name] <= most:
            after = _normalised(case, frozenset(keeps))
            if after is not None:
                seen.note(name, case.model.graph, after)
    return seen


def _normalised(case: Any, keeps: frozenset[str]) -> list[ir.Node] | None:
    """The nodes after normalise, where every operator is somebody's; None if it is refused."""
    native = frozenset(f"{s.domain}::{s.name}" for s in onnx.defs.get_all_schemas())
    for bindings in ({}, _small(case)):
        options = LoadOptions(native=native, keeps=keeps, bindings=bindings)
        try:
            return list(all_nodes(normalise(load(case.model, options), options).graph))
        except AotError:
            continue
    return None


def _small(case: Any) -> dict[str, Any]:
    """Inputs behind the first that may be a shape, an axis or a count, with the test's values."""
    import numpy as np

    values = case.data_sets[0][0] if case.data_sets else []
    pairs = zip(case.model.graph.input, values, strict=False)
    arrays = {i.name: v for i, v in pairs if isinstance(v, np.ndarray)}
    first = case.model.graph.input[0].name if case.model.graph.input else ""
    alone = len(arrays) == 1
    return {
        n: v
        for n, v in arrays.items()
        if v.ndim <= 1 and v.size <= MOST_BOUND and v.dtype.kind != "O" and (n != first or alone)
    }


def forms() -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """Every pass's FORMS as records, in the order of the passes' names, and their CLASSES."""
    import aot.normalise as package

    load_all()  # classes are what the operators' records say
    found: list[dict[str, Any]] = []
    classes: dict[str, list[str]] = {}
    inside = pkgutil.walk_packages(package.__path__, "aot.normalise.")
    for info in sorted(inside, key=lambda i: i.name):
        module = importlib.import_module(info.name)
        found += [asdict(form) for form in getattr(module, "FORMS", ())]
        for name, members in getattr(module, "CLASSES", {}).items():
            classes[name] = list(members() if callable(members) else members)
    return found, classes


def has_axis(found: Operator) -> bool:
    """Whether an attribute of the operator is an axis."""
    return any(isinstance(rule, AxisOf) for rule in found.attributes.values())


def data(seen: Seen, kept: Collection[str]) -> dict[str, Any]:
    """What aot/vendor/canonical.json holds."""

    rows, classes = forms()
    own = {k: sorted(v) for k, v in sorted(seen.left.items()) if "." not in k}
    return {
        "attributes": own,
        "inputs": {k: sorted(seen.inputs[k]) for k in own},
        "dropped": seen.dropped(),
        "lost_inputs": seen.lost_inputs(),
        "rewritten": seen.rewritten(),
        "kept": sorted(kept),
        "axes": [o.name for o in operators() if not o.domain and has_axis(o)],
        "defaults": {"Gemm": dict(DEFAULTS)},
        "forms": rows,
        "classes": classes,
    }


def kept_of(seen: Seen) -> list[str]:
    """Operators that are rewritten unless a backend keeps them."""
    gone = sorted(seen.rewritten())
    stays = observe(1, gone, gone).left
    return [name for name in gone if name in stays]


def page(found: Mapping[str, Any]) -> str:
    """docs/canonical.md."""
    lines = [_HEAD, "| operator | inputs | attributes |", "|---|---|---|"]
    for name, attributes in found["attributes"].items():
        counts = ", ".join(map(str, found["inputs"][name]))
        lines.append(f"| {name} | {counts} | {_code(attributes)} |")
    lines += ["", _REWRITTEN, "| operator | becomes |", "|---|---|"]
    for name, into in found["rewritten"].items():
        kept = " (kept)" if name in found["kept"] else ""
        lines.append(f"| {name}{kept} | {', '.join(into) or 'a constant, or nothing'} |")
    lines += ["", _FORMS, "| before | after | except |", "|---|---|---|"]
    lines += [f"| `{f['before']}` | {f['after']} | {f['unless']} |" for f in found["forms"]]
    lines += ["", *(f"{k}: {', '.join(v)}." for k, v in found["classes"].items())]
    lines += ["", _PASSES]
    for name, text in _passes():
        lines += [f"- `{name}`:", "", "  ```text", *(f"  {t}".rstrip() for t in text), "  ```"]
    return "\n".join([*lines, ""])


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def _passes() -> list[tuple[str, list[str]]]:
    """(name, lines of the docstring) of every pass, in order."""

    found: dict[str, list[str]] = {}
    for rewrite in PASSES:
        path = inspect.getsourcefile(rewrite)
        assert path is not None
        text = ast.get_docstring(ast.parse(Path(path).read_text(encoding="utf-8"))) or ""
        found.setdefault(rewrite.__name__, text.splitlines())
    return list(found.items())


def read() -> dict[str, Any]:
    """What is in aot/vendor/canonical.json."""
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Write both files."""
    seen = observe()
    found = data(seen, kept_of(seen))
    text = json.dumps(found, indent=1, sort_keys=True)
    DATA.write_text(text + "\n", encoding="utf-8")
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
