# SPDX-License-Identifier: Apache-2.0
"""Gradient of ai.onnx.preview.training, by reverse-mode differentiation of what makes y.

Before: c = Mul(a, b); da = Gradient<xs=["a"], zs=["b"], y="c">(a, b)
After: c = Mul(a, b); da = Mul(ones, b)

The function from xs to y is evaluated again where the node's inputs are other values than those the
attributes name. A y of several elements counts as their sum, so every gradient has its x's shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aot.errors import ModelError, UnsupportedError
from aot.ir.deferred_import import onnx
from aot.ir.onnx_subprocess import infer_shapes, reason_of
from aot.load.respell import respells

DOMAIN = "ai.onnx.preview.training"
Shape = tuple[int, ...]
#: (tape, node, gradient of the node's output) -> gradient of each input, None where it has none.
Rule = Callable[["_Tape", "onnx.NodeProto", str], Sequence[str | None]]


@respells("Gradient", DOMAIN)
def spell_gradients(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace the Gradients of the main graph; ModelError for attributes that name nothing,
    UnsupportedError for operators without a rule here and for values without a static shape."""
    graph = model.graph
    shapes, types = _shapes(model)
    out: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.domain == DOMAIN and node.op_type == "Gradient":
            out += _Tape(shapes, types, node.name or node.output[0]).replace(node, out)
        else:
            out.append(node)
    del graph.node[:]
    graph.node.extend(out)
    return model


def _shapes(model: onnx.ModelProto) -> tuple[dict[str, Shape], dict[str, int]]:
    """Static shapes and element types, as far as onnx infers them."""
    try:
        graph = infer_shapes(model).graph
    except RuntimeError as error:
        raise ModelError(f"the shapes a Gradient needs: {reason_of(error)}") from None
    shapes = {t.name: tuple(t.dims) for t in graph.initializer}
    types = {t.name: t.data_type for t in graph.initializer}
    for info in (*graph.input, *graph.value_info, *graph.output):
        tensor = info.type.tensor_type
        types[info.name] = tensor.elem_type
        if tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim):
            shapes[info.name] = tuple(d.dim_value for d in tensor.shape.dim)
    return shapes, types


@dataclass(slots=True)
class _Tape:
    """The nodes written in place of one Gradient, called `where`."""

    shapes: dict[str, Shape]
    types: dict[str, int]
    where: str
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def replace(
        self, node: onnx.NodeProto, before: Sequence[onnx.NodeProto]
    ) -> list[onnx.NodeProto]:
        """The nodes that compute the gradients of `node`; `before` are those in front of it.

        Raises ModelError unless its inputs are its xs and zs, and a node in front of it makes y.
        """
        held = {a.name: a for a in node.attribute}
        xs = [s.decode() for s in held["xs"].strings]
        fixed = [s.decode() for s in held["zs"].strings] if "zs" in held else []
        y = held["y"].s.decode()
        if len(node.input) != len(xs) + len(fixed) or len(node.output) > len(xs):
            counts = f"{len(node.input)} inputs for {len(xs)} xs and {len(fixed)} zs"
            raise ModelError(f"Gradient has {counts}", self.where)
        # Both are given by position: attributes name values, inputs the points to take them at.
        given = dict(zip((*xs, *fixed), node.input, strict=True))
        path = self._path(y, given, before)
        renamed = self._again(path, given)
        gradients = self._backwards(path, renamed, renamed.get(y, y), given)
        for x, name in zip(xs, node.output, strict=False):
            if name:
                source = gradients.get(given[x]) or self.filled(0.0, given[x])
                self._write("Identity", [source], name)
        return self.nodes

    def _path(
        self, y: str, given: dict[str, str], before: Sequence[onnx.NodeProto]
    ) -> list[onnx.NodeProto]:
        """The nodes that lead from the named values to y, in the order of the graph.

        Raises ModelError if no node of `before` makes y and y is not among the named values.
        """
        wanted, path = {y}, []
        for node in reversed(before):
            # On the path is what y needs and what depends on the given values: both directions are
            # walked.
            made = wanted.intersection(node.output) - given.keys()
            if made:
                path.append(node)
                wanted |= {n for n in node.input if n}
        if not path and y not in given:
            raise ModelError(f"Gradient: no node in front of it makes y = {y!r}", self.where)
        moved, kept = set(given), []
        for node in reversed(path):
            if moved.intersection(node.input):
                moved.update(node.output)
                kept.append(node)
        return kept

    def _again(self, path: Sequence[onnx.NodeProto], given: dict[str, str]) -> dict[str, str]:
        """Evaluate the path at the node's inputs; new names by old, none if they are the same."""
        # At another point than the graph's own the path has to be computed a second time.
        if all(old == new for old, new in given.items()):
            return {}
        for old, new in given.items():
            if self.shape(old) != self.shape(new):
                what = f"{new!r} has shape {self.shape(new)}, {old!r} {self.shape(old)}"
                raise ModelError(f"Gradient: {what}", self.where)
        renamed = dict(given)
        for node in path:
            for name in node.output:
                renamed[name] = self._name(self.shapes.get(name), self.types.get(name, 0))
            copy = type(node)()
            copy.CopyFrom(node)
            del copy.input[:], copy.output[:]
            copy.input.extend(renamed.get(n, n) for n in node.input)
            copy.output.extend(renamed[n] for n in node.output)
            self.nodes.append(copy)
        return renamed

    def _backwards(
        self,
        path: Sequence[onnx.NodeProto],
        renamed: dict[str, str],
        y: str,
        given: dict[str, str],
    ) -> dict[str, str]:
        """The gradient of the sum of y by each value that leads there: name of value -> name of
        gradient.

        `given` maps the names of the attributes to the node's inputs. Raises UnsupportedError for
        an operator without a rule, or one whose further outputs have a gradient.
        """
        sums = {y: self.filled(1.0, y)}
        moved = set(given.values())
        forward = list(self.nodes) if renamed else list(path)
        forward = [n for n in forward if n.op_type != "ConstantOfShape" and n.op_type != "Constant"]
        for node in forward:
            if moved.intersection(node.input):
                moved.update(node.output)
        for node in reversed(forward):
            gradient = sums.get(node.output[0]) if node.output else None
            if gradient is None or not moved.intersection(node.input):
                continue
            rule = RULES.get(node.op_type) if not node.domain else None
            if rule is None or any(sums.get(o) for o in node.output[1:]):
                what = f"Gradient through {node.op_type}"
                hint = f"these have one: {', '.join(sorted(RULES))}"
                raise UnsupportedError(what, node.name or node.output[0], hint=hint)
            # A value that several nodes read gets the sum of what each contributes.
            for name, part in zip(node.input, rule(self, node, gradient), strict=False):
                if part is not None and name in moved:
                    part = self.folded(part, name)
                    sums[name] = self.op("Add", sums[name], part) if name in sums else part
        return sums

    def _name(self, shape: Shape | None, dtype: int) -> str:
        """A new name of a value with its shape and type noted; a shape of None is noted as a
        scalar's.
        """
        name = f"{self.where} gradient {len(self.shapes)}"
        while name in self.types:
            name += "_"
        self.types[name] = dtype
        if shape is not None:
            self.shapes[name] = shape
        else:
            self.shapes.setdefault(name, ())
        return name

    def shape(self, name: str) -> Shape:
        """The static shape of a value; UnsupportedError if it has none."""
        if name not in self.shapes:
            raise UnsupportedError(f"Gradient: the shape of {name!r} is not static", self.where)
        return self.shapes[name]

    def _write(self, op: str, inputs: Sequence[str], output: str, **attributes: object) -> None:
        """Append a node of `op` that makes `output`; the node has the same name."""
        self.nodes.append(onnx.helper.make_node(op, inputs, [output], name=output, **attributes))

    def op(self, op: str, *inputs: str, shape: Shape | None = None, **attributes: object) -> str:
        """A node of `inputs`; its shape is that of all of them together, or `shape`."""
        import numpy as np

        if shape is None:
            shape = np.broadcast_shapes(*(self.shape(i) for i in inputs if i))
        name = self._name(shape, self.types[inputs[0]])
        self._write(op, inputs, name, **attributes)
        return name

    def numbers(self, values: Sequence[int]) -> str:
        """A constant vector of int64."""
        name = self._name((len(values),), onnx.TensorProto.INT64)
        tensor = onnx.helper.make_tensor(name, onnx.TensorProto.INT64, [len(values)], list(values))
        self._write("Constant", [], name, value=tensor)
        return name

    def filled(self, value: float, like: str) -> str:
        """A tensor of the shape and type of `like`, all `value`."""
        return self.op("Expand", self.scalar(value, like), self.numbers(self.shape(like)),
                       shape=self.shape(like))  # fmt: skip

    def scalar(self, value: float, like: str) -> str:
        """A constant of the type of `like`."""
        name = self._name((), self.types[like])
        tensor = onnx.helper.make_tensor(name, self.types[like], [], [value])
        self._write("Constant", [], name, value=tensor)
        return name

    def folded(self, gradient: str, like: str) -> str:
        """Sums of what was broadcast: a gradient of the shape of `like`."""
        have, want = self.shape(gradient), self.shape(like)
        if have == want:
            return gradient
        ahead = len(have) - len(want)
        axes = [k for k, n in enumerate(have) if k < ahead or want[k - ahead] != n]
        if axes:
            kept = tuple(1 if k in axes else n for k, n in enumerate(have))
            gradient = self.op("ReduceSum", gradient, self.numbers(axes), shape=kept, keepdims=1)
        return self.op("Reshape", gradient, self.numbers(want), shape=want)


def _product(tape: _Tape, a: str, b: str) -> str:
    """The matrix product of two values of rank 2 and more."""
    import numpy as np

    x, y = tape.shape(a), tape.shape(b)
    return tape.op("MatMul", a, b, shape=(*np.broadcast_shapes(x[:-2], y[:-2]), x[-2], y[-1]))


def _matrix_transposed(tape: _Tape, name: str) -> str:
    """The value with its last two axes exchanged."""
    shape = tape.shape(name)
    perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    return tape.op("Transpose", name, shape=tuple(shape[k] for k in perm), perm=perm)


def _matmul(tape: _Tape, node: onnx.NodeProto, grad: str) -> Sequence[str | None]:
    """The gradients grad @ bT and aT @ grad of c = a @ b; UnsupportedError if a or b is a
    vector.
    """
    a, b = node.input
    if min(len(tape.shape(a)), len(tape.shape(b))) < 2:
        raise UnsupportedError("Gradient through MatMul of a vector", node.name or node.output[0])
    return _product(tape, grad, _matrix_transposed(tape, b)), _product(
        tape, _matrix_transposed(tape, a), grad
    )


def _reduced(tape: _Tape, node: onnx.NodeProto, grad: str) -> Sequence[str | None]:
    """ReduceSum and ReduceMean: the gradient goes to every element."""
    whole, few = tape.shape(node.input[0]), tape.shape(node.output[0])
    kept = few
    if len(few) != len(whole):
        axes = _axes(tape, node, len(whole))
        kept = tuple(1 if k in axes else d for k, d in enumerate(whole))
    grad = tape.op("Reshape", grad, tape.numbers(kept), shape=kept)
    grad = tape.op("Expand", grad, tape.numbers(whole), shape=whole)
    if node.op_type == "ReduceMean":
        count = 1
        for k, d in enumerate(whole):
            count *= d // kept[k] if kept[k] else 1
        grad = tape.op("Div", grad, tape.scalar(float(count), grad))
    return (grad,)


def _axes(tape: _Tape, node: onnx.NodeProto, rank: int) -> set[int]:
    """The axes that vanish: told from the shapes where that is possible."""
    whole, few = tape.shape(node.input[0]), tape.shape(node.output[0])
    found: list[set[int]] = []

    def search(k: int, j: int, gone: set[int]) -> None:
        """Add to `found` every set of axes whose removal takes the shape `whole` to `few`.

        `k` and `j` are the next axes of both shapes; `gone` are the axes removed so far.
        """
        if k == rank:
            if j == len(few) and gone not in found:
                found.append(gone)
            return
        if j < len(few) and few[j] == whole[k]:
            search(k + 1, j + 1, gone)
        if len(gone) < rank - len(few):
            search(k + 1, j, gone | {k})

    search(0, 0, set())
    # With equal sizes several answers fit, and the axes are operands that are not known yet.
    if len(found) != 1:
        raise UnsupportedError(
            f"Gradient through {node.op_type} of equal axes without keepdims",
            node.name or node.output[0],
        )
    return found[0]


def _reshaped(tape: _Tape, node: onnx.NodeProto, grad: str) -> Sequence[str | None]:
    """The gradient in the shape of the node's input."""
    shape = tape.shape(node.input[0])
    return (tape.op("Reshape", grad, tape.numbers(shape), shape=shape),)


def _transposed(tape: _Tape, node: onnx.NodeProto, grad: str) -> Sequence[str | None]:
    """The gradient with its axes permuted back."""
    shape = tape.shape(node.input[0])
    perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
    perm = list(range(len(shape)))[::-1] if perm is None else perm
    back = [perm.index(k) for k in range(len(perm))]
    return (tape.op("Transpose", grad, shape=shape, perm=back),)


def _square(tape: _Tape, name: str) -> str:
    """The value times itself."""
    return tape.op("Mul", name, name)


def _power(tape: _Tape, node: onnx.NodeProto, grad: str) -> Sequence[str | None]:
    """The gradients b * a ** (b - 1) * grad and y * log(a) * grad of y = a ** b.

    An exponent of another type than the base is cast first.
    """
    a, b = node.input
    if tape.types[a] != tape.types[b]:
        b = tape.op("Cast", b, to=tape.types[a])
        tape.types[b] = tape.types[a]
    less = tape.op("Pow", a, tape.op("Sub", b, tape.scalar(1.0, a)))
    slope = tape.op("Mul", tape.op("Mul", grad, b), less)
    return slope, tape.op("Mul", grad, tape.op("Mul", node.output[0], tape.op("Log", a)))


def _quotient(tape: _Tape, node: onnx.NodeProto, grad: str) -> Sequence[str | None]:
    """The gradients grad / b and -(grad * a) / b ** 2 of a / b."""
    a, b = node.input
    return tape.op("Div", grad, b), tape.op(
        "Neg", tape.op("Div", tape.op("Mul", grad, a), _square(tape, b))
    )


def _relu(tape: _Tape, node: onnx.NodeProto, grad: str) -> Sequence[str | None]:
    """The gradient where x is greater than 0, and 0 elsewhere."""
    x = node.input[0]
    positive = tape.op("Greater", x, tape.scalar(0.0, x))
    zero = tape.scalar(0.0, x)
    return (tape.op("Where", positive, grad, zero, shape=tape.shape(x)),)


def _one_less(tape: _Tape, name: str) -> str:
    """1 minus the value."""
    return tape.op("Sub", tape.scalar(1.0, name), name)


RULES: dict[str, Rule] = {
    "Identity": lambda tape, node, grad: (grad,),
    "Add": lambda tape, node, grad: (grad, grad),
    "Sub": lambda tape, node, grad: (grad, tape.op("Neg", grad)),
    "Mul": lambda tape, node, grad: (
        tape.op("Mul", grad, node.input[1]),
        tape.op("Mul", grad, node.input[0]),
    ),
    "Div": _quotient,
    "Pow": _power,
    "Neg": lambda tape, node, grad: (tape.op("Neg", grad),),
    "Abs": lambda tape, node, grad: (tape.op("Mul", grad, tape.op("Sign", node.input[0])),),
    "Exp": lambda tape, node, grad: (tape.op("Mul", grad, node.output[0]),),
    "Log": lambda tape, node, grad: (tape.op("Div", grad, node.input[0]),),
    "Sqrt": lambda tape, node, grad: (
        tape.op("Div", grad, tape.op("Add", node.output[0], node.output[0])),
    ),
    "Sin": lambda tape, node, grad: (tape.op("Mul", grad, tape.op("Cos", node.input[0])),),
    "Cos": lambda tape, node, grad: (
        tape.op("Neg", tape.op("Mul", grad, tape.op("Sin", node.input[0]))),
    ),
    "Tanh": lambda tape, node, grad: (
        tape.op("Mul", grad, _one_less(tape, _square(tape, node.output[0]))),
    ),
    "Sigmoid": lambda tape, node, grad: (
        tape.op("Mul", grad, tape.op("Mul", node.output[0], _one_less(tape, node.output[0]))),
    ),
    "Relu": _relu,
    "MatMul": _matmul,
    "ReduceSum": _reduced,
    "ReduceMean": _reduced,
    "Reshape": _reshaped,
    "Flatten": _reshaped,
    "Squeeze": _reshaped,
    "Unsqueeze": _reshaped,
    "Transpose": _transposed,
}
