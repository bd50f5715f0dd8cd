# SPDX-License-Identifier: Apache-2.0
"""How far a bundle and onnxruntime lie from the model in float64: `python precise.py FOLDER OUT`.

FOLDER holds a model of the zoo (and inputs.npz, or random inputs are made), OUT its built bundle.
onnx.reference computes the model with every float32 as float64. One line per output gives the
largest errors relative to the largest element. The status is 0 if the model is ill-posed: on some
output onnxruntime errs by more than 1e-3, so that float32 does not decide its results, and on no
output the bundle errs by more than twice as much as onnxruntime or the 1e-4 of `aotc verify`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from aot.tools.reference import OnnxReference, saved
from aot.tools.run import open_out, stream
from aot.tools.unrounded import SINGLE, widen

Arrays = list[np.ndarray[Any, Any]]
UNDECIDED, ALIKE, EXACT = 1e-3, 2.0, 1e-4


def main() -> int:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    built, path = open_out(out), folder / "model.onnx"
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {
        s.name: rng.random(s.shape).astype(s.array_dtype) for s in built.inputs
    }
    if (folder / "inputs.npz").exists():
        given = {k: v for k, v in np.load(folder / "inputs.npz").items() if k in given}
    names = [s.name for s in built.outputs]
    (ours,) = stream(built, [[given[s.name] for s in built.inputs]])
    theirs: Arrays = onnxruntime.InferenceSession(str(path)).run(names, given)
    model = onnx.load(path)
    widen(model, SINGLE)
    wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in given.items()}
    with tempfile.TemporaryDirectory() as place:
        truth = OnnxReference(saved(model, Path(place)), [])(wide, names)
    posed = True
    for (name, true), a, b in zip(truth.items(), ours, theirs, strict=True):
        most = np.abs(true).max()
        own, other = (float(np.abs(x - true).max() / most) for x in (a, b))
        print(f"{name}: from float64 onnxruntime {other:.2g}, aotc {own:.2g}")
        posed = posed and other <= UNDECIDED
        if own > max(ALIKE * other, EXACT):
            return 1
    return int(posed)


if __name__ == "__main__":
    sys.exit(main())
