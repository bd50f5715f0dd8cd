# SPDX-License-Identifier: Apache-2.0
"""`bundle.load()` gave a library with 2- and 4-bit tensors one element per byte, where it packs two
or four: uint4 [1..6] computed as [1, 0, 2, 0, 3, 0], and what came back was as wrong. An array of
ml_dtypes was refused: "uint4[6] (needs uint4[6])". Every type gives what `aotc run` gives.
"""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import aot
from aot.errors import AotError
from aot.ir import dtypes
from aot.tools.run import Built, execute, open_out

Array = np.ndarray[Any, Any]
KINDS = dtypes.ALL


def bits_of(kind: dtypes.DType, count: int = 15) -> Array:
    """Elements of all kinds of bits, as `aotc run` takes them."""
    rng = np.random.default_rng(kind.onnx)
    if kind.name == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if kind.packed:
        return rng.integers(0, 1 << kind.bits, count, np.uint8)
    raw = rng.integers(0, 256, count * kind.nbytes, np.uint8)
    return raw.view(kind.numpy if kind.in_numpy else f"u{kind.nbytes}")


def elements(bits: Array, kind: dtypes.DType) -> Array:
    """The same values as NumPy or ml_dtypes has them."""
    return dtypes.from_bytes(dtypes.to_bytes(bits, kind), kind, bits.shape)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Built]:
    """A model that reshapes a [3, 5] of every type, and computes with packed ones, loaded and as
    a program."""
    info = helper.make_tensor_value_info
    node = helper.make_node
    nodes = [node("Reshape", [f"x_{k.name}", "shape"], [f"y_{k.name}"]) for k in KINDS]
    for kind in dtypes.PACKED:
        name = kind.name
        nodes.append(node("Cast", [f"x_{name}"], [f"f_{name}"], to=TensorProto.FLOAT))
        nodes.append(node("Neg", [f"f_{name}"], [f"n_{name}"]))
        nodes.append(node("Cast", [f"n_{name}"], [f"c_{name}"], to=kind.onnx))
    floats = [info(f"f_{k.name}", TensorProto.FLOAT, [3, 5]) for k in dtypes.PACKED]
    graph = helper.make_graph(
        nodes,
        "g",
        [info(f"x_{k.name}", k.onnx, [3, 5]) for k in KINDS],
        [info(f"y_{k.name}", k.onnx, [5, 3]) for k in KINDS]
        + floats
        + [info(f"c_{k.name}", k.onnx, [3, 5]) for k in dtypes.PACKED],
        [numpy_helper.from_array(np.array([5, 3], np.int64), "shape")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=12)
    out = tmp_path_factory.mktemp("every") / "out"
    return aot.compile(made, out, name="every").load(), open_out(out)


def same(found: Array, wanted: Array) -> None:
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    assert found.tobytes() == wanted.tobytes()


class Borrowed:
    """A tensor of another library: nothing but DLPack, of types that NumPy does not know."""

    def __init__(self, bits: Array, kind: dtypes.DType, device: int = 1) -> None:
        self._memory = np.frombuffer(dtypes.to_bytes(bits, kind), np.uint8)
        self._shape = (ctypes.c_int64 * bits.ndim)(*bits.shape)
        self._head = np.zeros(64, np.uint8)
        struct.pack_into(
            "PiiiBBHPPQPP", self._head.data, 0, self._memory.ctypes.data, device, 0, bits.ndim,
            kind.dl_code, kind.bits, 1, ctypes.addressof(self._shape), 0, 0, 0, 0,
        )  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_how: Any) -> Any:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = (
            ctypes.py_object,
            (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        )
        return make(self._head.ctypes.data, b"dltensor", None)


@pytest.mark.parametrize("form", ["bits", "elements", "dlpack"])
def test_every_type_as_run_computes_it(every: tuple[Any, Built], form: str) -> None:
    net, built = every
    raw = [bits_of(k).reshape(3, 5) for k in KINDS]
    given: list[Any] = raw
    if form == "elements":
        given = [elements(x, k) for x, k in zip(raw, KINDS, strict=True)]
    if form == "dlpack":
        given = [Borrowed(x, k) for x, k in zip(raw, KINDS, strict=True)]
    found = net(*given)
    for got, wanted in zip(found, execute(built, raw), strict=True):
        same(got, wanted)
    for got, x in zip(found, raw, strict=False):
        same(got, x.reshape(5, 3))


def test_packed_elements_are_computed_with(every: tuple[Any, Built]) -> None:
    net, _ = every
    raw = [bits_of(k).reshape(3, 5) for k in KINDS]
    found = dict(zip((s.name for s in net.outputs), net(*raw), strict=True))
    for x, kind in zip(raw, KINDS, strict=True):
        if kind.packed:
            wanted = elements(x, kind).astype(np.float32)
            np.testing.assert_array_equal(found[f"f_{kind.name}"], wanted)
            if kind.short.startswith("s"):
                back = elements(found[f"c_{kind.name}"], kind).astype(np.float32)
                least = -(1 << (kind.bits - 1))
                np.testing.assert_array_equal(back, np.where(wanted == least, least, -wanted))


def test_results_in_arrays_of_the_callers(every: tuple[Any, Built]) -> None:
    net, _ = every
    raw = [bits_of(k).reshape(3, 5) for k in KINDS]
    plain = net(*raw)
    for own in (True, False):  # of ml_dtypes, raw bits
        names = [s.dtype for s in net.outputs]
        kinds = [dtypes.from_name(n) for n in names]
        results = tuple(
            np.zeros(r.shape, k.numpy if own else r.dtype)
            for r, k in zip(plain, kinds, strict=True)
        )
        for found, result, wanted, kind in zip(
            net(*raw, out=results), results, plain, kinds, strict=True
        ):
            assert found is result
            same(found, elements(wanted, kind) if own else wanted)


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        ("uint4", np.zeros((3, 5), np.int8), r"int8\[3, 5\] .needs uint4\[3, 5\], as raw bits in "
         r"uint8 or as ml_dtypes.uint4"),
        ("uint4", np.zeros((3, 5), ml_dtypes.int4), "int4.* .needs uint4"),
        ("int2", np.zeros(4, np.uint8), r"uint8\[4\] .needs int2\[3, 5\], as raw bits"),
        ("bfloat16", np.zeros((3, 5), "f4"), "as raw bits in uint16 or as ml_dtypes.bfloat16"),
        ("float16", np.zeros((3, 5), ml_dtypes.bfloat16), "bfloat16.* .needs float16"),
        ("uint8", np.zeros((3, 5), ml_dtypes.float8_e4m3fn), r"needs uint8\[3, 5\]\)"),
        ("float8e5m2", np.zeros((3, 5), ml_dtypes.float8_e4m3fn), "as ml_dtypes.float8_e5m2"),
        ("bool", np.zeros((3, 5), np.uint8), r"uint8\[3, 5\] .needs bool\[3, 5\]\)"),
        ("uint4", Borrowed(np.zeros((3, 5), np.uint8), dtypes.U4, device=2), "on the CPU"),
        ("uint4", [1, 2, 3], "a list, not an array"),
    ],
)  # fmt: skip
def test_what_does_not_fit(every: tuple[Any, Built], kind: str, given: Any, says: str) -> None:
    net, _ = every
    arrays: list[Any] = [bits_of(k).reshape(3, 5) for k in KINDS]
    arrays[[k.name for k in KINDS].index(kind)] = given
    with pytest.raises(AotError, match=f"^input 'x_{kind}'.*{says}"):
        net(*arrays)


def test_strings_and_sequences(tmp_path: Path) -> None:
    made = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (string[2] t, seq(float[3]) s, uint4[5] u, bool[2] b) =>
          (string[2] v, seq(float[3]) r, int64 n, bool[2] c, int64[1, K] where) {
            v = StringConcat(t, t)
            r = SequenceMap(s)<body = each (float[3] p) => (float[3] q) { q = Neg(p) }>
            n = SequenceLength(s)
            c = Not(b)
            f = Cast<to = 1>(u)
            where = NonZero(f)
        }"""
    )
    net = aot.compile(made, tmp_path / "out", name="net", max_sequence=2, max_string=8).load()
    texts = np.zeros((2, 8), np.uint8)
    texts[0, :2] = list("é".encode())
    given = [
        texts, np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32),
        np.array(1), np.array([0, 3, 15, 0, 1], np.uint8), np.array([True, False]),
    ]  # fmt: skip
    found = net(*given)
    for got, wanted in zip(found, execute(open_out(tmp_path / "out"), given), strict=True):
        same(got, wanted)
    assert bytes(found[0][0]).rstrip(b"\0").decode() == "éé"
    assert found[-1].tolist() == [[1, 2, 4]]
    with pytest.raises(AotError, match=r"needs uint8\[2, 8\], rows of UTF-8"):
        net(np.array(["a", "b"]), *given[1:])
