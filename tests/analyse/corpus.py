# SPDX-License-Identifier: Apache-2.0
"""The bundles that are analysed: operator cases joined to a few models, and small whole networks.

Every header of runtime_c/kernels must be in one of them (`unreached`).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import compose, helper

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "ops")]

from harness import collect  # noqa: E402

from analyse.networks import NETWORKS, network  # noqa: E402
from aot.emit_c.write import write_bundle  # noqa: E402
from aot.options import Accuracy, Options, Requant  # noqa: E402
from aot.pipeline import compile_model  # noqa: E402

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
#: Cases of an operator, and the models they are dealt to.
FIRST, PARTS = 1, 10
#: Their kernels differ with the instruction set: analysed for every one that has its own.
BOARDS = ("cortex-m4", "cortex-m55", "rv32imac")
INTEGER = (
    *("qconv", "qconv_add", "qconv_sum", "qconv_act", "qdense", "qdense_sum", "qdense_act"),
    *("qadd", "qmul", "qsoftmax"),
)


#: Networks that bring no file of their own to what is emitted: only their calls of kernels.
JOINED = ("control", "blocks", "shorts")


@dataclass(frozen=True, slots=True)
class Unit:
    """A model to emit for a target, and how."""

    name: str
    model: onnx.ModelProto
    target: str
    accuracy: Accuracy = "normal"
    joined: bool = False
    requant: Requant = "onnx"

    def emit(self, folder: Path) -> Path:
        """Write the bundle; its folder."""
        options = Options(
            name=self.name, target=self.target, accuracy=self.accuracy, requant=self.requant
        )
        place = folder / self.name
        shutil.rmtree(place, ignore_errors=True)
        write_bundle(compile_model(self.model, options).files, place)
        return place / "bundle"


def join(models: Iterable[onnx.ModelProto]) -> onnx.ModelProto:
    """One model that computes all of them, each with names of its own."""
    graph = onnx.GraphProto(name="joined")
    opsets: dict[str, int] = {}
    for i, model in enumerate(models):
        own = compose.add_prefix(model, f"m{i}_").graph
        graph.node.extend(own.node)
        graph.input.extend(own.input)
        graph.output.extend(own.output)
        graph.initializer.extend(own.initializer)
        opsets |= {o.domain: o.version for o in model.opset_import}
    imports = [helper.make_opsetid(d, v) for d, v in sorted(opsets.items())]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def cases() -> dict[str, list[onnx.ModelProto]]:
    """Models of the cases of every operator and fused pattern by name.

    The first ones, and every other whose types or constants are new: those choose the kernel.
    Types of 16 bits call the kernels of float32: one case is enough.
    """
    found: dict[str, list[onnx.ModelProto]] = {}
    seen = set()
    for job in collect():
        name = job.label.split("[")[0]
        kept = found.setdefault(name, [])
        if job.model is None or (kept and name.endswith(".half")):
            continue
        kinds = tuple(v.type.tensor_type.elem_type for v in job.model.graph.input)
        constants = tuple(c.name for c in job.model.graph.initializer)
        if len(kept) < FIRST or (name, kinds, constants) not in seen:
            kept.append(job.model)
        seen.add((name, kinds, constants))
    return found


def units() -> Iterator[Unit]:
    """What is analysed, in a fixed order."""
    yield Unit("digits", onnx.load(DIGITS), "x86-64-v3")
    for name in NETWORKS:
        yield Unit(name, network(name), "x86-64-v3", joined=name in JOINED)
    for accuracy in ("strict", "fast"):
        yield Unit(f"blocks_{accuracy}", network("blocks"), "x86-64", accuracy, joined=True)
    by_name = cases()
    every = [m for name in by_name for m in by_name[name]]
    for i in range(PARTS):
        share = every[len(every) * i // PARTS : len(every) * (i + 1) // PARTS]
        yield Unit(f"part{i}", join(share), "x86-64-v3", joined=True)
    fixed = join([network("quantised"), network("shorts")])
    for target in ("x86-64-v3", "cortex-m4"):
        name = f"tflite_{target.replace('-', '_')}"
        yield Unit(name, fixed, target, joined=True, requant="tflite")
    integer = [m for name in by_name if name in INTEGER for m in by_name[name]]
    for target in BOARDS:
        yield Unit(f"quantised_{target.replace('-', '_')}", network("quantised"), target)
        yield Unit(f"cases_{target.replace('-', '_')}", join(integer), target, joined=True)


def unreached(bundles: Iterable[Path]) -> list[str]:
    """Headers of runtime_c/kernels that are in none of the bundles."""
    found = {p.name for b in bundles for p in (b / "src" / "kernels").glob("*.h")}
    return sorted({p.name for p in (ROOT / "runtime_c" / "kernels").glob("*.h")} - found)
