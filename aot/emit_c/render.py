# SPDX-License-Identifier: Apache-2.0
"""Whole small files from templates; every value is already spelled for its language."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from aot.emit_c import wrapping

_FOLDER = Path(__file__).with_name("templates")
#: The head of a function that begins in the first column; its parameters hold no parenthesis.
_HEAD = re.compile(
    r"^(?P<head>(?!#|typedef|return)[A-Za-z][\w *\n]*?\w)\((?P<items>[^()\x22]+)\)(?P<tail>;| \{)$",
    re.MULTILINE,
)


@cache
def _environment() -> Any:
    import jinja2

    # Delimiters that neither C nor CMake uses.
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        undefined=jinja2.StrictUndefined,
        variable_start_string="@{",
        variable_end_string="}",
        block_start_string="@%",
        block_end_string="%@",
        comment_start_string="@#",
        comment_end_string="#@",
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(template: str, values: dict[str, object]) -> bytes:
    """The file `templates/<template>.j2` with `values` filled in; a missing one is an error.

    Lines of C are broken where clang-format breaks them, whatever the length of the names.
    """
    text: str = _environment().get_template(f"{template}.j2").render(values)
    if template.endswith((".c", ".h")):
        text = _HEAD.sub(_declared, re.sub(r"\n{3,}", "\n\n", text))
    return text.encode("ascii")


def _declared(found: re.Match[str]) -> str:
    """The head of a function, its parameters in as few lines as clang-format needs."""
    items = re.sub(r"\s+", " ", found["items"]).split(", ")
    return wrapping.call(re.sub(r"\s+", " ", found["head"]), items, found["tail"], 0)
