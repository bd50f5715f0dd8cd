# SPDX-License-Identifier: Apache-2.0
"""Commands and options that messages print failed when they were typed.

`aotc inspect` printed `--input-shape 'X=?,4'` and `--dim N=N`; models and folders stood in commands
without quotes; hints had placeholders (`--bind NAME=VALUE`); refusals that `--bind` cures said
"only static shapes can be compiled". `--bind X=16000` was refused for an input of shape [1].
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T, helper

import aot
from aot.cli import main
from aot.errors import AotError
from aot.options import Options
from aot.pipeline import compile_model
from graphs import model

X = [2, 3, 8, 8]
PRINTED = re.compile(r"^(?:to type|ready): (aotc .*)$", re.MULTILINE)
HINT = re.compile(r"^  hint: (.*)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def saved(proto: onnx.ModelProto, name: str = "m.onnx") -> str:
    Path(name).write_bytes(proto.SerializeToString())
    return name


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def pasted(command: str) -> None:
    """Let a shell run a command; where it is of aotc, with the words that the shell makes of it."""
    script = f"aotc() {{ printf '%s\\0' \"$@\"; }}\n{command}"
    done = subprocess.run(["bash", "-c", script], capture_output=True)
    assert done.returncode == 0, f"{command}\n{done.stderr!r}"
    if command.startswith("aotc "):
        words = os.fsdecode(done.stdout).split("\0")[:-1]
        assert main(words) == 0, words


def inspected(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The command that `aotc inspect` prints, which compiles."""
    code, out, err = run(["inspect", *words], capsys)
    assert code == 0, err
    found = PRINTED.search(out)
    assert found, out
    states = re.search(r"^streaming: (.*)$", out, re.MULTILINE)
    for more in ["", *([states[1]] if states else [])]:
        words = [*shlex.split(f"{found[1]} {more}")[1:], "--no-configure"]
        code, _, err = run(words, capsys)
        assert code == 0, f"{words}\n{err}"
    return found[1]


def float_model(shape: list[Any] | None, rows: Any = (("Relu", "x", "y"),)) -> onnx.ModelProto:
    made = model(list(rows), {"x": shape or []}, {"y": None})
    if shape is None:
        made.graph.input[0].type.tensor_type.ClearField("shape")
    return made


# What inspect prints


@pytest.mark.parametrize(
    ("shape", "command"),
    [
        (["N", 4], "--dim N=1"),
        ([None, 4], "m.onnx -o OUT"),  # a batch of 1, with a note
        ([4, None], "--input-shape x=4,64"),
        (["N", None, 4], "--dim N=1 --input-shape x=-1,64,4"),
        (["N", "N"], "--dim N=1"),
        (["?", "-1"], "--input-shape x=1,64"),
        (["a b", "it's", "$HOME", "a=b"], "--dim 'a b=1' --dim"),
        (["-n"], "--dim=-n=64"),
        (["two\nlines"], "--dim $'two\\x0alines=64'"),
        (None, "--input-shape x=1,64"),
        ([1, 4], "m.onnx -o OUT"),
    ],
)
def test_open_dimensions(
    shape: list[Any] | None, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = inspected_in_shell(saved(float_model(shape)), capsys)
    assert command in printed


def inspected_in_shell(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The command that `aotc inspect` prints, which a shell runs."""
    code, out, err = run(["inspect", name], capsys)
    assert code == 0, err
    found = PRINTED.search(out)
    assert found, out
    pasted(f"{found[1]} --no-configure")
    return found[1]


@pytest.mark.parametrize(
    "name", ["a b.onnx", "it's.onnx", "$(x).onnx", "./run", "./-x.onnx", "./size", "new\nline.onnx"]
)
def test_names_of_files(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    inspected_in_shell(saved(float_model([1, 4]), name), capsys)


def test_names_of_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("Relu", "x", "y")]
    proto = model(rows, {"x": [None, 4]}, {"y": None})
    for name in ("-x", "a b", "x=y", "x;y", "`ls`"):
        proto.graph.input[0].name = name
        proto.graph.node[0].input[0] = name
        inspected_in_shell(saved(proto), capsys)


def test_what_was_typed_stays(capsys: pytest.CaptureFixture[str]) -> None:
    proto = model([("Add", "a b", "y")], {"a": ["n", "k"], "b": [None, "k"]}, {"y": None})
    name = saved(proto)
    assert inspected([name, "--dim", "n=2"], capsys).endswith("--dim n=2 --dim k=64")
    assert inspected([name, "--dim=k=5", "--input-shape", "b=-1,-1"], capsys).endswith(
        "--dim k=5 --input-shape b=-1,-1 --dim n=1"
    )
    np.save("b.npy", np.ones((2, 3), np.float32))
    assert "--bind b=b.npy" in inspected([name, "--bind", "b=b.npy", "--dim", "n=2"], capsys)


def test_sizes_that_the_weights_ask_for(capsys: pytest.CaptureFixture[str]) -> None:
    weights = {"w": np.ones((5, 2, 3, 3), np.float32), "v": np.ones((7, 2), np.float32)}
    proto = model(
        [("Conv", "x w", "y"), ("MatMul", "z v", "q")],
        {"x": [None] * 4, "z": [None, None]},
        {"y": None, "q": None},
        weights,
    )
    command = inspected([saved(proto)], capsys)
    assert "--input-shape x=1,2,64,64" in command and "--input-shape z=1,7" in command


def test_sizes_that_a_transposed_convolution_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Its weights have the input channels of all groups first, and output channels of one."""
    weights = {"w": np.ones((6, 5, 3, 3), np.float32)}
    row = ("ConvTranspose", "x w", "y", {"group": 2})
    proto = model([row], {"x": [None] * 4}, {"y": None}, weights)
    assert "--input-shape x=1,6,64,64" in inspected([saved(proto)], capsys)


def test_sizes_that_do_not_fit_are_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    weights = {"w": np.ones((1, 1, 100), np.float32)}
    proto = model([("Conv", "x w", "y")], {"x": [1, 1, "n"]}, {"y": None}, weights)
    assert inspected([saved(proto)], capsys).endswith("--dim n=224")


def test_sizes_that_inputs_ask_of_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    proto = model([("MatMul", "a b", "y")], {"a": ["n", None], "b": [None, "m"]}, {"y": None})
    assert inspected([saved(proto)], capsys).endswith("--dim n=1 --dim m=1 --input-shape a=-1,1")


def test_a_shape_of_open_length(capsys: pytest.CaptureFixture[str]) -> None:
    """--dim k=64 was followed by "what decides it is computed by the model"."""
    name = saved(operator("Expand", {"r": ["k"]}, [1, 3]))
    assert inspected([name], capsys).endswith("--dim k=1")
    code, _, err = run([name, "-o", "out", "--no-configure", "--dim", "k=64"], capsys)
    assert code == 1 and 'hint: input "r" decides it: give it at most 16 elements' in err


def test_sequences_and_optionals(capsys: pytest.CaptureFixture[str]) -> None:
    element = helper.make_tensor_type_proto(T.FLOAT, ["n", None])
    kind = helper.make_sequence_type_proto(element)
    place = helper.make_tensor_value_info("i", T.INT64, [])
    out = helper.make_tensor_value_info("y", T.FLOAT, None)
    node = helper.make_node("SequenceAt", ["s", "i"], ["y"])
    graph = helper.make_graph([node], "g", [helper.make_value_info("s", kind), place], [out])
    imports = [helper.make_opsetid("", 21)]
    inspected([saved(helper.make_model(graph, opset_imports=imports, ir_version=10))], capsys)


def test_a_model_that_is_refused_is_not_ready(capsys: pytest.CaptureFixture[str]) -> None:
    proto = model([("my.Gadget", "x", "y")], {"x": ["n"]}, {"y": None}, domains=["my"])
    code, out, _ = run(["inspect", saved(proto)], capsys)
    assert code == 0 and not PRINTED.search(out)
    assert "\nrefused: n0_Gadget (my.Gadget): unknown operator" in out and "\nhint: " in out


MODELS = sorted(Path(os.environ.get("AOT_TEST_MODELS") or "/nowhere").glob("*.onnx"))


@pytest.mark.sample(12)
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_real_models(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspected([str(path)], capsys)


# What --bind cures


def operator(op: str, rest: dict[str, list[Any]], x: Any = X, **attributes: Any) -> onnx.ModelProto:
    """A model of one node that reads x and integers which are inputs, too."""
    inputs = {"x": x, **rest} if x is not None else rest
    kinds = dict.fromkeys(rest, T.INT64)
    return model([(op, " ".join(inputs), "y", attributes)], inputs, {"y": None}, dtypes=kinds)


def resize() -> onnx.ModelProto:
    made = operator("Resize", {"z": [4]})
    made.graph.node[0].input[:] = ["x", "", "", "z"]
    return made


def ranged() -> onnx.ModelProto:
    made = operator("Range", {"a": [], "b": [], "c": []}, None)
    made.graph.output[0].type.tensor_type.elem_type = T.INT64
    return made


def dropout() -> onnx.ModelProto:
    rows = [("Dropout", "x r t", "y")]
    kinds = {"t": T.BOOL}
    return model(rows, {"x": X, "r": [], "t": []}, {"y": None}, dtypes=kinds)


def through_a_computation() -> onnx.ModelProto:
    """The count is one more than an input says."""
    one = {"one": np.ones(1, np.int64)}
    rows = [("Add", "k one", "n"), ("ConstantOfShape", "n", "y")]
    return model(rows, {"k": [1]}, {"y": None}, one, {"k": T.INT64})


CURED = {
    "Reshape": operator("Reshape", {"s": [3]}),
    "Tile": operator("Tile", {"s": [4]}),
    "ConstantOfShape": operator("ConstantOfShape", {"s": [2]}, None),
    "Range": ranged(),
    "Slice": operator("Slice", {"st": [1], "en": [1], "ax": [1]}),
    "Pad": operator("Pad", {"p": [8]}),
    "Resize": resize(),
    "Squeeze": operator("Squeeze", {"ax": [1]}, [3, 1]),
    "Unsqueeze": operator("Unsqueeze", {"ax": [1]}),
    "ReduceSum": operator("ReduceSum", {"ax": [1]}),
    "CumSum": operator("CumSum", {"ax": []}),
    "CenterCropPad": operator("CenterCropPad", {"z": [4]}),
    "HannWindow": operator("HannWindow", {"n": []}, None),
    "DFT": operator("DFT", {"n": [], "ax": []}, [1, 8, 1]),
    "Col2Im": operator("Col2Im", {"im": [2], "bl": [2]}, [1, 5, 5]),
    "Dropout": dropout(),
    "Add": through_a_computation(),
}


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", CURED)
def test_refusals_that_bind_cures_say_so(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [saved(CURED[name]), "-o", "out", "--no-configure"]
    code, _, err = run(words, capsys)
    assert code == 1 and len(err.splitlines()) <= 8
    hint = HINT.search(err)
    assert hint and hint[1].startswith("add --bind "), err
    added = hint[1].removeprefix("add ").removesuffix(", with values of yours")
    code, _, err = run([*words, *shlex.split(added)], capsys)
    assert code == 0, f"{added}\n{err}"
    inspected([words[0]], capsys)


@pytest.mark.parametrize("value", [16000, [16000], np.int64(16000)])
@pytest.mark.parametrize("shape", [[], [1], ["n"]])
def test_one_number_for_one_element(shape: list[Any], value: Any) -> None:
    kinds = {"x": T.INT64, "k": T.INT64, "y": T.INT64}
    proto = model([("Add", "x k", "y")], {"x": [3], "k": shape}, {"y": None}, dtypes=kinds)
    options = Options(name="n", bindings={"k": value})
    if not shape and isinstance(value, list):
        with pytest.raises(AotError, match="rank 0, the shape given"):
            compile_model(proto, options)
        return
    program = compile_model(proto, options).program
    assert [program.tensor(n).shape for n in program.inputs] == [(3,)]


def test_one_number_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    proto = model([("Mul", "x k", "y")], {"x": [3], "k": [1]}, {"y": None})
    words = [saved(proto), "-o", "out", "--no-configure", "--bind", "k=16000"]
    assert run(words, capsys)[0] == 0
    proto = model([("Mul", "x k", "y")], {"x": [3], "k": [3]}, {"y": None})
    assert run([saved(proto), *words[1:]], capsys)[0] == 1


# Options that hints name


def test_hints_of_open_dimensions(capsys: pytest.CaptureFixture[str]) -> None:
    words = [saved(float_model(["N", None, 4])), "-o", "out", "--no-configure"]
    _, _, err = run(words, capsys)
    hint = HINT.search(err)
    assert hint and hint[1] == "add --dim N=1 --input-shape x=-1,64,4, with sizes of yours"
    assert run([*words, *shlex.split("--dim N=1 --input-shape x=-1,64,4")], capsys)[0] == 0
    _, _, err = run([*words, "--dim", "N=2", "--input-shape", "x=-1,-1,4"], capsys)
    hint = HINT.search(err)
    assert hint and hint[1] == "type --input-shape x=2,64,4 instead, with sizes of yours"


def test_hints_of_thousands_of_dimensions(capsys: pytest.CaptureFixture[str]) -> None:
    inputs = {f"x{i}": [f"a_dimension_with_a_long_name_{i}"] for i in range(2000)}
    name = saved(model([("Sum", " ".join(inputs), "y")], inputs, {"y": None}))
    _, _, err = run([name, "-o", "out", "--no-configure"], capsys)
    assert len(err) <= 2000 and " more, which aotc inspect lists, with sizes of yours" in err


def test_hints_of_dimensions_with_a_range(capsys: pytest.CaptureFixture[str]) -> None:
    proto = model([("Det", "x", "y")], {"x": ["n", "n"]}, {"y": None})
    words = [saved(proto), "-o", "out", "--no-configure", "--dim"]
    _, _, err = run([*words, "n=1..8"], capsys)
    assert "hint: type --dim n=8 instead, with values of yours" in err
    assert run([*words, "n=8"], capsys)[0] == 0


# Commands that messages hold


def test_commands_after_compiling_and_before_building(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A folder with a blank in its name, one that looks like an option, one with a quote."""
    name = saved(float_model([1, 4]))
    for out in ("a b", "-out", "it's"):
        code, printed, _ = run([name, f"--output={out}"], capsys)
        assert code == 0
        command = printed.splitlines()[-1]
        place = f"./{out}" if out[0] == "-" else out
        _, _, err = run(["run", place], capsys)
        hint = HINT.search(err)
        assert hint and hint[1] == f"`{command}`"
        pasted(command)
    with pytest.raises(AotError) as caught:
        aot.Bundle(Path("nothing here"))
    assert "`aotc --help`" in str(caught.value)


def test_explain_names_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    name = saved(float_model(["N", 4]), "a b.onnx")
    words = [name, "-o", "out", "--backend", "dnnl", "--dim=N=2", "--ram", "1M"]
    for more in (["--keep", "zzz=c"], ["--require-backend", "--backend=c", "--offload-limit=0"]):
        code, _, err = run([*words, *more], capsys)
        assert code in (1, 2)
        command = re.search("`(aotc explain [^`]*)`", err)
        assert command and "--dim N=2" in command[1] and "--backend dnnl" in command[1], err
        pasted(command[1])


def test_new_backend_says_what_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(["new-backend", "mine", "-o", "my folder"], capsys)
    words = shlex.split(out.splitlines()[-1])
    assert words.count("my folder") == 2 and Path("my folder").is_dir()
