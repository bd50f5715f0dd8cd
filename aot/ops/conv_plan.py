# SPDX-License-Identifier: Apache-2.0
"""Which kernel and which tile computes a convolution or a matrix product, and its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from aot.ir.deferred import Constant
from aot.ir.graph_nodes import Array
from aot.ir.rows import Planes, Rowwise, Window
from aot.ir.splits import PartField, Split
from aot.ops import conv_pack as pack
from aot.ops.conv_pack import ceil_div
from aot.vendor.activations import NO_ACT, Act

Fields = dict[str, int | float | tuple[int, ...]]

# Tiles (pixels, vectors of output channels) that keep their accumulators in registers, by width.
TILES: Mapping[int, tuple[tuple[int, int], ...]] = {
    16: ((14, 2), (6, 4)),
    8: ((6, 2),),
    4: ((4, 2),),
    1: ((4, 4),),
}


@dataclass(frozen=True, slots=True)
class ConvShape:
    """Sizes of a 2-D convolution (1-D ones have height 1); pt, pl are the pads above and left."""

    n: int
    ic: int
    ih: int
    iw: int
    oc: int
    oh: int
    ow: int
    kh: int
    kw: int
    sh: int = 1
    sw: int = 1
    dh: int = 1
    dw: int = 1
    pt: int = 0
    pl: int = 0
    groups: int = 1

    @property
    def macs(self) -> int:
        """Multiplications of the convolution as ONNX defines it, without padded lanes."""
        per_pixel = self.kh * self.kw * self.ic // self.groups
        return self.n * self.oh * self.ow * self.oc * per_pixel

    @property
    def depthwise(self) -> bool:
        """Whether each channel is convolved with one filter of its own."""
        return self.groups == self.ic == self.oc and self.groups > 1

    def in_lanes(self, vlen: int) -> bool:
        """Whether the channels of a group are few neighbouring lanes of a vector, which one vector
        of filters per channel multiplies.
        """
        each = self.ic // self.groups
        return self.ic == self.oc and each in (2, 4, 8) and each < vlen

    def winograd_tile(self, points: int) -> tuple[int, int]:
        """Rows and columns of results of a tile of Winograd's algorithm with `points` points along
        each axis whose window is longer than 1; 0 stands for another algorithm: single results.
        """
        if not points:
            return 1, 1
        down = (points - self.kh) // self.sh + 1 if self.kh > 1 else 1
        return down, (points - self.kw) // self.sw + 1 if self.kw > 1 else 1

    def winograd_points(self, points: int) -> int:
        """Products of such a tile."""
        return (points if self.kh > 1 else 1) * (points if self.kw > 1 else 1)

    @property
    def fields(self) -> Fields:
        """The sizes as the kernels' parameters, in the order of the C structs."""
        names = ("n", "ic", "ih", "iw", "oc", "oh", "ow", "kh", "kw", "sh", "sw", "dh", "dw")
        return {k: getattr(self, k) for k in (*names, "pt", "pl")}


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A kernel and its arguments: y, x, weights, bias (empty if the weights hold it), r (not
    depthwise), then scratch.

    `scratch` is its size in bytes, 0 passes NULL, None means the kernel has no such parameter.
    `splits` are ways to share the call among threads.
    """

    kernel: str
    weights: Constant
    bias: Array
    fields: Fields
    instance: dict[str, int] = field(default_factory=dict)
    scratch: int | None = None
    splits: tuple[Split, ...] = ()


def tile_pixels(family: int, wanted: int) -> int:
    """How many pixels the tile function computes that is called for `wanted` pixels in a family.

    The C kernels have functions for these sizes only.
    """
    sizes = {14: (14, 7, 3, 1), 6: (6, 4, 3, 1), 4: (4, 2, 1)}[family]
    return min(s for s in sizes if s >= wanted)


def tile_cost(
    family: int, panel: int, pixels: int, blocks: int, depth: int, vlen: int = 16
) -> float:
    """Estimated cycles (one vector FMA each) of a family on a whole layer of `depth` products each.

    A tile of few pixels waits for its weights: 16 bytes per cycle from L2.
    """
    cost = 0.0
    full, rest = divmod(pixels, family)
    for _, size in pack.panel_groups(blocks, panel):
        for count, n in ((full, family), (1, rest)):
            if count and n:
                fma = tile_pixels(family, n) * size
                cost += count * (depth * max(4, fma, size * vlen / 4) + 60 + 2 * fma)
    return cost


def choose_tile(vlen: int, pixels: int, blocks: int, depth: int) -> tuple[int, int]:
    """The tile family (pixels, vectors) with the least estimated time for `blocks` blocks of
    channels.

    `depth` is the number of products in a sum.
    """
    return min(TILES[vlen], key=lambda t: tile_cost(t[0], t[1], pixels, blocks, depth, vlen))


def strides(sizes: ConvShape, vlen: int, x_plain: bool, y_plain: bool = False) -> Fields:
    """The steps, in floats, between rows, planes and batches of input and result, as C parameters.

    A plain tensor has one channel in a plane, a blocked one `vlen`.
    """
    lanes, y_lanes = 1 if x_plain else vlen, 1 if y_plain else vlen
    x_plane = sizes.ih * sizes.iw * lanes
    y_plane = sizes.oh * sizes.ow * y_lanes
    in_planes = sizes.ic if x_plain else ceil_div(sizes.ic, vlen)
    return {
        "y0": 0,
        "y1": sizes.oh,
        "x_row0": 0,
        "y_row0": 0,
        "x_row": sizes.iw * lanes,
        "x_plane": x_plane,
        "x_batch": x_plane * in_planes,
        "y_plane": y_plane,
        "y_batch": y_plane * ceil_div(sizes.oc, y_lanes),
    }


def act_fields(act: Act) -> Fields:
    """The activation's number and constants as fields of a kernel's parameters."""
    return {"act": act.kind, "alpha": act.alpha, "beta": act.beta}


#: Kernels of convolutions that make their result by rows.
BY_ROWS = ("aot_conv_f32_blocked", "aot_conv_f32_plain", "aot_dwconv_f32_blocked")


def rowwise(sizes: ConvShape, call: KernelCall, vlen: int, adds: bool) -> Rowwise | None:
    """How `call` makes its result by rows; `adds` tells that it reads a row of r, argument 4.

    A plain image is given as a whole. None: batches, results of one row, Winograd, and groups that
    share vectors of channels.
    """
    parts = {sizes.ic // sizes.groups % vlen, sizes.oc // sizes.groups % vlen}
    mixed = sizes.groups > 1 and parts != {0} and "dwconv" not in call.kernel
    if sizes.n != 1 or sizes.oh < 2 or mixed or call.kernel not in BY_ROWS:
        return None
    lanes = call.instance.get("YV", vlen)
    made = (0, 4) if adds else (0,)
    planes = [Planes(k, ceil_div(sizes.oc, lanes), sizes.ow * lanes, "y_plane") for k in made]
    if "plain" in call.kernel:
        own = (("y0", -1, "row"), ("y1", -1, "next"), ("y_row0", -1, "row"))
        return Rowwise(sizes.oh, made, fields=own, whole=(1,), planes=tuple(planes), cost=1)
    planes.append(Planes(1, ceil_div(sizes.ic, vlen), sizes.iw * vlen, "x_plane"))
    window = Window(1, sizes.ih, sizes.kh, sizes.sh, sizes.dh, sizes.pt)
    fields = (("ih", -1, "rows"), ("pt", -1, "above"), ("oh", -1, "one"), ("y1", -1, "one"))
    cost = 1.0
    if "dwconv" not in call.kernel:
        depth = sizes.kh * sizes.kw * sizes.ic // sizes.groups
        family = (call.instance["P"], call.instance["O"])
        blocks, pixels = ceil_div(sizes.oc, vlen), sizes.oh * sizes.ow
        rows = sizes.oh * tile_cost(*family, sizes.ow, blocks, depth, vlen)
        cost = rows / tile_cost(*family, pixels, blocks, depth, vlen)
    return Rowwise(sizes.oh, made, window, fields, planes=tuple(planes), cost=cost)


def conv_splits(sizes: ConvShape, call: KernelCall, vlen: int) -> tuple[Split, ...]:
    """How threads share the convolution `call`: by panels of output channels, which each read their
    own weights, or by rows of the result (whole tiles of them with Winograd's algorithm).
    """
    if call.splits:
        return call.splits
    depthwise, lanes = "dwconv" in call.kernel, call.instance.get("YV", vlen)
    points = call.instance.get("T", 0)
    tile, _ = sizes.winograd_tile(points)
    rows = Split.rows(sizes.oh, *[4] * (not depthwise), tile=tile)
    # A panel would need channels of its own group alone, to which no constant step leads.
    if sizes.groups > 1 and not depthwise:
        return (rows,)
    panel = call.instance.get("O", 1) * vlen
    plane = 4 * sizes.oh * sizes.ow * lanes * (panel // lanes)
    weights = 4 * panel * sizes.kh * sizes.kw * call.instance.get("J", sizes.ic)
    if points:
        weights = 4 * panel * sizes.winograd_points(points) * sizes.ic
    moves = [(0, plane), (2, weights), (3, 4 * panel)]
    moves.append((1, 4 * sizes.ih * sizes.iw * vlen) if depthwise else (4, plane))
    panels = Split.pieces("oc", sizes.oc, moves, panel)
    if depthwise:
        channels = PartField("ic", "count", scale=vlen, total=sizes.oc)
        panels = replace(panels, fields=(*panels.fields, channels))
    return (panels, rows)


def plan_blocked(
    sizes: ConvShape, w: Array, b: Array | None, vlen: int, act: Act = NO_ACT, y_plain: bool = False
) -> KernelCall:
    """Direct convolution of a blocked tensor; w [oc, ic / groups, kh, kw]."""
    k = sizes.kh * sizes.kw * sizes.ic // sizes.groups
    p, o = choose_tile(vlen, sizes.oh * sizes.ow, ceil_div(sizes.oc, vlen), k)
    if sizes.groups > 1:  # a panel that touches two groups computes zeros
        while o > 1 and (sizes.oc // sizes.groups) % (o * vlen):
            o //= 2
    fields = {**sizes.fields, "groups": sizes.groups, **strides(sizes, vlen, False, y_plain)}
    fields |= act_fields(act)
    return KernelCall(
        "aot_conv_f32_blocked",
        pack.pack_blocked(w, sizes.groups, vlen, o),
        pack.pack_bias(b, sizes.oc, vlen),
        fields,
        {"P": p, "O": o, "YV": 1 if y_plain else vlen, "ACT": act.after},
    )


RUN, LONG = 16, 192  # of few channels: products in a run, and products that a sum with runs has


def plan_plain(
    sizes: ConvShape, w: Array, b: Array | None, vlen: int, act: Act = NO_ACT, y_plain: bool = False
) -> KernelCall:
    """The call of a convolution of a plain tensor, usually into a blocked one; groups must be 1.

    Scratch (bytes) holds a padded copy of a tile's input where windows reach outside.
    """
    blocks, k = ceil_div(sizes.oc, vlen), sizes.kh * sizes.kw * sizes.ic
    p, o = choose_tile(vlen, sizes.ow, blocks, k)  # a tile stays in its row
    bottom = (sizes.oh - 1) * sizes.sh + (sizes.kh - 1) * sizes.dh + 1
    right = (sizes.ow - 1) * sizes.sw + (sizes.kw - 1) * sizes.dw + 1
    padded = sizes.pt > 0 or sizes.pl > 0 or bottom > sizes.ih or right > sizes.iw
    width = (min(p, sizes.ow) - 1) * sizes.sw + (sizes.kw - 1) * sizes.dw + 1
    run = RUN if sizes.ic <= 2 and k >= LONG else 0  # filters of signals cancel
    return KernelCall(
        "aot_conv_f32_plain",
        pack.pack_plain(w, vlen, o),
        pack.pack_bias(b, sizes.oc, vlen),
        {**sizes.fields, **strides(sizes, vlen, True, y_plain), **act_fields(act)},
        {"P": p, "O": o, "RUN": run, "YV": 1 if y_plain else vlen, "ACT": act.after},
        4 * sizes.ic * sizes.kh * width if padded else 0,
    )


def plan_depthwise(
    sizes: ConvShape, w: Array, b: Array | None, vlen: int, act: Act = NO_ACT
) -> KernelCall:
    """Depthwise convolution of a blocked tensor, or one in groups of few lanes.

    `w` is [c, channels of a group, kh, kw]. The kernel adds no residual.
    """
    fields = {**sizes.fields, **strides(sizes, vlen, False), **act_fields(act)}
    instance = {
        "KW": sizes.kw if sizes.kw in (3, 5) and sizes.dw == 1 and sizes.depthwise else 0,
        "S": sizes.sw if sizes.sw in (1, 2) else 0,
        "ACT": act.after,
        "J": sizes.ic // sizes.groups,
    }
    weights, bias = pack.pack_depthwise(w, vlen), pack.pack_bias(b, sizes.oc, vlen)
    return KernelCall("aot_dwconv_f32_blocked", weights, bias, fields, instance)


def gemm_tile(m: int, n: int, k: int, vlen: int) -> tuple[int, int]:
    """The tile family (pixels, vectors) of a product of `m` rows, `n` columns and depth `k`."""
    blocks = ceil_div(n, vlen)
    p, o = TILES[vlen][-1]
    # Rows of x a power of two apart share few cache sets: the tile with fewer rows first.
    if vlen == 16 and tile_cost(14, 2, m, blocks, k) < 0.9 * tile_cost(p, o, m, blocks, k):
        return (14, 2)
    return p, o


def plan_gemm(m: int, w: Array, b: Array | None, vlen: int, act: Act = NO_ACT) -> KernelCall:
    """The call of y [m, n] = act(x [m, k] · w [k, n] + b) of contiguous rows."""
    k, n = w.shape
    p, o = gemm_tile(m, n, k, vlen)
    fields: Fields = {"m": m, "n": n, "k": k, "x_row": k, "y_row": n}
    return KernelCall(
        "aot_gemm_f32",
        pack.defer_gemm(w, vlen, o),
        pack.pack_bias(b, n, vlen),
        {**fields, **act_fields(act)},
        {"P": p, "O": o, "ACT": act.after},
        splits=product_splits(m, n, fields, {2: 4 * k * o * vlen, 3: 4 * o * vlen}, o * vlen, p),
    )


def product_splits(
    m: int, n: int, fields: Fields, weights: Mapping[int, int], columns: int, rows: int
) -> tuple[Split, ...]:
    """How threads share a product of `m` rows and `n` columns with constant weights: by groups of
    `columns`, or by tiles of `rows`; `weights` are arguments that move with columns, in bytes."""
    x_row, y_row = (4 * int(fields[k]) for k in ("x_row", "y_row"))  # type: ignore[arg-type]
    wide = 4 * columns
    by_columns = Split.pieces("n", n, [(0, wide), (4, wide), *weights.items()], columns)
    by_rows = Split.rows_of_product(m, [(0, y_row), (1, x_row), (4, y_row)], rows)
    return by_columns, by_rows


@dataclass(frozen=True, slots=True)
class MatMulShape:
    """A batched product of two activations; strides in floats, as aot_matmul_f32.h defines them."""

    m: int
    n: int
    k: int
    batch: tuple[int, int, int]
    a_batch: tuple[int, int, int]
    b_batch: tuple[int, int, int]
    y_batch: tuple[int, int, int]
    a_row: int
    b_row: int
    b_col: int
    y_row: int
    scale: float = 1.0


GEMM_RUN = 256
"""AOT_GEMM_RUN: products that are summed up before they are added to a total."""
ROWS_PART, ROWS_COLUMNS = 64, 48
"""AOT_GEMM_ROWS_PART: results of a single row that are computed together; AOT_GEMM_ROWS_COLUMNS:
columns of several rows between two uses of a block of x."""


def plan_gemm_rows(
    m: int,
    shape: tuple[int, int],
    rows: bool,
    b: Array | None,
    vlen: int,
    act: Act = NO_ACT,
    words: bool = False,
) -> KernelCall:
    """The call of y = act(x · w + b) with w of `shape` (k, n) read as the model stores it.

    `rows` says that w is stored transposed: then its rows are multiplied as they lie by blocks of x
    that the cache holds beside them, packed in scratch. Else the call packs a block of w at a time.
    With `words` these rows are bfloat16, and so becomes x, two numbers in a word.
    """
    k, n = shape
    p, o = gemm_tile(ROWS_COLUMNS, m, k, vlen) if rows else gemm_tile(m, n, k, vlen)
    part, whole = max(o * vlen, ROWS_PART), o * vlen
    if rows:
        # Blocks of 8192 vectors of x are half of a second-level cache of 1 MiB with AVX-512.
        block = max(8192 * vlen // max(1, k) // whole, 1) * whole if vlen > 1 else whole
        depth = k // 2 if words else k
        floats = (depth + ROWS_COLUMNS) * ceil_div(min(m, block), vlen) * vlen
    else:
        block = 4 * GEMM_RUN
        floats = min(k, block) * min(o, ceil_div(n, vlen)) * vlen
    fields: Fields = {"m": m, "n": n, "k": k, "x_row": k, "y_row": n, **act_fields(act)}
    moves = {2: (2 if words else 4) * k * part, 3: 4 * part}
    if m == 1 and not act.after:
        floats = k // 2 if words else 0
    return KernelCall(
        "aot_gemm_rows_f32__bf16" if words else "aot_gemm_rows_f32",
        np.zeros(0, np.float32),
        pack.pack_bias(b, n, vlen),
        {**fields, "block": block},
        {"P": p, "O": o, "ACT": act.after, **({} if words else {"ROWS": int(rows)})},
        4 * floats,
        product_splits(m, n, fields, moves, part, whole if rows else p)[0 if rows else 1 :],
    )


def plan_matmul(sizes: MatMulShape, vlen: int) -> KernelCall:
    """Product of two activations (the call has no weights and no bias).

    Columns are packed in blocks of k: at most as many floats as b has where a group of vectors is
    full, a run where most of it would be padding.
    """
    p, o = TILES[vlen][-1]
    group = o
    while group > max(1, ceil_div(sizes.n, vlen)):
        group //= 2
    width = group * vlen
    block = 4 * GEMM_RUN if sizes.n >= o * vlen else GEMM_RUN
    fields: Fields = {name: getattr(sizes, name) for name in MatMulShape.__slots__}
    none = np.zeros(0, np.float32)
    scratch = 4 * min(sizes.k, block) * width
    fields["k_block"] = block
    splits = matmul_splits(sizes, p, o * vlen)
    return KernelCall("aot_matmul_f32", none, none, fields, {"P": p, "O": o}, scratch, splits)


def matmul_splits(sizes: MatMulShape, rows: int, columns: int) -> tuple[Split, ...]:
    """How threads share a product of two activations: by batches along each axis (heads of an
    attention), by groups of `columns`, or by tiles of `rows`, which pack the columns again."""
    found = [
        Split(
            count,
            (PartField("batch", "count", index=i),),
            ((0, 4 * sizes.y_batch[i]), (1, 4 * sizes.a_batch[i]), (2, 4 * sizes.b_batch[i])),
        )
        for i, count in enumerate(sizes.batch)
        if count > 1 and sizes.y_batch[i]
    ]
    across = [(0, 4 * columns), (2, 4 * columns * sizes.b_col)]
    found.append(Split.pieces("n", sizes.n, across, columns))
    down = [(0, 4 * sizes.y_row), (1, 4 * sizes.a_row)]
    return (*found, Split.rows_of_product(sizes.m, down, rows))
