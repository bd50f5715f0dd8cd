# SPDX-License-Identifier: Apache-2.0
"""`aotc sbom`: SPDX that its own library accepts, of the bundle's files as they are."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import aot
from aot.cli import main
from needs import need_module

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def test_the_parts_of_a_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_module("spdx_tools")
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    out, to = tmp_path / "out", tmp_path / "digits.spdx.json"
    aot.compile(DIGITS, out, configure=False, backends=["dnnl"])
    assert main(["sbom", str(out), "-o", str(to), "-q"]) == 0
    assert validate_full_spdx_document(parse_file(str(to))) == []
    found = json.loads(to.read_text())
    sums = {f["fileName"][2:]: f["checksums"][1]["checksumValue"] for f in found["files"]}
    bundle = out / "bundle"
    files = [p for p in bundle.rglob("*") if p.is_file()]
    assert sums == {
        p.relative_to(bundle).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files
    }
    licences = {f["fileName"]: f["licenseConcluded"] for f in found["files"]}
    assert licences["./src/digits.c"] == "MIT-0"
    assert licences["./src/digits_vendor_dnnl_weights.c.bin"] == "NOASSERTION"
    packages = {p["name"]: p for p in found["packages"]}
    assert {"digits-bundle", "digits.onnx", "aotc", "DNNL::dnnl"} == {*packages}
    model = hashlib.sha256(DIGITS.read_bytes()).hexdigest()
    assert packages["digits.onnx"]["checksums"][0]["checksumValue"] == model
    capsys.readouterr()
    assert main(["sbom", str(out)]) == 0
    assert capsys.readouterr().out == to.read_text()  # the same bytes again
    (bundle / "manifest.json").write_text("{}")
    assert main(["sbom", str(out), "-q"]) == 1
    assert "manifest.json" in capsys.readouterr().err
