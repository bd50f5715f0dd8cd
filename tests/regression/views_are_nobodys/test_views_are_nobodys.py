# SPDX-License-Identifier: Apache-2.0
"""--require-backend counted views as calls of portable C, and the reason printed was false."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from aot.cli import main
from aot.options import Options
from aot.pipeline import partition_model
from aot.tools.explain import explain
from graphs import model

R = np.random.default_rng(0)
STEPS, N, SIZE, HIDDEN = 5, 1, 8, 8


def layer(kind: str, gates: int) -> dict[str, np.ndarray]:
    shape = {"w": (1, gates * HIDDEN, SIZE), "r": (1, gates * HIDDEN, HIDDEN)}
    return {kind + k: R.standard_normal(s).astype(np.float32) for k, s in shape.items()}


def network(*behind: tuple[str, str, str]) -> onnx.ModelProto:
    """An LSTM whose states are squeezed, and what follows them."""
    rows = [("LSTM", "x lw lr", "a", {"hidden_size": HIDDEN}), ("Squeeze", "a one", "b"), *behind]
    consts = {**layer("l", 4), "one": np.array([1]), "v": np.ones((HIDDEN, 3), np.float32)}
    consts |= {"mw": layer("m", 4)["mw"], "mr": layer("m", 4)["mr"]}
    used = {n for row in rows for n in row[1].split()}
    consts = {k: v for k, v in consts.items() if k in used}
    return model(rows, {"x": [STEPS, N, SIZE]}, {rows[-1][2]: None}, consts)


ENDS = network()
TWO = network(("LSTM", "b mw mr", "y", {"hidden_size": HIDDEN}))
PRODUCT = network(("MatMul", "b v", "y"))


@pytest.mark.parametrize("proto", [ENDS, TWO, PRODUCT], ids=["ends", "two", "product"])
def test_views_are_no_calls(
    proto: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(proto, tmp_path / "net.onnx")
    words = [str(tmp_path / "net.onnx"), "--backend", "dnnl", "--require-backend"]
    out = ["-o", str(tmp_path / "out"), "--no-configure", "-q", "--target", "x86-64-v3"]
    assert main([*words, *out]) == 0, capsys.readouterr().err
    assert main(["partition", *words, "-o", str(tmp_path / "p.onnx"), "-q"]) == 0


def test_a_call_of_portable_c_is_still_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(network(("Sin", "b", "y")), tmp_path / "net.onnx")
    words = [str(tmp_path / "net.onnx"), "--backend", "dnnl", "--require-backend"]
    assert main([*words, "-o", str(tmp_path / "out"), "--no-configure", "-q"]) == 1
    said = capsys.readouterr().err
    assert "1 of 2 calls fall to portable C" in said
    assert "(Sin)" in said
    assert main(["partition", *words, "-o", str(tmp_path / "p.onnx"), "-q"]) == 1


@pytest.mark.parametrize("proto", [TWO, PRODUCT], ids=["two", "product"])
def test_a_view_between_two_operators_of_the_vendor_is_its_own(proto: onnx.ModelProto) -> None:
    _, partition = partition_model(proto, Options(backends=("dnnl",)))
    assert {s.backend for s in partition.items} == {"dnnl"}
    assert len(partition.regions) == 1
    assert "not between" not in explain(partition).text()


def test_the_reason_is_true() -> None:
    """Behind the LSTM of `ENDS` nothing follows: the view is no operator of any backend."""
    _, partition = partition_model(ENDS, Options(backends=("dnnl",)))
    assert "(Reshape): a view\n2 nodes: dnnl 1, view 1" in explain(partition).text()
