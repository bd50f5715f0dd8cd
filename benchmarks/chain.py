# SPDX-License-Identifier: Apache-2.0
"""Writes and builds a program that computes a network by a library as the library's own examples
do, without aotc's runtime: benchmarks/dnnl_chain.c and xnnpack_chain.c. The operators, their
parameters and constants are those of the bundle."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from aot.api import compile_to
from aot.ir.program import Access, Arg, Call, Params, Program, StateArg
from aot.options import Options

HERE = Path(__file__).parent
VENDORS = HERE.parent / "aot" / "vendor"
INCLUDE = HERE.parent / "runtime_c" / "include"
ALIGNED = 64


@dataclass(frozen=True)
class Library:
    """How chains call a library: by the function that creates an operator in a bundle, the name
    that the chain's C has for it and the most inputs that a call has."""

    kinds: dict[str, tuple[str, int]]
    link: tuple[str, ...]


LIBRARIES = {
    "dnnl": Library(
        {
            "aot_dnnl_conv": ("conv", 2),
            "aot_dnnl_pool": ("pool", 1),
            "aot_dnnl_dense": ("dense", 1),
        },
        ("-ldnnl",),
    ),
    "xnnpack": Library(
        {
            "aot_xnnpack_conv": ("conv", 1),
            "aot_xnnpack_pool": ("pool", 1),
            "aot_xnnpack_pair": ("pair", 2),
            "aot_xnnpack_unary": ("unary", 1),
        },
        ("-lXNNPACK", "-lpthreadpool", "-lm"),
    ),
}
#: Calls of a bundle that bring its input to the order in which a chain takes it.
ARRANGES = ("aot_to_blocked", "aot_transpose", "aot_copy")
#: Calls of a bundle between a library's own, which bring a value to another order.
CONVERTS = ("aot_to_blocked", "aot_from_blocked")


class Chain:
    """A built chain: `run` gives the median of its times, `result` what it computed."""

    def __init__(
        self, vendor: str, model: Path, shapes: dict[str, tuple[int, ...]], work: Path
    ) -> None:
        self.work = work
        work.mkdir(parents=True, exist_ok=True)
        options = Options(name="net", backends=(vendor,), input_shapes=shapes)
        program = compile_to(model, work / "out", options, configure=False).program
        written = _Written(program, LIBRARIES[vendor])
        self.source = program.tensors[written.first]
        self.target = program.tensors[program.outputs[0]]
        (work / "chain.h").write_text(written.text())
        (work / "weights.bin").write_bytes(b"".join(written.rows))
        self.program = work / "chain"
        prefix = Path(os.environ.get(f"{vendor}_ROOT", sys.prefix))
        places = [f"-I{p}" for p in (work, VENDORS / vendor, INCLUDE)]
        library = [f"-L{prefix / 'lib'}", f"-Wl,-rpath,{prefix / 'lib'}", *LIBRARIES[vendor].link]
        source = [f"-isystem{prefix / 'include'}", str(HERE / f"{vendor}_chain.c")]
        command = ["cc", "-O2", "-std=c99", *places, *source, "-o", str(self.program), *library]
        subprocess.run(command, check=True)

    def feed(self, x: np.ndarray) -> None:
        """Keep the input: x of the model, in the order of the first operator's tensor."""
        if x.size != np.prod(self.source.shape):
            raise ValueError("the first operator does not read the input")
        physical = self.source.layout.physical(self.source.shape)
        last = self.source.layout.block and x.shape == self.source.shape
        moved = np.moveaxis(x, 1, -1) if last else x
        assert moved.size == np.prod(physical)
        (self.work / "x.bin").write_bytes(np.ascontiguousarray(moved).tobytes())

    def run(self, runs: int) -> float:
        """Milliseconds of CPU time per run."""
        files = [self.work / name for name in ("weights.bin", "x.bin", "y.bin")]
        command = [str(f) for f in (self.program, *files, runs)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return median(float(line) for line in done.stdout.split())

    def result(self) -> np.ndarray:
        """The values that the last run computed, in one row."""
        return np.fromfile(self.work / "y.bin", self.target.dtype.numpy)


class _Written:
    """chain.h and the constants; ValueError for a call that a chain has no step for."""

    def __init__(self, program: Program, library: Library) -> None:
        self.program, self.kinds = program, library.kinds
        self.made = {s.name: s.create for s in program.states}
        self.numbers: dict[str, int] = {}
        self.places: dict[str, str] = {}
        self.rows: list[bytes] = []
        self.structs: list[str] = []
        self.calls: list[str] = []
        steps = list(program.calls)
        while steps[0].kernel in ARRANGES:
            steps.pop(0)
        self.first = steps[0].reads()[0]
        self._number(self.first)
        for call in steps:
            self._step(call)
        if self._number(program.outputs[0]) != self._count() - 1:
            raise ValueError("the last call does not write the output")

    def text(self) -> str:
        """chain.h."""
        tensors = self.program.tensors
        source, target = tensors[self.first], tensors[self.program.outputs[0]]
        sizes = [int(np.prod(t.shape)) * t.dtype.numpy.itemsize for t in (source, target)]
        shape = source.shape
        head = [
            f"enum {{ VALUES = {self._count()} }};",
            f"enum {{ INPUT_BYTES = {sizes[0]}, OUTPUT_BYTES = {sizes[1]} }};",
            f"enum {{ INPUT_RANK = {len(shape)} }};",
            f"static const int64_t input_shape[] = {{{', '.join(map(str, shape))}}};",
        ]
        start = ["static void build(const char *w) {"]
        return "\n".join([*head, *self.structs, *start, *self.calls, "}", ""])

    def _number(self, tensor: str) -> int:
        return self.numbers.setdefault(self._place(tensor), self._count())

    def _place(self, tensor: str) -> str:
        base, offset = self.program.base(tensor)
        return f"{base}+{offset}"

    def _count(self) -> int:
        """Values of the chain; a converted one is the same value."""
        return len(set(self.numbers.values()))

    def _constant(self, arg: object) -> str:
        """Where a constant lies among all of them."""
        if not isinstance(arg, Arg):
            return "NULL"
        if arg.tensor not in self.places:
            data = np.ascontiguousarray(self.program.consts[arg.tensor]).tobytes()
            self.places[arg.tensor] = f"(const void *)(w + {sum(map(len, self.rows))})"
            self.rows.append(data + bytes(-len(data) % ALIGNED))
        return self.places[arg.tensor]

    def _step(self, call: Call) -> None:
        """Add a call: its parameters, constants, inputs (-1 where it has fewer) and result."""
        if call.kernel in CONVERTS:  # the chain's library arranges a value itself
            self.numbers[self._place(call.writes()[0])] = self._number(call.reads()[0])
            return
        found = (self.made.get(a.state) for a in call.args if isinstance(a, StateArg))
        create = next((c for c in found if c and c.kernel in self.kinds), None)
        if create is None or create.params is None:
            raise ValueError(f"{call.kernel} is no step of a chain")
        name, most = self.kinds[create.kernel]
        at = len(self.structs)
        self.structs.append(_struct(at, create.params))
        operands = [a.tensor for a in call.pointers() if a.access is Access.READ]
        if any(v in self.program.consts for v in operands):
            raise ValueError(f"{call.kernel} of a constant is no step of a chain")
        inputs = [str(self._number(v)) for v in operands]
        consts = [self._constant(a) for a in create.args if not isinstance(a, StateArg)]
        y = self._number(call.writes()[0])
        words = [f"&p{at}", *consts, *inputs, *["-1"] * (most - len(inputs)), str(y)]
        self.calls.append(f"    {name}({', '.join(words)});")


def _struct(i: int, params: Params) -> str:
    fields = ", ".join(
        f".{k} = {{{', '.join(map(_number, v))}}}"
        if isinstance(v, tuple)
        else f".{k} = {_number(v)}"
        for k, v in params.fields
    )
    return f"static const {params.ctype} p{i} = {{{fields}}};"


def _number(v: float) -> str:
    if isinstance(v, int):
        return str(v)
    return "INFINITY" if v == np.inf else "-INFINITY" if v == -np.inf else f"{v!r}f"
