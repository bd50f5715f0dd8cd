# SPDX-License-Identifier: Apache-2.0
"""Where the two generations of oneDNN are that the tests use: Debian's 2.6 and pip's 3.2."""

from __future__ import annotations

import sys
from pathlib import Path

from needs import missing

ROOTS = {"2": "/usr", "3": sys.prefix}


def library(generation: str) -> str:
    """The prefix of oneDNN 2 or 3; the test is skipped without it."""
    root = ROOTS[generation]
    version = Path(root) / "include" / "oneapi" / "dnnl" / "dnnl_version.h"
    if not version.is_file() or f"VERSION_MAJOR {generation}" not in version.read_text():
        missing(f"oneDNN {generation} in {root}")
    return root
