# SPDX-License-Identifier: Apache-2.0
"""The processor computes while AX1 works; what goes wrong there is reported."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from test_offload import S8, SX, conv, outputs

import aot
from aot.cli import main
from aot.errors import VerifyError
from aot.ir.dtypes import U8
from aot.ir.program import WAITS, Access, Arg, Call, Origin, Program, Role, Tensor
from aot.plan.async_overlap import overlap
from aot.target import load_target
from needs import need
from quant_graphs import Net, feeds_of


def beside() -> onnx.ModelProto:
    """Two convolutions for AX1, float32 work that does not need them, and some that does."""
    net = Net(x=(S8, [1, 5, 11, 9]), z=(np.float32, [1, 300]))
    quantised = conv(net, conv(net, "x", 24, 5), 24, 24)
    net.q(net.add("Relu", net.dq(quantised, SX, S8(-3))), SX, S8(-3), out="y")
    free = net.add("Exp", net.add("Sin", net.add("Tanh", "z")))
    most = net.add("ReduceMax", net.dq("y", SX, S8(-3)), np.array([2, 3]), keepdims=0)
    net.add("Concat", free, net.add("Sin", most), out="w", axis=1)
    return net.model(y=S8, w=np.float32)


def order(text: str) -> list[str]:
    """Kernels of the calls of a program's text."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    return [line.split(": ")[1].split("(")[0].split("{")[0] for line in lines if line[0].isdigit()]


def test_what_needs_no_result_runs_in_between(capsys: pytest.CaptureFixture[str]) -> None:
    options = {"backends": ("accel_sim",), "dump_after": "schedule", "configure": False}
    aot.compile(beside(), name="net", **options)
    calls = order(capsys.readouterr().out)
    start, wait = (calls.index(f"ax1v1_256_aot_{half}") for half in ("start", "wait"))
    assert calls[start + 1 : wait] == ["aot_tanh_f32", "aot_sin_f32", "aot_exp_f32"]
    assert calls[wait + 1] == "aot_reduce_max_s8"
    aot.compile(beside(), name="net", **options, objective="ram")
    assert "ax1v1_256_aot_run" in order(capsys.readouterr().out)


@pytest.mark.parametrize("switch", ["ON", "OFF"])
def test_results_are_the_same(switch: str, tmp_path: Path) -> None:
    want, _ = outputs(beside(), tmp_path / "c")
    out = tmp_path / "out"
    model = tmp_path / "net.onnx"
    onnx.save(beside(), model)
    bundle = aot.compile(model, out, backends=("accel_sim",), configure=False)
    line = ["cmake", "-S", str(out / "bundle"), "-B", str(out), f"-DAOT_ACCEL_SIM={switch}"]
    subprocess.run([*line, "-DAOT_WERROR=ON"], check=True, capture_output=True)
    library = bundle.build().load()
    made = [np.array(a) for seed in range(4) for a in library(*feeds_of(beside(), seed).values())]
    for a, b in zip(made, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    if switch == "ON":
        assert main(["verify", str(out)]) == 0
        in_two_threads(bundle, want)


def in_two_threads(bundle: aot.Bundle, want: list[np.ndarray]) -> None:
    """Two contexts of one library share one machine."""
    wrong: list[int] = []

    def work(seed: int) -> None:
        library, feeds = bundle.load(), feeds_of(beside(), seed).values()
        for _ in range(20):
            made = [np.array(a) for a in library(*feeds)]
            if not np.array_equal(made[0], want[2 * seed]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_boards_compute_while_it_works(tmp_path: Path) -> None:
    chip = load_target("cortex-m4")
    need(chip.compiler)
    need(chip.emulator[0])
    want, _ = outputs(beside(), tmp_path / "c")
    out, where = tmp_path / "out", str(tmp_path / "out.npz")
    aot.compile(beside(), out, name="net", target="cortex-m4", backends=("accel_sim",)).build()
    np.savez(tmp_path / "in.npz", **feeds_of(beside(), 0))
    assert main(["run", str(out), "--inputs", str(tmp_path / "in.npz"), "--outputs", where]) == 0
    made = np.load(where)
    np.testing.assert_array_equal(made["y"], want[0])
    np.testing.assert_allclose(made["w"], want[1], rtol=1e-5, atol=1e-6)


MAIN = r"""
#include <stdio.h>
#include "aot_ax1.h"
#include "tvmgen_net.h"
int main(void) {
    static int8_t x[5 * 11 * 9], y[24 * 11 * 9];
    static float z[300], w[324];
    struct tvmgen_net_inputs ins = {x, z};
    struct tvmgen_net_outputs outs = {y, w};
    uint32_t pc, address;
    const int32_t status = tvmgen_net_run(&ins, &outs);
    printf("%s: command ", ax1v1_256_aot_fault(&pc, &address));
    printf("%u, address %u, %s\n", pc / 16, address, aot_status_text((aot_status)status));
    return status != AOT_VENDOR;
}
"""


def test_a_fault_ends_the_run(tmp_path: Path) -> None:
    """A region that is smaller than the compiler said: the machine stops at its border."""
    out = tmp_path / "out"
    bundle = aot.compile(beside(), out, name="net", backends=("accel_sim",), configure=False)
    file = out / "bundle" / "src" / "net_accel_sim.c"
    text = file.read_text()
    assert text.count(" 2376,") == 1
    file.write_text(text.replace(" 2376,", " 2370,"))
    library = bundle.build().load()
    with pytest.raises(VerifyError, match="run returned status"):
        library(*feeds_of(beside()).values())
    main_c = tmp_path / "main.c"
    main_c.write_text(MAIN)
    flags = [f"-I{out}/bundle/include", f"-I{out}/bundle/src/vendor/accel_sim"]
    libraries = [f"{out}/lib/lib{n}.a" for n in ("net", "net_vendors")]
    program = str(tmp_path / "main")
    line = ["cc", *flags, str(main_c), *libraries, "-lm", "-o", program]
    subprocess.run(line, check=True)
    text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert text.startswith("a byte outside its region: command ")


# -- the order, on programs -----------------------------------------------------------------------


def program(*calls: Call) -> Program:
    names = sorted({a.tensor for c in calls for a in c.pointers()})
    tensors = {n: Tensor(n, (8,), U8, Role.SCRATCH if n == "s" else Role.TEMP) for n in names}
    return Program("p", tensors, {}, (), (), calls)


def call(name: str, writes: str, reads: str = "", region: int = -1, **more: object) -> Call:
    args = [Arg(n, Access.WRITE) for n in writes] + [Arg(n, Access.READ) for n in reads]
    backend = "c" if region < 0 else "dev"
    return Call(
        name, tuple(args), None, Origin((name,), ()), region=region, backend=backend, **more
    )


def device(name: str, writes: str, reads: str, region: int) -> Call:
    return call(name, writes, reads, region, status=True, async_kernels=("start", "wait"))


def kernels(p: Program) -> list[str]:
    return [c.kernel for c in p.calls]


def test_both_sides_move() -> None:
    p = program(
        call("a", "a"),
        call("b", "b"),
        device("d", "ds", "a", 0),
        call("c", "c", "b"),
        call("e", "e", "d"),
        call("f", "f", "ec"),
        call("g", "g", "c"),
    )
    made = overlap(p)
    assert kernels(made) == ["a", "start", "b", "c", "g", "wait", "e", "f"]
    wait = made.calls[5]
    assert wait.region == WAITS
    assert made.tensors["s"].role is Role.TEMP
    assert [(a.tensor, a.access.value) for a in wait.pointers()] == [
        ("d", "rw"),
        ("s", "rw"),
        ("a", "r"),
    ]


def test_order_of_writes_is_kept() -> None:
    """e overwrites what d reads; g overwrites what b wrote: neither runs beside them."""
    p = program(
        call("a", "a"), device("d", "d", "a", 0), call("e", "a"), call("b", "b"), call("g", "b")
    )
    assert kernels(overlap(p)) == ["a", "start", "b", "g", "wait", "e"]


def test_nothing_to_do_is_no_reason_to_split() -> None:
    for p in (
        program(call("a", "a"), device("d", "d", "a", 0), call("e", "e", "d")),
        program(device("d", "d", "a", 0), device("e", "e", "b", 1)),
        program(device("d", "d", "a", 0), call("e", "e", "b", status=True)),
    ):
        assert overlap(p) is p
