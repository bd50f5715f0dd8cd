# SPDX-License-Identifier: Apache-2.0
"""What the compiler knows of an operator: one record, which `aot/ops` makes and every stage reads.

    prelu = operator("PRelu", "x slope", traits=[Elementwise(broadcasts={"slope": "x"})])

A trait is a promise that a pass relies on; a pass asks for the trait it needs and never for the
operator's name. `tests/ops/traits.py` proves every promise on random inputs. The table is filled
where the portable backend is loaded: `aot.ops.registry.load_all` comes first in every compilation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from aot.errors import BackendError
from aot.ir.deferred_import import ir
from aot.ir.graph_nodes import Array
from aot.ir.value_traits import Indexes, ValueTrait, named_operands


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Every element of the result is computed from the elements at its place.

    `operands` names the operands that have such elements ("" = all); the others are parameters of
    one element. They broadcast to each other; with `broadcasts` only its keys do, each to the shape
    of its value, and the result has that shape.
    """

    operands: str = ""
    broadcasts: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Moves:
    """Every element of the results is an element of one of `operands` ("" = of any operand).

    Which one follows `by` "place" from places alone, by "order" from comparisons of elements (which
    a positive scale keeps), by "choice" from another operand. `fills` names the operand whose
    number comes in, too, where the attribute `mode` is "constant" (0 without it); `fewer` tells
    that elements of the operands may be missing in the results; `bytes_only` that runtimes compute
    it on integers of 8 bits, and not on longer ones. `when` tells of which nodes all that is true
    (None: of all).
    """

    operands: str = ""
    by: Literal["place", "order", "choice"] = "place"
    fills: str = ""
    fewer: bool = False
    bytes_only: bool = False
    when: Callable[[ir.Node], bool] | None = None


@dataclass(frozen=True, slots=True)
class View:
    """The result has the elements of the first operand in the same order, in another shape.

    With `part` these are not all elements but some that follow each other. `when` tells of which
    nodes that is true (None: of all). Such a result is memory of the operand: no backend computes
    the node.
    """

    part: bool = False
    when: Callable[[ir.Node], bool] | None = None


@dataclass(frozen=True, slots=True)
class Commutative:
    """The operands may be exchanged: the result has the same bits."""


@dataclass(frozen=True, slots=True)
class Exact:
    """onnx.reference computes it as ONNX says, so that nodes of constants are folded by it.

    With `rounds_once` it takes several steps: short floats are computed in float32 and rounded
    once. `when` tells for which nodes and inputs that is true (None: for all).
    """

    rounds_once: bool = False
    when: Callable[[ir.Node, Sequence[Array | None]], bool] | None = None


@dataclass(frozen=True, slots=True)
class Random:
    """Every node draws numbers of its own: two nodes of the same inputs have other results."""


@dataclass(frozen=True, slots=True)
class DataSized:
    """The size of the result is known with the elements of the operands only.

    With `counts` it is the number of elements that fulfil a condition, which no operand names.
    `hint` tells the user of an operator that no run can compute what to do instead.
    """

    counts: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class AxisOf:
    """An attribute that is an axis of an operand; negative ones count from its last axis.

    `default` is what a node without the attribute means (None: no axis). With `end` the place
    behind the last axis counts, too; with `idle` there are nodes for which it means nothing.
    """

    operand: str
    default: int | None = None
    end: bool = False
    idle: bool = False


@dataclass(frozen=True, slots=True)
class OneOf:
    """An attribute whose texts, or text, are of `texts`: ONNX gives others no meaning.

    The texts are those of all opsets. `default` is the meaning of a node without the attribute, for
    patterns that read it. With `any_case` capitals do not matter; with `may_be_empty` the empty
    text stands for the first one, as onnxruntime and onnx.reference take it.
    """

    texts: str
    default: str | None = None
    any_case: bool = False
    may_be_empty: bool = False

    def allows(self, text: str) -> bool:
        """Whether the attribute may be `text`."""
        if not text:
            return self.may_be_empty
        if self.any_case:
            return text.lower() in self.texts.lower().split()
        return text in self.texts.split()


@dataclass(frozen=True, slots=True)
class AtLeast:
    """An attribute whose number, or each of its numbers, is `least` or more.

    ONNX gives smaller ones no meaning. `default` is the meaning of a node without the attribute.
    """

    least: int
    default: int | None = None


@dataclass(frozen=True, slots=True)
class AxesOf:
    """The operand `lists` holds axes of the operand `data`; negative ones count from its last."""

    lists: str
    data: str


@dataclass(frozen=True, slots=True)
class ShapeOf:
    """An attribute that repeats the shape of an operand behind two axes of channels."""

    operand: str
    default: None = None


AttributeRule = AxisOf | OneOf | AtLeast | ShapeOf
#: The padding that Conv and pools compute from sizes.
AUTO_PAD = OneOf("NOTSET SAME_UPPER SAME_LOWER VALID", may_be_empty=True)


@dataclass(frozen=True, slots=True)
class Along:
    """Every line of elements along the attribute `axis` is computed alone, at its places.

    A line that `padding` makes longer at its end has the same results in front. The smallest
    number of an integer type stands for -inf, the largest for inf.
    """

    axis: str
    padding: float


@dataclass(frozen=True, slots=True)
class Reduces:
    """One result comes of all elements along some axes; more elements `neutral` do not change it.

    `axes` names the operand or the attribute that holds these axes ("" = all axes behind the
    channels); an operand is read as that of ReduceSum is. The smallest number of an integer type
    stands for -inf, the largest for inf. `when` tells of which nodes all that is true (None: of
    all).
    """

    neutral: float
    axes: str = ""
    when: Callable[[ir.Node], bool] | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A window moves along the axes behind the channels of `operand`, as Conv and MaxPool say it.

    `kernel` names the operand that the window has the shape of ("" = the attribute kernel_shape).
    The elements that the window finds beyond the ends are `padding`: a number, the operand that
    holds it, or None where they do not count. With `per_channel` every channel is computed alone.
    """

    operand: str
    kernel: str = ""
    padding: float | str | None = 0
    per_channel: bool = False


@dataclass(frozen=True, slots=True)
class Linear:
    """The result is linear in `data` and in `weights`; `bias` is added to every output channel.

    Output channels run along `out_axis` of the weights (the other one of two, where the attribute
    `transposed` is 1) and along `result_axis` of the result. The attribute `groups` says into how
    many groups channels are divided: axis 0 of the weights runs through all groups, other axes
    within one.
    """

    data: str
    weights: str
    bias: str = ""
    out_axis: int = 0
    result_axis: int = 1
    groups: str = ""
    transposed: str = ""

    @property
    def within_groups(self) -> bool:
        """Whether the axis of output channels is one within a group, not through all groups."""
        return bool(self.groups) and self.out_axis != 0

    def channels_of(self, node: ir.Node) -> int:
        """The axis of a node's weights along which output channels run; negative from the end."""
        flipped = node.attributes.get(self.transposed) if self.transposed else None
        return 1 - self.out_axis if flipped is not None and flipped.value else self.out_axis

    def in_axis(self, transposed: bool) -> int:
        """The axis of the weights along which the channels of the data run, as `channels_of`."""
        if self.out_axis < 0:
            return -3 - self.out_axis
        return self.out_axis if transposed else 1 - self.out_axis


@dataclass(frozen=True, slots=True)
class Rowwise:
    """Every row of the first operand is computed alone, with the operands' rows at its place.

    A row is the last axis; `axis` names the attribute that says which axis is its first, if there
    is one.
    """

    axis: str = ""


@dataclass(frozen=True, slots=True)
class SizedBy:
    """Elements of `operands`, numbers or places of elements, decide how large the results are."""

    operands: str


Trait = (
    Elementwise
    | AxesOf
    | Moves
    | View
    | Commutative
    | Exact
    | Random
    | DataSized
    | Along
    | Reduces
    | Window
    | Linear
    | Rowwise
    | SizedBy
    | ValueTrait
)
T = TypeVar("T", bound=Trait)
Rule = TypeVar("Rule")


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of ONNX or of another domain, and what holds of it.

    `operands` are the names of its inputs, `results` of its outputs: a trailing `?` marks an
    optional one, a trailing `*` any number of them. `reads` are attributes without a rule that its
    pattern reads, `module` is where it is declared.
    """

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...] = ("y",)
    domain: str = ""
    traits: tuple[Trait, ...] = ()
    attributes: Mapping[str, AttributeRule] = field(default_factory=dict)
    reads: tuple[str, ...] = field(default=(), compare=False)
    module: str = field(default="", compare=False)

    def trait(self, kind: type[T]) -> T | None:
        """The trait of this kind, None if the operator has none."""
        return next((t for t in self.traits if isinstance(t, kind)), None)

    def names(self, count: int) -> tuple[str, ...]:
        """The name of each of `count` inputs of a node, without marks."""
        plain = [o.rstrip("?*") for o in self.operands]
        return tuple(plain[: min(count, len(plain))] + plain[-1:] * (count - len(plain)))


class Interface(Generic[Rule]):
    """Rules of one kind, one per operator, where a trait cannot say it: an engine defines the
    interface and asks it, the modules of `aot/ops` give the rules beside their operators.

        evaluate: Interface[Callable[[ir.Node, Inputs], list[Array]]] = Interface("evaluate")
        @evaluate("Squeeze Unsqueeze")
        def reshaped(node, inputs): ...
        rule = evaluate.of(node)  # None: the operator has no rule
    """

    def __init__(self, name: str) -> None:
        """Name the interface; rules are found by domain and operator."""
        self.name = name
        self._rules: dict[tuple[str, str], Rule] = {}

    def __call__(self, operators: str, domain: str = "") -> Callable[[Rule], Rule]:
        """Decorate the rule of the operators named; raises BackendError for a second rule."""

        def give(rule: Rule) -> Rule:
            """Register `rule` for each operator; BackendError if one has another rule."""
            for name in operators.split():
                if self._rules.setdefault((domain, name), rule) is not rule:
                    what = f"operator {domain or 'ai.onnx'}.{name}: two rules of {self.name}"
                    raise BackendError(what, hint="keep one of them")
            return rule

        return give

    def by(self, rule: Rule) -> Given:
        """`rule` as one of the `rules` of an operator that is being declared."""
        return self, rule

    def of(self, node: ir.Node) -> Rule | None:
        """The rule of the operator of `node`, None if it has none."""
        return self.named(node.op_type, node.domain)

    def named(self, name: str, domain: str = "") -> Rule | None:
        """The rule of an operator, None if it has none."""
        return self._rules.get((domain, name))

    def operators(self) -> Iterator[tuple[str, str]]:
        """Every operator that has a rule, as (domain, name), sorted."""
        yield from sorted(self._rules)


Given = tuple[Interface[Any], Any]  # a rule, after the interface that it is one of
_TABLE: dict[tuple[str, str], Operator] = {}


def operator(
    name: str,
    operands: str = "x",
    results: str = "y",
    *,
    domain: str = "",
    traits: Iterable[Trait] = (),
    rules: Iterable[Given] = (),
    reads: Iterable[str] = (),
    module: str = "",
    **attributes: AttributeRule,
) -> Operator:
    """Declare an operator; `operands` are the names of its inputs, see `Operator`.

    `attributes` say which values one takes, as in `axis=AxisOf("x", -1)`; `rules` are those of
    interfaces, as in `identity.by(always)`. Errors name `module`, which is the caller's ("").

    Raises BackendError for a trait that names another operand, for a name that is both an operand
    and a result, and for a second record of the operator.
    """
    ends = tuple(operands.split()), tuple(results.split())
    # The frame names the module, so that not every declaration has to.
    module = module or sys._getframe(1).f_globals["__name__"]
    made = Operator(name, *ends, domain, tuple(traits), attributes, tuple(reads), module)
    known = {o.rstrip("?*") for o in made.operands}
    if twice := sorted(known & {r.rstrip("?*") for r in made.results}):
        what = f"operator {name}: {', '.join(twice)} is both an operand and a result"
        raise BackendError(what, module, "a pattern reads both by name")
    places = known | set(attributes) | {r.rstrip("?*") for r in made.results}
    for attribute, rule in attributes.items():
        if not isinstance(rule, OneOf | AtLeast) and rule.operand not in known:
            what = f"operator {name}: {attribute} speaks of {rule.operand}"
            raise BackendError(what, module, f"its operands are {', '.join(sorted(known))}")
    for trait in made.traits:
        also = set(attributes) if isinstance(trait, Reduces) else set()
        wrong = (_named(trait) - known - also) | (named_operands(trait) - places)
        if wrong:
            what = f"operator {name}: {type(trait).__name__} names {', '.join(sorted(wrong))}"
            raise BackendError(what, module, f"its operands are {', '.join(sorted(known))}")
        axis = trait.axis if isinstance(trait, Along | Rowwise) else ""
        axis = "axis" if isinstance(trait, Indexes) else axis
        if axis and axis not in attributes:
            what = f"operator {name}: {type(trait).__name__} names {axis}"
            raise BackendError(what, module, f'say {axis}=AxisOf("x", -1) beside its traits')
    before = _TABLE.setdefault((domain, name), made)
    if before != made:  # a module that is imported again declares what is known
        what = f"operator {domain or 'ai.onnx'}.{name} has two records"
        raise BackendError(what, module, f"the other one is in {before.module}")
    for interface, rule in rules:
        interface(name, domain)(rule)
    return made


def _named(trait: Trait) -> set[str]:
    """The names of operands that a trait names; of Reduces perhaps that of an attribute."""
    match trait:
        case Elementwise(operands, broadcasts):
            more = broadcasts or {}
            return {*operands.split(), *more, *more.values()}
        case Moves(operands, _, fills):
            return {*operands.split(), fills} - {""}
        case SizedBy(operands):
            return set(operands.split())
        case Reduces(_, axes):
            return {axes} - {""}
        case Window(operand, kernel, padding):
            return {operand, kernel, padding if isinstance(padding, str) else ""} - {""}
        case Linear(data, weights, bias):
            return {data, weights, bias} - {""}
        case _:
            return set()


def operators() -> Iterator[Operator]:
    """Every operator that has a record, by domain and name."""
    yield from (_TABLE[key] for key in sorted(_TABLE))


def operator_named(name: str, domain: str = "") -> Operator | None:
    """The record of an operator, None if there is none."""
    return _TABLE.get((domain, name))


def operator_of(node: ir.Node) -> Operator | None:
    """The record of the operator of `node`, None if it has none."""
    return _TABLE.get((node.domain, node.op_type))


def trait_of(node: ir.Node, kind: type[T]) -> T | None:
    """The trait that the operator of `node` has, None if it has none of this kind."""
    found = operator_of(node)
    return None if found is None else found.trait(kind)


def required_trait(node: ir.Node, kind: type[T]) -> T:
    """The trait of `node` that its operator must have; ValueError if it has none of this kind."""
    found = trait_of(node, kind)
    if found is None:
        raise ValueError(f"{node.op_type} has no trait {kind.__name__}")
    return found


def operand_names(node: ir.Node) -> tuple[str, ...]:
    """What the record of a node's operator calls each of its inputs; none without a record."""
    found = operator_of(node)
    return () if found is None else found.names(len(node.inputs))


def element_places(node: ir.Node) -> tuple[int, ...]:
    """The inputs whose elements an elementwise node combines; none for other nodes."""
    trait = trait_of(node, Elementwise)
    return () if trait is None else places_of(node, trait.operands)


def moved_places(node: ir.Node) -> tuple[int, ...]:
    """The inputs whose elements a node moves or picks, by whatever rule; none for other nodes."""
    trait = trait_of(node, Moves)
    if trait is None or (trait.when is not None and not trait.when(node)):
        return ()
    return places_of(node, trait.operands)


def rearranged_places(node: ir.Node) -> tuple[int, ...]:
    """The inputs whose elements, and no others, a node puts where places alone say it."""
    trait = trait_of(node, Moves)
    whole = trait is not None and trait.by == "place" and not trait.fills and trait.when is None
    return moved_places(node) if whole else ()


def places_of(node: ir.Node, operands: str) -> tuple[int, ...]:
    """The inputs of a node that its record calls by one of the names `operands` ("" = all)."""
    names = operand_names(node)
    meant = operands.split() or names
    return tuple(i for i, n in enumerate(names) if n in meant and node.inputs[i] is not None)
