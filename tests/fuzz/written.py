# SPDX-License-Identifier: Apache-2.0
"""How an operator is written for ReferenceEvaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper
from onnx.reference.op_run import OpRun

Array = np.ndarray[Any, Any]


class Written(OpRun):
    """An operator of ours: `compute` gets the node's attributes and the inputs."""

    op_domain = ""

    def _run(self, *inputs: Any, **_: Any) -> tuple[Array, ...]:
        attrs = {a.name: helper.get_attribute_value(a) for a in self.onnx_node.attribute}
        with np.errstate(all="ignore"):
            return (np.asarray(self.compute(attrs, *inputs)),)

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        """The result."""
        raise TypeError("an operator computes")


def held(total: Array, kind: Any) -> Array:
    """Sums in float64 as arithmetic of a type has them: infinite where the type holds no such."""
    with np.errstate(all="ignore"):
        return np.where(np.abs(total) > np.finfo(kind).max, np.inf * np.sign(total), total)
