# SPDX-License-Identifier: Apache-2.0
"""What a hostile model was compiled to: built with warnings as errors, loaded, run, compared."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from aot.ir.dtypes import from_bytes, from_name
from fuzz.agreed import is_float
from fuzz.corrected import evaluator
from fuzz.oracles import difference

#: Sources above this are checked for syntax only: what is tested is the text, not the optimiser.
BIG = 3 << 20
#: Arrays above this are not filled, models above not given to the reference.
MOST = 64 << 20
MOST_MACS = 10**9
LARGE = 1e20
REFERENCE_SECONDS = 60
FLAGS = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O0", "-fPIC"]


def scan(bundle: Path) -> list[str]:
    """Faults of the files' text: bytes that are neither printable ASCII nor newline."""
    faults = []
    for path in sorted(p for p in bundle.rglob("*") if p.parent.name != "kernels"):
        if path.suffix in (".c", ".h", ".txt", ".cmake", ".j2"):
            odd = re.search(rb"[^\x20-\x7e\n\t]", path.read_bytes())
            if odd:
                faults.append(f"{path.name} holds the byte {odd[0]!r}")
    json.loads((bundle / "manifest.json").read_text())
    return faults


def build(bundle: Path, place: Path) -> Path | None:
    """The shared library of the bundle's C sources, compiled without CMake for speed."""
    name = manifest(bundle)["name"]
    text = (bundle / "CMakeLists.txt").read_text()
    sources = sorted((bundle / "src").glob("*.c"))
    source_folder = bundle / "src"
    flags = [
        f"-I{bundle / 'include'}",
        f"-I{source_folder}",
        f"-Wa,-I{source_folder}",
        *_wanted(text),
    ]
    if sum(p.stat().st_size for p in sources) > BIG:
        for source in sources:
            _run(["gcc", *FLAGS, *flags, "-fsyntax-only", str(source)])
        return None
    library = place / f"lib{name}.so"
    _run(["gcc", *FLAGS, *flags, *map(str, sources), "-shared", "-o", str(library), "-lm", "-ldl"])
    return library


def _wanted(cmake: str) -> list[str]:
    """Definitions and machine flags that the bundle's CMake gives its sources."""
    found = re.findall(r"AOT_VLEN=\d+", cmake)[:1]
    machine = re.findall(r"-m(?:arch|cpu)=[\w.+-]+", cmake)[:1]
    return [*(f"-D{d}" for d in found), *machine]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="backslashreplace")
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[-8:])}: {done.stderr[:500]}")


def manifest(bundle: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bundle / "manifest.json").read_text())
    return found


def run(bundle: Path, library: Path | None, path: Path) -> str:
    """ "compared", "differs …" or why neither."""
    if library is None:
        return "syntax only"
    described = manifest(bundle)
    name = described["name"]
    loaded = ctypes.CDLL(str(library))
    total = sum(_bytes(t) for t in (*described["inputs"], *described["outputs"]))
    macs = sum(n.get("macs", 0) for n in described["nodes"])
    if total > MOST or described["memory"]["arena_bytes"] > 8 * MOST or macs > MOST_MACS:
        return "too big to run"
    rng = np.random.default_rng(3)
    ins = [_filled(t, rng) for t in described["inputs"]]
    outs = [np.zeros(max(1, _bytes(t)), np.uint8) for t in described["outputs"]]
    status = loaded[f"tvmgen_{name}_run"](_struct(ins), _struct(outs))
    if status != 0:
        return f"status {status}"
    wanted = reference(path, ins)
    if isinstance(wanted, str):
        return wanted
    for tensor, raw, want in zip(described["outputs"], outs, wanted, strict=False):
        if not isinstance(want, np.ndarray) or want.dtype.kind not in "biufV":
            return "not comparable"
        got = from_bytes(
            raw[: _bytes(tensor)].tobytes(), from_name(tensor["dtype"]), tensor["shape"]
        )
        if tuple(tensor["shape"]) != want.shape or got.dtype != want.dtype:
            return "not comparable"
        why = difference(got, want)
        if why:
            return f"differs: {why}"
    return "compared"


def _bytes(tensor: dict[str, Any]) -> int:
    found: int = tensor["nbytes"]
    return found


def _struct(arrays: list[np.ndarray]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))


def _filled(tensor: dict[str, Any], rng: np.random.Generator) -> np.ndarray:
    """Small numbers where NumPy knows the type, else zeros."""
    raw = np.zeros(max(1, _bytes(tensor)), np.uint8)
    dtype = from_name(tensor["dtype"])
    if dtype.numpy.kind in "fiu" and not dtype.packed:
        typed = raw[: _bytes(tensor)].view(dtype.numpy)
        floats = dtype.numpy.kind == "f"
        typed[...] = rng.uniform(-1, 1, typed.shape) if floats else rng.integers(0, 2, typed.shape)
    return raw


def reference(path: Path, ins: list[np.ndarray]) -> list[Any] | str:
    """onnx.reference's answer, or why there is none."""
    if path.stat().st_size > 4 << 20:
        return "too big for the reference"
    model = onnx.load(str(path))
    held = {t.name for t in model.graph.initializer}
    names = [v for v in model.graph.input if v.name not in held]
    texts = any(v.type.tensor_type.elem_type == onnx.TensorProto.STRING for v in names)
    if texts or len(names) != len(ins) or len(model.graph.node) > 3000:
        return "not comparable"
    feeds = {}
    for value, raw in zip(names, ins, strict=True):
        kind = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        dims = [d.dim_value for d in kind.shape.dim]
        count = int(np.prod(dims, dtype=np.int64))
        if count * dtype.itemsize > raw.nbytes:
            return "not comparable"
        feeds[value.name] = raw[: count * dtype.itemsize].view(dtype).reshape(dims)
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(REFERENCE_SECONDS)  # it takes minutes for a loop of a million steps
    try:
        os.environ["OMP_NUM_THREADS"] = "1"
        arrays = [numpy_helper.to_array(t) for t in model.graph.initializer]
        if is_extreme(model, arrays):
            return "numbers that every order of sums makes others of"
        with np.errstate(
            invalid="raise", divide="raise", over="raise"
        ):  # whose quantised values nobody says
            found: list[Any] = evaluator(model, [*feeds.values(), *arrays]).run(None, feeds)
    except Exception as error:  # its word is asked for, not its health
        return f"the reference has no answer: {type(error).__name__} {error}"[:200].replace(
            "\n", " "
        )
    finally:
        signal.alarm(0)
    return found


def _late(_number: int, _frame: object) -> None:
    raise TimeoutError("too slow")


def is_extreme(model: onnx.ModelProto, arrays: list[np.ndarray]) -> bool:
    """Whether a constant or an attribute is no finite number or a very large one."""
    with np.errstate(all="ignore"):
        if not all((np.abs(a.astype(np.float64)) < LARGE).all() for a in arrays if is_float(a)):
            return True
    attributes = [a for n in model.graph.node for a in n.attribute]
    return any(not abs(v) < LARGE for a in attributes for v in (a.f, *a.floats))
