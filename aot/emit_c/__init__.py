# SPDX-License-Identifier: Apache-2.0
"""Spelling a Program and its Plan as a C project."""

from aot.emit_c.names import bundle_name
from aot.emit_c.project import emit_c
from aot.emit_c.write import Blob, write_bundle

__all__ = ["Blob", "bundle_name", "emit_c", "write_bundle"]
