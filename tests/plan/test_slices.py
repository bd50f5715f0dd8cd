# SPDX-License-Identifier: Apache-2.0
"""Slices below a row, of calls without rows and of calls in place; the note of the longest one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from aot.errors import InternalError
from aot.ir.check_slices import check_slices
from aot.options import Options
from aot.pipeline import Compiled, compile_model
from quant_graphs import Net
from sliced_graphs import DEEP, DENSE, POINT, columns, parts


def compiled(target: str, bound: int, model: onnx.ModelProto | None = None) -> Compiled:
    return compile_model(model or parts(), Options(name="net", target=target, slice_macs=bound))


@pytest.mark.parametrize("target", ["cortex-m4", "rv32imac", "cortex-m0"])
def test_rows_then_pixels_and_channels(target: str) -> None:
    made = compiled(target, 720)
    assert [s.end for s in made.program.slices if s.macs == 720] == [1, 2, 3, 4, 5]  # rows
    made = compiled(target, 256)
    cut = {}
    for index, call in enumerate(made.program.calls):
        cut[call.macs] = [s for s in made.program.slices if s.call == index]
    assert [s.end for s in cut[POINT]][-1] == 25  # pixels, of which two are 256 multiplications
    assert max(s.macs for s in cut[POINT]) <= 256
    assert [s.end for s in cut[DEEP]][:4] == [2, 4, 5, 7]  # pixels of a row, two of which are 288
    assert len(cut[DENSE]) == 1
    assert made.manifest["slices"]["longest_macs"] == 400  # the pooling
    whole = {c.macs: len([s for s in cut[c.macs] if s.end]) for c in made.program.calls}
    assert whole[DENSE] == 0
    fine = compiled(target, 100)
    assert sum(fine.program.calls[s.call].macs == DENSE for s in fine.program.slices) > 1


def test_rows_are_cut_where_they_would_be_in_place() -> None:
    whole, cut = compiled("rv32imac", 0), compiled("rv32imac", 1000)
    (deep,) = (i for i, c in enumerate(cut.program.calls) if c.macs == DEEP)
    assert whole.program.calls[deep].inplace and not cut.program.calls[deep].inplace
    assert not any(s.call == deep for s in cut.plan.inplace)


def test_a_bound_below_two_pixels_is_answered_with_the_real_one() -> None:
    (note,) = compiled("cortex-m4", 300, columns()).manifest["notes"]
    assert note == (
        "--slice-macs 300: node Conv_6 needs 4608 multiplications at a time: the shortest "
        "part of its result is the longest slice"
    )
    assert "notes" not in compiled("cortex-m4", 4608, columns()).manifest


def test_channels_are_cut_where_rows_are_narrow() -> None:
    made = compiled("cortex-m4", 600, columns())
    *_, narrow = (i for i, c in enumerate(made.program.calls) if c.macs == 4096)
    split = made.program.calls[narrow].splits[0]
    assert (split.line, split.units) == (4, 8)  # blocks of four channels, two rows
    assert [s.macs for s in made.program.slices if s.call == narrow] == [512] * 8


def test_threads_share_no_parts_of_a_row() -> None:
    options = Options(name="net", target="host", slice_macs=700, threads=2)
    made = compile_model(columns(), options)
    assert not any(split.line for call in made.program.calls for split in call.splits)


def test_a_call_that_cannot_be_cut_is_named() -> None:
    net = Net(x=(np.float32, (1, 40)))
    net.add("TopK", "x", np.array([3]), out=["values", "indices"])
    (note,) = compiled("cortex-m4", 7, net.model(values=np.float32)).manifest["notes"]
    assert note.startswith("--slice-macs 7: node ") and note.endswith(
        " needs 40 multiplications at a time: its call, which cannot be cut, is the longest slice"
    )


def test_the_checker_finds_planted_faults() -> None:
    made = compiled("cortex-m4", 256)
    slices = made.program.slices
    first = next(k for k, s in enumerate(slices) if s.end == 25)
    faults = {
        "is next": slices[first:],
        "makes 25 rows": (*slices[:first], replace(slices[first], end=26), *slices[first + 1 :]),
        "slices end before": slices[:-1],
        "in lines of 5": (*slices[: first + 1], replace(slices[first + 1], end=6)),
    }
    for text, wrong in faults.items():
        with pytest.raises(InternalError, match=text):
            check_slices(replace(made.program, slices=wrong), made.plan)
