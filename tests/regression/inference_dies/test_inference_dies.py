# SPDX-License-Identifier: Apache-2.0
"""onnx's C++ does not survive some damaged models; aotc went with it.

Behind a node that its inference refuses it goes on, and some operators read the type of an input
that has none. Its conversion between opsets infers, too.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import onnx
import pytest
from onnx import TensorProto, helper

from aot.errors import ModelError
from aot.ir.onnx_subprocess import (
    DEATHS,
    Child,
    ProcessDied,
    first_refused,
    infer_shapes,
    run_isolated,
)
from aot.load import LoadOptions, load
from aot.shapes import infer

EYE = ("", "EyeLike", {"dtype": 1})
ENCODER = ("ai.onnx.ml", "LabelEncoder", {"keys_strings": ["x"], "values_strings": ["y"]})


def behind_a_bad_conv(which: tuple[str, str, dict], opset: int) -> onnx.ModelProto:
    """An operator whose input is the result of a Conv that onnx's inference refuses."""
    domain, op, attrs = which
    nodes = [
        helper.make_node("Conv", ["x", "x"], ["v"], strides=[0, 0]),
        helper.make_node(op, ["v"], ["y"], domain=domain, **attrs),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 2)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets)


@pytest.mark.parametrize("opset", [17, 21, onnx.defs.onnx_opset_version()])
@pytest.mark.parametrize("which", [EYE, ENCODER], ids=["EyeLike", "LabelEncoder"])
def test_the_node_that_is_wrong_is_named(which: tuple[str, str, dict], opset: int) -> None:
    model = behind_a_bad_conv(which, opset)
    with pytest.raises(ModelError, match='the Conv that computes "v": Attribute strides has'):
        load(model)


def test_one_of_them_dies() -> None:
    """Else there is nothing to guard against any more."""
    with pytest.raises(ProcessDied, match="ends with SIG"):
        infer_shapes(behind_a_bad_conv(EYE, 21), strict_mode=True)
    found = first_refused(behind_a_bad_conv(EYE, 21))
    assert found is not None
    assert found[0] == 0


@pytest.mark.parametrize("opset", [17, onnx.defs.onnx_opset_version()])
@pytest.mark.parametrize("axis", [1 << 31, (1 << 63) - 1])
def test_an_axis_beyond_32_bits(axis: int, opset: int) -> None:
    """Inference writes behind its shape."""
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y", "m", "v"], axis=axis)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    s = helper.make_tensor_value_info("s", TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([node], "g", [x, s], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    with pytest.raises(ModelError, match=r'LayerNormalization that computes "y": (onnx|axis)'):
        load(model)


def test_a_scan_of_more_inputs_than_it_has() -> None:
    body = helper.make_graph([], "body", [], [])
    node = helper.make_node("Scan", ["x"], ["y"], num_scan_inputs=1 << 62, body=body)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    graph = helper.make_graph([node], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    with pytest.raises(ModelError, match=f"num_scan_inputs {1 << 62} of 1 inputs"):
        load(model)


# -- a process apart ------------------------------------------------------------------------------


def spins(_model: onnx.ModelProto) -> onnx.ModelProto:
    while True:
        pass


def killed(model: onnx.ModelProto) -> onnx.ModelProto:
    os.kill(os.getpid(), signal.SIGKILL)
    return model


def leaves(_model: onnx.ModelProto) -> onnx.ModelProto:
    os._exit(0)


def raises(_model: onnx.ModelProto) -> onnx.ModelProto:
    raise ValueError("said")


@pytest.mark.parametrize(
    ("work", "error", "says"),
    [
        (spins, ProcessDied, "takes more than 1 s"),
        (killed, ProcessDied, "ends with SIGKILL"),
        (leaves, ProcessDied, "ends with no result"),
        (raises, RuntimeError, "^said$"),
    ],
)
def test_what_becomes_of_work(
    work: Callable[[onnx.ModelProto], onnx.ModelProto], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        run_isolated(work, onnx.ModelProto(), seconds=1)


def test_a_result_comes_back() -> None:
    def named(model: onnx.ModelProto) -> onnx.ModelProto:
        model.producer_name = "child"
        return model

    given = onnx.ModelProto(domain="d")
    made = run_isolated(named, given)
    assert (made.producer_name, made.domain, given.producer_name) == ("child", "d", "")


def dies_of_relu(model: onnx.ModelProto) -> onnx.ModelProto:
    if model.graph.node and model.graph.node[0].op_type == "Relu":
        os.kill(os.getpid(), signal.SIGSEGV)
    return onnx.shape_inference.infer_shapes(model)


def test_a_child_is_replaced_and_given_up() -> None:
    alive, dead = (
        helper.make_model(helper.make_graph([helper.make_node(op, ["x"], ["y"])], op, [], []))
        for op in ("Abs", "Relu")
    )
    with Child(dies_of_relu) as child:
        for _ in range(DEATHS - 1):
            with pytest.raises(ProcessDied, match=r"^ends with SIGSEGV$"):
                child(dead)
            assert child(alive).graph.name == "Abs"
        with pytest.raises(ProcessDied, match=r"^ends with SIGSEGV$"):
            child(dead)
        with pytest.raises(ProcessDied, match=r"^ends with SIGSEGV; it is not tried again$"):
            child(alive)


def test_a_child_has_its_seconds_for_all() -> None:
    with Child(spins, seconds=1) as child:
        with pytest.raises(ProcessDied, match=r"^takes more than 1 s$"):
            child(onnx.ModelProto())
        with pytest.raises(ProcessDied, match="it is not tried again"):
            child(onnx.ModelProto())


def test_nodes_are_inferred_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a run says the shape: then no node is inferred before."""
    monkeypatch.setattr(infer, "strictly", dies_of_relu)
    nodes = [helper.make_node("Neg", ["x"], ["v"]), helper.make_node("Relu", ["v"], ["y"])]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in "xy")
    opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version())]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets)
    with pytest.raises(ModelError, match=r"the Relu .*: onnx's inference ends with SIGSEGV"):
        load(model, LoadOptions(dims={"n": (1, 8)}))
