# SPDX-License-Identifier: Apache-2.0
"""`aotc partition`: a model that says itself who computes what, for onnxruntime and for aotc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from aot.cli import main
from aot.errors import ModelError, UsageError
from aot.options import Options
from aot.partition.opset import lowest_opset
from aot.pipeline import compile_model, partition_model
from graphs import model
from needs import missing

R = np.random.default_rng(5)


def array(*shape: int) -> np.ndarray[Any, Any]:
    return R.standard_normal(shape).astype(np.float32) / 4


def network(path: Path) -> Path:
    """Convolutions for oneDNN around what it does not take, with names that are no identifiers."""
    rows = [
        ("Conv", "x w0 b0", "layer/1", {"pads": [1, 1, 1, 1]}),
        ("Relu", "layer/1", "layer/2"),
        ("CumSum", "layer/2 axis", "layer/3"),
        ("Conv", "layer/3 w1", "layer/4", {"pads": [1, 1, 1, 1]}),
        ("Conv", "layer/2 w1", "layer/5", {"pads": [1, 1, 1, 1]}),
        ("Add", "layer/4 layer/5", "layer/6"),
        ("CumSum", "layer/6 axis", "layer/7"),
        ("Conv", "layer/7 w1", "out:0", {"pads": [1, 1, 1, 1]}),
    ]
    consts = {
        "w0": array(16, 3, 3, 3),
        "b0": array(16),
        "w1": array(16, 16, 3, 3),
        "axis": np.array(1, np.int64),
    }
    onnx.save(model(rows, {"x": [1, 3, 8, 8]}, {"out:0": None, "layer/6": None}, consts), path)
    return path


def written(source: Path, to: Path, *more: str) -> onnx.ModelProto:
    assert main(["partition", str(source), "-o", str(to), "-q", *more]) == 0
    onnx.checker.check_model(str(to), full_check=True)
    return onnx.load(str(to))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    source, to = network(tmp_path / "net.onnx"), tmp_path / "p.onnx"
    written(source, to, "--backend", "dnnl")
    return source, to


def test_every_region_is_a_function_with_its_backend(pair: tuple[Path, Path]) -> None:
    proto = onnx.load(str(pair[1]))
    meta = [{p.key: p.value for p in f.metadata_props} for f in proto.functions]
    assert meta == [{"aot.backend": "dnnl", "aot.region": f"dnnl_{i}"} for i in range(len(meta))]
    rest = [n for n in proto.graph.node if not n.domain]
    assert [n.op_type for n in rest] == ["CumSum", "CumSum"]
    assert all(n.metadata_props[0].value == "c" for n in rest)


def test_values_keep_their_names(pair: tuple[Path, Path]) -> None:
    proto = onnx.load(str(pair[1]))
    names = {o for f in (proto.graph, *proto.functions) for n in f.node for o in n.output}
    assert {"layer/2", "layer/3", "layer/6", "layer/7", "out:0"} <= names
    assert [o.name for o in proto.graph.output] == ["out:0", "layer/6"]


def test_compiled_again_it_gives_the_same_calls_and_arena(pair: tuple[Path, Path]) -> None:
    first = compile_model(pair[0], Options(backends=("dnnl",)))
    again = compile_model(pair[1], Options(name=first.name))
    calls = [
        [(c.kernel, c.backend, c.region, c.instance, c.params) for c in m.program.calls]
        for m in (first, again)
    ]
    assert calls[0] == calls[1]
    assert first.plan.arena_bytes == again.plan.arena_bytes
    nodes = [[r.nodes for r in m.partition.regions] for m in (first, again)]
    assert nodes[0] == nodes[1]
    assert len(nodes[0]) == 3
    assert again.partition.items[0].match.root.onnx_name == "n1_Relu"


def test_partitioned_again_it_is_the_same_file(pair: tuple[Path, Path], tmp_path: Path) -> None:
    written(pair[1], tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == pair[1].read_bytes()


def test_onnxruntime_computes_the_same(pair: tuple[Path, Path]) -> None:
    try:
        import onnxruntime as ort
    except ImportError:
        missing("onnxruntime")
    x = array(1, 3, 8, 8)
    results = []
    for path in pair:
        session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        results.append(session.run(None, {"x": x}))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_regions_of_the_user_keep_their_name(tmp_path: Path) -> None:
    source, to = network(tmp_path / "net.onnx"), tmp_path / "p.onnx"
    regions = tmp_path / "r.toml"
    regions.write_text('[regions."the head"]\nbackend = "dnnl"\nnodes = ["layer/4", "layer/6"]\n')
    proto = written(source, to, "--regions", str(regions))
    assert [f.name for f in proto.functions] == ["the_head"]
    assert [n.op_type for n in proto.functions[0].node] == ["Conv", "Add"]


def test_the_opset_can_be_raised_and_not_be_too_low(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = written(pair[0], tmp_path / "q.onnx", "--backend", "dnnl", "--opset", "24")
    assert [o.version for o in proto.opset_import if not o.domain] == [24]
    again = compile_model(tmp_path / "q.onnx", Options())
    assert len(again.partition.regions) == 3
    assert main(["partition", str(pair[0]), "-o", str(tmp_path / "r.onnx"), "--opset", "9"]) == 1
    assert "n0_Conv (Conv) needs opset 22, not 9" in capsys.readouterr().err
    assert main(["partition", str(pair[0]), "-o", str(tmp_path / "r.onnx"), "--opset", "999"]) == 2
    assert not (tmp_path / "r.onnx").exists()


def graph_of(*rows: Any, shape: tuple[int, ...] = (2, 3), kind: int = 1) -> ir.Graph:
    proto = model(list(rows), {"x": list(shape)}, {rows[-1][2]: None}, {"s": np.array([3, 2])})
    proto.graph.input[0].type.tensor_type.elem_type = kind
    proto.opset_import[0].version = onnx.defs.onnx_opset_version()
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto)).graph


def test_the_lowest_opset_depends_on_the_types_in_use() -> None:
    assert lowest_opset(graph_of(("Softmax", "x", "y"))) == 13
    plain = lowest_opset(graph_of(("Reshape", "x s", "y")))
    packed = lowest_opset(graph_of(("Reshape", "x s", "y"), kind=onnx.TensorProto.FLOAT4E2M1))
    assert plain < 23 <= packed


def test_an_opset_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="--opset 0: onnx knows 1 to"):
        lowest_opset(graph_of(("Softmax", "x", "y")), 0)
    with pytest.raises(ModelError, match="needs opset 13, not 12"):
        lowest_opset(graph_of(("Softmax", "x", "y")), 12)


def test_a_file_that_cannot_be_written_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = network(tmp_path / "net.onnx")
    assert main(["partition", str(source), "-o", str(tmp_path / "none" / "p.onnx")]) == 1
    assert "cannot write" in capsys.readouterr().err
    assert main(["partition", str(source), "-o", str(tmp_path / "p"), "--require-backend"]) == 1
    assert "fall to portable C" in capsys.readouterr().err


def test_functions_whose_names_clash_are_not_spliced(tmp_path: Path) -> None:
    source = network(tmp_path / "net.onnx")
    proto = written(source, tmp_path / "p.onnx", "--backend", "dnnl")
    for node in proto.functions[0].node[:1]:
        inner = node.output[0]
        node.output[0] = "layer/7"
        for user in proto.functions[0].node:
            user.input[:] = ["layer/7" if i == inner else i for i in user.input]
    onnx.save(proto, tmp_path / "clash.onnx")
    _, partition = partition_model(tmp_path / "clash.onnx", Options())
    assert len(partition.regions) == 3


def test_copies_that_normalise_makes_keep_the_users_word(tmp_path: Path) -> None:
    """The DequantizeLinear of each reader is who it was, not its reader's backend's."""
    consts = {"s": np.float32(0.1), "z": np.int8(3), "axis": np.array(1, np.int64)}
    rows = [
        ("DequantizeLinear", "q s z", "d"),
        ("CumSum", "d axis", "a"),
        ("Sigmoid", "d", "b"),
        ("Add", "a b", "y"),
    ]
    proto = model(rows, {"q": [2, 8]}, {"y": None}, consts)
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT8
    onnx.save(proto, str(tmp_path / "net.onnx"))
    written(tmp_path / "net.onnx", tmp_path / "p.onnx", "--backend", "dnnl")
    first = compile_model(tmp_path / "net.onnx", Options(backends=("dnnl",)))
    again = compile_model(tmp_path / "p.onnx", Options(name=first.name))
    calls = [[(c.kernel, c.backend, c.region) for c in m.program.calls] for m in (first, again)]
    assert calls[0] == calls[1]
    assert {b for _, b, _ in calls[0]} == {"c", "dnnl"}


def test_what_cannot_be_written_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("Relu", "x", "a"), ("Tanh", "a", "y")]
    source = tmp_path / "net.onnx"
    onnx.save(model(rows, {"x": ["N", 4]}, {"y": None}), source)
    before = source.read_bytes()
    assert main(["partition", str(source), "-o", str(source), "--dim", "N=2"]) == 2
    assert "is the model itself" in capsys.readouterr().err
    assert source.read_bytes() == before
    assert main(["partition", str(source), "-o", str(tmp_path / "p"), "--dim", "N=1..8"]) == 1
    told = capsys.readouterr().err
    assert "shapes that a run decides cannot be written as ONNX" in told
    assert "type --dim N=8 instead" in told
    assert not (tmp_path / "p").exists()
