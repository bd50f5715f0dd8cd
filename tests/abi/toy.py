# SPDX-License-Identifier: Apache-2.0
"""Hand-made programs, planned by hand, and how to build what is emitted for them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aot.emit_c.project import emit_c
from aot.emit_c.resources import runtime_c
from aot.emit_c.write import write_bundle
from aot.ir.dtypes import F32, S64, U8, DType
from aot.ir.plan import Sharing
from aot.ir.program import (
    Access,
    Arg,
    Call,
    FieldValue,
    Origin,
    Params,
    Program,
    Role,
    Scalar,
    Tensor,
    View,
)
from aot.options import Options
from aot.plan.fallback import RegionFallback
from aot.target import load_target

KERNELS = str(Path(__file__).with_name("kernels") / "aot_toy.h")
RUNTIME = runtime_c()
R, W = Access.READ, Access.WRITE


@dataclass(frozen=True, slots=True)
class Place:
    memory: str
    offset: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The fields of aot.ir.plan.Plan that emission reads."""

    placements: dict[str, Place]
    arena_bytes: int
    lower_bound_bytes: int = 0
    logical_bound_bytes: int = 0
    optimal: bool = True
    alignment: int = 64
    schedule_optimal: bool = True
    inplace: tuple[Sharing, ...] = ()
    rows: None = None
    parts: tuple[()] = ()

    def at(self, offset: int) -> tuple[int, int]:
        """The first memory has every byte."""
        return 0, offset


def stacked(program: Program) -> Plan:
    """A plan in which nothing shares memory."""
    places, end = {}, 0
    for t in program.tensors.values():
        if t.role in (Role.TEMP, Role.SCRATCH) and t.view is None:
            places[t.name] = Place("arena", end)
            end += -(-t.nbytes // 64) * 64
    return Plan(places, end)


class Maker:
    """Collects tensors and calls of one program."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensors: dict[str, Tensor] = {}
        self.consts: dict[str, np.ndarray] = {}
        self.calls: list[Call] = []

    def tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        role: Role,
        dtype: DType = F32,
        onnx: str = "",
        view: View | None = None,
    ) -> str:
        self.tensors[name] = Tensor(name, shape, dtype, role, view=view, onnx_name=onnx or name)
        return name

    def const(self, name: str, data: np.ndarray) -> str:
        from aot.ir.dtypes import DType

        self.consts[name] = data
        return self.tensor(name, data.shape, Role.CONST, DType.from_numpy(data.dtype))

    def call(
        self,
        kernel: str,
        *args: Arg | Scalar,
        params: dict[str, FieldValue] | None = None,
        node: str = "",
        header: str = KERNELS,
        status: bool = False,
        **instance: int,
    ) -> None:
        made = Params(f"{kernel}_params", tuple(params.items())) if params else None
        origin = Origin((node or f"node{len(self.calls)}",), ("Toy",))
        self.calls.append(
            Call(kernel, args, made, origin, tuple(instance.items()), header=header, status=status)
        )

    def program(self, inputs: list[str], outputs: list[str]) -> Program:
        return Program(
            self.name,
            self.tensors,
            self.consts,
            tuple(inputs),
            tuple(outputs),
            tuple(self.calls),
            vlen=4,
        )


NULL = Scalar(0, "void *")


def mlp(name: str = "net", n_in: int = 5, hidden: int = 64, seed: int = 0) -> Program:
    """y[3] = w2 relu(w1 x + b1): small tables and, for hidden >= 512, a file of constants."""
    rng = np.random.default_rng(seed)
    m = Maker(name)
    m.tensor("x", (1, n_in), Role.INPUT, onnx="in put/x")
    m.tensor("h", (1, hidden), Role.TEMP, onnx="hidden")
    m.tensor("y", (1, 3), Role.OUTPUT)
    m.const("w1", rng.standard_normal((hidden, n_in), np.float32))
    m.const("b1", rng.standard_normal(hidden, np.float32))
    m.const("w2", rng.standard_normal((3, hidden), np.float32))
    dense = "aot_toy_dense"
    m.call(
        dense, Arg("h", W), Arg("x", R), Arg("w1", R), Arg("b1", R),
        params={"n": hidden, "k": n_in, "scale": 1.0}, node="fc1", RELU=1,
    )  # fmt: skip
    m.call(
        dense, Arg("y", W), Arg("h", R), Arg("w2", R), NULL,
        params={"n": 3, "k": hidden, "scale": 0.1}, node="fc2", RELU=0,
    )  # fmt: skip
    return m.program(["x"], ["y"])


def mlp_reference(program: Program, x: np.ndarray) -> np.ndarray:
    c = program.consts
    h = np.maximum(c["w1"] @ x.reshape(-1) + c["b1"], 0)
    return (np.float32(0.1) * (c["w2"] @ h)).reshape(1, 3)


def mixed(name: str = "mixed") -> Program:
    """Two inputs (one int64), three outputs, views, scratch, a kernel with a status, non-finite
    and 64-bit parameters, a value passed by value, a copy."""
    m = Maker(name)
    m.tensor("a", (2, 3), Role.INPUT)
    m.tensor("n", (), Role.INPUT, S64)
    m.tensor("s", (2, 3), Role.TEMP)
    m.tensor("v", (6,), Role.TEMP, view=View("s", 0))
    m.tensor("tmp", (48,), Role.SCRATCH, U8)
    m.tensor("sum_out", (2, 3), Role.OUTPUT)
    m.tensor("tail", (1, 2), Role.OUTPUT)
    m.tensor("count", (), Role.OUTPUT, S64)
    m.const("c", np.array([[1, -2, 3], [4.5, 1e-45, -3e38]], np.float32))
    m.call(
        "aot_toy_sum", Arg("s", W), Arg("a", R), Arg("c", R), Arg("tmp", W),
        params={"n": 6, "bias": (0.1, -0.1), "limit": float("inf")}, status=True,
    )  # fmt: skip
    m.call(
        "aot_toy_sum", Arg("sum_out", W), Arg("v", R), Arg("a", R), Arg("tmp", W),
        params={"n": 6, "bias": (0.0, 0.0), "limit": 10.0}, status=True,
    )  # fmt: skip
    m.call("aot_copy", Arg("tail", W), Arg("v", R, 16), params={"bytes": 8}, header="aot_copy.h")
    m.call("aot_toy_count", Arg("count", W), Arg("n", R), Scalar(-(2**63), "int64_t"))
    return m.program(["a", "n"], ["sum_out", "tail", "count"])


def emit(program: Program, target: str = "x86-64", plan: Plan | None = None, **options: object):
    """The files of a bundle."""
    regions = {(c.backend, c.region) for c in program.calls if c.region >= 0}
    return emit_c(
        program,
        plan or stacked(program),  # type: ignore[arg-type]
        load_target(target),
        Options(**options),  # type: ignore[arg-type]
        fallbacks=[
            RegionFallback(region, vendor, reason="made by hand")
            for vendor, region in sorted(regions)
        ],
    )


def build(
    program: Program, out: Path, *args: str, compiler: str = "gcc", cflags: str = "", **kw: object
) -> Path:
    """Write and build the bundle of `program` under `out`, warnings being errors."""
    write_bundle(emit(program, **kw), out)  # type: ignore[arg-type]
    configure(out / "bundle", out, "-DAOT_WERROR=ON", *args, compiler=compiler, cflags=cflags)
    run("cmake", "--build", str(out))
    return out


def configure(source: Path, out: Path, *args: str, compiler: str = "gcc", cflags: str = "") -> None:
    env = {**os.environ, "CC": compiler, "CFLAGS": cflags}
    run("cmake", "-S", str(source), "-B", str(out), *args, env=env)


def run(*command: str, **kw: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **kw)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


WARNINGS = ["-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wdouble-promotion"]
