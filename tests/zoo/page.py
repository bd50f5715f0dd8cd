# SPDX-License-Identifier: Apache-2.0
"""docs/zoo.md: the table that the runner of the zoo writes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rows import Row

HEAD = """# Models that were tried

`make zoo` writes this page. Each model of `tests/zoo/lists` is taken from a package or made on the
spot with random weights, compiled with no option but its dimensions, built, run and compared with
onnxruntime by the tolerances of `aotc verify`. Failures stay listed; no fetched file is part of the
project. {tried} of the {all} rows were tried again by the last run, the others keep the result that
they had. *Made by* names the package and its version, then the options of the maker in
`tests/zoo/makers`, whose source explains them.
*Dimensions* are the options `--dim` and `--input-shape`, *reason* is one line of the message.

- **right**: every output agrees with onnxruntime or, where onnxruntime lies farther from it than
  aotc, with the model computed in float64 ([oracles.md](oracles.md)); the reason then says so.
  **wrong**: an output does not.
- **ill-posed**: an output does not agree, but float32 does not decide its value: onnxruntime lies
  further than 1e-3 of the largest element from the model computed in float64, and aotc no more than
  twice as far.
- **refused**: aotc names a [reason](refused.md). **invalid**: aotc names a reason, and onnxruntime
  cannot run the model either.
- **crash**: the model or its bundle failed in another way.
- **compiled**: the model was compiled, but not built and run yet.
- **not made**: the package or its exporter failed, so that there is no model.
- **not tried**: no run has come to it.
"""
KINDS = (
    "right",
    "wrong",
    "ill-posed",
    "refused",
    "invalid",
    "crash",
    "compiled",
    "not made",
    "not tried",
)
_LINE = re.compile(r"\| (\S+) \| [^|]* \| [^|]* \| ([a-z -]+) \| ((?:[^|\\]|\\.)*) \|")


def write_page(path: Path, rows: Sequence[Row], results: Mapping[str, tuple[str, str]]) -> None:
    """Write the page for `rows`; `results` are kind and message by name."""
    known = _kept(path) | dict(results)
    kinds = {r.name: known.get(r.name, ("not tried", "")) for r in rows}
    tried = sum(r.name in results for r in rows)
    head = HEAD.replace("{tried}", str(tried)).replace("{all}", str(len(rows)))
    parts = [head, _summary(rows, kinds)]
    for family in dict.fromkeys(r.family for r in rows):
        parts.append(f"\n## {family}\n\n| model | made by | dimensions | result | reason |")
        parts.append("|---|---|---|---|---|")
        for row in (r for r in rows if r.family == family):
            kind, message = kinds[row.name]
            cells = (row.name, _cell(row.origin), " ".join(row.dims), kind, _cell(message))
            parts.append(f"| {' | '.join(cells)} |")
    path.write_text("\n".join(parts) + "\n")


def _kept(path: Path) -> dict[str, tuple[str, str]]:
    """Results that stand on the page already."""
    if not path.exists():
        return {}
    found = (_LINE.fullmatch(s) for s in path.read_text().splitlines())
    return {m[1]: (m[2], m[3].replace("\\|", "|")) for m in found if m and m[2] in KINDS}


def _cell(text: str) -> str:
    """Text for a cell of a table; folders of the machine at hand are left out."""
    return re.sub(r"(?<![\w.])/\S*/", "", text).replace("|", "\\|").replace("<", "&lt;")


def _summary(rows: Sequence[Row], kinds: Mapping[str, tuple[str, str]]) -> str:
    families: dict[str, Counter[str]] = {}
    for row in rows:
        families.setdefault(row.family, Counter())[kinds[row.name][0]] += 1
    lines = [f"| family | models | {' | '.join(KINDS)} |", f"|{'---|' * (len(KINDS) + 2)}"]
    for family, count in families.items():
        lines.append(_counts(family, count))
    lines.append(_counts("**all**", sum(families.values(), Counter())))
    return "\n".join(lines)


def _counts(name: str, count: Counter[str]) -> str:
    return f"| {name} | {count.total()} | {' | '.join(str(count[k]) for k in KINDS)} |"
