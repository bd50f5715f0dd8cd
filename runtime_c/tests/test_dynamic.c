/* SPDX-License-Identifier: MIT-0 */
/* Axes whose size a run decides: NonZero, padding, compact forms, parts, slices. */
#include "elements.h"

#include "aot_dynamic.h"

static void test_nonzero(int rank) {
    aot_nonzero_params p = {rank, {4, 3, 5, 1, 1, 1, 1, 1}, rank == 1 ? 4 : rank == 2 ? 12 : 60};
    uint8_t x[60];
    int64_t y[180], want[180] = {0}, n = -1, count = 0;
    check_case("nonzero of %d axes", rank);
    fill_u8(x, 60, 0, 2);
    for (int i = 0; i < p.count; ++i) {
        if (x[i] != 0) {
            const int at[3] = {rank == 3   ? i / 15
                               : rank == 2 ? i / 3
                                           : i,
                               rank == 3 ? i / 5 % 3 : i % 3, i % 5};
            for (int a = 0; a < rank; ++a) {
                want[a * p.count + count] = at[a];
            }
            ++count;
        }
    }
    aot_nonzero(y, &n, x, &p);
    same_s64("y", y, want, (ptrdiff_t)rank * p.count);
    same_at("number", 0, n, count);
}

/* What lies behind the extent becomes the filler. */
static void test_tail(int E, int64_t n, int in_place) {
    const aot_tail_params p = {3, 5, 4};
    const int64_t kept = n < 0 ? 0 : n > 5 ? 5 : n;
    uint8_t *x = some_elements(60, E), *fill = some_elements(1, E);
    uint8_t *y = NEW(uint8_t, 60 * E), *want = NEW(uint8_t, 60 * E);
    check_case("tail from %d on, %d bytes, in place %d", (int)n, E, in_place);
    for (int64_t i = 0; i < 60; ++i) {
        const int inside = i / 4 % 5 < kept;
        put(want, i, inside ? x : fill, inside ? i : 0, E);
    }
    aot_tail(in_place ? x : y, x, &n, fill, &p, E);
    same_bytes("y", in_place ? x : y, want, (size_t)(60 * E));
    check_free();
}

/* A tensor stored at its bound, and without gaps; forth and back. */
static void test_repack(int E, int a, int b, int c) {
    const aot_compact_params p = {3, {3, 4, 5}};
    const int64_t shape[3] = {a, b, c};
    static const uint8_t zero[8] = {0};
    uint8_t *x = some_elements(60, E), *y = NEW(uint8_t, 60 * E), *back = NEW(uint8_t, 60 * E);
    uint8_t *packed = NEW(uint8_t, 60 * E), *bound = NEW(uint8_t, 60 * E);
    int64_t count = 0;
    check_case("compact [%d, %d, %d] in [3, 4, 5], %d bytes", a, b, c, E);
    for (int64_t i = 0; i < 60; ++i) {
        put(packed, i, zero, 0, E);
    }
    for (int64_t i = 0; i < 60; ++i) {
        const int inside = i / 20 < a && i / 5 % 4 < b && i % 5 < c;
        put(bound, i, inside ? x : zero, inside ? i : 0, E);
        if (inside) {
            put(packed, count++, x, i, E);
        }
    }
    aot_compact(y, x, shape, &p, E);
    same_bytes("compact", y, packed, (size_t)(60 * E));
    aot_spread(back, y, shape, &p, E);
    same_bytes("spread", back, bound, (size_t)(60 * E));
    aot_compact(x, x, shape, &p, E);
    same_bytes("compact in place", x, packed, (size_t)(60 * E));
    check_free();
}

/* Three parts of a concatenation, of which the last but one is empty. */
static void test_join(int E) {
    static const int64_t n[3] = {2, 0, 3};
    uint8_t *y = NEW(uint8_t, 2 * 9 * 3 * E), *want = NEW(uint8_t, 2 * 9 * 3 * E);
    int64_t start = 0;
    check_case("join of %d bytes", E);
    (void)memset(want, 0, (size_t)(54 * E));
    for (int32_t part = 0; part < 3; ++part) {
        const aot_join_params p = {2, 9, 4, 3, part};
        uint8_t *x = some_elements(24, E);
        for (int64_t i = 0; i < 24; ++i) {
            const int64_t row = i / 3 % 4;
            if (row < n[part]) {
                put(want, (i / 12 * 9 + start + row) * 3 + i % 3, x, i, E);
            }
        }
        aot_join(y, x, n, &p, E);
        start += n[part];
    }
    same_bytes("y", y, want, (size_t)(54 * E));
    check_free();
}

/* Rows behind those that are there, as many as fit, elsewhere and in place. */
static void test_append(int E) {
    static const int64_t n = 3, m = 2;
    static const aot_append_params p = {2, 6, 4, 3};
    uint8_t *x = some_elements(36, E), *rows = some_elements(24, E);
    uint8_t *y = NEW(uint8_t, 36 * E), *want = NEW(uint8_t, 36 * E);
    check_case("append of %d bytes", E);
    (void)memcpy(want, x, (size_t)(36 * E));
    for (int64_t i = 0; i < 24; ++i) {
        if (i / 3 % 4 < m) {
            put(want, (i / 12 * 6 + n + i / 3 % 4) * 3 + i % 3, rows, i, E);
        }
    }
    aot_append(y, x, rows, &n, &m, &p, E);
    same_bytes("y", y, want, (size_t)(36 * E));
    aot_append(x, x, rows, &n, &m, &p, E);
    same_bytes("in place", x, want, (size_t)(36 * E));
    check_free();
}

/* The indices that a Slice of ONNX takes of an axis: from start, by step, before end. A start
 * beyond an end of the axis is that end (unlike in Python, also with a negative step). */
static int64_t taken(int64_t *at, int64_t size, int64_t start, int64_t end, int64_t step) {
    int64_t n = 0, i, stop;
    step = step == 0 ? 1 : step;
    start += start < 0 ? size : 0;
    stop = end < -size ? -1 : end < 0 ? end + size : end;
    i = start < 0 ? 0 : step < 0 && start > size - 1 ? size - 1 : start;
    for (; i >= 0 && i < size && (step > 0 ? i < stop : i > stop); i += step) {
        at[n++] = i;
    }
    return n;
}

static void test_cut(int E, int64_t start, int64_t end, int64_t step) {
    const aot_cut_params p = {2, 1, {1}, {3, 6}, {3, 6}};
    const int64_t shape[2] = {2, 5};
    int64_t at[6], out[2], count = taken(at, 5, start, end, step);
    uint8_t *x = some_elements(18, E), *y = NEW(uint8_t, 18 * E), *want = NEW(uint8_t, 18 * E);
    check_case("cut %ld:%ld:%ld of %d bytes", (long)start, (long)end, (long)step, E);
    (void)memset(want, 0, 18u * (unsigned char)E); /* gcc: E is at least 1 */
    for (int64_t i = 0; i < 2 * count; ++i) {
        put(want, i / count * 6 + i % count, x, i / count * 6 + at[i % count], E);
    }
    aot_cut(y, out, x, shape, &start, &end, &step, &p, E);
    same_bytes("y", y, want, (size_t)(18 * E));
    same_at("rows", 0, out[0], 2);
    same_at("columns", 1, out[1], count);
    check_free();
}

static void test_status(void) {
    const int64_t four = 4, five = 5, minus = -1;
    const aot_within_params p = {4};
    int64_t y = 0;
    check_case("status");
    CHECK(aot_require_equal(&y, &four, &four) == AOT_OK && y == 4);
    CHECK(aot_require_equal(&y, &five, &four) == AOT_BAD_SHAPE);
    CHECK(aot_within(&y, &four, &p) == AOT_OK && y == 4);
    CHECK(aot_within(&y, &five, &p) == AOT_BAD_SHAPE);
    CHECK(aot_within(&y, &minus, &p) == AOT_BAD_SHAPE);
}

int main(void) {
    static const int64_t ends[] = {INT64_MIN / 2, -6, -5, -3, -1, 0, 1, 2, 4, 5, 6, INT64_MAX / 2};
    static const int64_t steps[] = {1, 2, 7, -1, -2, -9, 0};
    for (int rank = 1; rank <= 3; ++rank) {
        test_nonzero(rank);
    }
    for (int E = 1; E <= 8; E *= 2) {
        for (int64_t n = -1; n < 8; ++n) {
            test_tail(E, n, 0);
            test_tail(E, n, 1);
        }
        for (int k = 0; k < 120; ++k) {
            test_repack(E, k / 30, k / 6 % 5, k % 6);
        }
        test_join(E);
        test_append(E);
        for (int k = 0; k < 12 * 12 * 7; ++k) {
            test_cut(E, ends[k % 12], ends[k / 12 % 12], steps[k / 144]);
        }
    }
    test_status();
    return check_end();
}
