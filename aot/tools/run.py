# SPDX-License-Identifier: Apache-2.0
"""Running a built bundle where it belongs: its program, arrays in and arrays out by raw files."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aot.emit_c.manifest import SCHEMA_VERSION
from aot.errors import AotError, BuildError, shell_word
from aot.ir import dtypes
from aot.ir.graph_nodes import Array
from aot.npz import read_npy, read_npz, write_bytes, write_npy, write_npz
from aot.shapes.dynamic.input_dims import padded
from aot.tools import emulate
from aot.tools.build import build, read_json, scratch
from aot.tools.elf_image import explain_fault
from aot.tools.faults import failure, of_vendor


@dataclass(frozen=True, slots=True)
class Spec:
    """An input or output of a bundle, by its ONNX name.

    On the axes `dynamic_axes` the data (of an input: the caller) decide how long it is; `shape` has
    their bounds, `least` the lower ones. The rows of `texts` are strings.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    dynamic_axes: tuple[int, ...] = ()
    least: tuple[int, ...] = ()
    texts: bool = False

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape is one of its arrays."""
        least = self.least or (0,) * len(self.shape)
        return len(shape) == len(self.shape) and all(
            low <= n <= d if axis in self.dynamic_axes else n == d
            for axis, (n, d, low) in enumerate(zip(shape, self.shape, least, strict=True))
        )

    def text(self) -> str:
        """`float32[1, 2..64]`."""
        least = self.least or (0,) * len(self.shape)
        dims = (
            f"{low}..{d}" if axis in self.dynamic_axes else str(d)
            for axis, (d, low) in enumerate(zip(self.shape, least, strict=True))
        )
        return f"{self.dtype}[{', '.join(dims)}]"

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of its arrays; types NumPy lacks are raw bits, a byte each at least."""
        known = dtypes.from_name(self.dtype)
        if known.in_numpy:
            return known.numpy
        return np.dtype("uint16" if known.bits == 16 else "uint8")

    @property
    def first(self) -> tuple[int, ...]:
        """The shape of a state before the first run: nothing along axes that runs decide."""
        return tuple(0 if a in self.dynamic_axes else n for a, n in enumerate(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes of its raw file."""
        count = 1
        for d in self.shape:
            count *= d
        return (count * dtypes.from_name(self.dtype).bits + 7) // 8


def specs(manifest: Mapping[str, Any], key: str) -> tuple[Spec, ...]:
    """The `inputs` or `outputs` of a manifest."""
    known = manifest.get("dimensions", ()) if key == "inputs" else ()
    lower = {tuple(place): d["least"] for d in known for place in d["axes"]}
    return tuple(
        Spec(
            e["name"],
            tuple(e["shape"]),
            e["dtype"],
            tuple(e.get("extents", ())),
            tuple(lower.get((i, axis), 0) for axis, _ in enumerate(e["shape"])),
            bool(e.get("text", False)),
        )
        for i, e in enumerate(manifest[key])
    )


def check_dimensions(manifest: Mapping[str, Any], arrays: Sequence[Array]) -> None:
    """AotError if inputs do not agree on a dimension that they have in common."""
    for d in manifest.get("dimensions", ()):
        found = {arrays[i].shape[axis]: (i, axis) for i, axis in d["axes"]}
        if len(found) > 1:
            (one, first), (two, second) = list(found.items())[:2]
            names = [manifest["inputs"][i]["name"] for i, _ in (first, second)]
            what = f"dimension {d['name']!r} is {one} in {names[0]!r}, {two} in {names[1]!r}"
            raise AotError(f"{what}: inputs must agree")


@dataclass(frozen=True, slots=True)
class Built:
    """A built OUT: its manifest and its program.

    `level` is the level of the CPU to run where the bundle has several, "" for the last one that
    this CPU has. `runner` is the command that runs programs, "" for this machine or an emulator.
    """

    out: Path
    manifest: dict[str, Any]
    level: str = ""
    runner: str = ""

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

    @property
    def states(self) -> dict[str, tuple[Spec, str]]:
        """Inputs that runs keep for themselves, each with the output that the next run gets."""
        found = self.manifest.get("states", [])
        read = specs({"states": found}, "states")
        return {s.name: (s, str(e["output"])) for s, e in zip(read, found, strict=True)}

    @property
    def target(self) -> Mapping[str, Any]:
        """What the manifest says about the chip."""
        found: Mapping[str, Any] = self.manifest.get("target", {})
        return found

    @property
    def board(self) -> bool:
        """Whether the program is an image for a board."""
        return emulate.is_board(self.target)

    def program(self, suffix: str = "") -> Path:
        """`bin/NAME` (`bin/NAME.elf` on boards), or BuildError with the command to type."""
        file = self.name + suffix + (".elf" if self.board else "")
        path = self.out / "bin" / file
        if not path.is_file():
            target = f" --target {self.name}{suffix}" if suffix else ""
            raise BuildError(
                f"{self.out} is not built: bin/{file} is missing",
                hint=f"`cmake --build {shell_word(self.out)}{target}`",
            )
        return path


def open_out(out: Path) -> Built:
    """The bundle in `out`; AotError if aotc wrote none there."""
    path = out / "bundle" / "manifest.json"
    manifest = read_json(path, "bundle")
    name, schema = manifest.get("name"), str(manifest.get("schema", SCHEMA_VERSION))
    if schema.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        what = f"{path} has schema {schema[:20]}, this aotc reads {SCHEMA_VERSION}"
        raise AotError(what, hint="compile again with this aotc")
    if "models" in manifest:
        what = f"{out} has several models, which `aotc link` made one project of"
        raise AotError(what, hint="give the folder that one of them was compiled into")
    if not (isinstance(name, str) and re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name)):
        raise AotError(f"{path} is not as aotc wrote it", "its name", "compile again")
    return Built(out, manifest)


def start(
    built: Built, arguments: Sequence[str], suffix: str = "", folder: Path | None = None
) -> str:
    """Run the bundle's program and give what it prints; AotError if it fails, is killed or hangs.

    Files among the arguments are relative to `folder`.
    """
    program = built.program(suffix)
    if built.runner:
        command = emulate.by_runner(built.runner, built.target, program, arguments)
    else:
        command = emulate.command(built.name, built.target, program, arguments)
    # A board's program that goes wrong may never end; on a host the user sees that and stops it.
    limit = emulate.patience() if built.board else None
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd=folder,
            env={**os.environ, "AOT_LEVEL": built.level} if built.level else None,
            timeout=limit,
            stdin=subprocess.DEVNULL,  # a program that reads would wait for ever
        )
    except OSError as error:
        raise BuildError(f"cannot start {command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise AotError(f"{program} was stopped after {limit or 0:.0f} seconds") from error
    if done.returncode != 0:
        by = f" (by --runner {built.runner})" if built.runner else ""
        text = failure(f"{program}{by}", done.returncode, done.stderr)
        if built.board:
            text = explain_fault(text, program, built.out / "bundle" / "src")

        def traced(place: str) -> None:
            if "--trace" not in arguments:  # else this was the trace
                build(built.out, f"{built.name}-trace")
                trace = os.path.relpath(place, folder or Path())
                start(built, [*_unmeasured(arguments), "--trace", trace], "-trace", folder)

        raise AotError(text, *of_vendor(built.manifest, built.out, done.stderr, traced))
    return done.stdout


def _unmeasured(arguments: Sequence[str]) -> list[str]:
    """Pairs of a program's option and its value, without those of measurements."""
    pairs = zip(arguments[::2], arguments[1::2], strict=False)
    measures = ("--repeat", "--warmup", "--profile", "--report")
    return [word for pair in pairs if pair[0] not in measures for word in pair]


def execute(built: Built, arrays: Sequence[Array], trace: Path | None = None) -> list[Array]:
    """Run once on `arrays` (in the order of the inputs); the outputs in order.

    With `trace`, the trace program also writes every intermediate tensor to that folder.
    """
    return stream(built, [arrays], trace)[0]


def stream(
    built: Built, steps: Sequence[Sequence[Array]], trace: Path | None = None
) -> list[list[Array]]:
    """The outputs of each of `steps` (inputs in order), run in one context, so that states are
    handed on.

    With `trace` the trace program writes every intermediate result to that file.
    """
    with scratch(built.out) as place:
        folder = Path(place)
        arguments = ["--steps", str(len(steps))] if len(steps) > 1 else []
        arguments += _write_inputs(built, steps, folder)
        for i, spec in enumerate(built.outputs):
            arguments += ["--output", f"{i}=o{i}.bin"]
            arguments += ["--shape", f"{i}=s{i}.bin"] if spec.dynamic_axes else []
        if trace is not None:
            # Relative, because a board gets its arguments as one line of words.
            arguments += ["--trace", os.path.relpath(trace, folder)]
        start(built, arguments, "-trace" if trace is not None else "", folder)
        return [
            [_result(folder, i, s, k, len(steps)) for i, s in enumerate(built.outputs)]
            for k in range(len(steps))
        ]


def _result(folder: Path, index: int, spec: Spec, step: int, steps: int) -> Array:
    """What the program wrote of output `index`, in its true shape."""
    array = read_raw(folder / f"o{index}.bin", spec, step, steps)
    if not spec.dynamic_axes:
        return array
    shape = Spec(f"the shape of {spec.name}", (len(spec.shape),), "int64")
    return cropped(array, read_raw(folder / f"s{index}.bin", shape, step, steps))


def cropped(array: Array, shape: Array) -> Array:
    """The elements at the beginning of an array at its bound, in their true shape."""
    true = tuple(int(d) for d in shape)
    return array.reshape(-1)[: math.prod(true)].reshape(true)


def _write_inputs(built: Built, steps: Sequence[Sequence[Array]], folder: Path) -> list[str]:
    """Raw files of the inputs of all steps, and the arguments that name them.

    The names are relative to `folder`, where programs run; for a runner, which may start elsewhere,
    they are whole.
    """
    arguments = []
    before = f"{folder.resolve()}/" if built.runner else ""
    for arrays in steps:
        check_dimensions(built.manifest, arrays)
    for i, spec in enumerate(built.inputs):
        kind = dtypes.from_name(spec.dtype)
        data = b"".join(dtypes.to_bytes(at_bound(arrays[i], spec), kind) for arrays in steps)
        (folder / f"i{i}.bin").write_bytes(data)
        arguments += ["--input", f"{i}={before}i{i}.bin"]
        if spec.dynamic_axes:
            shapes = np.array([arrays[i].shape for arrays in steps], np.int64)
            (folder / f"e{i}.bin").write_bytes(dtypes.to_bytes(shapes, dtypes.S64))
            arguments += ["--extents", f"{i}={before}e{i}.bin"]
    return arguments


def at_bound(array: Array, spec: Spec) -> Array:
    """`array` in the shape `spec.shape`: its elements in row-major order, then zeros to the end of
    memory.

    The elements are not spread along the axes. Unchanged if the tensor has no dynamic axes.
    """
    return padded(array, spec.shape) if spec.dynamic_axes else array


def read_raw(path: Path, spec: Spec, step: int = 0, steps: int = 1) -> Array:
    """A raw row-major file as an array; AotError if it has not exactly the bytes needed.

    The file may hold `steps` arrays one after the other, of which number `step` is meant.
    """
    try:
        with path.open("rb") as file:  # a device has no end
            data = file.read(spec.nbytes * steps + 1)
    except OSError as error:
        raise AotError(f"cannot read {path}: {error.strerror}") from error
    if len(data) != spec.nbytes * steps:
        raise AotError(
            f"{spec.name}: {path} holds {_held(path, len(data))} bytes "
            f"(needs {spec.nbytes * steps} for {spec.dtype}{list(spec.shape)})"
        )
    data = data[step * spec.nbytes : (step + 1) * spec.nbytes]
    known = dtypes.from_name(spec.dtype)
    if known.packed:
        return dtypes.unpack_bits(np.frombuffer(data, np.uint8), known, spec.shape)
    return np.frombuffer(data, spec.array_dtype).reshape(spec.shape)


def _held(path: Path, read: int) -> str:
    """How many bytes a file holds of which `read` were read; what is no file does not say."""
    return str(path.stat().st_size) if path.is_file() else f"{read} or more"


def conform(
    array: Array, spec: Spec, where: str = "", what: str = "input", bound: bool = False
) -> Array:
    """`array` as `what` `spec` takes it; AotError names the difference. Nothing is converted.

    Elements of a type that NumPy lacks may be of ml_dtypes, raw bits, or void as NumPy's files
    have them. With `bound` a shape below the bounds does not fit.
    """
    wanted = spec.array_dtype
    given, known = array.dtype, dtypes.from_name(spec.dtype)
    named = given.isnative and given.name == known.np_name  # which says nothing of bytes' order
    nameless = not known.in_numpy and given.type is np.void and given.itemsize == wanted.itemsize
    if given != wanted and (named or nameless):
        array = array.view(wanted)
    fits = array.shape == spec.shape if bound else spec.fits(array.shape)
    if array.dtype != wanted or not fits:
        needs = f"{spec.dtype}{list(spec.shape)}" if bound else spec.text()
        found = f"{array.dtype}{list(array.shape)}"
        raise AotError(f"{what} {spec.name!r}: {found} (needs {needs}{_spelling(spec)})", where)
    return array


def _spelling(spec: Spec) -> str:
    """How an array holds the elements of a type that NumPy lacks, after its name."""
    known = dtypes.from_name(spec.dtype)
    if spec.texts:
        return ", rows of UTF-8 that zeros fill up"
    if known.in_numpy:
        return ""
    return f", as raw bits in {spec.array_dtype} or as ml_dtypes.{known.np_name}"


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
    """Names and types of the first six inputs, for a message."""
    shown = [f"{s.name} {s.text()}" for s in names.values()]
    return ", ".join(shown[:6]) + (" …" if len(shown) > 6 else "")


def _read_source(source: str, by_name: Mapping[str, Spec]) -> dict[str, Array]:
    """Arrays by name from `IN.npz`, `X=FILE.npy` or `X=FILE.bin`."""
    name, equals, file = source.rpartition("=")
    if not equals:
        return read_npz(Path(source))
    if file.endswith(".npy"):
        return {name: read_npy(Path(file))}
    if name not in by_name:
        return {name: np.empty(0)}
    return {name: read_raw(Path(file), by_name[name])}


def write_outputs(
    built: Built, runs: Sequence[tuple[str, Sequence[Array]]], targets: Sequence[str]
) -> None:
    """Write the outputs of runs (label of the sample, arrays) to `OUT.npz` or `Y=file.npy|.bin`.

    Keys of several runs are s<k>/NAME; a single array of them has no place in a file of its own.
    """
    if len(runs) > 1:
        every = {
            f"{label}/{s.name}": a
            for label, arrays in runs
            for s, a in zip(built.outputs, arrays, strict=True)
        }
        for target in targets:
            if "=" in target:
                hint = "one .npz takes all of them: --outputs results.npz"
                raise AotError(f"outputs of {len(runs)} samples in one file", target, hint)
            write_npz(Path(target), every)
        return
    named = {s.name: a for s, a in zip(built.outputs, runs[0][1], strict=True)}
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
            known = next(s.dtype for s in built.outputs if s.name == name)
            write_bytes(Path(file), dtypes.to_bytes(named[name], dtypes.from_name(known)))


def timed(
    built: Built, repeat: int, warmup: int = 1, arrays: Sequence[Array] = ()
) -> dict[str, Any]:
    """The program's own timing of `repeat` runs: nanoseconds, on boards ticks.

    The inputs are `arrays`; on hosts, without them, what the program makes up.
    """
    counted = ["--repeat", str(repeat), "--warmup", str(warmup)]
    if built.board:
        return _report(built, arrays, counted, "--report")
    return _printed(built, arrays, counted)


def profiled(built: Built, repeat: int, arrays: Sequence[Array] = ()) -> dict[str, Any]:
    """What every call of a run takes, by the trace program: nanoseconds, on boards ticks."""
    if built.board:
        return _report(built, arrays, [], "--profile", "-trace")
    return _printed(built, arrays, ["--profile", str(repeat)], "-trace")


def _printed(
    built: Built, arrays: Sequence[Array], arguments: Sequence[str], suffix: str = ""
) -> dict[str, Any]:
    """What a host's program prints."""
    if not arrays:
        return _json(built, start(built, ["--fill", "0", *arguments], suffix))
    with scratch(built.out) as place:
        words = [*_write_inputs(built, [arrays], Path(place)), *arguments]
        return _json(built, start(built, words, suffix, Path(place)))


def _report(
    built: Built, arrays: Sequence[Array], arguments: Sequence[str], option: str, suffix: str = ""
) -> dict[str, Any]:
    """What a board writes to the file of `option`."""
    with scratch(built.out) as place:
        folder = Path(place)
        words = [*_write_inputs(built, [arrays], folder), *arguments, option, "report.json"]
        start(built, words, suffix, folder)
        return _json(built, (folder / "report.json").read_text("ascii", errors="replace"))


def _json(built: Built, text: str) -> dict[str, Any]:
    """The JSON object that the program printed; AotError if it printed none."""
    try:
        value: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise AotError(f"bin/{built.name} printed no JSON") from error
    return value
