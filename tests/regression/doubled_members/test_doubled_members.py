# SPDX-License-Identifier: Apache-2.0
"""Of two members of an .npz with one name, the first or the last was taken without a word."""

from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from aot.errors import AotError
from aot.npz import read_npz


@pytest.mark.parametrize("names", [("x.npy", "y.npy", "x.npy"), ("x.npy", "x")])
def test_a_key_is_there_once(names: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as file:
        warnings.simplefilter("ignore")
        for i, name in enumerate(names):
            entry = io.BytesIO()
            np.save(entry, np.full(2, i))
            file.writestr(name, entry.getvalue())
    with pytest.raises(AotError, match=r"in\.npz holds the key 'x' twice"):
        read_npz(path)
