# SPDX-License-Identifier: Apache-2.0
"""OUT as CMake's build tree: finding the tools, configuring, building.

`Tree` changes an OUT as a transaction: the bundle, CMake's cache and OUT/aotc.json are replaced
together, and on failure a new OUT disappears and an old one is as it was. What a run that was
killed left set aside is put back by the next one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aot import textfile
from aot.emit_c.write import MAKE_ROOM, NO_SPACE, remove, unwritable
from aot.errors import AotError, BuildError, shell_word
from aot.tools.compiler import is_found

if sys.platform != "win32":
    import fcntl

RECORD = "aotc.json"
_PREVIOUS = ".aotc-previous"
_PARTLY = ".aotc-partly"
_DONE = ".aotc-done"
#: What CMake, the makefiles it writes, or a list of its own take for something else.
_NO_FOLDERS = (";", ":", "|", '"', "\\", "\t", "\n", "\r", "$<", "$(")
#: How programs call a full disk, or a user's share of it.
_FULL = tuple(map(os.strerror, NO_SPACE))
#: Folders that a compilation replaces.
_WRITTEN = ("bundle", "packages")
_BUILD_FILES = ("Makefile", "build.ninja", "cmake_install.cmake")
_CMAKE_STATE = ("CMakeCache.txt", "CMakeFiles", *_BUILD_FILES)


@dataclass(frozen=True, slots=True)
class Tools:
    """What configures and builds: the cmake program and arguments that choose a generator."""

    cmake: str
    generator: tuple[str, ...] = ()


def find_tools(
    packages: tuple[str, ...] = ("gcc", "make"), compiler: str = "", asked: str = ""
) -> Tools:
    """cmake, a C compiler and make or ninja; BuildError says what is missing and what installs it.

    `packages` are the apt packages that build for the target, `compiler` its cross compiler, and
    `asked` the compiler that the user names, which `aot/tools/compiler.py` checks.
    """
    cmake = _cmake("; --no-configure needs none")
    if not asked:
        _check_compiler(packages, compiler)
    if os.environ.get("CMAKE_GENERATOR"):
        return Tools(cmake)
    if shutil.which("make"):
        return Tools(cmake, ("-G", "Unix Makefiles"))
    ninja = find_program("ninja")
    if ninja is None:
        raise BuildError("neither make nor ninja was found", hint="apt-get install make")
    return Tools(cmake, ("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"))


def _check_compiler(packages: tuple[str, ...], compiler: str) -> None:
    """Raise BuildError unless a C compiler is found: `compiler` of the target, CC, or any.

    `packages` are names for apt that would bring it.
    """
    apt = "apt-get install --no-install-recommends " + " ".join(packages)
    asked = os.environ.get("CC", "")
    if compiler and compiler.removesuffix("gcc").rstrip("-") not in asked:
        # The toolchain file takes a CC that is for the target and leaves the host's alone.
        if shutil.which(compiler) is None:
            raise BuildError(f"the C compiler {compiler} was not found", hint=apt)
    elif asked:
        try:
            program = shlex.split(asked)[0]
        except (ValueError, IndexError):
            program = asked
        if shutil.which(program) is None:
            raise BuildError(f"the C compiler CC={asked} was not found", hint=apt)
    elif not is_found(""):
        hint = f"{apt}, or set CC; without root: pip install 'aotc[zig]'"
        raise BuildError("no C compiler was found (cc, gcc, clang, zig)", hint=hint)


def _cmake(otherwise: str = "") -> str:
    """The program cmake; BuildError says what installs it, and what could be done `otherwise`."""
    cmake = find_program("cmake")
    if cmake is None:
        raise BuildError(
            "cmake was not found", hint=f"apt-get install cmake (or pip install cmake){otherwise}"
        )
    return cmake


def find_program(name: str) -> str | None:
    """The program `name` in PATH, or that PyPI's package `name` installed (cmake, ninja)."""
    spec = importlib.util.find_spec(name)
    inside = [str(Path(spec.origin).parent / "data" / "bin")] if spec and spec.origin else []
    places = (None, str(Path(sys.executable).parent), *inside)
    return next(filter(None, (shutil.which(name, path=place) for place in places)), None)


class Tree:
    """An OUT that is about to change. Use as a context manager; `keep()` makes it final."""

    def __init__(self, out: Path) -> None:
        """Prepare OUT; the old state of it is set aside in a folder of its own while aotc
        writes.
        """
        self.out = out
        self._made: list[Path] = []
        self._kept = False
        self._previous = out / _PREVIOUS
        self._lock = -1

    def __enter__(self) -> Tree:
        """Create OUT if need be, check that it is ours to write, and set the old state aside."""
        try:
            self.check()
            self._create()
            self._take()
        except OSError as error:
            self._discard()
            raise unwritable(f"cannot write to output folder {self.out}", error) from error
        try:
            self._recover()
            self._set_aside()
        except OSError as error:
            self._undo()
            raise unwritable(f"cannot write to output folder {self.out}", error) from error
        # An interrupt, too, must leave OUT as it was.
        except BaseException:
            self._undo()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """Drop the old state if the new one is kept, else put it back."""
        if self._kept:
            done = self.out / _DONE
            os.rename(self._previous, done)  # in one step: half a folder would be put back
            shutil.rmtree(done, ignore_errors=True)
        else:
            self._undo()
        self._release()

    def check(self) -> None:
        """Fail early, before anything is compiled or touched, if OUT cannot be ours."""
        if "\0" in str(self.out):
            raise BuildError(f"cannot write to output folder {self.out}: NUL in its name")
        try:
            self._check_writable()
            self._check_ours()
        except OSError as error:
            raise unwritable(f"cannot write to output folder {self.out}", error) from error

    def _check_writable(self) -> None:
        """Raise BuildError unless OUT, or the nearest folder above it that exists, can be written
        to.
        """
        nearest = next(p for p in (self.out, *self.out.absolute().parents) if p.exists())
        if not nearest.is_dir():
            raise BuildError(f"output {nearest} is not a folder")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise BuildError(f"cannot write to output folder {self.out}: no permission")

    def keep(self) -> None:
        """The new state is good."""
        self._kept = True

    def _create(self) -> None:
        """Make OUT and the folders above it, and note which ones were made."""
        missing = [p for p in (self.out, *self.out.parents) if not p.exists()]
        for folder in reversed(missing):
            folder.mkdir()
            self._made.append(folder)

    def _check_ours(self) -> None:
        """Raise BuildError if OUT has files that aotc would replace and did not write."""
        bundle = self.out / "bundle"
        if bundle.is_symlink() or (bundle.exists() and not (bundle / "manifest.json").is_file()):
            raise BuildError(
                f"{bundle} exists and was not written by aotc", hint="choose another folder with -o"
            )
        home = cache_value(self.out, "CMAKE_HOME_DIRECTORY")
        # OUT may have been moved since CMake noted the place of the bundle in it.
        own = Path(home) == bundle.absolute() or (Path(home).name == "bundle" and bundle.exists())
        if home and not own:
            raise BuildError(
                f"{self.out} is the build tree of another CMake project",
                f"CMakeCache.txt: {home}",
                "choose another folder with -o",
            )
        for name in _BUILD_FILES:
            if _is_made_by_hand(self.out / name):
                raise BuildError(
                    f"{self.out / name} was not written by CMake, and would be replaced",
                    hint="choose another folder with -o",
                )

    def _take(self) -> None:
        """One compilation at a time. The lock is the folder itself; it goes with the process."""
        if sys.platform == "win32":
            return
        self._lock = os.open(self.out, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._release()
            self._made.clear()  # the other's by now
            raise BuildError(f"another aotc is writing to {self.out}") from None
        except OSError:  # a file system without locks
            self._release()

    def _release(self) -> None:
        """Give up the lock on OUT."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def _recover(self) -> None:
        """Undo what this run, or one that was killed, has done, and remove what it left."""
        self._restore()
        for entry in sorted(self.out.iterdir()):
            if entry.name == _DONE or entry.name.startswith(".bundle-"):
                remove(entry)

    def _set_aside(self) -> None:
        """Move CMake's state away; copy the bundle by hard links (it is replaced atomically).

        A run that is killed is undone from what lies here, so every entry is whole, and the folder
        gets its name when all are there.
        """
        partly = self.out / _PARTLY
        partly.mkdir()
        for name in _CMAKE_STATE:
            if os.path.lexists(self.out / name):
                os.rename(self.out / name, partly / name)
        whole = self.out / _DONE
        for name in _WRITTEN:
            if (self.out / name).exists():
                shutil.copytree(self.out / name, whole, True, copy_function=_link_or_copy)
                os.rename(whole, partly / name)
        if os.path.lexists(self.out / RECORD):
            shutil.copy2(self.out / RECORD, whole, follow_symlinks=False)
            os.rename(whole, partly / RECORD)
        os.rename(partly, self._previous)

    def _discard(self) -> None:
        """Remove the folders that this run made."""
        if self._made:
            shutil.rmtree(self._made[0], ignore_errors=True)

    def _undo(self) -> None:
        """Leave OUT as it was: without the folders made, or with the old state."""
        if self._made:
            self._discard()
        else:
            with contextlib.suppress(OSError):
                self._recover()
        self._release()

    def _restore(self) -> None:
        """Put back what is set aside; what was not there before goes. May be killed at any moment:
        doing it again goes on. A link of that name is nothing that we set aside."""
        for name in (_PREVIOUS, _PARTLY):
            if (self.out / name).is_symlink():
                (self.out / name).unlink()
        if self._previous.is_dir():
            for name in (*_CMAKE_STATE, *_WRITTEN, RECORD):
                if not os.path.lexists(self._previous / name):
                    self._drop(name)
            os.rename(self._previous, self.out / _PARTLY)
        partly = self.out / _PARTLY
        if partly.is_dir():
            for entry in sorted(partly.iterdir()):
                self._drop(entry.name)
                os.rename(entry, self.out / entry.name)
            partly.rmdir()

    def _drop(self, name: str) -> None:
        """Remove an entry of OUT; there is never a part of it under its name."""
        done = self.out / _DONE
        remove(done)
        if os.path.lexists(self.out / name):
            os.rename(self.out / name, done)
            remove(done)


def _is_made_by_hand(path: Path) -> bool:
    """Whether there is a file that lacks the words with which CMake begins its own."""
    if not path.is_file():
        return path.exists()
    with path.open("rb") as file:
        head = file.read(1000)
    return b"CMAKE generated file" not in head and not head.startswith(b"# Install script")


def _link_or_copy(source: str, target: str) -> None:
    """Make `target` the file `source`, by a hard link where the file system has them."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def cache_value(out: Path, key: str) -> str:
    """The value of `key` in OUT/CMakeCache.txt, "" without one."""
    try:
        if not (out / "CMakeCache.txt").is_file():  # a pipe or device has no end
            return ""
        text = (out / "CMakeCache.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.split(":")[0] == key:
            return value
    return ""


def drop_products(out: Path, manifest: Mapping[str, Any]) -> None:
    """Remove what an earlier bundle was built to: a stale program must not be run as the new."""
    name = str(manifest.get("name", ""))
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):  # a path would leave OUT
        return
    programs = [f"bin/{name}{kind}{suffix}" for kind in ("", "-trace") for suffix in ("", ".elf")]
    for product in (*programs, f"lib/lib{name}.a", f"lib/lib{name}.so"):
        (out / product).unlink(missing_ok=True)


def configure(
    out: Path,
    tools: Tools,
    toolchain: Path | None = None,
    bundle: Path | None = None,
    settings: Sequence[str] = (),
) -> None:
    """Run CMake on OUT/bundle with OUT as the build tree; BuildError carries its complaint.

    `bundle` is a bundle elsewhere, `settings` further -D arguments.
    """
    bundle = bundle or out / "bundle"
    folder = str(out.absolute())
    if bad := next((text for text in _NO_FOLDERS if text in folder), ""):
        raise BuildError(
            f"CMake and make cannot build in a folder with {bad!r} in its name",
            str(out),
            "choose another folder with -o, or --no-configure and move the bundle",
        )
    source = str(bundle.absolute())
    command = [tools.cmake, "-S", source, "-B", folder, *tools.generator, *settings]
    if toolchain is not None:
        command.append(f"-DCMAKE_TOOLCHAIN_FILE={toolchain.resolve()}")
    elif any((bundle / "cmake").glob("find_*.cmake")):
        command.append(f"-DCMAKE_PREFIX_PATH={sys.prefix}")  # libraries that pip installed
    _checked(command, "cmake could not configure the bundle", out)


def build(out: Path, target: str = "", jobs: int = 0) -> None:
    """`cmake --build OUT`, quietly; BuildError carries the end of the compiler's complaint."""
    if not (out / "CMakeCache.txt").is_file():
        raise BuildError(f"{out} is not configured", hint="run aotc without --no-configure")
    command = [_cmake(), "--build", str(out.absolute())]
    if target:
        command += ["--target", target]
    if jobs:
        command += ["--parallel", str(jobs)]
    _checked(command, f"building {out} failed", out)


def _checked(command: list[str], what: str, folder: Path) -> None:
    """Run `command`, which writes to `folder`; BuildError says why it failed."""
    pipe = subprocess.PIPE
    try:
        # A group of its own: when aotc is ended, nothing may go on writing to OUT.
        started = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, errors="replace", process_group=0
        )
    except OSError as error:
        raise BuildError(f"{what}: {error.strerror}", command[0]) from error
    try:
        with started:
            stdout, stderr = started.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        raise
    if started.returncode != 0:
        if _disk_is_full(folder, stdout + stderr):
            full = f"{what}: no space is left on the disk"
            raise BuildError(full, str(folder), MAKE_ROOM)
        raise BuildError(what, more=_complaint(stdout, stderr))


def _disk_is_full(folder: Path, said: str) -> bool:
    """Whether what `said` why it failed names a full disk, or `folder` cannot hold 1 MiB more.

    CMake takes a test program that could not be written for a compiler that does not work.
    """
    if any(text in said for text in _FULL):
        return True
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1 << 20))
            file.flush()
    except OSError as error:
        return error.errno in NO_SPACE
    return False


def _complaint(stdout: str, stderr: str) -> list[str]:
    """The lines that say what went wrong: the first errors, else the last lines."""
    lines = [s.rstrip() for s in (stderr + "\n" + stdout).splitlines() if s.strip()]
    cmake = next((i for i, s in enumerate(lines) if s.startswith("CMake Error")), None)
    if cmake is not None:  # CMake wraps what it has to say over the lines that follow
        return ["  " + s[:240] for s in lines[cmake : cmake + 8]]
    errors = [s for s in lines if "error" in s.lower()]
    return ["  " + s[:240] for s in (errors[:4] or lines[-4:])]


def scratch(out: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder that goes away, inside OUT: nothing is written elsewhere unless OUT is read-only."""
    inside = os.access(out, os.W_OK | os.X_OK)
    return tempfile.TemporaryDirectory(prefix=".aotc-", dir=out if inside else None)


def read_json(path: Path, what: str) -> dict[str, Any]:
    """A JSON object that aotc wrote earlier; AotError if it is missing or damaged."""
    if not os.path.isfile(path):  # False for names that no file can have
        hint = "compile a model into that folder first: `aotc --help`"
        if what == "bundle" and os.path.isfile(path.parents[1] / "manifest.json"):
            above = os.path.normpath(path.parents[1] / "..")
            hint = f"that is a bundle: give the folder in which it lies, {shell_word(above)}"
        raise BuildError(f"no {what} here: {path}", hint=hint)
    try:
        value = textfile.read_json(path, what)
    except AotError as error:
        raise AotError(error.what, error.where, error.hint or "compile again") from error
    if not isinstance(value, dict):
        raise AotError(f"{path} is damaged: not an object", hint="compile again")
    return value
