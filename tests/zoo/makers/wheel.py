# SPDX-License-Identifier: Apache-2.0
"""Models that lie in the wheels of packages."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx


def member(
    name: str, folder: Path, packages: Sequence[str], file: str, inputs: Mapping[str, Any] = {}
) -> None:  # fmt: skip
    """The file `file` of the first package; inputs.npz if `inputs` says shapes of its inputs.

    `inputs` has a list per input: its shape, then for integers [low, high) as a list of two.
    """
    source = Path(packages[0]) / file
    shutil.copy(source, folder / "model.onnx")
    for beside in source.parent.glob(f"{source.name}?data*"):
        shutil.copy(beside, folder)
    if inputs:
        model = onnx.load(source, load_external_data=False)
        rng = np.random.default_rng(5)
        types = {v.name: v.type.tensor_type.elem_type for v in model.graph.input}
        arrays = {k: _array(rng, types[k], v) for k, v in inputs.items()}
        np.savez(folder / "inputs.npz", **arrays)


def _array(rng: np.random.Generator, element: int, said: list[Any]) -> np.ndarray[Any, Any]:
    *shape, limits = said if said and isinstance(said[-1], list) else [*said, [0, 2]]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    if dtype.kind == "f":
        return np.asarray(rng.normal(size=shape)).astype(dtype)
    return np.asarray(rng.integers(*limits, size=shape)).astype(dtype)
