# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md, written from the declarations: `python -m aot.cli.ops_page`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aot.tools.explain import operators

_HEAD = """\
# Operators

Written by `make docs` from the declarations in `aot/ops/`; do not edit.

What portable C computes after normalisation, which rewrites many more: operators that ONNX defines
by others are expanded, constants are folded, sequences of nodes that spell a normalisation or an
activation are recognised. Operators whose result is as long as the data say (NonZero, Compress,
Unique, NonMaxSuppression, Range …) have [a page of their own](dynamic.md). *Types* are those of the
first input that tests cover;
`aotc explain MODEL` says for your model who computes which node, or why nobody does.

Where ONNX leaves a choice, every target makes the same one. A float outside an integer's range
becomes its nearest end and NaN becomes 0; onnxruntime gives what its processor does (on x86 the
least integer, and narrow integers wrap). Floats become int4 and uint4 as onnx.reference has it,
towards zero and then the low four bits; onnxruntime rounds them to even first.
"""


def page() -> str:
    """The whole page."""

    rows = operators()
    table = ["| operator | types tested | attributes |", "|---|---|---|"]
    table += [_row(r) for r in rows]
    return "\n".join([_HEAD, *table, "", f"{len(rows)} operators.", ""])


def _row(row: dict[str, Any]) -> str:
    attributes = ", ".join(f"`{a}`" for a in row["attributes"])
    return f"| {row['op']} | {', '.join(row['dtypes'])} | {attributes} |"


if __name__ == "__main__":
    (Path(__file__).parents[2] / "docs" / "operators.md").write_text(page(), encoding="utf-8")
