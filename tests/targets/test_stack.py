# SPDX-License-Identifier: Apache-2.0
"""Bounds of the stack: chains of calls in gcc's call graphs, what has none, what is declared."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import aot
from aot.cli import main
from aot.errors import BuildError
from aot.options import Options
from aot.pipeline import compile_model
from aot.plan.stack import declare, outside
from aot.target import load_target, names
from aot.tools.call_graph import CallGraph, deepest, read_graph
from aot.tools.run import open_out
from aot.tools.stack_built import bounds, checked, stack_of
from needs import need

FULL = pytest.mark.skipif(not os.environ.get("AOT_FULL"), reason="AOT_FULL is not set")
LINUX = ("aarch64-linux", "armv7-linux", "riscv64-linux", "x86-64-v4")
ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
PROGRAM = """
extern int memcmp(const void *, const void *, unsigned long);
typedef volatile char byte;
int leaf(byte *p) { byte a[200]; a[0] = *p; return memcmp((char *)a, (char *)p, 99U); }
int other(byte *p) { byte a[40]; a[0] = *p; return a[1]; }
__attribute__((noinline)) static int middle(byte *p) { return leaf(p) + other(p) + 1; }
int entry(byte *p) { byte a[64]; a[3] = *p; return middle(p) + a[3]; }
int down(byte *p, int n) { byte a[16]; a[0] = *p; return n ? down(p, n - 1) + a[0] : 1; }
int first(byte *p, int n) { return down(p, n) + 1; }
int sized(int n) { byte a[n]; a[0] = 1; return a[n / 2]; }
int through(int (*f)(int)) { return f(3) + 1; }
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> CallGraph:
    folder = tmp_path_factory.mktemp("graph")
    (folder / "p.c").write_text(PROGRAM)
    command = ["gcc", "-O1", "-fcallgraph-info=su", "-fno-inline", "-c", "p.c", "-o", "p.o"]
    subprocess.run(command, cwd=folder, check=True)
    return read_graph([folder / "p.ci"])


def none(_name: str) -> int:
    return 0


def test_the_deepest_chain(graph: CallGraph) -> None:
    leaf = deepest(graph, "leaf", lambda n: 1000 if n == "memcmp" else 0)
    assert leaf.functions == ("leaf", "memcmp") and leaf.outside == ("memcmp",)
    assert 1200 < leaf.bytes < 1300
    chain = deepest(graph, "entry", none)
    assert chain.functions[:3] == ("entry", "middle", "leaf")
    title = next(f for f in graph.frames if f.endswith("middle"))
    assert chain.bytes == sum(graph.frames[f] for f in ("entry", title, "leaf"))


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("first", "recursion: down -> down"),
        ("sized", "the frame of sized has no bound"),
        ("through", "through calls through a pointer"),
    ],
)
def test_what_has_no_bound(graph: CallGraph, entry: str, says: str) -> None:
    with pytest.raises(BuildError, match=says):
        deepest(graph, entry, none)


def test_circles_of_several_functions_are_named() -> None:
    calls = {"a": ("b",), "b": ("c", "d"), "c": (), "d": ("b",)}
    graph = CallGraph(dict.fromkeys(calls, 8), calls, ())
    with pytest.raises(BuildError, match="recursion: b -> d -> b"):
        deepest(graph, "a", none)


def test_functions_outside_are_known() -> None:
    for name in ("memcpy", "__aeabi_fadd", "__muldi3", "__udivmoddi4", "sinf", "pow", "exp"):
        assert outside.known(name), name
    assert outside.of("sin") > outside.of("exp") > outside.of("memset") > 0
    assert not outside.known("cblas_sgemm") and not outside.known("malloc")


def test_assembly_pushes_no_more_than_assumed() -> None:
    """All that the assembly of one header pushes, one thing after the other."""
    sums = {}
    for header in sorted((ROOT / "runtime_c" / "kernels").glob("*.h")):
        text = header.read_text()
        lists = [m[1] for m in re.finditer(r'"push \{([^}]*)\}', text)]
        before = [int(m[1]) for m in re.finditer(r"\[sp,#-(\d+)\]!", text)]
        sums[header.name] = sum(4 * registers(m) for m in lists) + sum(before)
    assert 0 < max(sums.values()) <= outside.ASSEMBLY, sums


def registers(text: str) -> int:
    """How many registers `r0,r4-r11,lr` are."""
    ends = [[int(n) for n in re.findall(r"r(\d+)", part)] for part in text.split(",")]
    return sum(n[1] - n[0] + 1 if len(n) == 2 else 1 for n in ends)


def test_every_target_has_a_column() -> None:
    families = {declare.family(load_target(n)) for n in names()}
    assert families == set(declare.table())
    own = replace(load_target("cortex-m4"), cflags=("-mcpu=cortex-m0plus", "-mthumb"))
    assert declare.family(own) == "thumb1"


VECTORS = ("x86_64", "aarch64", "arm")
BOARDS = ("thumb1", "thumb2", "helium", "riscv32", "riscv64")
#: What kernels end in that only some machines have.
ONLY = {
    "__dsp": ("thumb2",),
    "__mve": ("helium",),
    "__vec": VECTORS,
    "__dot": ("x86_64", "aarch64"),
    "__bf16": ("x86_64",),
    "aot_qdwconv_s8__dot": ("x86_64",),
    "__bfmmla": ("aarch64",),
    "__fp16": ("aarch64",),
    "ary_half": VECTORS,
    **dict.fromkeys(("aot_qconv_s16", "aot_qdwconv_s16", "aot_qfc_s16"), BOARDS),
    **dict.fromkeys(("pool_f32_blocked", "winograd_f32_blocked"), VECTORS),
    **dict.fromkeys(("aot_quantize_s8_blocked", "aot_dequantize_s8_blocked"), VECTORS),
    **dict.fromkeys(("aot_blocked_channels", "aot_channel_gather", "conv_f32_grouped"), VECTORS),
    **dict.fromkeys(("aot_to_blocked_32", "aot_from_blocked_32"), VECTORS),
}
#: Portable kernels that no machine of a family calls, as it has its own.
REPLACED = {"helium": ("aot_qconv_s8", "aot_qfc_s8")}


def test_every_kernel_has_a_figure_for_every_machine() -> None:
    """To add one: python benchmarks/stack.py --missing"""
    every = sorted({k for column in declare.table().values() for k in column})
    for name, column in declare.table().items():
        ends = tuple(e for e, families in ONLY.items() if name not in families)
        needed = [k for k in every if not k.endswith(ends) and k not in REPLACED.get(name, ())]
        assert [k for k in needed if k not in column] == [], name


def test_a_build_stays_below_what_is_declared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o"
    aot.compile(DIGITS, out, target="x86-64-v3").build()
    built = open_out(out)
    found = {b.entry: b for b in bounds(built)}
    entries = {"digits_init", "digits_run", "digits_shutdown", "tvmgen_digits_run"}
    assert entries <= set(found)
    assert found["digits_run"].bytes > 500 > found["digits_init"].bytes > outside.RED_ZONE
    stack = stack_of(built)
    assert stack.bytes == max(b.bytes for b in found.values()) <= stack.declared
    assert main(["size", str(out)]) == 0
    assert f"stack  {stack.bytes} bytes at most" in capsys.readouterr().out
    with pytest.raises(BuildError, match="bytes of stack, declared are 99"):
        checked(replace(stack, declared=99), built)
    assert main(["size", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stack"]["bytes"] == stack.bytes


@pytest.mark.parametrize(
    "name",
    [
        *LINUX,
        *(pytest.param(n, marks=FULL) for n in names() if n not in (*LINUX, "host")),
    ],
)
@pytest.mark.parametrize("model", ["digits_int8", pytest.param("digits", marks=FULL)])
def test_builds_for_other_machines_do_too(name: str, model: str, tmp_path: Path) -> None:
    need(load_target(name).compiler or "gcc")
    out = tmp_path / "o"
    aot.compile(DIGITS.with_stem(model), out, target=name).build()
    stack = stack_of(open_out(out))
    assert stack.bytes is not None and stack.declared is not None, stack
    assert 200 < stack.bytes <= stack.declared


def test_other_compilers_leave_what_is_declared(tmp_path: Path) -> None:
    out = tmp_path / "o"
    aot.compile(DIGITS, out, target="x86-64-v3")
    stack = stack_of(open_out(out))  # not built: nothing is known
    assert stack.bytes is None and "bytes at most, as declared" in stack.text()


def test_kernels_without_a_row_have_no_bound() -> None:
    compiled = compile_model(DIGITS, Options(target="cortex-m4"))
    found = declare.declared(compiled.program, compiled.target)
    assert found.bytes == compiled.manifest["memory"]["stack_bytes"]
    assert found.unmeasured == () and found.kernel.startswith("aot_")
    first, *rest = compiled.program.calls
    calls = (replace(first, kernel="toy"), *rest)
    toy = declare.declared(replace(compiled.program, calls=calls), compiled.target)
    assert toy == declare.Declared(None, "", "", ("toy",))


def test_a_budget_that_cannot_be_checked_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    column = dict(declare.table()["thumb2"])
    del column["aot_gemm_f32"]
    monkeypatch.setattr(declare, "table", lambda: {"thumb2": column})
    words = [str(DIGITS), "-o", str(tmp_path / "o"), "--target", "cortex-m4", "--no-configure"]
    assert main([*words, "--stack", "9000"]) == 1
    error = capsys.readouterr().err
    assert "--stack 9000 cannot be checked: no figure for the stack of aot_gemm_f32\n" in error
    assert "in fc\n" in error and "without --stack: aotc size computes" in error
    assert main(words) == 0
    manifest = json.loads((tmp_path / "o" / "bundle" / "manifest.json").read_text())
    assert manifest["memory"]["stack_bytes"] is None
    assert manifest["memory"]["stack_unmeasured"] == ["aot_gemm_f32"]
    capsys.readouterr()
    assert main(["size", str(DIGITS), "--target", "cortex-m4", "--json"]) == 0
    stack = json.loads(capsys.readouterr().out)["stack"]
    assert stack["bytes"] is stack["declared"] is None
    assert stack["unmeasured"] == ["aot_gemm_f32"]
    assert main(["size", str(DIGITS), "--target", "cortex-m4"]) == 0
    assert "stack  unknown: no figure for aot_gemm_f32\n" in capsys.readouterr().out
