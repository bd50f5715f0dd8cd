# SPDX-License-Identifier: Apache-2.0
"""Dimensions that a run says (`--dim N=1..9`): one program on inputs of several sizes, sanitised.

Inputs are heap blocks of their true size, so that nothing may read up to the bound.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dims_spectra
import harness
import numpy as np
import onnx
import pytest

import aot
from aot.cli import main
from aot.errors import AotError, UnsupportedError
from aot.options import Options
from aot.pipeline import compile_model
from aot.tools.run import execute, open_out, start
from graphs import model
from needs import need

Shape = Sequence[int | str]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Family:
    """A graph, the ranges of its dimensions and the sizes it is run with."""

    name: str
    nodes: Sequence[tuple[Any, ...]]
    inputs: Mapping[str, Shape]
    outputs: Mapping[str, Shape | None]
    ranges: Mapping[str, tuple[int, int]]
    sizes: Sequence[Mapping[str, int]]
    consts: Mapping[str, Array] = field(default_factory=dict)
    dtypes: Mapping[str, int] = field(default_factory=dict)
    feed: Callable[[str, tuple[int, ...]], Array] | None = None


def floats(*shape: int) -> Array:
    return np.random.default_rng(list(shape)).uniform(-1, 1, shape).astype(np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


SMALL = [{"N": 1}, {"N": 4}, {"N": 9}]
IMAGE = [{"H": 5, "W": 9}, {"H": 8, "W": 5}, {"H": 10, "W": 12}, {"H": 7, "W": 11}]
IMAGES = {"H": (5, 10), "W": (5, 12)}
WEIGHTS = {
    "w": floats(6, 3, 3, 3),
    "b": floats(6),
    "t": floats(3, 5, 3, 3),
    "g": floats(3, 1, 3, 3),
}


def one(
    op: str, ins: str, shape: Shape, attrs: Mapping[str, Any] | None = None, **more: Any
) -> Family:
    """One operator on x: its name says what is special."""
    name = f"{op} {ins} {dict(attrs or {})}"
    nodes = [(op, ins, "y", dict(attrs or {}))]
    image = "H" in shape
    return Family(
        name,
        nodes,
        {"x": shape},
        {"y": None},
        more.pop("ranges", IMAGES if image else {"N": (1, 9)}),
        more.pop("sizes", IMAGE if image else SMALL),
        more.pop("consts", WEIGHTS),
        **more,
    )


def convolutions() -> Iterator[Family]:
    shape = (2, 3, "H", "W")
    yield one("Conv", "x w b", shape, {"pads": [1, 1, 1, 1]})
    yield one("Conv", "x w b", shape, {"pads": [1, 0, 2, 1], "strides": [2, 3]})
    yield one("Conv", "x w", shape, {"dilations": [2, 2]})
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield one("Conv", "x w", shape, {"auto_pad": auto, "strides": [2, 2]})
    yield one("Conv", "x w", shape, {"auto_pad": "SAME_UPPER"})
    yield one("Conv", "x g", shape, {"group": 3, "pads": [1, 1, 1, 1]})
    yield one("ConvTranspose", "x t", shape, {"strides": [2, 2], "pads": [1, 1, 1, 1]})
    yield one("ConvTranspose", "x t", shape, {"strides": [3, 2], "output_padding": [1, 0]})
    yield one("ConvTranspose", "x t", shape, {"strides": [2, 2], "auto_pad": "SAME_UPPER"})
    rest = {"w": floats(4, 3, 3)}
    yield one("Conv", "x w", (1, 3, "N"), {"pads": [1, 1]}, consts=rest)
    yield one("Conv", "x w", ("N", 3, 6), {"pads": [1, 1]}, consts=rest)


def pools() -> Iterator[Family]:
    shape = (1, 3, "H", "W")
    for op in ("MaxPool", "AveragePool"):
        yield one(op, "x", shape, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4})
        yield one(op, "x", shape, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})
        yield one(
            op, "x", shape, {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}
        )
    counted = {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1}
    yield one("AveragePool", "x", shape, counted)
    yield one("LpPool", "x", shape, {"kernel_shape": [2, 3]})
    yield one("GlobalAveragePool", "x", shape)
    yield one("GlobalMaxPool", "x", shape)
    norm = {"s": floats(3), "o": floats(3)}
    yield one("InstanceNormalization", "x s o", shape, consts=norm)
    many = {"s": floats(4), "o": floats(4)}
    yield one("GroupNormalization", "x s o", (2, 4, "H", "W"), {"num_groups": 2}, consts=many)
    yield one("DepthToSpace", "x", (1, 8, "H", "W"), {"blocksize": 2})
    even = [{"H": 6, "W": 8}, {"H": 8, "W": 12}]
    for height, width in ((8, 12), (9, 15)):  # a bound is a multiple of the block, or is not
        ranges = {"H": (6, height), "W": (6, width)}
        yield one("SpaceToDepth", "x", shape, {"blocksize": 2}, sizes=even, ranges=ranges)
    yield one("LRN", "x", shape, {"size": 3})


def resizes() -> Iterator[Family]:
    shape = (1, 2, "H", "W")
    for scales in ((2.0, 2.0), (3.0, 1.0), (0.5, 0.5), (1.5, 2.5)):
        consts = {"s": np.array([1, 1, *scales], np.float32), "r": np.zeros(0, np.float32)}
        for mode in ("nearest", "linear", "cubic"):
            yield one("Resize", "x r s", shape, {"mode": mode}, consts=consts)
    consts = {"s": np.array([1, 1, 2, 2], np.float32), "r": np.zeros(0, np.float32)}
    for mode in ("nearest", "linear", "cubic"):
        for how in ("asymmetric", "align_corners", "pytorch_half_pixel"):
            attrs = {"mode": mode, "coordinate_transformation_mode": how}
            yield one("Resize", "x r s", shape, attrs, consts=consts)
    for mode in ("nearest", "linear", "cubic"):
        attrs = {"mode": mode}
        other = [("Shape", "z", "zs", {"start": 2}), ("Concat", "c zs", "size", {"axis": 0})]
        yield Family(
            f"Resize to another's size, {mode}",
            [*other, ("Resize", "x none none size", "y", attrs)],
            {"x": (1, 2, 4, 5), "z": (1, 2, "H", "W")},
            {"y": None},
            IMAGES,
            IMAGE,
            {"c": ints(1, 2), "none": np.zeros(0, np.float32)},
        )


def moves() -> Iterator[Family]:
    pads = {"p": ints(1, 0, 2, 3), "v": np.array(2.5, np.float32)}
    yield one("Pad", "x p v", ("N", 3), consts=pads)
    yield one("Pad", "x p", ("N", 3), {"mode": "edge"}, consts=pads)
    wide = {"ranges": {"N": (4, 9)}, "sizes": [{"N": 4}, {"N": 7}, {"N": 9}]}
    turned = {"p": ints(2, 0, 3, 0)}
    yield one("Pad", "x p", ("N", 3), {"mode": "reflect"}, consts=turned)
    yield one("Pad", "x p", ("N", 3), {"mode": "wrap"}, consts=turned, **wide)
    yield one("Tile", "x r", ("N", 3), consts={"r": ints(3, 2)})
    yield one(
        "Slice", "x a e z", ("N", 3), consts={"a": ints(0), "e": ints(-1), "z": ints(0)}, **wide
    )
    back = {"a": ints(-1), "e": ints(-99), "z": ints(0), "s": ints(-2)}
    yield one("Slice", "x a e z s", ("N", 3), consts=back)
    for axis in (0, 1):
        nodes = [("Split", "x", "u v", {"axis": 0, "num_outputs": 2}), ("Neg", "v", "w")]
        sizes = [{"N": 2}, {"N": 5}, {"N": 8}]
        nodes.append(("Concat", "w u", "y", {"axis": 0}))
        if axis == 0:
            ranges = {"N": (2, 9)}
            yield Family("Split", nodes, {"x": ("N", 3)}, {"y": None}, ranges, sizes)
    yield Family(
        "Concat of two dimensions",
        [("Concat", "x z", "y", {"axis": 1})],
        {"x": (2, "N", 3), "z": (2, "M", 3)},
        {"y": None},
        {"N": (1, 5), "M": (2, 4)},
        [{"N": 1, "M": 2}, {"N": 5, "M": 4}, {"N": 3, "M": 3}],
    )
    yield Family(
        "Reshape with two dimensions",
        [
            ("Shape", "x", "s", {"end": 2}),
            ("Concat", "s c", "t", {"axis": 0}),
            ("Reshape", "x t", "h"),
            ("Transpose", "h", "u", {"perm": [0, 2, 1, 3]}),
            ("Reshape", "u flat", "y"),
        ],
        {"x": ("N", "M", 6)},
        {"h": None, "y": None},
        {"N": (1, 3), "M": (1, 4)},
        [{"N": 1, "M": 1}, {"N": 3, "M": 2}, {"N": 2, "M": 4}],
        {"c": ints(2, 3), "flat": ints(-1, 3)},
    )
    yield Family(
        "Reshape there and back",
        [
            ("Reshape", "x flat", "f"),
            ("Shape", "x", "s"),
            ("Relu", "f", "g"),
            ("Reshape", "g s", "y"),
        ],
        {"x": ("N", 3, "H", "W")},
        {"f": None, "y": None},
        {"N": (1, 2), **IMAGES},
        [{"N": 1, "H": 5, "W": 5}, {"N": 2, "H": 10, "W": 12}],
        {"flat": ints(0, 0, -1)},
    )
    yield Family(
        "Add of parts that must agree",
        [
            ("Resize", "x none two", "big", {"mode": "nearest"}),
            ("Add", "big z", "y"),
        ],
        {"x": (1, 1, "N"), "z": (1, 1, "M")},
        {"y": None},
        {"N": (1, 4), "M": (1, 7)},
        [{"N": 1, "M": 2}, {"N": 3, "M": 6}],
        {"two": np.array([1, 1, 2], np.float32), "none": np.zeros(0, np.float32)},
    )
    yield one("Trilu", "x k", (2, "N", 4), consts={"k": ints(0).reshape(())})
    yield one("ReduceMean", "x a", ("N", 3), {"keepdims": 0}, consts={"a": ints(0)})
    yield one("Softmax", "x", (2, "N"), {"axis": 1})
    yield one("Flatten", "x", (2, "N", 3), {"axis": 2})


def mixes() -> Iterator[Family]:
    ranges, sizes = {"N": (1, 6)}, [{"N": 1}, {"N": 4}, {"N": 6}]
    yield Family(
        "MatMul along it",
        [("MatMul", "x z", "y")],
        {"x": (2, "N"), "z": ("N", 3)},
        {"y": None},
        ranges,
        sizes,
    )
    yield Family(
        "MatMul of vectors",
        [("MatMul", "x z", "y")],
        {"x": ("N",), "z": ("N", 3)},
        {"y": None},
        ranges,
        sizes,
    )
    yield coded("N", 3)
    yield Family(
        "Gemm",
        [("Gemm", "x z", "y", {"transA": 1})],
        {"x": ("N", 2), "z": ("N", 3)},
        {"y": None},
        ranges,
        sizes,
    )
    yield Family(
        "Einsum",
        [("Einsum", "x z", "y", {"equation": "bij,bkj->bik"})],
        {"x": (2, "N", 3), "z": (2, "N", 3)},
        {"y": None},
        ranges,
        sizes,
    )
    yield Family(
        "Einsum, summed",
        [("Einsum", "x z", "y", {"equation": "ij,jk->k"})],
        {"x": ("N", "M"), "z": ("M", 3)},
        {"y": None},
        {**ranges, "M": (2, 3)},
        [{"N": 1, "M": 2}, {"N": 5, "M": 3}],
    )


def coded(rows: int | str, inner: int | str) -> Family:
    """A product of quantised values, a zero point for each column of the weights."""
    quantised = np.random.default_rng(0).integers(-9, 9, (3, 4)).astype(np.int8)
    inputs: dict[str, Shape] = {"x": (rows, inner)} | ({} if inner == 3 else {"w": (inner, 4)})
    return Family(
        f"MatMulInteger {rows} {inner}",
        [("MatMulInteger", "x w - z", "y")],
        inputs,
        {"y": None},
        {"N": (1, 3)},
        [{"N": 1}, {"N": 2}, {"N": 3}],
        {"z": np.array([1, -2, 0, 5], np.int8)} | ({"w": quantised} if inner == 3 else {}),
        {"x": onnx.TensorProto.INT8, "w": onnx.TensorProto.INT8, "y": onnx.TensorProto.INT32},
        lambda _, shape: quantised[: shape[0], : shape[1]],
    )


def recurrent() -> Iterator[Family]:
    ranges, sizes = {"N": (1, 6)}, [{"N": 1}, {"N": 4}, {"N": 6}]
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for way, count in (("forward", 1), ("bidirectional", 2), ("reverse", 1)):
            outs = "y h c" if op == "LSTM" else "y h"
            consts = {
                "w": floats(count, gates * 5, 3),
                "r": floats(count, gates * 5, 5),
                "b": floats(count, gates * 10),
            }
            yield Family(
                f"{op} {way}",
                [(op, "x w r b", outs, {"hidden_size": 5, "direction": way})],
                {"x": ("N", 2, 3)},
                {name: None for name in outs.split()},
                ranges,
                sizes,
                consts,
            )
    consts = {"w": floats(1, 20, 3), "r": floats(1, 20, 5), "b": floats(1, 40)}
    yield Family(
        "LSTM with states and batch",
        [("LSTM", "x w r b - h0 c0", "y h c", {"hidden_size": 5})],
        {"x": ("N", "M", 3), "h0": (1, "M", 5), "c0": (1, "M", 5)},
        {"y": None, "h": None, "c": None},
        {"N": (3, 5), "M": (1, 3)},
        [{"N": 3, "M": 1}, {"N": 5, "M": 3}],
        consts,
    )


def attention() -> Iterator[Family]:
    heads = {"q": (1, 2, "N", 4), "k": (1, 2, "M", 4), "v": (1, 2, "M", 4)}
    both = {"N": (1, 5), "M": (2, 6)}
    pairs = [{"N": 1, "M": 2}, {"N": 5, "M": 6}, {"N": 4, "M": 3}]
    yield Family("Attention", [("Attention", "q k v", "y")], heads, {"y": None}, both, pairs)
    yield Family(
        "Attention, causal",
        [("Attention", "q k v", "y", {"is_causal": 1})],
        heads,
        {"y": None},
        both,
        pairs,
    )
    masked = {**heads, "m": ("N", "M")}
    yield Family(
        "Attention, masked", [("Attention", "q k v m", "y")], masked, {"y": None}, both, pairs
    )
    yield Family(
        "attention by hand",
        [
            ("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}),
            ("MatMul", "q kt", "s"),
            ("Softmax", "s", "p"),
            ("MatMul", "p v", "y"),
        ],
        heads,
        {"y": None},
        both,
        pairs,
    )


FAMILIES = [*convolutions(), *pools(), *resizes(), *moves(), *mixes(), *recurrent(), *attention()]


def jobs_of(family: Family) -> list[harness.Job]:
    """One program on inputs of every size."""
    proto = model(
        family.nodes,
        dict(family.inputs),
        dict(family.outputs),
        dict(family.consts),
        dict(family.dtypes),
        opset=24,
    )
    for node in proto.graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = "" if name == "-" else name
    options = Options(name="t", target="x86-64", dims=family.ranges, plan_effort=1000)
    program = compile_model(proto, options).program
    found = []
    for size in family.sizes:
        feed = family.feed or (lambda _, shape: floats(*shape))
        given = []
        for name, dims in family.inputs.items():
            shape = tuple(size[d] if isinstance(d, str) else d for d in dims)
            given.append(feed(name, shape))
        case = harness.Case(tuple(given), {}, (), len(family.outputs))
        job = harness.Job(f"{family.name} {size}", case, proto, program=program)
        job.want = harness.reference(proto, case)
        found.append(job)
    return found


def test_several_sizes(tmp_path: Path) -> None:
    """Every second family (AOT_FULL=1: all) with sanitizers, separate buffers and in place."""
    families = [*FAMILIES, *dims_spectra.families(one)]
    families = families if os.environ.get("AOT_FULL") else families[::2]
    jobs = [j for family in families for j in jobs_of(family)]
    for i in range(0, len(jobs), harness.BATCH):
        harness.run_batch(jobs[i : i + harness.BATCH], 4, tmp_path)
    assert not [f"{j.label}: {j.error}" for j in jobs if j.error]


def refusal(family: Family) -> str:
    with pytest.raises(UnsupportedError) as caught:
        jobs_of(family)
    return str(caught.value)


def test_what_cannot_follow_a_dimension_names_node_and_axis() -> None:
    assert "has scales along a dimension known at run time only" in refusal(coded(2, "N"))
    text = refusal(one("Add", "x b", ("N", 6), consts={"b": floats(4, 6)}))
    assert "n0_Add" in text and "has 4 elements along dimension 0" in text and "--dim" in text
    text = refusal(one("LayerNormalization", "x s", (2, "N"), consts={"s": floats(9)}))
    assert "n0_LayerNormalization" in text and "mixes along a dimension" in text
    text = refusal(one("Det", "x", ("N", 3, 3)))
    assert "n0_Det" in text and "no rule" in text


def agreeing() -> onnx.ModelProto:
    """y = x + z, of lengths that the file calls by two names; the sum of x besides."""
    nodes = [("Add", "x z", "y"), ("ReduceSum", "x", "s", {"keepdims": 0})]
    return model(nodes, {"x": ("N", 2), "z": ("M", 2)}, {"y": ("N", 2), "s": ()})


@pytest.mark.parametrize("io", ["caller", "arena"])
def test_a_bundle_takes_what_fits(io: str, tmp_path: Path) -> None:
    bundle = aot.compile(
        agreeing(), tmp_path / "out", name="net", dims={"N": (2, 5), "M": (1, 6)}, io=io
    )
    net = bundle.build().load()
    for n in (2, 5, 3):
        x, z = floats(n, 2), floats(2, n).T.copy()
        y, s = net(x, z)
        np.testing.assert_allclose(y, x + z, rtol=1e-6)
        np.testing.assert_allclose(s, x.sum(), rtol=1e-5)
        built = open_out(tmp_path / "out")
        np.testing.assert_array_equal(execute(built, [x, z])[0], y)
    for n, m, why in ((1, 1, "2..5"), (6, 6, "2..5"), (3, 7, "1..6")):
        with pytest.raises(AotError, match=re.escape(why)):
            net(floats(n, 2), floats(m, 2))
    with pytest.raises(AotError, match="status 3"):  # one of them would have to be repeated
        net(floats(3, 2), floats(1, 2))
    manifest = bundle.manifest
    assert manifest["dimensions"][0] == {"name": "N", "least": 2, "most": 5, "axes": [[0, 0]]}
    assert manifest["inputs"][0]["shape"] == [5, 2] and manifest["inputs"][0]["extents"] == [0]


def test_constants_may_be_outputs(tmp_path: Path) -> None:
    proto = model([("Add", "x c", "y")], {"x": ("N", 2)}, {"y": None, "c": (2,)}, {"c": floats(2)})
    net = aot.compile(proto, tmp_path / "out", name="net", dims={"N": (1, 4)}).load()
    y, c = net(floats(3, 2))
    np.testing.assert_array_equal(c, floats(2))
    np.testing.assert_array_equal(y, floats(3, 2) + floats(2))


def test_one_name_is_one_dimension(tmp_path: Path) -> None:
    nodes = [("Concat", "x z", "y", {"axis": 1})]
    proto = model(nodes, {"x": ("N", 2), "z": ("N", 1)}, {"y": ("N", 3)})
    net = aot.compile(proto, tmp_path / "out", name="net", dims={"N": (1, 4)}).load()
    np.testing.assert_array_equal(net(floats(3, 2), floats(3, 1))[:, :2], floats(3, 2))
    with pytest.raises(AotError, match="dimension 'N' is 3 in 'x', 2 in 'z'"):
        net(floats(3, 2), floats(2, 1))


def test_the_board_gets_its_sizes(tmp_path: Path) -> None:
    """Compiled with vectors of several sizes: the image tests itself, and runs on files."""
    need("arm-none-eabi-gcc")
    need("qemu-system-arm")
    samples = {}
    for k, n in enumerate((2, 5)):
        x, z = floats(n, 2), floats(2, n).T.copy()
        samples |= {f"s{k}/x": x, f"s{k}/z": z, f"s{k}/y": x + z, f"s{k}/s": x.sum()}
    np.savez(tmp_path / "t.npz", **samples)
    dims = {"N": (2, 5), "M": (1, 6)}
    bundle = aot.compile(
        agreeing(),
        tmp_path / "out",
        name="net",
        target="cortex-m4",
        dims=dims,
        test_data=str(tmp_path / "t.npz"),
    )
    bundle.build()
    built = open_out(tmp_path / "out")
    start(built, [])
    for n in (3, 4):
        y, _ = execute(built, [floats(n, 2), floats(n, 2)])
        np.testing.assert_allclose(y, 2 * floats(n, 2), rtol=1e-6)


def test_sizes_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(agreeing(), path)
    out = ["-o", str(tmp_path / "out")]
    for text in ("N=4..2", "N=..4", "N=1...4", "N=-1", "N=1..x"):
        assert main([str(path), *out, "--dim", text]) == 2
        assert "is not a size of dimension 'N'" in capsys.readouterr().err
    assert main([str(path), *out, "--dim", "N=1..4", "-q"]) == 1
    assert 'dimension 0 ("M") is not pinned' in capsys.readouterr().err
    assert main([str(path), *out, "--dim", "N=1..4", "--input-shape", "z=1..4,2", "-q"]) == 0
    state = ["--state", "x=y", "--dim", "N=1..4", "--dim", "M=1..4"]
    assert main([str(path), *out, *state, "-q"]) == 1
    assert "state" in capsys.readouterr().err
