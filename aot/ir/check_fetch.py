# SPDX-License-Identifier: Apache-2.0
"""The independent checker of weights that come by blocks: it decodes what a call will decode."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

from aot.errors import InternalError
from aot.ir.fetch import CHECKED, Fetch
from aot.ir.program import Access, Arg, Call, Program, Role

#: Bytes before the code lengths of a stream, and elements of a run of zeros.
HEAD, RUN = 4, 16


def check_fetches(program: Program, call: Call, where: str) -> None:
    """Raise InternalError, beginning with `where`, unless the call gets its weights block by block.

    A block fits its scratch memory, and every moved argument is within its tensor in the last
    block. The source holds the weights that the digest is of, and a run of the call asks it for no
    byte that it does not have.
    """
    # Every one of these cuts moves the call's pointers for itself.
    if call.fetches and (call.splits or call.rowwise or call.bodies or call.region >= 0):
        raise InternalError(f"{where}: a call with fetched weights is cut in another way, too")
    for fetch in call.fetches:
        told = f"{where}: {fetch.text()}"
        try:
            into, source = (call.args[n] for n in (fetch.into, fetch.source))
            table = call.args[fetch.table] if fetch.table >= 0 else None
        except IndexError:
            raise InternalError(f"{told}: an argument is missing") from None
        room = fetch.buffers * fetch.step * fetch.nbytes
        if not _scratch(program, into, room):
            raise InternalError(f"{told}: no scratch memory of {room} bytes")
        if not isinstance(source, Arg) or program.tensors[source.tensor].role is not Role.CONST:
            raise InternalError(f"{told}: the source is no constant")
        if fetch.how == "unpack" and not _scratch(program, table, 2 << fetch.longest):
            raise InternalError(f"{told}: no room for the table of {fetch.longest} bits")
        _check_moves(program, call, fetch, told)
        _check_source(np.asarray(program.consts[source.tensor]), fetch, told)


def _scratch(program: Program, arg: object, nbytes: int) -> bool:
    """Whether an argument is written scratch memory of so many bytes."""
    if not isinstance(arg, Arg) or arg.access is not Access.WRITE or arg.offset:
        return False
    tensor = program.tensors[arg.tensor]
    return tensor.role is Role.SCRATCH and tensor.nbytes >= nbytes


def _check_moves(program: Program, call: Call, fetch: Fetch, told: str) -> None:
    """Raise InternalError unless the blocks are those of the call: known parameters, no argument
    beyond its tensor, the same cut for all of its weights."""
    known = {name for name, _ in call.params.fields} if call.params else set()
    units, cuts = fetch.split.units, {(f.split, f.step) for f in call.fetches}
    if {f.member for f in fetch.split.fields} - known or units < 1 or fetch.step < 1:
        raise InternalError(f"{told}: it cannot be cut so")
    if len(cuts) > 1 or (units > 1 and not fetch.split.fields):
        raise InternalError(f"{told}: weights of one call come by different blocks")
    for number, size in fetch.split.moves:
        arg = call.args[number]
        if number in (fetch.into, fetch.source, fetch.table) or not isinstance(arg, Arg):
            raise InternalError(f"{told}: argument {number} does not move")
        if arg.offset + (units - 1) * size >= max(1, program.tensors[arg.tensor].nbytes):
            raise InternalError(f"{told}: a block leaves {arg.tensor}")


def _check_source(data: np.ndarray, fetch: Fetch, told: str) -> None:
    """Raise InternalError unless the constant holds `fetch.total` bytes with the digest."""
    stored = data.reshape(-1).view(np.uint8)
    count = min(fetch.total, CHECKED * fetch.size)
    if fetch.how == "copy":
        right, made = len(stored) == fetch.total, stored[:count].tobytes()
    else:
        size, right = fetch.size, int(stored[0]) <= fetch.longest
        elements = decode(stored.tobytes(), count // size, fetch.runs)
        made = b"".join((v % (1 << 8 * size)).to_bytes(size, "little") for v in elements)
    if not right or zlib.crc32(made) != fetch.digest:
        raise InternalError(f"{told}: the source holds other weights")


def decode(stream: bytes, count: int, runs: bool) -> Iterator[int]:
    """The first `count` elements of a stream of aot_unpack.h, bit by bit of its canonical codes.

    With `runs` the last symbol is a run of zeros. Ends early where the stream does.
    """
    # The base of the values is a signed byte.
    low, base = stream[1], stream[2] - (stream[2] >> 7) * 256
    symbols = stream[3] + 1
    start = HEAD + (symbols + 1) // 2
    lengths = [(stream[HEAD + s // 2] >> 4 * (s % 2)) & 15 for s in range(symbols)]
    known: dict[tuple[int, int], int] = {}
    # Canonical codes: short ones first, those of one length in the order of their symbols.
    code = 0
    for length in range(1, 16):
        for symbol in (s for s in range(symbols) if lengths[s] == length):
            known[length, code] = symbol
            code += 1
        code <<= 1
    bits = iter(np.unpackbits(np.frombuffer(stream, np.uint8)[start:]).tolist())
    made = 0
    while made < count:
        length = code = 0
        while (length, code) not in known:
            bit = next(bits, None)
            if bit is None:
                return
            length, code = length + 1, code << 1 | bit
        symbol = known[length, code]
        if runs and symbol == symbols - 1:
            for _ in range(min(RUN, count - made)):
                yield 0
            made += RUN
            continue
        value = base + symbol
        for _ in range(low):
            value = value << 1 | next(bits, 0)
        yield value
        made += 1
