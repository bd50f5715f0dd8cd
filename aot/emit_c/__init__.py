# SPDX-License-Identifier: Apache-2.0
"""Spelling a Program and its Plan as a C project."""
