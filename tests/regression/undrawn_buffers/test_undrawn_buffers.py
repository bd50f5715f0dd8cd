# SPDX-License-Identifier: Apache-2.0
"""The report's memory map drew a bar per tensor that a call writes under its own name: buffers that
are written through views (the largest of a U-Net, the results of its Concats), scratch and what
lives between runs were missing. At every call the bytes drawn are the bytes that live.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from aot.api import compile_to
from aot.ir.program import Access, Program
from aot.options import Options
from aot.plan.memory.plan import Plan
from aot.tools.report import page
from aot.tools.run import open_out
from graphs import model


def absent(made: onnx.ModelProto) -> onnx.ModelProto:
    """The same model, whose operands called _ are left out."""
    for node in made.graph.node:
        node.input[:] = ["" if n == "_" else n for n in node.input]
    return made


def u_net() -> onnx.ModelProto:
    """Two levels, joined by Concats along the channels, and a matrix product that needs scratch."""
    rng = np.random.default_rng(0)
    consts = {
        f"w{i}": (rng.standard_normal((c, k, 3, 3)) / 9).astype(np.float32)
        for i, (c, k) in enumerate(((16, 3), (32, 16), (32, 32), (16, 48), (16, 19)))
    }
    conv: dict[str, Any] = {"pads": [1] * 4}
    rows = [
        ("Conv", "x w0", "a0", conv),
        ("Relu", "a0", "a"),
        ("MaxPool", "a", "p", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Conv", "p w1", "b0", conv),
        ("Sigmoid", "b0", "b"),
        ("Conv", "b w2", "c", conv),
        ("Resize", "c _ s", "u", {"mode": "nearest"}),
        ("Concat", "u a", "j", {"axis": 1}),
        ("Conv", "j w3", "d", conv),
        ("Concat", "d x", "k", {"axis": 1}),
        ("Conv", "k w4", "y", conv),
        ("CumSum", "y axis", "z"),
    ]
    consts |= {"s": np.array([1, 1, 2, 2], np.float32), "axis": np.array(3, np.int64)}
    return absent(model(rows, {"x": [1, 3, 16, 16]}, {"z": None}, consts))


def recurrent() -> onnx.ModelProto:
    """An LSTM with its states, which live from run to run, and a sort."""
    rng = np.random.default_rng(1)
    consts = {
        "w": rng.standard_normal((1, 64, 8)).astype(np.float32),
        "r": rng.standard_normal((1, 64, 16)).astype(np.float32),
        "k": np.array([3], np.int64),
    }
    rows = [
        ("LSTM", "x w r _ _ h c", "o hn cn", {"hidden_size": 16}),
        ("Tanh", "o", "t"),
        ("TopK", "t k", "y i"),
    ]
    shapes = {"x": [4, 1, 8], "h": [1, 1, 16], "c": [1, 1, 16]}
    outputs = {"y": None, "i": None, "hn": [1, 1, 16], "cn": [1, 1, 16]}
    return absent(model(rows, shapes, outputs, consts, {"i": TensorProto.INT64}))


def live(program: Program, plan: Plan) -> list[np.ndarray[Any, Any]]:
    """For every call, which bytes of the arena it touches or must leave alone: liveness by the
    textbook, from the last call back to the first."""

    def places(names: Any) -> np.ndarray[Any, Any]:
        found = np.zeros(plan.arena_bytes, bool)
        for name, begin in names:
            base, offset = program.base(name)
            if base in plan.placements:
                at = plan.placements[base].offset + offset
                found[at + begin : at + program.tensors[name].nbytes] = True
        return found

    after = places((n, 0) for n in (*program.outputs, *program.kept))
    found = []
    for call in reversed(program.calls):
        args = list(call.pointers())
        written = places((a.tensor, a.begin) for a in args if a.access is not Access.READ)
        read = places((a.tensor, a.begin) for a in args if a.access is not Access.WRITE)
        before = read | (after & ~written)
        found.append(before | after | written)
        after = before
    return found[::-1]


def drawn(text: str, calls: int, total: int) -> list[np.ndarray[Any, Any]]:
    """For every call, which bytes of the arena the picture of a page has bars for."""
    start = text.index('<svg class="map"')
    root = ET.fromstring(text[start : text.index("</svg>", start)] + "</svg>")
    x, y, width, height = (int(v) for v in root.attrib["viewBox"].split())
    assert y == 0 and height == total and x <= 0 and x + width >= calls
    found = [np.zeros(total, bool) for _ in range(calls)]
    for bar in root:
        if "buffer" not in bar.attrib["class"].split():
            continue
        left, top, wide, high = (int(bar.attrib[k]) for k in ("x", "y", "width", "height"))
        assert top >= 0 and top + high <= total and wide > 0 and high > 0
        for call in range(max(left, 0), min(left + wide, calls)):
            found[call][total - top - high : total - top] = True
    return found


@pytest.mark.parametrize("io", ["caller", "arena"])
@pytest.mark.parametrize(
    ("made", "states"), [(u_net, {}), (recurrent, {}), (recurrent, {"h": "hn", "c": "cn"})]
)
def test_drawn_bytes_are_live_bytes(made: Any, states: Any, io: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = Options(target="x86-64-v3", io=io, states=states)
    compiled = compile_to(made(), out, options, configure=False)
    program, plan = compiled.program, compiled.plan
    text = page(open_out(out).manifest)
    shown = drawn(text, len(program.calls), plan.arena_bytes)
    wanted = live(program, plan)
    for call, (a, b) in enumerate(zip(shown, wanted, strict=True)):
        assert a.sum() == b.sum() and np.array_equal(a, b), call
    assert max(b.sum() for b in wanted) <= plan.lower_bound_bytes <= plan.arena_bytes
    listed = {s["tensor"] for s in open_out(out).manifest["memory"]["buffers"]}
    roots = {program.base(a.tensor)[0] for c in program.calls for a in c.pointers()}
    assert roots & set(plan.placements) <= listed
