# SPDX-License-Identifier: Apache-2.0
"""What a user may ask of a compilation: one frozen record, filled by the CLI or by `aot.compile`.

Every option of the interface that this version honours is a field here, and no other is taken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from types import MappingProxyType, NoneType
from typing import Any, Literal, TypedDict, get_args

from aot.errors import TargetError, UnsupportedError, UsageError, meant

Objective = Literal["latency", "ram", "flash", "energy"]
Accuracy = Literal["strict", "normal", "fast"]
Specialise = Literal["none", "hot", "all"]
Requant = Literal["onnx", "tflite"]
Arena = Literal["one", "split"]

#: Stages in order; `--dump-after` takes one of them.
STAGES = ("load", "normalise", "partition", "lower", "schedule", "plan")

#: What `--package` may name: other build systems (aot/emit_c/templates/packages/index.toml).
PACKAGES = (
    *("arduino", "cargo", "cmsis-pack", "esp-idf", "fetchcontent", "freertos", "make", "meson"),
    *("platformio", "zephyr"),
)
#: How a vendor of `aotc new-backend` may compute (aot/vendor/template).
BACKEND_KINDS = ("library", "engine", "stream", "device")
#: What `--weights` may say.
_WEIGHTS = re.compile(r"embedded|file|blob|section=[A-Za-z_.][A-Za-z0-9_.]{0,63}")
#: Default search steps of the memory planner.
PLAN_EFFORT = 200_000
#: Every string and sequence takes its upper bound in memory, so the defaults are small.
MAX_STRING, MAX_SEQUENCE, MAX_BOUND = 64, 32, 65_536
#: The largest `--threads`: the cores of a large server.
MOST_THREADS = 256

#: Options that are whole numbers.
_NUMBERS = ("max_string", "max_sequence", "plan_effort", "slice_macs", "threads")

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one compilation.

    `name` is the C prefix asked for ("" = from the file name). `target` is a name or the path of a
    TOML file. `backends` are vendors in order of preference, each `NAME` or `NAME:CONFIG`
    (a string is one of them); portable C always comes last and is not listed; `backend_options`
    are what backends are told, by VENDOR.KEY; `offload_limit` leaves them that many regions,
    the first in the order they run. `keep` gives nodes (by name) to backends, `regions` are the
    user's own, by name: {"backend", "nodes" or "begin" and "end"} (docs/regions.md).
    `partition` is "priority" or "cost", for which `tune` names a table of measured costs.
    `dims` pins symbolic dimensions by name (a pair is a range, `--dim N=1..64`),
    `input_shapes` whole inputs (() is a scalar; an axis may have a range too), `bindings` makes
    inputs constants (a number, a list or a NumPy array, cast to the input's dtype by the loader).
    `states` maps inputs to the
    outputs that the next run gets for them. `cut_inputs` and `cut_outputs` are values between which
    lies the part to compile. `ram`, `flash` and `stack` are budgets in bytes
    (text as "16K" becomes bytes), None without one. `io` "" is the target's own (boards "arena").
    `arena` "split" uses several memories of a board for the arena, where one is too small.
    `push` is an input that comes by rows. `package` are build systems of PACKAGES. `slice_macs`
    bounds the slices of NAME_step, 0 for none. `single_file` adds the bundle as one C file.
    `compiler` is the C compiler that CMake is given: `zig`, a name or a path; "" leaves it to CC
    and CMake. The bundle does not depend on it.
    `dump_after` is a stage of STAGES or "".
    `test_data` is a file of samples compiled into a self-test, "" without.
    """

    name: str = ""
    target: str = "host"
    backends: tuple[str, ...] = ()
    backend_options: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    partition: str = "priority"
    offload_limit: int | None = None
    require_backend: bool = False
    keep: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    regions: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: _EMPTY)
    tune: str = ""
    dims: Mapping[str, int | tuple[int, int]] = field(default_factory=lambda: _EMPTY)
    input_shapes: Mapping[str, tuple[int | tuple[int, int], ...]] = field(
        default_factory=lambda: _EMPTY
    )
    bindings: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    states: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    cut_inputs: tuple[str, ...] = ()
    cut_outputs: tuple[str, ...] = ()
    objective: Objective = "latency"
    ram: int | None = None
    flash: int | None = None
    stack: int | None = None
    accuracy: Accuracy = "normal"
    requant: Requant = "onnx"
    specialise: Specialise = "hot"
    threads: int = 1
    io: str = ""
    arena: Arena = "one"
    push: str = ""
    weights: str = "embedded"
    max_string: int = MAX_STRING
    max_sequence: int = MAX_SEQUENCE
    plan_effort: int = PLAN_EFFORT
    test_data: str = ""
    compiler: str = ""
    package: tuple[str, ...] = ()
    slice_macs: int = 0
    single_file: bool = False
    dump_after: str = ""

    def __post_init__(self) -> None:
        """Refuse values no stage understands (UsageError naming the option and the value)."""
        for name in ("backends", "cut_inputs", "cut_outputs", "package"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        for name in ("ram", "flash", "stack"):
            object.__setattr__(self, name, _budget(name, getattr(self, name)))
        for option, value, kinds in (
            ("name", self.name, (str,)),
            ("target", self.target, (str,)),
            ("weights", self.weights, (str,)),
            ("push", self.push, (str,)),
            ("tune", self.tune, (str,)),
            ("compiler", self.compiler, (str,)),
            ("test_data", self.test_data, (str, os.PathLike)),
            *(("backends", b, (str,)) for b in self.backends),
            *(("cut_inputs", b, (str,)) for b in self.cut_inputs),
            *(("cut_outputs", b, (str,)) for b in self.cut_outputs),
            *(("package", kind, (str,)) for kind in self.package),
            ("dims", self.dims, (Mapping,)),
            *_members("input_shapes", self.input_shapes, (list, tuple)),
            ("bindings", self.bindings, (Mapping,)),
            *_members("states", self.states, (str,)),
            *_members("backend_options", self.backend_options, (str,)),
            ("ram", self.ram, (Integral, NoneType)),
            ("flash", self.flash, (Integral, NoneType)),
            ("stack", self.stack, (Integral, NoneType)),
            *((n, getattr(self, n), (Integral,)) for n in _NUMBERS),
            ("offload_limit", self.offload_limit, (Integral, NoneType)),
        ):
            _of_type(option, value, kinds)
        if self.test_data:  # wherever it is looked at later
            object.__setattr__(self, "test_data", os.path.abspath(self.test_data))
        _one_of("--objective", self.objective, get_args(Objective))
        if self.io:
            _one_of("--io", self.io, ("caller", "arena"))
        self._check_memory()
        _one_of("--accuracy", self.accuracy, get_args(Accuracy))
        _one_of("--requant", self.requant, get_args(Requant))
        _one_of("--specialise", self.specialise, get_args(Specialise))
        _one_of("--partition", self.partition, ("priority", "cost"))
        if self.tune and self.partition != "cost":
            raise UsageError(f"--tune {self.tune}: only --partition cost reads costs")
        if self.dump_after:
            _one_of("--dump-after", self.dump_after, STAGES)
        if not _WEIGHTS.fullmatch(self.weights):
            known = "embedded, file, blob, section=NAME (letters, digits, _ and .)"
            hint = meant(self.weights, ("embedded", "file", "blob", "section="))
            raise UsageError(f"--weights {self.weights}: not one of {known}", hint=hint)
        for kind in self.package:
            _one_of("--package", kind, PACKAGES)
        if self.package and self.weights in ("file", "blob"):
            what = f"--package with --weights {self.weights}: packages hold their constants as C"
            raise UnsupportedError(
                what, hint="--weights embedded, or --weights section=.rodata.weights"
            )
        if self.objective == "energy" and not set(self.backends) - {"c"}:
            what = "--objective energy: portable C, the only backend here, has no model of energy"
            raise UnsupportedError(what, hint="--backend names a vendor, for instance accel_sim")
        if self.offload_limit is not None and self.offload_limit < 0:
            raise UsageError(f"offload_limit={self.offload_limit}: must not be negative")
        if self.keep or self.regions:
            check_regions(self.regions, self.keep)
        for option, bound, most in (
            ("max-string", self.max_string, MAX_BOUND),
            ("max-sequence", self.max_sequence, MAX_BOUND),
            ("threads", self.threads, MOST_THREADS),
        ):
            if not 0 < bound <= most:
                raise UsageError(f"--{option} {bound}: not within 1..{most}")
        for option, number in (("plan-effort", self.plan_effort), ("slice-macs", self.slice_macs)):
            if number < 0:
                raise UsageError(f"--{option} {number}: must not be negative")
        for option, budget in (("ram", self.ram), ("flash", self.flash), ("stack", self.stack)):
            if budget is not None and budget <= 0:
                raise UsageError(f"--{option} {budget}: must be positive")

    def _check_memory(self) -> None:
        """Refuse options about memory that exclude each other."""
        _one_of("--arena", self.arena, get_args(Arena))
        if self.push and self.slice_macs:
            what = f"--push {self.push} with --slice-macs {self.slice_macs}"
            raise UnsupportedError(what, hint="rows cut a run already; leave --slice-macs out")
        if self.push and self.io == "caller":
            what = f"--push {self.push} with --io caller: the results are in the arena"
            raise UsageError(what, hint="leave --io away")


class Settings(TypedDict, total=False):
    """The fields of `Options` that `aot.compile` takes by name, all of them optional, in the types
    that it accepts: lists serve as tuples."""

    name: str
    backend_options: Mapping[str, str]
    partition: Literal["priority", "cost"]
    offload_limit: int | None
    require_backend: bool
    keep: Mapping[str, str]
    regions: Mapping[str, Mapping[str, Any]]
    tune: str
    dims: Mapping[str, int | tuple[int, int]]
    input_shapes: Mapping[str, Sequence[int | tuple[int, int]]]
    bindings: Mapping[str, Any]
    states: Mapping[str, str]
    cut_inputs: str | Sequence[str]
    cut_outputs: str | Sequence[str]
    objective: Objective
    ram: int | str | None
    flash: int | str | None
    stack: int | str | None
    accuracy: Accuracy
    requant: Requant
    specialise: Specialise
    threads: int
    io: Literal["", "caller", "arena"]
    arena: Arena
    push: str
    weights: str
    max_string: int
    max_sequence: int
    plan_effort: int
    test_data: str | os.PathLike[str]
    compiler: str
    package: str | Sequence[str]
    slice_macs: int
    single_file: bool
    dump_after: Literal["", "load", "normalise", "partition", "lower", "schedule", "plan"]


def parse_bytes(text: str, where: str = "") -> int:
    """A size with an optional suffix K or KB (1024), M or MB (1024²) in bytes; else TargetError."""
    found = re.fullmatch("([0-9]{1,18})(?:([KM])B?)?", text, re.ASCII | re.IGNORECASE)
    if found is None:
        what = f"size {text!r} is not a number of bytes (K or KB is 1024, M or MB 1024 times that)"
        raise TargetError(what, where)
    return int(found[1]) * {"K": 1024, "M": 1024**2}.get((found[2] or "").upper(), 1)


def _names(option: str, given: Any) -> tuple[str, ...]:
    """A list of names; one name is a list of one, not of its letters."""
    if isinstance(given, str):
        return (given,)
    _of_type(option, given, (str, list, tuple))  # not a set: the order counts
    return tuple(given)


def _budget(option: str, given: Any) -> Any:
    """Bytes spelled as on the command line ("16K") as a number, anything else as it is."""
    try:
        return parse_bytes(given) if isinstance(given, str) else given
    except TargetError as error:
        raise UsageError(f"{option}={given!r}: {error.what}") from None


def _members(option: str, given: Any, kinds: tuple[type, ...]) -> list[tuple[Any, ...]]:
    """A mapping and its values as `_of_type` takes them."""
    values = given.items() if isinstance(given, Mapping) else ()
    return [(option, given, (Mapping,)), *((f"{option}[{k!r}]", v, kinds) for k, v in values)]


def _of_type(option: str, value: object, kinds: tuple[type, ...]) -> None:
    # In Python True and False are numbers, too.
    if not isinstance(value, kinds) or (isinstance(value, bool) and Integral in kinds):
        names = {Integral: "int", NoneType: "None"}
        wanted = " or ".join(names.get(k, k.__name__) for k in kinds)
        raise UsageError(f"{option}={value!r}: not of type {wanted}")


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        what = f"{option} {value}: not one of {', '.join(known)}"
        raise UsageError(what, hint=meant(str(value), known))


FIELDS = ("backend", "nodes", "begin", "end")


def check_regions(regions: Any, keep: Any) -> None:
    """Raise UsageError unless `regions` and `keep` have the form `annotate` reads."""
    # The tables come from a file of the user's, so each level is checked before it is read.
    if not isinstance(keep, Mapping) or any(not isinstance(v, str) for v in keep.values()):
        raise UsageError("keep is not a table of NODE = BACKEND")
    if not isinstance(regions, Mapping):
        raise UsageError("regions is not a table of regions by name")
    for label, region in regions.items():
        where = f"region {label}"
        if not isinstance(region, Mapping):
            raise UsageError(f"{where} is not a table", hint=f"fields: {', '.join(FIELDS)}")
        unknown = sorted(set(region) - set(FIELDS))
        if unknown:
            what = f"{where} has no field {unknown[0]!r}"
            raise UsageError(what, hint=f"fields: {', '.join(FIELDS)}")
        for key in ("nodes", "begin", "end"):
            names = region.get(key, [])
            if not isinstance(names, list | tuple) or any(not isinstance(n, str) for n in names):
                raise UsageError(f"{where}: {key} is not a list of names")
        if not isinstance(region.get("backend", ""), str):
            raise UsageError(f"{where}: backend is not a name")
        if ("nodes" in region) == ("begin" in region or "end" in region):
            raise UsageError(f"{where} needs either nodes or begin and end")
