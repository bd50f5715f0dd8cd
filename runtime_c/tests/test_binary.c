/* SPDX-License-Identifier: MIT-0 */
/* Elementwise functions of two and three floating-point tensors with broadcasting. */
#include "broadcasts.h"

#include "aot_binary_f32.h"
#include "aot_math_f64.h"
#include "aot_rare_f32.h"
#include "aot_where.h"

typedef double (*formula)(double a, double b);

/* Operands with zeros, NaN and infinities among them. */
static void operand(float *x, ptrdiff_t n, double lo, double hi) {
    static const float special[] = {0.0F, 2.0F, -3.0F, 1.0F, -0.5F};
    for (ptrdiff_t i = 0; i < n; ++i) {
        const int64_t kind = check_integer(0, 19);
        x[i] = kind < 5    ? special[kind]
               : kind == 5 ? (float)NAN
               : kind == 6 ? (float)INFINITY
               : kind == 7 ? -(float)INFINITY
                           : (float)check_uniform(lo, hi);
    }
}

static double activated(double v, int act) {
    return act == 1 && v < 0.0 ? 0.0 : act == 2 && v < -1.5 ? -1.5 : act == 2 && v > 2.5 ? 2.5 : v;
}

typedef void (*run_f32)(float *y, const float *a, const float *b, const aot_broadcast2_params *p,
                        int ia, int ib, int act);
typedef void (*run_f64)(double *y, const double *a, const double *b, const aot_broadcast2_params *p,
                        int ia, int ib);

/* Every broadcast, for ACT 0 to `acts` - 1. */
static void test(const char *name, formula want, run_f32 single, run_f64 whole, int acts) {
    for (int k = 0; k < BROADCAST_CASES; ++k) {
        const broadcast *c = &broadcasts[k];
        const ptrdiff_t n = broadcast_elements(c);
        aot_broadcast2_params p = {{0}, {0}, {0}, -1.5F, 2.5F};
        const ptrdiff_t na = broadcast_strides(c, 0, p.sa), nb = broadcast_strides(c, 1, p.sb);
        float *a = NEW(float, na), *b = NEW(float, nb), *y = NEW(float, n);
        double *da = NEW(double, na), *db = NEW(double, nb), *dy = NEW(double, n);
        double *expected = NEW(double, n), *clipped = NEW(double, n);
        (void)memcpy(p.dims, c->dims, sizeof p.dims);
        operand(a, na, -4.0, 4.0);
        operand(b, nb, -4.0, 4.0);
        for (ptrdiff_t i = 0; i < na; ++i) {
            da[i] = (double)a[i];
        }
        for (ptrdiff_t i = 0; i < nb; ++i) {
            db[i] = (double)b[i];
        }
        for (ptrdiff_t i = 0; i < n; ++i) {
            expected[i] = want(da[broadcast_at(c, p.sa, i)], db[broadcast_at(c, p.sb, i)]);
        }
        for (int act = 0; act < acts; ++act) {
            check_case("%s_f32, broadcast %d, ACT %d", name, k, act);
            single(y, a, b, &p, c->has[0][5], c->has[1][5], act);
            for (ptrdiff_t i = 0; i < n; ++i) {
                clipped[i] = activated(expected[i], act);
            }
            close_f32("y", y, clipped, n, 2e-7, 3e-45);
        }
        check_case("%s_f64, broadcast %d", name, k);
        whole(dy, da, db, &p, c->has[0][5], c->has[1][5]);
        close_f64("y", dy, expected, n, 1e-12, 0.0);
        check_free();
    }
}

#define RUN_F64(NAME)                                                                              \
    static void f64_##NAME(double *y, const double *a, const double *b,                            \
                           const aot_broadcast2_params *p, int ia, int ib) {                       \
        aot_##NAME##_f64(y, a, b, p, ia, ib);                                                      \
    }
#define WANT(NAME, EXPR)                                                                           \
    static double want_##NAME(double a, double b) {                                                \
        return EXPR;                                                                               \
    }
#define BINARY(NAME, EXPR)                                                                         \
    static void f32_##NAME(float *y, const float *a, const float *b,                               \
                           const aot_broadcast2_params *p, int ia, int ib, int act) {              \
        if (act == 0) {                                                                            \
            aot_##NAME##_f32(y, a, b, p, ia, ib, 0);                                               \
        } else if (act == 1) {                                                                     \
            aot_##NAME##_f32(y, a, b, p, ia, ib, 1);                                               \
        } else {                                                                                   \
            aot_##NAME##_f32(y, a, b, p, ia, ib, 2);                                               \
        }                                                                                          \
    }                                                                                              \
    RUN_F64(NAME) WANT(NAME, EXPR)
#define RARE(NAME, EXPR)                                                                           \
    static void f32_##NAME(float *y, const float *a, const float *b,                               \
                           const aot_broadcast2_params *p, int ia, int ib, int act) {              \
        (void)act;                                                                                 \
        aot_##NAME##_f32(y, a, b, p, ia, ib);                                                      \
    }                                                                                              \
    RUN_F64(NAME) WANT(NAME, EXPR)

BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a *b)
BINARY(div, a / b)
BINARY(min, isnan(a) || isnan(b) ? (double)NAN : fmin(a, b))
BINARY(max, isnan(a) || isnan(b) ? (double)NAN : fmax(a, b))
BINARY(prelu, a < 0 ? a * b : a)
RARE(pow, pow(a, b))
RARE(fmod, fmod(a, b))

/* The remainder with the sign of the divisor: what C's has, moved by one divisor. */
static double remainder_of(double a, double b) {
    const double r = fmod(a, b);
    return r * b < 0.0 ? r + b : r;
}
RARE(mod, remainder_of(a, b))

/* y = act(a * b + c), the three operands broadcast in their own ways. */
static void test_muladd(void) {
    for (int k = 0; k < BROADCAST_CASES * 3; ++k) {
        const broadcast *s = &broadcasts[k / 3];
        const ptrdiff_t n = broadcast_elements(s);
        const int *last[3] = {&s->has[0][5], &s->has[1][5], &s->has[2][5]};
        aot_muladd_f32_params p = {{0}, {0}, {0}, {0}, -1.5F, 2.5F};
        const ptrdiff_t na = broadcast_strides(s, 0, p.sa), nb = broadcast_strides(s, 1, p.sb),
                        nc = broadcast_strides(s, 2, p.sc);
        float *a = NEW(float, na), *b = NEW(float, nb), *c = NEW(float, nc), *y = NEW(float, n);
        double *want = NEW(double, n);
        check_case("muladd, broadcast %d, ACT %d", k / 3, k % 3);
        (void)memcpy(p.dims, s->dims, sizeof p.dims);
        operand(a, na, -4.0, 4.0);
        operand(b, nb, -4.0, 4.0);
        operand(c, nc, -4.0, 4.0);
        aot_muladd_f32(y, a, b, c, &p, *last[0], *last[1], *last[2], k % 3);
        for (ptrdiff_t i = 0; i < n; ++i) {
            const double factor = (double)a[broadcast_at(s, p.sa, i)];
            const double v = factor * (double)b[broadcast_at(s, p.sb, i)];
            want[i] = activated(v + (double)c[broadcast_at(s, p.sc, i)], k % 3);
        }
        close_f32("y", y, want, n, 2e-7, 2e-6);
        check_free();
    }
}

/* y = a ? b : c for elements of 1, 2, 4 and 8 bytes. */
static void test_where(void) {
    for (int k = 0; k < BROADCAST_CASES * 4; ++k) {
        const broadcast *s = &broadcasts[k / 4];
        const ptrdiff_t n = broadcast_elements(s);
        const size_t size = (size_t)1 << (k % 4);
        const int ia = s->has[0][5], ib = s->has[1][5], ic = s->has[2][5];
        aot_broadcast3_params p = {{0}, {0}, {0}, {0}, 0.0F, 0.0F};
        const ptrdiff_t na = broadcast_strides(s, 0, p.sa), nb = broadcast_strides(s, 1, p.sb),
                        nc = broadcast_strides(s, 2, p.sc);
        uint8_t *a = NEW(uint8_t, na), *b = NEW(uint8_t, nb * 8), *c = NEW(uint8_t, nc * 8);
        uint8_t *y = NEW(uint8_t, n * 8), *want = NEW(uint8_t, n * 8);
        check_case("where of %lu bytes, broadcast %d", (unsigned long)size, k / 4);
        (void)memcpy(p.dims, s->dims, sizeof p.dims);
        fill_u8(a, na, 0, 2);
        fill_u8(b, nb * 8, 0, 255);
        fill_u8(c, nc * 8, 0, 255);
        if (size == 1) {
            aot_where_8(y, a, b, c, &p, ia, ib, ic);
        } else if (size == 2) {
            aot_where_16(y, a, b, c, &p, ia, ib, ic);
        } else if (size == 4) {
            aot_where_32(y, a, b, c, &p, ia, ib, ic);
        } else {
            aot_where_64(y, a, b, c, &p, ia, ib, ic);
        }
        for (ptrdiff_t i = 0; i < n; ++i) {
            const uint8_t *from = a[broadcast_at(s, p.sa, i)] != 0
                                      ? b + broadcast_at(s, p.sb, i) * (ptrdiff_t)size
                                      : c + broadcast_at(s, p.sc, i) * (ptrdiff_t)size;
            (void)memcpy(want + i * (ptrdiff_t)size, from, size);
        }
        same_bytes("y", y, want, (size_t)n * size);
        check_free();
    }
}

int main(void) {
#define TEST(NAME, ACTS) test(#NAME, want_##NAME, f32_##NAME, f64_##NAME, ACTS)
    TEST(add, 3);
    TEST(sub, 3);
    TEST(mul, 3);
    TEST(div, 3);
    TEST(min, 3);
    TEST(max, 3);
    TEST(prelu, 3);
    TEST(pow, 1);
    TEST(mod, 1);
    TEST(fmod, 1);
    test_muladd();
    test_where();
    return check_end();
}
