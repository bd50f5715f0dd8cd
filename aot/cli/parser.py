# SPDX-License-Identifier: Apache-2.0
"""The command line: what is accepted, and how text becomes values. No work is done here."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from aot.cli.values import (
    backend_option,
    bind,
    budget,
    count,
    dim,
    folder,
    input_shape,
    keep,
    names,
    state,
    tolerance,
)
from aot.errors import UsageError, meant, unavailable
from aot.options import MAX_SEQUENCE, MAX_STRING, PLAN_EFFORT, STAGES

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


def compile_parser() -> Parser:
    """`aotc MODEL -o OUT [options]`."""
    p = Parser(
        prog="aotc",
        usage="aotc MODEL.onnx -o OUT [options]\n       aotc SUBCOMMAND …",
        description="Compile an ONNX model to a standalone C99 project in OUT/bundle/ and "
        "configure\nCMake with OUT as its build tree; `cmake --build OUT` does the rest.",
        epilog="subcommands (aotc SUBCOMMAND --help):\n"
        + "".join(f"  {n:<12} {COMMANDS[n][0]}\n" for n in COMMANDS)
        + "\n"
        + _EPILOG,
    )
    p.add_argument("model", metavar="MODEL.onnx", help="the model")
    p.add_argument(
        *("-o", "--output"),
        metavar="OUT",
        required=True,
        type=folder,
        help="folder of the build tree",
    )
    p.add_argument("--no-configure", action="store_true", help="only write the bundle")
    p.add_argument("--version", action="store_true", help="print the version")
    p.add_argument("--cmake-dir", action="store_true", help="print the folder of aotcConfig.cmake")
    p.add_argument("--name", metavar="NAME", default="", help="C prefix (from the file name)")
    _target(p)
    _backends(p)
    _offload(p)
    _pins(p)
    _states(p)
    _quality(p)
    p.add_argument(
        "--test-data",
        metavar="FILE.npz",
        default="",
        help="inputs and expected outputs compiled into a self-test: keys NAME, or s<k>/NAME",
    )
    p.add_argument(
        "--dump-after", metavar="STAGE", default="", help=f"print a stage: {', '.join(STAGES)}"
    )
    _common(p)
    return p


def _offload(parser: Parser) -> None:
    parser.add_argument(
        "--offload-limit",
        metavar="N",
        type=count,
        help="give backends only the first N regions in the order they run",
    )
    parser.add_argument("--require-backend", action="store_true", help="fail if portable C is used")


def _common(parser: Parser) -> None:
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print each stage as it begins"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    parser.add_argument("--json", action="store_true", help="machine-readable summary on stdout")


def _target(parser: Parser) -> None:
    parser.add_argument(
        "--target", metavar="NAME|FILE.toml", default="host", help="the target to build for (host)"
    )


def _backends(parser: Parser) -> None:
    parser.add_argument(
        "--backend",
        metavar="A,B",
        type=names,
        action="extend",
        default=[],
        help="vendors in order of preference; portable C is always last (none)",
    )
    parser.add_argument(
        "--backend-option",
        metavar="A.KEY=V",
        type=backend_option,
        action="append",
        default=[],
        help="an option of backend A (repeatable)",
    )
    parser.add_argument(
        "--partition",
        metavar="priority|cost",
        choices=("priority", "cost"),
        default="priority",
        help="give nodes to the first backend that supports them, or by their costs (priority)",
    )
    parser.add_argument(
        "--tune", metavar="FILE", default="", help="costs that `aotc tune` measured"
    )
    parser.add_argument(
        "--keep",
        metavar="NODE=BACKEND",
        type=keep,
        action="append",
        default=[],
        help="give a node to a backend (`c` is portable C)",
    )
    parser.add_argument(
        "--regions",
        metavar="FILE.toml",
        default="",
        help="regions of your own: nodes, or the values between which they lie",
    )


def _pins(parser: Parser) -> None:
    parser.add_argument(
        "--dim",
        metavar="NAME=V",
        type=dim,
        action="append",
        default=[],
        help="pin a dimension, or give it a range that every run chooses from: NAME=1..64",
    )
    parser.add_argument(
        "--input-shape",
        metavar="X=1,3,224,224",
        type=input_shape,
        action="append",
        default=[],
        help="pin the shape of an input (X= is a scalar)",
    )
    parser.add_argument(
        "--bind",
        metavar="X=V",
        type=bind,
        action="append",
        default=[],
        help="make an input a constant: a number, a list 1,2,3 or a .npy file",
    )


def _states(parser: Parser) -> None:
    parser.add_argument(
        "--state",
        metavar="IN=OUT",
        type=state,
        action="append",
        default=[],
        help="hand output OUT to the next run as its input IN; both are no arguments of a run "
        "(repeatable)",
    )


def _quality(parser: Parser) -> None:
    parser.add_argument(
        "--objective",
        choices=("latency", "ram", "flash", "energy"),
        default="latency",
        help="kernels are chosen for the least of this; energy needs a vendor (latency)",
    )
    parser.add_argument(
        "--accuracy",
        choices=("strict", "normal", "fast"),
        default="normal",
        help="strict: same bits on every compiler; fast: within 1e-2 of the largest value (normal)",
    )
    parser.add_argument(
        "--requant",
        choices=("onnx", "tflite"),
        default="onnx",
        help="arithmetic of quantised networks: float32 scales, or TFLite's fixed point (onnx)",
    )
    parser.add_argument(
        "--ram",
        metavar="N",
        type=budget,
        help="RAM budget in bytes, K or M (KB, MB): arena, variables, stack",
    )
    parser.add_argument(
        "--flash", metavar="N", type=budget, help="flash budget in bytes, K or M (KB, MB)"
    )
    parser.add_argument(
        "--stack", metavar="N", type=budget, help="stack budget in bytes, K or M; boards reserve it"
    )
    parser.add_argument(
        "--specialise",
        choices=("none", "hot", "all"),
        default="hot",
        help="code size against speed (hot)",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=_only("--threads", "1"),
        default="1",
        help="threads of a run (1); more are not available in this version",
    )
    parser.add_argument(
        "--io",
        metavar="caller|arena",
        choices=("caller", "arena"),
        default="",
        help="where inputs and outputs live: your buffers, or the arena (hosts caller, boards "
        "arena)",
    )
    parser.add_argument(
        "--weights",
        metavar="embedded|blob|section=NAME",
        default="embedded",
        help="where constants live: in the object, in a file that you pass with NAME_set_weights, "
        "or in a linker section of that name (embedded)",
    )
    parser.add_argument(
        "--max-string",
        metavar="N",
        type=count,
        default=MAX_STRING,
        help=f"longest string in bytes ({MAX_STRING})",
    )
    parser.add_argument(
        "--max-sequence",
        metavar="N",
        type=count,
        default=MAX_SEQUENCE,
        help=f"longest sequence in elements ({MAX_SEQUENCE})",
    )
    parser.add_argument(
        "--plan-effort",
        metavar="N",
        type=count,
        default=PLAN_EFFORT,
        help=f"search steps of the memory planner ({PLAN_EFFORT})",
    )


def _only(option: str, available: str, *later: str) -> Any:
    """A type that takes `available` alone and says of the others that they come later."""

    def value(text: str) -> str:
        if text == available:
            return text
        numeric = available.isdigit() and text.isdigit() and int(text) > 0
        if numeric or any(text == k or (k.endswith("=") and text.startswith(k)) for k in later):
            raise unavailable(f"{option} {text}")
        raise argparse.ArgumentTypeError(f"not one of {', '.join((available, *later))}: {text!r}")

    return value


def _run(parser: Parser) -> None:
    parser.add_argument("out", metavar="OUT", help="a built OUT")
    parser.add_argument(
        "--inputs",
        metavar="IN.npz|X=FILE",
        action="append",
        default=[],
        help="an .npz with the ONNX names as keys (or s<k>/NAME: a run for every sample), or "
        "X=file.npy, X=file.bin (repeatable)",
    )
    parser.add_argument(
        "--outputs",
        metavar="OUT.npz|Y=FILE",
        action="append",
        default=[],
        help="where to write: an .npz, or Y=file.npy, Y=file.bin (repeatable)",
    )


def _verify(parser: Parser) -> None:
    parser.add_argument("out", metavar="OUT", help="a built OUT")
    parser.add_argument("--inputs", metavar="F.npz", help="keys NAME, or s<k>/NAME for sample k")
    parser.add_argument(
        "--reference", choices=("ort", "onnx"), help="onnxruntime, else onnx.reference"
    )
    parser.add_argument(
        "--per-node",
        action="store_true",
        help="compare after every call too, at ten times the tolerance of outputs",
    )
    parser.add_argument(
        "--per-region",
        action="store_true",
        help="compare the results of each region with portable C in the vendor's place",
    )
    parser.add_argument("--model", metavar="M", help="the model (remembered in OUT/aotc.json)")
    parser.add_argument("--rtol", metavar="R", type=tolerance, help="relative tolerance")
    parser.add_argument(
        "--atol-of-max", metavar="A", type=tolerance, help="tolerance relative to max|ref|"
    )
    parser.add_argument("--max-lsb", metavar="N", type=count, help="largest difference of integers")


def _bench(parser: Parser) -> None:
    parser.add_argument("out", metavar="OUT", help="a built OUT")
    parser.add_argument("--json", metavar="F", dest="json_file", help="write the numbers to a file")
    parser.add_argument(
        "--repeat", metavar="N", type=count, default=0, help="runs (about a second)"
    )
    parser.add_argument("--per-node", action="store_true", help="print the time of every call, too")
    parser.add_argument(
        "--trace", metavar="F", help="write when an accelerator's units work: a file for Perfetto"
    )


def _explain(parser: Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the model")
    _target(parser)
    _backends(parser)
    _pins(parser)


def _tune(parser: Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument(
        "-o", "--output", metavar="COSTS.json", required=True, help="the table to write or extend"
    )
    parser.add_argument(
        "--backend", metavar="A,B", type=names, action="extend", default=[], help="vendors"
    )
    parser.add_argument("--rounds", metavar="N", type=count, default=5, help="rounds of timing (5)")
    _target(parser)
    _pins(parser)


def _partition(parser: Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("-o", "--output", metavar="P.onnx", required=True, help="the file to write")
    parser.add_argument(
        "--opset",
        metavar="N",
        type=count,
        help="opset to write (the lowest in which every operator means the same)",
    )
    _backends(parser)
    _offload(parser)
    _pins(parser)


def _report(parser: Parser) -> None:
    parser.add_argument("out", metavar="OUT", help="an OUT with a bundle")
    parser.add_argument("-o", "--output", metavar="R.html", required=True, help="the file to write")


def _disasm(parser: Parser) -> None:
    parser.add_argument("out", metavar="OUT", help="an OUT with a bundle, or a stream (.ax1)")


def _new_backend(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the backend's name, as in --backend NAME")
    parser.add_argument("-o", "--output", metavar="DIR", default="", help="folder to write (NAME)")


def _inspect(parser: Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the model")
    _pins(parser)


def _size(parser: Parser) -> None:
    parser.add_argument("subject", metavar="OUT|MODEL", help="a built OUT, or a model to estimate")
    parser.add_argument("--symbols", action="store_true", help="the largest symbols of a built OUT")
    parser.add_argument(
        "--per-node",
        action="store_true",
        help="print code and constants of every call of a built OUT",
    )
    _target(parser)
    _backends(parser)
    _pins(parser)
    parser.add_argument(
        "--objective",
        choices=("latency", "ram", "flash", "energy"),
        default="latency",
        help="kernels are chosen for the least of this (latency)",
    )


def _quantize(parser: Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the float32 model")
    parser.add_argument(
        "--calibrate",
        metavar="F.npz",
        required=True,
        help="inputs to measure ranges on: keys NAME, or s<k>/NAME for sample k; an array with "
        "more rows than the input is one sample per row",
    )
    parser.add_argument("-o", "--output", metavar="Q.onnx", required=True, help="the file to write")
    parser.add_argument(
        "--act", choices=("int8", "uint8"), default="int8", help="activations (int8)"
    )
    parser.add_argument("--per-tensor", action="store_true", help="one scale per weight tensor")
    parser.add_argument(
        "--format",
        choices=("qdq", "qoperator"),
        default="qdq",
        help="QuantizeLinear and DequantizeLinear around float operators, or QLinear operators "
        "(qdq)",
    )


def _nothing(parser: Parser) -> None:
    return None


#: Subcommands: name -> (a line about the work, its arguments).
COMMANDS = {
    "run": ("run a built bundle on inputs", _run),
    "verify": ("compare a built bundle with the model", _verify),
    "bench": ("time a built bundle", _bench),
    "explain": ("per node, the backend that computes it, and why the others do not", _explain),
    "partition": ("write the model with one function per region", _partition),
    "report": ("the content of a bundle, as one HTML page", _report),
    "disasm": ("list the commands of an accelerator's regions", _disasm),
    "tune": ("measure the time of each backend, for --partition cost", _tune),
    "inspect": ("inputs, dtypes, symbolic dimensions and the options to type", _inspect),
    "size": ("RAM, flash and MACs of a bundle, or an estimate for a model", _size),
    "quantize": ("write an 8-bit model, calibrated on data", _quantize),
    "targets": ("targets that can be built for here, and the apt line for the others", _nothing),
    "backends": ("the backends installed", _nothing),
    "new-backend": ("start a backend from a package that works", _new_backend),
    "ops": ("the operators portable C computes", _nothing),
}


def command_parser(name: str) -> Parser:
    """`aotc NAME …`."""
    text, arguments = COMMANDS[name]
    p = Parser(prog=f"aotc {name}", description=f"{text[:1].upper()}{text[1:]}.")
    arguments(p)
    if name == "bench":
        p.add_argument("-v", "--verbose", action="store_true", help="print each stage as it begins")
        p.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    else:
        _common(p)
    return p
