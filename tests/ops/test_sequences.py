# SPDX-License-Identifier: Apache-2.0
"""Sequences and optionals: taken apart at compile time, parts of the interface at its border."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import aot
from aot.errors import AotError, ModelError, UnsupportedError

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'


def text(body: str) -> onnx.ModelProto:
    return parser.parse_model(HEAD + body)


def run(proto: onnx.ModelProto, tmp_path: Path, *args: Any, **options: Any) -> list[np.ndarray]:
    loaded = aot.compile(proto, tmp_path / "out", name="net", **options).load()
    found = loaded(*args)
    return [np.asarray(a) for a in (found if isinstance(found, tuple | list) else [found])]


def rows(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def names(proto: onnx.ModelProto, **options: Any) -> tuple[list[str], list[str]]:
    """The ONNX names of what goes in and out."""
    from aot.options import Options
    from aot.pipeline import compile_model

    program = compile_model(proto, Options(target="x86-64", **options)).program
    ins, outs = program.inputs, program.outputs
    return tuple([program.tensors[n].onnx_name for n in group] for group in (ins, outs))


def test_inside_a_graph_nothing_is_left_of_a_sequence(tmp_path: Path) -> None:
    proto = text(
        """g (float[6, 4] x) => (float[N, 4] y, int64 n) {
            two = Constant<value = int64 {4}>()
            last = Constant<value = int64 {-1}>()
            s = SplitToSequence<axis = 0>(x, two)
            more = SequenceInsert(s, x, last)
            none = SequenceErase(more)
            all = SequenceInsert(none, x)
            n = SequenceLength(all)
            y = ConcatFromSequence<axis = 0>(all)
        }"""
    )
    x = rows(6, 4)
    y, n = run(proto, tmp_path, x)
    assert np.array_equal(y, np.concatenate([x[:4], x, x]))
    assert n == 3


def test_a_map_of_several_sequences(tmp_path: Path) -> None:
    proto = text(
        """g (seq(float[K]) a, seq(float[K]) b, float k) => (seq(float[K]) c) {
            c = SequenceMap(a, b, k)<body = each (float[K] u, float[K] v, float f) => (float[K] w) {
                t = Add(u, v)
                w = Mul(t, f)
            }>
        }"""
    )
    parts = [rows(2), rows(3), rows(2) + 5, rows(3) + 7]
    shapes = {f"{s}/{i}": parts[i].shape for s in "ab" for i in range(2)}
    found = run(proto, tmp_path, *parts, np.array(2, np.float32), input_shapes=shapes)
    assert np.array_equal(found[0], 2 * (parts[0] + parts[2]))
    assert np.array_equal(found[1], 2 * (parts[1] + parts[3]))
    assert found[2] == 2


def test_a_length_known_at_run_time(tmp_path: Path) -> None:
    proto = text(
        """g (seq(float[3]) s, int64 place) => (float[3] y, int64 n, seq(float[3]) t) {
            y = SequenceAt(s, place)
            n = SequenceLength(s)
            t = SequenceMap(s)<body = each (float[3] u) => (float[3] v) { v = Neg(u) }>
        }"""
    )
    assert names(proto, max_sequence=2) == (
        ["s/0", "s/1", "s/count", "place"],
        ["y", "n", "t/0", "t/1", "t/count"],
    )
    parts = [rows(3) + i for i in range(5)]
    loaded = aot.compile(proto, tmp_path / "out", name="net", max_sequence=5).load()
    for count, place in ((5, 2), (3, -1), (4, -4), (1, 0)):
        found = [np.asarray(a) for a in loaded(*parts, np.array(count), np.array(place))]
        assert np.array_equal(found[0], parts[place % count])
        assert found[1] == count == found[-1]
        assert np.array_equal(found[2], -parts[0])


def test_an_optional_and_its_flag(tmp_path: Path) -> None:
    proto = text(
        """g (optional(float[3]) o) => (bool b, float[3] y) {
            b = OptionalHasElement(o)
            y = OptionalGetElement(o)
        }"""
    )
    assert names(proto) == (["o", "o/present"], ["b", "y"])
    for flag in (False, True):
        b, y = run(proto, tmp_path, rows(3), np.array(flag))
        assert b == flag and np.array_equal(y, rows(3))
    assert names(proto, bindings={"o/present": True})[0] == ["o"]
    with pytest.raises(ModelError, match="the optional is empty"):
        names(proto, bindings={"o/present": False})


def test_a_loop_that_collects(tmp_path: Path) -> None:
    proto = text(
        """g (float[4] x) => (float[N] y) {
            none = SequenceEmpty()
            trips = Constant<value = int64 {3}>()
            go = Constant<value = bool {1}>()
            all = Loop(trips, go, none)<body = step (int64 i, bool c, seq(float[N]) s)
                => (bool d, seq(float[N]) t) {
                d = Identity(c)
                zero = Constant<value = int64[1] {0}>()
                one = Constant<value = int64[1] {1}>()
                first = Add(i, one)
                head = Slice(x, zero, first)
                t = SequenceInsert(s, head)
            }>
            y = ConcatFromSequence<axis = 0>(all)
        }"""
    )
    x = rows(4) + 1
    (y,) = run(proto, tmp_path, x)
    assert np.array_equal(y, np.concatenate([x[:1], x[:2], x[:3]]))


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (
            "g (seq(float[3]) s) => (float[N] y) { y = ConcatFromSequence<axis = 0>(s) }",
            UnsupportedError,
            ('the length of "s" is known at run time only', "--bind s/count=1"),
        ),
        (
            "g (seq(float) s) => (int64 n) { n = SequenceLength(s) }",
            None,
            (),
        ),
        (
            "g (float[2] x, int64 i) => (float[N] y) "
            "{ s = SequenceConstruct(x, x) t = SequenceErase(s, i) "
            "y = ConcatFromSequence<axis = 0>(t) }",
            UnsupportedError,
            ('"i" is known at run time only', "--bind i=1"),
        ),
        (
            "g (float[2] x) => (float[N] y) "
            "{ i = Constant<value = int64 {5}>() "
            "s = SequenceConstruct(x, x) y = SequenceAt(s, i) }",
            ModelError,
            ("position 5 is outside a sequence of 2",),
        ),
    ],
)
def test_what_is_refused(body: str, kind: type[AotError] | None, words: tuple[str, ...]) -> None:
    proto = text(body)
    if kind is None:
        assert names(proto)[0][-1] == "s/count"
        return
    with pytest.raises(kind) as error:
        names(proto)
    for word in words:
        assert word in f"{error.value} {error.value.hint}"


def test_elements_without_a_shape(tmp_path: Path) -> None:
    proto = text("g (seq(float[N]) s) => (int64 n) { n = SequenceLength(s) }")
    tensor = proto.graph.input[0].type.sequence_type.elem_type.tensor_type
    tensor.ClearField("shape")
    with pytest.raises(ModelError, match="elements have no shape") as error:
        names(proto)
    assert "--input-shape s/0=" in error.value.advice()
    with pytest.raises(ModelError, match="a sequence of 40"):
        names(proto, bindings={"s/count": 40})
