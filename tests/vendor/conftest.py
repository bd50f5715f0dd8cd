# SPDX-License-Identifier: Apache-2.0
"""The helpers of this folder and of the operators' tests are importable."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "ops"), str(HERE.parent)]
