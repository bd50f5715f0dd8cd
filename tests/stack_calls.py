# SPDX-License-Identifier: Apache-2.0
"""What kernels take of the stack: every call that a declared case makes, compiled for a target.

Each kernel with its instance constants becomes functions, as in a bundle, and gcc says what they
take (see aot/tools/call_graph.py): one that gets its parameters, and some that know them, whose
loops the compiler unrolls.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "ops")]

import harness  # noqa: E402

from aot.emit_c import ctext  # noqa: E402
from aot.emit_c.kernels import collect as headers_of  # noqa: E402
from aot.emit_c.project import CFLAGS  # noqa: E402
from aot.errors import AotError  # noqa: E402
from aot.ir.program import Arg, Call, Scalar, StateArg  # noqa: E402
from aot.load import load  # noqa: E402
from aot.lower import lower as lowering  # noqa: E402
from aot.normalise import normalise  # noqa: E402
from aot.ops.registry import load_all  # noqa: E402
from aot.options import Options  # noqa: E402
from aot.partition.claims import load_options  # noqa: E402
from aot.partition.control_flow import select_all  # noqa: E402
from aot.plan.stack import outside  # noqa: E402
from aot.plan.stack.declare import row_of  # noqa: E402
from aot.plan.streaming.pushed import push  # noqa: E402
from aot.target import Target  # noqa: E402
from aot.tools.call_graph import CallGraph, deepest, read_graph, short  # noqa: E402

#: Wrappers of one C file.
BATCH = 60
#: Options under which other kernels are chosen.
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"objective": "ram"},
    {"accuracy": "strict"},
    {"accuracy": "fast"},
    {"requant": "tflite"},
)


@dataclass(frozen=True)
class Lowerable:
    """A case, or a `real` model, as far as it is the same for every target."""

    label: str
    graph: Any
    partition: Any
    real: bool = False


def lowerable(jobs: Sequence[harness.Job], options: Options) -> list[Lowerable]:
    """The cases, loaded and partitioned."""
    found = []
    for job in jobs:
        backends = [load_all()]
        model = normalise(load(job.model, load_options(options, backends)))
        partition = select_all(model.graph, backends)
        found.append(Lowerable(job.label, model.graph, partition))
    return found


@contextmanager
def layouts(blocked: bool) -> Iterator[None]:
    """Lowering in which inputs of the graph arrive with blocked channels, if asked for."""
    saved = lowering.assign_layouts
    lowering.assign_layouts = harness._seeded if blocked else saved
    try:
        yield
    finally:
        lowering.assign_layouts = saved


def calls_of(cases: Sequence[Lowerable], target: Target, options: Options) -> Iterator[Call]:
    """Every call that the cases make on the target, some of them more than once, and the call that
    takes rows of a single input (`--push`)."""
    for blocked in (False, True) if target.vlen > 1 else (False,):
        with layouts(blocked):
            for case in cases:
                if case.real and blocked:
                    continue  # its own layers block what they can
                with suppress(AotError):  # what strict accuracy rules out
                    made = lowering.lower("t", case.graph, case.partition, target, options)
                    yield from [c for c in made.every_call() if not c.bodies]
                    for name in made.inputs:
                        yield push(made, made.tensors[name].onnx_name).calls[0]


@dataclass(frozen=True)
class Function:
    """A function of a bundle: what it calls, and whether it knows the call's parameters."""

    call: Call
    fixed: bool


Key = tuple[object, ...]


def signature(call: Call) -> Key:
    """What the calls of a function have in common."""
    kinds = tuple(kind(a) for a in call.args)
    return (call.kernel, call.header, call.instance, kinds, call.params and call.params.ctype)


def functions(calls: Iterable[Call], most: int) -> list[Function]:
    """Functions for the calls: of each signature one that is told, and `most` that know.

    These are of calls that do much and little, by multiply-accumulates and by what parameters say.
    """
    every: dict[Key, dict[object, Call]] = {}
    for call in calls:
        every.setdefault(signature(call), {}).setdefault(call.params, call)
    found = []
    for same in every.values():
        ranked = sorted(same.values(), key=work)
        found.append(Function(ranked[-1], False))
        if ranked[-1].params:
            found += [Function(c, True) for c in spread(ranked, most)]
    return found


def work(call: Call) -> tuple[int, float]:
    """How much a call does, about."""
    values = [v for _, v in call.params.fields] if call.params else []
    flat = [x for v in values for x in (v if isinstance(v, tuple) else (v,))]
    return call.macs, sum(float(x) for x in flat if isinstance(x, int) and 0 < x < 65536)


def spread(ranked: Sequence[Call], most: int) -> list[Call]:
    """The last of the calls, and others at equal distances."""
    if len(ranked) <= most:
        return list(ranked)
    step = (len(ranked) - 1) / max(1, most - 1)
    return [ranked[len(ranked) - 1 - round(i * step)] for i in range(most)]


def kind(arg: Arg | Scalar | StateArg) -> str:
    """The C type of an argument of the wrapper."""
    if isinstance(arg, Scalar):
        return "" if arg.ctype.replace(" ", "") == "void*" else arg.ctype
    return "const void *" if isinstance(arg, Arg) and arg.access.value == "read" else "void *"


def text(given: Sequence[Function]) -> str:
    """A C file with the functions w<i>."""
    headers = headers_of(f.call.header or f"{f.call.kernel}.h" for f in given)
    lines = ["#include <math.h>", "#include <stddef.h>", "#include <stdint.h>"]
    lines += [f'#include "{n}"' for n in headers.direct]
    for i, function in enumerate(given):
        call = function.call
        declared, passed = [], []
        for j, arg in enumerate(call.args):
            own = kind(arg)
            passed.append(f"a{j}" if own else "NULL")
            declared += [f"{own} a{j}"] if own else []
        if call.params and function.fixed:
            kinds = headers.fields.get(call.params.ctype, {})
            fields = [f".{k} = {ctext.field(v, kinds.get(k, ''))}" for k, v in call.params.fields]
            lines.append(f"static const {call.params.ctype} p{i} = {{{', '.join(fields)}}};")
            passed.append(f"&p{i}")
        elif call.params:
            declared.append(f"const {call.params.ctype} *p")
            passed.append("p")
        passed += [str(v) for _, v in call.instance]
        result = "aot_status" if call.status else "void"
        lines.append(f"AOT_NOINLINE {result} w{i}({', '.join(declared) or 'void'});")
        lines.append(f"AOT_NOINLINE {result} w{i}({', '.join(declared) or 'void'}) {{")
        returned = "return " if call.status else ""
        lines.append(f"    {returned}{call.kernel}({', '.join(passed)});\n}}")
    return "\n".join(lines) + "\n"


def compile_graph(source: str, target: Target, level: str, folder: Path, cc: str = "") -> CallGraph:
    """The call graph of a C file, compiled as a bundle is."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "calls.c"
    file.write_text(source)
    includes = [f"-I{ROOT}/runtime_c/include", f"-I{ROOT}/runtime_c/kernels"]
    includes.append(f"-I{ROOT}/runtime_c/src")
    command = [cc or compiler_of(target), "-std=c99", "-w", level, "-ffp-contract=fast", *CFLAGS]
    command += [*target.cflags, f"-DAOT_VLEN={target.vlen}", *includes]
    command += ["-fPIC"] if not target.board else []
    # Tiles of single floats take the most where long sums are cut (--accuracy strict).
    command += ["-DAOT_STRICT"] if target.vlen == 1 else []
    command += ["-fcallgraph-info=su", "-c", "-o", str(folder / "calls.o"), str(file)]
    subprocess.run(command, check=True)
    return read_graph([folder / "calls.ci"])


def compiler_of(target: Target) -> str:
    """The gcc that builds for the target."""
    return target.compiler or "gcc"


def depths(given: Sequence[Function], target: Target, level: str, folder: Path) -> dict[str, int]:
    """Row of the table → the most bytes that one of its functions takes, callees included.

    Functions that aot/plan/stack/outside.py does not know fail a KeyError.
    """
    found: dict[str, int] = {}
    for first in range(0, len(given), BATCH):
        part = given[first : first + BATCH]
        graph = compile_graph(text(part), target, level, folder)
        for i, call in enumerate(f.call for f in part):
            taken = deepest(graph, f"w{i}", assumed(call.kernel)).bytes
            taken += pushed(call) if target.arch == "arm" else 0
            row = row_of(call)
            found[row] = max(taken, found.get(row, 0))
    return found


def pushed(call: Call) -> int:
    """Bytes that assembly of the call's headers may push."""
    files = headers_of([call.header or f"{call.kernel}.h"]).files.values()
    return outside.ASSEMBLY if any(b'"push {' in text for text in files) else 0


def assumed(kernel: str) -> Callable[[str], int]:
    """What a function outside takes; unknown ones are an error."""

    def of(name: str) -> int:
        taken = outside.of(short(name))
        if taken < 0:
            raise KeyError(f"{kernel} calls {name}: aot/plan/stack/outside.py does not know it")
        return taken

    return of
