# SPDX-License-Identifier: Apache-2.0
"""Random float models through `aotc quantize`: the 8-bit model means what the float one means.

The models are small nets of what quantisers treat specially: activations they merge, values that
several nodes or the caller read, constants that nodes share, biases and factors of every form,
names that meet theirs, bodies that capture. onnxruntime runs both models on the calibration data;
results may be apart by what 8-bit quantised values of so few layers explain, and no more.

    python tests/fuzz/quantising.py [--seed N] [-n N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402

from aot.errors import AotError  # noqa: E402
from aot.tools.prepare_quantize import unique_labels  # noqa: E402
from aot.tools.quantize import Quantisation, quantize  # noqa: E402

Array = np.ndarray[Any, Any]
#: The largest difference from the float results, of the largest of these, that quantised values
#: explain. Measured: medians of 0.01, and 0.1 where layers cancel; what is wrong differs by more.
MOST = 0.3
LEAST_COSINE = 0.97
SAMPLES = 3
PASS, WRONG, REFUSED = "pass", "wrong", "refused"


class Net:
    """A net in the making; `values` are the names and shapes that layers may read."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.values: list[tuple[str, tuple[int, ...]]] = []
        self.outputs: dict[str, tuple[int, ...]] = {}

    def chance(self, p: float) -> bool:
        """Yes, so often."""
        return bool(self.rng.random() < p)

    def pick(self, *items: Any) -> Any:
        """One of the items."""
        return items[int(self.rng.integers(len(items)))]

    def const(self, data: Any, *, shared: bool = True) -> str:
        """The name of a constant; one of the same type and shape may serve twice."""
        array = np.asarray(data)
        for name, old in self.constants.items():
            same = old.shape == array.shape and old.dtype == array.dtype
            if shared and same and array.dtype == np.float32 and self.chance(0.4):
                return name
        near = [n for n, _ in self.values] + list(self.constants)
        name = f"k{len(self.constants)}"
        if near and self.chance(0.15):
            more = self.pick("_scale", "_quantized", "_zero_point", "_QuantizeLinear_Output")
            name = self.pick(*near) + more
        if name in self.constants or any(name == v for v, _ in self.values):
            name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def floats(self, *shape: int, by: float = 1.0) -> str:
        """A constant of normally distributed numbers."""
        return self.const((self.rng.standard_normal(shape) * by).astype(np.float32))

    def value(self, rank: int | None = None) -> tuple[str, tuple[int, ...]]:
        """A value to read, mostly the last ones."""
        fit = [v for v in self.values if rank is None or len(v[1]) == rank]
        if not fit:
            raise LookupError
        back = min(int(self.rng.geometric(0.5)), len(fit))
        return fit[-back]

    def add(self, op_type: str, inputs: list[str], shape: tuple[int, ...], **more: Any) -> str:
        """A node with one result."""
        name = f"v{len(self.nodes)}"
        if self.chance(0.1):
            name = self.pick(*(n for n, _ in self.values)) + self.pick(
                "_quantized", "_scale", "quantized"
            )
            if name in self.constants or any(name == v for v, _ in self.values):
                name = f"u{len(self.nodes)}"
        label = self.pick("", "node", f"n{len(self.nodes)}")
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=label, **more))
        self.values.append((name, shape))
        return name


def _conv(net: Net) -> None:
    x, (n, c, h, w) = net.value(4)
    groups = c if net.chance(0.2) else 1
    out = c if groups > 1 else int(net.pick(4, 6))
    inputs = [x, net.floats(out, c // groups, 3, 3, by=(9 * c / groups) ** -0.5)]
    if net.chance(0.6):
        inputs.append(net.floats(out, by=net.pick(0.1, 1.0, 3.0)))
    net.add("Conv", inputs, (n, out, h, w), pads=[1] * 4, group=groups)


def _transposed(net: Net) -> None:
    x, (n, c, h, w) = net.value(4)
    inputs = [x, net.floats(c, 4, 2, 2, by=(c * 1.0) ** -0.5)]
    if net.chance(0.6):
        inputs.append(net.floats(4))
    if h <= 8:
        net.add("ConvTranspose", inputs, (n, 4, 2 * h, 2 * w), strides=[2, 2], kernel_shape=[2, 2])


def _gemm(net: Net) -> None:
    x, (m, k) = net.value(2)
    alpha, beta = net.pick(1.0, 1.0, 0.5, -2.0), net.pick(1.0, 1.0, 2.0, 0.25)
    trans = net.pick(0, 1)
    n = net.pick(k, 5)
    inputs = [x, net.floats(*((n, k) if trans else (k, n)), by=k**-0.5)]
    kind = net.pick("none", "n", "n", "1n", "1", "mn", "m1", "run", "")
    shapes = {"n": (n,), "1n": (1, n), "1": (1,), "mn": (m, n), "m1": (m, 1), "": ()}
    if kind in shapes:
        inputs.append(net.floats(*shapes[kind]))
    elif kind == "run":
        fit = [v for v, s in net.values if s == (m, n)]
        inputs += [net.pick(*fit)] if fit else []
    if net.chance(0.15):
        x = net.add("Transpose", [x], (k, m), perm=[1, 0])
        inputs[0] = x
        net.add("Gemm", inputs, (m, n), alpha=alpha, beta=beta, transB=trans, transA=1)
    else:
        net.add("Gemm", inputs, (m, n), alpha=alpha, beta=beta, transB=trans)


def _matmul(net: Net) -> None:
    x, shape = net.value(net.pick(2, 4))
    k, n = shape[-1], net.pick(shape[-1], 5)
    same = [v for v, s in net.values if s == (k, n)]
    if same and net.chance(0.4):
        other = net.pick(*same)
    else:
        batch = (shape[1],) if len(shape) == 4 and net.chance(0.3) else ()
        other = net.floats(*batch, k, n, by=k**-0.5)
    net.add("MatMul", [x, other], (*shape[:-1], n))


def _activation(net: Net) -> None:
    x, shape = net.value()
    kind = net.pick(
        "Relu", "Relu", "Clip", "Clip", "LeakyRelu", "Sigmoid", "HardSwish", "Tanh", "Softmax"
    )
    inputs = [x]
    if kind == "Clip":
        low, high = net.pick((0, 6), (-1, 1), (0.5, 2), (None, 1), (-2, -0.3), (0, None), (-0.5, 9))
        inputs += ["" if b is None else net.const(np.float32(b)) for b in (low, high)]
    net.add(kind, inputs, shape)


def _binary(net: Net) -> None:
    x, shape = net.value()
    same = [v for v, s in net.values if s == shape]
    other = net.pick(*same) if net.chance(0.7) else net.floats(*net.pick(shape, shape[-1:], ()))
    net.add(net.pick("Add", "Add", "Mul", "Min", "Max"), net.pick([x, other], [other, x]), shape)


def _joined(net: Net) -> None:
    x, shape = net.value()
    fit = [
        (v, s)
        for v, s in net.values
        if len(s) == len(shape) and (s[0], *s[2:]) == (shape[0], *shape[2:])
    ]
    other, extents = net.pick(*fit)
    wide = shape[1] + extents[1]
    if wide <= 16:
        net.add("Concat", [x, other], (shape[0], wide, *shape[2:]), axis=1)


def _moved(net: Net) -> None:
    x, (n, c, h, w) = net.value(4)
    kind = net.pick(
        "Pad", "Pad", "MaxPool", "AveragePool", "Resize", "Transpose", "Slice", "Gather", "Flatten"
    )
    if kind == "Pad":
        mode = net.pick("constant", "constant", "edge", "reflect" if h > 1 < w else "edge")
        inputs = [x, net.const(np.array([0, 0, 1, 1, 0, 0, 1, 1]))]
        if mode == "constant" and net.chance(0.7):
            inputs.append(net.const(np.float32(net.pick(0, -20, 1.5))))
        if h <= 10:
            net.add("Pad", inputs, (n, c, h + 2, w + 2), mode=mode)
    elif kind.endswith("Pool"):
        more = {"count_include_pad": 1} if kind == "AveragePool" and net.chance(0.5) else {}
        net.add(kind, [x], (n, c, h, w), kernel_shape=[3, 3], pads=[1] * 4, **more)
    elif kind == "Resize" and h <= 8:
        sizes = net.const(np.array([n, c, 2 * h, 2 * w]))
        net.add(
            "Resize",
            [x, "", "", sizes],
            (n, c, 2 * h, 2 * w),
            mode=net.pick("nearest", "linear", "cubic"),
        )
    elif kind == "Transpose":
        net.add("Transpose", [x], (n, c, w, h), perm=[0, 1, 3, 2])
    elif kind == "Slice":
        limits = [net.const(np.array([v])) for v in (1, h, 2)]
        if h > 1:
            net.add("Slice", [x, *limits], (n, c, h - 1, w))
    elif kind == "Gather":
        net.add("Gather", [x, net.const(np.array([1, 0, 1]))], (n, 3, h, w), axis=1)
    else:
        flat = net.add("GlobalAveragePool", [x], (n, c, 1, 1))
        net.add("Flatten", [flat], (n, c))


def _scaled(net: Net) -> None:
    # What is computed may hardly vary, and then its norm is that of the quantised values' steps.
    x, (n, c, h, w) = "x", (1, 4, 8, 8)
    kind = net.pick("BatchNormalization", "InstanceNormalization", "LayerNormalization")
    if kind == "LayerNormalization":
        net.add(kind, [x, net.floats(w), *net.pick([net.floats(w)], [])], (n, c, h, w), axis=-1)
        return
    inputs = [x, net.floats(c), net.floats(c)]
    if kind == "BatchNormalization":
        inputs += [net.floats(c), net.const(np.full(c, 0.7, np.float32), shared=False)]
    net.add(kind, inputs, (n, c, h, w))


def _captured(net: Net) -> None:
    """An If whose body reads a value, and maybe a constant, of the model."""
    x, shape = net.value()
    extra = net.floats(shape[-1])
    name = f"w{len(net.nodes)}"

    def body(op_type: str) -> onnx.GraphProto:
        result = helper.make_tensor_value_info(name + op_type, 1, shape)
        made = helper.make_node(op_type, [x, extra], [name + op_type])
        return helper.make_graph([made], op_type, [], [result])

    net.add("If", ["yes"], shape, then_branch=body("Add"), else_branch=body("Mul"))


LAYERS: list[tuple[Callable[[Net], None], float]] = [
    (_conv, 4), (_transposed, 1), (_gemm, 3), (_matmul, 2), (_activation, 5),
    (_binary, 3), (_joined, 1), (_moved, 4), (_scaled, 1), (_captured, 0.5),
]  # fmt: skip


def generate(seed: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A net of up to six layers with its calibration data (keys s<k>/NAME)."""
    rng = np.random.default_rng(seed)
    net = Net(rng)
    net.values = (
        [("a", (4, 6)), ("x", (1, 4, 8, 8))]
        if net.chance(0.7)
        else [("x", (1, 4, 8, 8)), ("a", (4, 6))]
    )
    odds = np.array([w for _, w in LAYERS])
    count = int(rng.integers(1, 7))
    while len(net.nodes) < count:
        try:
            LAYERS[int(rng.choice(len(LAYERS), p=odds / odds.sum()))][0](net)
        except LookupError:
            continue
    read = {name for n in net.nodes for name in n.input}
    for name, shape in net.values[2:]:
        if name not in read or net.chance(0.2):
            net.outputs[name] = shape
    inputs = {"a": (1, (4, 6)), "x": (1, (1, 4, 8, 8)), "yes": (9, ())}
    graph = helper.make_graph(
        net.nodes,
        "net",
        [helper.make_tensor_value_info(n, *t) for n, t in inputs.items()],
        [helper.make_tensor_value_info(n, 1, None) for n in net.outputs],
        [numpy_helper.from_array(a, n) for n, a in net.constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    data: dict[str, Array] = {}
    for k in range(SAMPLES):
        data[f"s{k}/a"] = rng.standard_normal((4, 6)).astype(np.float32)
        data[f"s{k}/x"] = rng.standard_normal((1, 4, 8, 8)).astype(np.float32)
        data[f"s{k}/yes"] = np.array(k > 0)
    return model, data


def judged(model: onnx.ModelProto, data: dict[str, Array], how: Quantisation) -> tuple[str, str]:
    """How the quantised model fared, and what is wrong."""
    import onnxruntime as ort

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / n for n in ("model.onnx", "data.npz", "made.onnx")]
        onnx.save(model, paths[0])
        np.savez(paths[1], **data)  # type: ignore[arg-type]
        try:
            quantize(paths[0], paths[1], paths[2], how, lambda _: None)
        except AotError as error:
            return REFUSED, str(error)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        unique_labels(model.graph)  # onnxruntime asks for it
        made = paths[2].read_bytes()
        onnx.checker.check_model(onnx.load(paths[2]))
        sessions = [ort.InferenceSession(m, options) for m in (model.SerializeToString(), made)]
    worst = ""
    feeds = [
        {i.name: data[f"s{k}/{i.name}"] for i in sessions[0].get_inputs()} for k in range(SAMPLES)
    ]
    for index, output in enumerate(model.graph.output):
        runs = [[s.run(None, f)[index] for f in feeds] for s in sessions]
        a, b = (np.concatenate([r.ravel() for r in run]).astype(np.float64) for run in runs)
        most = np.abs(a).max()
        apart = np.abs(a - b).max() / most if most else np.abs(b).max()
        scale = np.linalg.norm(a) * np.linalg.norm(b)
        cosine = a @ b / scale if scale else 1.0
        if apart > MOST or cosine < LEAST_COSINE:
            worst += f"{output.name}: apart {apart:.2f}, cosine {cosine:.4f}; "
    return (WRONG, worst) if worst else (PASS, "")


def main() -> int:
    """Judge models from a seed on; 1 unless all pass."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("-n", type=int, default=200, help="models")
    a = p.parse_args()
    found: Counter[str] = Counter()
    for seed in range(a.seed, a.seed + a.n):
        how = hows()[seed % len(hows())]
        verdict, why = judged(*generate(seed), how)
        found[verdict] += 1
        if verdict != PASS:
            grain = "tensor" if how.per_tensor else "channel"
            print(
                f"{verdict}: seed {seed} {how.activations} {how.format} {grain}: {why}", flush=True
            )
    print(dict(found))
    return 0 if set(found) <= {PASS} else 1


def hows() -> list[Quantisation]:
    """What is asked for in turn."""
    return [
        Quantisation("int8", False, "qdq"),
        Quantisation("int8", False, "qoperator"),
        Quantisation("uint8", False, "qdq"),
        Quantisation("uint8", True, "qoperator"),
    ]


if __name__ == "__main__":
    sys.exit(main())
