# SPDX-License-Identifier: Apache-2.0
"""The `aotc` program: dispatch, and every failure as one short message with an exit code.

Nothing heavy is imported here: `--version` and `--help` answer at once.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aot.errors import AotError, InternalError, PatternWarning, UsageError, clip, meant, near
from aot.ir.deferred_import import defer_symbolic
from aot.version import __version__

if TYPE_CHECKING:
    import argparse

#: Options that may stand before a subcommand.
_GLOBAL_FLAGS = ("-v", "--verbose", "-q", "--quiet", "--json")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0, 1 (something is at fault) or 2 (usage)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None and "_ARGCOMPLETE" in os.environ:  # a shell asks for words
        from aot.cli.completion import answer

        answer()
    if argv is None:
        _open_streams()
        _end_tidily()
        if os.environ.get("AOTC_DEBUG") != "1":
            warnings.simplefilter("ignore")  # NumPy's and others' are no messages of ours
            warnings.simplefilter("default", PatternWarning)
    defer_symbolic()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name must not fail for want of a character
            stream.reconfigure(errors="backslashreplace")
    try:
        return _flushed(_dispatch(arguments, own=argv is None))
    except InternalError as error:
        return _unexpected(f"internal error: {error}", error)
    except AotError as error:
        from aot.cli.words import explained

        usage = isinstance(error, UsageError)
        without = ("--keep", "--regions") if usage else ()
        return _fail(explained(str(error), arguments, without), 1 + usage)
    except SystemExit as done:
        return _flushed(done.code if isinstance(done.code, int) else 0)
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.ENOSPC):
            return _unwritable(error)
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            return _fail(f"{error.strerror}: {error.filename}", 1)
        return _unexpected(f"internal error: {type(error).__name__}: {error}", error)
    except KeyboardInterrupt:  # also by SIGTERM and SIGHUP
        return _fail("interrupted", 1)
    except RecursionError as error:
        return _unexpected("the model nests too deeply", error)
    except MemoryError as error:
        return _unexpected("out of memory", error)
    except Exception as error:  # a bug of ours must still end in one short message
        return _unexpected(f"internal error: {type(error).__name__}: {error}", error)


def _open_streams() -> None:
    """Streams that were closed (`aotc … >&-`) lead nowhere; no other file gets their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, open(nowhere, mode, encoding="utf-8"))  # noqa: SIM115 (for good)


def _end_tidily() -> None:
    """Let the signals that end a program undo what it has begun, once: undoing is not disturbed."""
    signals = [
        number
        for name in ("SIGINT", "SIGTERM", "SIGHUP")
        if (number := getattr(signal, name, None)) is not None
        and signal.getsignal(number) is not signal.SIG_IGN  # nohup
    ]

    def end(_number: int, _frame: object) -> None:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in signals:
        signal.signal(number, end)


def _flushed(code: int) -> int:
    """`code`, unless what is still buffered cannot be written: at exit Python would show that."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _unwritable(error)
    return code


def _unwritable(error: OSError) -> int:
    """Say why nothing more can be written (a reader that left needs no word), drop the rest."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 1
    return _fail(f"cannot write: {error.strerror}", 1)


def _dispatch(arguments: list[str], own: bool) -> int:
    if not arguments:
        raise UsageError("no model given", hint="`aotc --help` shows how to name one")
    if arguments == ["--version"]:
        print(f"aotc {__version__}")
        return 0
    if arguments == ["--cmake-dir"]:
        from aot.emit_c.resources import cmake

        print(cmake())
        return 0
    # Imported late: what is above must answer in a tenth of a second.
    from aot.cli import parser

    name, rest = _command(arguments)
    if name in parser.COMMANDS:
        parsed = parser.command_parser(name).parse_args(rest)
        parsed.words = rest
        from aot.cli.subcommand import run_command

        with _stdout_for(parsed, own):
            return run_command(name, parsed)
    if (
        "." not in name
        and name[:1] != "-"
        and not os.path.lexists(name)
        and near(name, parser.COMMANDS)
    ):
        what = f"{name!r} is neither a subcommand nor a file"
        raise UsageError(what, hint=meant(name, parser.COMMANDS, "`aotc --help` lists them"))
    parsed = parser.compile_parser().parse_args(arguments)
    from aot.cli import compile as compiling

    with _stdout_for(parsed, own):
        return compiling.run(parsed)


def _stdout_for(parsed: argparse.Namespace, own: bool) -> contextlib.AbstractContextManager[None]:
    """Nobody but us prints where `--json` does."""
    from aot.cli.output import alone

    return alone(own) if getattr(parsed, "json", False) else contextlib.nullcontext()


def _command(arguments: list[str]) -> tuple[str, list[str]]:
    """The first word that is no flag, and everything else."""
    for i, word in enumerate(arguments):
        if word not in _GLOBAL_FLAGS:
            return word, [*arguments[:i], *arguments[i + 1 :]]
    return "", arguments


def _fail(message: str, code: int) -> int:
    print(clip(f"aotc: {message}"), file=sys.stderr)
    return code


def _unexpected(message: str, error: BaseException) -> int:
    if os.environ.get("AOTC_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    hint = "please report it with the model; AOTC_DEBUG=1 shows where it happened"
    stage = getattr(error, "aotc_stage", "")
    where = f"\n  in stage {stage}" if stage else ""
    return _fail(f"{message}{where}\n  hint: {hint}", 1)
