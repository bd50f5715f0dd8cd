# SPDX-License-Identifier: Apache-2.0
"""Whole small files from templates; every value is already spelled for its language."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).with_name("templates")


@cache
def _environment() -> Any:
    """Jinja2 with delimiters that neither C nor CMake uses; an unknown name is an error."""
    import jinja2

    # Delimiters that neither C nor CMake uses.
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
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
    """The file `templates/<template>.j2` with `values` filled in; a missing one is an error."""
    text: str = _environment().get_template(f"{template}.j2").render(values)
    return text.encode("ascii")
