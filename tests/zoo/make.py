# SPDX-License-Identifier: Apache-2.0
"""Make one model of the zoo in a process of its own: `python make.py FOLDER < row as JSON`.

It writes FOLDER/model.onnx (with external data beside it, where the exporter does that) and,
where random inputs are not meaningful, FOLDER/inputs.npz. It imports nothing of aotc, for it
runs in the environment of the row.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "makers"))


def main() -> None:
    row = json.load(sys.stdin)
    module, function = row["maker"].split(":")
    make = getattr(importlib.import_module(module), function)
    make(row["name"], Path(sys.argv[1]), **row["options"])


if __name__ == "__main__":
    main()
