# SPDX-License-Identifier: Apache-2.0
"""The conformance kit of vendors: pytest tests/vendor/test_backend.py --backend NAME[:CONFIG], on
this machine or on the target of --backend-target NAME.

Every case of every operator and random networks go to the vendor. What it takes must be right, in
one bundle with everything else; what it refuses, though it has a pattern for that operator, must
have a reason; and the same bundle must be right without the vendor. That regions are within the
vendor's limits is checked in every compilation. Without --backend the vendor of
examples/vendor_csource is examined, as it is and with limits.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import harness
import merged
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from aot.ir.node_traits import moves_no_byte
from aot.vendor import Limits, find
from aot.vendor.backend import Backend
from aot.vendor.cases import Case
from aot.vendor.pattern import root_ops
from graphs import model

EXAMPLE = Path(__file__).parents[2] / "examples" / "vendor_csource"
UNARY = ("Relu", "Neg", "Abs", "Exp", "Sigmoid", "Tanh")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")
NETWORKS = 30


@pytest.fixture(scope="module", params=["csource", "limited"])
def vendor(request: pytest.FixtureRequest) -> Iterator[Backend]:
    name = request.config.getoption("--backend")
    if name:
        if request.param == "limited":
            pytest.skip("only without --backend: the vendor of this kit that has limits")
        yield find.backends_for([name])[0]
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        import csource

        chosen = csource.backend if request.param == "csource" else limited(csource.backend)
        real = find.find_backend
        patch.setattr(find, "find_backend", lambda n, w="": chosen if n == "csource" else real(n))
        yield chosen


def limited(whole: Backend) -> Backend:
    """The same vendor on a device with two operands and 8 KiB."""
    patterns = [replace(p) for p in whole.patterns]
    return replace(whole, limits=Limits(inputs=2, live_bytes=8192), patterns=patterns)


def random_network(seed: int) -> merged.Part:
    """A few unary and binary operators on one shape, sometimes on a vector to be spread."""
    r = random.Random(seed)
    shape = [r.randrange(1, 6) for _ in range(r.randrange(1, 5))]
    values, rows = ["x", "z"], []
    for i in range(r.randrange(2, 9)):
        kind = r.choice(UNARY + BINARY + BINARY)
        reads = r.choices(values, k=2 if kind in BINARY else 1)
        rows.append((kind, " ".join(reads), f"t{i}"))
        values.append(f"t{i}")
    used = {n for row in rows for n in row[1].split()}
    outputs = [v for v in values[2:] if v not in used]
    narrow = shape[-1:] if r.random() < 0.3 else shape
    proto = model(rows, {"x": shape, "z": narrow}, dict.fromkeys(outputs))
    draw = np.random.default_rng(seed)
    feeds = {
        "x": draw.standard_normal(shape).astype(np.float32),
        "z": draw.standard_normal(narrow).astype(np.float32),
    }
    want = ReferenceEvaluator(proto).run(None, feeds)
    typed = list(onnx.shape_inference.infer_shapes(proto).graph.output)
    del proto.graph.output[:]
    proto.graph.output.extend(typed)
    return merged.Part(f"network {seed}", proto, feeds, list(want), Case((), {}))


def candidates(vendor: Backend) -> list[merged.Part]:
    """All cases and networks that hold an operator the vendor has a pattern for."""
    kinds = {kind for p in vendor.patterns for kind in root_ops(p.graph)}
    parts = []
    for job in [*harness.collect(), *harness.collect(patterns=vendor.patterns)]:
        if job.error or job.model is None or not harness.has_floats(job):
            continue
        if any((n.domain, n.op_type) in kinds for n in job.model.graph.node):
            given = harness.feeds(job.model, job.case)
            parts.append(merged.Part(job.label, job.model, given, job.want, job.case))
    return [*parts, *(random_network(seed) for seed in range(NETWORKS))]


@pytest.fixture(scope="module")
def spelled(vendor: Backend, request: pytest.FixtureRequest) -> str:
    """The vendor as --backend names it, with its configuration."""
    return request.config.getoption("--backend") or vendor.name


@pytest.fixture(scope="module")
def examined(vendor: Backend, spelled: str) -> tuple[list[merged.Part], list[str]]:
    """The parts of which the vendor takes a node; nodes it refused without a word."""
    kinds = {kind for p in vendor.patterns for kind in root_ops(p.graph) if p.size == 1}
    taken, silent = [], []
    for part in candidates(vendor):
        partition = merged.partition_of(part.model, (spelled,))
        part.taken = [s.pattern.name for s in partition.items if s.backend == vendor.name]
        reasons = {r.node for r in partition.refusals if r.backend == vendor.name and r.reason}
        for s in partition.items:
            for node in s.match.nodes if s.backend != vendor.name else ():
                plain = not node.ir.metadata_props.get("aot.backend")
                plain = plain and not moves_no_byte([node.ir])  # views are nobody's
                known = (node.ir.domain, node.op_type) in kinds
                if plain and known and node.name not in reasons and _fits_a_pattern(vendor, node):
                    silent.append(f"{part.label}: {node.name} ({node.op_type})")
        if part.taken:
            taken.append(part)
    return taken, silent


def _fits_a_pattern(vendor: Backend, node: object) -> bool:
    """Whether a pattern of one operator matches: then only a check can refuse."""
    return any(p.size == 1 and p.match(node.ir) is not None for p in vendor.patterns)  # type: ignore[attr-defined]


def test_the_vendor_takes_something(examined: tuple[list[merged.Part], list[str]]) -> None:
    assert examined[0]


def test_every_refusal_has_a_reason(examined: tuple[list[merged.Part], list[str]]) -> None:
    assert not examined[1]


def test_checks_do_not_depend_on_the_order_of_questions(
    spelled: str, examined: tuple[list[merged.Part], list[str]]
) -> None:
    for part in examined[0][:20]:
        assert merged.taken_by(part, spelled) == part.taken


@dataclass(frozen=True)
class Bundle:
    """All parts in one bundle, with the inputs of a run."""

    out: Path
    parts: list[merged.Part]
    arrays: list[np.ndarray]


@pytest.fixture(scope="module")
def bundled(
    spelled: str,
    examined: tuple[list[merged.Part], list[str]],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Bundle:
    """Compiled once for the tests with the vendor and without."""
    parts = [p for p in examined[0] if not _has_nan(p)]
    out = tmp_path_factory.mktemp("kit") / "out"
    target = request.config.getoption("--backend-target")
    return Bundle(out, parts, merged.compile_parts(parts, spelled, out, target))


@pytest.mark.parametrize("switch", ["ON", "OFF"])
def test_what_is_taken_is_right_with_the_vendor_and_without(
    vendor: Backend, bundled: Bundle, switch: str
) -> None:
    out = bundled.out
    option = f"-DAOT_{vendor.name.upper()}={switch}"
    bundle = str(out / "bundle")
    for command in (
        ["cmake", "-S", bundle, "-B", str(out), option],
        ["cmake", "--build", str(out)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    wrong = merged.run(bundled.parts, bundled.arrays, out)
    assert not wrong, "\n".join(wrong)


def test_declared_windows_of_rows(vendor: Backend, spelled: str, bundled: Bundle) -> None:
    """Calls that declare windows of rows give what whole tensors do, each kernel in some case: next
    to conversions of layouts, and to an operation on the result."""
    images = [p for p in bundled.parts if _has_images(p)]
    missing: set[str] | None = None
    for name, parts in ("rows", images), ("negated", [merged.negated(p) for p in images]):
        if not parts:
            return
        model, arrays = merged.merge(parts)
        out = bundled.out.parent / name
        declared, streamed = merged.by_rows(model, spelled, out, name == "rows")
        if not declared:
            return
        missing = (declared if missing is None else missing) - streamed
        merged.build(out, {})
        wrong = merged.run(parts, arrays, out)
        assert not wrong, "\n".join(wrong)
    assert not missing, "no case with a neighbour by rows"


def _has_images(part: merged.Part) -> bool:
    """Whether an input is one image of several rows."""
    return any(a.ndim == 4 and a.shape[0] == 1 and a.shape[2] > 1 for a in part.feeds.values())


def _has_nan(part: merged.Part) -> bool:
    return any(np.isnan(a).any() for a in part.feeds.values() if a.dtype.kind == "f")
