# SPDX-License-Identifier: Apache-2.0
"""The entries without a context: plain pointers, classic packed, tvm_ffi in every load order."""

from __future__ import annotations

import ctypes as c
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from abi import loader as L
from abi.loader import DLTensor, Library, dl
from abi.test_context import arrays, expected
from needs import need_module


@pytest.fixture
def lib(mixed_out: Path) -> Library:
    return Library(mixed_out, "mixed")


def check(ins: list[np.ndarray], outs: list[np.ndarray]) -> None:
    for got, want in zip(outs, expected(ins), strict=True):
        np.testing.assert_array_equal(got, want)


def struct(arrays: list[np.ndarray | None]) -> c.Array:
    return (c.c_void_p * 3)(*[a.ctypes.data if a is not None else None for a in arrays])


def test_tvmgen_struct_entry(lib: Library) -> None:
    ins, outs = arrays()
    assert lib.c.tvmgen_mixed_run(struct(ins), struct(outs)) == 0
    check(ins, outs)


def test_tvmgen_refuses(lib: Library) -> None:
    ins, outs = arrays()
    assert lib.c.tvmgen_mixed_run(None, struct(outs)) == L.NULL
    assert lib.c.tvmgen_mixed_run(struct(ins), None) == L.NULL
    assert lib.c.tvmgen_mixed_run(struct([ins[0], None]), struct(outs)) == L.NULL
    odd = np.zeros(32, np.uint8)[1:25]
    assert lib.c.tvmgen_mixed_run(struct([odd, ins[1]]), struct(outs)) == L.ALIGN
    assert lib.c.tvmgen_mixed_run(struct(ins), struct([ins[0], *outs[1:]])) == L.OVERLAP
    assert all((a == -7).all() for a in outs)


def test_the_static_instance_runs_in_the_built_in_arena_and_a_context_may_too(lib: Library) -> None:
    context = lib.context()
    assert lib.init_built_in(context) == L.OK
    ins, outs = arrays()
    assert lib.c.tvmgen_mixed_run(struct(ins), struct(outs)) == 0
    check(ins, outs)
    ins, outs = arrays()
    assert lib.run(context, [dl(a) for a in ins], [dl(a) for a in outs]) == L.OK
    check(ins, outs)
    lib.shutdown(context)
    assert lib.c.tvmgen_mixed_run(struct(ins), struct(outs)) == 0


def test_a_second_call_is_busy(lib: Library) -> None:
    ins, outs = arrays()
    lock = lib.variable("taken")
    lock.value = 1  # as an entry in another thread would leave it meanwhile
    assert lib.c.tvmgen_mixed_run(struct(ins), struct(outs)) == L.BUSY
    assert all((a == -7).all() for a in outs)
    lock.value = 0
    assert lib.c.tvmgen_mixed_run(struct(ins), struct(outs)) == 0


def packed(lib: Library, tensors: list[DLTensor | None], codes: list[int]) -> int:
    values = (c.c_void_p * 8)(*[c.addressof(t) if t is not None else None for t in tensors])
    ids = (c.c_int32 * 8)(*codes)
    result, tcode = c.c_int64(77), c.c_int32(88)
    entry = lib.c["tvmgen_mixed___tvm_main__"]
    status = entry(values, ids, len(tensors), c.byref(result), c.byref(tcode), None)
    assert (result.value, tcode.value) == (77, 88)
    return int(status)


@pytest.mark.parametrize("code", [7, 13, 3])
def test_classic_packed(lib: Library, code: int) -> None:
    ins, outs = arrays()
    assert packed(lib, [dl(a) for a in ins + outs], [code] * 5) == 0
    check(ins, outs)


def test_classic_packed_refuses(lib: Library) -> None:
    ins, outs = arrays()
    tensors = [dl(a) for a in ins + outs]
    assert packed(lib, tensors[:4], [7] * 4) == L.BAD_ARGS
    assert packed(lib, tensors, [7, 7, 0, 7, 7]) == L.BAD_ARGS
    assert packed(lib, [*tensors[:4], None], [7] * 5) == L.BAD_ARGS
    tensors[1].dtype.bits = 32
    assert packed(lib, tensors, [7] * 5) == L.DTYPE
    assert lib.c["tvmgen_mixed___tvm_main__"](None, None, 5, None, None, None) == L.NULL
    assert all((a == -7).all() for a in outs)


# -- tvm_ffi: each case in a process of its own, because the order of loading is the point ---------


def python(code: str, *args: str) -> str:
    folder = str(Path(__file__).parent.parent)
    head = f"import sys\nsys.path.insert(0, {folder!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code), *args],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def shared(out: Path) -> str:
    return str(out / "lib" / "libmixed.so")


CALL_AND_FAIL = """
import numpy as np, tvm_ffi
from abi.test_context import arrays, expected
run = tvm_ffi.load_module(sys.argv[1])["mixed_run"]
ins, outs = arrays()
for _ in range(2):
    assert run(*ins, *outs) is None
    for got, want in zip(outs, expected(ins)):
        np.testing.assert_array_equal(got, want)

def error(kind, *args):
    try:
        run(*args)
    except kind as e:
        return str(e)
    raise SystemExit(f"no {kind.__name__}")

text = error(TypeError, *ins)
assert "takes 2 inputs and 3 outputs, got 2 arguments" in text, text
text = error(TypeError, ins[0], 3, *outs)
assert 'argument 1: not a tensor; expected input "n" int64[]' in text, text
text = error(TypeError, ins[0], None, *outs)
assert "argument 1: not a tensor" in text, text
text = error(ValueError, ins[0].astype(np.float64), ins[1], *outs)
assert "argument 0: a tensor has the wrong element type" in text, text
text = error(ValueError, np.zeros((4, 3), np.float32)[::2], ins[1], *outs)
assert "argument 0: a tensor is not compact" in text, text
text = error(ValueError, *ins, outs[0][:1], *outs[1:])
assert 'argument 2: a tensor has the wrong shape; expected output "sum_out"' in text, text
text = error(ValueError, *ins, ins[0], *outs[1:])
assert "argument 2: an output overlaps" in text, text
assert run(*ins, *outs) is None
print("ok")
"""


@pytest.fixture(scope="module")
def tvm_ffi() -> None:
    need_module("tvm_ffi")


def test_tvm_ffi_loaded_first(mixed_out: Path, tvm_ffi: None) -> None:
    assert python(CALL_AND_FAIL, shared(mixed_out)) == "ok\n"


def test_tvm_ffi_loaded_after_the_library(mixed_out: Path, tvm_ffi: None) -> None:
    early = "import ctypes; early = ctypes.CDLL(sys.argv[1])\n"
    assert python(early + textwrap.dedent(CALL_AND_FAIL), shared(mixed_out)) == "ok\n"


LOCAL_HOST = """
import ctypes, importlib.util, pathlib
package = pathlib.Path(importlib.util.find_spec("tvm_ffi").origin).parent
host = ctypes.CDLL(str(next(package.rglob("libtvm_ffi.so"))), mode=ctypes.RTLD_LOCAL)
lib = ctypes.CDLL(sys.argv[1])
result = (ctypes.c_int64 * 2)()
assert lib.__getattr__("__tvm_ffi_mixed_run")(None, None, 0, result) == -1
error = ctypes.c_void_p()
host.TVMFFIErrorMoveFromRaised(ctypes.byref(error))
assert error.value, "no error was raised"

class Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]

texts = [Bytes.from_address(error.value + at) for at in (24, 40)]
kind, message = (ctypes.string_at(t.data, t.size).decode() for t in texts)
assert kind == "TypeError" and "got 0 arguments" in message, (kind, message)
print("ok")
"""


def test_tvm_ffi_loaded_locally(mixed_out: Path, tvm_ffi: None) -> None:
    assert python(LOCAL_HOST, shared(mixed_out)) == "ok\n"


def test_no_tvm_in_the_process(mixed_out: Path) -> None:
    code = """
    import ctypes
    lib = ctypes.CDLL(sys.argv[1])
    result = (ctypes.c_int64 * 2)()
    assert getattr(lib, "__tvm_ffi_mixed_run")(None, None, 0, result) == -1
    print("ok")
    """
    assert python(code, shared(mixed_out)) == "ok\n"


def test_tvm_ffi_accepts_bare_dltensors(lib: Library) -> None:
    class Any(c.Structure):
        _fields_ = [("index", c.c_int32), ("zero", c.c_uint32), ("ptr", c.c_void_p)]

    ins, outs = arrays()
    tensors = [dl(a) for a in ins + outs]
    args = (Any * 5)(*[Any(7, 0, c.addressof(t)) for t in tensors])
    result = Any(0, 0, None)
    entry = lib.c["__tvm_ffi_mixed_run"]
    assert entry(None, args, 5, c.byref(result)) == 0
    assert result.index == 0
    check(ins, outs)
