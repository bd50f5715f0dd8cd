# SPDX-License-Identifier: Apache-2.0
"""`--weights blob|section=NAME`: constants that the caller passes, or that the linker places."""

from __future__ import annotations

import ctypes
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

import aot
from abi import loader as L
from abi.loader import Library, aligned, dl
from abi.toy import WARNINGS
from aot.errors import UnsupportedError, UsageError
from aot.options import Options
from graphs import model
from needs import need

RNG = np.random.default_rng(5)
WEIGHTS = {
    "w": RNG.uniform(-1, 1, (6, 40)).astype(np.float32),
    "v": RNG.uniform(-1, 1, (40, 3)).astype(np.float32),
}
X = RNG.uniform(-1, 1, (4, 6)).astype(np.float32)
WANT = np.maximum(X @ WEIGHTS["w"], 0) @ WEIGHTS["v"]
STRICT = " ".join([*WARNINGS, "-Werror"])


def net(weights: dict[str, np.ndarray] = WEIGHTS):
    rows = [("MatMul", "x w", "a"), ("Relu", "a", "r"), ("MatMul", "r v", "y")]
    return model(rows, {"x": [4, 6]}, {"y": [4, 3]}, weights)


def close(got: np.ndarray) -> bool:
    return bool(np.allclose(got, WANT, rtol=1e-4, atol=1e-5))


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    return aot.compile(net(), folder, name="net", weights="blob").build().out


@pytest.fixture
def lib(out: Path) -> Library:
    return Library(out, "net")


@pytest.fixture
def file(out: Path) -> np.ndarray:
    content = np.frombuffer((out / "bundle/src/net_blob_weights.bin").read_bytes(), np.uint8)
    placed = aligned(content.nbytes)
    placed[:] = content
    return placed


def give(lib: Library, ctx: object, file: np.ndarray | None, nbytes: int | None = None) -> int:
    address = None if file is None else ctypes.c_void_p(file.ctypes.data)
    size = nbytes if nbytes is not None else 0 if file is None else file.nbytes
    return lib.c.net_set_weights(ctx, address, ctypes.c_size_t(size))


def run(lib: Library, ctx: object) -> tuple[int, np.ndarray]:
    y = np.full((4, 3), 7, np.float32)
    return lib.run(ctx, [dl(X)], [dl(y)]), y


def ready(lib: Library) -> ctypes.Array:
    context = lib.context()
    context.arena = aligned(4096)
    assert lib.init(context, context.arena) == L.OK
    return context


def test_a_run_needs_them(lib: Library, file: np.ndarray) -> None:
    context = ready(lib)
    status, y = run(lib, context)
    assert status == L.NO_WEIGHTS and (y == 7).all()
    assert give(lib, context, file) == L.OK
    status, y = run(lib, context)
    assert status == L.OK and close(y)


def test_init_forgets_them_and_comes_first(lib: Library, file: np.ndarray) -> None:
    assert give(lib, lib.context(), file) == L.NOT_INIT
    context = ready(lib)
    assert give(lib, context, file) == L.OK
    assert lib.init(context, context.arena) == L.OK
    assert run(lib, context)[0] == L.NO_WEIGHTS


@pytest.mark.parametrize("bit", [0, 9, 18, 27, 33, 64, 100, 130, 64 * 8, 64 * 8 + 12345 % 6000, -1])
def test_every_flipped_bit_is_noticed(lib: Library, file: np.ndarray, bit: int) -> None:
    context = ready(lib)
    assert give(lib, context, file) == L.OK
    bad = aligned(file.nbytes)
    bad[:] = file
    bad[bit // 8] ^= 1 << bit % 8
    assert give(lib, context, bad) == L.BAD_WEIGHTS
    status, y = run(lib, context)  # it keeps what it had
    assert status == L.OK and close(y)


def test_other_refusals(lib: Library, file: np.ndarray) -> None:
    context = ready(lib)
    assert give(lib, context, None) == L.NULL
    assert give(lib, context, file, file.nbytes - 1) == L.BAD_WEIGHTS
    assert give(lib, context, file, 3) == L.BAD_WEIGHTS
    off = aligned(file.nbytes, 64, 4)
    off[:] = file
    assert give(lib, context, off) == L.ALIGN
    for place, value in ((4, 99), (8, 1)):  # another ABI; another model, with a right checksum
        other = aligned(file.nbytes)
        other[:] = file
        other[place] ^= value
        checked = other[:12].tobytes() + other[16:24].tobytes() + other[64:].tobytes()
        other[12:16] = np.frombuffer(zlib.crc32(checked).to_bytes(4, "little"), np.uint8)
        assert give(lib, context, other) == L.BAD_WEIGHTS
    assert run(lib, context)[0] == L.NO_WEIGHTS


def test_weights_of_a_retrained_model_fit(lib: Library, tmp_path: Path) -> None:
    doubled = {n: w * 2 for n, w in WEIGHTS.items()}
    other = aot.compile(net(doubled), tmp_path, name="net", weights="blob", configure=False).out
    content = (other / "bundle/src/net_blob_weights.bin").read_bytes()
    placed = aligned(len(content))
    placed[:] = np.frombuffer(content, np.uint8)
    context = ready(lib)
    assert give(lib, context, placed) == L.OK
    status, y = run(lib, context)
    assert status == L.OK and np.allclose(y, 4 * WANT, rtol=1e-4, atol=1e-5)


def test_a_signature_of_the_caller(out: Path, file: np.ndarray, tmp_path: Path) -> None:
    """It is asked about whole files of this model only, and an unsigned one changes nothing."""
    (tmp_path / "config.h").write_text(
        "int signed_by(const void *file, unsigned long bytes);\n"
        "#define AOT_WEIGHTS_TRUSTED(file, bytes) signed_by(file, bytes)\n"
    )
    own = tmp_path / "signed.c"
    own.write_text(
        "int asked, key;\nint signed_by(const void *file, unsigned long bytes) {\n"
        "    ++asked;\n    return ((const unsigned char *)file)[bytes - 1] == key;\n}\n"
    )
    bundle = out / "bundle"
    sources = [
        bundle / "src" / f"net{part}.c" for part in ("", "_run", "_static", "_arena", "_given")
    ]
    options = ["-shared", "-fPIC", "-O1", "-march=native", "-I", bundle / "include"]
    config = f'-DAOT_CONFIG="{tmp_path / "config.h"}"'
    (tmp_path / "lib").mkdir()
    command = ["gcc", *options, config, *sources, own, "-lm"]
    subprocess.run([*command, "-o", tmp_path / "lib/libnet.so"], check=True)
    (tmp_path / "bundle").symlink_to(bundle)
    lib = Library(tmp_path, "net")
    asked, key = (ctypes.c_int.in_dll(lib.c, name) for name in ("asked", "key"))
    context = ready(lib)
    key.value = int(file[-1]) ^ 1
    assert give(lib, context, file) == L.BAD_WEIGHTS and asked.value == 1
    assert run(lib, context)[0] == L.NO_WEIGHTS
    key.value = int(file[-1])
    assert give(lib, context, file) == L.OK
    status, y = run(lib, context)
    assert status == L.OK and close(y)
    file[100] ^= 1
    assert give(lib, context, file) == L.BAD_WEIGHTS and asked.value == 2


def test_a_file_in_the_arena(lib: Library, file: np.ndarray) -> None:
    """Runs would write over it."""
    context = lib.context()
    arena = aligned(4096 + file.nbytes)
    for place, status in ((0, L.OVERLAP), (64, L.OVERLAP), (4096, L.OK)):
        assert lib.init(context, arena) == L.OK
        inside = arena[place : place + file.nbytes]
        inside[:] = file
        assert give(lib, context, inside) == status
    status, y = run(lib, context)
    assert status == L.OK and close(y)


def test_two_contexts_have_their_own(lib: Library, file: np.ndarray) -> None:
    first, second = ready(lib), ready(lib)
    assert give(lib, first, file) == L.OK
    assert run(lib, first)[0] == L.OK and run(lib, second)[0] == L.NO_WEIGHTS


def test_entries_without_a_context(lib: Library, file: np.ndarray) -> None:
    y = np.full((4, 3), 7, np.float32)
    ins, outs = (ctypes.c_void_p * 1)(X.ctypes.data), (ctypes.c_void_p * 1)(y.ctypes.data)
    assert lib.c.tvmgen_net_run(ins, outs) == L.NO_WEIGHTS and (y == 7).all()
    assert give(lib, None, file) == L.OK
    assert lib.c.tvmgen_net_run(ins, outs) == L.OK and close(y)
    lock = lib.variable("net_static_lock")
    lock.value = 1  # as such an entry in another thread would leave it meanwhile
    assert give(lib, None, file) == L.BUSY
    lock.value = 0
    assert give(lib, None, file) == L.OK


def test_runner_python_and_the_library_itself(out: Path) -> None:
    bundle = aot.api.Bundle(out)
    assert close(np.asarray(bundle.load()(X)))
    np.savez(out / "in.npz", x=X)
    words = ["run", str(out), "--inputs", str(out / "in.npz"), "--outputs", str(out / "o.npz")]
    from aot.cli import main

    assert main(words) == 0 and close(np.load(out / "o.npz")["y"])
    assert (
        bundle.manifest["weights"]["bytes"]
        == (out / "bundle/src/net_blob_weights.bin").stat().st_size
    )
    held = (out / "lib/libnet.so").read_bytes()
    assert WEIGHTS["v"].tobytes()[:64] not in held
    symbols = subprocess.run(["nm", str(out / "lib/libnet.a")], capture_output=True, text=True)
    assert "net_blob_weights" not in symbols.stdout


@pytest.mark.sample(2)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("io", ["caller", "arena"])
def test_warnings_and_arrays(
    compiler: str, io: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without .incbin, too; inputs and outputs in the arena, too."""
    need(compiler)
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setenv("CFLAGS", STRICT)
    bundle = aot.compile(net(), tmp_path / "out", name="net", weights="blob", io=io)
    source, build = str(tmp_path / "out/bundle"), str(tmp_path / "build")
    subprocess.run(["cmake", "-S", source, "-B", build, "-DAOT_WEIGHTS_C=ON"], check=True)
    subprocess.run(["cmake", "--build", build], check=True)
    assert close(np.asarray(bundle.load()(X)))


@pytest.mark.sample(1)
@pytest.mark.parametrize("arrays", ["OFF", "ON"])
def test_section(arrays: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", STRICT)
    bundle = aot.compile(net(), tmp_path / "out", name="net", weights="section=.far_weights")
    source, build = str(tmp_path / "out/bundle"), str(tmp_path / "build")
    subprocess.run(["cmake", "-S", source, "-B", build, f"-DAOT_WEIGHTS_C={arrays}"], check=True)
    subprocess.run(["cmake", "--build", build], check=True)
    with (tmp_path / "build/lib/libnet.so").open("rb") as file:
        section = ELFFile(file).get_section_by_name(".far_weights")
        assert section is not None
        assert section["sh_size"] >= sum(w.nbytes for w in WEIGHTS.values())
    assert close(np.asarray(bundle.load()(X)))


def test_board(tmp_path: Path) -> None:
    """The image has the file in flash, and passes it."""
    need("arm-none-eabi-gcc")
    need("qemu-system-arm")
    from aot.cli import main

    np.savez(tmp_path / "in.npz", x=X)
    for weights in ("blob", "section=.far_weights"):
        out = tmp_path / weights
        aot.compile(net(), out, name="net", target="cortex-m4", weights=weights).build()
        files = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "o.npz")]
        assert main(["run", str(out), *files]) == 0
        assert close(np.load(tmp_path / "o.npz")["y"])
    with (out / "bin" / "net.elf").open("rb") as file:
        elf = ELFFile(file)
        assert elf.get_section_by_name(".far_weights") is None  # the script places it
        own = elf.get_section_by_name(".weights")
        assert own["sh_size"] >= sum(w.nbytes for w in WEIGHTS.values())


def test_what_is_refused(tmp_path: Path) -> None:
    for wrong in ("blobs", "section=", 'section=x"y', "section=a b", "section=" + "x" * 70):
        with pytest.raises(UsageError, match="--weights"):
            Options(weights=wrong)
    backends = aot.vendor.find.available()
    if "cblas" in backends:
        with pytest.raises(UnsupportedError, match="--backend cblas"):
            aot.compile(net(), tmp_path, name="net", weights="blob", backends=["cblas"])


def test_example_and_schema(out: Path, tmp_path: Path) -> None:
    bundle, program = out / "bundle", str(tmp_path / "app")
    sources = [str(bundle / "example_main.c"), str(bundle / "src/net_blob_weights.c")]
    folders = [f"-I{bundle / 'include'}", f"-I{bundle / 'src'}", f"-Wa,-I{bundle / 'src'}"]
    library = str(out / "lib/libnet.a")
    subprocess.run(["gcc", *folders, *sources, library, "-lm", "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "net: ok\n")
    assert "net_set_weights" in (bundle / "README.md").read_text()
