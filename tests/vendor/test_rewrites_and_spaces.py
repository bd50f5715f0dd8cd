# SPDX-License-Identifier: Apache-2.0
"""What vendors write in words of their own, and spaces of theirs that `aotc tune` measures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from aot.cli import main
from aot.errors import BackendError, UnsupportedError
from aot.options import Options
from aot.pipeline import partition_model
from aot.tools.tune import trials_of
from aot.vendor import F32, Backend, find
from graphs import model

SUM = """/* SPDX-License-Identifier: MIT-0 */
#ifndef SLOW_H
#define SLOW_H
#include <stdint.h>
typedef struct { int32_t n, rounds; } slow_sum_params;
static inline void slow_sum(float *y, const float *a, const float *b, const slow_sum_params *p)
{
    for (volatile int32_t r = 0; r < p->rounds; r++) {
    }
    for (int32_t i = 0; i < p->n; i++) {
        y[i] = a[i] + b[i];
    }
}
#endif
"""


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """A vendor that has sums only: it writes differences as sums, and wastes time as asked."""
    (tmp_path / "slow.h").write_text(SUM)
    made = Backend("slow", header="slow.h", folder=tmp_path)

    @made.pattern
    def total(op, a, b):
        return op.Add(a, b)

    total.folder = tmp_path
    total.tune(rounds=(3_000_000, 1000, 0))

    @total.check
    def fits(m):
        yield m.a.dtype is F32 and m.a.shape == m.b.shape, "no two float32 values of one shape"

    @total.lower
    def to_sum(c, m):
        n = int(np.prod(m.y.shape))
        c.call("slow_sum", m.y, m.a, m.b, c.params(n=n, rounds=m.rounds))

    @made.rewrite
    def difference(op, a, b):
        return op.Sub(a, b)

    @difference.check
    def no_numbers(m):
        yield m.a.shape == m.b.shape, "no two values of one shape"

    @difference.becomes
    def as_sum(op, m):
        return op.Add(m.a, op.Mul(m.b, np.full(m.b.shape, -1, np.float32)))

    other = Backend("other", folder=tmp_path)
    other.pattern(lambda op, a, b: op.Sub(a, b))
    real = find.find_backend
    named = {"slow": made, "other": other}
    monkeypatch.setattr(find, "find_backend", lambda n, w="": named.get(n) or real(n))
    return made


def network(path: Path) -> str:
    """Differences of inputs, of results of others, and one of another shape."""
    rows = [
        ("Sub", "x z", "a"),
        ("Sub", "a z", "b"),
        ("Sub", "b a", "y"),
        ("Relu", "y", "r"),
        ("Sub", "r s", "w"),
    ]
    outputs = {"y": None, "r": None, "w": None}
    onnx.save(model(rows, {"x": [64], "z": [64], "s": [1]}, outputs), str(path))
    return str(path)


def results(out: Path, source: str, **options: object) -> list[np.ndarray]:
    """What the built model makes of three inputs."""
    bundle = aot.compile(source, out=out, **options).build()  # type: ignore[arg-type]
    x, z = np.linspace(-3, 5, 64, dtype=np.float32), np.linspace(7, 1, 64, dtype=np.float32)
    return [np.asarray(y) for y in bundle.load()(x, z, z[:1])]


def test_differences_become_sums(slow: Backend, tmp_path: Path) -> None:
    source = network(tmp_path / "net.onnx")
    _, found = partition_model(source, Options(backends=("slow",)))
    takers = [(s.backend, s.match.root.op_type) for s in found.items]
    assert takers.count(("slow", "Add")) == 3 and ("c", "Sub") in takers
    got = results(tmp_path / "out", source, backends=["slow"])
    for mine, portable in zip(got, results(tmp_path / "c", source), strict=True):
        np.testing.assert_allclose(mine, portable, rtol=1e-6, atol=1e-5)


def test_nodes_of_others_are_not_rewritten(slow: Backend, tmp_path: Path) -> None:
    source = network(tmp_path / "net.onnx")
    kept = Options(backends=("slow",), keep={"b": "c"})
    for options, takers in (
        (kept, ["c", "c"]),
        (Options(backends=("other", "slow")), ["other"] * 4),
    ):
        _, found = partition_model(source, options)
        subs = [s.backend for s in found.items if s.match.root.op_type == "Sub"]
        assert subs == takers
    with pytest.raises(UnsupportedError, match=r"\(Mul\) is given to slow, which does not"):
        partition_model(source, Options(keep={"b": "slow"}))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda op, m: op.Concat(m.a, m.b, axis=0), r"FLOAT .*128.* .needs FLOAT .*64"),
        (lambda op, m: op.MatMul(m.a, m.b, m.a), "slow.difference: its rewrite raised"),
        (lambda op, m: m.c, "the pattern has no 'c'"),
    ],
)
def test_a_wrong_rewrite_is_the_backends_fault(
    slow: Backend, tmp_path: Path, made: object, said: str
) -> None:
    slow.rewrites[0].becomes(made)  # type: ignore[arg-type]
    with pytest.raises(BackendError, match=said) as caught:
        partition_model(network(tmp_path / "net.onnx"), Options(backends=("slow",)))
    assert "node" in str(caught.value)


def test_the_best_point_of_a_space_is_measured_and_kept(slow: Backend, tmp_path: Path) -> None:
    source, table = network(tmp_path / "net.onnx"), tmp_path / "t.json"
    assert main(["tune", source, "--backend", "slow", "-o", str(table), "-q"]) == 0
    costs = json.loads(table.read_text())["matches"]
    rounds = [k.split()[0] for k in costs if k.startswith("slow.")]
    assert {f"slow.total[rounds={n}]" for n in (3_000_000, 1000, 0)} == set(rounds)
    options = Options(backends=("slow",), partition="cost", tune=str(table))
    _, found = partition_model(source, options)
    taken = {s.pattern.name for s in found.items if s.backend == "slow"}
    assert "total[rounds=3000000]" not in taken


def test_a_user_prefers_a_point_of_a_space(
    slow: Backend, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = network(tmp_path / "net.onnx")
    for point, name in (("0", "total[rounds=3000000]"), ("2", "total[rounds=0]")):
        options = Options(backends=("slow",), backend_options={"slow.point": point})
        _, found = partition_model(source, options)
        assert {s.pattern.name for s in found.items if s.backend == "slow"} == {name}
    words = ["explain", source, "--backend", "slow", "--backend-option", "slow.point=3"]
    assert main(words) == 2
    assert "slow.point=3: a number from 0 to 2" in capsys.readouterr().err
    for vendor, known in (("slow", "known: point"), ("cblas", "cblas has no options")):
        words = ["explain", source, "--backend", vendor, "--backend-option", f"{vendor}.typo=1"]
        assert main(words) == 2
        said = capsys.readouterr().err
        assert f"{vendor} has no option 'typo'" in said and known in said


def test_a_space_without_a_point_or_with_too_many_is_refused() -> None:
    made = Backend("made").pattern(lambda op, x: op.Exp(x))
    for space in ({"a": ()}, {"a": range(9), "b": range(9)}):
        with pytest.raises(BackendError, match=r"a space of (0|81) points \(1 to 64\)"):
            made.tune(**space)


def test_tune_measures_what_the_user_asks_for() -> None:
    asked = Options(backends=("accel_sim:64", "dnnl"), backend_options={"accel_sim.point": "0"})
    trials = {label: (o.backends, dict(o.backend_options)) for label, o in trials_of(asked)}
    assert trials == {
        "accel_sim": (("accel_sim:64",), {"accel_sim.point": "0"}),
        "dnnl": (("dnnl",), {"dnnl.point": "0"}),
        "c": ((), {}),
    }
