# SPDX-License-Identifier: Apache-2.0
"""How a pass says which combinations of operators it rewrites, so that nobody waits for them.

A pass that always rewrites a combination lists it in its module's FORMS. `make docs` collects these
for docs/canonical.md and for the warning where a vendor's pattern holds one of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """`before` becomes `after`, except where `unless` holds ("" = always).

    `before` is a Python expression: calls are operators, lower-case names any value, `const(c)` any
    constant, numbers constants of that value, `*` further inputs, keywords attributes that the
    node has or may leave to their defaults; names in capitals are keys of CLASSES of the module,
    whose values are operators or a function that gives them. `floats` says that integers are left
    alone.
    """

    before: str
    after: str
    unless: str = ""
    floats: bool = False
