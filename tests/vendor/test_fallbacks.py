# SPDX-License-Identifier: Apache-2.0
"""Fallbacks: the same bundle with a vendor and without it, and the comparison region by region."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from aot.cli import main
from aot.options import Options
from aot.pipeline import compile_model
from aot.plan.fallback import make_fallbacks, portable_bytes
from aot.tools.run import open_out
from aot.vendor import find
from aot.vendor.backend import Backend
from graphs import model

VENDOR = """
import math
from aot.ir.layout import Layout
from aot.vendor.backend import Backend

backend = Backend("acme", header="acme.h", sources=("acme.h", "acme.c"), keeps=("Mystery",))
WRONG = {wrong}

def size(v):
    return math.prod(v.layout.physical(v.shape))

@backend.pattern
def relu(op, x):
    return op.Relu(x)

@backend.pattern
def neg(op, x):
    return op.Neg(x)

@backend.pattern
def add(op, a, b):
    return op.Add(a, b)

def made_of(kind, inputs, inplace):
    def lowering(c, m):
        ins = [getattr(m, n) for n in inputs]
        pairs = [(m.y, ins[0])] if inplace else []
        params = c.params(n=size(m.y), kind=kind, wrong=WRONG)
        c.call("acme_op", m.y, ins[0], ins[-1], params, inplace=pairs, status=True)
    return lowering

def layouts(m, incoming, vlen):
    if len(m.y.shape) != 4 or vlen == 1:
        return {{}}
    return {{n: Layout(vlen, zeros=True) for n in m.values}}

for number, (p, names) in enumerate([(relu, "x"), (neg, "x"), (add, "ab")]):
    p.lower(made_of(number, names, number < 2))
    p.layouts(layouts)

@add.check
def same(m):
    yield m.a.shape == m.b.shape, f"shapes {{m.a.shape}} and {{m.b.shape}}"
"""
HEADER = """\
/* SPDX-License-Identifier: MIT-0 */
#ifndef ACME_H
#define ACME_H
#include <stdint.h>
#include "aot/aot.h"
typedef struct {
    int32_t n;
    int32_t kind;
    int32_t wrong;
} acme_op_params;
aot_status acme_op(float *y, const float *a, const float *b, const acme_op_params *p);
#endif
"""
SOURCE = """\
/* SPDX-License-Identifier: MIT-0 */
#include "acme.h"
aot_status acme_op(float *y, const float *a, const float *b, const acme_op_params *p) {
    int32_t i;
    for (i = 0; i < p->n; ++i) {
        float v = p->kind == 0 ? (a[i] > 0.0F ? a[i] : 0.0F) : p->kind == 1 ? -a[i] : a[i] + b[i];
        y[i] = p->wrong && i == 2 ? v + 1.0F : v;
    }
    return AOT_OK;
}
"""


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that makes a vendor of C sources and lets `--backend acme` find it."""

    def make(wrong: int = 0) -> Backend:
        folder = tmp_path / "acme_vendor"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text(VENDOR.format(wrong=wrong))
        (folder / "acme.h").write_text(HEADER)
        (folder / "acme.c").write_text(SOURCE)
        monkeypatch.syspath_prepend(str(tmp_path))
        sys.modules.pop("acme_vendor", None)
        module = __import__("acme_vendor")
        real = find.find_backend
        monkeypatch.setattr(
            find, "find_backend", lambda n, w="": module.backend if n == "acme" else real(n)
        )
        found: Backend = module.backend
        return found

    return make


def network(path: Path) -> Path:
    """Two vendor regions around Softmax, in place and not, an odd number of channels."""
    rows = [
        ("Relu", "x", "a"),
        ("Neg", "a", "b"),
        ("Add", "a b", "c"),
        ("Relu", "c", "c2"),
        ("Softmax", "c2", "d", {"axis": 1}),
        ("Add", "d b", "e"),
        ("Neg", "e", "f"),
        ("Relu", "f", "g"),
    ]
    proto = model(rows, {"x": [1, 5, 3, 4]}, {"g": None, "b": None, "e": None})
    onnx.save(proto, str(path))
    return path


def built(out: Path, *more: str) -> None:
    subprocess.run(
        ["cmake", "-S", str(out / "bundle"), "-B", str(out), "-DAOT_WERROR=ON", *more],
        check=True,
        capture_output=True,
    )
    done = subprocess.run(
        ["cmake", "--build", str(out)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_bundle_works_with_the_vendor_and_without(tmp_path: Path, vendor) -> None:
    vendor()
    source, out = network(tmp_path / "net.onnx"), tmp_path / "out"
    assert main([str(source), "-o", str(out), "--backend", "acme", "-q"]) == 0
    built(out)
    assert main(["verify", str(out), "-q"]) == 0
    assert (out / "lib" / "libnet_vendors.a").is_file()
    (out / "lib" / "libnet_vendors.a").unlink()
    built(out, "-DAOT_ACME=OFF")
    assert main(["verify", str(out), "-q"]) == 0
    symbols = subprocess.run(
        ["nm", str(out / "bin" / "net")], check=True, capture_output=True, text=True
    ).stdout
    assert "acme_op" not in symbols
    assert not (out / "lib" / "libnet_vendors.a").exists()


def test_regions_are_compared(tmp_path: Path, vendor, capsys: pytest.CaptureFixture[str]) -> None:
    vendor()
    source, out = network(tmp_path / "net.onnx"), tmp_path / "out"
    assert main([str(source), "-o", str(out), "--backend", "acme", "-q"]) == 0
    built(out)
    assert main(["verify", str(out), "--per-region"]) == 0
    text = capsys.readouterr().out
    for value in ("b", "c2", "e", "g"):
        assert f"(acme): {value}: max abs 0, 0 ULP" in text
    assert "4 of 4 values that leave regions agree with portable C" in text


def test_a_vendor_that_computes_something_wrong_is_found(
    tmp_path: Path, vendor, capsys: pytest.CaptureFixture[str]
) -> None:
    vendor(wrong=1)
    source, out = network(tmp_path / "net.onnx"), tmp_path / "out"
    assert main([str(source), "-o", str(out), "--backend", "acme", "-q"]) == 0
    built(out)
    assert main(["verify", str(out), "--per-region"]) == 1
    text = capsys.readouterr().out
    assert "region 0 (acme): b" in text
    assert "MISMATCH" in text
    subprocess.run(["cmake", "-DAOT_ACME=OFF", str(out)], check=True, capture_output=True)
    assert main(["verify", str(out), "--per-region"]) == 1, "portable C agrees with itself"
    told = capsys.readouterr()
    assert f"{out} is built without acme (-DAOT_ACME=OFF)" in told.err
    assert "agree" not in told.out


def test_what_shares_memory_with_an_input_is_made_aside(tmp_path: Path, vendor) -> None:
    vendor()
    options = Options(backends=("acme",))
    made = compile_model(network(tmp_path / "net.onnx"), options)
    fallbacks = make_fallbacks(
        made.program, made.plan, made.model.graph, made.partition, made.target, options
    )
    assert [t.region for t in fallbacks] == [0, 1]
    assert all(t.program is not None and not t.reason for t in fallbacks)
    assert portable_bytes(made.plan, fallbacks) >= made.plan.arena_bytes
    for fallback in fallbacks:
        assert fallback.plan is not None
        assert fallback.end >= fallback.base + fallback.plan.arena_bytes
    record = made.manifest["regions"]
    assert [(r["portable"], sorted(r["leaves"])[0]) for r in record] == [(True, "b"), (True, "e")]


def test_a_region_that_portable_c_refuses_has_no_fallback(
    tmp_path: Path, vendor, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = vendor()
    mystery = backend.pattern(lambda op, x: op.domain("com.acme").Mystery(x))
    mystery.name, mystery.folder = "mystery", backend.folder
    mystery.infer(lambda node, inputs: [(inputs[0].shape, inputs[0].dtype)])
    mystery.lower(
        lambda c, m: c.call("acme_op", m.y, m.x, m.x, c.params(n=4, kind=0, wrong=0), status=True)
    )
    node = onnx.helper.make_node("Mystery", ["x"], ["y"], domain="com.acme", name="riddle")
    proto = model([("Relu", "x", "y")], {"x": [4]}, {"y": [4]})
    del proto.graph.node[:]
    proto.graph.node.append(node)
    proto.opset_import.append(onnx.helper.make_opsetid("com.acme", 1))
    onnx.save(proto, str(tmp_path / "m.onnx"))
    out = tmp_path / "out"
    assert main([str(tmp_path / "m.onnx"), "-o", str(out), "--backend", "acme", "-q"]) == 0
    built(out)
    region = open_out(out).manifest["regions"][0]
    assert not region["portable"]
    assert "riddle" in region["why_not"]
    done = subprocess.run(
        ["cmake", "-B", str(out / "off"), "-S", str(out / "bundle"), "-DAOT_ACME=OFF"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "portable C cannot stand in for" in " ".join(done.stderr.split())
    assert main(["verify", str(out), "--per-region"]) == 1
    assert "riddle" in capsys.readouterr().err


def test_verify_per_region_needs_regions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(model([("Relu", "x", "y")], {"x": [4]}, {"y": [4]}), str(tmp_path / "r.onnx"))
    out = tmp_path / "out"
    assert main([str(tmp_path / "r.onnx"), "-o", str(out), "-q"]) == 0
    built(out)
    assert main(["verify", str(out), "--per-region"]) == 1
    assert "has no regions" in capsys.readouterr().err


def test_outputs_hold_with_and_without(tmp_path: Path, vendor) -> None:
    """The shared library, loaded in Python, has memory enough for both."""
    import aot

    vendor()
    bundle = aot.compile(network(tmp_path / "net.onnx"), tmp_path / "out", backends=["acme"])
    x = np.random.default_rng(3).standard_normal((1, 5, 3, 4)).astype(np.float32)
    first = bundle.load()(x)
    built(tmp_path / "out", "-DAOT_ACME=OFF")
    shutil.copytree(tmp_path / "out", tmp_path / "copy")
    second = aot.api.Bundle(tmp_path / "copy").load()(x)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_an_output_of_a_fallback_is_as_large_as_the_caller_s(tmp_path: Path) -> None:
    """Portable C pools in blocks of 8 channels; of five, three would lie behind the output."""
    rows = [("Conv", "x w", "c"), ("GlobalMaxPool", "x", "y")]
    weights = {"w": np.ones((3, 5, 2, 2), np.float32)}
    source, out = tmp_path / "net.onnx", tmp_path / "out"
    onnx.save(model(rows, {"x": [1, 5, 6, 4]}, {"c": None, "y": None}, weights), str(source))
    options = ["--backend", "dnnl", "--target", "x86-64-v3", "--no-configure", "-q"]
    assert main([str(source), "-o", str(out), *options]) == 0
    fallback = (out / "bundle" / "src" / "net_fallback_0_run.c").read_text()
    pool = next(s for s in fallback.splitlines() if "STEP(" in s and "globalpool_f32_blocked(" in s)
    assert "out[" not in pool, "a block of 8 channels in an output of 5"
