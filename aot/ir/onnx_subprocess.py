# SPDX-License-Identifier: Apache-2.0
"""onnx's C++ on models, in a process of its own: damaged ones end it.

Its inference goes on behind a node that it refused and reads types which are not there, and an
attribute can make it count for years. Its conversion between opsets infers, too.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import warnings
from collections.abc import Callable
from typing import BinaryIO

from aot.ir.deferred_import import onnx

Work = Callable[["onnx.ModelProto"], "onnx.ModelProto"]

#: Seconds of the processor. (100 000 nodes take 0.5 to infer and 2.3 to convert.)
SECONDS = 10
#: Times that a process of one work may end before its work is given up.
DEATHS = 20
DONE, RAISED = b"+", b"-"


class ProcessDied(RuntimeError):
    """The process ended before it had a result; the text says how. `late`: it took too long."""

    def __init__(self, what: str, late: bool = False) -> None:
        """Note the text for the user and whether the process ran out of time (`late`)."""
        super().__init__(what)
        self.late = late


def run_isolated(work: Work, model: onnx.ModelProto, seconds: int = SECONDS) -> onnx.ModelProto:
    """`work(model)`, computed in a forked process where the system has them.

    Raises RuntimeError with the text of what `work` raised, ProcessDied where it ended the process.
    """
    with Child(work, seconds) as child:
        return child(model)


class Child:
    """A forked process that does `work` on one model after another, until it is closed.

    It starts with the first model, and anew after one that ended it, and has `seconds` of the
    processor for all. What ended DEATHS times or took too long is not tried again.
    """

    def __init__(self, work: Work, seconds: int = SECONDS) -> None:
        """Prepare a process that answers `work`; it may take `seconds` of CPU time in all."""
        self._work, self._seconds = work, seconds
        self._pid = 0
        self._deaths, self._given_up = 0, ""
        self._pipes: tuple[BinaryIO, BinaryIO] | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """`work(model)`, computed in the process.

        RuntimeError if the work raises or the model has 2 GiB or more; ProcessDied if the process
        ends by itself, and at once for each model after it ended too often.
        """
        if self._given_up:
            raise ProcessDied(self._given_up)
        if not self._pid and not self._fork():
            return _here(self._work, model)
        assert self._pipes is not None
        to, back = self._pipes
        try:
            given = model.SerializeToString()
        except Exception as error:  # 2 GiB and more
            raise RuntimeError(str(error) or type(error).__name__) from None
        try:
            _send(to, given)
            said = _receive(back)
        except BrokenPipeError:
            said = None
        if said is None:
            raise self._died()
        if said[:1] == RAISED:
            raise RuntimeError(said[1:].decode("utf-8", "replace"))
        made = type(model)()
        made.ParseFromString(said[1:])
        return made

    def close(self) -> None:
        """End the process, which keeps nothing."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            self._reap()

    def _reap(self) -> int:
        """Wait for a process that ends; how it did."""
        assert self._pipes is not None
        pid, self._pid = self._pid, 0
        for pipe in self._pipes:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        return os.waitpid(pid, 0)[1]

    def _fork(self) -> bool:
        """Make the process and its pipes; False where there can be none."""
        if not hasattr(os, "fork"):
            return False
        import resource  # noqa: F401 (the child imports nothing: another thread may hold the lock)

        ends: list[int] = []
        try:
            ends += os.pipe()
            ends += os.pipe()
            with warnings.catch_warnings():  # other threads: the child runs no more than `work`
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
        except OSError:  # no room for a process: as good as it goes
            for end in ends:
                os.close(end)
            return False
        requested, to, back, told = ends
        if pid == 0:
            os.close(to)  # else it would not see that nobody asks any more
            os.close(back)
            _serve(self._work, requested, told, self._seconds)
        os.close(requested)
        os.close(told)
        self._pid, self._pipes = pid, (open(to, "wb"), open(back, "rb"))  # noqa: SIM115
        return True

    def _died(self) -> ProcessDied:
        """The error about a process that has ended by itself; after DEATHS of them none is made
        again.
        """
        status = self._reap()
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        late = number == signal.SIGXCPU
        name = signal.Signals(number).name if number else "no result"
        what = f"takes more than {self._seconds} s" if late else f"ends with {name}"
        self._deaths += 1
        if late or self._deaths == DEATHS:
            self._given_up = f"{what}; it is not tried again"
        return ProcessDied(what, late)


def _here(work: Work, model: onnx.ModelProto) -> onnx.ModelProto:
    """`work(model)` in this process; every exception is a RuntimeError."""
    try:
        return work(model)
    except Exception as error:
        raise RuntimeError(str(error) or type(error).__name__) from None


def _serve(work: Work, source: int, end: int, seconds: int) -> None:
    """Answer models from the descriptor `source` on `end`, in the child, and end the process.

    `seconds` of CPU time are its limit. Signals end it as usual; what C++ prints is dropped.
    """
    try:
        import resource

        faulthandler.disable()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the parent's tidy OUT
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        if most == resource.RLIM_INFINITY or most > seconds:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, most))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # last words of C++
        with open(source, "rb") as models, open(end, "wb") as results:
            while (given := _receive(models)) is not None:
                _send(results, _answer(work, given))
    finally:
        os._exit(0)


def _answer(work: Work, given: bytes) -> bytes:
    """DONE and the model that `work` makes of a serialised one, or RAISED and the text of its
    error.
    """
    try:
        made: bytes = work(onnx.ModelProto.FromString(given)).SerializeToString()
        return DONE + made
    except Exception as error:
        return RAISED + (str(error) or type(error).__name__).encode("utf-8", "replace")


def _send(pipe: BinaryIO, data: bytes) -> None:
    """Write the length of `data`, 8 bytes little-endian, and `data`; OSError if no one reads."""
    pipe.write(len(data).to_bytes(8, "little") + data)
    pipe.flush()


def _receive(pipe: BinaryIO) -> bytes | None:
    """What `_send` wrote; None at the end, also within."""
    count = pipe.read(8)
    if len(count) < 8:
        return None
    size = int.from_bytes(count, "little")
    data = pipe.read(size)
    return data if len(data) == size else None


def reason_of(error: BaseException) -> str:
    """onnx's message without its own prefixes."""
    text = " ".join(str(error).split())
    for marker in ("[ShapeInferenceError] ", "[TypeInferenceError] "):
        text = text.rsplit(marker, 1)[-1]
    return text[:300] or type(error).__name__


def infer_shapes(
    model: onnx.ModelProto, strict_mode: bool = False, seconds: int = SECONDS
) -> onnx.ModelProto:
    """onnx's inference of a model; raises as `run_isolated` does."""
    work = onnx.shape_inference.infer_shapes
    return run_isolated(lambda m: work(m, strict_mode=strict_mode), model, seconds)


def strictly(model: onnx.ModelProto) -> onnx.ModelProto:
    """onnx's inference, in the process that calls it: work for a child."""
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def first_refused(model: onnx.ModelProto) -> tuple[int, RuntimeError] | None:
    """(index, error) of the first node that onnx's inference refuses or does not survive; None if
    none.

    The search halves the list of nodes: inference of the first k nodes fails from the bad node on.
    """
    low, high = 0, len(model.graph.node)  # the first `low` nodes are good
    found = _refusal(model, high)
    if found is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        error = _refusal(model, middle)
        low, high, found = (middle, high, found) if error is None else (low, middle, error)
    return high - 1, found


def _refusal(model: onnx.ModelProto, count: int) -> RuntimeError | None:
    """The error of the inference of the first `count` nodes alone, None if there is none."""
    part = type(model)()
    part.CopyFrom(model)
    del part.graph.node[count:], part.graph.output[:], part.graph.value_info[:]
    try:
        infer_shapes(part, strict_mode=True, seconds=1)  # of up to 18 in all
    except RuntimeError as error:
        return error
    return None
