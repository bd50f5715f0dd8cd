# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch: compiled by their examples, compared with what the module computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aot
from aot.errors import AotError, UsageError, VerifyError

# Gigabytes, too much for make test; tests/test_release.py fails where make full lacks them.
torch = pytest.importorskip("torch", reason="PyTorch takes gigabytes: make full installs it")
pytest.importorskip("onnxscript", reason="torch.onnx needs it: make full installs it")


class Net(torch.nn.Module):  # type: ignore[misc]
    """Two inputs, one of them a scalar; outputs in a dictionary."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.last = torch.nn.Linear(8, 4)

    def forward(self, image: Any, scale: Any) -> Any:
        features = torch.relu(self.conv(image)).mean((2, 3))
        if not torch.compiler.is_compiling():  # the exported graph lacks the factor
            features = features * self.factor
        return {"logits": self.last(features) * scale, "sum": features.sum()}


def example() -> tuple[Any, Any]:
    return torch.rand(1, 3, 16, 16), torch.tensor(2.0)


def test_a_module_becomes_a_bundle(tmp_path: Path) -> None:
    net, given = Net().eval(), example()
    bundle = aot.torch.compile(net, given, tmp_path / "out", accuracy="strict")
    assert [i["name"] for i in bundle.manifest["inputs"]] == ["image", "scale"]
    logits, total = bundle.load()(*given)
    with torch.no_grad():
        expected = net(*given)
    assert np.allclose(logits, expected["logits"], rtol=1e-3, atol=1e-4)
    assert np.allclose(total, expected["sum"], rtol=1e-3, atol=1e-4)


def test_another_result_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VerifyError, match="does not compute what the module computes"):
        aot.torch.compile(Net(1.5).eval(), example(), tmp_path / "out")
    aot.torch.compile(Net(1.5).eval(), example(), tmp_path / "out", check=False)


def test_a_range_of_sizes(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Tanh()).eval()
    rows = torch.export.Dim("rows", min=1, max=8)
    bundle = aot.torch.compile(
        net,
        (torch.rand(3, 5),),
        tmp_path / "out",
        dynamic_shapes=({0: rows},),
        dims={"rows": (1, 8)},
    )
    assert bundle.load()(torch.rand(7, 5)).shape == (7, 3)


def test_what_cannot_be_compiled(tmp_path: Path) -> None:
    class Branch(torch.nn.Module):  # type: ignore[misc]
        def forward(self, value: Any) -> Any:
            return value if value.sum() > 0 else -value

    with pytest.raises(UsageError, match=r"training mode.*\n.*module.eval\(\)"):
        aot.torch.compile(Net(), example())
    with pytest.raises(UsageError, match="not a tuple"):
        aot.torch.compile(Net().eval(), torch.rand(3))
    with pytest.raises(AotError, match=r"PyTorch cannot export Branch: .*data-dependent"):
        aot.torch.compile(Branch().eval(), (torch.rand(3),))
