# SPDX-License-Identifier: Apache-2.0
"""Attributes whose text is one of a few, or whose numbers have a least: ONNX gives others no
meaning.

The records of operators have the least numbers (`AtLeast`) and the sets (`OneOf`): ONNX's texts
over all opsets, and onnxruntime's for its own operators. Where the set is open (labels, equations,
patterns) an attribute has no rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from aot.errors import ModelError, meant
from aot.ir.deferred_import import onnx
from aot.ir.operators import AtLeast, OneOf, operator_named
from aot.load.check import all_graphs, domain_of, node_title

MICROSOFT = "com.microsoft"


def check_choices(model: onnx.ModelProto, claimed: Collection[str] = ()) -> None:
    """ModelError for the first text or number that is none of its attribute's; functions too.

    Calls of the model's functions, and onnxruntime's operators where a backend claims them
    ("domain::name"), may have texts and numbers of their own.
    """
    own = {(domain_of(f.domain), f.name) for f in model.functions}
    nodes = [n for g in all_graphs(model.graph) for n in g.node]
    nodes += [n for f in model.functions for n in f.node]
    for node in nodes:
        key = domain_of(node.domain), node.op_type
        if key in own or (key[0] == MICROSOFT and "::".join(key) in claimed):
            continue
        record = operator_named(key[1], key[0])
        rules = {} if record is None else record.attributes
        for given in node.attribute:
            rule = rules.get(given.name)
            if isinstance(rule, OneOf):
                _check(node, given, rule)
            elif isinstance(rule, AtLeast):
                _check_least(node, given, rule)


def _check(node: onnx.NodeProto, given: onnx.AttributeProto, rule: OneOf) -> None:
    """Raise ModelError for a text of an attribute that is none of those that `rule` lists."""
    for text in _texts(given):
        if not rule.allows(text):
            what = f"{node_title(node)}: {given.name} {text[:60]!r} has no meaning"
            known = rule.texts.split()
            hint = f"{given.name} is one of {', '.join(known)}"
            raise ModelError(what, hint=meant(text, known, hint))


def _check_least(node: onnx.NodeProto, given: onnx.AttributeProto, rule: AtLeast) -> None:
    """Raise ModelError for a number of an attribute below the least that `rule` says."""
    for number in _numbers(given):
        if number < rule.least:
            what = f"{node_title(node)}: {given.name} {number} (needs at least {rule.least})"
            raise ModelError(what, hint=f"set {given.name} to {rule.least} or more")


def _texts(attribute: onnx.AttributeProto) -> Iterator[str]:
    """The texts of an attribute; none where it refers to an attribute of its function."""
    if attribute.ref_attr_name:
        return
    kinds = {
        onnx.AttributeProto.STRING: [attribute.s],
        onnx.AttributeProto.STRINGS: attribute.strings,
    }
    for text in kinds.get(attribute.type, ()):
        yield text.decode("utf-8", "replace")


def _numbers(attribute: onnx.AttributeProto) -> Iterator[int]:
    """The integers of an attribute; none where it refers to an attribute of its function."""
    if attribute.ref_attr_name:
        return
    kinds = {onnx.AttributeProto.INT: [attribute.i], onnx.AttributeProto.INTS: attribute.ints}
    yield from kinds.get(attribute.type, ())
