# SPDX-License-Identifier: Apache-2.0
"""A sample of the hostile corpus; `make hostile` compiles all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile.case import Case, info, lazily, net, node
from hostile.corpus import all_cases, sample
from hostile.drive import run_all, run_one
from hostile.texts import CANARY

PARTS = 2


@pytest.mark.parametrize("part", range(PARTS))
def test_sample(part: int, tmp_path: Path) -> None:
    cases = sample(seed=1, each=3)[part::PARTS]
    assert len({c.family for c in cases}) > 9
    kinds = set()
    for outcome in run_all(cases, tmp_path):
        where = f"{outcome.case.family}: {outcome.case.name}"
        assert not outcome.faults, f"{where}: {outcome.faults}\n{outcome.message}"
        kinds.add(outcome.kind)
    assert kinds == {"refused", "bundle"}


def test_cases_have_names_of_their_own() -> None:
    names = [(c.family, c.name) for c in all_cases()]
    assert len(set(names)) == len(names) > 2500


# -- The driver notices what it is there for ------------------------------------------------------


def outcome_of(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Faults of a case during which the compiler does `body` and refuses the model."""

    def broken(*_args: object, **_more: object) -> int:
        exec(body)
        return 1

    monkeypatch.setattr("aot.cli.main", broken)
    model = lazily(lambda: net([node("Relu", "x", "y")], [info("x", (2,))], [info("y", (2,))]))
    return run_one(Case("test", "test", model), tmp_path).faults


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("pass", "no message"),
        ("import sys; print('aotc: bad \\x1b[31m', file=sys.stderr)", "control characters"),
        ("import sys; print('aotc: internal error: x', file=sys.stderr)", "internal error"),
        ("import sys; print('aotc: x\\n' * 9, file=sys.stderr)", "more than 8 lines"),
        ("open('beside', 'w').close(); print('aotc: x')", "outside OUT"),
        ("open('/tmp/aot_hostile_probe', 'w').close(); print('aotc: x')", "writes /tmp"),
        ("open('/etc/passwd').close(); print('aotc: x')", "reads /etc/passwd"),
        ("import os; os.mkdir('out'); print('aotc: x')", "OUT was written to"),
        ("import os; os.kill(os.getpid(), 11)", "code -11"),
        ("x = bytearray(5 << 30)", "code 99"),
        ("raise KeyError", "code 99"),
    ],
)
def test_faults_are_seen(
    body: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = outcome_of(body, tmp_path, monkeypatch)
    assert any(says in f for f in faults), faults
    Path("/tmp/aot_hostile_probe").unlink(missing_ok=True)


def test_a_case_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostile.drive.CLOCK", 0.3)
    faults = outcome_of("import time; time.sleep(60)", tmp_path, monkeypatch)
    assert any("longer than" in f for f in faults), faults


def test_code_in_a_bundle_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: a compiler that copied a text into its sources would be caught."""
    from aot.cli import main

    def careless(arguments: list[str]) -> int:
        code = main(arguments)
        source = next(Path("out/bundle/src").glob("*_run.c"))
        text = "extern int creat(const char *, unsigned);\nvoid b(void);\n"
        text += f'void __attribute__((constructor)) b(void) {{ creat("{CANARY}", 420); }}\n'
        source.write_text(source.read_text() + text)
        return code

    monkeypatch.setattr("aot.cli.main", careless)
    model = lazily(lambda: net([node("Relu", "x", "y")], [info("x", (2,))], [info("y", (2,))]))
    faults = run_one(Case("test", "test", model), tmp_path).faults
    assert any("ran as code" in f for f in faults), faults
