# SPDX-License-Identifier: Apache-2.0
"""One hostile file: how it is made, what aotc may do with it; helpers that all families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto as T, helper, numpy_helper

Expect = Literal["ok", "refuse", "either"]
Make = Callable[[Path], "Path | str"]
OPSET = 21


@dataclass(frozen=True, slots=True)
class Case:
    """`make` writes the model and its companions into a folder and returns the path to compile.

    `expect` is what the only right answer is; "either" where a correct bundle and a refusal are
    both right. `configure` runs CMake as well; `options` follow the model on the command line.
    A bundle that is `endless` would run for years: it is built, not run. `words` is a command line
    of its own, in which {model} stands for the path; it may end with code 2 too.
    """

    family: str
    name: str
    make: Make
    expect: Expect = "either"
    options: tuple[str, ...] = ()
    configure: bool = False
    endless: bool = False
    words: tuple[str, ...] = ()


def saved(proto: onnx.ModelProto, name: str = "model.onnx") -> Make:
    """A Make that writes `proto`."""

    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(proto.SerializeToString())
        return path

    return write


def lazily(build: Callable[[], onnx.ModelProto]) -> Make:
    """A Make that builds its model only when it runs (big ones)."""
    return lambda folder: saved(build())(folder)


def node(op: str, ins: str, outs: str, **attributes: object) -> onnx.NodeProto:
    """A node from blank-separated names; "-" stands for an omitted one."""
    names = [["" if n == "-" else n for n in text.split()] for text in (ins, outs)]
    domain, _, kind = op.rpartition(".")
    return helper.make_node(kind, *names, domain=domain, name=f"{kind}_{outs[:20]}", **attributes)


def info(name: str, shape: Sequence[int | str] | None, dtype: int = T.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def net(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    consts: Mapping[str, object] | None = None,
    opset: int = OPSET,
    **more: object,
) -> onnx.ModelProto:
    """A model; constants are arrays, lists (int64) or TensorProtos."""
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs))
    for name, value in (consts or {}).items():
        if not isinstance(value, T):
            array = value if isinstance(value, np.ndarray) else np.array(value, np.int64)
            value = numpy_helper.from_array(array, name)
        graph.initializer.append(value)
    imports = [helper.make_opsetid("", opset), *more.pop("imports", [])]  # type: ignore[misc]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, **more)


def seeds() -> dict[str, onnx.ModelProto]:
    """Small valid models that together hold most fields of the format."""
    rng = np.random.default_rng(7)

    def f32(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    found = {
        "conv": net(
            [
                node("Conv", "x w b", "c", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
                node("Relu", "c", "r"),
                node("GlobalAveragePool", "r", "p"),
                node("Flatten", "p", "f"),
                node("Gemm", "f w2 b2", "y", transB=1),
            ],
            [info("x", (1, 2, 6, 6))],
            [info("y", (1, 3))],
            {"w": f32(4, 2, 3, 3), "b": f32(4), "w2": f32(3, 4), "b2": f32(3)},
        ),
        "quantised": net(
            [
                node("DequantizeLinear", "x s z", "a"),
                node("DequantizeLinear", "w ws wz", "b", axis=0),
                node("MatMul", "a b", "m"),
                node("QuantizeLinear", "m s2 z2", "y"),
            ],
            [info("x", (2, 4), T.INT8)],
            [info("y", (2, 4), T.INT8)],
            {
                "s": np.array(0.1, np.float32),
                "z": np.array(3, np.int8),
                "w": rng.integers(-9, 9, (4, 4)).astype(np.int8),
                "ws": np.full(4, 0.05, np.float32),
                "wz": np.zeros(4, np.int8),
                "s2": np.array(0.2, np.float32),
                "z2": np.array(-1, np.int8),
            },
        ),
        "shapes": net(
            [
                node("Shape", "x", "s"),
                node("Gather", "s i", "n", axis=0),
                node("Concat", "n m", "t", axis=0),
                node("Reshape", "x t", "r"),
                node("Transpose", "r", "q", perm=[1, 0]),
                node("Slice", "q st en ax", "y"),
            ],
            [info("x", (2, 3, 4))],
            [info("y", None)],
            {"i": [0], "m": [-1], "st": [1], "en": [9], "ax": [0]},
        ),
        "choice": choice(),
        "local": local(),
        "text": net(
            [node("Softmax", "x", "a", axis=-1), node("TopK", "a k", "v i", axis=1)],
            [info("x", (2, 5))],
            [info("v", (2, 2)), info("i", (2, 2), T.INT64)],
            {"k": [2]},
            producer_name="a tool",
            doc_string="words",
        ),
    }
    found["text"].metadata_props.add(key="author", value="somebody")
    found["text"].graph.node[0].doc_string = "a soft maximum"
    return found


def choice() -> onnx.ModelProto:
    """An If whose branches read the outer graph."""
    body = [
        helper.make_graph([node(op, "x", "r")], name, [], [info("r", (2, 3))])
        for op, name in (("Relu", "yes"), ("Neg", "no"))
    ]
    return net(
        [node("If", "c", "y", then_branch=body[0], else_branch=body[1])],
        [info("x", (2, 3)), info("c", (), T.BOOL)],
        [info("y", (2, 3))],
    )


def function(
    name: str, nodes: Sequence[onnx.NodeProto], domain: str = "own", out: str = "b"
) -> onnx.FunctionProto:
    """A function own::NAME of one input a and one output."""
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("own", 1)]
    return helper.make_function(domain, name, ["a"], [out], list(nodes), imports)


def local() -> onnx.ModelProto:
    """A call to a function of the model's."""
    body = function("Twice", [node("Add", "a a", "t"), node("Tanh", "t", "b")])
    return with_functions([node("own.Twice", "x", "y")], [body])


def with_functions(
    nodes: Sequence[onnx.NodeProto], functions: Sequence[onnx.FunctionProto]
) -> onnx.ModelProto:
    """x [2] → y [2] with functions of the domain own."""
    imports = [helper.make_opsetid("own", 1)]
    return net(
        nodes, [info("x", (2,))], [info("y", (2,))], imports=imports, functions=list(functions)
    )
