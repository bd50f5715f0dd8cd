# SPDX-License-Identifier: Apache-2.0
"""Oracles where onnx.reference has no answer: onnxruntime alone, in an opset that it knows."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

import numpy as np
import onnx

from fuzz.draft import session
from fuzz.generate import Model
from fuzz.oracles import Expected, expected

#: Compiled and run, though no oracle takes it.
TAKEN = "taken"
#: The newest opset whose every operator onnxruntime has.
KNOWN = 21


class Untold(Exception):
    """No oracle takes a model; `mild` for what is missing there, or wrong with this run alone."""

    def __init__(self, text: str, mild: bool) -> None:
        super().__init__(text, mild)
        self.mild = mild

    def __str__(self) -> str:
        return str(self.args[0])


def told(model: Model) -> Expected:
    """What the oracles say. Raises `Untold`.

    They are asked in a process of their own: onnxruntime ends at some models.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=tell, args=(model, there))
    child.start()
    there.close()
    try:
        answer = here.recv()
    except EOFError:
        raise Untold("an oracle died", mild=True) from None
    finally:
        child.join()
        here.close()
    if isinstance(answer, Untold):
        raise answer
    assert isinstance(answer, Expected)
    return answer


def tell(model: Model, to: Connection) -> None:
    """Send what the oracles say of a model."""
    requested = older(model)
    answer: Expected | Untold
    try:
        answer = expected(requested)
    except Exception as error:
        answer = by_onnxruntime(requested, error)
    to.send(answer)


def older(model: Model) -> Model:
    """The model in an opset that onnxruntime knows, where that has all its operators."""
    made = onnx.ModelProto()
    made.CopyFrom(model.proto)
    for entry in made.opset_import:
        if not entry.domain:
            entry.version = min(entry.version, KNOWN)
    made.ir_version = min(made.ir_version, 10)
    try:
        onnx.checker.check_model(made)
    except onnx.checker.ValidationError:
        return model
    return Model(model.seed, made, model.feeds)


def by_onnxruntime(model: Model, refusal: Exception) -> Expected | Untold:
    """What onnxruntime says of a model that onnx.reference does not run."""
    text = f"{type(refusal).__name__}: {refusal}"[:200].replace("\n", " ")
    try:
        values = session(model.proto).run(None, model.feeds)
    except Exception as error:
        mild = missing(str(error)) or missing(text) or empty(model)
        mild = mild or "out of bounds for axis" in text
        return Untold(f"{text}; {error}"[:400].replace("\n", " "), mild)
    return Expected(dict(zip(model.outputs, map(np.asarray, values), strict=True)))


def missing(refusal: str) -> bool:
    """Whether onnxruntime lacks an operator or a type."""
    return "NOT_IMPLEMENTED" in refusal or "INVALID_GRAPH" in refusal


def empty(model: Model) -> bool:
    """Whether an input has no elements, which onnxruntime seldom takes."""
    return any(a.size == 0 for a in model.feeds.values())
