# SPDX-License-Identifier: Apache-2.0
"""Partitioning: which backend computes which nodes."""
