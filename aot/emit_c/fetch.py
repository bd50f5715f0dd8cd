# SPDX-License-Identifier: Apache-2.0
"""Calls that get their weights block by block: a function makes one block after the other.

AOT_NOINLINE static void net_k0_qfc_s8__dsp(void *y0, …, void *y2, …, const void *x5, void *y6,
                                            const aot_qfc_s8__dsp_params *p, int32_t units,
                                            int32_t step, int32_t size5, int32_t bytes5,
                                            int32_t longest5) {
    aot_unpack from5;
    int32_t first, end;
    aot_unpack_begin(&from5, x5, bytes5, y6, longest5, 0);
    for (first = 0; first < units; first = end) {
        aot_qfc_s8__dsp_params rows = *p;
        end = units - first < step ? units : first + step;
        rows.n = …;
        aot_unpack_take(&from5, y2, (end - first) * size5, 1, 0);
        aot_qfc_s8__dsp((unsigned char *)y0 + (size_t)first * 4, …, y2, …);
    }
}
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.emit_c import ctext
from aot.emit_c.parts import told
from aot.ir.fetch import Fetch
from aot.ir.program import Access, Arg, Call, Params, Program

#: The headers of what gets a block: the decoder; memcpy, which port.h may name.
HEADERS = {"unpack": "aot_unpack.h", "copy": "aot_copy.h"}


def headers(calls: Sequence[Call]) -> list[str]:
    """The headers of calls: of their kernels, and of what gets their weights."""
    ways = [HEADERS[f.how] for c in calls for f in c.fetches]
    return [*(c.header or f"{c.kernel}.h" for c in calls), *ways]


def own_arguments(call: Call) -> int:
    """How many of the arguments are the kernel's: those behind are of fetched weights."""
    return min((f.source for f in call.fetches), default=len(call.args))


def declared(call: Call) -> list[str]:
    """The parameters of the function that are numbers."""
    if not call.fetches:
        return []
    sizes = [f"int32_t {n}{f.source}" for f in call.fetches for n in ("size", "bytes", "longest")]
    return ["int32_t units", "int32_t step", *sizes]


def passed(program: Program, call: Call) -> list[str]:
    """The numbers that a call gives its function: units, units of a block; bytes of a unit and of
    the source, bits of the longest code."""
    made: list[int] = []
    for fetch in call.fetches:
        source = call.tensor(fetch.source)
        made += [] if made else [fetch.split.units, fetch.step]
        made += [fetch.nbytes, program.tensors[source.tensor].nbytes, fetch.longest]
    return [str(n) for n in made]


def body(call: Call, labels: Sequence[str], params: str, statement: Sequence[str]) -> str:
    """The statements of the function; `labels` are its pointers by number of the argument.

    `params` is what it knows or is given as parameters, `statement` the kernel's name and what
    follows the pointers. A function with the member `rows` calls the kernel with these.
    """
    split = call.fetches[0].split
    lines = [_state(f) for f in call.fetches]
    lines += ["    int32_t first, end;"]
    lines += [_begin(f, labels) for f in call.fetches]
    lines += ["    for (first = 0; first < units; first = end) {"]
    # The parameters are constants that tell of all units, so a block's are set in a copy.
    if split.fields and call.params:
        lines += [f"    {line}" for line in _copied(call.params, params)]
    lines += ["        end = units - first < step ? units : first + step;"]
    lines += ["    " + line for line in told(split.fields).splitlines()]
    for fetch in call.fetches:
        lines += _block(fetch, labels)
    moves = dict(split.moves)
    pointers = [
        _moved(call, n, label, moves.get(n, 0), n in {f.into for f in call.fetches})
        for n, label in enumerate(labels[: own_arguments(call)])
    ]
    kernel, *rest = statement
    lines += [ctext.call(kernel, [*pointers, *rest]), "    }"]
    return "\n".join(lines)


def _copied(params: Params, source: str) -> list[str]:
    """The declaration of `rows`, a copy of parameters: member by member, of which compilers leave
    out most, where no member is an array."""
    kind, names = ctext.ident(params.ctype), [ctext.ident(name) for name, _ in params.fields]
    if any(isinstance(value, tuple) for _, value in params.fields):
        return [f"    {kind} rows = {source};"]
    own = source.removeprefix("*") + ("->" if source.startswith("*") else ".")
    return [f"    {kind} rows;", *(f"    rows.{name} = {own}{name};" for name in names)]


def _state(fetch: Fetch) -> str:
    """The declaration of what is known of a source between blocks."""
    if fetch.how == "unpack":
        return f"    aot_unpack from{fetch.source};"
    return f"    unsigned char *block{fetch.source} = NULL;"


def _begin(fetch: Fetch, labels: Sequence[str]) -> str:
    """The statement before the first block."""
    number, source = fetch.source, labels[fetch.source]
    if fetch.how == "unpack":
        given = (
            f"{source}, bytes{number}, {labels[fetch.table]}, longest{number}, {int(fetch.runs)}"
        )
        return f"    aot_unpack_begin(&from{number}, {given});"
    first = f"(size_t)(units < step ? units : step) * (size_t)size{number}"
    return f"    aot_copy_start({labels[fetch.into]}, {source}, {first});"


def _block(fetch: Fetch, labels: Sequence[str]) -> list[str]:
    """The statements that get a block, and begin to copy the next one."""
    number, into, source = fetch.source, labels[fetch.into], labels[fetch.source]
    if fetch.how == "unpack":
        runs = "AOT_UNPACK_FLAT" if fetch.flat else int(fetch.runs)
        given = f"(end - first) * size{number}, {fetch.size}, {runs}"
        return [f"        aot_unpack_take(&from{number}, {into}, {given});"]
    size, room = f"(size_t)size{number}", f"(size_t)step * (size_t)size{number}"
    # Two halves in turn: the kernel works on one while the next block is copied to the other.
    odd = f"(first / step) % 2 * (int32_t)({room})"
    return [
        f"        block{number} = (unsigned char *){into} + {odd};",
        "        aot_copy_wait();",
        "        if (end < units) {",
        f"            unsigned char *const next = (unsigned char *){into} + "
        f"(end / step) % 2 * (int32_t)({room});",
        f"            aot_copy_start(next, (const unsigned char *){source} + (size_t)end * {size},",
        f"                           (size_t)(units - end < step ? units - end : step) * {size});",
        "        }",
    ]


def _moved(call: Call, number: int, label: str, step: int, fetched: bool) -> str:
    """Pointer `number` in the block that begins at `first`."""
    copying = [f for f in call.fetches if f.into == number and f.how == "copy"]
    if fetched and copying:
        return f"(const void *)block{copying[0].source}"
    arg = call.args[number]
    if not step or not isinstance(arg, Arg):
        return label
    const = "const " * (arg.access is Access.READ)
    return f"({const}void *)(({const}unsigned char *){label} + (size_t)first * {step})"
