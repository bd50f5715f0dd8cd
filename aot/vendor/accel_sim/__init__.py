# SPDX-License-Identifier: Apache-2.0
"""accel_sim: the AX1 accelerator, its instruction set, tools, simulator, driver and compiler.

README.md says what is where and why. Only `backend` imports the compiler.
"""

from __future__ import annotations

from typing import Any

from aot.vendor.accel_sim import offload
from aot.vendor.accel_sim.offload import backend

__all__ = ["backend"]


def __getattr__(name: str) -> Any:
    """The module's attribute `backend`, imported only when somebody asks for it.

    The compiler is not needed by the tools of the instruction set. Any other name is an
    AttributeError.
    """
    if name != "backend":
        raise AttributeError(f"module {__name__} has no attribute {name!r}")

    return offload.backend
