# SPDX-License-Identifier: Apache-2.0
"""How a difference of one quantised value grows: what verify says about it, and when."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from aot.ir.layout import PLAIN
from aot.tools.compare import Difference
from aot.tools.growth import SHOWN, Growth, Step, explained, grown
from aot.tools.layerwise import Written
from aot.tools.run import open_out
from aot.tools.verify import Report, Request, verify

S8 = np.int8


def two_products(path: Path) -> None:
    """c = q(x / 2), d = q(c @ threes), y = q(d @ twos): a step of c is 3 of d and 24 of y."""
    rows = (
        ("DequantizeLinear", "x one zero", "a"),
        ("Mul", "a half", "b"),
        ("QuantizeLinear", "b one zero", "c"),
        ("DequantizeLinear", "c one zero", "e"),
        ("DequantizeLinear", "threes one zero", "f"),
        ("MatMul", "e f", "g"),
        ("QuantizeLinear", "g one zero", "d"),
        ("DequantizeLinear", "d one zero", "h"),
        ("DequantizeLinear", "twos one zero", "i"),
        ("MatMul", "h i", "j"),
        ("QuantizeLinear", "j one zero", "y"),
    )
    consts = {
        "one": np.float32(1),
        "half": np.float32(0.5),
        "zero": S8(0),
        "threes": np.full((5, 4), 3, S8),
        "twos": np.full((4, 2), 2, S8),
    }
    nodes = [helper.make_node(op, i.split(), [o]) for op, i, o in rows]
    ends = [helper.make_tensor_value_info(n, TensorProto.INT8, s) for n, s in ENDS.items()]
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in consts.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))


ENDS = {"x": [3, 5], "y": [3, 2]}


def test_verify_explains_how_one_rounding_becomes_many(tmp_path: Path) -> None:
    two_products(tmp_path / "m.onnx")
    out, inputs = tmp_path / "out", tmp_path / "inputs.npz"
    np.savez(inputs, x=np.array([[1, -2, 3, -4, 0], [2, 0, 1, 1, -2], [0, 0, 2, -1, 1]], S8))
    command = [sys.executable, "-m", "aot", tmp_path / "m.onnx", "-o", out, "-q"]
    subprocess.run(command, check=True)
    good = built_and_verified(out, inputs)
    assert good.passed and good.outputs[0].max_abs == 0
    assert good.growth == () and "end to end the difference" not in good.text()
    # One tie of the first layer rounds the other way: one step, which the gate of layers allows.
    source = next((out / "bundle" / "src" / "kernels").glob("aot_qtable.h"))
    text = source.read_text()
    moved = text.replace("entry[from[i]];", "(uint8_t)(entry[from[i]] + (i == 7 ? 1U : 0U));")
    assert moved != text
    source.write_text(moved)
    told = built_and_verified(out, inputs)
    assert told.passed
    assert told.text().splitlines()[-6:-1] == [
        "end to end the difference begins in c (Mul):"
        " 1 of 15 quantised values differ (6.667 %), by at most 1",
        *(f"  it grows in {line}, by at most {n}" for line, n in GROWING),
        "  it reaches y (end to end, no gate): max abs 24",
        "  layers that differ when fed the reference's values: 1 of 3",
    ]
    (growth,) = told.record()["growth"]
    assert (growth["first"], growth["grows_most"]) == ("c", ["d", "y"])
    keys = ("value", "size", "different", "largest", "alone", "before")
    assert [tuple(s[k] for k in keys) for s in growth["layers"]] == [
        ("c", 15, 1, 1, 1, ()),
        ("d", 12, 4, 3, 0, ("c",)),
        ("y", 6, 2, 24, 0, ("d",)),
    ]


def built_and_verified(out: Path, inputs: Path) -> Report:
    subprocess.run(["cmake", "--build", out], check=True, capture_output=True)
    return verify(open_out(out), Request(inputs, "onnx"), lambda doing: None)


GROWING = (
    ("d (MatMul): 4 of 12 quantised values differ (33.333 %)", 3),
    ("y (MatMul): 2 of 6 quantised values differ (33.333 %)", 24),
)


def call(value: str, *makers: int) -> dict:
    return {"op": "Conv", "writes": [{"value": value}], "reads": [{"calls": list(makers)}]}


def test_a_difference_passes_floats_and_ends_where_values_are_equal(tmp_path: Path) -> None:
    """a -> (float) -> b -> c, d alone: a and d differ by themselves, and c is equal again."""
    nodes = [call("same"), call("a"), call("float", 1), call("b", 2), call("c", 3), call("d", 4)]
    ours = {"same": [5, 6], "a": [1, 0], "b": [253, 2], "c": [7, 7], "d": [0, 1]}
    theirs = {"same": [5, 6], "a": [0, 0], "b": [255, 0], "c": [7, 7], "d": [0, 0]}
    values, index = {}, []
    for i, node in enumerate(nodes):
        name = node["writes"][0]["value"]
        offset = 128 if name == "b" else 0  # stored as int8, and uint8 in the model
        if name == "float":
            continue
        values[i, 0] = Written(name, (2,), "int8", PLAIN, offset)
        (tmp_path / f"{i}.bin").write_bytes((np.array(ours[name]) - offset).astype(S8).tobytes())
        index.append(json.dumps({"call": i, "k": 0, "file": f"{i}.bin"}))
    (tmp_path / "index.jsonl").write_text("\n".join(index))
    arrays = {n: np.array(v, np.uint8 if n == "b" else S8) for n, v in theirs.items()}
    steps = grown(nodes, values, tmp_path, arrays, {"a": 1.0, "d": 1.0})
    assert [(s.value, s.different, s.largest, s.alone, s.before) for s in steps] == [
        ("a", 1, 1, 1, ()),
        ("b", 2, 2, 0, ("a",)),
        ("c", 0, 0, 0, ("b",)),
        ("d", 1, 1, 1, ()),
    ]
    growth = Growth("s0", steps, (Difference("y", 1.0, 1, 1.0, "1 of 2 differ"),))
    assert [s.value for s in growth.most()] == ["b"]  # c shrinks, d begins anew


def chain(label: str, *largest: int) -> Growth:
    """Layers l0, l1 … of which one of 8 quantised values is off by so much."""
    steps = [
        Step(f"l{i}", "Conv", 8, 1, n, 0, (f"l{i - 1}",) if i else ())
        for i, n in enumerate(largest)
    ]
    return Growth(label, tuple(steps), ())


def test_the_text_has_the_worst_sample_and_the_layers_of_the_largest_growth() -> None:
    lines = explained([chain("s0", 1, 2), chain("s1", 1, 2, 4, 3, 9, 8, 20)]).splitlines()
    assert lines[0].startswith("sample s1: end to end the difference begins in l0 (Conv): 1 of 8")
    assert [line.split()[3] for line in lines if "it grows in" in line] == ["l2", "l4", "l6"]
    assert lines[-1] == "  other samples that differ, too: 1 (--json shows them)"
    every = chain("", 1, 2, 4, 3, 9, 8, 20).text(verbose=True).splitlines()
    assert [line.split()[:2] for line in every[1:4]] == [
        ["then", "in"],
        ["it", "grows"],
        ["then", "in"],
    ]
    assert len(chain("s2", *range(1, 9)).most()) == SHOWN
    alone = explained([chain("", 1, 2)]).splitlines()
    assert alone[-2:] == [
        "  layers that differ when fed the reference's values: 0 of 2",
        "  the layer in which it begins does not: floats before it are rounded another way",
    ]
