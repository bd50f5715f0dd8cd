# SPDX-License-Identifier: Apache-2.0
"""Offsets of buffers in the least memory: for the arena, and for memories that vendors plan."""
