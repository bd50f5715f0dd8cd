# SPDX-License-Identifier: Apache-2.0
"""Packages of `--package`: built by their build systems, or in a frame with the same commands, each
computes what the bundle computes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import onnx
import pytest

import aot
from aot.emit_c.packages import index
from aot.errors import AotError, BuildError
from aot.options import PACKAGES, Options
from needs import missing_in_full, need, need_module

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits"
FRAMES = Path(__file__).with_name("frames")
#: Reads the input from stdin, writes the output to stdout.
MAIN = (FRAMES / "main.c").read_text()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OUT with every package; no units beyond x86-64's own, so that no frame needs their flags."""
    out = tmp_path_factory.mktemp("packages") / "out"
    aot.compile(
        DIGITS / "digits.onnx", out, target="x86-64", accuracy="strict", package=PACKAGES
    ).build()
    return out


@pytest.fixture(scope="module")
def sample(made: Path) -> tuple[bytes, bytes]:
    """An image, and the bytes that the bundle computes of it."""
    image = np.load(DIGITS / "digits_test.npz")["pixels"][3] / np.float32(16)
    (made / "x.bin").write_bytes(image.astype(np.float32).tobytes())
    words = [made / "bin" / "digits", "--input", f"0={made}/x.bin", "--output", f"0={made}/y.bin"]
    subprocess.run(words, check=True, capture_output=True)
    return (made / "x.bin").read_bytes(), (made / "y.bin").read_bytes()


@pytest.fixture
def package(made: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of the package that the test's name ends with, away from the bundle."""
    kind = request.node.originalname.removeprefix("test_").replace("_", "-")
    return Path(shutil.copytree(made / "packages" / kind, tmp_path / kind))


def run(*words: object, cwd: Path, **env: str) -> str:
    done = subprocess.run(
        [str(w) for w in words],
        cwd=cwd,
        env={**os.environ, "CFLAGS": "-O1", **env},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def computed(program: Path, sample: tuple[bytes, bytes]) -> bool:
    """Whether the program writes the bundle's output."""
    done = subprocess.run([program], input=sample[0], capture_output=True, check=True)
    return done.stdout == sample[1]


def cmake(source: Path, *options: str, **env: str) -> Path:
    """The build tree of a CMake project."""
    flags = "-O1 -Wall -Wextra -Werror"
    build = source / "build"
    options = (f"-DCMAKE_C_FLAGS={flags}", "-DCMAKE_BUILD_TYPE=Debug", *options)
    run("cmake", "-S", source, "-B", build, *options, cwd=source, **env)
    run("cmake", "--build", build, cwd=source)
    return build


def test_make(package: Path, sample: tuple[bytes, bytes]) -> None:
    assert run("make", "-s", "run", "digits_LEVEL=-O1", cwd=package) == "digits: ok\n"
    (package / "example" / "main.c").write_text(MAIN)
    run("make", "-s", "digits_LEVEL=-O1", cwd=package)
    assert computed(package / "build" / "example", sample)


def test_the_fragment_leaves_the_first_target(made: Path, tmp_path: Path) -> None:
    fragment = made / "packages" / "make" / "digits.mk"
    (tmp_path / "Makefile").write_text(f"include {fragment}\nmine:\n\t@echo mine\n")
    assert run("make", "-s", cwd=tmp_path) == "mine\n"


def test_fetchcontent(package: Path, sample: tuple[bytes, bytes]) -> None:
    build = cmake(package / "example")
    assert run(build / "example", cwd=build) == "digits: ok\n"
    (package / "example" / "main.c").write_text(MAIN)
    run("cmake", "--build", build, cwd=build)
    assert computed(build / "example", sample)


def test_meson(package: Path, sample: tuple[bytes, bytes]) -> None:
    need_module("mesonbuild")
    ninja = shutil.which("ninja") or need("ninja", "pip install ninja")
    meson = (sys.executable, "-m", "mesonbuild.mesonmain")
    run(*meson, "setup", "build", "-Dwerror=true", "-Dbuildtype=debug", cwd=package, NINJA=ninja)
    run(ninja, "-C", "build", cwd=package)
    assert run("build/example", cwd=package) == "digits: ok\n"
    (package / "example" / "main.c").write_text(MAIN)
    run(ninja, "-C", "build", cwd=package)
    assert computed(package / "build" / "example", sample)


def test_cargo(package: Path, sample: tuple[bytes, bytes]) -> None:
    if shutil.which("cargo") is None:
        missing_in_full("cargo")
    words = ("cargo", "build", "--offline", "--example", "run")
    flags = {"RUSTFLAGS": "-Dwarnings", "CARGO_TARGET_DIR": str(package / "target")}
    run(*words, cwd=package, **flags)
    program = package / "target" / "debug" / "examples" / "run"
    assert run(program, cwd=package) == "digits: ok\n"
    (package / "examples" / "run.rs").write_text((FRAMES / "run.rs").read_text())
    run(*words, cwd=package, **flags)
    assert computed(program, sample)


def test_zephyr(package: Path, sample: tuple[bytes, bytes]) -> None:
    yaml, kconfiglib = need_module("yaml"), need_module("kconfiglib")
    module = yaml.safe_load((package / "zephyr" / "module.yml").read_text())
    assert module["name"] == "digits"
    build = module["build"]
    assert (package / build["cmake"] / "CMakeLists.txt").is_file()
    sample_folder = package / module["samples"][0] / "digits"
    tests = yaml.safe_load((sample_folder / "sample.yaml").read_text())["tests"]
    assert tests["sample.aot.digits"]["harness_config"]["regex"] == ["digits: ok"]
    kconfig = kconfiglib.Kconfig(package / build["kconfig"], warn_to_stderr=False)
    kconfig.load_config(sample_folder / "prj.conf")
    known = [f"-DCONFIG_{n}={s.str_value}" for n, s in kconfig.syms.items() if s.str_value != "n"]
    assert "-DCONFIG_AOT_DIGITS=y" in known
    built = cmake(sample_folder, *known, ZEPHYR_BASE=str(FRAMES / "zephyr"))
    assert run(built / "app", cwd=built) == "digits: ok\n"
    (sample_folder / "src" / "main.c").write_text(MAIN)
    run("cmake", "--build", built, cwd=built)
    assert computed(built / "app", sample)


def test_esp_idf(package: Path) -> None:
    yaml, kconfiglib = need_module("yaml"), need_module("kconfiglib")
    component = package / "components" / "digits"
    about = yaml.safe_load((component / "idf_component.yml").read_text())
    assert about["version"] == "1.0.0"
    assert about["dependencies"]["idf"] == ">=5.0"
    kconfig = kconfiglib.Kconfig(component / "Kconfig", warn_to_stderr=False)
    assert kconfig.syms["AOT_DIGITS_SPEED"].str_value == "y"
    built = cmake(package, IDF_PATH=str(FRAMES / "idf"))
    assert run(built / "digits_example", cwd=built) == "digits: ok\n"


def test_arduino(package: Path) -> None:
    lines = (package / "library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    wanted = "name version author maintainer sentence paragraph category url architectures"
    assert set(wanted.split()) <= set(properties)
    assert (package / "src" / properties["includes"]).is_file()
    sources = sorted((package / "src").rglob("*.c"))  # as the IDE compiles a library
    run(
        "cc",
        "-std=gnu11",
        "-Os",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-c",
        "-Isrc",
        *sources,
        cwd=package,
    )
    sketch = package / "examples" / "digits_run" / "digits_run.ino"
    cxx = ("g++", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Werror")
    frame = ("-include", FRAMES / "Arduino.h", "-include", sketch, "-Isrc", FRAMES / "sketch.cpp")
    run(*cxx, *frame, *package.glob("*.o"), "-lm", "-o", "sketch", cwd=package)
    assert run("./sketch", cwd=package) == "digits: ok\n"


def test_platformio(package: Path) -> None:
    about = json.loads((package / "library.json").read_text())
    assert (about["name"], about["version"], about["license"]) == ("digits", "1.0.0", "MIT-0")
    assert all((package / "include" / header).is_file() for header in about["headers"])
    example = about["examples"][0]
    program, *_ = [package / example["base"] / f for f in example["files"] if f.endswith(".cpp")]
    sources = sorted((package / about["build"]["srcDir"]).rglob("*.c"))
    flags = " ".join(about["build"]["flags"]).replace("-I ", "-I").split()
    include = f"-I{about['build']['includeDir']}"
    run("cc", *flags, "-Wall", "-Werror", "-c", include, *sources, cwd=package)
    run("g++", include, program, *package.glob("*.o"), "-lm", "-o", "program", cwd=package)
    assert run("./program", cwd=package) == "digits: ok\n"


def test_cmsis_pack(package: Path) -> None:
    root = ET.parse(package / "aotc.digits.pdsc").getroot()
    texts = [root.findtext(tag) for tag in ("vendor", "name", "license")]
    assert texts == ["aotc", "digits", "LICENSE"]
    release = root.find("releases/release")
    assert release is not None and release.get("version") == "1.0.0"
    component = root.find("components/component")
    assert component is not None and {"Cclass", "Cgroup", "Cversion"} <= set(component.attrib)
    files = {(f.get("category"), f.get("name")) for f in component.iter("file")}
    assert all((package / str(name)).exists() for _, name in files)
    sources = sorted(str(name) for category, name in files if category == "source")
    assert {s for s in sources if s.startswith("src/")} == {
        p.relative_to(package).as_posix() for p in (package / "src").glob("*.c")
    }
    includes = [f"-I{name}" for category, name in files if category == "include"]
    run("cc", "-O1", "-Wall", "-Werror", *includes, *sources, "-lm", "-o", "program", cwd=package)
    assert run("./program", cwd=package) == "digits: ok\n"


def test_freertos(package: Path, sample: tuple[bytes, bytes]) -> None:
    (package / "frame").mkdir()
    (package / "frame" / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(frame C)\n"
        f'add_subdirectory("{FRAMES}/freertos" kernel)\nadd_subdirectory(.. digits)\n'
        f'add_executable(program "{FRAMES}/freertos/main.c" ../example/main.c)\n'
        "target_link_libraries(program PRIVATE aot::digits)\n"
    )
    built = cmake(package / "frame")
    assert computed(built / "program", sample)
    symbols = run("nm", "--undefined-only", built / "digits" / "libdigits.a", cwd=built)
    assert not {"malloc", "calloc", "pvPortMalloc", "xTaskCreate"} & set(symbols.split())


@pytest.mark.parametrize(
    ("folder", "variable", "message"),
    [
        ("freertos", "FREERTOS_KERNEL_PATH", "Set FREERTOS_KERNEL_PATH to the folder of"),
        ("zephyr/samples/digits", "ZEPHYR_BASE", "set ZEPHYR_BASE to the folder zephyr"),
        ("esp-idf", "IDF_PATH", 'ESP-IDF is not found (IDF_PATH is "/none")'),
    ],
)
def test_a_missing_system_is_named(
    made: Path, tmp_path: Path, folder: str, variable: str, message: str
) -> None:
    words = ["cmake", "-S", made / "packages" / folder, "-B", tmp_path]
    env = {**os.environ, variable: "/none"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert message in said
    assert said.count("CMake Error") == 1


def test_the_class_for_cpp(made: Path) -> None:
    include = made / "packages" / "make" / "include"
    words = (
        "-Wall",
        "-Wextra",
        "-Wshadow",
        "-Wconversion",
        "-pedantic",
        "-Werror",
        "-fsyntax-only",
    )
    for standard in ("c++11", "c++17", "c++20"):
        common = (f"-std={standard}", "-fno-exceptions", f"-I{include}", "-x", "c++")
        run("g++", *common, *words, FRAMES / "spans.cpp", cwd=made)


def test_every_kind_is_listed_and_whole(made: Path) -> None:
    assert sorted(index()) == sorted([*PACKAGES, "common"])
    for kind in PACKAGES:
        folder = made / "packages" / kind
        names = {p.name for p in folder.rglob("*") if p.is_file()}
        assert {"LICENSE", "README.md", "digits.h", "digits.hpp", "digits_weights.c"} <= names
        assert not [n for n in names if n.endswith((".bin", "_ffi.c", ".j2"))]
        assert "{" not in "".join(str(p) for p in folder.rglob("*"))


def test_constants_are_the_bundles_own(made: Path) -> None:
    text = (made / "packages" / "make" / "src" / "digits_weights.c").read_text()
    numbers = text[text.index("{") + 1 : text.index("}")].replace("\n", "").split(",")[:-1]
    content = (made / "bundle" / "src" / "digits_weights.c.bin").read_bytes()
    assert bytes(int(n, 16) for n in numbers) == content
    assert max(map(len, text.splitlines())) <= 100


def test_same_input_same_bytes(made: Path, tmp_path: Path) -> None:
    again = tmp_path / "out"
    (again / "packages" / "make").mkdir(parents=True)
    (again / "packages" / "make" / "stale").write_text("old")
    aot.compile(
        *(DIGITS / "digits.onnx", again),
        target="x86-64",
        accuracy="strict",
        package="make",
        configure=False,
    )
    first, second = (
        {p.relative_to(f).as_posix(): p.read_bytes() for p in f.rglob("*") if p.is_file()}
        for f in (made / "packages" / "make", again / "packages" / "make")
    )
    assert first == second


def test_refused_options_keep_the_old_package(tmp_path: Path) -> None:
    model, out = DIGITS / "digits_int8.onnx", tmp_path / "out"
    aot.compile(model, out, package="make", configure=False)
    before = (out / "packages" / "make" / "Makefile").stat()
    for options, message in (
        ({"package": "cmake"}, "--package cmake: not one of arduino, cargo, cmsis-pack"),
        ({"package": "zephir"}, "zephyr"),
        ({"package": "make", "weights": "file"}, "--package with --weights file"),
        ({"package": "make", "weights": "blob"}, "--package with --weights blob"),
        ({"package": "make", "backends": "accel_sim"}, "--package make with --backend accel_sim"),
    ):
        with pytest.raises(AotError) as error:
            aot.compile(model, out, configure=False, **options)
        assert message in str(error.value)
    assert (out / "packages" / "make" / "Makefile").stat() == before
    assert Options(package=("make", "zephyr")).package == ("make", "zephyr")


def test_a_failure_keeps_the_old_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, out = DIGITS / "digits.onnx", tmp_path / "out"
    aot.compile(model, out, package="make", configure=False)
    before = (out / "packages" / "make" / "README.md").read_bytes()

    def fails(*_arguments: object, **_settings: object) -> None:
        assert (out / "packages" / "meson").is_dir()
        raise BuildError("no")

    monkeypatch.setattr("aot.api.tree.configure", fails)
    with pytest.raises(BuildError, match="no"):
        aot.compile(model, out, name="other", package=("make", "meson"))
    assert [p.name for p in (out / "packages").iterdir()] == ["make"]
    assert (out / "packages" / "make" / "README.md").read_bytes() == before


def test_names_that_mean_something_elsewhere(tmp_path: Path) -> None:
    """A tensor's name may end a comment, a shape may be empty; the sources still compile."""
    float32 = onnx.TensorProto.FLOAT
    ends = {"*/ x /*\n": [2, 0], "class": []}
    ins = [onnx.helper.make_tensor_value_info(n, float32, s) for n, s in ends.items()]
    outs = [onnx.helper.make_tensor_value_info(f"{n}y", float32, s) for n, s in ends.items()]
    nodes = [onnx.helper.make_node("Abs", [n], [f"{n}y"]) for n in ends]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ins, outs))
    kinds = ("make", "platformio")
    aot.compile(model, tmp_path, target="x86-64", name="new", package=kinds, configure=False)
    make, platformio = (tmp_path / "packages" / kind for kind in kinds)
    flags = "-O1 -Wall -Wextra -Werror"
    name = next(make.glob("*.mk")).stem
    assert run("make", "-s", "run", f"CFLAGS={flags}", cwd=make) == f"{name}: ok\n"
    program = platformio / "examples" / "run" / "src" / "main.cpp"
    run("g++", *flags.split(), "-fsyntax-only", "-Iinclude", program, cwd=platformio)


def test_a_section_for_the_constants(tmp_path: Path) -> None:
    need("arm-none-eabi-gcc")
    aot.compile(
        *(DIGITS / "digits.onnx", tmp_path),
        target="cortex-m4",
        weights="section=.qspi",
        package="arduino",
        configure=False,
    )
    source = tmp_path / "packages" / "arduino" / "src" / "digits_weights.c"
    common = ("-mcpu=cortex-m4", "-mthumb", "-Wall", "-Werror", "-c", source, "-o", "weights.o")
    run("arm-none-eabi-gcc", *common, f"-I{source.parent}", cwd=tmp_path)
    assert ".qspi" in run("arm-none-eabi-objdump", "-h", "weights.o", cwd=tmp_path)
