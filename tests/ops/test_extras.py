# SPDX-License-Identifier: Apache-2.0
"""The package of extras: which operators it has is known without it, and how to install it."""

from __future__ import annotations

import importlib.util
import shlex
import tomllib
from pathlib import Path

import pytest

import aotc_extras
from aot.errors import UnsupportedError
from aot.load import LoadOptions, load
from aot.load.packages import packages
from aot.load.respell import respells
from aot.normalise.decompose import decompose
from aot.version import __version__
from graphs import model

ROOT = Path(__file__).resolve().parents[2]
ML = "ai.onnx.ml"


def test_its_operators_are_announced() -> None:
    """Every operator that has a rule there is named in aot/ops/extras.py, and no other."""
    rules = (
        (key, interface.named(key[1], key[0]))
        for interface in (decompose, respells)
        for key in interface.operators()
    )
    given = {key for key, rule in rules if rule.__module__.startswith(aotc_extras.__name__)}
    assert given == set(packages.operators())


def test_its_version_is_that_of_aotc() -> None:
    project = tomllib.loads((ROOT / "extras" / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__
    assert project["dependencies"] == [f"aotc=={__version__}"]


def test_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator, the package and a command that installs it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    proto = model([(f"{ML}.Binarizer", "x", "y")], {"x": [1, 2]}, {"y": [1, 2]}, domains=[ML])
    with pytest.raises(UnsupportedError) as refused:
        load(proto)
    assert "ai.onnx.ml.Binarizer is in the package aotc-extras" in refused.value.what
    command = shlex.split(refused.value.hint.strip("`"))
    assert command[:2] == ["pip", "install"]
    assert (Path(command[2]) / "pyproject.toml").is_file()


def test_a_backend_may_take_its_operators_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    proto = model([(f"{ML}.Binarizer", "x", "y")], {"x": [1, 2]}, {"y": [1, 2]}, domains=[ML])
    options = LoadOptions(claimed=frozenset({f"{ML}::Binarizer"}))
    assert [n.op_type for n in load(proto, options).graph] == ["Binarizer"]
