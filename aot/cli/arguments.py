# SPDX-License-Identifier: Apache-2.0
"""What the command line takes: every argument with its help, in groups, and examples."""

from __future__ import annotations

from typing import Any

from aot.cli.values import (
    backend_option,
    bind,
    budget,
    count,
    dim,
    folder,
    input_shape,
    keep,
    multiplications,
    names,
    state,
    tolerance,
    values,
)
from aot.options import BACKEND_KINDS, MAX_SEQUENCE, MAX_STRING, PACKAGES, PLAN_EFFORT, STAGES

#: Spellings of an argument and what argparse is to know of it, or the title of a group that begins.
Argument = tuple[tuple[str, ...], dict[str, Any]] | str


def _row(*flags: str, **meaning: Any) -> Argument:
    return flags, meaning


def _objective(more: str = "") -> Argument:
    return _row(
        "--objective",
        choices=("latency", "ram", "flash", "energy"),
        default="latency",
        help=f"the quantity that is minimised{more} (latency)",
    )


_FLAG = {"action": "store_true"}
_REPEATED: dict[str, Any] = {"action": "append", "default": []}

_BUILT = _row("out", metavar="OUT", help="a built OUT")
_MODEL = _row("model", metavar="MODEL", help="the model")
_OFFLOAD = (
    _row(
        "--offload-limit",
        metavar="N",
        type=count,
        help="give backends only the first N regions in the order they run",
    ),
    _row("--require-backend", **_FLAG, help="fail if portable C is used"),
)

_PROGRESS: tuple[Argument, ...] = (
    "messages",
    _row("-v", "--verbose", **_FLAG, help="print each stage as it begins"),
    _row("-q", "--quiet", **_FLAG, help="print errors only"),
)
COMMON: tuple[Argument, ...] = (
    *_PROGRESS,
    _row("--json", **_FLAG, help="machine-readable summary on stdout"),
)

_FOR = "the target to build for (host); x86-64:v2,v3 is one library for several levels of the CPU"
_BY = "the command that runs the program, in place of {}: 'ssh HOST {}'"
_TARGET: tuple[Argument, ...] = (
    "target",
    _row("--target", metavar="NAME|FILE.toml", default="host", help=_FOR),
)
_RUNNER = _row("--runner", metavar="CMD", default="", help=_BY)

_BACKENDS: tuple[Argument, ...] = (
    "backends",
    _row(
        "--backend",
        metavar="A,B",
        type=names,
        action="extend",
        default=[],
        help="vendors in order of preference; portable C is always last (none)",
    ),
    _row(
        "--backend-option",
        metavar="A.KEY=V",
        type=backend_option,
        **_REPEATED,
        help="an option of backend A (repeatable)",
    ),
    _row(
        "--partition",
        metavar="priority|cost",
        choices=("priority", "cost"),
        default="priority",
        help="give nodes to the first backend that supports them, or by their costs (priority)",
    ),
    _row("--tune", metavar="FILE", default="", help="costs that `aotc tune` measured"),
    _row(
        "--keep",
        metavar="NODE=BACKEND",
        type=keep,
        **_REPEATED,
        help="give a node to a backend (`c` is portable C)",
    ),
    _row(
        "--regions",
        metavar="FILE.toml",
        default="",
        help="regions of your own: nodes, or the values between which they lie",
    ),
)

_PINS: tuple[Argument, ...] = (
    "shapes and parts of the model",
    _row(
        "--dim",
        metavar="NAME=V",
        type=dim,
        **_REPEATED,
        help="pin a dimension, or give it a range that every run chooses from: NAME=1..64",
    ),
    _row(
        "--input-shape",
        metavar="X=1,3,224,224",
        type=input_shape,
        **_REPEATED,
        help="pin the shape of an input (X= is a scalar)",
    ),
    _row(
        "--bind",
        metavar="X=V",
        type=bind,
        **_REPEATED,
        help="make an input a constant: a number, a list 1,2,3 or a .npy file",
    ),
    *(
        _row(
            f"--cut-{end}",
            metavar="A,B",
            type=values,
            action="extend",
            default=[],
            help=f"take the part of the model that {verb} with these values",
        )
        for end, verb in (("inputs", "begins"), ("outputs", "ends"))
    ),
)

_STATES = (
    _row(
        "--state",
        metavar="IN=OUT",
        type=state,
        **_REPEATED,
        help="hand output OUT to the next run as its input IN; both are no arguments of a run "
        "(repeatable)",
    ),
)

_SPLIT = "keep the arena of a board in one memory, or in several where one is too small (one)"
_ARENA = _row("--arena", choices=("one", "split"), default="one", help=_SPLIT)
_QUALITY: tuple[Argument, ...] = (
    "kernels and arithmetic",
    _objective("; energy needs a vendor"),
    _row(
        "--accuracy",
        choices=("strict", "normal", "fast"),
        default="normal",
        help="strict: same bits on every compiler; fast: within 1e-2 of the largest value (normal)",
    ),
    _row(
        "--requant",
        choices=("onnx", "tflite"),
        default="onnx",
        help="arithmetic of quantised networks: float32 scales, or TFLite's fixed point (onnx)",
    ),
    "budgets",
    _row(
        "--ram",
        metavar="N",
        type=budget,
        help="RAM budget in bytes, K or M (KB, MB): arena, variables, stack",
    ),
    _row("--flash", metavar="N", type=budget, help="flash budget in bytes, K or M (KB, MB)"),
    _row(
        "--stack", metavar="N", type=budget, help="stack budget in bytes, K or M; boards reserve it"
    ),
    "form of the bundle",
    _row(
        "--specialise",
        choices=("none", "hot", "all"),
        default="hot",
        help="compile a function for the sizes of a layer: never, where it pays, always (hot)",
    ),
    _row(
        "--threads",
        metavar="N",
        type=count,
        default=1,
        help="share the work of a run among N threads (1); hosts only",
    ),
    _row(
        "--io",
        metavar="caller|arena",
        choices=("caller", "arena"),
        default="",
        help="where inputs and outputs live: your buffers, or the arena (hosts caller, boards "
        "arena)",
    ),
    _ARENA,
    _row(
        "--push",
        metavar="X",
        default="",
        help="input X comes by rows: NAME_push_rows takes them, and all of X is never in memory",
    ),
    _row(
        "--weights",
        metavar="embedded|file|blob|section=NAME",
        default="embedded",
        help="where constants live: in the object, in a file beside the library that NAME_init "
        "maps (hosts), in a file that you pass with NAME_set_weights, or in a linker section of "
        "that name (embedded)",
    ),
    _row(
        "--slice-macs",
        metavar="N",
        type=multiplications,
        default=0,
        help="give the bundle NAME_step, which makes a run in slices of at most N multiplications; "
        "N may end in K or M",
    ),
    _row("--single-file", **_FLAG, help="add single/NAME.c and NAME.h, the bundle in two files"),
    _row(
        "--max-string",
        metavar="N",
        type=count,
        default=MAX_STRING,
        help=f"longest string in bytes ({MAX_STRING})",
    ),
    _row(
        "--max-sequence",
        metavar="N",
        type=count,
        default=MAX_SEQUENCE,
        help=f"longest sequence in elements ({MAX_SEQUENCE})",
    ),
    _row(
        "--plan-effort",
        metavar="N",
        type=count,
        default=PLAN_EFFORT,
        help=f"search steps of the memory planner ({PLAN_EFFORT})",
    ),
)

_WRITTEN: tuple[Argument, ...] = (
    _row(
        *("-o", "--output"),
        metavar="OUT",
        required=True,
        type=folder,
        help="folder of the build tree",
    ),
    _row("--no-configure", **_FLAG, help="only write the bundle"),
)

COMPILE: tuple[Argument, ...] = (
    _row("model", metavar="MODEL.onnx", help="the model"),
    *_WRITTEN,
    _row("--name", metavar="NAME", default="", help="C prefix (from the file name)"),
    *_TARGET,
    *_BACKENDS,
    *_OFFLOAD,
    *_PINS,
    *_STATES,
    *_QUALITY,
    _row(
        "--test-data",
        metavar="FILE.npz",
        default="",
        help="inputs and expected outputs compiled into a self-test: keys NAME, or s<k>/NAME",
    ),
    _row(
        "--compiler",
        metavar="zig|gcc|clang|PATH",
        default="",
        help="the C compiler that CMake is given; gcc is the target's own (CC, else CMake's)",
    ),
    _row(
        "--package",
        metavar="KIND,…",
        type=values,
        action="extend",
        default=[],
        help=f"also write OUT/packages/KIND, for other build systems: {', '.join(PACKAGES)}",
    ),
    "instead of a compilation",
    _row("--version", **_FLAG, help="print the version"),
    _row("--cmake-dir", **_FLAG, help="print the folder of aotcConfig.cmake"),
    *COMMON,
    _row("--dump-after", metavar="STAGE", default="", help=f"print a stage: {', '.join(STAGES)}"),
)

#: Arguments of subcommands; the others take COMMON.
ARGUMENTS: dict[str, tuple[Argument, ...]] = {
    "init": (
        _row("folder", metavar="DIR", help="folder to write, new or empty"),
        _row("--model", metavar="MODEL", default="", help="your model (a small one is made)"),
        _row("--name", metavar="NAME", default="", help="C prefix (the model's, or DIR's, name)"),
        *_PINS[:3],
        *COMMON,
    ),
    "build": (
        _row("folder", metavar="DIR", nargs="?", default=".", help="folder of aotc.toml (.)"),
        _row("--jobs", metavar="N", type=count, default=0, help="compile N files at a time"),
        *COMMON,
    ),
    "completion": (
        _row("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish"),
        *COMMON,
    ),
    "run": (
        _BUILT,
        _row(
            "--inputs",
            metavar="IN.npz|X=FILE",
            **_REPEATED,
            help="an .npz with the ONNX names as keys (or s<k>/NAME: a run for every sample), "
            "or X=file.npy, X=file.bin (repeatable)",
        ),
        _row(
            "--outputs",
            metavar="OUT.npz|Y=FILE",
            **_REPEATED,
            help="where to write: an .npz, or Y=file.npy, Y=file.bin (repeatable)",
        ),
        *COMMON,
    ),
    "verify": (
        _BUILT,
        _row("--inputs", metavar="F.npz", help="keys NAME, or s<k>/NAME for sample k"),
        _row("--reference", choices=("ort", "onnx"), help="onnxruntime, else onnx.reference"),
        _row(
            "--per-node",
            **_FLAG,
            help="compare after every call too, at ten times the tolerance of outputs",
        ),
        _row(
            "--per-region",
            **_FLAG,
            help="compare the results of each region with portable C in the vendor's place",
        ),
        _row("--model", metavar="M", help="the model (remembered in OUT/aotc.json)"),
        _row("--rtol", metavar="R", type=tolerance, help="relative tolerance"),
        _row("--atol-of-max", metavar="A", type=tolerance, help="tolerance relative to max|ref|"),
        _row("--max-lsb", metavar="N", type=count, help="largest difference of integers"),
        _row("--junit", metavar="F.xml", default="", help="also write every comparison as a test"),
        *COMMON,
    ),
    "bench": (
        _BUILT,
        _row("--json", metavar="F", dest="json_file", help="write the numbers to a file"),
        _row("--repeat", metavar="N", type=count, default=0, help="runs (about a second)"),
        _row("--per-node", **_FLAG, help="print the time of every call, too"),
        _row("--trace", metavar="F", help="write a file for Perfetto: when an accelerator works"),
        _RUNNER,
        *_PROGRESS,
    ),
    "explain": (
        _MODEL,
        _row(
            "--unsupported",
            action="store_true",
            help="all that keeps the model from being compiled, and where to cut it",
        ),
        _objective("; ram also lists calls by rows"),
        _ARENA,
        *_TARGET,
        *_BACKENDS,
        *_PINS,
        *COMMON,
    ),
    "partition": (
        _MODEL,
        _row("-o", "--output", metavar="P.onnx", required=True, help="the file to write"),
        _row(
            "--opset",
            metavar="N",
            type=count,
            help="opset to write (the lowest in which every operator means the same)",
        ),
        *_BACKENDS,
        *_OFFLOAD,
        *_PINS,
        *COMMON,
    ),
    "report": (
        _row("out", metavar="OUT", help="an OUT with a bundle"),
        _row("-o", "--output", metavar="R.html", required=True, help="the file to write"),
        _row("--bench", metavar="F", default="", help="the file of `bench --per-node --json F`"),
        _row("--remedies", **_FLAG, help="plan again with each option that may need less"),
        *COMMON,
    ),
    "sbom": (
        _row("out", metavar="OUT", help="an OUT with a bundle"),
        _row("-o", "--output", metavar="F.json", default="", help="the file to write (stdout)"),
        *COMMON,
    ),
    "diff": (
        _row("out", metavar="OUT_A", help="an OUT with a bundle"),
        _row("other", metavar="OUT_B", help="another one"),
        _row("-o", "--output", metavar="D.html", default="", help="also write a page"),
        _row(
            "--inputs",
            metavar="IN.npz|X=FILE",
            **_REPEATED,
            help="compare the outputs on these, as `aotc run` takes them (seeded random arrays)",
        ),
        _row("--exit-code", **_FLAG, help="exit with 1 if anything differs"),
        "messages",
        _row("-v", "--verbose", **_FLAG, help="print the equal figures, too"),
        *COMMON[2:],
    ),
    "link": (
        _row("outs", metavar="OUT", nargs="+", help="an OUT with a bundle, two or more"),
        *_WRITTEN,
        _row("--name", metavar="NAME", default="", help="name of the project (the models' names)"),
        *COMMON,
    ),
    "disasm": (
        _row("out", metavar="OUT", help="an OUT with a bundle, or a stream (.ax1)"),
        *COMMON,
    ),
    "tune": (
        _MODEL,
        _row(
            "-o",
            "--output",
            metavar="COSTS.json",
            required=True,
            help="the table to write or extend",
        ),
        _row("--backend", metavar="A,B", type=names, action="extend", default=[], help="vendors"),
        _row("--rounds", metavar="N", type=count, default=5, help="rounds of timing (5)"),
        _RUNNER,
        *_TARGET,
        *_PINS,
        *COMMON,
    ),
    "inspect": (_MODEL, *_PINS, *COMMON),
    "size": (
        _row("subject", metavar="OUT|MODEL", help="a built OUT, or a model to estimate"),
        _row("--symbols", **_FLAG, help="the largest symbols of a built OUT"),
        _row(
            "--per-node",
            **_FLAG,
            help="print code and constants of every call of a built OUT",
        ),
        _objective(),
        _ARENA,
        *_TARGET,
        *_BACKENDS,
        *_PINS,
        *COMMON,
    ),
    "quantize": (
        _row("model", metavar="MODEL", help="the float32 model"),
        _row(
            "--calibrate",
            metavar="F.npz",
            required=True,
            help="inputs to measure ranges on: keys NAME, or s<k>/NAME for sample k; an array "
            "with more rows than the input is one sample per row",
        ),
        _row("-o", "--output", metavar="Q.onnx", required=True, help="the file to write"),
        _row("--act", choices=("int8", "uint8"), default="int8", help="activations (int8)"),
        _row("--per-tensor", **_FLAG, help="one scale per weight tensor"),
        _row(
            "--format",
            choices=("qdq", "qoperator"),
            default="qdq",
            help="QuantizeLinear and DequantizeLinear around float operators, or QLinear "
            "operators (qdq)",
        ),
        *COMMON,
    ),
    "new-backend": (
        _row("name", metavar="NAME", help="the backend's name, as in --backend NAME"),
        _row("--kind", choices=BACKEND_KINDS, default="library", help="how it computes (library)"),
        _row("-o", "--output", metavar="DIR", default="", help="folder to write (NAME)"),
        *COMMON,
    ),
}
