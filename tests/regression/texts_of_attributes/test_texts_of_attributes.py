# SPDX-License-Identifier: Apache-2.0
"""Attributes took any text: Conv with `auto_pad="SAMEUPPER"` padded like SAME_LOWER.

A generator goes through every text attribute of every operator that the installed onnx knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import defs, helper

from aot.errors import AotError, ModelError
from aot.ir.graph_nodes import shape_of
from aot.ir.operators import AtLeast, OneOf, operators
from aot.load import LoadOptions, load
from aot.load.choices import check_choices
from aot.ops.registry import load_all
from aot.tools.quantize import _read
from graphs import model

load_all()
RULES = {
    (o.domain, o.name, name): rule
    for o in operators()
    for name, rule in o.attributes.items()
    if isinstance(rule, OneOf)
}
CHOICES = {key: rule.texts.split() for key, rule in RULES.items()}
#: Text attributes whose texts ONNX leaves open: names, labels, patterns, values.
OPEN = (
    "Cast.to Constant.value_string Constant.value_strings Einsum.equation RegexFullMatch.pattern "
    "StringNormalizer.locale StringNormalizer.stopwords StringSplit.delimiter "
    "TfIdfVectorizer.pool_strings CategoryMapper.cats_strings CategoryMapper.default_string "
    "DictVectorizer.string_vocabulary LabelEncoder.classes_strings LabelEncoder.default_string "
    "LabelEncoder.keys_strings LabelEncoder.values_strings LinearClassifier.classlabels_strings "
    "OneHotEncoder.cats_strings SVMClassifier.classlabels_strings "
    "TreeEnsembleClassifier.classlabels_strings ZipMap.classlabels_strings Gradient.xs Gradient.y "
    "Gradient.zs"
)
STRING, STRINGS = defs.OpSchema.AttrType.STRING, defs.OpSchema.AttrType.STRINGS


def text_attributes() -> Iterator[tuple[str, str, str, str, bool]]:
    """(domain, operator, attribute, default, whether it is a list) of all operators and opsets."""
    for schema in defs.get_all_schemas_with_history():
        for name, a in schema.attributes.items():
            if a.type in (STRING, STRINGS):
                default = a.default_value.s.decode()
                yield schema.domain, schema.name, name, default, a.type == STRINGS


def test_every_text_attribute_is_closed_or_open() -> None:
    found = {(d, o, a) for d, o, a, _, _ in text_attributes()}
    spelled = {tuple(t.split(".")) for t in OPEN.split()}
    closed = {key for key in found if key[1:] not in spelled}
    assert closed == {key for key in CHOICES if key[0] != "com.microsoft"}


def test_every_default_is_one_of_its_texts() -> None:
    """But for one that ONNX misspells in GRU's first version."""
    for domain, operator, name, default, _ in text_attributes():
        allowed = CHOICES.get((domain, operator, name))
        assert allowed is None or not default or default in allowed or default == "foward"


def bare(domain: str, operator: str, name: str, text: str, several: bool) -> onnx.ModelProto:
    """A model with one node, which need not be valid otherwise."""
    value = ["Tanh", text] if several and name == "activations" else [text] if several else text
    if several and name == "nodes_modes":
        value = ["LEAF", text]
    node = helper.make_node(operator, ["x"], ["y"], name="n", domain=domain, **{name: value})
    return helper.make_model(helper.make_graph([node], "g", [], []))


@pytest.mark.parametrize("key", sorted(CHOICES), ids=".".join)
def test_other_texts_are_refused(key: tuple[str, str, str]) -> None:
    """Each text is taken; a text without its last letter, in other letters or empty is an error."""
    several = key[2] in ("activations", "nodes_modes")
    for text in CHOICES[key]:
        check_choices(bare(*key, text, several))
        for wrong in (text[:-1], text.swapcase(), f"{text}_", ""):
            if wrong in CHOICES[key] or (RULES[key].any_case and wrong == text.swapcase()):
                continue
            if not wrong and RULES[key].may_be_empty:
                check_choices(bare(*key, wrong, several))
                continue
            with pytest.raises(ModelError) as caught:
                check_choices(bare(*key, wrong, several))
            message = str(caught.value)
            assert key[2] in message and repr(wrong) in message
            assert all(t in message for t in CHOICES[key])


CONV = {"x": (1, 1, 5, 5)}, {"y": None}, {"w": np.ones((1, 1, 3, 3), np.float32)}


def test_the_convolution_that_was_padded() -> None:
    with pytest.raises(ModelError) as caught:
        load(model([("Conv", "x w", "y", {"auto_pad": "SAMEUPPER"})], *CONV))
    assert str(caught.value).splitlines() == [
        "n0_Conv (Conv): auto_pad 'SAMEUPPER' has no meaning",
        "  hint: did you mean SAME_UPPER? auto_pad is one of NOTSET, SAME_UPPER, SAME_LOWER, VALID",
    ]


def function_of(text: str) -> onnx.ModelProto:
    """A function that hands its attribute on to a convolution."""
    inner = helper.make_node("Conv", ["a", "b"], ["c"], name="inner")
    reference = inner.attribute.add()
    reference.name, reference.ref_attr_name = "auto_pad", "how"
    reference.type = onnx.AttributeProto.STRING
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    body = helper.make_function("own", "F", ["a", "b"], ["c"], [inner], imports[:1], ["how"])
    made = model([("own.F", "x w", "y", {"how": text})], *CONV, domains=("own",))
    made.functions.append(body)
    return made


def test_texts_that_functions_are_given() -> None:
    assert load(function_of("SAME_UPPER"), LoadOptions())
    with pytest.raises(AotError, match="auto_pad 'SAMEUPPER' has no meaning"):
        load(function_of("SAMEUPPER"), LoadOptions())


def test_bodies_of_control_flow() -> None:
    node = helper.make_node("Gelu", ["x"], ["z"], name="g", approximate="tan")
    ends = [helper.make_tensor_value_info("z", 1, [1])]
    other = helper.make_node("Identity", ["x"], ["z"], name="i")
    branches = {
        "then_branch": helper.make_graph([node], "t", [], ends),
        "else_branch": helper.make_graph([other], "e", [], ends),
    }
    rows = [("If", "c", "y", branches)]
    made = model(rows, {"x": (1,), "c": ()}, {"y": (1,)}, dtypes={"c": onnx.TensorProto.BOOL})
    with pytest.raises(ModelError, match="approximate 'tan' has no meaning"):
        load(made)


@pytest.mark.parametrize("text, length", [("", 3), ("NOTSET", 3), ("SAME_LOWER", 4)])
def test_empty_padding_is_none(text: str, length: int) -> None:
    """In the oldest opset, as bytes: both runtimes take an empty text for NOTSET."""
    attrs = {"auto_pad": text.encode(), "strides": [2], "kernel_shape": [3]}
    weights = {"w": np.ones((1, 1, 3), np.float32)}
    rows = [("Conv", "x w", "y", attrs)]
    (y,) = load(model(rows, {"x": (1, 1, 7)}, {"y": None}, weights, opset=1)).graph.outputs
    assert shape_of(y) == (1, 1, length)


@pytest.mark.parametrize("version", [1, 7])
def test_old_names_of_linear(version: int) -> None:
    """Upsample may say by how many axes it interpolates; Resize has one word for that."""
    factors = {"scales": [1.0, 1.0, 2.0, 1.5]}
    if version == 1:
        factors = {"height_scale": 2.0, "width_scale": 1.5}
    rows = [("Upsample", "x", "y", {"mode": "bilinear", **factors})]
    made = load(model(rows, {"x": (1, 1, 4, 4)}, {"y": None}, opset=version))
    assert [n.attributes["mode"].as_string() for n in made.graph] == ["linear"]


def test_attributes_that_others_define() -> None:
    """Functions of the model have texts of their own, and backends for onnxruntime's operators."""
    fused = bare("com.microsoft", "FusedConv", "activation", "Mish", False)
    with pytest.raises(ModelError, match="activation 'Mish' has no meaning"):
        check_choices(fused)
    check_choices(fused, {"com.microsoft::FusedConv"})
    tree = bare("ai.onnx.ml", "TreeEnsembleRegressor", "nodes_modes", "BRANCH", True)
    with pytest.raises(ModelError, match="nodes_modes 'BRANCH' has no meaning"):
        check_choices(tree, {"ai.onnx.ml::TreeEnsembleRegressor"})  # ONNX says what it means
    inner = helper.make_node("Relu", ["x"], ["y"])
    body = helper.make_function("com.microsoft", "FusedConv", ["x"], ["y"], [inner], [])
    fused.functions.append(body)
    check_choices(fused)


def test_before_quantising(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model([("Conv", "x w", "y", {"auto_pad": "SAMEUPPER"})], *CONV), path)
    with pytest.raises(ModelError, match="auto_pad 'SAMEUPPER' has no meaning"):
        _read(path)


LEAST = {
    (o.domain, o.name, name): rule.least
    for o in operators()
    for name, rule in o.attributes.items()
    if isinstance(rule, AtLeast)
}


@pytest.mark.parametrize("key", sorted(LEAST), ids=".".join)
def test_a_number_below_the_least_names_it(key: tuple[str, str, str]) -> None:
    """GroupNormalization of no groups was compiled; others were refused in other words."""
    _, operator, name = key
    for number in (LEAST[key], LEAST[key] + 2):
        check_choices(counted(*key, number))
    for number in (LEAST[key] - 1, -7):
        with pytest.raises(ModelError) as caught:
            check_choices(counted(*key, number))
        assert caught.value.what == f"n ({operator}): {name} {number} (needs at least {LEAST[key]})"
        assert caught.value.hint == f"set {name} to {LEAST[key]} or more"


def counted(domain: str, operator: str, name: str, number: int) -> onnx.ModelProto:
    """A model with one node, which need not be valid otherwise."""
    node = helper.make_node(operator, ["x"], ["y"], name="n", domain=domain, **{name: number})
    return helper.make_model(helper.make_graph([node], "g", [], []))


def test_group_normalization_of_no_groups_is_refused() -> None:
    one = np.ones(4, np.float32)
    row = ("GroupNormalization", "x s b", "y", {"num_groups": 0})
    with pytest.raises(ModelError, match=r"num_groups 0 \(needs at least 1\)"):
        load(model([row], {"x": [1, 4, 2, 2]}, {"y": None}, {"s": one, "b": one}))
