# SPDX-License-Identifier: Apache-2.0
"""Loops that paste what elements of a large tensor size, as Mask R-CNN pastes its masks, were
refused: an interval was known of small values only, a part as long as the data say did not join
one of a known size, and a body could compare no sizes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import aot
from aot.errors import AotError
from aot.target import load_target
from aot.tools.build import build, configure, find_tools
from aot.tools.run import open_out, stream
from needs import need_module
from sanitizers import SANITIZED

ROWS, TALL = 300, 8
TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[300, 4] boxes, int64[1] more) => (float[n, 8, 3] pasted) {
    inside = Clip(boxes, low, high)
    found = Greater(inside, half)
    which = NonZero(found)
    rows = Gather(which, zero)
    kept = Gather(inside, rows)
    some = Slice(kept, none, five)
    shape = Shape(some)
    count = Gather(shape, zero)
    few = Min(more, one)
    extra = Max(few, none)
    yes = Constant<value = bool {1}>()
    pasted = Loop (count, yes, empty) <body = b (int64 i, bool go, float[k, 8, 3] a)
        => (bool go2, float[k2, 8, 3] a2) {
      go2 = Identity(go)
      row = Gather(some, i)
      first = Slice(row, none, one)
      size = Cast<to = 7>(first)
      rest = Sub(eight, size)
      above = Concat<axis = 0>(size, three)
      longer = Add(rest, extra)
      below = Concat<axis = 0>(longer, three)
      ones = ConstantOfShape<value = float[1] {1}>(above)
      tens = ConstantOfShape<value = float[1] {10}>(below)
      both = Concat<axis = 0>(ones, tens)
      new = Unsqueeze(both, none)
      a2 = Concat<axis = 0>(a, new)
    }>
}"""
CONSTANTS = {
    "low": np.float32(0),
    "high": np.float32(TALL),
    "half": np.float32(0.5),
    "zero": np.int64(0),
    "none": np.array([0]),
    "one": np.array([1]),
    "three": np.array([3]),
    "five": np.array([5]),
    "eight": np.array([TALL]),
    "empty": np.zeros((0, TALL, 3), np.float32),
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pasted") / "out"
    aot.compile(graph(), folder, name="net", target="x86-64")
    target = load_target("x86-64")
    tools = find_tools(target.packages, target.compiler)
    configure(folder, tools, None, folder / "bundle", [f"-DCMAKE_C_FLAGS={SANITIZED}"])
    build(folder, "net-runner")
    return folder


def graph() -> onnx.ModelProto:
    made = parser.parse_model(TEXT)
    made.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in CONSTANTS.items())
    return made


def boxes(*rows: float) -> np.ndarray:
    found = np.zeros((ROWS, 4), np.float32)
    found[100 : 100 + len(rows), 0] = rows
    return found


@pytest.mark.parametrize("rows", [(), (3.7,), (8, 1, 90, 2.5), (1, 2, 3, 4, 5, 6, 7)])
def test_rows_are_pasted_as_onnxruntime_does(out: Path, rows: tuple[float, ...]) -> None:
    session = need_module("onnxruntime").InferenceSession(graph().SerializeToString())
    feed = {"boxes": boxes(*rows), "more": np.array([0])}
    ((ours,),) = stream(open_out(out), [list(feed.values())])
    (theirs,) = session.run(None, feed)
    assert ours.shape == theirs.shape == (min(len(rows), 5), TALL, 3)
    np.testing.assert_array_equal(ours, theirs)


def test_parts_that_do_not_fit_are_a_status(out: Path) -> None:
    with pytest.raises(AotError, match="wrong shape"):
        stream(open_out(out), [[boxes(3, 2), np.array([1])]])
