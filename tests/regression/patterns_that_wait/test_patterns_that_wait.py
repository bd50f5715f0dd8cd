# SPDX-License-Identifier: Apache-2.0
"""Patterns of docs/patterns.md could never match: normalise rewrites their operators first."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest

import aot
from aot.load import load
from aot.load.options import LoadOptions
from aot.normalise import normalise
from aot.vendor.backend import Backend
from aot.vendor.pattern import const, optional, typed, wildcard
from graphs import model

ROOT = Path(__file__).resolve().parents[3]
Build = Callable[..., Any]


def declared(build: Build, **more: Any) -> tuple[str, list[warnings.WarningMessage]]:
    """What a declaration says, and the warnings as they are."""
    build.__name__ = "some"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Backend("acme", **more).pattern(build)
    return " ".join(str(w.message) for w in caught), caught


def silu(op: Any, x: Any, w: Any, b: Any) -> Any:
    v = op.Conv(x, w, b)
    return op.Mul(v, op.Sigmoid(v))


#: A scale and a zero point of some value.
CODED = (wildcard("s"), wildcard("z"))
VAIN: list[tuple[Build, str]] = [
    (silu, "normalise makes Swish(x) of Mul(x, Sigmoid(x))"),
    (lambda op, x: op.Flatten(x), "normalise makes Reshape of Flatten"),
    (lambda op, x, e: op.Pow(x, const(e, 2.0)), "normalise makes Mul(x, x) of Pow(x, 2)"),
    (lambda op, x: op.Mul(op.HardSigmoid(x), x), "normalise makes HardSwish(x)"),
    (lambda op, x, p, w: op.Conv(op.Pad(x, p), w), "normalise makes Conv(x, w, pads"),
    (lambda op, x, w: op.Conv(x, w), "Conv has 3 inputs after normalise, not 2"),
    (lambda op, x, a, b: op.Slice(x, a, b), "Slice has 5 inputs after normalise, not 3"),
    (lambda op, x, p, w, b: op.Conv(op.Pad(x, p), w, b), "normalise makes Conv(x, w, pads"),
    (lambda op, x, n: op.Relu(op.Split(x, n)), "Slice"),
    (lambda op, x: op.Softmax(x, axis=-1), "axis=-1 of Softmax counts from the front"),
    (lambda op, x, w: op.Conv(x, w, auto_pad="VALID"), "Conv has no attribute auto_pad"),
    (lambda op, a, b: op.Gemm(a, b, alpha=1.0), "Gemm has no alpha=1.0, its default"),
    (lambda op, x, a, b: op.Min(op.Max(x, const(a)), const(b)), "normalise makes Clip(x, a, b)"),
    (lambda op, x, *p: op.BatchNormalization(x, *p), "keeps=('BatchNormalization',)"),
    (lambda op, x: optional(lambda v: op.Flatten(v), op.MaxPool(x)), "one alternative of several"),
    (lambda op, x: (op.Mul(x, op.Sigmoid(x)), op.Neg(x)), "normalise makes Swish(x)"),
    (lambda op, x, w: op.QLinearConv(x, *CODED, w, *CODED, *CODED), "QuantizeLinear(Conv(Dequ"),
    (lambda op, x, w: op.Relu(op.Convv(x, w)), "no operator Convv (did you mean Conv?)"),
    (lambda op, x: op.AveragePool(x, stride=[1, 1]), "stride in the newest opset (did you mean st"),
    (lambda op, x: op.ReduceMean(x, axes=[2, 3]), "ReduceMean has no attribute axes in the newest"),
    (lambda op, x: op.Clip(x, min=0.0), "Clip has no attribute min in the newest opset"),
]


@pytest.mark.parametrize(("build", "said"), VAIN, ids=range(len(VAIN)))
def test_a_pattern_that_waits_in_vain_is_warned_of(build: Build, said: str) -> None:
    text, caught = declared(build)
    assert said in text
    assert text.startswith("pattern acme.some waits in vain: ")
    assert [w.category.__name__ for w in caught] == ["PatternWarning"]
    assert caught[0].filename == __file__


def shared(op: Any, x: Any) -> Any:
    gate = op.Sigmoid(x)
    return op.Mul(x, gate), gate


FINE: list[Build] = [
    lambda op, x: op.Swish(x),
    lambda op, x, e: op.Pow(x, e),
    lambda op, x, e: op.Pow(x, const(e, 3.0)),
    lambda op, x, e: op.Pow(x, const(e)),
    lambda op, x: op.Mul(x, op.HardSigmoid(x, alpha=0.2)),
    lambda op, x, z: op.Mul(x, op.Sigmoid(z)),
    lambda op, x, p, w, b: op.Conv(op.Pad(x, p, mode="reflect"), w, b),
    lambda op, x, p, v, w, b: op.Conv(op.Pad(x, p, const(v, 1.0)), w, b, _optional=1),
    lambda op, x, w, b, r: op.Add(r, op.Conv(x, w, b)),
    lambda op, x, w, b, c: op.Add(op.Conv(x, w, b), const(c)),
    lambda op, x: op.Softmax(x, axis=1),
    lambda op, x, low, high: op.Clip(x, const(low, 0.0), const(high, 6.0)),
    lambda op, x, c: op.Sub(typed(x, dtype="int32"), const(c)),
    lambda op, x: op.any_of("Flatten", "Reshape")(x),
    lambda op, x: op.any_of("Relu", "LeakyRelu")(x, alpha=0.1),
    lambda op, x: op.RandomNormalLike(x, mean=0.5),
    lambda op, x: op.domain("com.acme").Flatten(x),
]


@pytest.mark.parametrize("build", FINE, ids=range(len(FINE)))
def test_others_are_not(build: Build) -> None:
    assert declared(build)[0] == ""


def test_what_a_backend_keeps_is_no_surprise() -> None:
    def norm(op: Any, x: Any, s: Any, b: Any, m: Any, v: Any) -> Any:
        return op.BatchNormalization(x, s, b, m, v)

    assert "BatchNormalization" in declared(norm)[0]
    assert declared(norm, keeps=("BatchNormalization",))[0] == ""


def documented() -> Backend:
    """The backend of docs/patterns.md, without a warning."""
    names: dict[str, Any] = {}
    page = ROOT / "docs" / "patterns.md"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
            exec(compile(block, str(page), "exec"), names)
    found: Backend = names["acme"]
    return found


def test_documented_patterns_match_behind_normalise() -> None:
    """Each one, on the model of tests/vendor/test_patterns.py that it matches before."""
    from vendor.test_patterns import TABLE

    backend = documented()
    options = LoadOptions()  # nothing is expanded
    for pattern in backend.patterns:
        if pattern.name == "gate":  # the function is not in that model
            continue
        made = ir.Model(TABLE[pattern.name][0].clone(), ir_version=10)
        made.graph.opset_imports[""] = 21
        after = normalise(load(ir.to_proto(made), options), options).graph
        assert any(pattern.match(n) for n in after), pattern.name


def test_vendors_in_the_tree_wait_for_nothing() -> None:
    from aot.vendor.backend import BackendOptions
    from aot.vendor.canonical import unseen
    from aot.vendor.find import bundled, find_backend

    for name in bundled():
        backend = find_backend(name)
        if backend.configure:
            backend = backend.configure(BackendOptions())
        assert backend.patterns
        vain = {p.name: unseen(p.graph, backend.keeps) for p in backend.patterns}
        assert {n: u for n, u in vain.items() if u} == {}


@pytest.mark.parametrize("name", ["csource", "mockdev"])
def test_examples_wait_for_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder,) = (ROOT / "examples").glob(f"*/{name}")
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.delitem(sys.modules, name, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = importlib.import_module(name)
    assert made.backend.patterns
    monkeypatch.delitem(sys.modules, name)


def test_the_command_line_says_it(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(
        "from aot.vendor.backend import Backend\nbackend = Backend('waiting')\n\n\n"
        "@backend.pattern\ndef flat(op, x):\n    return op.Flatten(x)\n"
    )
    onnx.save(model([("Relu", "x", "y")], {"x": [4]}, {"y": None}), tmp_path / "net.onnx")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import aot.cli; from aot.vendor import find; real = find.find_backend\n"
        "find.find_backend = lambda n, w='': real(n, w) if n == 'c' else __import__(n).backend\n"
        f"sys.argv[1:] = ['explain', {str(tmp_path / 'net.onnx')!r}, '--backend', 'waiting']\n"
        "sys.exit(aot.cli.main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "PatternWarning: pattern waiting.flat waits in vain" in done.stderr, done.stderr


def test_the_tables_are_those_of_the_passes() -> None:
    """Tables of the passes, and onnx's tests of some operators, normalised again."""
    from aot.cli import canonical

    found = canonical.read()
    rows, classes = canonical.forms()
    assert (found["forms"], found["classes"]) == (rows, classes)
    some = {*found["rewritten"], *list(found["attributes"])[::9]}
    seen = canonical.observe(1, some)
    assert set(seen.becomes) >= set(found["rewritten"])
    for name, attributes in seen.left.items():
        assert name not in found["rewritten"]
        assert "." in name or attributes <= set(found["attributes"][name])
        assert "." in name or seen.inputs[name] <= set(found["inputs"][name])
    again = canonical.data(seen, found["kept"])
    assert again["defaults"] == found["defaults"] and again["axes"] == found["axes"]
    for name, attributes in found["dropped"].items():
        assert not set(attributes) & seen.left.get(name, set())


def examples() -> list[tuple[str, str]]:
    """(the text of a form, what it says instead of names in capitals)."""
    from aot.vendor.canonical import canonical_tables

    found = []
    for row in canonical_tables()["forms"]:
        names = [c for c in canonical_tables()["classes"] if c in row["before"]]
        first = {"UNARY": "Relu", "LINEAR": "Conv"}
        text = row["before"]
        for name in names:
            text = text.replace(name, first[name])
        found.append((row["before"], text))
    return found


@pytest.mark.parametrize(("form", "text"), examples())
def test_every_form_is_rewritten(form: str, text: str) -> None:
    """The combination, built as a model, is matched before normalise and not behind it."""
    proto, pattern = built(text)
    before = load(proto, LoadOptions())
    assert any(pattern.match(n) for n in before.graph), form
    after = normalise(before, LoadOptions()).graph
    assert not any(pattern.match(n) for n in after), form


def built(text: str) -> tuple[onnx.ModelProto, Any]:
    """A model of the combination and a pattern that matches it."""
    import ast

    import numpy as np

    image, quantised = [1, 4, 6, 6], text.startswith("QLinear")
    weights = np.ones((4, 4, 1, 1), np.uint8 if quantised else np.float32)
    if text.startswith("QLinearMatMul"):
        weights = np.ones((6, 6), np.uint8)
    special = {
        "p": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "s": np.array([4, 36]),
        "t": np.array([144]),
        **dict.fromkeys(("x_scale", "w_scale", "y_scale"), np.float32(0.5)),
        **dict.fromkeys(("x_zero", "w_zero", "y_zero"), np.uint8(3)),
    }
    constants: dict[str, Any] = {}
    rows: list[Any] = []
    shown: dict[str, str] = {}

    def constant(value: Any) -> str:
        constants[f"k{len(constants)}"] = np.asarray(value)
        return f"k{len(constants) - 1}"

    def read(node: ast.expr, around: str = "") -> str:
        if isinstance(node, ast.NamedExpr):
            shown[node.target.id] = read(node.value)
            return shown[node.target.id]
        if isinstance(node, ast.Constant):
            return constant(np.float32(node.value))
        if isinstance(node, ast.Name):
            if node.id in special:
                return constant([2, *image[1:]] if around == "Expand" else special[node.id])
            return shown.get(node.id) or (constant(weights) if node.id == "w" else node.id)
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        kind = node.func.id
        if kind == "const":
            assert isinstance(node.args[0], ast.Name)
            name = node.args[0].id
            if name == "w":
                return constant(weights)
            if around.startswith("Reduce"):
                return constant(np.array([3]))
            if name == "b" and around == "Conv":
                return constant(np.zeros(4, np.float32))
            return constant(np.float32({"a": 0.5, "b": 2.0, "e": 1e-5}.get(name, 3.0)))
        given = [read(a, kind) for a in node.args if not isinstance(a, ast.Starred)]
        if kind == "Conv" and len(given) == 2:  # normalise gives it one
            given.append(constant(np.ones(4, np.float32)))
        attrs = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
        rows.append((kind, " ".join(given), f"v{len(rows)}", attrs))
        return rows[-1][2]

    last = read(ast.parse(text.replace("*", "*_"), mode="eval").body)
    used = {n for r in rows for n in r[1].split()}
    inputs = {n: image for n in sorted(used) if n not in constants and not n.startswith("v")}
    kinds = dict.fromkeys([*inputs, last], onnx.TensorProto.UINT8) if quantised else {}
    proto = model(rows, inputs, {last: None}, constants, kinds)

    def build(op: Any, x: Any) -> Any:
        made: dict[str, Any] = {}

        def value(name: str) -> Any:
            if name in made:
                return made[name]
            from aot.vendor.pattern import wildcard

            return made.setdefault(name, wildcard(name))

        for kind, names, out, attrs in rows:
            wanted = {k: v for k, v in attrs.items() if not isinstance(v, float)}
            wanted.pop("mode", None)
            made[out] = getattr(op, kind)(*[value(n) for n in names.split()], **wanted)
        return made[last]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return proto, Backend("acme").pattern(build)


def test_the_package_has_the_tables() -> None:
    assert (Path(aot.__file__).parent / "vendor" / "canonical.json").is_file()
