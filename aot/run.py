# SPDX-License-Identifier: Apache-2.0
"""Running a built bundle where it belongs: its program, arrays in and arrays out by raw files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aot import dtypes
from aot.build import read_json
from aot.errors import AotError, BuildError, TargetError
from aot.npz import read_npy, read_npz, write_bytes, write_npy, write_npz
from aot.target import NAMES, load_target

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Spec:
    """An input or output of a bundle, by its ONNX name."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of its arrays; types NumPy lacks are raw bits."""
        known = dtypes.from_name(self.dtype)
        return np.dtype("uint16") if known is dtypes.BF16 else known.numpy

    @property
    def nbytes(self) -> int:
        """Bytes of its raw file."""
        count = 1
        for d in self.shape:
            count *= d
        return count * self.array_dtype.itemsize


def specs(manifest: Mapping[str, Any], key: str) -> tuple[Spec, ...]:
    """The `inputs` or `outputs` of a manifest."""
    return tuple(Spec(e["name"], tuple(e["shape"]), e["dtype"]) for e in manifest[key])


@dataclass(frozen=True, slots=True)
class Built:
    """A built OUT: its manifest and its program."""

    out: Path
    manifest: dict[str, Any]

    @property
    def name(self) -> str:
        """The bundle's C prefix."""
        return str(self.manifest["name"])

    @property
    def inputs(self) -> tuple[Spec, ...]:
        """Inputs in order."""
        return specs(self.manifest, "inputs")

    @property
    def outputs(self) -> tuple[Spec, ...]:
        """Outputs in order."""
        return specs(self.manifest, "outputs")

    def program(self, suffix: str = "") -> Path:
        """`bin/NAME`, or BuildError with the command to type."""
        path = self.out / "bin" / (self.name + suffix)
        if not path.is_file():
            target = f" --target {self.name}{suffix}" if suffix else ""
            raise BuildError(
                f"{self.out} is not built: bin/{self.name}{suffix} is missing",
                hint=f"cmake --build {self.out}{target}",
            )
        return path


def open_out(out: Path) -> Built:
    """The bundle in `out`; AotError if aotc wrote none there."""
    return Built(out, read_json(out / "bundle" / "manifest.json", "bundle"))


def check_cpu(built: Built) -> None:
    """TargetError if this machine cannot execute the bundle."""
    target = built.manifest.get("target", {})
    if target.get("cpu") not in NAMES:
        return  # a user's own chip: its file said how to build, not what it needs to run
    missing = load_target(str(target["cpu"])).missing_flags()
    if missing:
        raise TargetError(
            f"{built.name} is built for {target.get('cpu')}, this CPU lacks {', '.join(missing)}",
            hint="compile with --target host",
        )


def start(built: Built, arguments: Sequence[str], suffix: str = "") -> str:
    """Run the bundle's program and give what it prints; AotError if it fails or is killed."""
    check_cpu(built)
    program = built.program(suffix)
    try:
        done = subprocess.run(
            [str(program.resolve()), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise BuildError(f"cannot start {program}: {error.strerror}") from error
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise AotError(f"{program} was killed by signal {-done.returncode} ({name})")
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise AotError(f"{program} failed: {last[0]}")
    return done.stdout


def execute(built: Built, arrays: Sequence[Array], trace: Path | None = None) -> list[Array]:
    """Run once on `arrays` (in the order of the inputs); the outputs in order.

    With `trace`, the trace program also writes every intermediate tensor to that folder.
    """
    with scratch(built.out) as folder:
        arguments: list[str] = []
        for i, array in enumerate(arrays):
            path = Path(folder) / f"i{i}.bin"
            path.write_bytes(np.ascontiguousarray(array).tobytes())
            arguments += ["--input", f"{i}={path}"]
        for i in range(len(built.outputs)):
            arguments += ["--output", f"{i}={folder}/o{i}.bin"]
        if trace is not None:
            arguments += ["--trace", str(trace)]
        start(built, arguments, "-trace" if trace is not None else "")
        return [read_raw(Path(folder) / f"o{i}.bin", s) for i, s in enumerate(built.outputs)]


def scratch(out: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder that goes away, inside OUT: nothing is written elsewhere unless OUT is read-only."""
    inside = os.access(out, os.W_OK | os.X_OK)
    return tempfile.TemporaryDirectory(prefix=".aotc-", dir=out if inside else None)


def read_raw(path: Path, spec: Spec) -> Array:
    """A raw row-major file as an array; AotError if it has not exactly the bytes needed."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AotError(f"cannot read {path}: {error.strerror}") from error
    if len(data) != spec.nbytes:
        raise AotError(
            f"{spec.name}: {path} holds {len(data)} bytes "
            f"(needs {spec.nbytes} for {spec.dtype}{list(spec.shape)})"
        )
    return np.frombuffer(data, spec.array_dtype).reshape(spec.shape)


def conform(array: Array, spec: Spec, where: str) -> Array:
    """`array` as input `spec` takes it; AotError names the difference. Nothing is converted."""
    wanted = spec.array_dtype
    if (
        array.dtype != wanted
        and array.dtype.itemsize == wanted.itemsize
        and array.dtype.kind == "V"
    ):
        array = array.view(wanted)
    if array.dtype != wanted and wanted.name == "uint16" and array.dtype.name == spec.dtype:
        array = array.view(wanted)
    if array.dtype != wanted or array.shape != spec.shape:
        raise AotError(
            f"input {spec.name!r}: {array.dtype}{list(array.shape)} "
            f"(needs {spec.dtype}{list(spec.shape)})",
            where,
        )
    return array


def read_inputs(built: Built, sources: Sequence[str]) -> list[Array]:
    """The arrays of all inputs from `IN.npz` or `X=file.npy|.bin` arguments."""
    by_name = {s.name: s for s in built.inputs}
    found: dict[str, Array] = {}
    for source in sources:
        for name, array in _read_source(source, by_name).items():
            if name not in by_name:
                raise AotError(
                    f"{name!r} is no input of {built.name}", source, f"inputs: {_list(by_name)}"
                )
            found[name] = conform(array, by_name[name], source)
    missing = [n for n in by_name if n not in found]
    if missing:
        raise AotError(f"input {missing[0]!r} is not given", hint=f"inputs: {_list(by_name)}")
    return [found[s.name] for s in built.inputs]


def _list(names: Mapping[str, Spec]) -> str:
    shown = [f"{s.name} {s.dtype}{list(s.shape)}" for s in names.values()]
    return ", ".join(shown[:6]) + (" …" if len(shown) > 6 else "")


def _read_source(source: str, by_name: Mapping[str, Spec]) -> dict[str, Array]:
    name, equals, file = source.rpartition("=")
    if not equals:
        return read_npz(Path(source))
    if file.endswith(".npy"):
        return {name: read_npy(Path(file))}
    if name not in by_name:
        return {name: np.empty(0)}
    return {name: read_raw(Path(file), by_name[name])}


def write_outputs(built: Built, arrays: Sequence[Array], targets: Sequence[str]) -> None:
    """Write the outputs to `OUT.npz` or `Y=file.npy|.bin` arguments."""
    named = {s.name: a for s, a in zip(built.outputs, arrays, strict=True)}
    for target in targets:
        name, equals, file = target.rpartition("=")
        if not equals:
            write_npz(Path(target), named)
        elif name not in named:
            raise AotError(
                f"{name!r} is no output of {built.name}", target, f"outputs: {', '.join(named)}"
            )
        elif file.endswith(".npy"):
            write_npy(Path(file), named[name])
        else:
            write_bytes(Path(file), named[name].tobytes())


def timed(built: Built, repeat: int, warmup: int = 1, seed: int = 0) -> dict[str, Any]:
    """The program's own timing of `repeat` runs on seeded inputs (nanoseconds)."""
    arguments = ["--fill", str(seed), "--repeat", str(repeat), "--warmup", str(warmup)]
    text = start(built, arguments)
    try:
        value: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise AotError(f"bin/{built.name} --repeat printed no JSON") from error
    return value
