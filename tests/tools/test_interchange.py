# SPDX-License-Identifier: Apache-2.0
"""`verify`, `inspect` and runs of models whose values are strings, sequences, optionals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import aot
from aot.cli import main
from aot.errors import AotError
from aot.ir.string_rows import encode
from aot.load import load
from aot.ops.registry import load_all
from aot.options import Options
from aot.tools.run import open_out
from aot.tools.value_conversion import decoded
from aot.tools.verify import Request, verify
from needs import need

HEAD = '<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 3]>\n'
LISTS = """g (seq(float[2,3]) s, float[2,3] z, optional(float[4]) o)
    => (seq(float[2,3]) r, int64 n, bool h) {
    zero = Constant<value_int=0>()
    one = Constant<value_ints=[1]>()
    a = SequenceAt(s, zero)
    d = Add(a, z)
    r = SequenceConstruct(d, z)
    n = SequenceLength(s)
    h = OptionalHasElement(o)
}"""
WORDS = """g (string[3] a, string[3] b, int64[2] k) => (string[3] r, bool[3] e, string[2] w) {
    r = StringConcat(a, b)
    e = Equal(a, b)
    w = ai.onnx.ml.CategoryMapper<cats_int64s = [0, 1], cats_strings = ["zero", "one"]>(k)
}"""


def saved(text: str, folder: Path) -> Path:
    path = folder / "m.onnx"
    onnx.save(parser.parse_model(HEAD + text), path)
    return path


@pytest.mark.parametrize(
    ("text", "target"),
    [(LISTS, "host"), (WORDS, "host"), (WORDS, "cortex-m4"), (LISTS, "cortex-m4")],
)
def test_verify(text: str, target: str, tmp_path: Path) -> None:
    if target == "cortex-m4":
        need("arm-none-eabi-gcc")
        need("qemu-system-arm")
    options = Options(name="net", target=target, max_sequence=3)
    aot.compile(saved(text, tmp_path), tmp_path / "out", options=options).build()
    request = Request(per_node=target == "host")
    report = verify(open_out(tmp_path / "out"), request, lambda _: None)
    assert report.passed, report.text()
    assert len(report.outputs) >= 3


def test_a_wrong_string_is_seen(tmp_path: Path) -> None:
    """The bundle of one model against another one."""
    out = tmp_path / "out"
    aot.compile(saved(WORDS, tmp_path), out, options=Options(name="net")).build()
    other = tmp_path / "other.onnx"
    onnx.save(parser.parse_model(HEAD + WORDS.replace("Concat(a, b)", "Concat(b, a)")), other)
    report = verify(open_out(out), Request(model=other), lambda _: None)
    assert not report.passed


def test_more_elements_than_there_can_be(tmp_path: Path) -> None:
    path = saved("g (seq(float[2]) s) => (int64 n) { n = SequenceLength(s) }", tmp_path)
    net = aot.compile(path, tmp_path / "out", name="net", max_sequence=2).load()
    x = np.zeros(2, np.float32)
    assert [int(net(x, x, np.array(n, np.int64))) for n in (0, 2)] == [0, 2]
    for n in (-1, 3):
        with pytest.raises(AotError, match="status 3"):
            net(x, x, np.array(n, np.int64))


def test_strings_there_and_back() -> None:
    words = np.array([["", "a"], ["é中", "x y"]], object)
    assert (decoded(encode(words, 8)) == words).all()


def test_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_ = LISTS.replace("seq(float[2,3]) s,", "seq(float[N,3]) s,")
    assert main(["inspect", str(saved(open_, tmp_path))]) == 0
    printed = capsys.readouterr().out
    assert "input  s: sequence of float32[N,3]" in printed
    assert "input  o: optional of float32[4]" in printed and "--dim N=1" in printed


def test_the_map_of_a_classifier_is_a_tensor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """g (float[1,2] x) => (seq(map(int64, float)) y) {
        p = Softmax(x)
        y = ai.onnx.ml.ZipMap<classlabels_int64s = [3, 5]>(p)
    }"""
    assert main([str(saved(text, tmp_path)), "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    assert 'output "y" is a tensor' in said and "classes 3, 5" in said
    bundle = aot.Bundle(tmp_path / "out").build()
    assert bundle.manifest["outputs"][0]["shape"] == [1, 2]
    assert verify(open_out(bundle.out), Request(), lambda _: None).passed


def test_a_map_in_a_model_without_operators_of_onnx() -> None:
    info = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node(
        "ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[1]
    )
    graph = onnx.helper.make_graph(
        [node], "g", [info("x", 1, [1, 1])], [onnx.ValueInfoProto(name="y")]
    )
    imports = [onnx.helper.make_opsetid("ai.onnx.ml", 2)]
    made = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
    load_all()
    assert [v.name for v in load(made).graph.outputs] == ["y"]


def test_maps_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """g (map(int64, float) x) => (float[1,2] y) {
        y = ai.onnx.ml.CastMap(x)
    }"""
    assert main([str(saved(text, tmp_path)), "-o", str(tmp_path / "out"), "-q"]) == 1
    assert 'input "x" is a map' in capsys.readouterr().err
