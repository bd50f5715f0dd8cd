# SPDX-License-Identifier: Apache-2.0
"""Onnxruntime's own answer to whether it computes a node."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from aot.vendor import BackendError, NodeRef, UnsupportedError, one_line

try:
    import onnxruntime
except ImportError as error:
    what = f"backend ort: {error}"
    raise BackendError(what, hint="pip install onnxruntime") from error

#: The version of onnxruntime's C interface: the second number of its version.
INTERFACE = int(onnxruntime.__version__.split(".")[1])


@lru_cache(64)
def session(model: bytes) -> Any:
    """A session of a model. UnsupportedError says why onnxruntime makes none."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    except Exception as error:
        text = one_line(str(error)).removeprefix("[ONNXRuntimeError] : ")
        raise UnsupportedError(f"onnxruntime {onnxruntime.__version__}: {text}") from error


def computed(node: NodeRef) -> list[np.ndarray[Any, Any]]:
    """The results of a node for inputs that are all zero. UnsupportedError if there are none."""
    model, inputs = node.as_model()
    zeros = {f"i{k}": np.zeros(v.shape, v.dtype.numpy) for k, v in enumerate(inputs)}
    made = session(model)
    try:
        found: list[np.ndarray[Any, Any]] = made.run(None, zeros)
    except Exception as error:
        raise UnsupportedError(f"onnxruntime: {one_line(str(error))}") from error
    return found
