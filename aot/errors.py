# SPDX-License-Identifier: Apache-2.0
"""Errors a user can meet: what, where, the offending value, a hint. One subclass per kind."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, Self

#: A message of more than a screen hides what it says, and a name in it may have any length.
MAX_LINES = 8
MAX_CHARACTERS = 2000


def printable(text: str) -> str:
    """`text` with every control or non-printable character escaped (safe for a terminal)."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def one_line(name: str) -> str:
    """A name of the model as one printable line."""
    return printable(name).replace("\n", "\\n")


class AotError(Exception):
    """The model, target, environment or comparison is at fault (exit code 1).

    Each text is one line whatever names it holds: a newline in a name would let a model add lines
    of its own, a hint perhaps. `more` are further lines of what happened. `add` are options that
    would help (records whose text is what to type): the hint begins with them.

    `values` are the results, as the file names them, of the node that is at fault (() where it is
    none of the graph); `errors` are all that were raised at once, this one alone or first.
    """

    values: tuple[str, ...] = ()

    def __init__(
        self,
        what: str,
        where: str = "",
        hint: str = "",
        more: Sequence[str] = (),
        add: Sequence[Any] = (),
    ) -> None:
        super().__init__(what)
        self.what, self.where, self.hint, self.more = what, where, hint, tuple(more)
        self.add = tuple(add)
        self.errors: tuple[AotError, ...] = (self,)

    def of(self, values: Iterable[str]) -> Self:
        """This error, of the node with the results `values`."""
        self.values = tuple(values)
        return self

    def __str__(self) -> str:
        lines = [self.what, *self.more]
        if self.where:
            lines.append(f"  in {self.where}")
        if advice := self.advice():
            lines.append(f"  hint: {advice}")
        return "\n".join(map(one_line, lines))

    def advice(self) -> str:
        """The hint, after the options to add."""
        new = [str(a) for a in self.add if not getattr(a, "instead", False)]
        other = [str(a) for a in self.add if getattr(a, "instead", False)]
        added = f"add {_fitting(new)}" if new else ""
        parts = [added, f"type {_fitting(other)} instead" if other else "", self.hint]
        return ", ".join(part for part in parts if part)


#: Of what options take in a message, so that the rest of it is read, too.
_MOST_OF_OPTIONS = 800


def _fitting(options: Sequence[str]) -> str:
    """`options` in a row; of too many the first, and how many more `aotc inspect` lists."""
    kept, left = list(options), 0
    while len(kept) > 1 and sum(map(len, kept)) > _MOST_OF_OPTIONS:
        kept.pop()
        left += 1
    return " ".join(kept) + (f" and {left} more, which aotc inspect lists" if left else "")


class ModelError(AotError):
    """The model file is unreadable, invalid or inconsistent."""


class UnsupportedError(AotError):
    """The model is valid but holds something aotc cannot compile (yet)."""


class TargetError(AotError):
    """The target or its toolchain does not exist or does not fit."""


class BackendError(AotError):
    """A vendor's code generator raised, or broke its contract."""


class BuildError(AotError):
    """CMake, the compiler or the built bundle is missing or failed."""


class VerifyError(AotError):
    """A comparison found a difference."""


class InternalError(AotError):
    """A checker rejected a result of the compiler itself: always a bug in aotc."""


class UsageError(AotError):
    """The command line is wrong (exit code 2)."""


def typed(option: str, value: str) -> str:
    """An option and its value as words that a shell, and then aotc, take as they are."""
    word = shell_word(value)
    return f"{option}={word}" if value.startswith("-") else f"{option} {word}"


def shell_word(text: str | os.PathLike[str]) -> str:
    """`text` as one printable word of a shell. A path that begins with `-` gets `./` before it."""
    option = isinstance(text, os.PathLike) and os.fspath(text).startswith("-")
    text = f"./{text}" if option else os.fspath(text)
    if text.isprintable():
        return shlex.quote(text)
    told = "".join(_spelled(c) for c in text)
    return f"$'{told}'"


def model_word(path: str) -> str:
    """A model as the shell takes it, and as `aotc` takes it for no subcommand and no option."""
    plain = "/" in path or (path.endswith(".onnx") and not path.startswith("-"))
    return shell_word(path if plain else f"./{path}")


def _spelled(letter: str) -> str:
    """A character between $' and ', where a shell replaces escapes by bytes."""
    if letter in "'\\":
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))


def near(word: str, known: Iterable[str]) -> str:
    """The name among `known` that `word` was probably meant to be, "" if none is close."""
    import difflib

    names = {k.lower(): k for k in known}
    found = difflib.get_close_matches(word.lower(), names, 1, 0.7)
    return names[found[0]] if found else ""


def meant(word: str, known: Iterable[str], else_: str = "") -> str:
    """A hint: the name that `word` was probably meant to be, then `else_`."""
    name = near(word, known)
    return " ".join(part for part in (name and f"did you mean {name}?", else_) if part)


class PatternWarning(UserWarning):
    """A vendor declares a pattern that waits for what normalise rewrites first."""


def raise_all(errors: Iterable[AotError]) -> None:
    """Raise the first of `errors`, its text followed by the others'; return when there is none."""
    found = list(errors)
    if not found:
        return
    first = found[0]
    if len(found) == 1:
        raise first
    others = [e.what for e in found[1:]]
    shown = others[:3]
    if len(others) > len(shown):
        shown[-1] += f"; and {len(others) - len(shown)} more"
    add = tuple(dict.fromkeys(a for e in found for a in e.add)) if first.add else ()
    combined = type(first)(first.what, first.where, first.hint, shown, add)
    combined.errors = tuple(one for e in found for one in e.errors)
    raise combined


def clip(text: str) -> str:
    """`text` cut to the length every message promises: 8 lines, 2000 characters."""
    lines = printable(text).splitlines()
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"  … {len(lines) - MAX_LINES + 1} more lines"]
    joined = "\n".join(lines)
    return joined if len(joined) <= MAX_CHARACTERS else joined[: MAX_CHARACTERS - 2] + " …"


def counted(number: int, noun: str) -> str:
    """`number` and the plural of `noun` in s, or its singular: "1 call", "7 calls"."""
    return f"{number} {noun}" + "s" * (number != 1)


def some(kernels: Sequence[str]) -> str:
    """The first few of the names."""
    return ", ".join(kernels[:3]) + (f" and {len(kernels) - 3} more" if len(kernels) > 3 else "")
