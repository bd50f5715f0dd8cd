# SPDX-License-Identifier: Apache-2.0
"""OUT when aotc is ended in the middle, or finds what it did not write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from aot.emit_c.write import write_bundle
from aot.errors import BuildError
from aot.tools.build import Tree

_CHANGES = ("os.", "shutil.", "open")


def change(out: Path, text: str, fails: bool = False) -> None:
    """What a compilation does with OUT; `text` is in every file."""
    with Tree(out) as tree:
        write_bundle({"manifest.json": text.encode(), f"src/{text}.c": text.encode()}, out)
        (out / "aotc.json").write_text(text)
        (out / "CMakeCache.txt").write_text(text)
        (out / "CMakeFiles").mkdir()
        (out / "CMakeFiles" / text).write_text(text)
        if fails:
            raise BuildError("no")
        tree.keep()


def state(out: Path) -> dict[str, str]:
    return {str(p.relative_to(out)): p.read_text() for p in sorted(out.rglob("*")) if p.is_file()}


def killed(body: Callable[[], None], step: int) -> bool:
    """Run `body` in a process that ends without a word at its change number `step`."""
    pid = os.fork()
    if pid == 0:
        count = 0

        def hook(event: str, args: tuple[object, ...]) -> None:
            nonlocal count
            if event.startswith(_CHANGES) and event not in ("os.scandir", "os.listdir"):
                count += 1
                if count > step:
                    os._exit(7)

        sys.addaudithook(hook)
        body()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


@pytest.mark.parametrize("fails", [False, True])
def test_killed_at_every_step(tmp_path: Path, fails: bool) -> None:
    """The bundle is whole at any moment, and the next run goes on from there or undoes it."""
    change(tmp_path / "a", "old")
    change(tmp_path / "b", "new")
    old, new = state(tmp_path / "a"), state(tmp_path / "b")
    steps = 0
    while True:
        out = tmp_path / f"out{steps}"
        change(out, "old")

        def body(out: Path = out) -> None:
            try:
                change(out, "new", fails)
            except BuildError:
                os._exit(0)

        if not killed(body, steps):
            break
        if (out / "bundle").exists():
            whole = {k: v for k, v in state(out).items() if k.startswith("bundle")}
            assert whole in [{k: v for k, v in s.items() if k in whole} for s in (old, new)]
            assert len(whole) == 2
        with pytest.raises(BuildError, match="no"):
            change(out, "third", fails=True)
        assert state(out) in (old, new), steps
        steps += 1
    assert steps > 30


def test_killed_while_new(tmp_path: Path) -> None:
    """A new OUT that somebody's kill left: the next run fills it."""
    steps = 0
    out = tmp_path / "out0"
    while killed(partial(change, out, "new"), steps):
        change(out, "third")
        assert set(state(out).values()) == {"third"}
        assert not [p for p in out.iterdir() if p.name.startswith(".")]
        steps += 1
        out = tmp_path / f"out{steps}"
    assert steps > 10


def test_two_at_once(tmp_path: Path) -> None:
    change(tmp_path, "old")
    with (
        pytest.raises(BuildError, match="another aotc is writing"),
        Tree(tmp_path),
        Tree(tmp_path),
    ):
        pass
    change(tmp_path, "new")
    assert set(state(tmp_path).values()) == {"new"}


def test_a_bundle_of_another_name_removes_nothing_outside(tmp_path: Path) -> None:
    """The old manifest says which programs are stale; it might be anybody's."""
    from aot.tools.build import drop_products

    out = tmp_path / "out"
    (out / "bin").mkdir(parents=True)
    (tmp_path / "victim").write_text("x")
    (out / "bin" / "net").write_text("x")
    drop_products(out, {"name": "../../victim"})
    drop_products(out, {"name": "net"})
    assert (tmp_path / "victim").exists() and not (out / "bin" / "net").exists()


def model(path: Path) -> Path:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    imports = [helper.make_opsetid("", 21)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    )
    return path


def _hear_hangups() -> None:
    """Under nohup SIGHUP is ignored, by children too, which aotc respects."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_signals_while_cmake_runs(tmp_path: Path) -> None:
    """SIGTERM and SIGHUP undo as Ctrl-C does, in a new OUT and in an old one."""
    source = model(tmp_path / "net.onnx")
    tools = tmp_path / "tools"
    tools.mkdir()
    slow = tools / "cmake"
    slow.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nsleep 100\n")
    slow.chmod(0o755)
    old = tmp_path / "old"
    change(old, json.dumps({"name": "net"}).replace(" ", ""))
    before = state(old)
    places = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
    for number, out in ((signal.SIGTERM, tmp_path / "new" / "out"), (signal.SIGHUP, old)):
        (tmp_path / "started").unlink(missing_ok=True)
        words = [sys.executable, "-m", "aot", str(source), "-o", str(out)]
        running = subprocess.Popen(
            words, env=places, stderr=subprocess.PIPE, text=True, preexec_fn=_hear_hangups
        )
        while not (tmp_path / "started").exists() and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(number)
        _, said = running.communicate()
        assert (running.returncode, said) == (1, "aotc: interrupted\n")
    assert not (tmp_path / "new").exists()
    assert state(old) == before


def test_record_is_not_written_through_a_link(tmp_path: Path) -> None:
    from aot.cli import main

    source = model(tmp_path / "net.onnx")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "aotc.json").symlink_to(victim)
    assert main([str(source), "-o", str(tmp_path / "out"), "--no-configure", "-q"]) == 0
    assert victim.read_text() == "mine"
    assert json.loads((tmp_path / "out" / "aotc.json").read_text())["model"] == str(source)


def compiles(folder: Path, out: Path) -> int:
    from aot.cli import main

    return main([str(model(folder / "net.onnx")), "-o", str(out), "--no-configure", "-q"])


@pytest.mark.parametrize("name", ["Makefile", "build.ninja", "cmake_install.cmake"])
def test_files_that_cmake_did_not_write_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """`aotc net.onnx -o .` in a folder with a Makefile of somebody's own."""
    (tmp_path / name).write_text("all:\n\techo mine\n")
    assert compiles(tmp_path, tmp_path) == 1
    assert f"{name} was not written by CMake" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "all:\n\techo mine\n"
    assert not (tmp_path / "bundle").exists()
    (tmp_path / name).write_text("# CMAKE generated file: DO NOT EDIT!\n")
    assert compiles(tmp_path, tmp_path) == 0


@pytest.mark.parametrize("name", [".aotc-previous", ".aotc-partly", ".aotc-done", ".bundle-x"])
def test_links_in_place_of_what_was_set_aside(tmp_path: Path, name: str) -> None:
    """What a run that was killed had set aside is put back; not what lies elsewhere."""
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    assert compiles(tmp_path, out) == 0
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("mine")
    (out / name).symlink_to(elsewhere)
    before = state(out)
    assert compiles(tmp_path, out) == 0
    assert state(elsewhere) == {"mine": "mine"}
    assert not os.path.lexists(out / name)
    assert {k: v for k, v in before.items() if not k.startswith(name)} == state(out)


@pytest.mark.parametrize("file", ["bundle/more", "aotc.json", "CMakeCache.txt", "Makefile"])
@pytest.mark.parametrize("leads", [".", "nowhere", "/dev/zero", "pipe"])
def test_links_and_pipes_in_out(tmp_path: Path, file: str, leads: str) -> None:
    """Nothing is read that has no end, and links are not followed; a refusal is a message."""
    from aot.cli import main

    out = tmp_path / "out"
    assert compiles(tmp_path, out) == 0
    (out / file).unlink(missing_ok=True)
    if leads == "pipe":
        os.mkfifo(out / file)
    else:
        (out / file).symlink_to(leads)
    code = compiles(tmp_path, out)
    assert code == 0 or (out / file).exists()
    unsure = file == "Makefile" and leads != "nowhere"
    assert code == (unsure or (file, leads) == ("aotc.json", "pipe"))
    assert main(["run", str(out), "--inputs", "none.npz"]) == 1


@pytest.mark.parametrize("name", ["y" * 5000, "a\0b", "circle", "circle/below"])
def test_names_that_no_folder_can_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "circle").symlink_to("circle")
    assert compiles(tmp_path, tmp_path / name) == 1
    said = capsys.readouterr().err
    assert said.startswith("aotc: cannot write to output folder") and len(said) < 2002
    assert sorted(p.name for p in tmp_path.iterdir()) == ["circle", "net.onnx"]


@pytest.fixture
def page(tmp_path: Path) -> Callable[[str], int]:
    """`aotc report OUT -o FILE` in `tmp_path`."""
    from aot.cli import main

    assert compiles(tmp_path, tmp_path / "out") == 0
    return lambda file: main(["report", str(tmp_path / "out"), "-o", file, "-q"])


def test_devices_and_links_are_written_to(tmp_path: Path, page: Callable[[str], int]) -> None:
    """Root may replace /dev/null: `aotc bench OUT --json /dev/null` in a container did."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert page(str(tmp_path / "pipe")) == 0
    assert (tmp_path / "pipe").is_fifo() and os.read(reader, 15) == b"<!DOCTYPE html>"
    os.close(reader)
    (tmp_path / "link").symlink_to("page")
    with open("/dev/null", "wb") as null:
        for file in ("link", "null"):
            if file == "null":
                (tmp_path / "null").symlink_to(f"/proc/self/fd/{null.fileno()}")
            assert page(str(tmp_path / file)) == 0
            assert (tmp_path / file).is_symlink()
    assert (tmp_path / "page").read_bytes().startswith(b"<!DOCTYPE html>")


def test_files_that_cannot_be_written(
    tmp_path: Path, page: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "full").symlink_to("/dev/full")
    (tmp_path / "circle").symlink_to("circle")
    names = ("", ".", "/", "folder", "full", "circle", "a\0b", "n" * 300, "none/page")
    for file in names:
        assert page(file and str(tmp_path / file) if file != "." else file) == 1, file
        said = capsys.readouterr().err
        assert said.startswith("aotc: cannot write"), (file, said)
    present = sorted(p.name for p in tmp_path.iterdir())
    assert present == ["circle", "folder", "full", "net.onnx", "out"]


def test_model_in_the_folder_that_is_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from aot.cli import main

    change(tmp_path / "out", "old")
    source = model(tmp_path / "out" / "bundle" / "net.onnx")
    assert main([str(source), "-o", str(tmp_path / "out"), "--no-configure"]) == 2
    assert "is replaced" in capsys.readouterr().err and source.exists()


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("bundle/manifest.json", ["run", "--inputs", "in.npz"]),
        ("bundle/manifest.json", ["report", "-o", "r.html"]),
        ("bundle/manifest.json", ["diff", "out"]),
        ("aotc.json", ["diff", "out"]),
        ("bundle/manifest.json", ["size"]),
        ("bundle/manifest.json", ["verify"]),
        ("aotc.json", ["verify"]),
    ],
)
@pytest.mark.parametrize("content", ["{}", '{"name": 5, "inputs": 7, "options": []}', "[" * 9999])
def test_files_of_a_bundle_that_were_changed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    words: list[str],
    content: str,
) -> None:
    from aot.cli import main

    monkeypatch.chdir(tmp_path)
    assert main([str(model(tmp_path / "net.onnx")), "-o", "out", "--no-configure", "-q"]) == 0
    (tmp_path / "out" / "bin").mkdir()
    (tmp_path / "out" / "bin" / "net").write_text("")
    (tmp_path / "out" / file).write_text(content)
    assert main([words[0], "out", *words[1:]]) == 1
    said = capsys.readouterr().err
    assert said.startswith("aotc: ") and "internal error" not in said
    assert content == "{}" or file.split("/")[-1] in said


def archive(*objects: bytes, size: str = "") -> bytes:
    """A Unix archive; `size` in place of the size of each object."""
    found = b"!<arch>\n"
    for content in objects:
        digits = (size or str(len(content))).ljust(10)
        found += f"{'a.o/':<16}{'0':<32}{digits}`\n".encode("latin-1") + content
    return found


#: What is said of a library whose bytes were changed.
DAMAGED = r"no ELF object|is no(t an)? archive|ends in the middle"


def test_damaged_libraries(tmp_path: Path) -> None:
    """`aotc size --symbols` of objects that somebody or a disk changed."""
    from types import SimpleNamespace

    from aot.tools.size import _sections
    from aot.tools.symbols import symbols_of

    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib" / "libnet.a"
    built: Any = SimpleNamespace(board=False, out=tmp_path, name="net")
    elf = Path(sys.executable).resolve().read_bytes()[:64]  # its tables are cut off
    cases = [archive(b"x"), archive(elf), archive(elf[:30]), archive(b"", size="\xff2")]
    for content in (*cases, archive(b"", size="9" * 10), archive(b"", size="-60"), b""):
        library.write_bytes(content)
        for read in (symbols_of, lambda _built: list(_sections(library))):
            with pytest.raises(BuildError, match=DAMAGED):
                read(built)


def test_names_of_symbols_are_printed_without_controls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from argparse import Namespace

    from aot.cli.commands import targets
    from aot.cli.subcommand import Answer, run_command

    answer = Answer({}, "a\x1b[31m\x9b\nb")
    monkeypatch.setattr(targets, "command", lambda *_: answer)
    assert run_command("targets", Namespace(json=False, quiet=False, verbose=False)) == 0
    assert capsys.readouterr().out == "a\\x1b[31m\\x9b\nb\n"


def test_inputs_without_an_end_are_refused(tmp_path: Path) -> None:
    from aot.errors import AotError
    from aot.tools.run import Spec, read_raw

    spec = Spec("x", (2,), "float32")
    with pytest.raises(AotError, match="/dev/zero holds 9 or more bytes"):
        read_raw(Path("/dev/zero"), spec)
    (tmp_path / "x.bin").write_bytes(bytes(20))
    with pytest.raises(AotError, match=r"x\.bin holds 20 bytes"):
        read_raw(tmp_path / "x.bin", spec)
    assert read_raw(tmp_path / "x.bin", Spec("x", (5,), "float32")).size == 5
