# SPDX-License-Identifier: Apache-2.0
"""Why a vendor leaves a node that none of its patterns fits: no check was asked, so none says."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from aot.ir.deferred_import import ir
from aot.ir.node_traits import moves_no_byte
from aot.partition.covering import Cover, Refusal
from aot.vendor.backend import Backend
from aot.vendor.pattern_ast import all_ops

#: Patterns that a reason names.
_NAMED = 3


def no_match_reasons(
    cover: Cover, vendors: Sequence[Backend], marked_only: Collection[str]
) -> list[Refusal]:
    """A reason for each missing node and vendor that gave none, by node.

    Nodes that the user gives to another backend are left out, and so is what a vendor in
    `marked_only` is not given.
    """
    answered = {(r.node, r.backend) for r in cover.refusals}
    found = []
    for node in (n for n in cover.missing() if not moves_no_byte([n])):
        mark = cover.marks.get(id(node))
        user_backend = mark.backend if mark else ""
        for vendor in vendors:
            wanted = user_backend == vendor.name or (
                not user_backend and vendor.name not in marked_only
            )
            if wanted and (str(node.name), vendor.name) not in answered:
                reason = _reason(vendor, node)
                found.append(Refusal(str(node.name), node.op_type, vendor.name, "", reason))
    return found


def _reason(vendor: Backend, node: ir.Node) -> str:
    """The reason why no match of `vendor` has `node`: no pattern names the operator, or none fits
    here.
    """
    kind = (node.domain, node.op_type)
    names = [p.name for p in vendor.patterns if kind in all_ops(p.graph)]
    if not names:
        return f"it has no pattern with {node.op_type}"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"no pattern fits here (with {node.op_type}: {', '.join(names[:_NAMED])}{more})"
