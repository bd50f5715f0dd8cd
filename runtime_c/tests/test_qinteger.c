/* SPDX-License-Identifier: MIT-0 */
/* Products whose zero point a run finds, with constant weights: by dot products and on vectors; and
 * products of two computed matrices. */
#include "quantised.h"

#include "aot_qdynamic.h"
#include "aot_qmatmul_ref.h"
#if AOT_VLEN > 1
#include "aot_matmulinteger__dot.h"
#include "aot_matmulinteger__vec.h"
#include "aot_qmatmul_s8__dot.h"
#endif

#define V AOT_VLEN

/* a [m][k] of type AT less its zero point times w [n][k] plus what every weight of a row lacks. */
typedef struct run {
    int m, k, n, AT, az;
    uint8_t zero[8];
    const uint8_t *a;
    const int8_t *w;
    const int32_t *lacking;
    int64_t *want;
} run;

static void compare(const run *r, const char *what, const int32_t *y) {
    for (int i = 0; i < r->m * r->n; ++i) {
        same_at(what, i, y[i], r->want[i]);
    }
}

#if AOT_VLEN > 1
static void dots(const run *r, int flip, int wz) {
    const int O = r->n > V ? 2 : 1, C = up_to(r->n, V);
    const aot_matmulinteger__dot_params p = {r->m, r->k, r->n};
    const int8_t *w = dot_weights(r->w, r->n, 1, r->k, O, V);
    const uint8_t *zero = r->az != 0 ? r->zero : NULL;
    int32_t *bias = NEW(int32_t, 2 * C), *sums = NEW(int32_t, C), *y = NEW(int32_t, r->m * r->n);
    void *scratch = NEW(int32_t, 2 * C + 16 + (r->m + 8) * (r->k + 1) + 64);
    for (int c = 0; c < r->n; ++c) {
        sums[c] = 0;
        for (int i = 0; i < r->k; ++i) {
            sums[c] += r->w[c * r->k + i] + r->lacking[c];
        }
        bias[c] = -flip * sums[c];
        bias[C + c] = r->lacking[c];
    }
    if (O == 2 && flip == 128 && wz) {
        aot_matmulinteger__dot(y, r->a, w, bias, sums, zero, scratch, &p, r->AT, 7, 2, 2, 128, 1,
                               1 << 16);
    } else {
        aot_matmulinteger__dot(y, r->a, w, bias, sums, zero, scratch, &p, r->AT, 3, 1, O, flip, wz,
                               3 * r->k);
    }
    compare(r, flip ? "dot products, unsigned" : "dot products", y);
}

static void vectors(const run *r, int pair, int wz) {
    const int O = r->n > V ? 2 : 1, P = r->m < 4 ? r->m : 4, C = up_to(r->n, O * V);
    const aot_matmulinteger__vec_params p = {r->m, r->k, r->n};
    const int8_t *w = vector_weights(r->w, r->n, r->k, O, V, pair);
    const uint8_t *zero = r->az != 0 ? r->zero : NULL;
    int32_t *lacking = NEW(int32_t, C), *zeros = NEW(int32_t, C), *y = NEW(int32_t, r->m * r->n);
    void *scratch = NEW(int16_t, P * up_to(r->k, 2));
    (void)memset(zeros, 0, (size_t)C * sizeof *zeros);
    (void)memcpy(lacking, r->lacking, (size_t)r->n * sizeof *lacking);
    aot_matmulinteger__vec(y, r->a, w, zeros, lacking, zero, scratch, &p, r->AT, wz, P, O, pair);
    compare(r, pair ? "vectors, pairs" : "vectors", y);
}

#endif

/* Products of b [k][n], of which nothing is known before. */
static void plain(const run *r) {
    const aot_matmulinteger_params p = {
        {1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, r->m, r->k, r->n, 0, 0};
    int8_t *b = NEW(int8_t, r->k * r->n);
    int32_t *y = NEW(int32_t, r->m * r->n);
    for (int i = 0; i < r->k * r->n; ++i) {
        b[i] = r->w[i % r->n * r->k + i / r->n];
    }
    aot_matmulinteger(y, r->a, b, r->az != 0 ? r->zero : NULL, NULL, &p, r->AT, 0);
    compare(r, "plain", y);
}

static void test(int m, int k, int n, int AT, int az, int wz) {
    run r = {m, k, n, AT, az, {(uint8_t)az}, NULL, NULL, NULL, NULL};
    uint8_t *a = NEW(uint8_t, m * k);
    int32_t *lacking = NEW(int32_t, n);
    int64_t *want = NEW(int64_t, m * n);
    check_case("integers %dx%dx%d, type %d, zero point %d, lacking %d", m, k, n, AT, az, wz);
    fill_u8(a, m * k, 0, 255);
    r.a = a;
    r.w = some_values(n * k, -128);
    r.lacking = lacking;
    r.want = want;
    for (int c = 0; c < n; ++c) {
        lacking[c] = wz ? (int32_t)check_integer(-120, 120) : 0;
    }
    for (int i = 0; i < m * n * k; ++i) {
        const int row = i / k / n, c = i / k % n;
        const uint8_t v = a[row * k + i % k];
        want[i / k] = i % k == 0 ? 0 : want[i / k];
        want[i / k] += ((AT ? v : (int8_t)v) - az) * (r.w[c * k + i % k] + lacking[c]);
    }
#if AOT_VLEN > 1
    dots(&r, 0, wz);
    dots(&r, 128, wz);
    vectors(&r, 0, wz);
    vectors(&r, 1, wz);
#endif
    if (!wz) {
        plain(&r);
    }
    check_free();
}

/* Two times three matrices of a with one of b for each three, against the kernel in plain C. */
static void matrices(int m, int k, int n, int b_zero, int flip) {
    enum { A = 6, B = 2 };
    const aot_qmatmul_ref_params p = {{1, 1, 1, 1, B, A / B},
                                      {0, 0, 0, 0, A / B * m * k, m * k},
                                      {0, 0, 0, 0, k * n, 0},
                                      m,
                                      k,
                                      n,
                                      5,
                                      b_zero,
                                      -7,
                                      -100,
                                      90};
    const int8_t *a = some_values(A * m * k, -128), *b = some_values(B * k * n, -128);
    const scales s = some_scales(0, 0, 1, 0.004);
    int8_t *y = NEW(int8_t, A * m * n), *want = NEW(int8_t, A * m * n);
    check_case("matrices %dx%dx%d, zero point %d, flip %d", m, k, n, b_zero, flip);
    aot_qmatmul_ref(want, a, b, s.mult, NULL, &p, 0, 0, 0, 0);
#if AOT_VLEN > 1
    const int C = up_to(n, V), O = n > V ? 2 : 1;
    void *scratch = NEW(int8_t, 8 * C + 128 + C * up_to(k, 4) + (m + 8) * (k + 4) + 128);
    if (O == 2 && flip == 128 && b_zero != 0) {
        aot_qmatmul_s8__dot(y, a, b, s.mult, NULL, scratch, &p, 0, 7, 2, 2, 128, 1, 1 << 16);
    } else {
        aot_qmatmul_s8__dot(y, a, b, s.mult, NULL, scratch, &p, 0, 3, 1, O, flip, b_zero != 0, 64);
    }
    for (int i = 0; i < A * m * n; ++i) {
        same_at("y", i, y[i], want[i]);
    }
#else
    (void)y;
#endif
    check_free();
}

int main(void) {
    for (int k = 0; k < 4; ++k) {
        matrices(9, 13, k % 2 ? 2 * V + 3 : 5, k < 2 ? 0 : -11, 128);
        matrices(9, 16, k % 2 ? V : 3 * V, k < 2 ? 0 : 30, 0);
    }
    for (int k = 0; k < 8; ++k) {
        test(k < 4 ? 1 : 17, 13, k % 2 ? 2 * V + 3 : 5, k / 2 % 2, k % 2 ? 77 : 0, k / 2 % 2);
    }
    test(2, 64, 4 * V, 1, 200, 0);
    return check_end();
}
