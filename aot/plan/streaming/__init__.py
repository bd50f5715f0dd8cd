# SPDX-License-Identifier: Apache-2.0
"""Runs of calls that are made row by row: which, in which order, and where every row is."""
