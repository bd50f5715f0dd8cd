# SPDX-License-Identifier: Apache-2.0
"""`host/selftest_vectors.h`: `--test-data`, on which runner or image tests itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aot.emit_c import ctext, interface
from aot.ir import dtypes
from aot.ir.program import Program, Tensor
from aot.ir.sample import Sample
from aot.shapes.dynamic.input_dims import MOST_AXES, padded

#: (relative, of the largest, absolute) tolerance of floats by dtype; others are exact.
_TOLERANCE = {
    "float32": (1e-3, 1e-4, 1e-6),
    "float16": (1e-2, 1e-2, 1e-6),
    "bfloat16": (0.0, 2.0**-6, 1e-6),
    "float64": (1e-7, 1e-7, 0.0),
}
#: Of the largest, with --accuracy fast.
_FAST = 1e-2


def vector_bytes(program: Program, samples: Sequence[Sample]) -> int:
    """Bytes of all vectors."""
    ins = sum(t.nbytes for t in interface.inputs(program))
    outs = {interface.label(t): t.nbytes for t in interface.outputs(program)}
    return sum(ins + sum(outs[n] for n in s.expected) for s in samples)


def spell_selftest(program: Program, samples: Sequence[Sample], accuracy: str) -> str:
    """The text of the header of the self-test: what `samples` feed and expect, by number of sample.

    An output without an expected value is NULL and is not compared. Tolerances are a row per
    output: relative to the element, relative to the largest element, absolute.
    """
    arrays, ins, outs = list[str](), list[list[str]](), list[list[str]]()
    for k, sample in enumerate(samples):
        given = enumerate(_inputs(program, sample))
        ins.append([_vector(arrays, t, data, f"in{k}_{i}") for i, (t, data) in given])
    for k, sample in enumerate(samples):
        outs.append([])
        for i, t in enumerate(interface.outputs(program)):
            want = sample.expected.get(interface.label(t))
            outs[-1].append("NULL" if want is None else _vector(arrays, t, want, f"out{k}_{i}"))
    tolerances = [_tolerance(t, accuracy) for t in interface.outputs(program)]
    return "\n".join(
        [
            "/* SPDX-License-Identifier: MIT-0 */",
            f"/* {program.name}: inputs and expected outputs of the self-test. */",
            "#ifndef AOT_SELFTEST_VECTORS_H",
            "#define AOT_SELFTEST_VECTORS_H",
            "",
            f"#define AOT_SELFTEST_SAMPLES {len(samples)}",
            "",
            *arrays,
            "",
            _table("unsigned char *const selftest_in", "IN", ins),
            _table("unsigned char *const selftest_out", "OUT", outs),
            *_shapes(program, samples),
            "/* Of floats: relative, of the largest, absolute. */",
            "static const double selftest_tolerance[OUT][3] = {",
            # C has no empty arrays.
            ctext.wrap(tolerances or ["{0.0, 0.0, 0.0}"]),
            "};",
            "",
            "#endif /* AOT_SELFTEST_VECTORS_H */",
            "",
        ]
    )


def _shapes(program: Program, samples: Sequence[Sample]) -> list[str]:
    """The shapes of the inputs, where runs say them; 0 behind the last axis."""
    if not program.dynamic_dims:
        return []
    rows = []
    for sample in samples:
        own = [(*a.shape, *[0] * (MOST_AXES - a.ndim))[:MOST_AXES] for a in sample.inputs]
        rows.append(["{" + ", ".join(map(str, shape)) + "}" for shape in own])
    return [_table("int64_t selftest_shape", f"IN][{MOST_AXES}", rows)]


def _inputs(program: Program, sample: Sample) -> list[tuple[Tensor, np.ndarray[Any, Any]]]:
    """Inputs as a run takes them: elements first, zeros up to the bound."""
    pairs = zip(interface.inputs(program), sample.inputs, strict=True)
    return [(t, padded(a, t.shape)) for t, a in pairs]


def _vector(arrays: list[str], tensor: Tensor, data: np.ndarray[Any, Any], at: str) -> str:
    """Define the bytes of `data` and give their name; equal ones are not shared."""
    raw = np.frombuffer(dtypes.to_bytes(data, tensor.dtype), np.uint8)
    arrays.append(f"{ctext.array(f'selftest_{at}', raw, 8)}")
    return f"selftest_{at}"


def _table(head: str, size: str, rows: Sequence[Sequence[str]]) -> str:
    """A C table of `rows`, each with `size` entries; `head` is type and name."""
    lines = ["{" + (", ".join(row) or "NULL") + "}" for row in rows]
    return f"static const {head}[][{size}] = {{\n{ctext.wrap(lines)}\n}};"


def _tolerance(tensor: Tensor, accuracy: str) -> str:
    """The C initialiser {relative, of the largest magnitude, absolute} of a tensor's tolerance."""
    rtol, of_max, atol = _TOLERANCE.get(str(tensor.dtype), (0.0, 0.0, 0.0))
    if accuracy == "fast" and tensor.dtype.is_float:
        of_max = max(of_max, _FAST)
    return "{" + ", ".join(ctext.float64(v) for v in (rtol, of_max, atol)) + "}"
