# SPDX-License-Identifier: Apache-2.0
"""The command line: what is accepted, and how text becomes values. No work is done here."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from aot.cli.arguments import ARGUMENTS, COMMON, COMPILE, Argument
from aot.cli.examples import EXAMPLES
from aot.errors import UsageError, meant

_EPILOG = """\
exit status: 0 done; 1 the model, target, environment or comparison is at fault; 2 usage.
A model whose file is named like a subcommand is given with its folder: aotc ./run -o out
"""


class Parser(argparse.ArgumentParser):
    """argparse that raises UsageError, takes no abbreviations and never exits by itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings
        )

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting, with the option or the value that was probably meant."""
        hint = meant(*self._unknown(message), f"`{self.prog} --help` shows what it takes")
        raise UsageError(message, hint=hint)

    def _unknown(self, message: str) -> tuple[str, Sequence[str]]:
        """The word that argparse does not know, and the words it could have been."""
        if words := re.match(r"unrecognized arguments: (-[^ =]*)", message):
            options = [o for a in self._actions for o in a.option_strings if o.startswith("--")]
            return words[1], options
        if choice := re.match(r"argument ([^ /:]*).*: invalid choice: '(.*)' \(choose", message):
            actions = (a for a in self._actions if choice[1] in a.option_strings)
            return choice[2], [str(c) for a in actions for c in a.choices or ()]
        return "", ()


#: Subcommands by what they work on, and a line about the work of each.
GROUPS = {
    "of a project": {
        "init": "write a project folder: model, CMake, tests, and aotc.toml with the options",
        "build": "compile and build the model of aotc.toml",
    },
    "of an OUT": {
        "run": "run a built bundle on inputs",
        "verify": "compare a built bundle with the model",
        "bench": "time a built bundle",
        "size": "RAM, flash and MACs of a bundle, or an estimate for a model",
        "report": "the content of a bundle, as one HTML page",
        "diff": "list the differences of two builds: bytes, work, backends, options, outputs",
        "link": "make one project of several models, which share one arena",
        "sbom": "the bundle's files, licences and libraries, as SPDX",
        "disasm": "list the commands of an accelerator's regions",
    },
    "of a model": {
        "inspect": "inputs, dtypes, symbolic dimensions and the options to type",
        "explain": "per node, the backend that computes it, and why the others do not",
        "partition": "write the model with one function per region",
        "quantize": "write an 8-bit model, calibrated on data",
        "tune": "measure the time of each backend, for --partition cost",
    },
    "of this installation": {
        "doctor": "list installed and missing programs, with the line to type",
        "targets": "targets that can be built for here, and the apt line for the others",
        "backends": "the backends installed",
        "ops": "the operators portable C computes",
        "new-backend": "start a backend from a package that works",
        "completion": "print the script that makes a shell complete the command line",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}


def compile_parser() -> Parser:
    """`aotc MODEL -o OUT [options]`."""
    p = Parser(
        prog="aotc",
        usage="aotc MODEL.onnx -o OUT [options]\n       aotc SUBCOMMAND …",
        description="Compile an ONNX model to a standalone C99 project in OUT/bundle/ and "
        "configure\nCMake with OUT as its build tree; `cmake --build OUT` does the rest.",
        epilog="subcommands (aotc SUBCOMMAND --help)"
        + "".join(
            f"\n  {title}:\n" + "".join(f"    {n:<12} {text}\n" for n, text in group.items())
            for title, group in GROUPS.items()
        )
        + f"\nexamples:\n{EXAMPLES['']}\n{_EPILOG}",
    )
    return _taking(p, COMPILE)


def command_parser(name: str) -> Parser:
    """`aotc NAME …`."""
    text = COMMANDS[name]
    p = Parser(
        prog=f"aotc {name}",
        description=f"{text[:1].upper()}{text[1:]}.",
        epilog=f"examples:\n{EXAMPLES[name]}",
    )
    return _taking(p, ARGUMENTS.get(name, COMMON))


def _taking(parser: Parser, arguments: Sequence[Argument]) -> Parser:
    """The parser, which takes the arguments in their groups."""
    group: Any = parser
    for argument in arguments:
        if isinstance(argument, str):
            group = parser.add_argument_group(argument)
        else:
            group.add_argument(*argument[0], **argument[1])
    return parser
