# SPDX-License-Identifier: Apache-2.0
"""Runs cases the way a user would meet them: each compiles in a process of its own, held to the
promises of SECURITY.md, and what it produced is built, loaded and compared.

One process imports aotc and forks for every case, so a case costs what it computes.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostile.case import Case
from hostile.texts import CANARY

#: Of the processor; the clock only ends what waits for ever.
SECONDS = 30.0
CLOCK = 20 * SECONDS
MEMORY = 4 << 30
#: Making a file and checking a bundle are not what is measured, but must end too.
PATIENCE = 120.0
#: Folders of the machine whose content no model may reach.
SECRETS = ("/etc/passwd", "/etc/shadow", "/proc/self/environ", "secret.bin")
_WRITES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case: `bundle` (built, `compared` with the reference or not) or `refused`;
    `faults` are broken promises, empty if all is well."""

    case: Case
    kind: str
    compared: bool
    seconds: float
    mebibytes: int
    faults: tuple[str, ...]
    message: str


def run_all(cases: Iterable[Case], folder: Path) -> Iterator[Outcome]:
    """The outcome of every case, in order; `folder` is emptied again."""
    _warm(folder)
    for case in cases:
        yield run_one(case, folder)


def _warm(folder: Path) -> None:
    """Compile something, so that forked processes find every module loaded."""
    import onnx.reference  # noqa: F401

    from aot.options import Options
    from aot.pipeline import compile_model
    from hostile.case import seeds

    for proto in (seeds()["conv"], seeds()["quantised"]):
        compile_model(proto, Options(name="warm"))
    folder.mkdir(parents=True, exist_ok=True)


def run_one(case: Case, folder: Path) -> Outcome:
    """Make, compile and check one case below `folder`."""
    work = folder / f"case{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    for name in ("in", "home", "report"):
        (work / name).mkdir(parents=True)
    try:
        made = _forked(lambda: _make(case, work), work, PATIENCE)
        if made.code != 0:
            return Outcome(case, "broken", False, 0, 0, ("the case cannot be made",), made.said)
        target = (work / "report" / "path").read_text()
        out = work / "home" / "out"
        if case.words:
            out.mkdir()
        before = _snapshot(work)
        ran = _forked(lambda: _compile(case, target, work), work, CLOCK, MEMORY)
        faults = [*_process_faults(ran, case), *_outside(work, before)]
        compared = False
        if ran.code == 0 and not faults:
            faults += ["taken, where only a refusal is right"] * (case.expect == "refuse")
        if ran.code == 0 and not faults and not case.words:
            checked = _forked(lambda: _check(case, target, out, work), work, PATIENCE)
            faults += _check_faults(checked, work)
            compared = "compared" in _lines(work / "report" / "check")
        elif ran.code in (1, 2):
            faults += _message_faults(ran.said, out, not case.words)
            faults += ["refused, where a bundle is possible"] * (case.expect == "ok")
        kind = {0: "bundle", 1: "refused", 2: "refused"}.get(ran.code, "died")
        peak = ran.kibibytes >> 10
        return Outcome(case, kind, compared, ran.seconds, peak, tuple(faults), ran.said)
    finally:
        shutil.rmtree(work, ignore_errors=True)


# -- Processes ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Done:
    code: int  # negative: the signal that ended it
    seconds: float  # of the processor
    kibibytes: int
    said: str
    timed_out: bool


def _forked(body: Callable[[], int], work: Path, seconds: float, memory: int = 0) -> _Done:
    """Run `body` in a forked process group with its output in a file."""
    said = work / "report" / "said"
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setsid()
            fd = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            for stream in (1, 2):
                os.dup2(fd, stream)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            faulthandler.disable()  # pytest turns it on
            sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115 (pytest has its own)
            if memory:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
                resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS) + 1, int(SECONDS) + 2))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            code = body()
        except BaseException as error:  # said, and seen in the code
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    late = False
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - began > seconds:
            late = True
            os.killpg(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            break
        time.sleep(0.002 if time.monotonic() - began < 1 else 0.05)
    text = said.read_bytes().decode("utf-8", "backslashreplace") if said.exists() else ""
    code = os.waitstatus_to_exitcode(status)
    seconds = usage.ru_utime + usage.ru_stime
    return _Done(code, seconds, usage.ru_maxrss, text, late)


def _make(case: Case, work: Path) -> int:
    path = case.make(work / "in")
    (work / "report" / "path").write_text(str(path))
    return 0


def _compile(case: Case, target: str, work: Path) -> int:
    """`aotc TARGET -o out` in a folder of its own, noting every file that is opened or changed."""
    from aot.cli import main

    os.chdir(work / "home")
    warnings.simplefilter("ignore")  # as the command does
    os.environ |= {"HOME": str(work / "home"), "TMPDIR": str(work / "home")}
    sys.dont_write_bytecode = True
    out = str((work / "home" / "out").resolve())
    seen: list[str] = []
    active = [True]
    sys.addaudithook(lambda event, args: _audit(event, args, out, seen) if active[0] else None)
    configure = () if case.configure else ("--no-configure",)
    words = [w.replace("{model}", target) for w in case.words]
    code = main(words or [target, "-o", "out", *case.options, *configure])
    active[0] = False
    (work / "report" / "seen").write_text("\n".join(map(ascii, seen)))
    return code


def _audit(event: str, args: tuple[Any, ...], out: str, seen: list[str]) -> None:
    if event == "open":
        path, _, flags = args
        if not isinstance(path, (str, bytes)):
            return
        name = os.path.abspath(os.fsdecode(path))
        changes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if changes and not _below(name, out) and name != os.devnull:
            seen.append(f"writes {name}")
        if name.endswith(SECRETS):
            seen.append(f"reads {name}")
    elif event in _WRITES and isinstance(args[0], (str, bytes)):
        name = os.path.abspath(os.fsdecode(args[0]))
        if not _below(name, out):
            seen.append(f"{event} {name}")


def _below(name: str, out: str) -> bool:
    """In OUT, or in a staging folder that its name shows to be OUT's."""
    return name == out or name.startswith(out + os.sep)


# -- Promises -------------------------------------------------------------------------------------


def _process_faults(ran: _Done, case: Case) -> Iterator[str]:
    if ran.timed_out or ran.seconds > SECONDS:
        yield f"takes longer than {SECONDS:.0f} s"
    elif ran.code not in ((0, 1, 2) if case.words or case.options else (0, 1)):
        yield f"ends with code {ran.code}"
    if any(not (c.isprintable() or c == "\n") for c in ran.said):
        yield "control characters on the terminal"
    if "Traceback" in ran.said:
        yield "a traceback"


def _message_faults(said: str, out: Path, new: bool) -> Iterator[str]:
    if not said.startswith("aotc: "):
        yield "no message"
    if len(said.splitlines()) > 8 or len(said) > 2001:
        yield "a message of more than 8 lines or 2000 characters"
    for word in ("internal error", "please report", "out of memory"):
        if word in said:
            yield f"{word} in the message"
    if out.exists() and (new or any(out.iterdir())):
        yield "OUT was written to"


def _snapshot(work: Path) -> set[str]:
    found = set()
    for root, folders, files in os.walk(work):
        if os.path.basename(root) == "report" or root == str(work / "home" / "out"):
            folders.clear()
            continue
        found |= {os.path.join(root, n) for n in (*folders, *files)}
    return found


def _outside(work: Path, before: set[str]) -> Iterator[str]:
    for path in sorted(_snapshot(work) - before - {str(work / "home" / "out")}):
        yield f"wrote {path!a} outside OUT"
    yield from sorted(set(_lines(work / "report" / "seen")))


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


# -- Bundles --------------------------------------------------------------------------------------


def _check(case: Case, target: str, out: Path, work: Path) -> int:
    """Build the bundle's library, load it, run it, compare; lines of the report say how far."""
    from hostile import bundle

    place = work / "home" / "built"
    place.mkdir()
    os.chdir(place)
    report = work / "report" / "check"
    report.write_text(json.dumps(bundle.scan(out / "bundle")) + "\n")
    library = bundle.build(out / "bundle", place)
    with report.open("a") as file:
        file.write("built\n")
    got = bundle.run(out / "bundle", library, Path(target)) if not case.endless else "endless"
    with report.open("a") as file:
        file.write(f"{got}\n")
    return 0


def _check_faults(checked: _Done, work: Path) -> Iterator[str]:
    lines = _lines(work / "report" / "check")
    if list((work / "home").rglob(CANARY)):
        yield "text of the model ran as code"
    if checked.code != 0:
        stage = lines[-1][:40] if lines else "nothing"
        yield f"the bundle is not right (code {checked.code} after {stage}): {checked.said[:600]}"
    if len(lines) > 2 and lines[2].startswith("differs"):
        yield lines[2]
    if lines:
        yield from json.loads(lines[0])
