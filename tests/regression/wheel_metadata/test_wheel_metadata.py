# SPDX-License-Identifier: Apache-2.0
"""The wheel had no classifiers, links that led nowhere outside of the project, one file twice."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
import zipfile
from collections import defaultdict
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from types import ModuleType

import pytest

from needs import need_module

ROOT = Path(__file__).resolve().parents[3]
RELATIVE = re.compile(r"\]\((?![a-z]+:|#)[^)\s]+\)")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    need_module("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    code = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(folder / done.stdout.split()[-1])


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    return message_from_bytes(wheel.read(name))


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    need_module("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_file_is_there_twice(wheel: zipfile.ZipFile) -> None:
    found = defaultdict(list)
    for name in wheel.namelist():
        content = wheel.read(name)
        if content:  # empty __init__.py
            found[hashlib.sha256(content).digest()].append(name)
    assert [names for names in found.values() if len(names) > 1] == []
    assert "aot/py.typed" in wheel.namelist()


def test_classifiers(metadata: Message) -> None:
    classifiers = metadata.get_all("Classifier") or []
    assert "License :: OSI Approved :: Apache Software License" in classifiers
    assert "Typing :: Typed" in classifiers
    assert "Programming Language :: Python :: 3.11" in classifiers


def test_no_link_leads_nowhere(metadata: Message) -> None:
    page = metadata.get_payload()
    assert isinstance(page, str) and page.lstrip().startswith("# aotc")
    assert RELATIVE.findall(page) == []


def test_the_package_of_extras(metadata: Message, hook: ModuleType) -> None:
    """A wheel asks an index for it, in the same version; a checkout has it."""
    required = [r.replace('"', "'") for r in metadata.get_all("Requires-Dist") or []]
    assert f"aotc-extras=={metadata['Version']} ; extra == 'extras'" in required
    assert "extras" in (metadata.get_all("Provides-Extra") or [])
    here = hook.extras(ROOT, "1.0", editable=True)
    assert here == f"aotc-extras @ {(ROOT / 'extras').as_uri()} ; extra == 'extras'"


def test_with_a_repository(hook: ModuleType) -> None:
    place = "https://example.org/aotc"
    text = "[a](docs/a.md), [b](https://b.org), [c](#c)\n```\nv[0](x)\n```\n[x.md](x.md)\n"
    assert hook.page(text, place) == (
        f"[a]({place}/blob/HEAD/docs/a.md), [b](https://b.org), [c](#c)\n```\nv[0](x)\n```\n"
        f"[x.md]({place}/blob/HEAD/x.md)\n"
    )
    assert hook.page("[a](docs/a.md) [x](x)", "") == "a (`docs/a.md`) `x`"
    page = hook.page((ROOT / "README.md").read_text(encoding="utf-8"), place)
    assert RELATIVE.findall(page) == []
    linked = set(re.findall(rf"\]\({place}/blob/HEAD/([^)#]+)(?:#[^)]*)?\)", page))
    assert len(linked) > 20 and all((ROOT / path).exists() for path in linked)
    metadata: dict[str, object] = {}
    made = hook.Metadata(str(ROOT), {"repository": f"{place}/"})
    made.update(metadata)
    assert metadata["urls"]["Source"] == place and metadata["urls"]["Issues"] == f"{place}/issues"
