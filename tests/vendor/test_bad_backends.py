# SPDX-License-Identifier: Apache-2.0
"""Backends that break their contract: each is named with its pattern and the node, in one line, and
nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from aot.cli import main
from aot.errors import BackendError
from aot.vendor import find
from aot.vendor.backend import Backend, Pattern
from aot.vendor.limits import Limits, Speed
from aot.vendor.pattern import OP, wildcard
from graphs import model

Make = Callable[[], Backend]


def relu(change: Callable[[Pattern], object] = lambda p: None) -> Backend:
    """A backend that copies for Relu, changed."""
    chip = Backend("acme", folder=Path(__file__).parent)
    pattern = chip.pattern(lambda op, x: op.Relu(x))
    pattern.name = "relu"
    pattern.lower(lambda c, m: c.copy(c.write(m.y), c.read(m.x), 128))
    change(pattern)
    return chip


def gate(rule: object) -> Backend:
    """A backend with an operator of its own and a rule for its shapes."""
    chip = Backend("acme", folder=Path(__file__).parent)
    pattern = chip.pattern(lambda op, x: op.domain("com.acme").Gate(x))
    pattern.name = "gate"
    pattern.infer(rule)  # type: ignore[arg-type]
    pattern.lower(lambda c, m: c.copy(c.write(m.y), c.read(m.x), 128))
    return chip


def boom(*_: object) -> None:
    raise ValueError("no\nluck")


def with_region_check() -> Backend:
    """A backend whose check of regions gives no pairs."""
    chip = relu()
    chip.fits(lambda region: True)  # type: ignore[arg-type,return-value]
    return chip


def rewriting() -> Backend:
    """A backend with a rewrite that does not say what becomes of a match."""
    chip = relu()
    chip.rewrite(lambda op, x: op.Relu(x)).name = "relu"
    return chip


def broken(name: str, build: Callable) -> Make:
    def make() -> Backend:
        chip = Backend("acme", folder=Path(__file__).parent)
        build.__name__ = name
        chip.pattern(build)
        return chip

    return make


def twice(op, x):
    result = op.Relu(x)
    return result, result


def lowers(lowering: Callable) -> Make:
    return lambda: relu(lambda p: p.lower(lowering))


RAISED = r"ValueError: no\nluck"
NODE = "node n0_Relu (Relu)"
CASES: dict[str, tuple[Make, tuple[str, ...], tuple[str, ...]]] = {
    "check": (
        lambda: relu(lambda p: p.check(boom)),  # type: ignore[arg-type]
        (),
        (f"acme.relu: its check raised {RAISED}", NODE),
    ),
    "check without reasons": (
        lambda: relu(lambda p: p.check(lambda m: [True])),  # type: ignore[list-item]
        (),
        ("acme.relu: its check raised TypeError", NODE),
    ),
    "check whose condition is text": (
        lambda: relu(lambda p: p.check(lambda m: [("4 elements", False)])),  # type: ignore[list-item]
        (),
        ("acme.relu: its check raised TypeError: the condition '4 elements' is text", NODE),
    ),
    "check of regions": (
        with_region_check,
        (),
        ("acme: its check of regions raised TypeError: True (a check yields condition, reason)",),
    ),
    "space": (
        lambda: relu(lambda p: p.tune(x=(1, 2))),
        (),
        ("acme.relu: x is a value of the pattern",),
    ),
    "configure": (
        lambda: replace(relu(), configure=lambda said: None),  # type: ignore[arg-type,return-value]
        (),
        ("backend acme: `configure` gives a NoneType",),
    ),
    "configure raises": (
        lambda: replace(relu(), configure=boom),  # type: ignore[arg-type]
        (),
        (f"backend acme: `configure` raised {RAISED}",),
    ),
    "rewrite": (
        rewriting,
        (),
        ("acme.relu: its rewrite raised TypeError: a rewrite needs a function", NODE),
    ),
    "object": (
        lowers(lambda c, m: c.state("acme_open", release="acme close", slots=1)),
        (),
        ("a kernel is called 'acme close'", f"{NODE}, acme.relu"),
    ),
    "slots": (
        lowers(lambda c, m: c.state("acme_open", release="acme_close", slots=0)),
        (),
        ("acme_open: slots=0 (needs a whole number from 1 on)", f"{NODE}, acme.relu"),
    ),
    "cost": (
        lambda: relu(lambda p: p.cost(boom)),  # type: ignore[arg-type]
        ("--partition", "cost"),
        (f"acme.relu: its cost raised {RAISED}", NODE),
    ),
    "no cost": (
        lambda: relu(lambda p: p.cost(lambda m: float("nan"))),
        ("--partition", "cost"),
        ("acme.relu: its cost is nan ns", NODE),
    ),
    "lowering": (lowers(boom), (), (f"acme.relu: its lowering raised {RAISED}", NODE)),
    "nothing": (lowers(lambda c, m: None), (), ("acme.relu: its lowering never writes a", NODE)),
    "kernel": (
        lowers(lambda c, m: c.call("acme_relu", m.y, m.x)),
        (),
        ("acme: there is no kernel acme_relu: no header acme_relu.h", "node n0_Relu"),
    ),
    "kernel's name": (
        lowers(lambda c, m: c.call("a b;", m.y, m.x)),
        (),
        ("a kernel is called 'a b;'", f"{NODE}, acme.relu"),
    ),
    "argument": (
        lowers(lambda c, m: c.call("acme_relu", m.y, np.zeros(3))),
        (),
        ("a ndarray cannot be passed to a kernel", f"{NODE}, acme.relu"),
    ),
    "address": (
        lowers(lambda c, m: c.copy(c.write(m.y, 4096), c.read(m.x), 4)),
        (),
        ("acme: call 0 (aot_copy): offset 4096 outside a", "node n0_Relu"),
    ),
    "unwritten": (
        lowers(lambda c, m: c.copy(c.write(m.y), c.read(c.temp((4, 8), m.y.dtype)), 128)),
        (),
        ("acme: call 0 (aot_copy) reads n0_Relu_temp before it is written", "node n0_Relu"),
    ),
    "scratch": (
        lowers(lambda c, m: c.call("aot_copy", m.y, m.x, c.scratch(2**62), header="aot_copy.h")),
        (),
        ("the arena needs 4611686018427388032 bytes", "the peak at n0_Relu (Relu) by acme"),
    ),
    "scratch for a board": (
        lowers(lambda c, m: c.call("aot_copy", m.y, m.x, c.scratch(2**29), header="aot_copy.h")),
        ("--target", "cortex-m4"),
        ("exceed memory", "the peak at n0_Relu (Relu) by acme"),
    ),
    "scratch in bytes": (
        lowers(lambda c, m: c.scratch(1.5)),
        (),
        ("scratch of 1.5 bytes", f"{NODE}, acme.relu"),
    ),
    "same result": (broken("both", twice), (), ("acme.both: pattern both overlaps itself",)),
    "same name": (
        broken("two", lambda op, x: op.Neg(op.Relu(x, _outputs=["v"]), _outputs=["v"])),
        (),
        ("acme.two: pattern two overlaps itself: two of its parts are called 'v'",),
    ),
}
RULES: dict[str, tuple[object, str]] = {
    "raises": (boom, f"acme.gate: its shape rule raised {RAISED}"),
    "text": (lambda n, i: [((2, "q"), i[0].dtype)], "acme.gate: its shape rule raised ValueError"),
    "negative": (
        lambda n, i: [((2, -3), i[0].dtype)],
        "acme.gate: its shape rule gives the shape [2, -3]",
    ),
    "nothing": (lambda n, i: [], "acme.gate: its shape rule gives 0 types"),
}


def refused(
    make: Make,
    folder: Path,
    options: tuple[str, ...],
    patch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """What is printed; no bundle is left."""
    real = find.find_backend
    patch.setattr(find, "find_backend", lambda n, w="": make() if n == "acme" else real(n))
    words = [str(folder / "m.onnx"), "-o", str(folder / "out"), "--backend", "acme", "-q"]
    assert main([*words, *options]) == 1
    out = folder / "out"
    assert not out.exists() or not list(out.iterdir())
    return capsys.readouterr().err


@pytest.mark.parametrize("case", CASES)
def test_the_vendor_and_the_node_are_named(
    case: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make, options, parts = CASES[case]
    rows = [("Relu", "x", "a"), ("Softmax", "a", "y")]
    onnx.save(model(rows, {"x": [4, 8]}, {"y": [4, 8]}), tmp_path / "m.onnx")
    text = refused(make, tmp_path, options, monkeypatch, capsys)
    assert "internal error" not in text
    for part in parts:
        assert part in text, text


@pytest.mark.parametrize("case", RULES)
def test_a_rule_for_shapes_is_named(
    case: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rule, text = RULES[case]
    proto = model([("com.acme.Gate", "x", "y")], {"x": [4]}, {"y": [4]}, domains=["com.acme"])
    onnx.save(proto, tmp_path / "m.onnx")
    said = refused(lambda: gate(rule), tmp_path, (), monkeypatch, capsys)
    assert text in said and "n0_Gate" in said


PACKAGES = {
    "syntax": ("def (", "backend acme_syntax: its package raised SyntaxError"),
    "ends": ("import sys\nsys.exit(3)", "backend acme_ends: its package raised SystemExit: 3"),
    "empty": ("", "backend acme_empty: its package raised AttributeError"),
    "number": ("backend = 7", "backend acme_number: its package gives a int"),
    "named": (
        "from aot.vendor import Backend\nbackend = Backend('dnnl')",
        "backend acme_named: its package calls it 'dnnl'",
    ),
}


@pytest.mark.parametrize("case", PACKAGES)
def test_a_package_that_gives_no_backend_is_named(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, said = PACKAGES[case]
    (tmp_path / f"acme_{case}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint(f"acme_{case}", f"acme_{case}:backend", find.GROUP)
    monkeypatch.setattr(find, "entry_points", lambda group: [entry])
    with pytest.raises(BackendError) as caught:
        find.find_backend(entry.name)
    assert said in caught.value.what


def test_two_patterns_of_one_name_are_refused() -> None:
    """Messages, `--keep` and files of `aotc tune` name patterns."""
    backend = Backend("acme")
    backend.declare("relu", OP.Relu(wildcard("x")))
    with pytest.raises(BackendError, match=r"acme\.relu: two patterns have this name"):
        backend.declare("relu", OP.Neg(wildcard("x")))


@pytest.mark.parametrize("name", ["acme", "dnnl"])
def test_two_backends_of_one_name_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of them would be taken is nobody's choice."""
    entries = [EntryPoint(name, f"{package}:backend", find.GROUP) for package in ("one", "two")]
    monkeypatch.setattr(find, "entry_points", lambda group: entries)
    with pytest.raises(BackendError, match=f"two backends are called '{name}': .*:backend and "):
        find.find_backend(name)


@pytest.mark.parametrize(
    "field",
    [
        {"error": "acme error"},
        {"link": "acme::npu; other"},
        {"definitions": ("A B",)},
        {"memory": -1},
        {"speed": Speed(macs_per_ns=0, bytes_per_ns=1)},
        {"limits": Limits(nodes=-1)},
        {"keeps": "Mul"},
    ],
    ids=lambda field: next(iter(field)),
)
def test_a_field_that_does_not_fit_is_named(field: dict[str, Any]) -> None:
    with pytest.raises(BackendError, match=f"backend acme: {next(iter(field))}=.* does not fit"):
        Backend("acme", folder=Path(__file__).parent, **field)
