# SPDX-License-Identifier: Apache-2.0
"""Models of NNSmith's, for models.py; run by a Python that has `nnsmith[onnx]` (0.1.0) and torch.

python tests/fuzz/from_nnsmith.py FIRST END FOLDER
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import torch

# What NNSmith writes it for: the exporter that follows one execution.
torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)

from nnsmith.abstract.extension import activate_ext  # noqa: E402
from nnsmith.graph_gen import model_gen  # noqa: E402
from nnsmith.materialize import Model, TestCase  # noqa: E402
from nnsmith.narrow_spec import auto_opset  # noqa: E402

NODES, ELEMENTS, MILLISECONDS = 8, 4096, 10000


def main(first: int, end: int, folder: Path) -> None:
    """Write the models of seeds first..end-1; those it cannot make are said."""
    torch.set_num_threads(1)
    kind = Model.init("onnx", backend_target="cpu")
    kind.add_seed_setter()
    operators = auto_opset(kind, None, vulops=False)
    activate_ext(opset=operators, factory=None)
    for seed in range(first, end):
        try:
            drawn = model_gen(
                opset=operators,
                method="symbolic-cinit",
                seed=seed,
                max_elem_per_tensor=ELEMENTS,
                max_nodes=NODES,
                timeout_ms=MILLISECONDS,
            )
            model = kind.from_gir(drawn.make_concrete())
            model.refine_weights()
            (folder / str(seed)).mkdir(parents=True, exist_ok=True)
            TestCase(model, model.make_oracle()).dump(root_folder=str(folder / str(seed)))
        except Exception as error:
            print(f"{seed}: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
