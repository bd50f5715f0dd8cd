# SPDX-License-Identifier: Apache-2.0
"""Weights by blocks: streams hold what they were made of, the right calls get them, the checker
finds planted faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import aot
from aot.errors import InternalError
from aot.ir.check_fetch import decode
from aot.ir.check_program import check_program
from aot.ir.fetch import Fetch
from aot.ir.program import Call, Program
from aot.options import Options
from aot.pipeline import compile_model
from aot.plan.fetch.codes import LONGEST, code_lengths, encode
from fetched_graphs import layers

RNG = np.random.default_rng(5)
ARRAYS = {
    "bell": RNG.normal(0, 9, 5000).round().astype(np.int8),
    "flat": RNG.integers(-128, 128, 3000).astype(np.int8),
    "sparse": (RNG.normal(0, 40, 4096) * (RNG.random(4096) < 0.05)).astype(np.int8),
    "four bits": RNG.integers(-8, 8, 3001).astype(np.int8),
    "zero": np.zeros(100, np.int8),
    "one": np.array([-128], np.int8),
    "biases": RNG.normal(0, 9000, 777).astype(np.int32),
    "halves": RNG.integers(-900, 900, 400).astype(np.int16),
    "floats": RNG.normal(0, 0.05, 1500).astype(np.float32),
    "sparse floats": (RNG.normal(0, 1, 1500) * (RNG.random(1500) < 0.1)).astype(np.float32),
}


@pytest.mark.parametrize("hurry", [False, True])
@pytest.mark.parametrize("name", ARRAYS)
def test_a_stream_holds_the_array(name: str, hurry: bool) -> None:
    data = ARRAYS[name]
    made = encode(data, hurry)
    assert made is not None and made.longest <= LONGEST
    values = np.fromiter(decode(made.data.tobytes(), data.size, made.runs), np.int64)
    kind = f"i{data.dtype.itemsize}"
    assert (values.astype(kind) == data.view(kind)).all()


def test_streams_are_near_the_entropy() -> None:
    for name, bits in (("bell", 5.22), ("sparse", 0.9), ("zero", 0.2)):
        data = ARRAYS[name]
        made = encode(data, False)
        assert made is not None and made.data.nbytes * 8 < 1.05 * bits * data.size + 600
    assert encode(np.zeros(8, np.float64), False) is None


def test_four_bits_stay_two_in_a_byte() -> None:
    data = RNG.normal(0, 3, 4000).round().clip(-8, 7).astype(np.int8)
    made, short = encode(data, True), encode(data, False)
    assert made is not None and short is not None
    assert made.flat and made.data.nbytes == 4 + 8 + 2000
    assert not short.flat and short.data.nbytes < made.data.nbytes
    ternary = encode((data > 3).astype(np.int8) - (data < -3).astype(np.int8), True)
    assert ternary is not None and not ternary.flat  # a bit and a half


def test_lengths_are_those_of_a_complete_code() -> None:
    for longest in (6, 8, 11):
        counts = RNG.geometric(0.2, 60) ** 3 * (RNG.random(60) < 0.9)
        lengths = code_lengths(counts, longest)
        used = lengths[lengths > 0]
        assert used.max() <= longest and (0.5**used).sum() == 1
        assert ((lengths > 0) == (counts > 0)).all()


def program_of(**options: object) -> Program:
    made = compile_model(layers(), Options(name="net", target="cortex-m4", **options))  # type: ignore[arg-type]
    return made.program


@pytest.fixture(scope="module")
def packed() -> Program:
    return program_of(objective="flash")


def fetching(program: Program) -> dict[str, Fetch]:
    return {c.kernel: c.fetches[0] for c in program.calls if c.fetches}


def test_kernels_of_channels_decode_by_blocks(packed: Program) -> None:
    found = fetching(packed)
    kernels = {"aot_qconv_s8__dsp", "aot_qconv_epilogue_s8__dsp", "aot_qfc_s8__dsp"}
    assert kernels <= found.keys()
    assert all(found[k].blocks > 1 for k in ("aot_qconv_epilogue_s8__dsp", "aot_qfc_s8__dsp"))
    assert all(f"    {f.text()}" in packed.text().splitlines() for f in found.values())


def test_other_options_leave_weights_as_they_are() -> None:
    for options in ({"objective": "latency"}, {"objective": "flash", "push": "x"}):
        assert not fetching(program_of(**options))


def test_a_budget_of_ram_goes_before_flash(packed: Program) -> None:
    plain = compile_model(layers(), Options(name="net", target="cortex-m4", objective="latency"))
    codes = compile_model(layers(), Options(name="net", target="cortex-m4", objective="flash"))
    need = [c.plan.arena_bytes + c.manifest["memory"]["stack_bytes"] for c in (plain, codes)]
    assert need[0] < need[1]
    ram = (need[0] + need[1]) // 2
    options = Options(name="net", target="cortex-m4", objective="flash", ram=ram)
    made = compile_model(layers(), options)
    assert not fetching(made.program) and made.plan.arena_bytes == plain.plan.arena_bytes


def test_a_call_that_slices_must_cut_does_not_decode() -> None:
    whole = program_of(objective="flash")
    macs = max(c.macs for c in whole.calls if c.fetches)
    cut = program_of(objective="flash", slice_macs=macs - 1)
    large = [i for i, c in enumerate(cut.calls) if c.macs >= macs]
    assert large and not any(cut.calls[i].fetches for i in large)
    assert all(sum(s.call == i for s in cut.slices) > 1 for i in large)
    assert fetching(cut)


def changed(program: Program, index: int, call: Call) -> Program:
    calls = (*program.calls[:index], call, *program.calls[index + 1 :])
    return replace(program, calls=calls)


def test_the_checker_finds_planted_faults(packed: Program) -> None:
    check_program(packed)
    for index, call in enumerate(packed.calls):
        if not call.fetches:
            continue
        own = call.fetches[0]
        more = [(arg, 99_999) for arg, _ in own.split.moves] or [(own.into, 1)]
        faults = {
            "no scratch memory": replace(own, step=own.step + own.split.units),
            "no room for the table": replace(own, longest=own.longest + 1),
            "the source is no constant": replace(own, source=own.table),
            "an argument is missing": replace(own, source=99),
            "other weights": replace(own, digest=own.digest ^ 1),
            "does not move|leaves": replace(own, split=replace(own.split, moves=tuple(more))),
        }
        for says, fetch in faults.items():
            with pytest.raises(InternalError, match=says):
                check_program(changed(packed, index, replace(call, fetches=(fetch,))))
        name = call.args[own.source].tensor  # type: ignore[union-attr]
        damaged = np.array(packed.consts[name])
        damaged[len(damaged) // 2] ^= 8
        with pytest.raises(InternalError, match="other weights"):
            check_program(replace(packed, consts={**packed.consts, name: damaged}))


def test_the_manifest_lists_them(tmp_path) -> None:  # type: ignore[no-untyped-def]
    bundle = aot.compile(
        layers(), tmp_path, name="net", target="cortex-m4", objective="flash", configure=False
    )
    rows = [f for n in bundle.manifest["nodes"] for f in n.get("fetches", ())]
    assert rows and all(r["stored_bytes"] < r["bytes"] for r in rows)
    assert all(r["blocks"] * r["block_bytes"] >= r["bytes"] for r in rows)
