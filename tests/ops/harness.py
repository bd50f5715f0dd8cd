# SPDX-License-Identifier: Apache-2.0
"""Every operator's cases, through load … lower, as sanitised executables against onnx.reference.

Emission here is this file's own: each tensor is a separate heap block of its exact size (inputs
only element-aligned, temporaries full of NaN), so the sanitizers see every stray access. Each case
runs twice, the second time with an in-place permission used.

    python tests/ops/harness.py [--vlen V] [--blocked] [OPERATOR …]
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(Path(__file__).parent)]

from case_calls import Wrappers, address, calls_text, inplace_choice  # noqa: E402
from results import results_of  # noqa: E402

from aot.ir import dtypes  # noqa: E402
from aot.ir.deferred import parts_of  # noqa: E402
from aot.ir.layout import PLAIN, blocked, can_block  # noqa: E402
from aot.ir.program import Program, Role  # noqa: E402
from aot.load import load  # noqa: E402
from aot.lower.lower import lower  # noqa: E402
from aot.normalise import normalise  # noqa: E402
from aot.ops.registry import load_all  # noqa: E402
from aot.options import Options  # noqa: E402
from aot.partition import assign_layouts as layout_pass  # noqa: E402
from aot.partition.claims import load_options  # noqa: E402
from aot.partition.control_flow import select_all  # noqa: E402
from aot.partition.result import Selected  # noqa: E402
from aot.target import Target  # noqa: E402
from aot.vendor.backend import Pattern  # noqa: E402
from aot.vendor.cases import Case  # noqa: E402
from aot.vendor.pattern import Either, Graph, OpPat, Output, Pat, Results, Var, Where  # noqa: E402
from sanitizers import BY_CALLS  # noqa: E402

FLAGS = {1: [], 4: [], 8: ["-mavx2", "-mfma"], 16: ["-mavx512f", "-mavx512dq", "-mfma"]}
WARN = "-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Wdouble-promotion -Werror"
SANITIZE = ("-O1", "-fsanitize=address,undefined", "-fsanitize=float-cast-overflow")
BATCH = 100


@dataclass
class Job:
    """One case: its model, the expected outputs, what went wrong."""

    label: str
    case: Case
    model: onnx.ModelProto | None = None
    want: list[np.ndarray] = field(default_factory=list)
    program: Program | None = None
    error: str = ""
    fused: bool = False


def has_floats(job: Job) -> bool:
    """Whether a float32 tensor goes in or comes out."""
    given = [a for a in job.case.inputs if a is not None]
    return any(a.dtype == np.float32 for a in [*given, *job.want])


def single(graph: Graph) -> bool:
    """Whether a pattern is one operator."""
    return isinstance(graph, OpPat) and not any(isinstance(i, OpPat | Either) for i in graph.inputs)


def collect(only: tuple[str, ...] = (), patterns: Sequence[Pattern] = ()) -> list[Job]:
    """A job for every case of `patterns`: those of portable C, or the ones given or named."""
    jobs = []
    for pattern in patterns or load_all().patterns:
        if only and pattern.name not in only:
            continue
        for i, case in enumerate(pattern.all_cases()):
            job = Job(f"{pattern.name}[{i}]", case, fused=not single(pattern.graph))
            try:
                job.model = model_of(pattern.graph, case)
                job.want = reference(job.model, case)
            except Exception as error:
                job.error = f"reference: {type(error).__name__}: {error}"
            jobs.append(job)
    return jobs


def thinned(jobs: Sequence[Job]) -> list[Job]:
    """Of each pattern's jobs the first two and every sixteenth of the others.

    AOT_FULL=1 keeps them all.
    """
    if os.environ.get("AOT_FULL"):
        return list(jobs)
    seen: Counter[str] = Counter()
    found = []
    for job in jobs:
        name = job.label.split("[")[0]
        if seen[name] < 2 or seen[name] % 16 == 0:
            found.append(job)
        seen[name] += 1
    return found


class NodeMaker:
    """Spells a pattern as ONNX nodes. Inputs of the case bind its wildcards in order of appearance.

    Attributes of a case belong to the last node, or to the node named before a dot: `conv.group`.
    """

    def __init__(self, case: Case) -> None:
        self.case, self.nodes, self.bound = case, [], {}
        self.made: dict[int, str] = {}  # a sub-pattern used twice is one node

    def value(self, pat: Pat | None) -> str:
        """The name of the value a sub-pattern stands for."""
        if isinstance(pat, Either):
            return self.value(pat.options[0])
        if isinstance(pat, Where):
            return self.value(pat.pattern)
        if isinstance(pat, Output):
            first = self.value(pat.op)
            made = next(n for n in self.nodes if n.output[0] == first)
            made.output.extend(f"{first}_{k}" for k in range(len(made.output), pat.index + 1))
            return made.output[pat.index]
        if isinstance(pat, OpPat):
            own = f"{pat.names[0]}." if pat.names else None
            attrs = {k[len(own) :]: v for k, v in self.case.attrs.items() if own and own in k}
            if id(pat) not in self.made:
                self.made[id(pat)] = f"t{len(self.made)}"
                self.node(pat, attrs, [self.made[id(pat)]])
            return self.made[id(pat)]
        return "" if pat is None else self.wildcard(pat.name)

    def wildcard(self, name: str) -> str:
        index = self.bound.setdefault(name, len(self.bound))
        absent = index >= len(self.case.inputs) or self.case.inputs[index] is None
        return "" if absent else f"x{index}"

    def node(self, pat: OpPat, attrs: dict, outputs: list[str]) -> str:
        inputs = pat.inputs
        if pat.optional < 0:
            inputs = tuple(Var(f"x{i}") for i in range(len(self.case.inputs)))
        names = [self.value(i) for i in inputs]
        while names and not names[-1]:
            names.pop()
        every = dict(pat.attrs) | attrs
        self.nodes.append(helper.make_node(pat.op_type, names, outputs, domain=pat.domain, **every))
        return outputs[0]


def model_of(graph: Graph, case: Case) -> onnx.ModelProto:
    """A model of a pattern: inputs x0, x1 … (constants as initialisers), outputs y0 …"""
    outputs = [f"y{i}" for i in range(case.outputs)]
    maker, attrs = NodeMaker(case), {k: v for k, v in case.attrs.items() if "." not in k}
    if isinstance(graph, Results):
        for root, name in zip(graph.roots, outputs, strict=True):
            maker.node(root, attrs, [name])
    else:
        maker.node(graph.options[0] if isinstance(graph, Either) else graph, attrs, outputs)
    arrays = [(i, a) for i, a in enumerate(case.inputs) if a is not None]
    fed = [info(f"x{i}", a) for i, a in arrays if i not in case.const]
    consts = [numpy_helper.from_array(a, f"x{i}") for i, a in arrays if i in case.const]
    results = [onnx.ValueInfoProto(name=o) for o in outputs]
    opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version())]
    others = sorted({n.domain for n in maker.nodes} - {""})
    opsets += [helper.make_opsetid(d, 5 if d == "ai.onnx.ml" else 1) for d in others]
    model = helper.make_model(
        helper.make_graph(maker.nodes, "case", fed, results, consts), opset_imports=opsets
    )
    for result, array in zip(model.graph.output, reference(model, case), strict=True):
        result.CopyFrom(info(result.name, array))
    return model


def info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    """The type of an array."""
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, list(array.shape))


def feeds(model: onnx.ModelProto, case: Case) -> dict[str, np.ndarray]:
    """Arrays for the graph's inputs, in order."""
    given = [a for i, a in enumerate(case.inputs) if a is not None and i not in case.const]
    return dict(zip([v.name for v in model.graph.input], given, strict=True))


def reference(model: onnx.ModelProto, case: Case) -> list[np.ndarray]:
    """What onnx.reference computes (`case.expected` when it says something else)."""
    expected = getattr(case, "expected", None)
    if expected:
        return [np.asarray(a) for a in expected]
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, feeds(model, case))]


def compile_jobs(jobs: list[Job], vlen: int, block: bool, simd: str = "") -> None:
    """Fill in each job's Program for vectors of `vlen` floats and the integer unit `simd`.

    `block`: inputs of rank 3 to 5 arrive with blocked channels, so layout rules get to choose.
    """
    target = Target("test", "test", "x86_64", vlen=vlen, simd=simd)
    saved = layout_pass.assign_layouts
    import aot.lower.lower as lowering

    lowering.assign_layouts = _seeded if block and vlen > 1 else saved
    try:
        for job in jobs:
            if job.model is None:
                continue
            try:
                backends = [load_all()]
                model = normalise(load(job.model, load_options(Options(), backends)))
                partition = select_all(model.graph, backends)
                if job.fused and not any(label_of(s) in job.label for s in partition.items):
                    job.error = "not matched: " + partition.text().strip()
                job.program = lower("t", model.graph, partition, target, Options())
            except Exception as error:
                job.error = f"compile: {type(error).__name__}: {error}"
    finally:
        lowering.assign_layouts = saved


def label_of(selected: Selected) -> str:
    """What the label of a case of the selected pattern starts with."""
    return f"{selected.pattern.name}["


def _seeded(partition, vlen):
    """assign_layouts, told that every input of the graph that can be is blocked."""
    plan = []
    produced = {}
    for selected in partition.items:
        match = selected.match
        incoming = {}
        for name, v in match.values.items():
            fed = v is not None and v.is_input and can_block(v.shape)
            default = blocked(vlen) if fed else PLAIN
            incoming[name] = PLAIN if v is None else produced.get(v.name, default)
        wanted = selected.pattern.choose_layouts(match, incoming, vlen)
        layouts = {name: wanted.get(name, PLAIN) for name in match.values}
        for name in match.output_names:
            if match.values[name] is not None:
                produced[match.values[name].name] = layouts[name]
        plan.append(layout_pass.Placed(selected, layouts))
    return layout_pass.LayoutPlan(tuple(plan), produced)


def case_text(index: int, job: Job, wrappers: Wrappers) -> list[str]:
    """C of one case: read inputs, run, write outputs. Inputs are as large as they are fed."""
    program, fed = job.program, fed_tensors(job)
    lines = [f"static void case_{index}(int inplace) {{", "    (void)inplace;"]
    chosen = inplace_choice(program)
    for part in program.tree():
        for name, t in part.tensors.items():
            if t.view is not None or (part is program and name in chosen):
                continue
            if part is not program and t.role in (Role.INPUT, Role.OUTPUT):
                lines.append(f"    unsigned char *{name}_b = NULL;")
                continue
            kind = {Role.INPUT: 1, Role.OUTPUT: 2, Role.CONST: 3}.get(t.role, 0)
            given = part is program and name in fed
            kind = 1 if given else kind
            elem = max(1, t.dtype.nbytes)
            nbytes = len(fed[name]) if given else t.nbytes
            lines.append(f"    unsigned char *{name}_b = take({nbytes}, {kind}, {elem});")
    for name, source in chosen.items():
        n = program.tensors[name].nbytes
        lines.append(f"    unsigned char *{name}_b = inplace ? {source}_b : take({n}, 0, 1);")
    for part in program.tree():
        lines += [f"    (void){n}_b;" for n, t in part.tensors.items() if t.view is None]
    constants: list[str] = []
    lines += calls_text(program, f"{index}", wrappers, constants)
    ends = [*program.outputs, *(s.tensor for s in program.shapes)]
    lines += [f"    put({address(program, n)}, {program.tensors[n].nbytes});" for n in ends]
    lines = constants + lines
    lines += ["    drop();", "}"]
    return lines


SUPPORT = """
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static FILE *in_file_, *out_file_;
static void *blocks_[4096];
static int used_;
static unsigned char *take(size_t n, int kind, size_t elem) {
    void *p = NULL;
    /* kind 1, 2: the caller's, so only element-aligned; 3: constant */
    const size_t off = kind == 1 || kind == 2 ? elem : 0;
    if (posix_memalign(&p, 64, n + off) != 0 || used_ == 4096) abort();
    blocks_[used_++] = p;
    memset(p, 0xFF, n + off);
    if ((kind == 1 || kind == 3) && n && fread((char *)p + off, 1, n, in_file_) != n) abort();
    return (unsigned char *)p + off;
}
static void put(const unsigned char *p, size_t n) {
    if (n && fwrite(p, 1, n, out_file_) != n) abort();
}
static void drop(void) { while (used_) free(blocks_[--used_]); }
"""


def batch_text(jobs: list[Job]) -> str:
    """One C file that runs every job in turn, separate buffers first, then in place."""
    headers = sorted({c.header for j in jobs for c in j.program.every_call()})
    wrappers, bodies = Wrappers(), []
    for i, job in enumerate(jobs):
        bodies += [f"/* {job.label} */", *case_text(i, job, wrappers)]
    # Constants are written as doubles whatever the field's type.
    pragma = '#pragma GCC diagnostic ignored "-Wfloat-conversion"'
    includes = [f'#include "{h}"' for h in headers]
    lines = [SUPPORT, *includes, *wrappers.lines, pragma, *bodies]
    lines.append("int main(int argc, char **argv) {")
    lines.append('    if (argc != 3) return 2;\n    out_file_ = fopen(argv[2], "wb");')
    lines.append("    for (int k = 0; k < 2; ++k) {")
    lines.append('        in_file_ = fopen(argv[1], "rb"); if (!in_file_ || !out_file_) return 2;')
    for i, job in enumerate(jobs):
        lines.append(f'        fprintf(stderr, "%s\\n", "{job.label}"); case_{i}(k);')
    lines.append("        fclose(in_file_);\n    }\n    return fclose(out_file_);\n}\n")
    return "\n".join(lines)


def run_batch(
    jobs: list[Job],
    vlen: int,
    folder: Path,
    compiler: str = "gcc",
    options: Sequence[str] = SANITIZE,
) -> None:
    """Build and run one batch; each job's error says what was wrong."""
    text = batch_text(jobs)
    stem = folder / hashlib.sha256(text.encode()).hexdigest()[:16]
    source = stem.with_suffix(".c")
    source.write_text(text)
    by_calls = [BY_CALLS] if compiler == "gcc" else []
    built = subprocess.run(
        [compiler, *WARN.split(), *options, *by_calls, *FLAGS[vlen]]
        + ["-fno-sanitize-recover=all", "-ffp-contract=off", "-D_POSIX_C_SOURCE=200112L"]
        + [f"-DAOT_VLEN={vlen}", f"-I{ROOT}/runtime_c/include", f"-I{ROOT}/runtime_c/kernels"]
        + [str(source), "-o", str(stem), "-lm"],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        split_or_blame(
            jobs, vlen, folder, compiler, options, "build: " + first_errors(built.stderr)
        )
        return
    (folder / "in.bin").write_bytes(b"".join(input_bytes(j) for j in jobs))
    ran = subprocess.run(
        [str(stem), str(folder / "in.bin"), str(folder / "out.bin")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
    )
    if ran.returncode:
        why = "run: " + first_errors(ran.stderr)
        split_or_blame(jobs, vlen, folder, compiler, options, why)
        return
    data = (folder / "out.bin").read_bytes()
    at = 0
    for attempt in ("", " (in place)"):
        for job in jobs:
            results, at = results_of(data, at, job.program)
            for (name, got), want in zip(results, job.want, strict=True):
                wrong = difference(got, want, job.case)
                if wrong and not job.error:
                    job.error = f"wrong{attempt}: {name} {wrong}"
    assert at == len(data)


def split_or_blame(
    jobs: list[Job], vlen: int, folder: Path, compiler: str, options: Sequence[str], why: str
) -> None:
    """Halve a batch that does not build or run until the culprit is alone."""
    if len(jobs) == 1:
        jobs[0].error = why
        return
    half = len(jobs) // 2
    for part in (jobs[:half], jobs[half:]):
        run_batch(part, vlen, folder, compiler, options)


def first_errors(text: str) -> str:
    lines = [s for s in text.splitlines() if "rror" in s or "#0 " in s or "#1 " in s]
    return " | ".join(lines[:4])[:600] or text[-300:]


def input_bytes(job: Job) -> bytes:
    """Inputs and constants in the order case_text takes them."""
    program, fed = job.program, fed_tensors(job)
    parts = []
    for part in program.tree():
        for name, t in part.tensors.items():
            if part is program and name in fed:
                parts.append(fed[name])
            elif t.view is None and t.role is Role.CONST:
                parts += [array.tobytes() for array in parts_of(part.consts[name])]
    return b"".join(parts)


def fed_tensors(job: Job) -> dict[str, bytes]:
    """Bytes of what a run gets by name: inputs, and the dimensions that their shapes say."""
    program = job.program
    arrays = list(feeds(job.model, job.case).values())
    pairs = zip(program.inputs, arrays, strict=True)
    found = {n: dtypes.to_bytes(a, program.tensors[n].dtype) for n, a in pairs}
    for e in program.dynamic_dims:
        index, axis = e.axes[0]
        found[e.tensor] = np.int64(arrays[index].shape[axis]).tobytes()
    return found


def difference(got: np.ndarray, want: np.ndarray, case: Case) -> str:
    """Empty if equal within the case's tolerance (integers: exactly)."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
    if want.dtype.kind not in "fV":
        bad = got != want
    else:
        g, w = got.astype(np.float64), want.astype(np.float64)
        finite = np.isfinite(w)
        top = np.max(np.abs(w[finite]), initial=0.0)
        with np.errstate(all="ignore"):
            limit = case.rtol * np.abs(w) + 1e-5 * top + case.atol
            bad = np.where(
                finite, ~(np.abs(g - w) <= limit), (g != w) & ~(np.isnan(g) & np.isnan(w))
            )
    if not bad.any():
        return ""
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{where}: {got[where]!r}, expected {want[where]!r}; {int(bad.sum())} of {bad.size}"


def run(
    jobs: list[Job],
    vlen: int,
    block: bool,
    folder: Path,
    compiler: str = "gcc",
    kernels: set[str] | None = None,
    options: Sequence[str] = SANITIZE,
    simd: str = "",
) -> list[str]:
    """Compile and run copies of `jobs`; the failures, one line each. `kernels` gets their calls."""
    own = [replace(j, program=None) for j in jobs]
    compile_jobs(own, vlen, block, simd)
    ready = [j for j in own if j.program is not None and not j.error]
    if kernels is not None:
        kernels.update(c.kernel for j in ready for c in j.program.every_call() if not c.bodies)
    for i in range(0, len(ready), BATCH):
        run_batch(ready[i : i + BATCH], vlen, folder, compiler, options)
    return [f"{j.label}: {j.error}" for j in own if j.error]


def main() -> int:
    import argparse
    import tempfile

    parser = argparse.ArgumentParser()
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--vlen", type=int, default=8)
    parser.add_argument("--blocked", action="store_true")
    parser.add_argument("--keep", default="")
    args = parser.parse_args()
    jobs = collect(tuple(args.operators))
    folder = args.keep or tempfile.mkdtemp()
    Path(folder).mkdir(parents=True, exist_ok=True)
    failures = run(jobs, args.vlen, args.blocked, Path(folder))
    print("\n".join([*failures, f"{len(jobs)} cases, {len(failures)} failures"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
