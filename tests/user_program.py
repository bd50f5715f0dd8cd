# SPDX-License-Identifier: Apache-2.0
"""A user's program, which `mypy --strict` accepts (tests/test_typed.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import aot


def predict(model: Path, image: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    bundle = aot.compile(model, "out", target="host", accuracy="strict", dims={"N": (1, 4)})
    bundle.build(jobs=2)
    net = bundle.load()
    results = net.run(image)
    results |= net.run(image=image)
    net(image, out=results["probabilities"])
    arena: int = bundle.manifest["memory"]["arena_bytes"]
    print(bundle.out / "bundle", arena)
    return results["probabilities"].astype(np.float32)


if __name__ == "__main__":
    print(predict(Path(sys.argv[1]), np.zeros((1, 1, 8, 8), np.float32)).argmax())
