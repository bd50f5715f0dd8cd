# SPDX-License-Identifier: Apache-2.0
"""The window of a convolution or of pooling: what its attributes say, one number per axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.vendor.match import NodeRef

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowShape:
    """A window that moves over the spatial axes of a value.

    Every field has one number per spatial axis, outermost first: the elements of the window, the
    steps between windows, the steps between elements of a window, and how many positions of
    padding lie before and after the axis (negative ones cut).
    """

    kernel: Sizes
    strides: Sizes
    dilations: Sizes
    before: Sizes
    after: Sizes

    @classmethod
    def of(cls, node: NodeRef, kernel: Sequence[int]) -> WindowShape:
        """The window of a node with explicit pads; `kernel` are its extents.

        Raises no error: attributes that are absent mean strides and dilations of 1 and no pads.
        """
        rank = len(kernel)
        ones = (1,) * rank
        strides, dilations = (
            tuple(int(v) for v in node.attr(name) or ones) for name in ("strides", "dilations")
        )
        pads = tuple(int(v) for v in node.attr("pads") or (0,) * (2 * rank))
        return cls(tuple(kernel), strides, dilations, pads[:rank], pads[rank:])

    def widened(self, rank: int) -> WindowShape:
        """The same window on values of `rank` spatial axes, the new outer ones of extent 1."""
        ones, zeros = ((n,) * (rank - len(self.kernel)) for n in (1, 0))
        return WindowShape(
            ones + self.kernel,
            ones + self.strides,
            ones + self.dilations,
            zeros + self.before,
            zeros + self.after,
        )

    def axes(self) -> tuple[Sizes, ...]:
        """The fields in their order, to be zipped: kernel, strides, dilations, before, after."""
        return self.kernel, self.strides, self.dilations, self.before, self.after
