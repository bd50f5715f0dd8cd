# SPDX-License-Identifier: Apache-2.0
"""Whether onnxruntime runs a model of the zoo: `python runs.py FOLDER` fails if it does not.

The inputs are the maker's, else random ones; without the maker's, it succeeds without a run for a
model with open dimensions, about which nothing is proven then.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime

TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def main() -> None:
    folder = Path(sys.argv[1])
    inputs = folder / "inputs.npz"
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    wanted = session.get_inputs()
    if inputs.exists():
        names = {i.name for i in wanted}
        session.run(None, {k: v for k, v in np.load(inputs).items() if k in names})
    elif all(i.type in TYPES and all(isinstance(d, int) for d in i.shape) for i in wanted):
        rng = np.random.default_rng(0)
        given = {i.name: rng.random(i.shape).astype(TYPES[i.type]) for i in wanted}
        session.run(None, given)


if __name__ == "__main__":
    main()
