# SPDX-License-Identifier: Apache-2.0
"""Vendors: one folder each, found by name; out-of-tree ones by the entry point `aotc.backends`."""
