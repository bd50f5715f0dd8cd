# SPDX-License-Identifier: Apache-2.0
"""What the report reads beside the manifest: C, sizes of a build, budgets, measurements."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from aot import textfile
from aot.errors import AotError, BuildError, shell_word
from aot.tools.build import RECORD, read_json
from aot.tools.record import options_of, refuse_changed
from aot.tools.run import Built
from aot.tools.size import measure, planned
from aot.tools.symbols import calls_in_c, node_sizes, symbols_of
from aot.vendor.accel_sim.performance import programs


def manifest_and_more(built: Built, bench: str = "") -> dict[str, Any]:
    """The manifest with the keys that `page` knows of besides; `bench` is a file of `aotc bench`.

    Raises AotError for a file that is damaged, or of another bundle.
    """
    refuse_changed(built.out)
    return {
        **built.manifest,
        "accelerator": programs(built.out / "bundle"),
        "lines": calls_in_c(built),
        "measured": _measured(Path(bench), built) if bench else {},
        **_sizes(built),
    }


def _sizes(built: Built) -> dict[str, Any]:
    """Bytes of code of every call where OUT is built, and what the bundle needs of each budget."""
    record, size, code = built.out / RECORD, planned(built.manifest), list[int]()
    recorded = (
        options_of(read_json(record, "record of a compilation")) if record.is_file() else None
    )
    # Where OUT is not built, or a board's image does not link, code has no size yet.
    lacking = built.board or not (built.out / "lib" / f"lib{built.name}.a").is_file()
    with contextlib.suppress(*[BuildError][:lacking]):
        size, nodes = measure(built), node_sizes(built, symbols_of(built))
        # Calls that share a function share its bytes.
        code = [n.code // max(1, n.sharers) for n in nodes]
    # No bound of the stack is declared where a vendor's code has no figure.
    needs = {"RAM": size.ram, "flash": size.constants + size.code, "stack": size.stack.declared}
    budgets = [(kind, n, getattr(recorded, kind.lower(), None)) for kind, n in needs.items()]
    return {"code": code, "budgets": budgets}


def _measured(path: Path, built: Built) -> dict[str, Any]:
    """What `aotc bench OUT --per-node --json F` wrote of this bundle."""
    found = textfile.read_json(path, "measurement")
    calls = [n["kernel"] for n in built.manifest["nodes"]]
    try:
        same = found["name"] == built.name and [n["kernel"] for n in found["nodes"]] == calls
        if same and all(0 <= n["amount"] < float("inf") for n in found["nodes"]):
            return dict(found)
    except (KeyError, TypeError):
        pass
    words = f"`aotc bench {shell_word(built.out)} --per-node --json {shell_word(path)}`"
    raise AotError(
        f"{path} does not hold the costs of this bundle's calls", hint=f"{words} measures them"
    )
