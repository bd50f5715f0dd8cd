# SPDX-License-Identifier: Apache-2.0
"""Budgets: met, or an error that names the operator at the peak, its tensors and what helps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from aot.errors import AotError, TargetError, UnsupportedError, shell_word, some
from aot.ir.graph_nodes import CONTROL
from aot.ir.program import Program, Role
from aot.options import Options
from aot.partition.result import Partition
from aot.plan.board_memory import Needs, check_fit, needs_of
from aot.plan.code_size import alike, largest
from aot.plan.compiled import Compiled
from aot.plan.memory.frame import framed, is_framed
from aot.plan.statics import vendors_of
from aot.target import Target

#: Bytes of stack below which no model runs.
LEAST_STACK = 192
#: The part of its estimate that the code of a board's image has in any case.
SURE = 0.75
#: Bytes that one object of a C program may have where code and data are within 2 GiB.
MOST_BYTES = (1 << 31) - (1 << 20)


#: Compiles the same model with other options.
Again = Callable[[Options], Compiled]


def check_budgets(compiled: Compiled, options: Options, again: Again) -> None:
    """Raise if a budget of `options` is exceeded, or C is used where a backend is required.

    The error says how many bytes each remedy needs, which `again` is asked for.
    """
    if options.require_backend:
        check_backends(compiled.partition, compiled.program)
    _check_board(compiled, options)
    _check_addresses(compiled)
    _check_flash(compiled, options, again)
    _check_stack(compiled, options)
    _check_ram(compiled, options, again)


def remedies(
    compiled: Compiled, options: Options, again: Again
) -> dict[str, tuple[int, list[tuple[int, str]]]]:
    """By budget ("RAM", "flash") the bytes it needs, and (bytes, option) of those that need less.

    `compiled` is the model with `options`; `again` compiles it with other ones.
    """
    needed, flash = _ram_of(compiled), _flash_of(compiled)
    ram = _ram_trials(compiled, options) if needed is not None else {}
    return {
        "RAM": (needed or 0, _remedies(ram, _ram_of, needed or 0, again)),
        "flash": (flash, _remedies(_flash_trials(options), _flash_of, flash, again)),
    }


def _remedies(
    trials: Mapping[str, Options],
    bytes_of: Callable[[Compiled], int | None],
    needed: int,
    again: Again,
) -> list[tuple[int, str]]:
    """The bytes that each of `trials`, options by their spelling, needs, the fewest first; those
    that do not compile, need no less than `needed` or have no bound are left out.
    """
    found = []
    for spelled, options in trials.items():
        try:
            size = bytes_of(again(options))
        except AotError:
            continue
        if size is not None and size < needed:
            found.append((size, spelled))
    return sorted(found)


def _needs_bytes(known: Iterable[tuple[int, str]]) -> list[str]:
    return [f"{spelled} needs {size} bytes" for size, spelled in known]


def _ram_trials(compiled: Compiled, options: Options) -> dict[str, Options]:
    """Options that may need less RAM, by their spelling."""
    trials = {}
    if options.objective != "ram":
        trials["--objective ram"] = replace(options, objective="ram")
    inputs = compiled.manifest["inputs"]
    if not options.push and len(inputs) == 1 and compiled.program.io == "arena":
        name = str(inputs[0]["name"])
        trials[f"--push {shell_word(name)}"] = replace(options, push=name)
    return trials


def _ram_of(compiled: Compiled) -> int | None:
    """Bytes of arena, variables and stack; None where no bound of the stack is known."""
    memory = compiled.manifest["memory"]
    if memory["stack_bytes"] is None:
        return None
    variables = int(memory["static_bytes"]) + int(memory.get("vendor_bytes", 0))
    return compiled.plan.arena_bytes + variables + int(memory["stack_bytes"])


def _check_ram(compiled: Compiled, options: Options, again: Again) -> None:
    """Raise TargetError if the bytes that `aotc size` calls RAM are more than `--ram` allows.

    They are the arena, the variables of the bundle and of vendors, and the stack, each in bytes. A
    stack without a bound is an error, too.
    """
    if options.ram is None:
        return
    memory = compiled.manifest["memory"]
    if memory["stack_bytes"] is None:
        _stack_unknown(compiled, f"--ram {options.ram}", "--ram")
    needed, arena, stack = _ram_of(compiled), compiled.plan.arena_bytes, int(memory["stack_bytes"])
    assert needed is not None
    if needed <= options.ram:
        return
    # Each remedy is tried by compiling again, so that the hint names only those that help.
    known = _needs_bytes(_remedies(_ram_trials(compiled, options), _ram_of, needed, again))
    # Neither shape nor width of the layers changes a stack, so they help only if the rest is more.
    mostly = 2 * stack > needed
    at = f"; {_most_of_stack(memory)}" if mostly else ""
    raise TargetError(
        f"--ram {options.ram}: {needed} bytes are needed (arena {arena}, "
        f"variables {needed - arena - stack}, stack {stack})",
        _peak_text(compiled.program) + at,
        "; ".join([*known, _STACK if mostly else _help(compiled.program)]),
    )


def _check_board(compiled: Compiled, options: Options) -> None:
    """Raise TargetError if the board's memories do not hold the model, with the peak and
    remedies.
    """
    try:
        check_fit(compiled.target, _needs(compiled))
    except TargetError as error:
        if "of arena" in error.what:
            error.where += f"; {_peak_text(compiled.program)}"
            if _saves_scratch(compiled.program, options.objective):
                error.hint = f"{SCRATCH}; {error.hint}"
        if "and variables" in error.what:
            _name_vendors(error, compiled, options)
        raise


#: What a vendor can do with less memory of its own.
_SMALLER = {"accel_sim": "--backend accel_sim:64 simulates the smallest machine"}


def _name_vendors(error: TargetError, compiled: Compiled, options: Options) -> None:
    """Say how much of what does not fit are vendors' variables, and what would need less."""
    for vendor in vendors_of(compiled.program, options):
        if vendor.memory:
            error.where += f"; {vendor.memory} bytes of them are variables of {vendor.name}"
            if smaller := _SMALLER.get(vendor.name):
                error.hint = f"{smaller}; {error.hint}"


def _check_addresses(compiled: Compiled) -> None:
    """Raise if the built-in arena, or the constants, are more than a program can link."""
    arena = compiled.plan.arena_bytes
    constants = int(compiled.manifest["memory"]["constants_bytes"])
    if arena > MOST_BYTES:
        what = f"the arena needs {arena} bytes (limit {MOST_BYTES})"
        raise TargetError(what, _peak_text(compiled.program), "a smaller input shape needs less")
    if constants > MOST_BYTES:
        raise TargetError(f"the constants take {constants} bytes (limit {MOST_BYTES})")


def _peak_text(program: Program) -> str:
    """The operator at the peak of the arena and the four largest tensors live there, as text."""
    step, live = peak(program)
    if not program.calls:
        return "no call"
    call, by_rows = program.calls[step], {n for s in program.segments for n in s.tensors}
    largest = sorted(live, key=lambda n: -program.tensor(n).nbytes)[:4]
    tensors = (
        ", ".join(
            f"{n} {program.tensor(n).nbytes}{' (a few rows)' * (n in by_rows)}" for n in largest
        )
        or "none"
    )
    nodes = " + ".join(call.origin.nodes[-2:]) or call.kernel
    vendor = f" by {call.backend}" if call.backend != "c" else ""
    return f"the peak at {nodes} ({', '.join(call.origin.ops)}){vendor}, bytes live: {tensors}"


def budgeted(target: Target, options: Options) -> Target:
    """`target` with `--stack` bytes of stack; TargetError if they are too few for anything
    to run.
    """
    if options.stack is None:
        return target
    if options.stack < LEAST_STACK:
        raise TargetError(
            f"--stack {options.stack}: the entries and a kernel need {LEAST_STACK} bytes at least",
            hint="aotc bench measures what a built image needs",
        )
    return replace(target, stack=options.stack) if target.board else target


def _flash_of(compiled: Compiled) -> int:
    """Bytes of constants, and by the estimate of code unless no board like this was measured."""
    known = not compiled.target.board or alike(compiled.target)
    code = sum(compiled.code.values()) if known else 0
    return int(compiled.manifest["memory"]["constants_bytes"]) + code


def _flash_trials(options: Options) -> dict[str, Options]:
    """Options that may need less flash, by their spelling."""
    return {
        "--objective flash": replace(options, objective="flash"),
        "--specialise none": replace(options, specialise="none"),
    }


def _check_flash(compiled: Compiled, options: Options, again: Again) -> None:
    """Raise TargetError if constants and code are more bytes than `--flash` allows.

    The bytes of code are an estimate. On boards an image is refused here if it is larger even where
    its code is a quarter less than that: the linker refuses others that do not fit. The error names
    the four nodes with the most bytes of constants, and what takes most of the code.
    """
    if options.flash is None:
        return
    constants = int(compiled.manifest["memory"]["constants_bytes"])
    code = _flash_of(compiled) - constants
    # The estimate of code is rough on boards, so a refusal needs a wide margin; the linker is
    # exact.
    sure = constants + code * (SURE if compiled.target.board else 1)
    if sure <= options.flash:
        return
    trials = _flash_trials(options)
    known = _needs_bytes(_remedies(trials, _flash_of, constants + code, again))
    sizes = sorted((-int(n["constant_bytes"]), n["call"]) for n in compiled.manifest["nodes"])
    calls = compiled.program.calls
    nodes = [f"{(calls[i].origin.nodes or (calls[i].kernel,))[-1]} {-n}" for n, i in sizes[:4] if n]
    raise TargetError(
        f"--flash {options.flash}: constants take {constants} bytes"
        + (f", code about {code}" if code else ""),
        f"nodes with the most bytes: {', '.join(nodes)}"
        + (f"; code: {', '.join([*largest(compiled.code)][:4])}" if code else ""),
        "; ".join([*known, "a quantised model has a quarter of a float32 model's constants"]),
    )


def _check_stack(compiled: Compiled, options: Options) -> None:
    """Raise TargetError if the bound on the stack is more bytes than `--stack` allows, or is
    unknown.
    """
    if options.stack is None:
        return
    memory = compiled.manifest["memory"]
    if memory["stack_bytes"] is None:
        _stack_unknown(compiled, f"--stack {options.stack}", "--stack")
    if memory["stack_bytes"] <= options.stack:
        return
    raise TargetError(
        f"--stack {options.stack}: the entries may take {memory['stack_bytes']} bytes",
        _most_of_stack(memory),
        _STACK,
    )


#: The hint where a bound on the stack is more than a budget.
_STACK = (
    "the bound of the stack holds for any gcc that optimises; aotc size computes that of a build"
)


def _most_of_stack(memory: Mapping[str, Any]) -> str:
    return f"most of the stack at {memory['stack_node']} ({memory['stack_kernel']})"


def _stack_unknown(compiled: Compiled, requested: str, option: str) -> NoReturn:
    """Raise TargetError for a budget of `option` that no figure shows to be enough."""
    unmeasured: list[str] = compiled.manifest["memory"]["stack_unmeasured"]
    calls = [c for c in compiled.program.every_call() if c.kernel in unmeasured]
    nodes = list(dict.fromkeys((c.origin.nodes or (c.kernel,))[-1] for c in calls))
    vendors = list(dict.fromkeys(c.backend for c in calls if c.backend != "c"))
    by = f" by {', '.join(vendors)}" if vendors else ""
    reserve = ", `stack` in a target file reserves more" if compiled.target.board else ""
    raise TargetError(
        f"{requested} cannot be checked: no figure for the stack of {some(unmeasured)}",
        f"{', '.join(nodes[:4])}{by}" if nodes else "",
        f"without {option}: aotc size computes the bound of a build{reserve}",
    )


def _needs(compiled: Compiled) -> Needs:
    """The bytes that the memories of a board must hold, those of test data and vendors included."""
    constants = int(compiled.manifest["memory"]["constants_bytes"])
    constants += int(compiled.manifest.get("test_data", {}).get("bytes", 0))
    needs = needs_of(compiled.program, compiled.plan, constants)
    vendors = int(compiled.manifest["memory"].get("vendor_bytes", 0))
    return replace(needs, io=needs.io + vendors)


def check_backends(partition: Partition, program: Program) -> None:
    """Raise UnsupportedError if portable C computes any node of a program, conditions of control
    flow apart.

    `program` is the lowered partition: a node without a call there is a view of memory, which no
    backend computes.
    """
    called = _called(program)
    items = [
        s
        for p in partition.tree()
        for s in p.items
        # If and Loop only decide what is computed; a C compiler writes them for every backend.
        if s.match.root.ir.domain != CONTROL
        and not s.is_view
        and (s.backend != "c" or s.name in called)
    ]
    left = [s.match.root for s in items if s.backend == "c"]
    if left:
        names = ", ".join(f"{n.onnx_name} ({n.op_type})" for n in left[:6])
        raise UnsupportedError(
            f"--require-backend: {len(left)} of {len(items)} calls fall to portable C: {names}"
            + (" …" if len(left) > 6 else ""),
            hint="`aotc explain` says why",
        )


def _called(program: Program) -> set[str]:
    """Names of the nodes that have a call in portable C, those of bodies included."""
    names: set[str] = set()
    for call in program.calls:
        if call.backend == "c":
            names.update(call.origin.nodes)
        for body in call.bodies:
            names |= _called(body.program)
    return names


SCRATCH = "--objective ram saves scratch memory"


def _saves_scratch(program: Program, objective: str) -> bool:
    """Whether scratch memory is live where the arena is fullest, and may become less."""
    live = peak(program)[1]
    return objective != "ram" and any(program.tensor(n).role is Role.SCRATCH for n in live)


def _help(program: Program) -> str:
    if program.segments:
        return "calls are made row by row already: a smaller input shape, or narrower layers"
    return "a smaller input shape, or a model with narrower layers there"


def peak(program: Program) -> tuple[int, list[str]]:
    """(index, names): the call with the most bytes live in the arena, and the tensors that are live
    then.

    A tensor is live from the first call that reads or writes it to the last one; views count as the
    tensor that owns their bytes. Of calls with equally many bytes the first is returned.
    """
    program = framed(program)
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for step, call in enumerate(program.calls):
        for name in (*call.reads(), *call.writes()):
            owner = program.base(name)[0]
            if program.tensor(owner).role in (Role.TEMP, Role.SCRATCH):
                first.setdefault(owner, step)
                last[owner] = step
    best, best_live, most = 0, list[str](), -1
    for step in range(len(program.calls)):
        live = [n for n in first if first[n] <= step <= last[n]]
        total = sum(program.tensor(n).nbytes for n in live)
        if total > most:
            best, best_live, most = step, live, total
    if is_framed(program):  # what is live between runs is live in the first and the last call
        best = min(max(best - 1, 0), len(program.calls) - 3)
    return best, best_live
