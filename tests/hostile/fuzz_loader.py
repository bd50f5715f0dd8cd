# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of everything that looks at a model: `make fuzz-loader SECONDS=600`.

Bytes come in, and either a typed, normalised graph or an AotError comes out. atheris mutates the
bytes, or the fields of the message they hold; findings are written to build/fuzz/, and go to
tests/regression/loader_fuzz once they are understood.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))
FOLDER = Path("build/fuzz")
INTS = (-1, 0, 1, 2, 3, 7, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63))

with atheris.instrument_imports(include=["aot"]):
    from aot.errors import AotError
    from aot.load import load
    from aot.load.options import LoadOptions
    from aot.normalise import normalise
    from aot.ops.registry import load_all
    from hostile.case import seeds

    load_all()  # inference and passes ask the records and rules of operators
    for proto in seeds().values():  # what is imported on first use
        normalise(load(proto))

import onnx  # noqa: E402


def look(data: bytes) -> None:
    """The promise: a graph or an AotError."""
    options = LoadOptions(fold_bytes=1 << 20, uniform_bytes=1 << 22)
    try:
        normalise(load(data, options), options)
    except AotError as error:
        text = str(error)
        assert all(c.isprintable() or c == "\n" for c in text), ascii(text)


def mutate(data: bytes, size: int, seed: int) -> bytes:
    """A change of one field of the message, or of bytes."""
    rng = random.Random(seed)
    model = onnx.ModelProto()
    if rng.random() < 0.3:
        return bytes(atheris.Mutate(data, size))
    try:
        model.ParseFromString(data)
    except Exception:  # what earlier mutations broke
        return bytes(atheris.Mutate(data, size))
    for _ in range(rng.randrange(1, 4)):
        _change(_pick(model, rng), rng)
    made = model.SerializeToString()
    return made if len(made) <= size else bytes(atheris.Mutate(data, size))


def _pick(message: Any, rng: random.Random) -> Any:
    """A message somewhere inside."""
    while True:
        inner = []
        for field, value in message.ListFields():
            if field.message_type is not None:
                inner += list(value) if _repeated(field) else [value]
        if not inner or rng.random() < 0.2:
            return message
        message = rng.choice(inner)


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == 3


def _change(message: Any, rng: random.Random) -> None:
    fields = list(message.DESCRIPTOR.fields)
    present = [f for f, _ in message.ListFields()]
    field = rng.choice(present if present and rng.random() < 0.8 else fields)
    try:
        if _repeated(field):
            _change_list(message, field, rng)
        elif rng.random() < 0.2:
            message.ClearField(field.name)
        elif field.message_type is None:
            setattr(message, field.name, _value(field, rng, getattr(message, field.name)))
        else:
            getattr(message, field.name).SetInParent()
    except (ValueError, TypeError):  # out of the field's range
        return


def _change_list(message: Any, field: Any, rng: random.Random) -> None:
    values = getattr(message, field.name)
    kind = rng.randrange(4)
    if values and kind == 0:
        del values[rng.randrange(len(values))]
    elif values and kind == 1 and field.message_type is not None:
        values.add().CopyFrom(rng.choice(list(values)))
    elif field.message_type is not None:
        values.add()
    elif values and kind == 2:
        values[rng.randrange(len(values))] = _value(field, rng, values[0])
    else:
        values.append(_value(field, rng, values[0] if values else None))


def _value(field: Any, rng: random.Random, old: Any) -> Any:
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        words = ["", "x", "y", "a", "Relu", "axis", "perm", "Softmax", "ai.onnx.ml", "\x1b[0m", "é"]
        word = rng.choice([*words, old or ""])
        if field.type == field.TYPE_BYTES:
            return rng.randbytes(rng.randrange(9)) if isinstance(word, bytes) else word.encode()
        return word
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice([0.0, -1.0, 1e38, float("nan"), float("inf"), 0.5])
    if kind == field.CPPTYPE_ENUM:
        return rng.randrange(30)
    return rng.choice([*INTS, rng.randrange(30)])


def main() -> None:
    corpus = FOLDER / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for name, proto in seeds().items():
        (corpus / name).write_bytes(proto.SerializeToString())
    arguments = [sys.argv[0], *sys.argv[1:], str(corpus), f"-artifact_prefix={FOLDER}/"]
    arguments += ["-timeout=30", "-rss_limit_mb=4096", "-max_len=8192"]
    atheris.Setup(arguments, look, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
