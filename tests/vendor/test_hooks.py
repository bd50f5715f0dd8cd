# SPDX-License-Identifier: Apache-2.0
"""What a vendor may do besides lowering one match: passes over its regions, commands, sources and
files of its own, alignment and sections, hooks around a region and for errors."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import stackchip

from abi import loader as L
from aot.cli import main
from aot.errors import BackendError
from aot.ir.program import Origin, Program, Role
from aot.lower.persistent_tensors import place_io
from aot.options import Options
from aot.pipeline import compile_model
from aot.target import load_target
from aot.vendor import find
from aot.vendor.recorder import Recorder
from graphs import model

N = 600


@pytest.fixture(autouse=True)
def chip(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    real = find.find_backend
    monkeypatch.setattr(
        find, "find_backend", lambda n, w="": stackchip.backend if n == "stackchip" else real(n)
    )
    yield


def network() -> onnx.ModelProto:
    """relu(x - z) - (-(-z)): a difference to decompose, negations that cancel out."""
    rows = [
        ("Sub", "x z", "a"),
        ("Relu", "a", "b"),
        ("Neg", "z", "c"),
        ("Neg", "c", "d"),
        ("Sub", "b d", "y"),
    ]
    return model(rows, {"x": [N], "z": [N]}, {"y": None})


def compiled(folder: Path, *options: str) -> Path:
    onnx.save(onnx.shape_inference.infer_shapes(network()), folder / "net.onnx")
    out = folder / "out"
    words = [str(folder / "net.onnx"), "-o", str(out), "--backend", "stackchip", "-q"]
    assert main([*words, *options]) == 0
    return out


def built(out: Path, *options: str) -> Path:
    for words in (
        ["cmake", "-S", str(out / "bundle"), "-B", str(out), *options],
        ["cmake", "--build", str(out)],
    ):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    return out / "bin" / "net"


def said(program: Path, tmp_path: Path, **env: str) -> tuple[int, list[str]]:
    words = [str(program), "--fill", "1"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.splitlines()


def test_passes_commands_sources_files_and_hooks(tmp_path: Path) -> None:
    out = compiled(tmp_path)
    bundle = out / "bundle"
    assert "static const int32_t c_" in (text := (bundle / "src/net_stackchip.c").read_text())
    assert 'AOT_ALIGNED(256) AOT_SECTION(".stackchip")' in text
    assert (bundle / "src/vendor/stackchip/stackchip_model.c").is_file()
    assert (bundle / "data/stackchip/region_0.txt").read_text().count("[") == 6
    program = built(out)
    assert main(["verify", str(out), "-q"]) == 0
    assert main(["verify", str(out), "--per-region", "-q"]) == 0
    size = 4 * N
    assert said(program, tmp_path) == (
        0,
        [*[f"clean {size}"] * 3, "run 5 commands, tiles of 256", f"invalidate {size}"],
    )
    words = ["objdump", "-h", str(out / "lib" / "libnet.so")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ".stackchip" in done.stdout
    text = subprocess.run(
        ["nm", "-A", *(str(p) for p in (out / "lib").glob("*.a"))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "stackchip_model.c.o" in text and "stackchip_commands" in text


def test_the_vendor_is_told_of_an_error(tmp_path: Path) -> None:
    program = built(compiled(tmp_path))
    code, lines = said(program, tmp_path, STACKCHIP_BROKEN="1")
    assert code != 0
    assert any(line.endswith("failed: a vendor library reported an error") for line in lines)
    assert not any(line.startswith("invalidate") for line in lines)
    built(tmp_path / "out", "-DAOT_STACKCHIP=OFF")
    assert said(program, tmp_path, STACKCHIP_BROKEN="1") == (0, [])


def test_outputs_stay_when_a_vendor_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = compiled(tmp_path)
    built(out)
    lib = L.Library(out, "net")
    context = lib.context()
    assert lib.init_built_in(context) == L.OK
    x, z = np.linspace(-1, 1, N).astype(np.float32), np.ones(N, np.float32)
    y = np.full(N, 7, np.float32)
    monkeypatch.setenv("STACKCHIP_BROKEN", "1")
    assert lib.run(context, [L.dl(x), L.dl(z)], [L.dl(y)]) == L.VENDOR
    assert (y == 7).all()
    monkeypatch.delenv("STACKCHIP_BROKEN")
    assert lib.run(context, [L.dl(x), L.dl(z)], [L.dl(y)]) == L.OK
    assert np.array_equal(y, np.maximum(x - z, 0) - z)
    lib.shutdown(context)


def test_passes_aim_at_the_objective() -> None:
    tiles = {}
    for objective in ("latency", "ram", "flash"):
        options = Options(name="net", backends=("stackchip",), objective=objective)
        made = compile_model(network(), options)
        (call,) = made.program.calls
        assert call.params is not None
        (scratch,) = [t for t in made.program.tensors.values() if t.role is Role.SCRATCH]
        assert made.plan.placements[scratch.name].offset % stackchip.ALIGN == 0
        tiles[objective] = dict(call.params.fields)["tile"], scratch.nbytes
    assert tiles == {"latency": (256, 3072), "ram": (16, 192), "flash": (256, 3072)}


def test_what_a_vendor_may_not_ask_for() -> None:
    c = Recorder(load_target("x86-64-v3"), Options())
    c.begin(Origin(("n",), ("N",)), stackchip.neg, 0, ())
    data = np.zeros(4, np.float32)
    with pytest.raises(BackendError, match="an alignment of 48 bytes"):
        c.const(data, align=48)
    with pytest.raises(BackendError, match="an alignment of 8192 bytes"):
        c.scratch(16, align=8192)
    with pytest.raises(BackendError, match="a linker section"):
        c.const(data, section='x")')
    with pytest.raises(BackendError, match="a vendor's source"):
        c.source("../net.c", "")
    assert c.const(data, align=128) != c.const(data)


def test_constants_on_boards_begin_where_a_vendor_asks() -> None:
    """Others are aligned to no more than 8 bytes there, which saves flash."""
    board = load_target("cortex-m55")
    c = Recorder(board, Options())
    c.begin(Origin(("n",), ("N",)), stackchip.neg, 0, ())
    made = c.const(np.zeros(4, np.float32)), c.const(np.ones(4, np.float32), align=16)
    program = Program("net", dict(c.tensors), dict(c.consts), (), (), (), 1)
    placed = place_io(program, board, Options()).tensors
    assert [placed[m.name].align for m in made] == [8, 16]


def test_constants_of_a_vendor_are_not_linked_without_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = {k: rng.standard_normal((64, 64)).astype(np.float32) for k in ("w", "v")}
    rows = [("MatMul", "x w", "a"), ("Sin", "a", "b"), ("MatMul", "b v", "y")]
    onnx.save(model(rows, {"x": [2, 64]}, {"y": [2, 64]}, weights), tmp_path / "net.onnx")
    out = tmp_path / "out"
    words = [str(tmp_path / "net.onnx"), "-o", str(out), "--backend", "cblas", "-q"]
    assert main([*words, "--keep", "a=cblas", "--keep", "y=c"]) == 0
    sizes = []
    for switch in ("ON", "OFF"):
        built(out, f"-DAOT_CBLAS={switch}")
        assert main(["verify", str(out), "-q"]) == 0
        words = ["nm", "-S", str(out / "lib" / "libnet.a")]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        sizes.append(sorted(w.split()[-1] for w in done.stdout.splitlines() if "_weights" in w))
    assert "net_vendor_cblas_weights" in sizes[0] and "net_fallback_0_weights" not in sizes[0]
    assert "net_fallback_0_weights" in sizes[1] and "net_vendor_cblas_weights" not in sizes[1]
