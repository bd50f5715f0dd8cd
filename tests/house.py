# SPDX-License-Identifier: Apache-2.0
"""How easy the Python sources are to live in, as numbers: `python tests/house.py [--update]`.

A measure is a hint; honest structure is the goal. `tests/house.json` holds the largest figure that
each measure may have: no figure gets worse. `--update` writes the figures of this checkout where
they are smaller.

A question is a place outside `aot/ops` and `aot/vendor` whose answer depends on an operator's name:
a comparison, a dictionary's key, a member of a set, tuple or list, an argument of `words()` or
`startswith()`. Making a node or a pattern is no question. Imports inside functions and for
annotations count as imports.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx.defs

ROOT = Path(__file__).resolve().parents[1]
RATCHET = Path(__file__).with_suffix(".json")
OPERATORS = frozenset(s.name for s in onnx.defs.get_all_schemas())
#: Parameters of one letter that everybody knows: match, recorder, and ONNX's own operands.
KNOWN_LETTERS = frozenset("mcxywb")
#: A module-level value that names so many operators is a table of operators.
TABLE_SIZE = 4
#: Calls whose text arguments are sets of names.
SET_CALLS = frozenset(("words", "startswith", "frozenset", "set"))
Imports = Mapping[str, set[str]]


@dataclass
class Counts:
    """What one walk over the sources finds; files are paths relative to the checkout."""

    parameters: int = 0
    letters: int = 0
    statements: int = 0
    tables: int = 0
    lazy: int = 0
    vendor_imports: int = 0
    questions: set[tuple[str, str]] = field(default_factory=set)  # (operator, file)
    imports: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def modules(root: Path) -> dict[str, str]:
    """The file of every module of `aot` and of the extras, by the module's dotted name."""
    found = {}
    for path in sorted(p for f in ("aot", "extras") for p in (root / f).rglob("*.py")):
        file = path.relative_to(root).as_posix()
        found[file.removeprefix("extras/")[:-3].replace("/", ".").removesuffix(".__init__")] = file
    return found


def asked(constant: ast.Constant, parent: ast.AST | None) -> set[str]:
    """The operators that a text asks about, given the syntax around it; none if it asks nothing."""
    names = set(constant.value.split()) if isinstance(constant.value, str) else set()
    if not names or not names <= OPERATORS:
        return set()
    members = ast.Compare | ast.Set | ast.Tuple | ast.List | ast.FormattedValue
    if isinstance(parent, members) or (isinstance(parent, ast.Dict) and constant in parent.keys):
        return names
    if isinstance(parent, ast.Call):
        function = parent.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        return names if name in SET_CALLS or len(names) > 1 else set()
    return names if len(names) > 1 else set()


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The dotted names that an import may load, of modules and of what they hold."""
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    return [f"{node.module}.{a.name}" for a in node.names] + [node.module or ""]


def imports(tree: ast.AST, inside: bool = False) -> Iterator[tuple[list[str], bool]]:
    """Every import of a file, and whether it lies in a function."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield imported(child), inside
        within = inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from imports(child, within)


def count_functions(tree: ast.AST, counts: Counts) -> None:
    """Add the parameters and the statements of a file; docstrings are no statements."""
    for node in ast.walk(tree):
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        counts.statements += isinstance(node, ast.stmt) and not docstring
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            names = [a.arg for a in arguments if a.arg not in ("self", "cls")]
            counts.parameters += len(names)
            counts.letters += sum(len(n) == 1 and n not in KNOWN_LETTERS for n in names)


def count_questions(tree: ast.Module, file: str, counts: Counts) -> None:
    """Add what a file outside ops and vendor asks about operators, and its tables of them."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            counts.questions |= {(o, file) for o in asked(node, parents.get(node))}
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            texts = (c.value for c in ast.walk(statement.value) if isinstance(c, ast.Constant))
            words = {w for t in texts if isinstance(t, str) for w in t.split()}
            counts.tables += len(words & OPERATORS) >= TABLE_SIZE


def measure(root: Path) -> Counts:
    """Walk over all sources of the checkout `root`."""
    counts, known = Counts(), modules(root)
    for file in known.values():
        tree = ast.parse((root / file).read_text())
        count_functions(tree, counts)
        if not file.startswith(("aot/ops/", "aot/vendor/", "extras/")):
            count_questions(tree, file, counts)
        in_vendor = file.startswith("aot/vendor/") and file.count("/") > 2
        for names, in_function in imports(tree):
            own = [n for n in names if n.startswith("aot.")]
            counts.imports[file] |= {known[n] for n in own if n in known and known[n] != file}
            counts.lazy += bool(in_function and own)
            counts.vendor_imports += bool(
                in_vendor and own and not names[-1].startswith("aot.vendor")
            )
    return counts


def circles(edges: Imports) -> list[list[str]]:
    """The sets of files that import each other, each sorted (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for start in sorted(edges):
        work = [(start, iter(sorted(edges[start])))] if start not in index else []
        while work:
            file, rest = work[-1]
            if file not in index:
                index[file] = low[file] = len(index)
                stack.append(file)
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[file])
                if low[file] == index[file]:
                    at = stack.index(file)
                    found += [sorted(stack[at:])] if len(stack) - at > 1 else []
                    del stack[at:]
            elif following not in index:
                work.append((following, iter(sorted(edges.get(following, ())))))
            elif following in stack:
                low[file] = min(low[file], index[following])
    return found


def figures(counts: Counts, root: Path) -> dict[str, float]:
    """The measures of the checkout `root` by name; smaller is better."""
    by_operator = sorted(Counter(o for o, _ in counts.questions).values()) or [0]
    return {
        "loose modules in aot/": sum(f.count("/") == 1 for f in modules(root).values()),
        "import circles, types included": len(circles(counts.imports)),
        "lazy imports of own modules": counts.lazy,
        "vendors' imports outside aot.vendor": counts.vendor_imports,
        "files that ask about an operator, median": by_operator[len(by_operator) // 2],
        "files that ask about an operator, 90th percentile": by_operator[
            int(0.9 * len(by_operator))
        ],
        "(operator, file) questions": len(counts.questions),
        "tables of 4 and more operators outside ops/ and vendor/": counts.tables,
        "statements": counts.statements,
        "one-letter parameters but m c x y w b, %": round(
            100 * counts.letters / max(1, counts.parameters), 1
        ),
    }


def worse(now: Mapping[str, float], most: Mapping[str, float]) -> list[str]:
    """One sentence for every figure that is larger than it may be."""
    return [
        f"{name}: {now[name]} (at most {most[name]})" for name in most if now[name] > most[name]
    ]


def main() -> int:
    """Print the figures; the exit code is 1 if one of them got worse."""
    counts = measure(ROOT)
    now, most = figures(counts, ROOT), json.loads(RATCHET.read_text())
    for name, value in now.items():
        print(
            f"{'worse' if value > most[name] else 'ok':6s} {name}: {value} (at most {most[name]})"
        )
    for circle in circles(counts.imports):
        print(f"circle of {len(circle)}: {' '.join(circle)}")
    if "--update" in sys.argv[1:]:
        fewer = {name: min(value, most[name]) for name, value in now.items()}
        RATCHET.write_text(json.dumps(fewer, indent=2) + "\n")
    return bool(worse(now, most))


if __name__ == "__main__":
    sys.exit(main())
