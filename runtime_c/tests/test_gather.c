/* SPDX-License-Identifier: MIT-0 */
/* Data movement by indices that a run brings: gather, scatter, one-hot, triangles, sequences. */
#include "elements.h"

#include "aot_gather.h"
#include "aot_index.h"
#include "aot_scatter.h"
#include "aot_select.h"
#include "aot_tensor_scatter.h"
#include "aot_unpool.h"

/* The element that an index means; beyond the ends `outside` is -1, or the nearest end if 1. */
static int64_t meant(int64_t v, int64_t n, int nearest) {
    const int64_t i = v < 0 ? v + n : v;
    return i >= 0 && i < n ? i : !nearest ? -1 : i < 0 ? 0 : n - 1;
}

/* Indices of an axis of extent n, some from the end, some beyond it. */
static int64_t some_index(int64_t n) {
    const int64_t kind = check_integer(0, 9);
    return kind == 0 ? n + 3 : kind == 1 ? -n - 2 : kind == 2 ? n - 1 : check_integer(-n, n - 1);
}

static void test_gather(int E, int I) {
    static const int32_t shapes[][4] = {{1, 1, 1, 1}, {2, 5, 3, 7}, {3, 4, 1, 2}, {1, 9, 40, 5}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; ++k) {
        const int32_t *s = shapes[k];
        const aot_gather_params p = {s[0], s[1], s[2], s[3]};
        const int64_t n = (int64_t)s[0] * s[3] * s[2];
        uint8_t *x = some_elements((int64_t)s[0] * s[1] * s[2], E);
        uint8_t *y = NEW(uint8_t, n * E), *want = NEW(uint8_t, n * E);
        int64_t *index = NEW(int64_t, s[3]);
        check_case("gather %d of %d bytes, indices of %d", (int)k, E, I);
        for (int32_t i = 0; i < s[3]; ++i) {
            index[i] = some_index(s[1]);
        }
        for (int64_t i = 0; i < n; ++i) {
            const int64_t o = i / (s[3] * s[2]), j = meant(index[i / s[2] % s[3]], s[1], 1);
            put(want, i, x, (o * s[1] + j) * s[2] + i % s[2], E);
        }
        aot_gather(y, x, indices(index, s[3], I), &p, E, I);
        same_bytes("y", y, want, (size_t)(n * E));
        check_free();
    }
}

/* Data [4][5][6], indices [3][2][5] (on the axis: any number), by element along each axis. */
static void test_elements(int E, int I, int axis, int R, int T) {
    static const int32_t data[3] = {4, 5, 6}, step[3] = {30, 6, 1};
    aot_gather_elements_params g = {{1, 1, 1, 1, 1, 3, 2, 5}, {0, 0, 0, 0, 0, 10, 5, 1}, {0}, 0, 0};
    aot_scatter_elements_params s = {
        (int64_t)120 * E, {1, 1, 1, 1, 1, 3, 2, 5}, {0, 0, 0, 0, 0, 10, 5, 1}, {0}, 0, 0};
    int64_t index[30];
    uint8_t *x = some_elements(120, E), *u = some_elements(30, E), *y = NEW(uint8_t, 120 * E);
    uint8_t *want = NEW(uint8_t, 120 * E), *taken = NEW(uint8_t, 30 * E);
    for (int a = 0; a < 3; ++a) {
        g.xs[5 + a] = s.ys[5 + a] = a == axis ? 0 : step[a];
    }
    g.axis = s.axis = data[axis];
    g.step = s.step = step[axis];
    for (int i = 0; i < 30; ++i) {
        index[i] = some_index(data[axis]);
    }
    /* Numbers for the reductions; moved bytes may be anything. */
    for (int i = 0; R != AOT_SCATTER_NONE && i < 150; ++i) {
        uint8_t *to = i < 120 ? x + i * E : u + (i - 120) * E;
        const double v = (double)check_integer(-9, 9);
        const float f = i % 29 == 0 ? (float)NAN : (float)v;
        const double d = i % 29 == 0 ? (double)NAN : v;
        const int32_t i32 = (int32_t)v;
        const int64_t i64 = (int64_t)v;
        (void)memcpy(to,
                     T == AOT_SCATTER_F32   ? (const void *)&f
                     : T == AOT_SCATTER_F64 ? (const void *)&d
                     : T == AOT_SCATTER_S32 ? (const void *)&i32
                                            : (const void *)&i64,
                     (size_t)E);
    }
    (void)memcpy(want, x, (size_t)(120 * E));
    check_case("elements of %d bytes, axis %d, indices of %d, R %d, T %d", E, axis, I, R, T);
    for (int i = 0; i < 30; ++i) {
        int at[3] = {i / 10, i / 5 % 2, i % 5};
        int64_t j = meant(index[i], data[axis], 0);
        double a = 0.0, b = 0.0, r;
        at[axis] = (int)meant(index[i], data[axis], 1);
        put(taken, i, x, at[0] * 30 + at[1] * 6 + at[2], E);
        if (j < 0) {
            continue;
        }
        at[axis] = (int)j;
        j = at[0] * 30 + at[1] * 6 + at[2];
        if (R == AOT_SCATTER_NONE) {
            put(want, j, u, i, E);
            continue;
        }
        /* Small whole numbers are exact in each of the four types. */
        if (T == AOT_SCATTER_F32) {
            a = (double)((float *)want)[j], b = (double)((float *)u)[i];
        } else if (T == AOT_SCATTER_F64) {
            a = ((double *)want)[j], b = ((double *)u)[i];
        } else if (T == AOT_SCATTER_S32) {
            a = (double)((int32_t *)want)[j], b = (double)((int32_t *)u)[i];
        } else {
            a = (double)((int64_t *)want)[j], b = (double)((int64_t *)u)[i];
        }
        r = R == AOT_SCATTER_ADD   ? a + b
            : R == AOT_SCATTER_MUL ? a * b
            : isnan(a) || isnan(b) ? (double)NAN
            : R == AOT_SCATTER_MAX ? fmax(a, b)
                                   : fmin(a, b);
        if (T == AOT_SCATTER_F32) {
            ((float *)want)[j] = (float)r;
        } else if (T == AOT_SCATTER_F64) {
            ((double *)want)[j] = r;
        } else if (T == AOT_SCATTER_S32) {
            ((int32_t *)want)[j] = (int32_t)r;
        } else {
            ((int64_t *)want)[j] = (int64_t)r;
        }
    }
    aot_scatter_elements(y, x, indices(index, 30, I), u, &s, E, I, R, T);
    if (T == AOT_SCATTER_F32 || T == AOT_SCATTER_F64) {
        for (int i = 0; i < 120; ++i) {
            const double v = T == AOT_SCATTER_F32 ? (double)((float *)y)[i] : ((double *)y)[i];
            const double w =
                T == AOT_SCATTER_F32 ? (double)((float *)want)[i] : ((double *)want)[i];
            close_at("scattered", i, v, w, 0.0, 0.0);
        }
    } else {
        same_bytes("scattered", y, want, (size_t)(120 * E));
    }
    aot_gather_elements(y, x, indices(index, 30, I), &g, E, I);
    same_bytes("gathered", y, taken, (size_t)(30 * E));
    aot_scatter_elements(x, x, indices(index, 30, I), u, &s, E, I, R, T);
    if (R == AOT_SCATTER_NONE) {
        same_bytes("scattered in place", x, want, (size_t)(120 * E));
    }
    check_free();
}

/* By tuples of `depth` indices into [4][5][6][2]; a batch of two for gather. */
static void test_tuples(int E, int depth) {
    static const int32_t extent[3] = {4, 5, 6}, stride[3] = {60, 12, 2};
    const int32_t inner = depth == 0 ? 240 : stride[depth - 1], count = 7;
    aot_gather_nd_params g = {2, count, depth, inner, 240, {0}, {0}};
    aot_scatter_nd_params s = {(int64_t)240 * E, count, depth, inner, {0}, {0}};
    int64_t *index = NEW(int64_t, 2 * count * depth);
    uint8_t *x = some_elements(480, E), *u = some_elements((int64_t)count * inner, E);
    uint8_t *y = NEW(uint8_t, (int64_t)2 * count * inner * E), *to = NEW(uint8_t, 240 * E);
    uint8_t *taken = NEW(uint8_t, (int64_t)2 * count * inner * E), *want = NEW(uint8_t, 240 * E);
    check_case("tuples of %d indices, %d bytes", depth, E);
    (void)memcpy(g.extent, extent, sizeof extent);
    (void)memcpy(g.stride, stride, sizeof stride);
    (void)memcpy(s.extent, extent, sizeof extent);
    (void)memcpy(s.stride, stride, sizeof stride);
    for (int i = 0; i < 2 * count * depth; ++i) {
        index[i] = some_index(extent[i % depth]);
    }
    (void)memcpy(want, x, (size_t)(240 * E));
    for (int b = 0; b < 2; ++b) {
        for (int i = 0; i < count; ++i) {
            int64_t from = 0, place = 0;
            for (int d = 0; d < depth; ++d) {
                const int64_t v = index[(b * count + i) * depth + d];
                from += meant(v, extent[d], 1) * stride[d];
                place = place < 0 || meant(v, extent[d], 0) < 0
                            ? -1
                            : place + meant(v, extent[d], 0) * stride[d];
            }
            for (int j = 0; j < inner; ++j) {
                put(taken, ((int64_t)b * count + i) * inner + j, x, b * 240 + from + j, E);
                if (b == 0 && place >= 0) {
                    put(want, place + j, u, (int64_t)i * inner + j, E);
                }
            }
        }
    }
    aot_gather_nd(y, x, index, &g, E);
    same_bytes("gathered", y, taken, (size_t)(2 * count * inner * E));
    aot_scatter_nd(to, x, index, u, &s, E, AOT_SCATTER_NONE, AOT_SCATTER_ANY);
    same_bytes("scattered", to, want, (size_t)(240 * E));
    check_free();
}

/* Tuples that add to and multiply what is there; two of them mean the same element. */
static void test_tuples_reduce(void) {
    static const int64_t index[4] = {1, -2, 7, 2}; /* -2 is 1; 7 is nowhere */
    static const int32_t x[6] = {1, 2, 3, 4, 5, INT32_MAX}, u[8] = {10, 20, 3, 4, 9, 9, 6, 1};
    const aot_scatter_nd_params p = {24, 4, 1, 2, {3}, {2}};
    /* 3 + 10 + 3, 4 + 20 + 4; INT32_MAX + 1 wraps. 3 * 10 * 3, 4 * 20 * 4, 5 * 6. */
    static const int64_t sums[6] = {1, 2, 16, 28, 11, INT32_MIN};
    static const int64_t products[6] = {1, 2, 90, 320, 30, INT32_MAX};
    int32_t y[6];
    check_case("tuples, reduced");
    aot_scatter_nd(y, x, index, u, &p, 4, AOT_SCATTER_ADD, AOT_SCATTER_S32);
    same_s32("sums", y, sums, 6);
    aot_scatter_nd(y, x, index, u, &p, 4, AOT_SCATTER_MUL, AOT_SCATTER_S32);
    same_s32("products", y, products, 6);
}

/* What is checked is done, or with an index out of range not begun. */
static void test_checked(void) {
    static const int64_t second[4] = {4, -5, INT32_MAX, 1};
    const aot_gather_params g = {1, 4, 1, 2};
    const aot_gather_elements_params e = {
        {1, 1, 1, 1, 1, 1, 1, 2}, {0, 0, 0, 0, 0, 0, 0, 1}, {0}, 4, 1};
    const aot_gather_nd_params n = {1, 2, 1, 1, 4, {4}, {1}};
    const aot_scatter_elements_params s = {
        16, {1, 1, 1, 1, 1, 1, 1, 2}, {0, 0, 0, 0, 0, 0, 0, 1}, {0}, 4, 1};
    const aot_scatter_nd_params t = {16, 2, 1, 1, {4}, {1}};
    static const int32_t x[4] = {1, 2, 3, 4}, u[2] = {5, 6};
    check_case("checked");
    for (int k = 0; k < 4; ++k) {
        const int64_t index[2] = {-4, second[k]};
        const aot_status want = k == 3 ? AOT_OK : AOT_OUT_OF_RANGE;
        int32_t y[5][4] = {{0}};
        CHECK(aot_gather_checked(y[0], x, index, &g, 4, 8) == want);
        CHECK(aot_gather_elements_checked(y[1], x, index, &e, 4, 8) == want);
        CHECK(aot_gather_nd_checked(y[2], x, index, &n, 4) == want);
        CHECK(aot_scatter_elements_checked(y[3], x, index, u, &s, 4, 8, AOT_SCATTER_NONE,
                                           AOT_SCATTER_ANY) == want);
        CHECK(aot_scatter_nd_checked(y[4], x, index, u, &t, 4, AOT_SCATTER_NONE, AOT_SCATTER_ANY) ==
              want);
        for (int i = 0; i < 5; ++i) {
            CHECK((y[i][0] != 0) == (want == AOT_OK));
        }
    }
    check_free();
}

static void test_trilu(int E) {
    static const int64_t diagonals[] = {0, 1, -1, 3, -3, 100, -100, INT64_MAX, INT64_MIN};
    static const uint8_t zero[8] = {0};
    for (int k = 0; k < 36; ++k) {
        const int upper = k % 2, rows = k / 18 ? 5 : 3, cols = k / 18 ? 2 : 4;
        const int64_t d = diagonals[k / 2 % 9];
        const aot_trilu_params p = {2, rows, cols, upper};
        const int64_t n = (int64_t)2 * rows * cols;
        uint8_t *x = some_elements(n, E), *y = NEW(uint8_t, n * E), *want = NEW(uint8_t, n * E);
        check_case("triangle of %d x %d, upper %d, diagonal %d, %d bytes", rows, cols, upper,
                   k / 2 % 9, E);
        for (int64_t i = 0; i < n; ++i) {
            const int64_t beyond = i % cols - i / cols % rows;
            const int keep = upper ? beyond >= d : beyond <= d;
            put(want, i, keep ? x : zero, keep ? i : 0, E);
        }
        aot_trilu(y, x, &d, &p, E);
        same_bytes("y", y, want, (size_t)(n * E));
        check_free();
    }
}

/* Time before batch and behind it; lengths beyond the ends. */
static void test_reverse_sequence(int E) {
    static const int64_t lens[4] = {0, 3, 99, -5};
    for (int first = 0; first < 2; ++first) {
        const int32_t batch = 4, time = 5, inner = 3;
        const aot_reverse_sequence_params p = {batch, time, inner, first ? inner : time * inner,
                                               first ? batch * inner : inner};
        uint8_t *x = some_elements(60, E), *y = NEW(uint8_t, 60 * E), *want = NEW(uint8_t, 60 * E);
        check_case("reversed sequences, time first %d, %d bytes", first, E);
        for (int64_t i = 0; i < 60; ++i) {
            const int64_t b = first ? i / inner % batch : i / 15;
            const int64_t t = first ? i / 12 : i / inner % time;
            const int64_t length = lens[b] < 0 ? 0 : lens[b] > time ? time : lens[b];
            const int64_t from = t < length ? length - 1 - t : t;
            put(want, i, x, b * p.batch_s + from * p.time_s + i % inner, E);
        }
        aot_reverse_sequence(y, x, lens, &p, E);
        same_bytes("y", y, want, (size_t)(60 * E));
        check_free();
    }
}

static void test_one_hot(int E, int I) {
    static const int64_t index[6] = {0, 3, -1, 4, -4, -5};
    static const float floats[6] = {0.0F, 3.0F, -1.0F, 4.0F, -4.0F, (float)NAN};
    const aot_one_hot_params p = {2, 4, 3};
    uint8_t *values = some_elements(2, E), *y = NEW(uint8_t, 24 * E), *want = NEW(uint8_t, 24 * E);
    const void *idx = I == 0 ? (const void *)floats : indices(index, 6, I);
    const aot_fill_params f = {24};
    check_case("one-hot of %d bytes, indices of %d", E, I);
    for (int64_t i = 0; i < 24; ++i) {
        const int64_t v = index[i / 12 * 3 + i % 3];
        put(want, i, values, meant(v, 4, 0) == i / 3 % 4, E);
    }
    aot_one_hot(y, idx, values, &p, E, I);
    same_bytes("y", y, want, (size_t)(24 * E));
    aot_fill(y, values, &f, E);
    for (int64_t i = 0; i < 24; ++i) {
        put(want, i, values, 0, E);
    }
    same_bytes("filled", y, want, (size_t)(24 * E));
    check_free();
}

/* New rows of a cache from the places on; around its end if circular, else forced inside. */
static void test_tensor_scatter(int E, int circular, int with_places) {
    static const int64_t places[3] = {4, -3, 17};
    const aot_tensor_scatter_params p = {3, 2, 6, 4, 5};
    uint8_t *past = some_elements(180, E), *update = some_elements(120, E);
    uint8_t *y = NEW(uint8_t, 180 * E), *want = NEW(uint8_t, 180 * E);
    check_case("rows of a cache, %d bytes, circular %d, places %d", E, circular, with_places);
    (void)memcpy(want, past, (size_t)(180 * E));
    for (int64_t i = 0; i < 120; ++i) {
        const int64_t b = i / 40, o = i / 20 % 2, row = i / 5 % 4;
        int64_t first = with_places ? places[b] : 0;
        while (circular && first < 0) {
            first += 6;
        }
        first = circular ? first : first < 0 ? 0 : first > 2 ? 2 : first;
        put(want, ((b * 2 + o) * 6 + (first + row) % 6) * 5 + i % 5, update, i, E);
    }
    aot_tensor_scatter(y, past, update, with_places ? places : NULL, &p, circular, E);
    same_bytes("y", y, want, (size_t)(180 * E));
    aot_tensor_scatter(past, past, update, with_places ? places : NULL, &p, circular, E);
    same_bytes("y in place", past, want, (size_t)(180 * E));
    check_free();
}

/* MaxUnpool from [2][3][4] to a larger and a smaller corner; two planes; then indices out of range.
 */
static void test_unpool(int E, int larger) {
    const aot_unpool_params p = {6, 2, {2, 3, 4}, {larger ? 3 : 1, 3, larger ? 5 : 3}};
    int64_t index[6] = {0, 23, 24, 47, 11, 30};
    const int64_t wide = (int64_t)p.to[0] * p.to[1] * p.to[2];
    uint8_t *x = some_elements(6, E), *y = NEW(uint8_t, 2 * wide * E),
            *want = NEW(uint8_t, 2 * wide * E);
    check_case("unpool to %d elements of %d bytes", (int)wide, E);
    (void)memset(want, 0, (size_t)(2 * wide * E));
    for (int i = 0; i < 6; ++i) {
        const int64_t plane = index[i] / 24, a = index[i] / 12 % 2, b = index[i] / 4 % 3,
                      c = index[i] % 4;
        if (a < p.to[0] && c < p.to[2]) {
            put(want, plane * wide + (a * p.to[1] + b) * p.to[2] + c, x, i, E);
        }
    }
    CHECK(aot_unpool(y, x, index, &p, E) == AOT_OK);
    same_bytes("y", y, want, (size_t)(2 * wide * E));
    for (int k = 0; k < 2; ++k) {
        index[5] = k ? -1 : 48;
        CHECK(aot_unpool(y, x, index, &p, E) == AOT_OUT_OF_RANGE);
        same_bytes("y", y, want, (size_t)(2 * wide * E));
    }
    check_free();
}

int main(void) {
    for (int E = 1; E <= 8; E *= 2) {
        for (int I = 4; I <= 8; I += 4) {
            test_gather(E, I);
            for (int axis = 0; axis < 3; ++axis) {
                test_elements(E, I, axis, AOT_SCATTER_NONE, AOT_SCATTER_ANY);
            }
            test_one_hot(E, I);
        }
        for (int depth = 0; depth < 4; ++depth) {
            test_tuples(E, depth);
        }
        test_one_hot(E, AOT_ONE_HOT_FLOAT);
        test_trilu(E);
        test_reverse_sequence(E);
        for (int k = 0; k < 4; ++k) {
            test_tensor_scatter(E, k % 2, k / 2);
        }
        test_unpool(E, 0);
        test_unpool(E, 1);
    }
    for (int R = AOT_SCATTER_ADD; R <= AOT_SCATTER_MIN; ++R) {
        for (int T = AOT_SCATTER_F32; T <= AOT_SCATTER_S64; ++T) {
            const int E = T == AOT_SCATTER_F32 || T == AOT_SCATTER_S32 ? 4 : 8;
            for (int axis = 0; axis < 3; ++axis) {
                test_elements(E, 8, axis, R, T);
            }
        }
    }
    test_tuples_reduce();
    test_checked();
    return check_end();
}
