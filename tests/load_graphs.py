# SPDX-License-Identifier: Apache-2.0
"""Models for tests of the loader, and what a refusal must say."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T, helper, numpy_helper

from aot.errors import ModelError
from aot.load import load
from aot.normalise import normalise

OPSET = onnx.defs.onnx_opset_version()


def node(*args, **attributes):
    return helper.make_node(*args, **attributes)


def info(name, shape, dtype=T.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, constants=None, opset=OPSET, **more):
    tensors = [
        v if isinstance(v, T) else numpy_helper.from_array(np.asarray(v), k)
        for k, v in (constants or {}).items()
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    imports = [helper.make_opsetid("", opset), *more.pop("imports", [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, **more)


def relu(shape=(2, 3)):
    return model([node("Relu", ["x"], ["y"])], [info("x", shape)], [info("y", shape)])


def refused(source, *parts, kind=ModelError, options=None):
    """Load (and normalise) must fail with a short message that holds every one of `parts`."""
    with pytest.raises(kind) as caught:
        normalise(load(source, options), options)
    text = str(caught.value)
    for part in parts:
        assert part in text, text
    assert len(text) <= 2000 and len(text.splitlines()) <= 8
    assert all(c.isprintable() or c == "\n" for c in text)
    return text


# Files
