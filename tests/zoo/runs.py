# SPDX-License-Identifier: Apache-2.0
"""Whether onnxruntime runs a model of the zoo on its maker's inputs: `python runs.py FOLDER` fails
if it does not. It succeeds without a run where the maker gave no inputs: nothing is proven then."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime


def main() -> None:
    folder = Path(sys.argv[1])
    inputs = folder / "inputs.npz"
    if inputs.exists():
        session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
        names = {i.name for i in session.get_inputs()}
        session.run(None, {k: v for k, v in np.load(inputs).items() if k in names})


if __name__ == "__main__":
    main()
