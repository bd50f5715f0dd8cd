# SPDX-License-Identifier: Apache-2.0
"""The ABI of a bundle against the stored one, by abidiff: later bundles fit the callers of today.

`--update-golden` writes tests/abi/net.abi again; a change there needs another AOT_ABI_VERSION.
"""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

from abi import toy
from needs import need

STORED = Path(__file__).with_name("net.abi")
#: Bits of abidiff's exit status: what it compared differs, and in a way that callers notice.
CHANGED, INCOMPATIBLE = 4, 8


def abi_of(out: Path) -> str:
    """The ABI of lib/libnet.so as abidw writes it: the types of public headers alone."""
    need("abidw")
    headers = str(out / "bundle" / "include")
    words = ["--headers-dir", headers, "--drop-private-types", "--no-corpus-path", "--no-show-locs"]
    words += ["--no-comp-dir-path", "--type-id-style", "hash", str(out / "lib" / "libnet.so")]
    text = toy.run("abidw", *words)
    return re.sub(r"(?<=path=')[^']*/|(?<=producer=')[^']*", "", text)


def compared(stored: Path, made: Path) -> int:
    """The exit status of abidiff."""
    words = ["abidiff", "--no-corpus-path", str(stored), str(made)]
    return subprocess.run(words, capture_output=True).returncode


def test_the_abi_is_the_stored_one(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the stored ABI is that of x86-64")
    out = toy.build(toy.mlp(), tmp_path / "out", cflags="-g")
    made = tmp_path / "net.abi"
    made.write_text(abi_of(out))
    if pytestconfig.getoption("--update-golden"):
        STORED.write_text(made.read_text())
    assert compared(STORED, made) == 0
    # A status that goes, and a function that goes, are seen.
    text = made.read_text()
    for old, status in (("net_shutdown", CHANGED | INCOMPATIBLE), ("AOT_BUSY", CHANGED)):
        assert old in text
        made.write_text(text.replace(old, "renamed"))
        assert compared(STORED, made) & status == status, old
