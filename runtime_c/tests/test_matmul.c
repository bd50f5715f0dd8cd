/* SPDX-License-Identifier: MIT-0 */
/* Matrix products: constant weights, two activations, any strides, einsum.
 */
#include "convolution.h"

#include "aot_det.h"
#include "aot_einsum.h"
#include "aot_gemm_f32.h"
#include "aot_gemm_rows_f32.h"
#include "aot_matmul_f32.h"
#include "aot_matmul_f32_ref.h"
#include "aot_matmul_f32_sized.h"
#include "aot_matmul_f64_ref.h"
#include "aot_matmul_s32_ref.h"
#include "aot_matmul_s64_ref.h"
#include "aot_matmul_u32_ref.h"
#include "aot_matmul_u64_ref.h"
#include "aot_panels_f32.h"

#define V AOT_VLEN

static const int tiles[5][2] = {{14, 2}, {6, 4}, {6, 2}, {4, 4}, {4, 2}};

/* y = act(x * w + bias + r) with rows of x and y that have gaps. */
static void test_gemm(int m, int n, int k, int tile, int act, int added) {
    const int P = tiles[tile][0], O = tiles[tile][1], wide = n + 3, deep = k + 2;
    const aot_gemm_f32_params p = {m, n, k, deep, wide, act, 0.25F, 0.75F};
    float *x = NEW(float, m *deep), *w = NEW(float, k *n), *bias = NEW(float, n);
    float *y = NEW(float, (m - 1) * wide + n), *r = NEW(float, m *wide);
    double *want = NEW(double, m *n), *size = NEW(double, m *n);
    const float *whole, *packed, *plus = added ? r : NULL;
    const int ACT = act > AOT_ACT_CLAMP;
    check_case("gemm [%d, %d, %d], tile %dx%d, act %d, r %d", m, n, k, P, O, act, added);
    fill_f32(x, m * deep, -1.0, 1.0);
    fill_f32(w, k * n, -1.0, 1.0);
    fill_f32(bias, n, -1.0, 1.0);
    fill_f32(r, m * wide, -1.0, 1.0);
    whole = padded_bias(bias, n, V);
    packed = to_panels(w, k, n, V, O);
    for (int i = 0; i < m * n; ++i) {
        want[i] = (double)bias[i % n] + (added ? (double)r[i / n * wide + i % n] : 0.0);
        size[i] = fabs(want[i]);
        for (int t = 0; t < k; ++t) {
            const double v = (double)x[i / n * deep + t] * (double)w[t * n + i % n];
            want[i] += v;
            size[i] += fabs(v);
        }
    }
    for (int again = 0; again < 1 + added; ++again) {
        float *to = again ? r : y; /* y may be r */
        if (tile == 0) {
            aot_gemm_f32(to, x, packed, whole, plus, &p, 14, 2, ACT);
        } else if (tile == 1) {
            aot_gemm_f32(to, x, packed, whole, plus, &p, 6, 4, ACT);
        } else if (tile == 2) {
            aot_gemm_f32(to, x, packed, whole, plus, &p, 6, 2, ACT);
        } else if (tile == 3) {
            aot_gemm_f32(to, x, packed, whole, plus, &p, 4, 4, ACT);
        } else {
            aot_gemm_f32(to, x, packed, whole, plus, &p, 4, 2, ACT);
        }
        for (int i = 0; i < m * n; ++i) {
            const double w1 = activated(want[i], act, 0.25, 0.75);
            close_at(again ? "y in place" : "y", i, (double)to[i / n * wide + i % n], w1, 0.0,
                     1e-6 * (1.0 + size[i]));
        }
    }
    check_free();
}

/* The same with weights as they are stored, transposed or not, in blocks of k. */
static void test_rows(int m, int n, int k, int act, int rows) {
    const int wide = n + 3, deep = k + 2, block = rows ? 4 * V : AOT_GEMM_RUN;
    const int floats = rows ? (k + AOT_GEMM_ROWS_COLUMNS) * blocks(m < block ? m : block, V) * V
                            : (k < block ? k : block) * 4 * V;
    const aot_gemm_rows_f32_params p = {m, n, k, deep, wide, act, 0.25F, 0.75F, block};
    float *x = NEW(float, m *deep), *w = NEW(float, k *n), *bias = NEW(float, n);
    float *y = NEW(float, m *wide), *scratch = NEW(float, floats);
    double *want = NEW(double, m *n), *size = NEW(double, m *n);
    const float *whole;
    check_case("gemm rows [%d, %d, %d], act %d, transposed %d", m, n, k, act, rows);
    fill_f32(x, m * deep, -1.0, 1.0);
    fill_f32(w, k * n, -1.0, 1.0);
    fill_f32(bias, n, -1.0, 1.0);
    fill_f32(y, m * wide, -1.0, 1.0);
    whole = padded_bias(bias, n, V);
    for (int i = 0; i < m * n; ++i) {
        want[i] = (double)bias[i % n] + (double)y[i / n * wide + i % n];
        size[i] = fabs(want[i]);
        for (int t = 0; t < k; ++t) {
            const int at = rows ? i % n * k + t : t * n + i % n;
            const double v = (double)x[i / n * deep + t] * (double)w[at];
            want[i] += v;
            size[i] += fabs(v);
        }
    }
    if (rows) {
        aot_gemm_rows_f32(y, x, w, whole, y, scratch, &p, 6, 4, act > AOT_ACT_CLAMP, 1);
    } else {
        aot_gemm_rows_f32(y, x, w, whole, y, scratch, &p, 14, 2, act > AOT_ACT_CLAMP, 0);
    }
    for (int i = 0; i < m * n; ++i) {
        const double to = activated(want[i], act, 0.25, 0.75);
        close_at("y", i, (double)y[i / n * wide + i % n], to, 0.0, 1e-6 * (1.0 + size[i]));
    }
    check_free();
}

/* Batches of which one operand is broadcast; b and y may be transposed views. */
static void test_matmul(int m, int n, int k, int tile, int transposed) {
    const int P = tiles[tile][0], O = tiles[tile][1], vectors = blocks(n, V);
    const int block = AOT_GEMM_RUN, group = O < vectors ? O : vectors;
    const aot_matmul_f32_params p = {m,
                                     n,
                                     k,
                                     {2, 1, 3},
                                     {m * k, 0, 0},
                                     {0, 0, k * n},
                                     {3 * m * n, 0, m * n},
                                     k,
                                     transposed ? 1 : n,
                                     transposed ? k : 1,
                                     n,
                                     0.5F,
                                     block};
    float *a = NEW(float, 2 * m * k), *b = NEW(float, 3 * k * n), *y = NEW(float, 6 * m * n);
    float *scratch = NEW(float, (k < block ? k : block) * group * V);
    check_case("matmul [%d, %d, %d], tile %dx%d, transposed %d", m, n, k, P, O, transposed);
    fill_f32(a, 2 * m * k, -1.0, 1.0);
    fill_f32(b, 3 * k * n, -1.0, 1.0);
    if (tile == 0) {
        aot_matmul_f32(y, a, b, scratch, &p, 14, 2);
    } else if (tile == 1) {
        aot_matmul_f32(y, a, b, scratch, &p, 6, 4);
    } else if (tile == 2) {
        aot_matmul_f32(y, a, b, scratch, &p, 6, 2);
    } else if (tile == 3) {
        aot_matmul_f32(y, a, b, scratch, &p, 4, 4);
    } else {
        aot_matmul_f32(y, a, b, scratch, &p, 4, 2);
    }
    for (int i = 0; i < 6 * m * n; ++i) {
        const float *row = a + (i / (3 * m * n) * m + i / n % m) * k;
        const float *from = b + i / (m * n) % 3 * k * n;
        double want = 0.0, size = 0.0;
        for (int t = 0; t < k; ++t) {
            const double v =
                0.5 * (double)row[t] * (double)from[transposed ? i % n * k + t : t * n + i % n];
            want += v;
            size += fabs(v);
        }
        close_at("y", i, (double)y[i], want, 0.0, 1e-6 * (1.0 + size));
    }
    check_free();
}

/* alpha * a * b + beta * c with any strides: a is transposed, c has one row for all. */
#define REFERENCE(SHORT, T, TW, CLOSE)                                                             \
    static void reference_##SHORT(int with_c) {                                                    \
        const int m = 3, n = 5, k = 7;                                                             \
        const aot_matmul_##SHORT##_ref_params p = {m,                                              \
                                                   n,                                              \
                                                   k,                                              \
                                                   {2, 1, 2},                                      \
                                                   {m * k, 0, 0},                                  \
                                                   {0, 0, k * n},                                  \
                                                   {n, 0, 0},                                      \
                                                   {2 * m * n, 0, m * n},                          \
                                                   1,                                              \
                                                   m,                                              \
                                                   n,                                              \
                                                   1,                                              \
                                                   0,                                              \
                                                   1,                                              \
                                                   1,                                              \
                                                   m,                                              \
                                                   3.0,                                            \
                                                   -2.0};                                          \
        T a[42], b[70], c[10], y[60];                                                              \
        check_case("matmul of %s, c %d", #SHORT, with_c);                                          \
        for (int i = 0; i < 70; ++i) {                                                             \
            a[i % 42] = (T)check_integer(0, 1 << 20);                                              \
            b[i] = (T)check_integer(0, 1 << 20);                                                   \
            c[i % 10] = (T)check_integer(0, 1 << 20);                                              \
        }                                                                                          \
        aot_matmul_##SHORT##_ref(y, a, b, with_c ? c : NULL, &p);                                  \
        for (int i = 0; i < 60; ++i) {                                                             \
            /* y is stored transposed: [batch][n][m]. */                                           \
            const int row = i % m, column = i / m % n, first = i / 30, last = i / 15 % 2;          \
            TW want = 0;                                                                           \
            for (int t = 0; t < k; ++t) {                                                          \
                want += (TW)a[first * 21 + t * m + row] * (TW)b[last * 35 + t * n + column];       \
            }                                                                                      \
            want = 3 * want - (with_c ? 2 * (TW)c[first * n + column] : 0);                        \
            CLOSE;                                                                                 \
        }                                                                                          \
    }
/* Rows of b are contiguous: tiles, and what is left of them, add in the order of one sum. */
#define DENSE(SHORT, T, TW, SAME)                                                                  \
    static void dense_##SHORT(int m, int n, int with_c) {                                          \
        const int k = 9;                                                                           \
        const aot_matmul_##SHORT##_ref_params p = {m,   n,   k,     {1, 1, 1}, {0},   {0},         \
                                                   {0}, {0}, k + 1, 1,         n + 2, 1,           \
                                                   n,   1,   n + 3, 1,         2.0,   -3.0};       \
        T *a = NEW(T, m * (k + 1)), *b = NEW(T, k * (n + 2)), *c = NEW(T, m * n);                  \
        T *y = NEW(T, m * (n + 3));                                                                \
        check_case("matmul of %s by tiles, [%d, %d], c %d", #SHORT, m, n, with_c);                 \
        for (int i = 0; i < m * (k + 1); ++i) {                                                    \
            a[i] = (T)check_integer(0, 1 << 10);                                                   \
        }                                                                                          \
        for (int i = 0; i < k * (n + 2); ++i) {                                                    \
            b[i] = (T)check_integer(0, 1 << 10);                                                   \
        }                                                                                          \
        for (int i = 0; i < m * n; ++i) {                                                          \
            c[i] = (T)check_integer(0, 1 << 10);                                                   \
        }                                                                                          \
        aot_matmul_##SHORT##_ref(y, a, b, with_c ? c : NULL, &p);                                  \
        for (int i = 0; i < m * n; ++i) {                                                          \
            TW want = 0;                                                                           \
            for (int t = 0; t < k; ++t) {                                                          \
                want += (TW)a[i / n * (k + 1) + t] * (TW)b[t * (n + 2) + i % n];                   \
            }                                                                                      \
            want = 2 * want - (with_c ? 3 * (TW)c[i] : 0);                                         \
            same_at("y", i, (int64_t)y[i / n * (n + 3) + i % n], (int64_t)(T)want);                \
        }                                                                                          \
        check_free();                                                                              \
    }

#define EACH(SHORT, T, TW, CLOSE) REFERENCE(SHORT, T, TW, CLOSE) DENSE(SHORT, T, TW, CLOSE)
EACH(f32, float, double, close_at("y", i, (double)y[i], want, 2e-6, 0.0))
EACH(f64, double, double, close_at("y", i, y[i], want, 1e-14, 0.0))
EACH(s32, int32_t, uint32_t, same_at("y", i, y[i], (int32_t)want))
EACH(s64, int64_t, uint64_t, same_at("y", i, y[i], (int64_t)want))
EACH(u32, uint32_t, uint32_t, same_at("y", i, y[i], want))
EACH(u64, uint64_t, uint64_t, same_at("y", i, (int64_t)y[i], (int64_t)want))

/* "bij,bjk,k->bki": three operands, a sum over j; with fewer operands the others are 1. */
static void test_einsum(int operands) {
    const aot_einsum_params p = {{2, 5, 3, 1, 1, 1, 1, 1},  {12, 0, 4, 0, 0, 0, 0, 0},
                                 {20, 1, 0, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0, 0, 0},
                                 {1, 1, 1, 1, 1, 1, 1, 4},  {0, 0, 0, 0, 0, 0, 0, 1},
                                 {0, 0, 0, 0, 0, 0, 0, 5},  {0}};
    float a[24], b[40], c[5], y[30];
    double da[24], db[40], dc[5], dy[30];
    check_case("einsum of %d operands", operands);
    fill_f32(a, 24, -1.0, 1.0);
    fill_f32(b, 40, -1.0, 1.0);
    fill_f32(c, 5, -1.0, 1.0);
    for (int i = 0; i < 40; ++i) {
        da[i % 24] = (double)a[i % 24], db[i] = (double)b[i], dc[i % 5] = (double)c[i % 5];
    }
    aot_einsum_f32(y, a, b, c, &p, operands);
    aot_einsum_f64(dy, da, db, dc, &p, operands);
    for (int at = 0; at < 30; ++at) {
        const int batch = at / 15, k = at / 3 % 5, i = at % 3;
        double want = 0.0;
        for (int j = 0; j < 4; ++j) {
            want += da[(batch * 3 + i) * 4 + j] *
                    (operands > 1 ? db[(batch * 4 + j) * 5 + k] : 1.0) *
                    (operands > 2 ? dc[k] : 1.0);
        }
        close_at("float32", at, (double)y[at], want, 1e-6, 1e-6);
        close_at("float64", at, dy[at], want, 1e-13, 1e-13);
    }
}

/* The determinant by expansion along the first row. */
static double expanded(const double *a, int n, int row, unsigned used) {
    double det = 0.0, sign = 1.0;
    if (row == n) {
        return 1.0;
    }
    for (int j = 0; j < n; ++j) {
        if ((used >> j & 1U) == 0) {
            det += sign * a[row * n + j] * expanded(a, n, row + 1, used | 1U << j);
            sign = -sign;
        }
    }
    return det;
}

static void test_det(int n) {
    const aot_det_params p = {3, n};
    float *x = NEW(float, 3 * n * n), y[3];
    double *wide = NEW(double, 3 * n * n), *work = NEW(double, n *n), y64[3];
    check_case("determinants of %d rows", n);
    fill_f32(x, 3 * n * n, -2.0, 2.0);
    for (int i = 0; i < 3 * n * n; ++i) {
        /* The second matrix begins with a zero, the third has two equal rows. */
        x[i] = i == n * n ? 0.0F : i >= 2 * n * n + n && i < 2 * n * n + 2 * n ? x[i - n] : x[i];
        wide[i] = (double)x[i];
    }
    aot_det_f32(y, x, n > 0 ? work : NULL, &p);
    aot_det_f64(y64, wide, n > 0 ? work : NULL, &p);
    for (int b = 0; b < 3; ++b) {
        const double want = expanded(wide + b * n * n, n, 0, 0);
        close_at("float32", b, (double)y[b], want, 1e-6, 1e-12);
        close_at("float64", b, y64[b], want, 1e-12, 1e-12);
    }
    check_free();
}

/* Weights of a run in panels: two sections of 3 columns, each padded to 4, in panels of 5. */
static void test_panels(int plus) {
    const aot_panels_f32_params p = {2, 3, 4, 2, 2, 3, 1, 6, 3, 1};
    float x[36], more[36], y[60], want[60] = {0.0F};
    check_case("panels, plus %d", plus);
    fill_f32(x, 36, -1.0, 1.0);
    fill_f32(more, 36, -1.0, 1.0);
    for (int i = 0; i < 36; ++i) {
        const int column = i / 18 * 4 + i / 6 % 3, element = i % 6;
        want[column / 5 * 30 + element * 5 + column % 5] = plus && i < 18 ? x[i] + more[i] : x[i];
    }
    aot_panels_f32(y, x, plus ? more : NULL, &p, 5);
    same_bytes("y", y, want, sizeof y);
}

/* A product of which `size` columns or summands count: the bits of the whole one, padded with 0. */
static void test_sized(int m, int n, int k, int size, int along, int transposed) {
    const int given = size < 0 ? 0 : size, padded = along == 1 ? n : k;
    const aot_matmul_f32_sized_params p = {m,
                                           n,
                                           k,
                                           {2, 1, 1},
                                           {m * k, 0, 0},
                                           {k * n, 0, 0},
                                           {m * n, 0, 0},
                                           k,
                                           transposed ? 1 : n,
                                           transposed ? k : 1,
                                           n,
                                           0.5F,
                                           AOT_GEMM_RUN};
    const int64_t count = size;
    float *a = NEW(float, 2 * m * k), *b = NEW(float, 2 * k * n);
    float *y = NEW(float, 2 * m * n), *want = NEW(float, 2 * m * n);
    float *scratch = NEW(float, AOT_GEMM_RUN * 4 * V);
    check_case("sized %d of %d, along %d, [%d, %d, %d], %d", size, padded, along, m, n, k,
               transposed);
    fill_f32(a, 2 * m * k, -1.0, 1.0);
    fill_f32(b, 2 * k * n, -1.0, 1.0);
    fill_f32(y, 2 * m * n, -1.0, 1.0);
    for (int i = 0; i < 2 * m * k; ++i) {
        a[i] = along == 2 && i % k >= given ? 0.0F : a[i];
    }
    for (int i = 0; i < 2 * k * n; ++i) {
        const int row = transposed ? i % k : i / n % k, column = transposed ? i / k % n : i % n;
        b[i] = (along == 1 ? column : row) >= given ? 0.0F : b[i];
    }
    aot_matmul_f32(want, a, b, scratch, &p, 6, 4);
    if (along == 1) {
        aot_matmul_f32_sized(y, a, b, &count, scratch, &p, 6, 4, 1);
    } else {
        aot_matmul_f32_sized(y, a, b, &count, scratch, &p, 6, 4, 2);
    }
    same_bytes("y", y, want, (size_t)(2 * m * n) * sizeof *y);
    check_free();
}

int main(void) {
    static const int shapes[][3] = {{1, 1, 1},   {1, 70, 300}, {2, 16, 5},   {3, 33, 17},
                                    {7, 5, 520}, {15, 64, 9},  {29, 100, 3}, {4, 17, 256}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) {
        const int m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        for (int t = 0; t < 5; ++t) {
            test_gemm(m, n, k, t, AOT_ACT_NONE, 0);
            test_gemm(m, n, k, t, AOT_ACT_CLAMP, 1);
            test_gemm(m, n, k, t, AOT_ACT_SILU, 1);
            test_rows(m, n, k, t % 3 == 2 ? AOT_ACT_SILU : t % 3 ? AOT_ACT_CLAMP : 0, t > 1);
            test_matmul(m, n, k, t, 0);
            test_matmul(m, n, k, t, 1);
        }
        test_matmul(m, n, 0, 1, 0);
    }
    test_rows(70, 50, 19, AOT_ACT_CLAMP, 1);
    test_rows(134, 99, 300, AOT_ACT_NONE, 1);
    for (int i = 0; i < 4 * 9; ++i) {
        static const int sizes[] = {-1, 0, 1, 3, 4, 30, 65, 67, 99};
        test_sized(1, 67, 300, sizes[i / 4], 1 + i % 2, i / 2 % 2);
        test_sized(5, 67, 300, sizes[i / 4], 1 + i % 2, i / 2 % 2);
        test_sized(5, 37, 67, sizes[i / 4], 2, i / 2 % 2);
    }
    for (int c = 0; c < 2; ++c) {
        reference_f32(c);
        reference_f64(c);
        reference_s32(c);
        reference_s64(c);
        reference_u32(c);
        reference_u64(c);
        for (int i = 0; i < 6; ++i) {
            const int m = i % 2 ? 6 : 3, n = i / 2 ? i / 4 ? 64 : 43 : 8;
            dense_f32(m, n, c);
            dense_f64(m, n, c);
            dense_s32(m, n, c);
            dense_s64(m, n, c);
            dense_u32(m, n, c);
            dense_u64(m, n, c);
        }
        test_panels(c);
    }
    for (int n = 0; n < 6; ++n) {
        test_det(n);
    }
    test_einsum(1);
    test_einsum(2);
    test_einsum(3);
    return check_end();
}
