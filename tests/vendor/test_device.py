# SPDX-License-Identifier: Apache-2.0
"""Regions lowered as wholes: the mock device of examples/vendor_device, and broken ones."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from aot.cli import main
from aot.errors import BackendError
from aot.ir.check_program import check_program
from aot.ir.program import Role
from aot.lower.lower import lower
from aot.options import Options
from aot.partition.cost.costs import Costs
from aot.partition.select import select
from aot.pipeline import compile_model
from aot.target import load_target
from aot.vendor import find
from aot.vendor.backend import Backend
from graphs import model
from partition_graphs import host, typed_graph

EXAMPLE = Path(__file__).parents[2] / "examples" / "vendor_device"


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import mockdev

    real = find.find_backend
    monkeypatch.setattr(
        find, "find_backend", lambda n, w="": mockdev.backend if n == "mockdev" else real(n)
    )
    yield mockdev.backend


def network(path: Path) -> Path:
    """A diamond on the device, Softmax between two regions, a constant operand."""
    rows = [
        ("Relu", "x", "a"),
        ("Neg", "a", "b"),
        ("Add", "a b", "c"),
        ("Mul", "c k", "d"),
        ("Softmax", "d", "s"),
        ("Sub", "s d", "e"),
        ("Relu", "e", "y"),
    ]
    consts = {"k": np.linspace(-1, 1, 60, dtype=np.float32).reshape(3, 20)}
    proto = model(rows, {"x": [3, 20]}, {"y": None, "b": None}, consts)
    onnx.save(proto, str(path))
    return path


def test_values_inside_a_region_take_no_arena(tmp_path: Path, device: Backend) -> None:
    made = compile_model(network(tmp_path / "net.onnx"), Options(backends=("mockdev",)))
    kernels = [[c.kernel for c in made.program.calls if c.region == r] for r in (0, 1)]
    assert kernels[0] == [
        *["mockdev_upload"] * 2,
        *["mockdev_compute"] * 4,
        *["mockdev_download"] * 2,
    ]
    assert kernels[1][-2:] == ["mockdev_compute", "mockdev_download"]
    temps = [n for n, t in made.program.tensors.items() if t.role is Role.TEMP]
    assert sorted({*temps}.difference(made.program.held)) == ["d", "s"]
    assert len(made.program.states) == 1


def test_it_computes_what_the_model_says(tmp_path: Path, device: Backend) -> None:
    out = tmp_path / "out"
    source = network(tmp_path / "net.onnx")
    assert main([str(source), "-o", str(out), "--backend", "mockdev", "-q"]) == 0
    command = ["cmake", "-S", str(out / "bundle"), "-B", str(out), "-DAOT_WERROR=ON"]
    subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run(
        ["cmake", "--build", str(out)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert main(["verify", str(out), "--per-region", "-q"]) == 0


def test_a_trip_that_does_not_pay_is_not_made(device: Backend) -> None:
    rows = [("Neg", "x", "a"), ("Relu", "a", "b")]
    for size, taken in ((100, "c"), (500_000, "mockdev")):
        portable = host()
        for p in portable.patterns:
            p.cost(lambda m, size=size: size * 2.0)
        graph = typed_graph(rows, [size], "b")
        found = select(graph, [device, portable], costs=Costs())
        assert {s.backend for s in found.items} == {taken}


def test_more_than_the_device_holds_is_given_back(device: Backend) -> None:
    graph = typed_graph([("Add", "x x", "y")], [2000000], "y")
    found = select(graph, [device, host()])
    assert not found.regions
    assert (
        "mockdev.add refused: a region of 16000000 bytes (the device has 4194304)" in found.text()
    )


def test_a_region_that_the_device_cannot_hold_is_cut(device: Backend) -> None:
    """x, z and w of 1.2 MB each are there from the start, and one result: 4.8 MB of 4.2."""
    sizes = {name: [300000] for name in "xzw"}
    proto = model([("Add", "x z", "a"), ("Sub", "a w", "y")], sizes, {"y": None})
    program = compile_model(proto, Options(name="net", backends=("mockdev",))).program
    assert {c.region for c in program.calls} == {0, 1}


def broken(lowering: object) -> None:
    chip = Backend("acme")
    chip.pattern(lambda op, x: op.Sin(x)).name = "sin"
    chip.region(lowering)  # type: ignore[arg-type]
    chip.pattern(lambda op, x: op.Neg(x)).name = "neg"
    graph = typed_graph([("Sin", "x", "a"), ("Neg", "a", "b")], [4], "b")
    partition = select(graph, [chip, host()])
    check_program(lower("net", graph, partition, load_target("x86-64-v3"), Options()))


def test_a_region_lowering_that_breaks_its_contract_is_named() -> None:
    with pytest.raises(BackendError, match="acme: its region lowering never writes b"):
        broken(lambda c, region: None)
    with pytest.raises(BackendError, match="acme: its region lowering raised ZeroDivisionError"):
        broken(lambda c, region: 1 // 0)
    seen = []

    def whole(c: object, region: object) -> None:
        seen.append(region)
        c.call("acme_all", region.outputs[0], region.inputs[0], c.params(n=4))  # type: ignore[attr-defined]

    broken(whole)
    (region,) = seen
    assert [p.name for p, _ in region.matches] == ["sin", "neg"]
    assert [v.name for v in (*region.inputs, *region.outputs)] == ["x", "b"]
