# SPDX-License-Identifier: Apache-2.0
"""Finding backends by name: folders of aot/vendor, then pip packages by entry point.

This module stands with the vendors' folders: it knows the portable backend, which comes last.
"""

from __future__ import annotations

import itertools
import pkgutil
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from aot.errors import (
    AotError,
    BackendError,
    TargetError,
    UsageError,
    meant,
    one_line,
    raise_all,
)
from aot.load.marks import marked_backends
from aot.load.source import Opened
from aot.ops.registry import load_all
from aot.options import Options
from aot.partition.annotate import user_backends
from aot.partition.cost.costs import costs_for
from aot.partition.result import Selected
from aot.target import Target, load_target
from aot.vendor.backend import Backend, BackendOptions

GROUP = "aotc.backends"
#: The option of a backend that says which point of a pattern's space is preferred, by number.
POINT = "point"


def bundled() -> list[str]:
    """The names, sorted, of the vendors that are folders of aot/vendor."""
    return sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if m.ispkg)


def external() -> dict[str, EntryPoint]:
    """The entry points of installed vendor packages (group aotc.backends), by name, not yet
    loaded.
    """
    return {e.name: e for e in sorted(entry_points(group=GROUP), key=lambda e: e.name)}


def available() -> list[str]:
    """Every name that `--backend` takes here, sorted, with portable C (`c`) last."""
    return [*sorted({*bundled(), *external()}), "c"]


def find_backend(name: str, where: str = "--backend") -> Backend:
    """Import the backend called `name`: "c", a folder of aot.vendor or an entry point.

    Raises BackendError, at `where` and with the known names, for an unknown one, and for a package
    that cannot be imported or whose `backend` is no Backend.
    """
    if name == "c":
        return load_all()
    own = EntryPoint(name, f"aot.vendor.{name}:backend", GROUP)
    entry = own if name in bundled() else external().get(name)
    if entry is None:
        known = meant(name, available(), f"known: {', '.join(available())}")
        raise BackendError(f"no backend is called {name!r}", where, known)
    others = {e.value for e in entry_points(group=GROUP) if e.name == name} - {entry.value}
    if others:
        what = f"two backends are called {name!r}: {entry.value} and {min(others)}"
        raise BackendError(what, where, "uninstall the package of one of them")
    # Only the vendor that was asked for is imported: another one may need libraries that are
    # absent.
    found = _given(name, "its package", entry.load)
    if found.name != name:
        raise BackendError(f"backend {name}: its package calls it {found.name!r}", where)
    return found


def _given(name: str, what: str, function: Callable[[], Any]) -> Backend:
    """The backend that a vendor's `function` gives; BackendError if it raises or gives no Backend.

    `what` says in messages what raised.
    """
    hint = "this is a defect of the backend, not of the model"
    try:
        found = function()
    except AotError as error:
        error.where = error.where or f"backend {name}"
        raise
    # It is a vendor's code, which may raise anything and end the process.
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {one_line(str(error))}"
        raise BackendError(f"backend {name}: {what} raised {why}", hint=hint) from error
    if not isinstance(found, Backend):
        raise BackendError(f"backend {name}: {what} gives a {type(found).__name__}", hint=hint)
    return found


def plain_names(names: Iterable[str]) -> list[str]:
    """The vendors' names without their configurations (`:…`), each once, without portable C."""
    return list(dict.fromkeys(n.split(":")[0] for n in names if n.split(":")[0] != "c"))


def backends_for(
    names: Iterable[str], where: str = "--backend", options: Options | None = None
) -> list[Backend]:
    """The backends in order of preference, as the user asks for them, portable C appended.

    Raises UsageError for two configurations of one backend, or options of one not named.
    """
    configs: dict[str, str] = {}
    for name in names:
        plain, _, config = name.partition(":")
        if plain != "c" and configs.setdefault(plain, config) != config:
            if config and configs[plain]:
                what = f"{where}: both {plain}:{configs[plain]} and {name}"
                raise UsageError(what, hint="one configuration of a backend at a time")
            configs[plain] = configs[plain] or config
    given = dict(options.backend_options) if options is not None else {}
    own = [n.partition(".")[0] for n in given]
    for vendor in own:
        if vendor not in configs:
            raise UsageError(f"--backend-option {vendor}.…: --backend does not name {vendor}")
    found = [_configured(find_backend(n, where), c, options) for n, c in configs.items()]
    return [*(_spread(b, given.get(f"{b.name}.{POINT}", "0")) for b in found), find_backend("c")]


def _spread(backend: Backend, first: str) -> Backend:
    """The backend with a pattern for each point of a space; number `first` is preferred.

    Its `points` are those of the largest space. UsageError for a number that there is not.
    """
    spaces = [p.points() for p in backend.patterns]
    most = max(map(len, spaces), default=1)
    if not first.isdecimal() or int(first) >= most:
        what = f"--backend-option {backend.name}.{POINT}={first}"
        raise UsageError(f"{what}: a number from 0 to {most - 1}")
    turned = []
    for points in spaces:
        turn = int(first) % len(points)
        turned += points[turn:] + points[:turn]
    return backend if most == 1 else replace(backend, patterns=turned, points=most)


#: What targets of a system are called, and one of them.
_KINDS = {"linux": ("hosts", "a host"), "none": ("boards", "a board without operating system")}


def check_target(backends: Iterable[Backend], target: Target) -> None:
    """Raise TargetError for every backend whose library does not exist for the target's system."""
    raise_all(
        TargetError(
            f"backend {b.name} is for {' and '.join(_KINDS[s][0] for s in b.systems)}, "
            f"target {target.name} is {_KINDS[target.system][1]}",
            "--target and --backend",
            f"leave {b.name} out: portable C computes on every target",
        )
        for b in backends
        if b.systems and target.system not in b.systems
    )


def _configured(backend: Backend, config: str, options: Options | None) -> Backend:
    """The backend as the user asks for it: with `config` and the options that begin with its name.

    UsageError if it has no configurations or options but the user gives some.
    """
    own = {
        key.partition(".")[2]: value
        for key, value in (options.backend_options.items() if options is not None else ())
        if key.partition(".")[0] == backend.name and key != f"{backend.name}.{POINT}"
    }
    if backend.configure is None:
        # An option that nobody reads is a typing error, or meant for another vendor.
        if config:
            raise UsageError(f"--backend {backend.name}:{config}: it has no configurations")
        spaces = any(len(p.points()) > 1 for p in backend.patterns)
        BackendOptions(options=own).only(backend.name, (POINT,) * spaces)
        return backend
    if options is None:
        return _given(
            backend.name, "`configure`", partial(backend.configure, BackendOptions(config))
        )
    machine = machine_of(load_target(options.target).emulator)
    said = BackendOptions(config, own, options.objective, options.requant, machine)
    return _given(backend.name, "`configure`", partial(backend.configure, said))


def machine_of(emulator: Sequence[str]) -> str:
    """The machine (option -M) that a command of QEMU's system emulator names; "" if it
    names none.
    """
    named = [b.partition(",")[0] for a, b in itertools.pairwise(emulator) if a == "-M"]
    return named[0] if named else ""


def chosen_backends(opened: Opened, options: Options) -> tuple[list[Backend], list[str]]:
    """The backends for a model in order, and the names of those that get marked nodes only.

    Nodes are marked by `--keep`, `--regions` and the metadata of the model itself.
    """
    named_by_user = [*user_backends(options.keep, options.regions), *marked_backends(opened.proto)]
    named = plain_names(options.backends)
    marked_only = [n for n in plain_names(named_by_user) if n not in named]
    chosen = backends_for(options.backends, options=options)
    marked = backends_for(marked_only, "--keep, --regions or the model's metadata")
    check_target([*chosen, *marked], load_target(options.target))
    return [*chosen[:-1], *marked], marked_only


def backends_of(vendors: Collection[str], options: Options) -> list[Backend]:
    """The backends called `vendors`, in order of preference, as the options configure them.

    The metadata of a model may name vendors that the options do not name; they come last.
    """
    named = plain_names(options.backends)
    ordered = (*options.backends, *sorted(set(vendors).difference(named)))
    return [b for b in backends_for(ordered, options=options) if b.name in vendors]


def estimates(options: Options) -> Callable[[Selected], tuple[float, bool]]:
    """A function that gives (nanoseconds of a selected match, whether these are measured).

    Measured are costs that `--tune` has on file.
    """
    costs = costs_for(options)
    known = {b.name: b for b in backends_for(options.backends, options=options)}

    def of(selected: Selected) -> tuple[float, bool]:
        """(estimated nanoseconds of a match, whether they are measured), by its own backend."""
        backend = known.get(selected.backend) or known.setdefault(
            selected.backend, find_backend(selected.backend)
        )
        return costs.of(backend, selected.pattern, selected.match)

    return of
