/* SPDX-License-Identifier: MIT-0 */
/* Reductions, positions of extremes, running sums along the middle axis of [outer, axis, inner]. */
#include "check.h"

#include "aot_reduce.h"
#include "aot_reduce_f32.h"

static const int shapes[][3] = {{1, 1, 1}, {2, 7, 1},  {3, 16, 1},  {1, 300, 1},
                                {2, 1, 5}, {2, 5, 16}, {1, 70, 19}, {3, 4, 33},
                                {2, 0, 3}, {0, 4, 3},  {1, 67, 2}};
#define SHAPES (sizeof shapes / sizeof *shapes)
enum { SUM, PROD, MAX, MIN, LOGSUMEXP };

static double mapped(double x, int map) {
    return map == 1 ? fabs(x) : map == 2 ? x * x : x;
}

/* One line of n numbers `step` apart, reduced. `sum` gets the sum of magnitudes: error grows with
 * it. */
static double reduced(const double *x, ptrdiff_t n, ptrdiff_t step, int op, int map, double *sum) {
    double v = op == PROD  ? 1.0
               : op == MAX ? -(double)INFINITY
               : op == MIN ? (double)INFINITY
                           : 0.0;
    *sum = 0.0;
    for (ptrdiff_t i = 0; i < n; ++i) {
        const double e = mapped(x[i * step], map);
        *sum += fabs(e);
        v = op == SUM         ? v + e
            : op == PROD      ? v * e
            : op == LOGSUMEXP ? v + exp(e)
            : isnan(e)        ? e
            : op == MAX       ? (e > v ? e : v)
                              : (e < v ? e : v);
    }
    return op == LOGSUMEXP ? log(v) : v;
}
static double finished(double v, double count, int finish) {
    return finish == 1 ? v / count : finish == 2 ? sqrt(v) : finish == 3 ? log(v) : v;
}

typedef struct {
    int op, map, finish, kind;
} variant;
/* What ONNX's ReduceSum, Mean, L1, L2, LogSum, SumSquare, Prod, Max, Min, LogSumExp ask for, and
 * numbers (kind 0), NaN and infinities among them (1), positive numbers (2). */
static const variant variants[] = {
    {SUM, 0, 0, 0}, {SUM, 0, 0, 1},  {SUM, 0, 1, 0},  {SUM, 1, 0, 1},
    {SUM, 1, 0, 0}, {SUM, 2, 2, 0},  {SUM, 2, 2, 1},  {SUM, 0, 3, 2},
    {SUM, 2, 0, 0}, {PROD, 0, 0, 0}, {PROD, 0, 0, 1}, {MAX, 0, 0, 0},
    {MAX, 0, 0, 1}, {MIN, 0, 0, 0},  {MIN, 0, 0, 1},  {LOGSUMEXP, 0, 0, 0}};

static void call(const variant *v, const int *s, float *y, const float *x, double *y64,
                 const double *wide, double count) {
    const aot_reduce_f32_params p = {s[0], s[1], s[2], (float)count};
    const aot_reduce_params q = {s[0], s[1], s[2], (int64_t)count};
    if (v->op == SUM) {
        aot_reduce_sum_f32(y, x, &p, v->map, v->finish);
        aot_reduce_sum_f64(y64, wide, &q, v->map, v->finish);
    } else if (v->op == PROD) {
        aot_reduce_prod_f32(y, x, &p, v->map, v->finish);
        aot_reduce_prod_f64(y64, wide, &q, v->map, v->finish);
    } else if (v->op == MAX) {
        aot_reduce_max_f32(y, x, &p, v->map, v->finish);
        aot_reduce_max_f64(y64, wide, &q, v->map, v->finish);
    } else if (v->op == MIN) {
        aot_reduce_min_f32(y, x, &p, v->map, v->finish);
        aot_reduce_min_f64(y64, wide, &q, v->map, v->finish);
    } else {
        aot_reduce_logsumexp_f32(y, x, &p);
        aot_reduce_logsumexp_f64(y64, wide, &q);
    }
}

static void test_floats(const int *s, const variant *v) {
    const ptrdiff_t inner = s[2], results = s[0] * inner, n = results * s[1];
    const double count = s[1] > 0 ? 2.0 * s[1] : 1.0, scale = v->op == PROD ? 1e-5 : 1e-6;
    float *x = NEW(float, n), *y = NEW(float, results);
    double *wide = NEW(double, n), *y64 = NEW(double, results);
    check_case(
        "reduce %d (sum, prod, max, min, logsumexp), [%d, %d, %d], MAP %d, FINISH %d, kind %d",
        v->op, s[0], s[1], s[2], v->map, v->finish, v->kind);
    fill_f32(x, n, v->op == PROD ? 0.9 : v->kind == 2 ? 0.1 : -3.0, v->op == PROD ? 1.1 : 3.0);
    for (ptrdiff_t i = 0; i < n; ++i) {
        const int64_t which = v->kind == 1 ? check_integer(0, 40) : 9;
        x[i] = which == 0 ? (float)NAN : which == 1 ? (float)INFINITY : which == 2 ? -1e18F : x[i];
        wide[i] = (double)x[i];
    }
    call(v, s, y, x, y64, wide, count);
    for (ptrdiff_t i = 0; i < results; ++i) {
        double sum;
        const double *line = wide + i / inner * s[1] * inner + i % inner;
        const double r = reduced(line, s[1], inner, v->op, v->map, &sum);
        const double want = finished(r, count, v->finish);
        const int exact = v->op == MAX || v->op == MIN,
                  log_of = v->finish == 3 || v->op == LOGSUMEXP;
        /* Rounding errors are as large as the terms; those of a mean or of a root are smaller. */
        const double error = exact                                      ? 0.0
                             : v->op != SUM || isinf(sum) || isnan(sum) ? 1e-6
                                                                        : 1e-6 * sum;
        const double slack = log_of           ? 2e-6
                             : v->finish == 1 ? error / count
                             : v->finish == 2 ? 0.0
                                              : error;
        const double got = check_single(want);
        close_at("y", i, (double)y[i], got, exact ? 0.0 : scale, slack);
        close_at("y of float64", i, y64[i], want, 1e-11, slack * 1e-5);
    }
    check_free();
}

/* Integers: 8 to 64 bits wrap, so that the low bits of a sum in 64 are the sum's. */
#define INTEGERS(SHORT, T, LO, HI)                                                                 \
    static void test_##SHORT(const int *s) {                                                       \
        const ptrdiff_t axis = s[1], inner = s[2], lines = s[0] * inner, n = lines * axis;         \
        const aot_reduce_params p = {s[0], s[1], s[2], 7};                                         \
        T *x = NEW(T, n), *y[7];                                                                   \
        check_case("reduce of %s, [%d, %d, %d]", #SHORT, s[0], s[1], s[2]);                        \
        for (ptrdiff_t i = 0; i < n; ++i) {                                                        \
            const int64_t which = check_integer(0, 9);                                             \
            x[i] = which == 0 ? LO : which == 1 ? HI : (T)check_integer(0, 90);                    \
        }                                                                                          \
        for (int k = 0; k < 7; ++k) {                                                              \
            y[k] = NEW(T, lines);                                                                  \
        }                                                                                          \
        aot_reduce_sum_##SHORT(y[0], x, &p, 0, 0);                                                 \
        aot_reduce_sum_##SHORT(y[1], x, &p, 1, 0);                                                 \
        aot_reduce_sum_##SHORT(y[2], x, &p, 2, 0);                                                 \
        aot_reduce_sum_##SHORT(y[3], x, &p, 0, 1);                                                 \
        aot_reduce_prod_##SHORT(y[4], x, &p, 0, 0);                                                \
        aot_reduce_max_##SHORT(y[5], x, &p, 0, 0);                                                 \
        aot_reduce_min_##SHORT(y[6], x, &p, 0, 0);                                                 \
        for (ptrdiff_t i = 0; i < lines; ++i) {                                                    \
            uint64_t sum = 0, magnitude = 0, squares = 0, product = 1;                             \
            T top = LO, bottom = HI;                                                               \
            for (ptrdiff_t k = 0; k < axis; ++k) {                                                 \
                const T v = x[i / inner * axis * inner + k * inner + i % inner];                   \
                sum += (uint64_t)v;                                                                \
                magnitude += v > 0 ? (uint64_t)v : 0U - (uint64_t)v;                               \
                squares += (uint64_t)v * (uint64_t)v;                                              \
                product *= (uint64_t)v;                                                            \
                top = v > top ? v : top;                                                           \
                bottom = v < bottom ? v : bottom;                                                  \
            }                                                                                      \
            same_at("sum", i, (int64_t)y[0][i], (int64_t)(T)sum);                                  \
            same_at("sum of magnitudes", i, (int64_t)y[1][i], (int64_t)(T)magnitude);              \
            same_at("sum of squares", i, (int64_t)y[2][i], (int64_t)(T)squares);                   \
            same_at("mean", i, (int64_t)y[3][i], (int64_t)(T)((T)sum / 7));                        \
            same_at("product", i, (int64_t)y[4][i], (int64_t)(T)product);                          \
            same_at("maximum", i, (int64_t)y[5][i], (int64_t)top);                                 \
            same_at("minimum", i, (int64_t)y[6][i], (int64_t)bottom);                              \
        }                                                                                          \
        check_free();                                                                              \
    }
INTEGERS(s8, int8_t, INT8_MIN, INT8_MAX)
INTEGERS(s16, int16_t, INT16_MIN, INT16_MAX)
INTEGERS(s32, int32_t, INT32_MIN, INT32_MAX)
INTEGERS(s64, int64_t, INT64_MIN, INT64_MAX)
INTEGERS(u8, uint8_t, 0, UINT8_MAX)
INTEGERS(u16, uint16_t, 0, UINT16_MAX)
INTEGERS(u32, uint32_t, 0, UINT32_MAX)
INTEGERS(u64, uint64_t, 0, UINT64_MAX)

/* Any and all of bytes, of which every one but zero is true; the root of a sum of squares. */
static void test_special(void) {
    const aot_reduce_params p = {2, 3, 2, 1};
    static const uint8_t x[12] = {0, 7, 0, 255, 0, 1, 2, 0, 0, 0, 3, 0};
    static const int32_t v[12] = {3, 1, 4, 0, 0, 0, 5, 2, 5, 2, 7, 9};
    static const int64_t any[4] = {0, 1, 1, 0}, all[4] = {0, 1, 0, 0};
    /* floor of sqrt: 9 + 16, 1, 25 + 25 + 49 = 99, 4 + 4 + 81 = 89 */
    static const int64_t roots[4] = {5, 1, 9, 9};
    uint8_t y[4];
    int32_t r[4];
    check_case("any, all and roots");
    aot_reduce_max_b8(y, x, &p, 0, 0);
    same_u8("any", y, any, 4);
    aot_reduce_min_b8(y, x, &p, 0, 0);
    same_u8("all", y, all, 4);
    aot_reduce_sum_s32(r, v, &p, 2, 2);
    same_s32("root", r, roots, 4);
}

/* The position of an extreme: what no other beats, counted by comparing it with all others. */
#define POSITIONS(SHORT, T, ANY)                                                                   \
    static void positions_##SHORT(const int *s) {                                                  \
        const ptrdiff_t axis = s[1], inner = s[2], lines = s[0] * inner, n = lines * axis;         \
        const aot_reduce_params p = {s[0], s[1], s[2], 1};                                         \
        T *x = NEW(T, n);                                                                          \
        int64_t *y = NEW(int64_t, lines);                                                          \
        for (ptrdiff_t i = 0; i < n; ++i) {                                                        \
            x[i] = (T)(ANY);                                                                       \
        }                                                                                          \
        for (int mode = 0; mode < 4; ++mode) {                                                     \
            const int least = mode & 1, last = mode >> 1;                                          \
            check_case("position in %s, [%d, %d, %d], MIN %d, LAST %d", #SHORT, s[0], s[1], s[2],  \
                       least, last);                                                               \
            aot_arg_##SHORT(y, x, &p, least, last);                                                \
            for (ptrdiff_t i = 0; i < lines; ++i) {                                                \
                const T *line = x + i / inner * axis * inner + i % inner;                          \
                ptrdiff_t want = 0, found = 0;                                                     \
                for (ptrdiff_t k = 0; k < axis; ++k) {                                             \
                    const T v = line[k * inner];                                                   \
                    int best = 1;                                                                  \
                    for (ptrdiff_t j = 0; j < axis; ++j) {                                         \
                        const T o = line[j * inner];                                               \
                        /* A number that is not equal to itself beats all that are. */             \
                        best = best && (!(v >= v) || (o >= o && (least ? v <= o : v >= o)));       \
                    }                                                                              \
                    want = best && (last || !found) ? k : want;                                    \
                    found = found || best;                                                         \
                }                                                                                  \
                same_at("position", i, y[i], want);                                                \
            }                                                                                      \
        }                                                                                          \
        check_free();                                                                              \
    }
POSITIONS(s8, int8_t, check_integer(-9, 9))
POSITIONS(s16, int16_t, check_integer(-9, 9))
POSITIONS(s32, int32_t, check_integer(-9, 9))
POSITIONS(s64, int64_t, check_integer(-9, 9))
POSITIONS(u8, uint8_t, check_integer(0, 200))
POSITIONS(u16, uint16_t, check_integer(0, 9))
POSITIONS(u32, uint32_t, check_integer(0, 9))
POSITIONS(u64, uint64_t, check_integer(0, 9))
POSITIONS(f32, float, check_random() % 13 ? (double)check_integer(-9, 9) : (double)NAN)
POSITIONS(f64, double, check_random() % 13 ? (double)check_integer(-9, 9) : (double)NAN)

#define HARDMAX(SHORT, T)                                                                          \
    static void hardmax_##SHORT(const int *s) {                                                    \
        const ptrdiff_t axis = s[1], inner = s[2], lines = s[0] * inner, n = lines * axis;         \
        const aot_reduce_params p = {s[0], s[1], s[2], 1};                                         \
        T *x = NEW(T, n), *y = NEW(T, n);                                                          \
        check_case("hardmax of %s, [%d, %d, %d]", #SHORT, s[0], s[1], s[2]);                       \
        for (ptrdiff_t i = 0; i < n; ++i) {                                                        \
            x[i] = (T)check_integer(-5, 5);                                                        \
        }                                                                                          \
        aot_hardmax_##SHORT(y, x, &p);                                                             \
        for (ptrdiff_t i = 0; i < n; ++i) {                                                        \
            const ptrdiff_t k = i / inner % axis;                                                  \
            const T *line = x + i - k * inner;                                                     \
            int first = 1;                                                                         \
            for (ptrdiff_t j = 0; j < axis; ++j) {                                                 \
                const T o = line[j * inner];                                                       \
                first = first && (j < k ? x[i] > o : x[i] >= o);                                   \
            }                                                                                      \
            same_at("y", i, (int64_t)y[i], first);                                                 \
        }                                                                                          \
        check_free();                                                                              \
    }
HARDMAX(f32, float)
HARDMAX(f64, double)

/* Running sums and products: the sum of what stands before each element (or behind it). */
#define RUNNING(SHORT, T, TW)                                                                      \
    static void running_##SHORT(const int *s) {                                                    \
        const ptrdiff_t axis = s[1], inner = s[2], n = s[0] * axis * inner;                        \
        const aot_reduce_params p = {s[0], s[1], s[2], 1};                                         \
        T *x = NEW(T, n), *sums = NEW(T, n), *products = NEW(T, n);                                \
        for (int mode = 0; mode < 4; ++mode) {                                                     \
            const int exclusive = mode & 1, reverse = mode >> 1;                                   \
            check_case("running sum of %s, [%d, %d, %d], EXCLUSIVE %d, REVERSE %d", #SHORT, s[0],  \
                       s[1], s[2], exclusive, reverse);                                            \
            for (ptrdiff_t i = 0; i < n; ++i) {                                                    \
                x[i] = (T)check_integer(1, 3);                                                     \
            }                                                                                      \
            aot_cumsum_##SHORT(sums, x, &p, exclusive, reverse);                                   \
            aot_cumprod_##SHORT(products, x, &p, exclusive, reverse);                              \
            for (ptrdiff_t i = 0; i < n; ++i) {                                                    \
                const ptrdiff_t k = i / inner % axis;                                              \
                TW sum = 0, product = 1;                                                           \
                for (ptrdiff_t j = reverse ? axis - 1 : 0; j != k; j += reverse ? -1 : 1) {        \
                    sum += (TW)x[i + (j - k) * inner];                                             \
                    product *= (TW)x[i + (j - k) * inner];                                         \
                }                                                                                  \
                sum += exclusive ? (TW)0 : (TW)x[i];                                               \
                product *= exclusive ? (TW)1 : (TW)x[i];                                           \
                CHECK(sums[i] >= (T)sum && sums[i] <= (T)sum);                                     \
                CHECK(check_close((double)products[i], (double)(T)product, 1e-6, 0.0));            \
            }                                                                                      \
            aot_cumsum_##SHORT(x, x, &p, exclusive, reverse);                                      \
            same_bytes("y in place", x, sums, (size_t)n * sizeof(T));                              \
        }                                                                                          \
        check_free();                                                                              \
    }
RUNNING(f32, float, double)
RUNNING(f64, double, double)
RUNNING(s32, int32_t, uint32_t)
RUNNING(s64, int64_t, uint64_t)
RUNNING(u32, uint32_t, uint32_t)
RUNNING(u64, uint64_t, uint64_t)

int main(void) {
    static void (*const tests[])(const int *) = {
        test_s8,      test_s16,      test_s32,      test_s64,      test_u8,       test_u16,
        test_u32,     test_u64,      positions_s8,  positions_s16, positions_s32, positions_s64,
        positions_u8, positions_u16, positions_u32, positions_u64, positions_f32, positions_f64,
        hardmax_f32,  hardmax_f64,   running_f32,   running_f64,   running_s32,   running_s64,
        running_u32,  running_u64};
    for (size_t s = 0; s < SHAPES; ++s) {
        for (size_t v = 0; v < sizeof variants / sizeof *variants; ++v) {
            test_floats(shapes[s], &variants[v]);
        }
        for (size_t t = 0; t < sizeof tests / sizeof *tests; ++t) {
            tests[t](shapes[s]);
        }
    }
    test_special();
    return check_end();
}
