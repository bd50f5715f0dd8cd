# SPDX-License-Identifier: Apache-2.0
"""Finding backends by name: folders of aot/vendor, then pip packages by entry point."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from aot.errors import BackendError
from aot.vendor.backend import Backend

GROUP = "aotc.backends"
#: Folders of aot/vendor that have no `backend` (yet): tools of a machine without a compiler.
WITHOUT_BACKEND = ("accel_sim",)


def bundled() -> list[str]:
    """Names of the vendors that come with aotc."""
    import aot.vendor as package

    folders = (m.name for m in pkgutil.iter_modules(package.__path__) if m.ispkg)
    return sorted(name for name in folders if name not in WITHOUT_BACKEND)


def external() -> dict[str, EntryPoint]:
    """Entry points of installed vendor packages, by name."""
    return {e.name: e for e in sorted(entry_points(group=GROUP), key=lambda e: e.name)}


def available() -> list[str]:
    """Every name `--backend` takes here, portable C (`c`) last."""
    return [*sorted({*bundled(), *external()}), "c"]


def find_backend(name: str, where: str = "--backend") -> Backend:
    """Import the backend called `name`; BackendError names the known ones."""
    if name == "c":
        from aot.ops.registry import load_all

        return load_all()
    try:
        if name in bundled():
            found = importlib.import_module(f"aot.vendor.{name}").backend
        elif name in external():
            found = external()[name].load()
        else:
            raise BackendError(
                f"no backend is called {name!r}", where, f"known: {', '.join(available())}"
            )
    except AttributeError as error:
        raise BackendError(
            f"backend {name}: its package has no `backend`", hint=str(error)
        ) from error
    except ImportError as error:
        raise BackendError(f"backend {name} cannot be imported: {error}") from error
    if not isinstance(found, Backend):
        raise BackendError(f"backend {name}: `backend` is a {type(found).__name__}, not a Backend")
    return found


def plain_names(names: Iterable[str]) -> list[str]:
    """Names of vendors without their configurations, each once."""
    return list(dict.fromkeys(n.split(":")[0] for n in names if n.split(":")[0] != "c"))


def backends_for(names: Iterable[str], where: str = "--backend") -> list[Backend]:
    """The backends in order of preference, portable C appended."""
    return [*(find_backend(n, where) for n in plain_names(names)), find_backend("c")]
