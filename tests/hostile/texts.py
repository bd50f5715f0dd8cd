# SPDX-License-Identifier: Apache-2.0
"""Hostile text in every place of a model that holds text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from hostile.case import Case, function, info, net, node, saved

#: Where the code of a payload leaves its mark: a file in the folder it runs in.
CANARY = "canary"
_BOOM = (
    "#include <stdio.h>\nstatic void boom(void) __attribute__((constructor));\n"
    f'static void boom(void) {{ FILE *f = fopen("{CANARY}", "w"); if (f) fclose(f); }}'
)
_LINE = (
    "static void __attribute__((constructor)) boom(void){extern int creat(const char*,unsigned);"
    f'creat("{CANARY}",420);}}'
)
#: Text that becomes code where it is pasted into a comment, a string or CMake unescaped.
PAYLOADS = {
    "comment": f"*/ {_LINE} /*",
    "comment in lines": f"*/\n{_BOOM}\n/*",
    "line comment": f"x\n{_LINE}\n//",
    "line comment, carriage return": f"x\r{_LINE}\r//",
    "string": f'"; {_LINE} const char z[] = "',
    "string in lines": f'"\n;{_LINE}\n"',
    "trigraph": f"??/\n{_LINE}",
    "splice": f"\\\n*/ {_LINE} /*",
    "parameter": f"x){{}} {_LINE} void other(int y",
    "cmake": f'")\nfile(WRITE "{CANARY}" "")\n#',
    "cmake bracket": f"]==]\nfile(WRITE {CANARY} x)\n#",
    "cmake variable": "${CMAKE_COMMAND}$ENV{HOME}$<SHELL_PATH:x>",
    "shell": f"$(touch {CANARY})`touch {CANARY}`;touch {CANARY}",
    "include": '#include "/etc/passwd"',
    "template": "{{ 7*7 }}{% include '/etc/passwd' %}{{ self.__init__.__globals__ }}",
    "format": "%s%n%p{0}{name.__class__}",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>",
}
WORDS = {
    "nothing": "",
    "int": "int",
    "class": "class",
    "NULL": "NULL",
    "main": "main",
    "memcpy": "memcpy",
    "errno": "errno",
    "line macro": "__LINE__",
    "operator": "_Generic",
    "this model's entry": "model_run",
    "runtime": "aot_status",
    "file macro": "__FILE__",
    "end of comment": "*/",
    "comment": "/* //",
    "quote": '"',
    "single quote": "'",
    "backslash": "\\",
    "newline": "a\nb",
    "return": "a\rb",
    "escape": "\x1b[31mred\x1b]0;title\x07",
    "other controls": "\x01\x7f\x85\x9b31m",
    "NUL": "a\0b",
    "blanks": " a  b\t",
    "accents": "é\u0301ü",
    "Japanese": "日本語",
    "right to left": "\u202eevil\u2066",
    "zero width": "a\u200bb\ufeff",
    "line separator": "a\u2028b\u2029c",
    "emoji": "👩‍💻",
    "not characters": "\ufffe\uffff\U0010ffff",
    "up": "../../../x",
    "absolute": "/etc/passwd",
    "dash": "-o",
    "percent": "%%%",
    "long": "n" * 70000,
    "digits": "0123",
    "underscores": "____",
    "pipe": "a|b`c`",
}
#: The only place where the text itself is the key of a rule.
Place = Callable[[str], onnx.ModelProto]


def _base() -> onnx.ModelProto:
    w = np.ones((3, 4), np.float32)
    nodes = [node("MatMul", "x w", "a"), node("Exp", "a", "b"), node("Relu", "b", "y")]
    return net(nodes, [info("x", (2, 3))], [info("y", (2, 4))], {"w": w})


def _set(path: str) -> Place:
    """A place by its path of fields, e.g. "graph.node.0.doc_string"."""

    def build(text: str) -> onnx.ModelProto:
        model = _base()
        target: object = model
        *way, last = path.split(".")
        for step in way:
            target = target[int(step)] if step.isdigit() else getattr(target, step)  # type: ignore[index]
        setattr(target, last, text)
        return model

    return build


def _renamed(old: str) -> Place:
    """A place by a value's name: all its uses change."""

    def build(text: str) -> onnx.ModelProto:
        model = _base()
        graph = model.graph
        for thing in [*graph.input, *graph.output, *graph.initializer]:
            if thing.name == old:
                thing.name = text
        for each in graph.node:
            for names in (each.input, each.output):
                for i, name in enumerate(names):
                    if name == old:
                        names[i] = text
        return model

    return build


def _metadata(model: onnx.ModelProto, text: str, part: str) -> onnx.ModelProto:
    model.metadata_props.add(
        key=text if part == "key" else "k", value=text if part == "value" else "v"
    )
    model.graph.node[0].metadata_props.add(key="k" if part != "key" else text, value=text)
    model.graph.metadata_props.add(key="k" if part != "key" else text, value=text)
    return model


def _open_dimension(text: str) -> onnx.ModelProto:
    model = _base()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = text
    return model


def _denotation(text: str) -> onnx.ModelProto:
    model = _base()
    model.graph.input[0].type.denotation = text
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = text
    return model


def _operator(text: str) -> onnx.ModelProto:
    model = _base()
    model.graph.node[1].op_type = text
    return model


def _domain(text: str) -> onnx.ModelProto:
    model = _base()
    model.graph.node[1].domain = text
    model.opset_import.append(helper.make_opsetid(text, 1))
    return model


def _attribute(text: str) -> onnx.ModelProto:
    model = _base()
    model.graph.node[1].attribute.add(name=text, type=2, i=1)
    return model


def _text_attribute(text: str) -> onnx.ModelProto:
    nodes = [node("Pad", "x p", "y", mode=text)]
    return net(nodes, [info("x", (2, 3))], [info("y", None)], {"p": [0, 0, 0, 0]})


def _einsum(text: str) -> onnx.ModelProto:
    return net([node("Einsum", "x", "y", equation=text)], [info("x", (2, 3))], [info("y", None)])


def _function(text: str) -> onnx.ModelProto:
    body = function("F", [node("Exp", "a", "b")])
    body.name, body.doc_string = text, text
    call = node("own.F", "x", "y")
    call.op_type = text
    imports = [helper.make_opsetid("own", 1)]
    return net([call], [info("x", (2,))], [info("y", (2,))], imports=imports, functions=[body])


def _strings(text: str) -> onnx.ModelProto:
    """Texts that the bundle itself must hold: categories of an encoder."""
    encoder = node(
        "ai.onnx.ml.LabelEncoder", "x", "y", keys_int64s=[1, 2], values_strings=[text, "b"]
    )
    imports = [helper.make_opsetid("ai.onnx.ml", 2)]
    ins = [info("x", (3,), onnx.TensorProto.INT64)]
    return net([encoder], ins, [info("y", (3,), onnx.TensorProto.STRING)], imports=imports)


PLACES: dict[str, Place] = {
    "model doc": _set("doc_string"),
    "producer": _set("producer_name"),
    "producer version": _set("producer_version"),
    "model domain": _set("domain"),
    "graph name": _set("graph.name"),
    "graph doc": _set("graph.doc_string"),
    "node name": _set("graph.node.1.name"),
    "node doc": _set("graph.node.1.doc_string"),
    "input doc": _set("graph.input.0.doc_string"),
    "constant doc": _set("graph.initializer.0.doc_string"),
    "input name": _renamed("x"),
    "output name": _renamed("y"),
    "inner name": _renamed("b"),
    "constant name": _renamed("w"),
    "metadata key": lambda text: _metadata(_base(), text, "key"),
    "metadata value": lambda text: _metadata(_base(), text, "value"),
    "dimension": _open_dimension,
    "denotation": _denotation,
    "operator": _operator,
    "domain": _domain,
    "attribute": _attribute,
    "attribute's text": _text_attribute,
    "equation": _einsum,
    "function": _function,
    "category": _strings,
}
PINNED = {"dimension": ("--input-shape", "x=2,3")}


def cases() -> Iterator[Case]:
    for place, build in PLACES.items():
        options = PINNED.get(place, ())
        for family, texts in (("names", WORDS), ("injection", PAYLOADS)):
            for what, text in texts.items():
                yield Case(
                    family,
                    f"{what} as {place}",
                    _made(build, text),
                    options=options,
                    configure=family == "injection",
                )
    for what, raw in (
        ("lone byte", b"a\xffb"),
        ("surrogate", b"a\xed\xa0\x80b"),
        ("cut", b"a\xe3\x81"),
    ):
        for place in (
            "model doc",
            "node doc",
            "input doc",
            "constant doc",
            "node name",
            "inner name",
            "input name",
            "metadata value",
        ):
            yield Case("names", f"{what} (not UTF-8) as {place}", _raw(PLACES[place], raw))
    for what, text in (WORDS | PAYLOADS).items():
        plain = "".join(c for c in text if c not in "/\0")[:60]
        yield Case("names", f"{what} as file name", _filed(plain + ".onnx"))


def _made(build: Place, text: str) -> Callable[[Path], Path]:
    return lambda folder: saved(build(text))(folder)


def _filed(name: str) -> Callable[[Path], Path]:
    return lambda folder: saved(_base(), name)(folder)


def _raw(build: Place, raw: bytes) -> Callable[[Path], Path]:
    """The placeholder's bytes replaced in the file: protobuf itself writes no invalid text."""
    stand_in = b"Q" * len(raw)

    def write(folder: Path) -> Path:
        path = folder / "model.onnx"
        path.write_bytes(build(stand_in.decode()).SerializeToString().replace(stand_in, raw))
        return path

    return write
