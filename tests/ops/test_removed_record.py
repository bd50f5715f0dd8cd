# SPDX-License-Identifier: Apache-2.0
"""An operator is declared in one place: without PRelu's declaration other models compile as before.

A Python of its own drops the declaration while it imports `aot/ops/binary.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from graphs import model
from quant_graphs import S8, Net

#: `python -c WITHOUT MODEL OUT BACKENDS ...` compiles each MODEL into OUT and prints the errors.
WITHOUT = """
import ast
import sys
from importlib.machinery import PathFinder, SourceFileLoader


class Without(SourceFileLoader):
    def get_code(self, name):
        tree = ast.parse(self.get_source(name))
        left = [s for s in tree.body if not is_about(s)]
        assert len(tree.body) - len(left) == 4  # declaration, check, cases, shapes of operands
        return compile(ast.Module(left, []), self.path, "exec")


def is_about(statement):
    heads = [statement] if isinstance(statement, ast.Assign) else []
    parts = [p for h in getattr(statement, "decorator_list", heads) for p in ast.walk(h)]
    return any(getattr(p, "id", getattr(p, "value", 0)) in ("prelu", "PRelu") for p in parts)


class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target) if name == "aot.ops.binary" else None
        if spec is not None:
            spec.loader = Without(name, spec.origin)
        return spec


sys.meta_path.insert(0, Finder)

import aot
from aot.errors import AotError
from aot.ir.operators import operator_named

for source, out, backends in zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3]):
    try:
        aot.compile(source, out, backends=backends.split(), configure=False)
    except AotError as error:
        print(error)
assert operator_named("PRelu") is None and operator_named("Elu") is not None
"""
VENDORS = ("accel_sim", "dnnl")
RNG = np.random.default_rng(5)


def images() -> onnx.ModelProto:
    """Convolution, activations between Transposes, pooling, a product, Softmax."""
    rows = [
        ("Conv", "x w b", "a", {"pads": [1, 1, 1, 1]}),
        ("LeakyRelu", "a", "l"),
        ("MaxPool", "l", "m", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Transpose", "m", "t", {"perm": [0, 2, 3, 1]}),
        ("Elu", "t", "e"),
        ("Transpose", "e", "u", {"perm": [0, 3, 1, 2]}),
        ("Resize", "u roi scales", "r", {"mode": "nearest"}),
        ("Gather", "r at", "g", {"axis": 1}),
        ("ReduceMean", "g axes", "n", {"keepdims": 0}),
        ("Gemm", "n k", "f"),
        ("Softmax", "f", "y"),
    ]
    consts = {
        "w": RNG.standard_normal((6, 3, 3, 3)).astype(np.float32),
        "b": np.ones(6, np.float32),
        "roi": np.zeros(0, np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "at": np.array([4, 1, 2]),
        "axes": np.array([2, 3]),
        "k": RNG.standard_normal((3, 5)).astype(np.float32),
    }
    return model(rows, {"x": [1, 3, 8, 8]}, {"y": [1, 5]}, consts)


def sequences() -> onnx.ModelProto:
    """A recurrent layer of a dynamic number of steps, arithmetic and a choice."""
    rows = [
        ("GRU", "x w r", "h", {"hidden_size": 4}),
        ("Sigmoid", "h", "s"),
        ("Mul", "h s", "p"),
        ("Greater", "p zero", "c"),
        ("Where", "c p zero", "y"),
    ]
    consts = {
        "w": RNG.standard_normal((1, 12, 3)).astype(np.float32),
        "r": RNG.standard_normal((1, 12, 4)).astype(np.float32),
        "zero": np.zeros(1, np.float32),
    }
    return model(rows, {"x": [5, 1, 3]}, {"y": None}, consts)


def quantised() -> onnx.ModelProto:
    """A quantised convolution, an activation, moves and a sum."""
    net = Net(x=(S8, (1, 4, 6, 6)))
    x = net.dq("x", 0.03, S8(2))
    w = net.dq(RNG.integers(-99, 99, (4, 4, 3, 3)).astype(S8), 0.02, S8(0))
    a = net.add("HardSwish", net.add("Conv", x, w, pads=[1, 1, 1, 1]))
    a = net.dq(net.q(a, 0.1, S8(0)), 0.1, S8(0))
    net.q(net.add("Add", net.add("Transpose", a, perm=[0, 1, 3, 2]), x), 0.1, S8(1), out="y")
    return net.model(y=S8)


def files(out: Path) -> dict[str, bytes]:
    """The bundle in a folder, by path."""
    return {
        p.relative_to(out).as_posix(): p.read_bytes()
        for p in sorted((out / "bundle").rglob("*"))
        if p.is_file()
    }


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with models, their bundles of a compiler without PRelu, and what it printed."""
    folder, words = tmp_path_factory.mktemp("removed"), []
    made = {"images": images(), "sequences": sequences(), "quantised": quantised()}
    slope = {"slope": np.full(4, 0.2, np.float32)}
    made["prelu"] = model([("PRelu", "x slope", "y")], {"x": [2, 4]}, {"y": [2, 4]}, slope)
    for name, proto in made.items():
        onnx.save(proto, folder / f"{name}.onnx")
        backends = "" if name == "prelu" else " ".join(VENDORS)
        words += [str(folder / f"{name}.onnx"), str(folder / name), backends]
    done = subprocess.run([sys.executable, "-c", WITHOUT, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.mark.parametrize("name", ["images", "sequences", "quantised"])
def test_bundles_are_the_same_without_another_operator(
    name: str, compiled: tuple[Path, str], tmp_path: Path
) -> None:
    folder, out = compiled[0], tmp_path / name
    aot.compile(folder / f"{name}.onnx", out, backends=VENDORS, configure=False)
    ours, theirs = files(out), files(folder / name)
    assert ours and ours.keys() == theirs.keys()
    assert not [path for path in ours if ours[path] != theirs[path]]


def test_a_model_with_the_operator_names_it(compiled: tuple[Path, str]) -> None:
    folder, printed = compiled
    assert printed.splitlines()[0] == "node n0_PRelu (PRelu): no backend has this operator"
    assert not (folder / "prelu" / "bundle").exists()
