# SPDX-License-Identifier: Apache-2.0
"""The judge of findings, and gcc's analyser on two bundles; `make analyse` runs the rest."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from analyse import corpus, judge, tools
from needs import need

FOUND = tools.Finding("misra", "15.5", "kernels/aot_pad.h", 7, "")
ENTRY = judge.Accepted("misra", "15.5", ("kernels/*",), "why", 1, "advisory")


def test_what_is_declared_passes() -> None:
    assert judge.judge([FOUND], [ENTRY], {"misra"}) == []


@pytest.mark.parametrize("change", [{"rule": "15.6"}, {"file": "src/x.h"}, {"tool": "gcc"}])
def test_what_is_not_declared_fails(change: dict[str, str]) -> None:
    faults = judge.judge([FOUND, replace(FOUND, **change)], [ENTRY], {"misra"})
    assert len(faults) == 1 and ":7: " in faults[0]


def test_a_declaration_that_nothing_needs_fails() -> None:
    (fault,) = judge.judge([], [ENTRY], {"misra"})
    assert "does not occur" in fault
    assert judge.judge([], [ENTRY], {"gcc"}) == []


def test_a_required_rule_has_no_new_sites() -> None:
    required, more = replace(ENTRY, category="required"), replace(FOUND, line=8)
    assert judge.judge([FOUND, more], [ENTRY], {"misra"}) == []
    (fault,) = judge.judge([FOUND, more], [required], {"misra"})
    assert "2 sites, declared are 1" in fault


def test_the_page_is_made_of_what_is_declared() -> None:
    assert judge.PAGE.read_text() == judge.page(judge.read())


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("board/runner.c", "ports/board/runner.c"),
        ("host/runner.c", "ports/host/runner.c"),
        ("src/kernels/aot_pad.h", "kernels/aot_pad.h"),
        ("src/net_run.c", "emitted/run.c"),
        ("/usr/include/math.h", "outside/math.h"),
    ],
)
def test_a_place_says_where_a_file_comes_from(path: str, place: str, tmp_path: Path) -> None:
    assert tools.place(tmp_path / "net" / "bundle", path) == place


def needs_cppcheck() -> None:
    """It is installed by `make analyse` alone."""
    if not os.environ.get("AOT_FULL") or shutil.which("cppcheck") is None:
        pytest.skip("needs AOT_FULL and cppcheck")


def test_two_checks_of_a_folder_at_once_keep_their_findings() -> None:
    needs_cppcheck()
    names = ["aot_ffi.h", "aot_trace.h", "aot_check.h"]
    texts = [tools.Text(tools.RUNTIME / "src", n, (), ("-I../include",)) for n in names]
    alone = [text.check() for text in texts]
    with ThreadPoolExecutor(len(texts)) as pool:
        assert list(pool.map(tools.Text.check, texts)) == alone
    assert {"2.3", "2.4", "2.5"} <= {f.rule for found in alone for f in found}


@pytest.fixture(scope="module", params=["control", "data"])
def unit_bundle(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[corpus.Unit, Path]:
    need("gcc")
    unit = next(u for u in corpus.units() if u.name == request.param)
    return unit, unit.emit(tmp_path_factory.mktemp(unit.name))


def test_gcc_finds_nothing(unit_bundle: tuple[corpus.Unit, Path]) -> None:
    found = []
    for source in tools.sources(*unit_bundle):
        if not source.path.startswith("host"):
            found += tools.analyzer(source)
    assert judge.judge(found, judge.read(), set()) == []


PLANTED = {
    "never written": "int x;\n    return n > 3 ? x : 0;",
    "NULL": "int *p = 0;\n    return n > 3 ? *p : 0;",
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_gcc_sees_a_planted_bug(text: str, unit_bundle: tuple[corpus.Unit, Path]) -> None:
    unit, bundle = unit_bundle
    (bundle / "src" / "planted.c").write_text(f"int f(int n);\nint f(int n) {{\n    {text}\n}}\n")
    source = tools.Source(bundle, "src/planted.c", tools.load_target(unit.target))
    assert [f.line for f in tools.analyzer(source)] == [4]
    (bundle / "src" / "planted.c").unlink()


PLANTED_IN_A_KERNEL = {
    "uninitvar": "int v_; if (p->batch > 3) { v_ = 1; } if (v_ > 0) { return; }",
    "nullPointer": "const int *v_ = NULL; if (p->batch > 3) { if (*v_ > 0) { return; } }",
    "arrayIndexOutOfBounds": "int v_[4]; for (int i_ = 0; i_ <= 4; ++i_) { v_[i_] = p->batch; }",
    "zerodivcond": "if (p->batch == 0) { if (7 / p->batch == 3) { return; } }",
    "shiftTooManyBits": "const int v_ = p->batch; if (v_ == 40) { if (1 << v_ > 3) { return; } }",
}


@pytest.mark.parametrize("rule", PLANTED_IN_A_KERNEL)
def test_cppcheck_sees_a_planted_bug(rule: str, tmp_path: Path) -> None:
    needs_cppcheck()
    name = "aot_nms_f32.h"
    head, sign, rest = (tools.RUNTIME / "kernels" / name).read_text().rpartition(" *p) {\n")
    (tmp_path / name).write_text(head + sign + PLANTED_IN_A_KERNEL[rule] + "\n" + rest)
    line = (head + sign).count("\n") + 1
    flags = (f"-I{tools.RUNTIME}/kernels", f"-I{tools.RUNTIME}/include", "-DAOT_VLEN=1")
    found = tools.Text(tmp_path, name, (), flags).check()
    assert (rule, line) in {(f.rule, f.line) for f in found}


def test_every_kernel_header_is_analysed(tmp_path: Path) -> None:
    if not os.environ.get("AOT_FULL"):
        pytest.skip("needs AOT_FULL")
    assert corpus.unreached(u.emit(tmp_path) for u in corpus.units()) == []
