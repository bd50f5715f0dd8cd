# SPDX-License-Identifier: Apache-2.0
"""Dimensions that the file writes as expressions of others: parsed, pinned, bounded, compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import aot
from aot.cli import main
from aot.errors import AotError, ModelError
from aot.options import Options
from aot.pipeline import partition_model
from aot.shapes.dim_expressions import Unsettled, parsed

TEXTS = {
    "N + 1": lambda n: n + 1,
    "2*N": lambda n: 2 * n,
    "ceil(N/3)": lambda n: -(-n // 3),
    "N//2 + 1": lambda n: n // 2 + 1,
    "Max(1, N)": lambda n: max(1, n),
    "floor(N/2 + 1/2)": lambda n: (n + 1) // 2,
    "Min(N, 4) * (N + 2)": lambda n: min(n, 4) * (n + 2),
    "10 - N": lambda n: 10 - n,
}


def model(texts: list[str], base: str = "N") -> onnx.ModelProto:
    """Relu of an input [base, 2], and of one [text, 2] for each text."""
    names = [base, *texts]
    infos = [
        helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [t, 2])
        for i, t in enumerate(names)
    ]
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"y{i}"]) for i in range(len(names))]
    outs = [
        helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(len(names))
    ]
    graph = helper.make_graph(nodes, "dims", infos, outs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("text", TEXTS)
def test_values_are_exact(text: str) -> None:
    expression = parsed(text)
    assert expression is not None and expression.names == ("N",)
    values = {n: expression.limits({"N": (n, n)}) for n in range(10)}
    assert values == {n: (TEXTS[text](n),) * 2 for n in range(10)}
    low, high = expression.limits({"N": (0, 9)})
    assert low <= min(v for v, _ in values.values()) and high >= max(v for v, _ in values.values())


@pytest.mark.parametrize(
    "text", ["N", "audio-length", "past +", "f(N)", "batch size", "1 + 2", "N.size", "Max(N)"]
)
def test_other_texts_are_names(text: str) -> None:
    assert parsed(text) is None
    proto = model([text]) if text != "N" else model([])
    partition_model(proto, Options(dims={"N": 3, **({} if text == "N" else {text: 4})}))


def test_nothing_hostile_is_evaluated() -> None:
    for text in (
        "__import__('os')",
        "N ** 9**9**9",
        "(" * 200 + "N" + ")" * 200,
        "N +" * 90,
        "N\0",
    ):
        assert parsed(text) is None
    with pytest.raises(Unsettled, match="divides by 0"):
        parsed("1 + 4/N").limits({"N": (0, 3)})


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        ({"N": 5}, 'dimension 0 ("N/2") is 5/2, no whole number'),
        ({"N": 6, "N/2": 4}, 'dimension 0 ("N/2") is given as 4, N=6 makes it 3'),
        ({"N": (0, 6), "N/2": 3}, 'dimension 0 ("N/2") is given as 3, N=0..6 makes it 0..3'),
    ],
)
def test_contradictions_are_errors_by_name(dims, said) -> None:
    with pytest.raises(ModelError) as caught:
        partition_model(model(["N/2"]), Options(dims=dims))
    assert said in caught.value.what


def test_negative_sizes_are_errors_by_name() -> None:
    for size in (1, (0, 5)):
        with pytest.raises(ModelError, match="negative size"):
            partition_model(model(["N - 2"]), Options(dims={"N": size}))


def test_inspect_prints_the_symbols(tmp_path: Path, capsys) -> None:
    onnx.save(model(["N + M", "2*K"]), tmp_path / "m.onnx")
    assert main(["inspect", str(tmp_path / "m.onnx")]) == 0
    shown = capsys.readouterr().out
    typed = shown.split("to type: ")[1]
    assert all(f"--dim {n}=" in typed for n in "NMK") and " + " not in typed


def test_one_bundle_is_right_at_every_size(tmp_path: Path) -> None:
    texts = list(TEXTS)
    bundle = aot.compile(model(texts), tmp_path / "out", dims={"N": (0, 9)}).build()
    call, rng = bundle.load(), np.random.default_rng(1)
    for n in (0, 1, 4, 7, 9):
        sizes = [n, *(TEXTS[t](n) for t in texts)]
        given = [rng.standard_normal((s, 2)).astype(np.float32) for s in sizes]
        for found, x in zip(call(*given), given, strict=True):
            assert np.array_equal(found, np.maximum(x, 0))
    for wrong in range(1, len(sizes)):
        other = [g[:-1] if i == wrong else g for i, g in enumerate(given)]
        with pytest.raises(AotError):
            call(*other)


def test_pinned_names_leave_the_others(tmp_path: Path) -> None:
    proto = model(["N + M"])
    kept, _ = partition_model(proto, Options(dims={"N": (0, 9), "M": 3}))
    assert [tuple(v.shape) for v in kept.graph.inputs][:2] == [(9, 2), (12, 2)]
