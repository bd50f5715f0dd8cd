/* SPDX-License-Identifier: MIT-0 */
/* Data movement that is known at compile time: copies, slices, pads, transposes, reorders. */
#include "elements.h"

#include "aot_blocked_channels.h"
#include "aot_channel_gather.h"
#include "aot_copy.h"
#include "aot_move.h"
#include "aot_pad.h"
#include "aot_push_row.h"
#include "aot_reorder_32.h"
#include "aot_strided_copy.h"
#include "aot_transpose.h"
#include "aot_walk.h"

static void test_copy(void) {
    for (int64_t n = 0; n < 80; n += 13) {
        const aot_copy_params p = {n};
        uint8_t *x = some_elements(n, 1), *y = NEW(uint8_t, n);
        check_case("copy of %d bytes", (int)n);
        aot_copy(y, x, &p);
        aot_copy(x, x, &p);
        same_bytes("y", y, x, (size_t)n);
        check_free();
    }
}

/* Strided views of three axes: of x an axis is repeated (stride 0), reversed or as it is; y has a
 * gap behind each row. */
static void test_strided_copy(int E) {
    for (int k = 0; k < 40; ++k) {
        aot_strided_copy_params p = {{1, 1, 1, 1, 1, 0, 0, 0}, {0}, {0}};
        const int32_t gap = k % 3;
        int64_t first = 0, step = 1;
        p.dims[5] = 1 + k % 3;
        p.dims[6] = 1 + k % 4;
        p.dims[7] = (int32_t)check_integer(1, 40);
        p.ys[7] = k % 5 == 0 ? 2 : 1;
        p.ys[6] = p.ys[7] * p.dims[7] + gap;
        p.ys[5] = p.ys[6] * p.dims[6];
        for (int axis = 7; axis >= 5; --axis) {
            const int64_t how = check_integer(0, 3);
            p.xs[axis] = how == 0 ? 0 : how == 1 ? -(int32_t)step : (int32_t)step;
            first += how == 1 ? (p.dims[axis] - 1) * step : 0;
            step *= p.dims[axis];
        }
        const int64_t n = (int64_t)p.dims[5] * p.ys[5];
        uint8_t *x = some_elements(step, E), *y = NEW(uint8_t, n * E), *want = NEW(uint8_t, n * E);
        check_case("strided copy %d of %d bytes", k, E);
        for (int32_t a = 0; a < p.dims[5]; ++a) {
            for (int32_t b = 0; b < p.dims[6]; ++b) {
                for (int32_t c = 0; c < p.dims[7]; ++c) {
                    put(want, a * p.ys[5] + b * p.ys[6] + c * p.ys[7], x,
                        first + a * p.xs[5] + b * p.xs[6] + c * p.xs[7], E);
                }
            }
        }
        aot_strided_copy(y, x + first * E, &p, E);
        same_bytes("y", y, want, (size_t)(n * E));
        check_free();
    }
}

/* Where ONNX's Pad takes index i from, one step at a time; -1: the constant. */
static int32_t pad_source(int32_t i, int32_t n, int mode) {
    while (i < 0 || i >= n) {
        if (mode == AOT_PAD_CONSTANT) {
            return -1;
        }
        if (mode == AOT_PAD_EDGE || n == 1) {
            i = i < 0 ? i + 1 : i - 1;
        } else if (mode == AOT_PAD_REFLECT) {
            i = i < 0 ? -i : 2 * (n - 1) - i;
        } else {
            i = i < 0 ? i + n : i - n;
        }
    }
    return i;
}

static void test_pad(int E, int mode) {
    static const int32_t extents[][3] = {{2, 3, 4}, {1, 1, 1}, {3, 1, 17}, {1, 5, 33}, {2, 2, 2}};
    static const int32_t pads[][6] = {{0, 0, 0, 0, 0, 0},  {1, 2, 3, 3, 2, 1},
                                      {0, 0, 5, 0, 0, 9},  {7, 6, 5, 4, 3, 2},
                                      {0, 0, -1, 2, 1, 3}, {1, 0, 3, -1, 0, -1}};
    for (size_t k = 0; k < 30; ++k) {
        const int32_t *e = extents[k / 6], *q = pads[k % 6];
        aot_pad_params p = {{1, 1, 1, 1, 1, 0, 0, 0}, {0}, {0}, {1, 1, 1, 1, 1, 0, 0, 0}, {0}};
        int64_t n = 1, all = 1;
        for (int a = 7; a >= 5; --a) {
            p.extent[a] = e[a - 5];
            p.before[a] = q[a - 5];
            p.dims[a] = e[a - 5] + q[a - 5] + q[a - 2];
            p.ys[a] = (int32_t)n;
            p.xs[a] = (int32_t)all;
            n *= p.dims[a];
            all *= p.extent[a];
        }
        if (p.dims[7] <= 0 || p.dims[6] <= 0 || p.dims[5] <= 0) {
            continue;
        }
        uint8_t *x = some_elements(all, E), *value = some_elements(1, E);
        uint8_t *y = NEW(uint8_t, n * E), *want = NEW(uint8_t, n * E);
        check_case("pad %d, mode %d, %d bytes", (int)k, mode, E);
        for (int64_t i = 0; i < n; ++i) {
            int64_t rest = i, from = 0;
            int outside = 0;
            for (int a = 7; a >= 5; --a) {
                const int32_t at = (int32_t)(rest % p.dims[a]) - p.before[a];
                const int32_t s = pad_source(at, p.extent[a], mode);
                rest /= p.dims[a];
                outside |= s < 0;
                from += (int64_t)s * p.xs[a];
            }
            put(want, i, outside ? value : x, outside ? 0 : from, E);
        }
        aot_pad(y, x, value, &p, E, mode);
        same_bytes("y", y, want, (size_t)(n * E));
        check_free();
    }
}

/* x [d][b][a] or [b][d][a] becomes [d][a][b] or [a][d][b]. */
static void test_transpose(int E) {
    static const int32_t sizes[] = {1, 3, 16, 17, 33};
    for (int k = 0; k < 50; ++k) {
        const int32_t a = sizes[k % 5], b = sizes[k / 5 % 5], d = 3, middle = k / 25;
        aot_transpose_params p = {{1, 1, 1, 1, 1, d}, {0}, {0}, a, b, b, a};
        const int64_t n = (int64_t)a * b * d;
        uint8_t *x = some_elements(n, E), *y = NEW(uint8_t, n * E), *want = NEW(uint8_t, n * E);
        check_case("transpose of %d by %d, %d bytes, middle %d", a, b, E, middle);
        p.ys[5] = middle ? b : a * b;
        p.xs[5] = middle ? a : a * b;
        p.ya = middle ? d * b : b;
        p.xb = middle ? d * a : a;
        for (int32_t i = 0; i < d; ++i) {
            for (int32_t r = 0; r < a; ++r) {
                for (int32_t c = 0; c < b; ++c) {
                    if (middle) {
                        put(want, ((int64_t)r * d + i) * b + c, x, ((int64_t)c * d + i) * a + r, E);
                    } else {
                        put(want, ((int64_t)i * a + r) * b + c, x, ((int64_t)i * b + c) * a + r, E);
                    }
                }
            }
        }
        aot_transpose(y, x, &p, E);
        same_bytes("y", y, want, (size_t)(n * E));
        check_free();
    }
}

/* Where element (n, c, s) stands in a tensor with channels in blocks of V. */
static int64_t blocked(int64_t n, int64_t c, int64_t s, int64_t channels, int64_t size, int V) {
    return ((n * ((channels + V - 1) / V) + c / V) * size + s) * V + c % V;
}

static void test_reorder(int E, int V) {
    static const int32_t shapes[][3] = {{1, 1, 1},  {2, 3, 5},   {1, 4, 16},
                                        {2, 17, 7}, {1, 16, 33}, {2, 5, 20}};
    static const uint8_t zero[8] = {0};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; ++k) {
        const int32_t n = shapes[k][0], c = shapes[k][1], s = shapes[k][2];
        const aot_to_blocked_params p = {n, c, s, E};
        const int32_t all = (c + V - 1) / V * V;
        const int64_t plain = (int64_t)n * c * s, full = (int64_t)n * all * s;
        uint8_t *x = some_elements(plain, E), *y = NEW(uint8_t, full * E);
        uint8_t *want = NEW(uint8_t, full * E), *back = NEW(uint8_t, plain * E);
        check_case("reorder of [%d, %d, %d], %d bytes, V %d", n, c, s, E, V);
        for (int32_t i = 0; i < n * all * s; ++i) {
            const int32_t image = i / (all * s), channel = i / s % all, at = i % s;
            const int64_t from = ((int64_t)image * c + channel) * s + at;
            put(want, blocked(image, channel, at, c, s, V), channel < c ? x : zero,
                channel < c ? from : 0, E);
        }
        aot_to_blocked(y, x, &p, V);
        same_bytes("blocked", y, want, (size_t)(full * E));
        (void)memset(back, 0, (size_t)(plain * E));
        aot_from_blocked(back, y, &p, V);
        same_bytes("plain", back, x, (size_t)(plain * E));
        if (E == 4 && V == AOT_VLEN) {
            (void)memset(y, 0xFF, (size_t)(full * E));
            aot_to_blocked_32(y, x, &p);
            same_bytes("blocked by squares", y, want, (size_t)(full * E));
            (void)memset(back, 0, (size_t)(plain * E));
            aot_from_blocked_32(back, y, &p);
            same_bytes("plain by squares", back, x, (size_t)(plain * E));
        }
        check_free();
    }
}

/* Ranges of channels from one blocked tensor to another, and channels in any order. */
static void test_channels(int E, int V) {
    for (int k = 0; k < 24; ++k) {
        const int32_t n = 2, s = 1 + k % 3 * 9, cx = 3 + k, cy = 2 + k * 2,
                      nx = (cx + V - 1) / V * V, ny = (cy + V - 1) / V * V;
        const int32_t count = 1 + k / 2, x0 = (int32_t)check_integer(0, cx - count),
                      y0 = (int32_t)check_integer(0, cy - count);
        const aot_blocked_channels_params p = {n, s, count, y0, x0, ny * s, nx * s};
        const aot_channel_gather_params q = {n, cy, s, nx * s};
        const int64_t size = (int64_t)n * ny * s;
        uint8_t *x = some_elements((int64_t)n * nx * s, E), *y = NEW(uint8_t, size * E);
        uint8_t *want = NEW(uint8_t, size * E);
        int32_t *table = NEW(int32_t, cy);
        check_case("%d channels from %d to %d, %d bytes, V %d", count, x0, y0, E, V);
        for (int32_t i = 0; i < n * count * s; ++i) {
            const int32_t image = i / (count * s), c = i / s % count, at = i % s;
            put(want, blocked(image, y0 + c, at, cy, s, V), x, blocked(image, x0 + c, at, cx, s, V),
                E);
        }
        aot_blocked_channels(y, x, &p, E, V);
        same_bytes("y", y, want, (size_t)(size * E));
        check_case("channels in another order, %d of %d, %d bytes, V %d", cy, cx, E, V);
        fill_s32(table, cy, 0, cx - 1);
        for (int32_t i = 0; i < n * ny * s; ++i) {
            const int32_t image = i / (ny * s), c = i / s % ny, at = i % s;
            put(want, blocked(image, c, at, cy, s, V), x,
                blocked(image, table[c < cy ? c : cy - 1], at, cx, s, V), E);
        }
        aot_channel_gather(y, x, table, &q, E, V, V);
        same_bytes("y", y, want, (size_t)(size * E));
        check_case("plain channels in another order, %d of %d, %d bytes, V %d", cy, cx, E, V);
        for (int32_t i = 0; i < n * ny * s; ++i) {
            const int32_t image = i / (ny * s), c = i / s % ny, at = i % s;
            put(want, blocked(image, c, at, cy, s, V), x,
                image * nx * s + table[c < cy ? c : cy - 1] * s + at, E);
        }
        aot_channel_gather(y, x, table, &q, E, V, 1);
        same_bytes("y", y, want, (size_t)(size * E));
        check_free();
    }
}

/* A row of c channels, whose lines are a plane apart, in blocks of V channels. */
static void test_push_row(int E, int V) {
    for (int k = 0; k < 12; ++k) {
        const int32_t c = (int32_t)check_integer(1, 20), width = 1 + k;
        const int32_t plane = width + k % 4;
        const aot_push_row_params p = {c, width, E, plane};
        const int64_t size = (int64_t)(c + V - 1) / V * width * V;
        uint8_t *x = some_elements((int64_t)c * plane, E), *y = NEW(uint8_t, size * E);
        uint8_t *want = NEW(uint8_t, size * E);
        check_case("pushed row of %d channels, %d wide, %d bytes, V %d", c, width, E, V);
        (void)memset(want, 0, (size_t)(size * E));
        for (int32_t i = 0; i < c * width; ++i) {
            const int32_t of = i / width, at = i % width;
            put(want, (int64_t)(of / V * width + at) * V + of % V, x, (int64_t)of * plane + at, E);
        }
        aot_push_row(y, x, &p, V);
        same_bytes("y", y, want, (size_t)(size * E));
        check_free();
    }
}

int main(void) {
    test_copy();
    for (int E = 1; E <= 8; E *= 2) {
        test_strided_copy(E);
        for (int mode = AOT_PAD_CONSTANT; mode <= AOT_PAD_WRAP; ++mode) {
            test_pad(E, mode);
        }
        test_transpose(E);
        test_channels(E, 40);
        for (int V = 1; V <= 16; V *= V == 1 ? 4 : 2) {
            test_reorder(E, V);
            test_channels(E, V);
            test_push_row(E, V);
        }
    }
    return check_end();
}
