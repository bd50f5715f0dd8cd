# SPDX-License-Identifier: Apache-2.0
"""Writes and builds benchmarks/dnnl_chain.c for a network: the same oneDNN primitives as the
bundle's, called as a person would write them down."""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import median

import numpy as np

from aot.api import compile_to
from aot.ir.program import Arg, Call, Params, Program, StateArg
from aot.options import Options

HERE = Path(__file__).parent
VENDOR = HERE.parent / "aot" / "vendor" / "dnnl"
INCLUDE = HERE.parent / "runtime_c" / "include"
KINDS = {"aot_dnnl_conv": "conv", "aot_dnnl_pool": "pool", "aot_dnnl_dense": "dense"}


class Chain:
    """A built chain: `run` gives the median of its times, `check` compares its result."""

    def __init__(self, model: Path, prefix: Path, work: Path) -> None:
        self.work = work
        work.mkdir(parents=True, exist_ok=True)
        options = Options(name="net", backends=("dnnl",))
        program = compile_to(model, work / "out", options, configure=False).program
        text, weights = _spelled(program)
        (work / "chain.h").write_text(text)
        weights.tofile(work / "weights.bin")
        self.program = work / "chain"
        places = [f"-I{p}" for p in (work, VENDOR, INCLUDE)] + [f"-isystem{prefix / 'include'}"]
        library = [f"-L{prefix / 'lib'}", f"-Wl,-rpath,{prefix / 'lib'}", "-ldnnl"]
        source = str(HERE / "dnnl_chain.c")
        command = ["cc", "-O2", "-std=c99", *places, source, "-o", str(self.program), *library]
        subprocess.run(command, check=True)

    def run(self, x: Path, runs: int) -> float:
        """Milliseconds of CPU time per run."""
        files = [self.work / "weights.bin", x, self.work / "y.bin"]
        command = [str(f) for f in (self.program, *files, runs)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return median(float(line) for line in done.stdout.split())

    def result(self) -> np.ndarray:
        """What the last run computed."""
        return np.fromfile(self.work / "y.bin", np.float32)


def _spelled(program: Program) -> tuple[str, np.ndarray]:
    """chain.h and all constants in one row; ValueError for what a chain has no step for."""
    made = {s.name: s.create for s in program.states}
    numbers: dict[str, int] = {}
    structs, calls, rows = [], [], [np.zeros(0, np.float32)]
    places: dict[str, int] = {}

    def number(tensor: str) -> int:
        base = program.base(tensor)
        return numbers.setdefault(f"{base[0]}+{base[1]}", len(numbers))

    def constant(arg: object) -> str:
        if not isinstance(arg, Arg):
            return "NULL"
        if arg.tensor not in places:
            places[arg.tensor] = sum(map(len, rows))
            rows.append(np.ascontiguousarray(program.consts[arg.tensor]).reshape(-1))
        return f"w + {places[arg.tensor]}"

    number(program.inputs[0])
    for i, call in enumerate(program.calls):
        create = made.get(next((a.state for a in call.args if isinstance(a, StateArg)), ""))
        kind = KINDS.get(create.kernel) if create else None
        if create is None or kind is None or create.params is None:
            raise ValueError(f"{call.kernel} is no step of a chain")
        fields = dict(create.params.fields)
        if fields.get("act", 0) not in (0, 1):
            raise ValueError(f"activation {fields['act']} is no step of a chain")
        structs.append(_struct(i, create.params))
        values = _values(call)
        x, r = number(values[1]), [number(v) for v in values[2:]]
        consts = [constant(a) for a in create.args if not isinstance(a, StateArg)]
        residual = [str(r[0]) if r else "-1"] if kind == "conv" else []
        words = [f"&p{i}", *consts, str(x), *residual, str(number(values[0]))]
        calls.append(f"    {kind}({', '.join(words)});")
    sizes = [int(np.prod(program.tensors[n].shape)) for n in (program.inputs[0], _last(program))]
    shape = program.tensors[program.inputs[0]].shape
    head = [
        f"enum {{ VALUES = {len(numbers)} }};",
        f"enum {{ INPUT_ELEMENTS = {sizes[0]}, OUTPUT_ELEMENTS = {sizes[1]} }};",
    ]
    start = [
        "static void build(const float *w) {",
        f"    static const int64_t shape[] = {{{', '.join(map(str, shape))}}};",
        f"    values[0] = memory(of({len(shape)}, shape, plain({len(shape)})), NULL);",
    ]
    text = "\n".join([*head, *structs, *start, *calls, "}", ""])
    return text, np.concatenate(rows).astype(np.float32)


def _last(program: Program) -> str:
    return program.outputs[0]


def _values(call: Call) -> list[str]:
    """Result, input and residual; scratch is the chain's own matter."""
    count = 3 if call.kernel == "aot_dnnl_run_sum" else 2
    return [a.tensor for a in call.pointers()][:count]


def _struct(i: int, params: Params) -> str:
    fields = ", ".join(
        f".{k} = {{{', '.join(map(str, v))}}}" if isinstance(v, tuple) else f".{k} = {_number(v)}"
        for k, v in params.fields
    )
    return f"static const {params.ctype} p{i} = {{{fields}}};"


def _number(v: float) -> str:
    if isinstance(v, int):
        return str(v)
    return "1e38f" if v > 1e38 else "-1e38f" if v < -1e38 else f"{v!r}f"
