# SPDX-License-Identifier: Apache-2.0
"""`aotc diff`: what is said of two builds, on pairs that differ in one known way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aot
from aot.cli import main
from aot.tools.record import file_digest
from graphs import model

SHAPE = (1, 4, 6, 6)


def network(path: Path, scale: float = 1.0, last: str = "Relu", size: int = 6) -> Path:
    """Conv, an operator `last`, Softmax: weights of `scale`, images of `size`."""
    shape = (1, 4, size, size)
    w = np.linspace(-scale, scale, 4 * 4 * 9, dtype=np.float32).reshape(4, 4, 3, 3)
    rows = [("Conv", "x w", "c", {"pads": [1] * 4}), (last, "c", "r"), ("Softmax", "r", "y")]
    path.write_bytes(model(rows, {"x": shape}, {"y": shape}, {"w": w}).SerializeToString())
    return path


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Compiles a network without CMake to a folder of the working directory."""
    monkeypatch.chdir(tmp_path)

    def compiles(out: str, *options: str, **about: Any) -> str:
        file = network(tmp_path / f"{about.pop('file', 'net')}.onnx", **about)
        assert main([str(file), "-o", out, "--no-configure", "-q", *options]) == 0
        return out

    return compiles


def record(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["diff", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def rows(found: dict[str, Any], section: str) -> dict[str, tuple[Any, Any]]:
    return {r["name"]: (r["a"], r["b"]) for r in found["sections"][section]}


def test_equal_builds(compiled: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    compiled("a"), compiled("b")
    assert main(["diff", "a", "b", "--exit-code"]) == 0
    said = capsys.readouterr().out
    assert "Nothing that is compared differs." in said and "->" not in said
    assert "a is not built" in said
    assert main(["diff", "a", "b", "-v"]) == 0
    said = capsys.readouterr().out
    assert "  MACs " in said and "objective" in said and said.endswith("differs.\n")


def test_exit_code_only_when_asked(
    compiled: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    compiled("a"), compiled("b", "--accuracy", "fast")
    assert main(["diff", "a", "b"]) == 0
    assert "accuracy  normal -> fast" in capsys.readouterr().out
    assert main(["diff", "a", "b", "--exit-code", "-q"]) == 1
    assert capsys.readouterr() == ("", "aotc: they differ\n")


def test_a_changed_interface_comes_first(
    compiled: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    compiled("a"), compiled("b", "--name", "other", size=12)
    found = record(capsys, "a", "b")
    assert not found["same_abi"] and next(iter(found["sections"])) == "ABI"
    assert rows(found, "ABI") == {
        "prefix": ("net", "other"),
        "input 0": ("x: float32[1, 4, 6, 6]", "x: float32[1, 4, 12, 12]"),
        "output 0": ("y: float32[1, 4, 6, 6]", "y: float32[1, 4, 12, 12]"),
    }
    assert rows(found, "options") == {"name": ("", "other")}
    macs = next(r for r in found["sections"]["work"] if r["name"] == "MACs")
    assert (macs["difference"], macs["ratio"]) == (macs["b"] - macs["a"], 4.0)
    assert rows(found, "RAM, bytes")["apart: inputs and outputs"] == (1152, 4608)
    arenas = [abs(r["difference"]) for r in found["sections"]["arena in bytes, per call"]]
    assert arenas == sorted(arenas, reverse=True) and arenas[0] > 0
    assert main(["diff", "a", "b"]) == 0
    assert (
        capsys.readouterr().out.splitlines()[2] == "The ABI differs: what calls A does not fit B."
    )


def test_backends_and_regions(
    compiled: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    compiled("a"), compiled("b", "--backend", "accel_sim")
    found = record(capsys, "a", "b")
    assert found["same_abi"] and not found["same"]
    assert rows(found, "backends of nodes")["n0_Conv"] == ("c", "accel_sim")
    assert all(a == 0 and b > 0 for a, b in rows(found, "regions, in calls").values())
    assert rows(found, "work")["regions"][0] == 0
    assert rows(found, "options") == {"backends": ("[]", "['accel_sim']")}
    assert rows(record(capsys, "b", "a"), "backends of nodes")["n0_Conv"] == ("accel_sim", "c")


def test_a_page(compiled: Callable[..., str], tmp_path: Path) -> None:
    compiled("a"), compiled("<b>", "--objective", "ram", last="Tanh")  # names are escaped
    assert main(["diff", "a", "<b>", "-o", "d.html", "-q"]) == 0
    text = (tmp_path / "d.html").read_text()
    assert text.startswith("<!DOCTYPE html>") and "n1_Tanh" in text and "<h2>options</h2>" in text
    assert "B is &lt;b&gt;." in text and "<b>" not in text and "<script" not in text


def test_what_is_no_bundle_of_this_version(
    compiled: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled("a")
    (tmp_path / "empty").mkdir()
    assert main(["diff", "a", "empty"]) == 1
    assert "no bundle here: empty/bundle/manifest.json\n  hint: " in capsys.readouterr().err
    shutil.copytree("a", "later")
    manifest = tmp_path / "later/bundle/manifest.json"
    manifest.write_text(manifest.read_text().replace('"schema": "1.', '"schema": "2.'))
    own = tmp_path / "later/aotc.json"
    own.write_text(json.dumps(json.loads(own.read_text()) | {"manifest": file_digest(manifest)}))
    for words in (["diff", "a", "later"], ["report", "later", "-o", "r.html"]):
        assert main(words) == 1
        said = capsys.readouterr().err
        assert "later/bundle/manifest.json has schema 2.0, this aotc reads 1." in said
        assert "hint: compile again with this aotc" in said
    for content in ("[", '{"options": {"accuracy": 5}}'):
        shutil.copytree("a", "damaged", dirs_exist_ok=True)
        (tmp_path / "damaged/aotc.json").write_text(content)
        assert main(["diff", "a", "damaged"]) == 1
        said = capsys.readouterr().err
        assert said.startswith("aotc: ") and "damaged" in said and "internal" not in said
    (tmp_path / "damaged/aotc.json").unlink()  # a bundle that was copied has no record
    (tmp_path / "damaged/bundle/manifest.json").write_text('{"name": "n", "schema": "1.0"}')
    assert main(["diff", "a", "damaged"]) == 1
    assert "damaged/bundle/manifest.json is not as aotc wrote it" in capsys.readouterr().err


def test_a_bundle_without_record(
    compiled: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled("a"), compiled("b", "--plan-effort", "7", "--specialise", "none")
    (tmp_path / "b" / "aotc.json").unlink()
    found = record(capsys, "a", "b")
    assert rows(found, "options") == {"specialise": ("hot", "none")}


def test_outputs_of_built_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for out, scale in (("a", 1.0), ("b", 1.1)):
        aot.compile(network(tmp_path / "net.onnx", scale), out).build()
    found = record(capsys, "a", "b")
    (output,) = found["outputs"]
    assert output["name"] == "y" and output["max_abs"] > 1e-3 and not output["passed"]
    assert not found["notes"] and list(found["sections"]) == ["compilation"]
    assert main(["diff", "a", "b"]) == 0
    said = capsys.readouterr().out
    assert "outputs, the largest difference of 1 compared\n  y  " in said
    assert "; beyond the tolerance: " in said and "(reference " in said
    assert main(["diff", "a", "a", "--exit-code"]) == 0
    assert "outputs: 1 compared, all equal" in capsys.readouterr().out
    rng = np.random.default_rng(3)
    np.savez("in.npz", **{f"s{k}/x": rng.normal(size=SHAPE).astype(np.float32) for k in (0, 1)})
    found = record(capsys, "a", "b", "--inputs", "in.npz")
    assert [o["name"] for o in found["outputs"]] == ["s0/y", "s1/y"]
    np.savez("in.npz", x=np.zeros((1, 4, 5, 6), np.float32))
    assert main(["diff", "a", "b", "--inputs", "in.npz"]) == 1
    assert "input 'x': float32[1, 4, 5, 6]" in capsys.readouterr().err
    size = record(capsys, "a", "b", "-v")["sections"]["flash, bytes"]
    assert next(r for r in size if r["name"] == "code and tables")["a"] > 100
