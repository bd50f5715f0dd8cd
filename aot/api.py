# SPDX-License-Identifier: Apache-2.0
"""The Python interface: `aot.compile(...)` gives a Bundle to build, load and inspect."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from aot.emit_c.packages import package_files
from aot.emit_c.write import write_bundle
from aot.errors import TargetError, UnsupportedError, UsageError, meant, shell_word
from aot.ir.stages import Progress, silent
from aot.load.source import open_model
from aot.npz import replace_file
from aot.options import Options, Settings
from aot.pipeline import compile_model, partition_model
from aot.plan.budget import check_budgets
from aot.plan.compiled import Compiled
from aot.target import Target, load_target
from aot.tools import build as tree
from aot.tools.compiler import check, settings
from aot.tools.emulate import check_cpu, is_native
from aot.tools.record import MANIFEST, as_written, file_digest, record_of
from aot.tools.report import render
from aot.tools.run import open_out
from aot.tools.shared_library import Library
from aot.tools.unsupported import with_cut

if TYPE_CHECKING:
    import onnx
    import onnx_ir

    #: What `compile` takes as a model: a path, the bytes of a file, or a model in memory.
    Model: TypeAlias = str | os.PathLike[str] | bytes | onnx.ModelProto | onnx_ir.Model


class Bundle:
    """A compiled model in the folder `out`: `out/bundle` is the C project, `out` its build tree.

    `Bundle("out")` opens what an earlier compilation wrote; AotError if there is none.
    `manifest` is the content of `out/bundle/manifest.json` (docs/manifest.schema.json). A notebook
    shows a bundle as a table of inputs, outputs and memory.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        temporary: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.out = Path(out)
        self._temporary = temporary
        self.manifest: dict[str, Any] = tree.read_json(
            self.out / "bundle" / "manifest.json", "bundle"
        )

    def __repr__(self) -> str:
        return f"Bundle({str(self.out)!r}, name={self.manifest.get('name')!r})"

    def _repr_html_(self) -> str:
        return render("bundle.html", manifest=self.manifest)

    def build(self, jobs: int = 0) -> Bundle:
        """Configure if need be, and build; the bundle itself.

        `jobs` files are compiled at a time, 0 leaves it to CMake. Raises BuildError if CMake or
        the compiler is missing or fails.
        """
        if not (self.out / "CMakeCache.txt").is_file():
            tree.configure(self.out, tree.find_tools(), settings=settings(self.out, ""))
        tree.build(self.out, jobs=jobs)
        return self

    def load(self) -> Library:
        """The model as a callable on NumPy arrays or DLPack objects; builds it if needed.

        Raises TargetError if the bundle is for another machine, BuildError if building fails.
        """
        with as_written(self.out):
            built = open_out(self.out)  # another compilation may have replaced the bundle
            if not is_native(built.target):
                raise TargetError(
                    f"{built.name} is built for {built.target.get('name')}: "
                    "it cannot be loaded here",
                    hint="aotc run computes where it belongs, after "
                    f"`cmake --build {shell_word(self.out)}`",
                )
            check_cpu(built.name, built.target)
            if not (self.out / "lib" / f"lib{built.name}.so").is_file():
                self.build()
            return Library(self.out, built.manifest, keep_alive=self)


def compile(  # the public name, as in the interface
    model: Model,
    out: str | os.PathLike[str] | None = None,
    *,
    target: str | None = None,
    backends: str | Sequence[str] = (),
    options: Options | None = None,
    configure: bool = True,
    progress: Progress = silent,
    **more: Unpack[Settings],
) -> Bundle:
    """Compile `model` (a path, bytes, a ModelProto or an onnx_ir.Model) into the folder `out`.

    `target` is a name (`aotc targets`) or the path of a TOML file, else that of `options`, else
    "host". `backends` are vendors in order of preference, or the name of one. `configure` lets
    CMake configure `out`; `progress` is called with the name of each stage. Without `out` the
    bundle lives in a temporary folder as long as the Bundle does. `more` are fields of
    `aot.options.Options` (name, dims, input_shapes, bindings, accuracy, objective …), which replace
    those of `options`. Raises AotError, UsageError for an option that does not exist.
    """
    base = options or Options()
    if not isinstance(base, Options):
        raise UsageError(f"options={options!r}: not of type Options")
    given: dict[str, Any] = dict(more)
    given["target"] = target or base.target
    given["backends"] = backends or base.backends
    unknown = sorted(set(given) - set(Options.__slots__))
    if unknown:
        known = f"it has {', '.join(Options.__slots__)}"
        hint = meant(unknown[0], Options.__slots__, known)
        raise UsageError(f"aot.compile has no option {unknown[0]!r}", hint=hint)
    requested = replace(base, **given)
    temporary = None
    if out is None:
        temporary = tempfile.TemporaryDirectory(prefix="aotc-")
        out = Path(temporary.name) / "out"
    if not isinstance(out, str | os.PathLike):
        raise UsageError(f"out={out!r}: not of type str or PathLike")
    folder = Path(out)
    source = Path(model) if isinstance(model, str | os.PathLike) else model
    compile_to(source, folder, requested, progress, configure)
    return Bundle(folder, temporary)


def compile_to(
    source: Any, out: Path, options: Options, progress: Progress = silent, configure: bool = True
) -> Compiled:
    """Compile `source` and replace what is in `out`; on failure `out` is as it was.

    The stage `options.dump_after` is printed to stdout as soon as it is there.
    """

    target = load_target(options.target)
    tools = (
        tree.find_tools(target.packages, target.compiler, options.compiler) if configure else None
    )
    if configure and options.compiler:
        check(options.compiler, target)
    change = tree.Tree(out)
    change.check()
    if isinstance(source, Path) and _below(source, out / "bundle"):
        raise UsageError(f"{source} lies in {out}/bundle, which is replaced", hint="move the model")

    def watch(stage: str, text: Callable[[], str]) -> None:
        if stage == options.dump_after:
            sys.stdout.write(text())

    opened = open_model(source)
    try:
        compiled = compile_model(opened, options, progress, watch)
    except UnsupportedError as error:
        raise with_cut(error, opened, options, partition_model) from None
    check_budgets(compiled, options, partial(compile_model, opened))
    packages = {kind: package_files(kind, compiled) for kind in options.package}
    progress("write")
    with change:
        old = _old_manifest(out)
        write_bundle(compiled.files, out)
        for kind, files in packages.items():
            write_bundle(files, out / "packages", kind)
        kept = {**record_of(opened, options), "manifest": file_digest(out / MANIFEST)}
        record = json.dumps(kept, indent=1, sort_keys=True) + "\n"
        replace_file(out / tree.RECORD, record.encode())  # not through a link
        if tools is not None:
            progress("configure")
            chosen = settings(out, options.compiler, target)
            tree.configure(out, tools, _toolchain(out, target), settings=chosen)
        change.keep()
    tree.drop_products(out, old)
    return compiled


def _below(source: Path, folder: Path) -> bool:
    """Whether a file is in a folder; what is no file is not."""
    whole = Path(os.path.realpath(folder))  # no error for links in a circle
    return os.path.isfile(source) and whole in source.resolve().parents


def _old_manifest(out: Path) -> Mapping[str, Any]:
    path = out / "bundle" / "manifest.json"
    return tree.read_json(path, "bundle") if path.is_file() else {}


def _toolchain(out: Path, target: Target) -> Path | None:
    """A toolchain file is only for foreign chips: here CC and CFLAGS choose."""
    return None if target.native() else out / "bundle" / "cmake" / "toolchain.cmake"
