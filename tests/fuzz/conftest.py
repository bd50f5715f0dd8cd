# SPDX-License-Identifier: Apache-2.0
"""The harness of the operators' tests is importable."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
