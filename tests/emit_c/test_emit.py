# SPDX-License-Identifier: Apache-2.0
"""The text of bundles: names, numbers, constants, what hostile models cannot do."""

from __future__ import annotations

import json
import logging
import math
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from abi import toy
from aot.emit_c import ctext, resources
from aot.emit_c.constants import place_constants
from aot.emit_c.kernels import collect
from aot.emit_c.names import bundle_name
from aot.emit_c.resources import runtime_c
from aot.errors import BackendError, InternalError, TargetError
from aot.ir.dtypes import F32
from aot.ir.program import Arg, Role
from aot.target import load_target

# -- Names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("net", "net"),
        ("my-net.v2", "my_net_v2"),
        ("1x1", "m_1x1"),
        ("_net", "m_net"),
        ("m", "m_model"),
        ("Math", "Math_model"),
        ("install", "install_model"),
        ("all", "all_model"),
        ("test", "test_model"),
        ("while", "while_model"),
        ("aot_copy", "aot_copy_model"),
        ("modèle", "mod_le"),
        ("a*/b\n#define", "a__b__define"),
    ],
)
def test_bundle_name(wanted: str, name: str) -> None:
    assert bundle_name(wanted, None) == name


def test_bundle_name_of_a_file_and_the_note(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "aotc"):
        assert bundle_name("", Path("/x/mobilenet-v2.onnx")) == "mobilenet_v2"
        assert bundle_name("", b"bytes") == "model"
        assert not caplog.records
        assert bundle_name("", "dir/test.onnx") == "test_model"
    assert "reserved" in caplog.text


# -- Numbers and strings --------------------------------------------------------------------------


def test_floats_are_exact() -> None:
    rng = np.random.default_rng(0)
    for bits in rng.integers(0, 2**32, 2000, np.uint32).tolist():
        value = struct.unpack("<f", struct.pack("<I", bits))[0]
        text = ctext.float32(value)
        if math.isnan(value):
            assert text == "NAN"
        elif math.isinf(value):
            assert text.endswith("INFINITY")
        else:
            assert float.fromhex(text.rstrip("F")) == value
    assert ctext.float32(-0.0) == "-0x0p+0F"
    assert ctext.float32(float("-inf")) == "-INFINITY"
    with pytest.raises(InternalError, match="does not fit a float"):
        ctext.float32(1e39)


def test_numbers_by_field_type() -> None:
    assert ctext.number(0.1, "double") == "0x1.999999999999ap-4"
    assert ctext.number(0.1, "float") == "0x1.99999ap-4F"
    assert ctext.number(0.1) == "0x1.999999999999ap-4"
    assert ctext.number(0.5) == "0x1p-1F"
    assert ctext.number(2, "float") == "0x1p+1F"
    assert ctext.integer(2**31) == "INT64_C(2147483648)"
    assert ctext.integer(-(2**63)) == "(-INT64_C(9223372036854775807) - 1)"
    assert ctext.integer(2**64 - 1) == "UINT64_C(18446744073709551615)"
    with pytest.raises(InternalError):
        ctext.integer(2**64)
    assert ctext.field((1, 2)) == "{1, 2}"
    assert ctext.field(()) == "{0}"


HOSTILE = [
    "*/ int x; /*",
    "a*//*b",
    "line\\\nnext",
    "what??/",
    '"; system("rm -rf /")',
    "${CMAKE_SOURCE_DIR}",
    "@{name}",
    "\x00\x1b[2J\x7f",
    "é漢字\u202e",
    "\udc80",
    "//",
    "x" * 5000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_comments_and_strings_hold_anything(text: str) -> None:
    comment = ctext.comment(text)
    assert comment.startswith("/* ") and comment.endswith(" */")
    inner = comment[2:-2]
    assert not any(bad in inner for bad in ("*/", "/*", "//", "\\", "?", "\n", '"', "`"))
    assert comment.isascii() and comment.isprintable()
    literal = ctext.string(text)
    assert literal.isascii() and literal.isprintable()
    decoded = re.sub(r"\\(\d{3})", lambda m: chr(int(m.group(1), 8)), literal[1:-1])
    assert decoded.encode("latin-1") == text.encode("utf-8", "surrogatepass")
    assert '"' not in literal[1:-1] and "?" not in literal


def test_identifiers_are_demanded() -> None:
    for bad in ("", "1a", "a b", "a\n", "é", "a;b", "x" + chr(0)):
        with pytest.raises(InternalError):
            ctext.ident(bad)
    with pytest.raises(InternalError):
        ctext.header_name("../x.h")
    with pytest.raises(InternalError):
        ctext.ctype("struct x")


# -- Constants ------------------------------------------------------------------------------------


def consts_program(arrays: dict[str, np.ndarray]):
    m = toy.Maker("net")
    m.tensor("y", (1,), Role.OUTPUT)
    for name, data in arrays.items():
        m.const(name, data)
        m.call("aot_copy", Arg("y", toy.W), Arg(name, toy.R), params={"bytes": 4})
    return m.program([], ["y"])


def test_equal_constants_are_stored_once() -> None:
    ones = np.ones(5000, np.float32)
    different = ones.copy()
    different[-1] = 2
    program = consts_program(
        {"a": ones, "b": ones.copy(), "c": different, "d": ones.view(np.int32)[:1]}
    )
    constants = place_constants(program)
    assert constants.same == {"a": "a", "b": "a", "c": "c", "d": "d"}
    assert constants.offsets == {"a": 0, "c": 20032}
    assert [n for n, _ in constants.tables] == ["d"]
    assert constants.blob is not None
    assert constants.nbytes == 20032 + 20000 + 4
    assert bytes(constants.blob)[20032:] == different.tobytes()


def test_few_constants_make_no_file() -> None:
    program = consts_program({"a": np.ones(1000, np.float32), "b": np.zeros(1000, np.float32)})
    constants = place_constants(program)
    assert constants.blob is None
    assert len(constants.tables) == 2


def test_other_byte_order() -> None:
    data = np.arange(4000, dtype=np.float32)
    constants = place_constants(consts_program({"a": data}), "big")
    assert constants.blob is not None
    assert bytes(constants.blob) == data.astype(">f4").tobytes()


@pytest.mark.parametrize(
    "data",
    [
        np.array([1.5, np.nan, -np.inf], np.float32),
        np.array([1.5, np.nan, -np.inf, 5e-324]),
        np.array([-(2**31), 2**31 - 1], np.int32),
        np.array([-(2**63), 2**63 - 1]),
        np.array([2**64 - 1], np.uint64),
        np.array([2**32 - 1], np.uint32),
        np.array([True, False]),
        np.array([1.5, np.inf], np.float16),
        np.array([-128, 127], np.int8),
        np.array([], np.float32),
    ],
)
def test_tables_hold_the_same_bytes(data: np.ndarray, tmp_path: Path) -> None:
    text = "\n".join(
        [
            "#include <stdint.h>",
            "#include <string.h>",
            '#include "aot/port.h"',
            ctext.array("table", data),
            ctext.array("bytes", data.reshape(-1).view(np.uint8)),
            "int main(void) { return memcmp(table, bytes, sizeof bytes) != 0; }",
        ]
    )
    (tmp_path / "t.c").write_text(text + "\n")
    warnings = ["-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    include = f"-I{runtime_c() / 'include'}"
    program = str(tmp_path / "t")
    toy.run("gcc", "-std=c99", *warnings, include, str(tmp_path / "t.c"), "-o", program)
    toy.run(program)


# -- Kernel headers -------------------------------------------------------------------------------


def test_headers_are_collected_with_what_they_include(tmp_path: Path) -> None:
    (tmp_path / "aot_a.h").write_text(
        '#include "aot_b.h"\n#include "aot_copy.h"\n#include <math.h>\n'
        "typedef struct aot_a_params { int32_t n, m; /* a; b */ double d[3]; const float f; }"
        " aot_a_params;\ntypedef aot_a_params aot_z_params;\n"
    )
    (tmp_path / "aot_b.h").write_text('#include "aot/port.h"\n')
    found = collect([str(tmp_path / "aot_a.h"), "aot_reorder.h"])
    assert found.direct == ("aot_a.h", "aot_reorder.h")
    assert set(found.files) == {"aot_a.h", "aot_b.h", "aot_copy.h", "aot_reorder.h", "aot_move.h"}
    assert found.math
    assert found.fields["aot_z_params"] == {"n": "int32_t", "m": "int32_t", "d": "double", "f": "float"}  # fmt: skip  # noqa: E501
    assert found.fields["aot_copy_params"] == {"bytes": "int64_t"}


def test_missing_and_ambiguous_headers(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"aot_none\.h does not exist"):
        collect(["aot_none.h"])
    (tmp_path / "aot_copy.h").write_text("/* another */\n")
    with pytest.raises(BackendError, match="two different headers"):
        collect(["aot_copy.h", str(tmp_path / "aot_copy.h")])


# -- Whole bundles --------------------------------------------------------------------------------


def hostile_program():
    program = toy.mlp("net")
    tensors = {
        n: replace(t, onnx_name=HOSTILE[i] + HOSTILE[i + 1])
        for i, (n, t) in enumerate(program.tensors.items())
    }
    calls = tuple(
        replace(c, origin=replace(c.origin, nodes=tuple(HOSTILE), comment=HOSTILE[0]))
        for c in program.calls
    )
    return replace(program, tensors=tensors, calls=calls)


def test_hostile_names_reach_no_code() -> None:
    safe, hostile = toy.emit(toy.mlp("net")), toy.emit(hostile_program())
    assert list(safe) == list(hostile)
    strip = re.compile(r'/\*.*?\*/\n? *|"(?:[^"\\]|\\.)*"|0x[0-9a-f]{8}U|^\|.*?$', re.DOTALL | re.M)
    for path, content in hostile.items():
        text = bytes(content).decode("ascii")
        assert text.replace("\n", "").isprintable(), path
        if path != "manifest.json":
            assert strip.sub("", text) == strip.sub("", bytes(safe[path]).decode("ascii")), path
    assert json.loads(bytes(hostile["manifest.json"]))["inputs"][0]["name"] == "".join(HOSTILE[:2])


def test_bundle_names_no_place_of_this_machine() -> None:
    here = str(Path(__file__).resolve().parents[2])
    for path, content in toy.emit(toy.mixed()).items():
        assert here.encode() not in bytes(content), path


SHA = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from abi import toy
for p in (toy.mlp(hidden=1024), toy.mixed()):
    for path, content in toy.emit(p).items():
        print(path, hashlib.sha256(bytes(content)).hexdigest())
"""


def test_same_bytes_under_two_hash_seeds() -> None:
    folder = str(Path(__file__).resolve().parents[1])
    texts = [
        subprocess.run(
            [sys.executable, "-c", SHA, folder],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert "src/net_weights.c.bin" in texts[0]


def test_wrappers_are_shared_and_specialised() -> None:
    m = toy.Maker("net")
    m.tensor("x", (4,), Role.INPUT)
    for i in range(3):
        m.tensor(f"t{i}", (4,), Role.OUTPUT, F32)
        m.call("aot_copy", Arg(f"t{i}", toy.W), Arg("x", toy.R), params={"bytes": 16 - i % 2},
               header="aot_copy.h")  # fmt: skip
    program = m.program(["x"], ["t0", "t1", "t2"])
    for how in ("none", "hot"):
        text = bytes(toy.emit(program, specialise=how)["src/net_run.c"]).decode()
        assert text.count("AOT_NOINLINE static") == 1
    assert text.count("static const aot_copy_params") == 2
    text = bytes(toy.emit(program, specialise="all")["src/net_run.c"]).decode()
    assert text.count("AOT_NOINLINE static") == 2
    assert "&net_p0" in text


def test_accuracy_decides_on_contraction() -> None:
    texts = {
        a: bytes(toy.emit(toy.mlp(), accuracy=a)["CMakeLists.txt"]).decode()
        for a in ("strict", "normal")
    }
    assert "-ffp-contract=off" in texts["strict"]
    assert "-ffp-contract=fast" in texts["normal"]


def test_unknown_toolchain() -> None:
    target = replace(load_target("x86-64"), toolchain="none")
    from aot.emit_c.project import emit_c
    from aot.options import Options

    program = toy.mlp()
    with pytest.raises(TargetError, match="no toolchain none"):
        emit_c(program, toy.stacked(program), target, Options())  # type: ignore[arg-type]


# -- Manifest -------------------------------------------------------------------------------------


def test_manifest_fits_its_schema() -> None:
    schema = json.loads((runtime_c().parent / "docs" / "manifest.schema.json").read_text())
    for program in (toy.mlp(hidden=1024), toy.mixed()):
        files = toy.emit(program)
        manifest = json.loads(bytes(files["manifest.json"]))
        assert violations(manifest, schema) == []
        assert {s["path"] for s in manifest["sources"]} == set(files) - {"manifest.json"}
    assert violations({**manifest, "memory": {}}, schema)
    assert violations({**manifest, "macs": "1"}, schema)


def violations(value: object, schema: dict, where: str = "$") -> list[str]:
    """The subset of JSON Schema that docs/manifest.schema.json uses."""
    assert set(schema) <= {
        *("$schema", "$id", "title", "description", "type", "required", "properties"),
        *("items", "enum", "additionalProperties", "minimum", "pattern", "$comment"),
    }, f"{where}: keyword this test does not know: {sorted(schema)}"
    kinds = {
        "object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
        "null": type(None),
    }  # fmt: skip
    wanted = schema.get("type", [])
    wanted = [wanted] if isinstance(wanted, str) else wanted
    fits = [type(value) is kinds[w] for w in wanted]
    if wanted and not any(fits):
        return [f"{where}: {value!r} is no {wanted}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: {value!r} is none of {schema['enum']}")
    if "pattern" in schema and not re.search(schema["pattern"], str(value)):
        found.append(f"{where}: {value!r} is not {schema['pattern']}")
    if "minimum" in schema and isinstance(value, int) and value < schema["minimum"]:
        found.append(f"{where}: {value!r} is less than {schema['minimum']}")
    if isinstance(value, dict):
        properties, extra = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{where}: no {k}" for k in schema.get("required", []) if k not in value]
        for key, item in value.items():
            inner = properties.get(key, extra)
            if isinstance(inner, dict):
                found += violations(item, inner, f"{where}.{key}")
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            found += violations(item, schema["items"], f"{where}[{i}]")
    return found


def test_manifest_says_what_each_call_reads_and_writes() -> None:
    manifest = json.loads(bytes(toy.emit(toy.mixed())["manifest.json"]))
    first = manifest["nodes"][0]
    assert first["kernel"] == "aot_toy_sum"
    assert first["offsets"] == {"s": 0, "tmp": 64}
    assert [w["tensor"] for w in first["writes"]] == ["s"]
    assert first["writes"][0] == {
        "tensor": "s", "value": "s", "buffer": "s", "shape": [2, 3], "dtype": "float32",
        "layout": "plain", "nbytes": 24, "last": True, "code_offset": 0, "channels": [],
    }  # fmt: skip
    second = manifest["nodes"][1]["reads"]  # v is a view of what the first call wrote, a an input
    assert [(r["tensor"], r["buffer"], r["calls"]) for r in second] == [
        ("v", "s", [0]), ("a", "a", [])
    ]  # fmt: skip
    assert manifest["memory"]["arena_bytes"] == 128
    assert manifest["memory"]["io_bytes"] == 24 + 8 + 24 + 8 + 8
    assert manifest["memory"]["constants_bytes"] == 24


def test_resources_of_a_wheel_and_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "aot")
    for folder in ("aot/_data/cmake", "cmake", "runtime_c"):
        (tmp_path / folder).mkdir(parents=True)
    find = resources.folder.__wrapped__
    assert find("cmake") == tmp_path / "aot" / "_data" / "cmake"
    assert find("runtime_c") == tmp_path / "runtime_c"
    with pytest.raises(InternalError, match="lacks its folder none/"):
        find("none")
