# SPDX-License-Identifier: Apache-2.0
"""Models of other generators: every .onnx file below a folder on random inputs, two oracles.

    python tests/fuzz/models.py FOLDER [--seed S] [--configs C,C…]

NNSmith's, for one, made in an environment of its own (`pip install nnsmith[onnx]`):

    python tests/fuzz/from_nnsmith.py 0 200 FOLDER
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE.parent / "ops")]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import helper  # noqa: E402

from fuzz.check import DEFECTS, check, configs_of  # noqa: E402
from fuzz.draft import Draft  # noqa: E402
from fuzz.generate import Model  # noqa: E402
from fuzz.kernel_cache import Cache  # noqa: E402


def models(folder: Path, seed: int) -> Iterator[tuple[Path, Model]]:
    """The models below a folder, each with inputs drawn by its place and `seed`."""
    for k, path in enumerate(sorted(folder.rglob("*.onnx"))):
        proto = onnx.load(path)
        d = Draft(np.random.default_rng([seed, k]))
        held = {t.name for t in proto.graph.initializer}
        feeds = {}
        for i in proto.graph.input:
            if i.name not in held:
                kind = helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
                shape = [x.dim_value for x in i.type.tensor_type.shape.dim]
                feeds[i.name] = d.array(shape, kind)
        yield path, Model(seed + k, proto, feeds)


def main() -> int:
    """Compare every model; exit code 1 if any shows a defect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--configs", default="base")
    parser.add_argument("--cache", default=str(Path(tempfile.gettempdir()) / "aotc-fuzz"))
    args = parser.parse_args()
    store = Cache(Path(args.cache) / "kernels")
    names = tuple(args.configs.split(","))
    found = list(models(args.folder, args.seed))
    paths = {id(m): p for p, m in found}
    pairs = [(m, c) for _, m in found for c in configs_of(m, names)]
    counts: Counter[str] = Counter()
    for o in check(pairs, store, Path(args.cache) / f"models{os.getpid()}"):
        counts[o.result] += 1
        if o.result in DEFECTS or o.result in ("refused", "none", "ambiguous"):
            print(f"{paths[id(o.model)]}: {o.text}")
    print(f"{len(found)} models: {dict(counts)}")
    return 1 if any(counts[d] for d in DEFECTS) else 0


if __name__ == "__main__":
    sys.exit(main())
