# SPDX-License-Identifier: Apache-2.0
"""Several bundles as one project: one arena of the largest size, equal constants stored once.

The bundles are copied and relocated: an arena, a state or a constant is a number in their sources.
One model owns the arena, and the models share its lower part, for only one of them runs at a time.
States are behind that part, each in a place of its own:

    0                              shared      states of a   states of b   total
    | values of whoever runs       |           |             |             |

A model whose states lie among other values has an arena of its own behind all that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aot.emit_c import board
from aot.emit_c.manifest import SCHEMA_VERSION, dump, sources_of
from aot.emit_c.render import render
from aot.emit_c.write import File, sha256, write_bundle
from aot.errors import AotError, UsageError
from aot.plan.board_memory import Needs, check_fit
from aot.target import Target, load_target
from aot.tools import build as tree
from aot.tools.compiler import settings
from aot.tools.record import MANIFEST, options_of
from aot.tools.run import open_out
from aot.version import __version__

#: Of the board's files, those that an image needs beside a program of the user's.
_START = ("board/startup.c", "board/semihost.c", "board/board.h")


@dataclass(frozen=True, slots=True)
class Model:
    """A bundle that takes part: its manifest, and its files by path.

    `at` is the byte of the shared arena where the model's own begins, `states` the bytes of it
    where its states are, `constants` (owner, offset) of its constants in the file of an owner.
    """

    out: Path
    name: str
    manifest: dict[str, Any]
    files: Mapping[str, bytes]
    at: int = 0
    states: tuple[int, ...] = ()
    shared_bytes: int = 0

    @property
    def memory(self) -> dict[str, Any]:
        """The record of memory in the manifest."""
        found: dict[str, Any] = self.manifest["memory"]
        return found

    @property
    def whole(self) -> int:
        """Bytes of the model's arena, with portable C in the vendors' place too."""
        return max(int(self.memory["arena_bytes"]), int(self.memory["portable_arena_bytes"]))

    @property
    def apart(self) -> bool:
        """Whether the model needs an arena of its own."""
        return self.memory["states"] is None

    @property
    def scratch(self) -> int:
        """Bytes of the arena that other models may use between runs."""
        portable = int(self.memory["portable_arena_bytes"])
        own = int(self.memory["scratch_bytes"])
        return portable if portable > int(self.memory["arena_bytes"]) else own


@dataclass(frozen=True, slots=True)
class Linked:
    """The project: its name, the models, bytes of the arena and of the part that is shared.

    The first model has the arena, and a constant is in the file of the first model that reads it.
    """

    name: str
    models: tuple[Model, ...]
    arena: int
    shared: int
    align: int

    @property
    def owner(self) -> Model:
        """The model that has the arena."""
        return self.models[0]

    @property
    def constants(self) -> int:
        """Bytes of the constants of all models."""
        return sum(int(m.memory["constants_bytes"]) - m.shared_bytes for m in self.models)


def link(outs: Sequence[Path], out: Path, name: str, configure: bool) -> dict[str, Any]:
    """Write the project of the bundles in `outs` to `out` and give its manifest.

    `name` is the project's, "" for the models' names joined. AotError for a bundle that is damaged,
    for bundles of different targets and for two of one name; UsageError for fewer than two.
    """
    models = [_read(o) for o in outs]
    _check(models)
    target = load_target(options_of(tree.read_json(outs[0] / tree.RECORD, "record")).target)
    linked = _placed(name or "_".join(m.name for m in models), models)
    # Project and model would be one target of CMake; some file systems do not tell cases apart.
    if linked.name.lower() in {m.name.lower() for m in models}:
        raise UsageError(f"--name {linked.name} is the name of a model")
    files = _project(linked, target)
    tools = tree.find_tools(target.packages, target.compiler) if configure else None
    change = tree.Tree(out)
    change.check()
    with change:
        write_bundle(files, out)
        if tools is not None:
            toolchain = None if target.native() else out / "bundle" / "cmake" / "toolchain.cmake"
            chosen = settings(out, "") if target.native() else ()
            tree.configure(out, tools, toolchain, settings=chosen)
        change.keep()
    found: dict[str, Any] = json.loads(bytes(files["manifest.json"]))
    return found


def _read(out: Path) -> Model:
    """The bundle in `out` with all its files; AotError if one is not as aotc wrote it, or
    too old.
    """
    built = open_out(out)
    memory = built.manifest.get("memory", {})
    if not {"states", "stored", "scratch_bytes"} <= set(memory):
        raise AotError(f"{out / MANIFEST} is of an aotc that could not link", hint="compile again")
    files: dict[str, bytes] = {}
    for source in built.manifest["sources"]:
        path = out / "bundle" / source["path"]
        content = path.read_bytes() if path.is_file() else b""
        if sha256(content) != source["sha256"]:
            raise AotError(f"{path} is not as aotc wrote it", hint="compile again")
        files[source["path"]] = content
    return Model(out, built.name, built.manifest, files)


def _check(models: Sequence[Model]) -> None:
    """Raise AotError for bundles of equal names, of several levels or of other targets, UsageError
    for less than two.
    """
    if len(models) < 2:
        raise UsageError("aotc link takes two bundles or more")
    first, seen = models[0], dict[str, Model]()
    for model in models:
        other = seen.setdefault(model.name.lower(), model)
        if other is not model:
            what = f"{other.out} and {model.out} are both called {model.name}"
            raise AotError(what, hint="compile one of them with another --name")
        if "levels" in model.manifest:
            # The states of every level have places of their own, and the project has one for all.
            what = (
                f"{model.out} is for several levels of the CPU: {model.manifest['target']['name']}"
            )
            raise AotError(what, hint="compile it for one level, for instance --target x86-64-v3")
        if any("offset" in m for m in model.memory.get("memories", ())):
            what = f"the arena of {model.out} is in several memories, and linked models share one"
            raise AotError(what, hint="compile it without --arena split")
        kinds = [str(m.manifest["target"]["name"]) for m in (first, model)]
        if first.manifest["target"] != model.manifest["target"]:
            what = f"{first.out} is for {kinds[0]}, {model.out} for {kinds[1]}"
            raise AotError(what, hint="compile all of them for one --target")


def _placed(name: str, models: Sequence[Model]) -> Linked:
    """The models with offsets in the arena, in bytes: one shared part, then the states of each.

    A model that cannot share (`apart`) gets bytes of its own at the end.
    """
    align = max(int(m.memory["alignment"]) for m in models)
    shared = end = max((m.scratch for m in models if not m.apart), default=0)
    found = []
    # States keep their values between runs, so no other model may use their bytes.
    for model in models:
        states = []
        for state in model.memory["states"] or ():
            end = _up(end, align)
            states.append(end)
            end += int(state["bytes"])
        found.append(replace(model, states=tuple(states)))
    for index, model in enumerate(found):
        if model.apart:
            end = _up(end, align)
            found[index] = replace(model, at=end)
            end += model.whole
    return Linked(name, _once(sorted(found, key=lambda m: m.at)), end, shared, align)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _once(models: Sequence[Model]) -> tuple[Model, ...]:
    """The models, less the constants that are in an earlier one's file."""
    seen: dict[tuple[bytes, str], tuple[str, int]] = {}
    return tuple(_less(model, seen) for model in models)


def _less(model: Model, seen: dict[tuple[bytes, str], tuple[str, int]]) -> Model:
    """The model without the constants in `seen`, which gets the others.

    `seen` maps a constant and its linker section to the model that has it, and its place there.
    """
    name, blob = model.name, f"src/{model.name}_weights.c.bin"
    if blob not in model.files:
        return model
    section = _section(model)
    left, moved = bytearray(), dict[int, tuple[str, int]]()
    for stored in model.memory["stored"]:
        offset, align = int(stored["offset"]), int(stored["align"])
        data = model.files[blob][offset : offset + int(stored["bytes"])]
        owner, place = seen.get((data, section), ("", 1))
        if not owner or place % align:
            owner, place = name, _up(len(left), align)
            left += bytes(place - len(left)) + data
            seen.setdefault((data, section), (owner, place))
        moved[offset] = owner, place
    owners = sorted({owner for owner, _ in moved.values()} - {name})
    if not owners:
        return model
    content = bytes(left) or bytes(16)  # an array in C has an element
    files = {
        p: _relocated(f, name, moved) if p.endswith(".c") else f for p, f in model.files.items()
    }
    size, head = len(model.files[blob]), f"src/{name}_internal.h"
    files[blob] = content
    files[f"src/{name}_weights.c"] = re.sub(
        rf"\b{size}\b".encode(), str(len(content)).encode(), files[f"src/{name}_weights.c"]
    )
    own = f"extern AOT_HIDDEN const unsigned char {name}_weights[];\n"
    lent = "".join(own.replace(name, owner, 1) for owner in owners)
    files[head] = files[head].replace(own.encode(), (own + lent).encode())
    return replace(model, files=files, shared_bytes=size - len(left))


def _section(model: Model) -> str:
    """The linker section of a model's constants, the same word for all that have the default."""
    text = model.files[f"src/{model.name}_weights.c"].decode("ascii")
    found = re.search(r"\.pushsection ([^, ]+)", text)
    return found[1].replace(model.name, "") if found else ""


def _relocated(content: bytes, name: str, moved: Mapping[int, tuple[str, int]]) -> bytes:
    """A source whose constants are where `moved` says, by their offsets in the file of `name`."""

    def place(found: re.Match[str]) -> str:
        """The C expression of a constant's new place."""
        owner, offset = moved[int(found[1] or 0)]
        return f"({owner}_weights + {offset})" if offset else f"({owner}_weights)"

    return re.sub(rf"\({name}_weights(?: \+ (\d+))?\)", place, content.decode("ascii")).encode()


def _project(linked: Linked, target: Target) -> dict[str, File]:
    """Every file of the project by its path."""
    # All models have one target, so the toolchain of any of them serves.
    files: dict[str, File] = {"cmake/toolchain.cmake": linked.owner.files["cmake/toolchain.cmake"]}
    for model in linked.models:
        changed = _changed(linked, model)
        manifest = {**model.manifest, "sources": sources_of(changed)}
        manifest["memory"] = {**model.memory, "arena_bytes": _arena(linked, model)}
        changed["manifest.json"] = dump(manifest)
        files |= {f"{model.name}/{path}": content for path, content in changed.items()}
    if target.board:
        io = max(int(m.memory["io_bytes"]) for m in linked.models)
        needs = Needs(linked.arena, io, linked.constants)
        check_fit(target, needs)
        files |= {p: linked.owner.files[p] for p in _START}
        made = board.board_files(target, needs)
        files["board/link.ld"] = made["board/link.ld"]
    values = _values(linked, target)
    files["CMakeLists.txt"] = render("linked.cmake", values)
    files["README.md"] = render("README_linked.md", values)
    files["manifest.json"] = dump({**_record(linked), "sources": sources_of(files)})
    return files


def _arena(linked: Linked, model: Model) -> int:
    """The bytes of the arena in the header: NAME_init is given no less."""
    return model.whole if model.apart else linked.arena


def _changed(linked: Linked, model: Model) -> dict[str, File]:
    """The files of a model, which finds arena and states where the project has them."""
    name, upper, owner = model.name, model.name.upper(), linked.owner
    header, internal = f"include/{name}.h", f"src/{name}_internal.h"
    numbers = {f"{upper}_ARENA_BYTES": _arena(linked, model), f"{upper}_ARENA_ALIGN": linked.align}
    places = {f"{upper}_STATE_{i}": at for i, at in enumerate(model.states)}
    values: dict[str, object] = {"name": name, "NAME": upper, "owner": owner.name, "at": model.at}
    values |= {"bytes": linked.arena, "align": linked.align, "own": model is owner}
    return {
        **model.files,
        header: _defined(model.files[header], numbers),
        internal: _defined(model.files[internal], places),
        f"src/{name}_arena.c": render("linked_arena.c", values),
    }


def _defined(content: bytes, numbers: Mapping[str, int]) -> bytes:
    """A header with these values of macros."""
    text = content.decode("ascii")
    for macro, number in numbers.items():
        text = re.sub(rf"(#define {macro}) \d+", rf"\g<1> {number}", text)
    return text.encode("ascii")


def _values(linked: Linked, target: Target) -> dict[str, object]:
    """Values for the templates of the project."""
    names, owner = [m.name for m in linked.models], linked.owner.name
    return {
        "name": linked.name,
        "version": __version__,
        "folders": "\n".join(f"add_subdirectory({n})" for n in names),
        "lent": "\n".join(
            f"target_link_libraries({n} PUBLIC {' '.join(names[:i])})"
            for i, n in enumerate(names)
            if i
        ),
        "models": " ".join(names),
        "owner": owner,
        "board": target.board,
        "flags": " ".join((*target.cflags, *target.ldflags)),
        "arena": linked.arena,
        "shared": linked.shared,
        "constants": linked.constants,
        "saved": sum(m.shared_bytes for m in linked.models),
        "rows": "\n".join(_rows(linked)),
        "toolchain": not target.native(),
    }


def _rows(linked: Linked) -> Iterator[str]:
    """Yield a row of the README's table per model, in bytes."""
    for m in linked.models:
        kept = sum(int(s["bytes"]) for s in m.memory["states"] or ())
        constants = int(m.memory["constants_bytes"]) - m.shared_bytes
        alone = "an arena of its own" if m.apart else f"{m.scratch} bytes"
        yield f"| {m.name} | {alone} | {kept} | {constants} | {m.shared_bytes} |"


def _record(linked: Linked) -> dict[str, Any]:
    """The project's manifest without its list of sources; sizes and offsets in bytes."""
    return {
        "schema": SCHEMA_VERSION,
        "aotc": __version__,
        "name": linked.name,
        "target": linked.models[0].manifest["target"],
        "memory": {
            "arena_bytes": linked.arena,
            "shared_bytes": linked.shared,
            "constants_bytes": linked.constants,
            "alignment": linked.align,
        },
        "models": [
            {
                "name": m.name,
                "folder": m.name,
                "arena_alone": int(m.memory["arena_bytes"]),
                "scratch_bytes": m.whole if m.apart else m.scratch,
                "arena_offset": m.at,
                "states": [
                    {"offset": at, "bytes": int(s["bytes"])}
                    for at, s in zip(m.states, m.memory["states"] or (), strict=True)
                ],
                "constants_bytes": int(m.memory["constants_bytes"]) - m.shared_bytes,
                "shared_constants_bytes": m.shared_bytes,
            }
            for m in linked.models
        ],
    }
