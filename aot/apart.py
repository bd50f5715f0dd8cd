# SPDX-License-Identifier: Apache-2.0
"""onnx's C++ on whole models, in a process of its own: damaged models end it.

Its inference goes on behind a node that it refused and reads types which are not there, and an
attribute can make it count for years. Its conversion between opsets infers, too.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import onnx

Work = Callable[["onnx.ModelProto"], "onnx.ModelProto"]

#: Seconds of the processor. (100 000 nodes take 0.5 to infer and 2.3 to convert.)
SECONDS = 10
DONE, RAISED = b"+", b"-"


class Died(RuntimeError):
    """The process ended before it had a result; the text says how. `late`: it took too long."""

    def __init__(self, what: str, late: bool = False) -> None:
        super().__init__(what)
        self.late = late


def apart(work: Work, model: onnx.ModelProto, seconds: int = SECONDS) -> onnx.ModelProto:
    """`work(model)`, computed in a forked process where the system has them.

    Raises RuntimeError with the text of what `work` raised, Died where it ended the process.
    """
    if not hasattr(os, "fork"):
        return _here(work, model)
    import resource  # noqa: F401 (the child imports nothing: another thread may hold the lock)

    ends = os.pipe()
    try:
        with warnings.catch_warnings():  # other threads: the child runs no more than `work`
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
    except OSError:  # no room for a process: as good as it goes
        for end in ends:
            os.close(end)
        return _here(work, model)
    if pid == 0:
        _child(work, model, ends[1], seconds)
    os.close(ends[1])
    said, status = b"", 0
    try:
        with open(ends[0], "rb") as pipe:
            said = pipe.read()
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
    return _result(said, status, type(model), seconds)


def _here(work: Work, model: onnx.ModelProto) -> onnx.ModelProto:
    """`work(model)` in this process; every exception is a RuntimeError."""
    try:
        return work(model)
    except Exception as error:
        raise RuntimeError(str(error) or type(error).__name__) from None


def _child(work: Work, model: onnx.ModelProto, end: int, seconds: int) -> None:
    """Compute, say what came of it and leave; nothing of this returns."""
    try:
        import resource

        faulthandler.disable()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        if most == resource.RLIM_INFINITY or most > seconds:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, most))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # last words of C++
        with open(end, "wb") as pipe:
            _say(pipe, work, model)
    finally:
        os._exit(0)


def _say(pipe: BinaryIO, work: Work, model: onnx.ModelProto) -> None:
    try:
        made = DONE + work(model).SerializeToString()
    except Exception as error:
        made = RAISED + (str(error) or type(error).__name__).encode("utf-8", "replace")
    pipe.write(made)


def _result(said: bytes, status: int, kind: type[onnx.ModelProto], seconds: int) -> onnx.ModelProto:
    """The model in what a child said; Died or RuntimeError if there is none."""
    if os.WIFSIGNALED(status) or not said:
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if number == signal.SIGXCPU:
            raise Died(f"takes more than {seconds} s", late=True)
        name = signal.Signals(number).name if number else "no result"
        raise Died(f"ends with {name}")
    if said[:1] == RAISED:
        raise RuntimeError(said[1:].decode("utf-8", "replace"))
    made = kind()
    made.ParseFromString(said[1:])
    return made


def reason_of(error: BaseException) -> str:
    """onnx's message without its own prefixes."""
    text = " ".join(str(error).split())
    for marker in ("[ShapeInferenceError] ", "[TypeInferenceError] "):
        text = text.rsplit(marker, 1)[-1]
    return text[:300] or type(error).__name__


def infer_shapes(
    model: onnx.ModelProto, strict_mode: bool = False, seconds: int = SECONDS
) -> onnx.ModelProto:
    """onnx's inference of a model; raises as `apart` does."""
    from onnx import shape_inference

    work = shape_inference.infer_shapes
    return apart(lambda m: work(m, strict_mode=strict_mode), model, seconds)


def first_refused(model: onnx.ModelProto) -> tuple[int, RuntimeError] | None:
    """The first node that onnx's inference refuses or does not survive, and how; None if none."""
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
    """What becomes of the inference of the first nodes alone."""
    part = type(model)()
    part.CopyFrom(model)
    del part.graph.node[count:], part.graph.output[:], part.graph.value_info[:]
    try:
        infer_shapes(part, strict_mode=True, seconds=1)  # of up to 18 in all
    except RuntimeError as error:
        return error
    return None
