# SPDX-License-Identifier: Apache-2.0
"""Docstrings say what is true: names in backticks exist, and `Raises` is what the body raises."""

from __future__ import annotations

import ast
import builtins
import functools
import keyword
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Folders whose public functions name every error that they raise themselves.
STRICT = ("vendor", "ops", "lower", "plan", "emit_c", "aotc_extras")
#: Errors of the compiler itself; no caller handles them.
OWN_FAULTS = frozenset(("InternalError", "AssertionError"))
#: Errors that Python or a library raises without a `raise` of ours.
OUTSIDE = frozenset(("OSError", "RuntimeError", "ValueError", "KeyError"))
NAMED = re.compile(r"`([a-z_]\w*)`")
ERROR = re.compile(r"\b(?:[A-Z]\w*Error|Invalid|Unknown|KnownLate)\b")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def functions(tree: ast.AST) -> tuple[Function, ...]:
    """Every function of a file, nested ones too."""
    return tuple(n for n in ast.walk(tree) if isinstance(n, Function))


def body_of(function: Function) -> Iterator[ast.AST]:
    """The syntax of a function without that of functions and classes inside it."""
    inner = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, inner):
            waiting += ast.iter_child_nodes(node)


def called(node: ast.AST) -> str:
    """The last name of what a call calls, or of an expression itself."""
    function = node.func if isinstance(node, ast.Call) else node
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@functools.cache
def sources(root: Path) -> dict[str, ast.Module]:
    """The syntax of every module of `aot` and `extras` by its path in the checkout."""
    found = sorted(p for folder in ("aot", "extras") for p in (root / folder).rglob("*.py"))
    return {p.relative_to(root).as_posix(): ast.parse(p.read_text()) for p in found}


def makers(trees: dict[str, ast.Module]) -> dict[str, str]:
    """Functions that return an error, by name, with the name of the error's class."""
    found = {}
    for tree in trees.values():
        for function in functions(tree):
            made = ast.unparse(function.returns).strip("'\"") if function.returns else ""
            if ERROR.fullmatch(made.split(".")[-1]):
                found[function.name] = made.split(".")[-1]
    return found


def raised(function: Function, made: dict[str, str]) -> set[str]:
    """The classes of the errors that a function raises itself."""
    raises = (n.exc for n in body_of(function) if isinstance(n, ast.Raise) and n.exc is not None)
    names = (called(e) for e in raises)
    return {made.get(n, n) for n in names if made.get(n, n)[:1].isupper()}


def said(function: Function) -> set[str]:
    """The errors that a docstring says the function raises."""
    return set(ERROR.findall(ast.get_docstring(function) or ""))


def reachable(trees: dict[str, ast.Module], made: dict[str, str]) -> dict[str, set[str]]:
    """By a function's name, errors that it and the functions it mentions may raise."""
    errors: dict[str, set[str]] = defaultdict(set)
    mentions: dict[str, set[str]] = defaultdict(set)
    defined = {f.name for tree in trees.values() for f in functions(tree)}
    for tree in trees.values():
        for function in functions(tree):
            errors[function.name] |= raised(function, made)
            mentions[function.name] |= {called(n) for n in body_of(function)} & defined
    mentioned_by = defaultdict(set)
    for name, others in mentions.items():
        for other in others:
            mentioned_by[other].add(name)
    waiting = [name for name in errors if errors[name]]
    while waiting:
        name = waiting.pop()
        for user in mentioned_by[name]:
            if not errors[name] <= errors[user]:
                errors[user] |= errors[name]
                waiting.append(user)
    return errors


def known_names(tree: ast.Module) -> set[str]:
    """Identifiers of a file and the words of its texts."""
    names = set(dir(builtins)) | set(keyword.kwlist)
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            text = getattr(node, field, None)
            names |= set(text.split(".")) if isinstance(text, str) else set()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= set(re.findall(r"\w+", NAMED.sub("", node.value)))
    return names


def unknown_names(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Complaints about names in backticks that neither their file nor a function's name has."""
    everywhere = {f.name for tree in trees.values() for f in functions(tree)}
    everywhere |= {part for file in trees for part in Path(file).with_suffix("").parts}
    for file, tree in trees.items():
        known = known_names(tree) | everywhere
        for function in functions(tree):
            for name in NAMED.findall(ast.get_docstring(function) or ""):
                if name not in known:
                    yield f"{file}:{function.lineno} {function.name}: `{name}` is no name here"


def rule(function: Function) -> bool:
    """Whether a decorator takes the function as a rule: the interface says what rules raise."""
    return any(isinstance(d, ast.Call) for d in function.decorator_list)


def wrong_raises(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Complaints about errors that a docstring leaves out, or that nothing raises."""
    made = makers(trees)
    possible = reachable(trees, made)
    for file, tree in trees.items():
        nested = {f for g in functions(tree) for f in functions(g) if f is not g}
        for function in functions(tree):
            strict = file.split("/")[1] in STRICT and function not in nested and not rule(function)
            where = f"{file}:{function.lineno} {function.name}"
            missing = raised(function, made) - said(function) - OWN_FAULTS
            if strict and not function.name.startswith("_") and missing:
                yield f"{where}: the docstring does not say that it raises {', '.join(missing)}"
            for name in said(function) - possible[function.name] - OUTSIDE - {"AotError"}:
                yield f"{where}: the docstring says {name}, which nothing here raises"


def test_names_in_docstrings_exist() -> None:
    assert list(unknown_names(sources(ROOT))) == []


def test_docstrings_say_what_is_raised() -> None:
    assert list(wrong_raises(sources(ROOT))) == []


def test_the_checks_find_faults() -> None:
    tree = ast.parse(
        "def public(x):\n"
        '    """The double of `y`. Raises UsageError for odd ones."""\n'
        "    raise ModelError(x)\n"
    )
    faults = [*unknown_names({"aot/ops/toy.py": tree}), *wrong_raises({"aot/ops/toy.py": tree})]
    assert faults == [
        "aot/ops/toy.py:1 public: `y` is no name here",
        "aot/ops/toy.py:1 public: the docstring does not say that it raises ModelError",
        "aot/ops/toy.py:1 public: the docstring says UsageError, which nothing here raises",
    ]
