# SPDX-License-Identifier: Apache-2.0
"""Arm Compute Library 20.08 on aarch64: float32 and int8 values, on Arm's vector unit.

Every match becomes one function of the library that NAME_init configures, weights packed, and a run
gives its tensors their memory. docs/acl.md describes what is taken.
"""

from aot.vendor.acl import layers
from aot.vendor.acl.base import backend

__all__ = ["backend", "layers"]
