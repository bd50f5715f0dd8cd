# SPDX-License-Identifier: Apache-2.0
"""Arm Ethos-U: regions of int8 networks as command streams that Vela compiles.

docs/ethos_u.md describes what is taken, the call of the driver and what stands in for it.
"""

from aot.vendor.ethos_u.offload import backend

__all__ = ["backend"]
