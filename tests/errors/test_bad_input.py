# SPDX-License-Identifier: Apache-2.0
"""Bad input on the command line: one clear message, exit code 1, OUT as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from aot.cli import main
from graphs import model

ROOT = Path(__file__).parents[2]


def tiny(**more) -> onnx.ModelProto:
    return model([("Relu", "x", "y")], {"x": [2, 3]}, {"y": [2, 3]}, **more)


def save(proto: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None
        for p in sorted(folder.rglob("*"))
    }


@pytest.fixture
def old_out(tmp_path: Path) -> Path:
    """An OUT that an earlier run of aotc left, with what a build put there."""
    out = tmp_path / "old"
    for name, text in {
        "bundle/manifest.json": '{"name": "earlier"}',
        "bundle/src/net.c": "int net;",
        "CMakeCache.txt": f"CMAKE_HOME_DIRECTORY:INTERNAL={out}/bundle\n",
        "CMakeFiles/x": "",
        "Makefile": "# CMAKE generated file: DO NOT EDIT!\nall:",
        "aotc.json": "{}",
        "bin/earlier": "program",
    }.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text)
    return out


def refused(
    words: list[object], says: list[str], old: Path, capsys: pytest.CaptureFixture[str]
) -> str:
    """Run aotc into a new and into an old OUT; both must stay as they were."""
    before = snapshot(old)
    new = old.parent / "new" / "out"
    messages = []
    for out in (new, old):
        code = main([*map(str, words), "-o", str(out)])
        captured = capsys.readouterr()
        assert code == 1, captured.err
        assert captured.out == ""
        messages.append(captured.err)
    assert not new.parent.exists()
    assert snapshot(old) == before
    message = messages[0]
    assert message.startswith("aotc: ")
    assert "Traceback" not in message and "internal error" not in message, message
    assert len(message.splitlines()) <= 8 and len(message) <= 2000, message
    assert all(c.isprintable() or c == "\n" for c in message), ascii(message)
    for text in says:
        assert text in message, message
    return message


def cyclic() -> onnx.ModelProto:
    return model([("Add", "x b", "a"), ("Relu", "a", "b")], {"x": [2]}, {"b": [2]})


def duplicate() -> onnx.ModelProto:
    return model([("Relu", "x", "y"), ("Neg", "x", "y")], {"x": [2]}, {"y": [2]})


def early_use() -> onnx.ModelProto:
    return model([("Relu", "nowhere", "y")], {"x": [2]}, {"y": [2]})


def clash() -> onnx.ModelProto:
    proto = model([("Add", "x d", "y")], {"x": [2], "d": ["n"]}, {"y": [2]})
    proto.graph.input[1].name = "x"
    return proto


def mixed() -> onnx.ModelProto:
    return model(
        [("Add", "x i", "y")],
        {"x": [2], "i": [2]},
        {"y": [2]},
        dtypes={"i": TensorProto.INT64},
    )


def unknown_operator() -> onnx.ModelProto:
    return model([("Frobnicate", "x", "y")], {"x": [2]}, {"y": [2]})


def unknown_domain() -> onnx.ModelProto:
    return model([("com.acme.Magic", "x", "y")], {"x": [2]}, {"y": [2]}, domains=["com.acme"])


def empty_graph() -> onnx.ModelProto:
    graph = helper.make_graph([], "g", [], [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def open_dimension() -> onnx.ModelProto:
    return model([("Relu", "x", "y")], {"x": ["batch", 3]}, {"y": ["batch", 3]})


def dimension_for_a_shell() -> onnx.ModelProto:
    return model([("Relu", "x", "y")], {"x": ["`b` $(c)", 3]}, {"y": ["`b` $(c)", 3]})


def huge() -> onnx.ModelProto:
    return model([("Relu", "x", "y")], {"x": [1 << 40, 1 << 20]}, {"y": None})


def negative() -> onnx.ModelProto:
    return model([("Relu", "x", "y")], {"x": [2, -3]}, {"y": None})


def hostile_name() -> onnx.ModelProto:
    return model([("Frob\x1b[31m\r\nnicate", "x", "y")], {"x": [2]}, {"y": [2]})


BAD_MODELS: list[tuple[Callable[[], onnx.ModelProto], list[str]]] = [
    (cyclic, ["cyc"]),
    (duplicate, ['"y"']),
    (early_use, ["nowhere"]),
    (clash, ["x"]),
    (mixed, ["n0_Add"]),
    (unknown_operator, ["Frobnicate", "n0_Frobnicate"]),
    (unknown_domain, ["com.acme"]),
    (empty_graph, ["no outputs"]),
    (open_dimension, ["x", "batch", "--dim batch="]),
    (dimension_for_a_shell, ["add --dim '`b` $(c)=1'"]),
    (huge, ["x"]),
    (negative, ["x", "-3"]),
    (hostile_name, ["\\x1b[31m"]),
]


@pytest.mark.parametrize("make, says", BAD_MODELS, ids=lambda v: getattr(v, "__name__", ""))
def test_bad_models(
    make: Callable[[], onnx.ModelProto],
    says: list[str],
    tmp_path: Path,
    old_out: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused([save(make(), tmp_path)], says, old_out, capsys)


def test_missing_file(tmp_path: Path, old_out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused([tmp_path / "none.onnx"], ["does not exist", "none.onnx"], old_out, capsys)


@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "empty"),
        (bytes(range(256)) * 8, "not an ONNX model"),
        (np.random.default_rng(1).bytes(4096), "not an ONNX model"),
        (tiny().SerializeToString()[:-9], "not an ONNX model"),
        (b"\n" * 50, "not an ONNX model"),
    ],
    ids=["empty", "counting", "random", "truncated", "newlines"],
)
def test_bad_bytes(
    content: bytes,
    says: str,
    tmp_path: Path,
    old_out: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    refused([path], [says], old_out, capsys)


def test_folder_fifo_and_device(
    tmp_path: Path, old_out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    refused([tmp_path], ["directory"], old_out, capsys)
    refused([tmp_path / "pipe.onnx"], ["FIFO"], old_out, capsys)
    refused(["/dev/zero"], ["device"], old_out, capsys)


def test_wrong_pins(tmp_path: Path, old_out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(open_dimension(), tmp_path)
    refused([path, "--dim", "bacth=1"], ["bacth", "batch"], old_out, capsys)
    refused([path, "--input-shape", "z=1,3"], ['"z"', "x"], old_out, capsys)
    refused([path, "--input-shape", "x=1,4"], ["x", "4"], old_out, capsys)
    refused([path, "--input-shape", "x=3"], ["x", "rank"], old_out, capsys)


def test_unknown_target_and_backend(
    tmp_path: Path, old_out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(tiny(), tmp_path)
    refused([path, "--target", "pdp11"], ["pdp11", "aotc targets"], old_out, capsys)
    refused([path, "--target", "none.toml"], ["none.toml"], old_out, capsys)
    refused([path, "--backend", "acme"], ["acme"], old_out, capsys)


def test_budget_names_the_peak(
    tmp_path: Path, old_out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = model(
        [("Exp", "x", "a"), ("ReduceSum", "a", "s"), ("Div", "a s", "y")],
        {"x": [64, 64]},
        {"y": None},
    )
    says = ["--ram 1024", "peak", "hint"]
    refused([save(proto, tmp_path), "--ram", "1K"], says, old_out, capsys)


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A PATH that holds nothing; tests link in what they need."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for variable in ("CC", "CMAKE_GENERATOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("aot.tools.build.find_program", shutil.which)
    yield folder


def link(folder: Path, *names: str) -> None:
    for name in names:
        found = shutil.which(name, path=os.defpath + ":/usr/bin:/usr/local/bin")
        assert found, name
        (folder / name).symlink_to(found)


def test_missing_cmake(
    bare_path: Path, tmp_path: Path, old_out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    says = ["cmake was not found", "apt-get install cmake", "--no-configure"]
    refused([save(tiny(), tmp_path)], says, old_out, capsys)


def test_missing_compiler(
    bare_path: Path,
    tmp_path: Path,
    old_out: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = save(tiny(), tmp_path)
    monkeypatch.setattr("aot.tools.compiler.find_zig", lambda: "")  # PyPI's may be installed
    (bare_path / "cmake").symlink_to("/bin/true")
    says = ["no C compiler", "apt-get install --no-install-recommends gcc"]
    refused([path], says, old_out, capsys)
    monkeypatch.setenv("CC", "nocc -m32")
    refused([path], ["CC=nocc -m32"], old_out, capsys)
    monkeypatch.delenv("CC")
    link(bare_path, "gcc")
    refused([path], ["neither make nor ninja"], old_out, capsys)


def test_compiler_that_cannot_compile(
    tmp_path: Path,
    old_out: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CC", shutil.which("false") or "false")
    refused([save(tiny(), tmp_path)], ["could not configure"], old_out, capsys)


def test_unwritable_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(tiny(), tmp_path)
    (tmp_path / "file").write_text("mine")
    for out in ("file", "file/below", "/proc/none/out"):
        target = tmp_path / out if not out.startswith("/") else Path(out)
        assert main([str(path), "-o", str(target)]) == 1
        message = capsys.readouterr().err
        assert str(target.parent if "/" in out else target) in message, message
        assert "internal" not in message, message
    assert (tmp_path / "file").read_text() == "mine"


def test_out_of_somebody_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(tiny(), tmp_path)
    out = tmp_path / "out"
    (out / "bundle").mkdir(parents=True)
    (out / "bundle" / "precious").write_text("mine")
    assert main([str(path), "-o", str(out)]) == 1
    assert "not written by aotc" in capsys.readouterr().err
    other = tmp_path / "other"
    other.mkdir()
    (other / "CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/home/me/project\n")
    assert main([str(path), "-o", str(other)]) == 1
    assert "another CMake project" in capsys.readouterr().err
    assert snapshot(out) == {"bundle": None, "bundle/precious": b"mine"}


LINES = "N\n  hint: run `x`\naotc: ok"


@pytest.mark.parametrize("place", ["graph.input.0.name", "graph.node.0.op_type", "dim", "domain"])
@pytest.mark.parametrize("option", [[], ["--dim", "z=1"], ["--bind", "z=1"], ["--ram", "1"]])
def test_names_add_no_lines_to_messages(
    place: str, option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newline in a name would let a model speak in aotc's name."""
    proto = open_dimension() if place == "dim" else tiny()
    if place == "dim":
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = LINES
    elif place == "domain":
        proto.graph.node[0].domain = LINES
    elif place == "graph.node.0.op_type":
        proto.graph.node[0].op_type = LINES
    else:
        proto.graph.input[0].name = proto.graph.node[0].input[0] = LINES
    words = [str(save(proto, tmp_path)), "-o", str(tmp_path / "out"), "--no-configure", *option]
    main(words)
    assert main(["inspect", words[0]]) in (0, 1)
    said = "".join(capsys.readouterr())
    assert "\\n  hint: run" in said and "\naotc: ok" not in said, said
    assert "\n  hint: run" not in said.replace("\\n", "")


@pytest.mark.parametrize("option", ["--rtol", "--atol-of-max"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e400", "1_0", "", ".", "x"])
def test_tolerances_that_let_everything_pass(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "out", f"{option}={value}"]) == 2
    assert f"argument {option}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["run", "?", "--inputs", "x"],
        ["verify", "?"],
        ["bench", "?"],
        ["size", "?"],
        ["report", "?", "-o", "r"],
        ["diff", "?", "?"],
        ["disasm", "?"],
        ["inspect", "?"],
        ["explain", "?"],
        ["partition", "?", "-o", "p.onnx"],
        ["partition", "model.onnx", "-o", "?"],
        ["quantize", "model.onnx", "--calibrate", "?", "-o", "q.onnx"],
        ["quantize", "model.onnx", "--calibrate", "c.npz", "-o", "?"],
        ["quantize", "model.onnx", "--calibrate", "c.npz", "-o", "c.npz"],
        ["model.onnx", "-o", "out", "--test-data", "?"],
        ["model.onnx", "-o", "out", "--target", "?.toml"],
        ["model.onnx", "-o", "out", "--regions", "?"],
    ],
)
def test_names_that_no_file_can_have(
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    save(tiny(), tmp_path)
    np.savez(tmp_path / "c.npz", x=np.ones((2, 3), np.float32))
    before = snapshot(tmp_path)
    for name in ("n" * 5000, "circle"):
        if name == "circle":
            (tmp_path / name).symlink_to(name)
            before = snapshot(tmp_path)
        assert main([w.replace("?", name) for w in words]) in (1, 2), name
        message = capsys.readouterr().err
        assert message.startswith("aotc: ") and "internal error" not in message, message
        assert snapshot(tmp_path) == before


@pytest.mark.parametrize("command", ["run", "verify", "bench", "size"])
def test_commands_before_compile_and_before_build(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path)]) == 1
    assert "no bundle here" in capsys.readouterr().err
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "manifest.json").write_text('{"name": "net"}')
    assert main([command, str(tmp_path)]) == 1
    assert f"cmake --build {tmp_path}" in capsys.readouterr().err


def test_unexpected_failures_stay_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(tiny(), tmp_path)
    for raised, says in (
        (KeyError("\x1bboom"), "internal error: KeyError"),
        (RecursionError(), "nests too deeply"),
        (MemoryError(), "out of memory"),
        (KeyboardInterrupt(), "interrupted"),
    ):

        def fail(*_args: object, error: BaseException = raised) -> None:
            raise error

        monkeypatch.setattr("aot.api.compile_model", fail)
        assert main([str(path), "-o", str(tmp_path / "out")]) == 1
        message = capsys.readouterr().err
        assert says in message and "Traceback" not in message and "\x1b" not in message
        assert not (tmp_path / "out").exists()


def test_debug_shows_the_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_args: object) -> None:
        raise KeyError("boom")

    monkeypatch.setattr("aot.api.compile_model", fail)
    monkeypatch.setenv("AOTC_DEBUG", "1")
    assert main([str(save(tiny(), tmp_path)), "-o", str(tmp_path / "out")]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_closed_stdout_is_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m aot ops | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr, done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_streams_that_are_closed(closed: str, tmp_path: Path) -> None:
    path = save(tiny(), tmp_path)
    start = f"{sys.executable} -m aot {path} -o {tmp_path / 'out'}"
    configure = "" if "<&-" in closed and ">" in closed else " --no-configure"
    for options, code in ((configure, 0), (" --dim z=1", 1)):
        command = f"{start}{options} {closed}"
        done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == code, done.stderr
        assert "internal error" not in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "out" / "bundle" / "manifest.json").is_file()


@pytest.mark.parametrize("word", ["backends", "--version"])
def test_output_that_cannot_be_written(word: str) -> None:
    """Little output is buffered until the end; the reader has left, or the disk is full."""
    end, pipe = os.pipe()
    os.close(end)
    command = [sys.executable, "-m", "aot", word]
    done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    os.close(pipe)
    assert (done.returncode, done.stderr) == (1, "")
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr == "aotc: cannot write: No space left on device\n"
