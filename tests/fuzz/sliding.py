# SPDX-License-Identifier: Apache-2.0
"""Windows over images, from ONNX's text: pools and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper

from fuzz.written import Array, Written, held

Windows = tuple[list[list[list[int]]], list[tuple[int, int]], list[int]]


def windows(attrs: dict[str, Any], extents: Sequence[int]) -> Windows:
    """Per axis the places of every window and where the pads end; the shape of the result."""
    rank = len(extents)
    kernel = attrs["kernel_shape"]
    strides, steps = attrs.get("strides", [1] * rank), attrs.get("dilations", [1] * rank)
    pads = list(attrs.get("pads", [0] * (2 * rank)))
    auto = attrs.get("auto_pad", b"NOTSET").decode()
    spots, bounds, shape = [], [], []
    for a, extent in enumerate(extents):
        reach = (kernel[a] - 1) * steps[a] + 1
        before, behind = pads[a], pads[rank + a]
        if auto.startswith("SAME"):
            count = -(-extent // strides[a])
            both = max(0, (count - 1) * strides[a] + reach - extent)
            before = both - both // 2 if auto == "SAME_LOWER" else both // 2
            behind = both - before
        room = extent + before + behind - reach
        count = room // strides[a] + 1
        if attrs.get("ceil_mode", 0):
            count = -(-room // strides[a]) + 1
            if (count - 1) * strides[a] >= extent + before:  # it would begin behind the image
                count -= 1
        starts = range(-before, -before + count * strides[a], strides[a])
        spots.append([[s + k * steps[a] for k in range(kernel[a])] for s in starts])
        bounds.append((-before, extent + behind))
        shape.append(count)
    return spots, bounds, shape


class MaxPool(Written):
    """The first of the largest, and where it is."""

    def _run(self, *inputs: Any, **_: Any) -> tuple[Array, ...]:
        attrs = {a.name: helper.get_attribute_value(a) for a in self.onnx_node.attribute}
        x = inputs[0]
        spots, _bounds, shape = windows(attrs, x.shape[2:])
        lead, extents = x.shape[:2], x.shape[2:]
        images = np.arange(math.prod(lead)).reshape(lead) * math.prod(extents)
        largest = np.zeros((*lead, *shape), x.dtype)
        where = np.zeros((*lead, *shape), np.int64)
        order = "F" if attrs.get("storage_order", 0) else "C"
        for at in np.ndindex(*shape):
            places = [
                [p for p in s[i] if 0 <= p < extent]
                for s, i, extent in zip(spots, at, extents, strict=True)
            ]
            part = x[np.ix_(range(lead[0]), range(lead[1]), *places)].reshape(*lead, -1)
            first = part.argmax(axis=-1)
            grid = np.array(np.meshgrid(*places, indexing="ij")).reshape(len(extents), -1)
            flat = np.ravel_multi_index(tuple(grid), extents, order=order)
            index = (slice(None), slice(None), *at)
            largest[index] = np.take_along_axis(part, first[..., None], -1)[..., 0]
            where[index] = images + flat[first]
        return (largest, where)[: len(self.onnx_node.output)]


class Conv(Written):
    """Dilated windows have nothing between their elements."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        x, w = (a.astype(np.float64) for a in inputs[:2])
        groups, each = attrs.get("group", 1), w.shape[1]
        spots, bounds, shape = windows({"kernel_shape": w.shape[2:], **attrs}, x.shape[2:])
        pads = [(-low, high - e) for (low, high), e in zip(bounds, x.shape[2:], strict=True)]
        wide = np.pad(x, [(0, 0), (0, 0), *pads])
        out = len(w) // groups
        y = np.zeros([len(x), len(w), *shape])
        for tap in np.ndindex(*w.shape[2:]):
            places = [
                [window[t] + before for window in s]
                for s, t, (before, _) in zip(spots, tap, pads, strict=True)
            ]
            for g in range(groups):
                own = range(g * each, (g + 1) * each)
                part = wide[np.ix_(range(len(x)), own, *places)]
                taps = w[(slice(g * out, (g + 1) * out), slice(None), *tap)]
                y[:, g * out : (g + 1) * out] += np.einsum("ni...,oi->no...", part, taps)
        if len(inputs) > 2 and inputs[2] is not None:
            y = y + inputs[2].astype(np.float64).reshape(-1, *[1] * len(shape))
        return np.asarray(y).astype(inputs[0].dtype)


class AveragePool(Written):
    """Windows with dilations; what lies beyond the pads, as `ceil_mode` has it, never counts."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        sums, inside, within = pooled(attrs, inputs[0].astype(np.float64))
        counts = within if attrs.get("count_include_pad", 0) else inside
        return np.asarray(sums / counts).astype(inputs[0].dtype)


class LpPool(Written):
    """A NaN is a NaN, and a power beyond the type is infinite."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        order = attrs.get("p", 2)
        sums = pooled(attrs, np.abs(inputs[0].astype(np.float64)) ** order)[0]
        return np.asarray(held(sums, inputs[0].dtype) ** (1.0 / order)).astype(inputs[0].dtype)


def pooled(attrs: dict[str, Any], x: Array) -> tuple[Array, Array, Array]:
    """The sum of every window, how many elements it has, and how many with the pads."""
    spots, bounds, shape = windows(attrs, x.shape[2:])
    sums, inside, within = np.zeros((*x.shape[:2], *shape)), np.zeros(shape), np.zeros(shape)
    for at in np.ndindex(*shape):
        places = [s[i] for s, i in zip(spots, at, strict=True)]
        real = [
            [p for p in axis if 0 <= p < extent]
            for axis, extent in zip(places, x.shape[2:], strict=True)
        ]
        inside[at] = math.prod(map(len, real))
        within[at] = math.prod(
            sum(low <= p < high for p in axis)
            for axis, (low, high) in zip(places, bounds, strict=True)
        )
        index = np.ix_(range(x.shape[0]), range(x.shape[1]), *real)
        sums[(slice(None), slice(None), *at)] = x[index].sum(axis=tuple(range(2, x.ndim)))
    return sums, inside, within


class ConvTranspose(Written):
    """Groups of several channels, and a bias for all of them."""

    @staticmethod
    def compute(attrs: dict[str, Any], *inputs: Any) -> Array:
        x, w = (a.astype(np.float64) for a in inputs[:2])
        rank, groups = x.ndim - 2, attrs.get("group", 1)
        one = [1] * rank
        strides, steps = attrs.get("strides", one), attrs.get("dilations", one)
        count, each = x.shape[1] // groups, w.shape[1]
        full = [
            (x.shape[2 + a] - 1) * strides[a] + (w.shape[2 + a] - 1) * steps[a] + 1
            for a in range(rank)
        ]
        begin, out = uncovered(attrs, x.shape[2:], full)
        room = [max(f, b + o) for f, b, o in zip(full, begin, out, strict=True)]
        y = np.zeros([len(x), groups * each, *room])
        for tap in np.ndindex(*w.shape[2:]):
            spots = [
                slice(t * d, t * d + (e - 1) * s + 1, s)
                for t, d, e, s in zip(tap, steps, x.shape[2:], strides, strict=True)
            ]
            for g in range(groups):
                own = slice(g * count, (g + 1) * count)
                part = np.einsum("ni...,io->no...", x[:, own], w[(own, slice(None), *tap)])
                y[(slice(None), slice(g * each, (g + 1) * each), *spots)] += part
        cut = (slice(b, b + o) for b, o in zip(begin, out, strict=True))
        y = y[(slice(None), slice(None), *cut)]
        if len(inputs) > 2 and inputs[2] is not None:
            y = y + inputs[2].astype(np.float64).reshape(-1, *one)
        return np.asarray(y).astype(inputs[0].dtype)


def uncovered(
    attrs: dict[str, Any], extents: Sequence[int], full: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Where the result of a ConvTranspose begins within all it reaches, and its extents."""
    rank, auto = len(extents), attrs.get("auto_pad", b"NOTSET").decode()
    more = attrs.get("output_padding", [0] * rank)
    out = attrs.get("output_shape")
    if auto.startswith("SAME") and out is None:
        out = [e * s for e, s in zip(extents, attrs.get("strides", [1] * rank), strict=True)]
    if out is None:
        pads = attrs.get("pads", [0] * (2 * rank))
        out = [full[a] + more[a] - pads[a] - pads[rank + a] for a in range(rank)]
        return list(pads[:rank]), out
    both = [max(0, full[a] + more[a] - out[a]) for a in range(rank)]
    return [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in both], list(out)
