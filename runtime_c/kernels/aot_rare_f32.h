/* SPDX-License-Identifier: MIT-0 */
/* The less frequent functions of float32: aot_<name>_f32 for sin cos tan asin acos atan sinh cosh
 * asinh acosh atanh pow mod fmod. Each is computed in double by the series below to about 1e-11
 * and rounded once: within 0.51 ULP, the same bits on every compiler, no libm.
 *
 * y, x: p->n floats, any layout; y may be x. pow, mod and fmod broadcast as aot_broadcast.h says.
 */
#ifndef AOT_RARE_F32_H
#define AOT_RARE_F32_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot_broadcast.h"

typedef struct aot_rare_params {
    int64_t n; /* elements */
} aot_rare_params;

#define AOT_RARE_NAN ((double)NAN)
#define AOT_RARE_INF ((double)INFINITY)
#define AOT_RARE_HALF_PI 0x1.921fb54442d18p+0

AOT_INLINE uint64_t aot_rare_bits(double x) {
    uint64_t u;
    (void)memcpy(&u, &x, sizeof u);
    return u;
}
AOT_INLINE double aot_rare_double(uint64_t u) {
    double x;
    (void)memcpy(&x, &u, sizeof x);
    return x;
}
AOT_INLINE float aot_rare_float(uint32_t u) {
    float x;
    (void)memcpy(&x, &u, sizeof x);
    return x;
}
AOT_INLINE uint32_t aot_rare_float_bits(float x) {
    uint32_t u;
    (void)memcpy(&u, &x, sizeof u);
    return u;
}

/* 2^n for n in -1022..1023. */
AOT_INLINE double aot_rare_power_of_two(int n) {
    return aot_rare_double((uint64_t)(n + 1023) << 52);
}

static inline double aot_rare_exp(double x) {
    double t, n, r, p;
    int k;
    if (!(x > -745.0 && x < 709.0)) {
        return x >= 709.0 ? AOT_RARE_INF : x <= -745.0 ? 0.0 : x;
    }
    t = x * 1.4426950408889634 + 6755399441055744.0;
    n = t - 6755399441055744.0;
    k = (int)n;
    r = x - n * 0x1.62e42fefa39efp-1;
    p = 1.0 + r * (1.0 / 11.0);
    p = 1.0 + r * (1.0 / 10.0) * p;
    p = 1.0 + r * (1.0 / 9.0) * p;
    p = 1.0 + r * (1.0 / 8.0) * p;
    p = 1.0 + r * (1.0 / 7.0) * p;
    p = 1.0 + r * (1.0 / 6.0) * p;
    p = 1.0 + r * (1.0 / 5.0) * p;
    p = 1.0 + r * (1.0 / 4.0) * p;
    p = 1.0 + r * (1.0 / 3.0) * p;
    p = 1.0 + r * (1.0 / 2.0) * p;
    p = 1.0 + r * p;
    return p * aot_rare_power_of_two(k / 2) * aot_rare_power_of_two(k - k / 2);
}

/* Natural logarithm of a positive normal number. */
static inline double aot_rare_log(double x) {
    const uint64_t u = aot_rare_bits(x) + (UINT64_C(0x3FF0000000000000) - 0x3FE6A09E667F3BCD);
    const double e = (double)(int)(u >> 52) - 1023.0;
    const double m =
        aot_rare_double((u & UINT64_C(0x000FFFFFFFFFFFFF)) + UINT64_C(0x3FE6A09E667F3BCD));
    const double s = (m - 1.0) / (m + 1.0), q = s * s;
    double p = 1.0 / 15.0;
    p = p * q + 1.0 / 13.0;
    p = p * q + 1.0 / 11.0;
    p = p * q + 1.0 / 9.0;
    p = p * q + 1.0 / 7.0;
    p = p * q + 1.0 / 5.0;
    p = p * q + 1.0 / 3.0;
    return e * 0x1.62e42fefa39efp-1 + 2.0 * (s + s * q * p);
}

/* Bits 0..255 of the fraction 2 / pi. */
static const uint32_t aot_rare_two_over_pi[8] = {0xA2F9836EU, 0x4E441529U, 0xFC2757D1U,
                                                 0xF534DDC0U, 0xDB629599U, 0x3C439041U,
                                                 0xFE5163ABU, 0xDEBBC561U};

/* |x| = (4 * k + quadrant) * pi / 2 + *r, |*r| <= pi / 4. x finite. */
static inline int aot_rare_quadrant(float x, double *r) {
    const uint32_t bits = aot_rare_float_bits(x) & UINT32_C(0x7FFFFFFF);
    const int skip = (int)(bits >> 23) - 150 - 2; /* leading bits of 2 / pi that add whole turns */
    if (skip < 0) {
        const double a = (double)aot_rare_float(bits);
        const double n = (double)(int)(a * (1.0 / AOT_RARE_HALF_PI) + 0.5);
        /* pi / 2 in three parts, the first two of 28 bits: their products are exact. */
        *r = ((a - n * 0x1.921fb54p+0) - n * 0x1.10b461p-30) - n * 0x1.a62633145c06ep-58;
        return (int)n & 3;
    }
    {
        const uint32_t *w = aot_rare_two_over_pi + skip / 32;
        const uint32_t by = (uint32_t)skip % 32U;
        const uint64_t m = (bits & 0x7FFFFFU) | 0x800000U;
        const uint64_t w0 = (((uint64_t)w[0] << 32 | w[1]) << by) >> 32;
        const uint64_t w1 = (((uint64_t)w[1] << 32 | w[2]) << by) >> 32;
        const uint64_t w2 = (((uint64_t)w[2] << 32 | w[3]) << by) >> 32;
        const uint64_t low = m * w2;
        const uint64_t mid = m * w1 + (low >> 32);
        const uint64_t high = m * w0 + (mid >> 32);
        /* Two bits of quadrant, then the fraction: 62 bits of it. */
        const uint64_t turn = (high & 0xFFFFFFFFU) << 32 | (mid & 0xFFFFFFFFU);
        const int up = (turn & (UINT64_C(1) << 61)) != 0;
        const double f = (double)(turn & ((UINT64_C(1) << 62) - 1U));
        *r = (f - (up ? 4611686018427387904.0 : 0.0)) * 0x1.921fb54442d18p-62;
        return ((int)(turn >> 62) + up) & 3;
    }
}

AOT_INLINE double aot_rare_sin_of(double r) {
    const double q = r * r;
    double p = 1.0 - q * (1.0 / 210.0);
    p = 1.0 - q * (1.0 / 156.0) * p;
    p = 1.0 - q * (1.0 / 110.0) * p;
    p = 1.0 - q * (1.0 / 72.0) * p;
    p = 1.0 - q * (1.0 / 42.0) * p;
    p = 1.0 - q * (1.0 / 20.0) * p;
    return r - r * q * (1.0 / 6.0) * p;
}
AOT_INLINE double aot_rare_cos_of(double r) {
    const double q = r * r;
    double p = 1.0 - q * (1.0 / 182.0);
    p = 1.0 - q * (1.0 / 132.0) * p;
    p = 1.0 - q * (1.0 / 90.0) * p;
    p = 1.0 - q * (1.0 / 56.0) * p;
    p = 1.0 - q * (1.0 / 30.0) * p;
    p = 1.0 - q * (1.0 / 12.0) * p;
    return 1.0 - q * (1.0 / 2.0) * p;
}

/* sin(x) with SHIFT 0, cos(x) with SHIFT 1. */
static inline double aot_rare_wave(float x, int SHIFT) {
    double r, v;
    int k;
    if (!(fabsf(x) < (float)INFINITY)) {
        return AOT_RARE_NAN;
    }
    k = aot_rare_quadrant(x, &r) + SHIFT;
    v = (k & 1) != 0 ? aot_rare_cos_of(r) : aot_rare_sin_of(r);
    v = (k & 2) != 0 ? -v : v;
    return SHIFT == 0 && (x < 0.0F || (x <= 0.0F && 1.0F / x < 0.0F)) ? -v : v;
}

static inline double aot_rare_atan(double x) {
    const double m = fabs(x), a = m > 1.0 ? 1.0 / m : m;
    const int far = a > 0.41421356237309503;
    const double b = far ? (a - 1.0) / (a + 1.0) : a, q = b * b;
    /* (atan(b) / b - 1) / b^2 on |b| < 0.4143, minimax, error 2^-45 of atan(b). */
    double p = 0x1.f996249992425p-6;
    p = p * q - 0x1.e2658e1e532dcp-5;
    p = p * q + 0x1.35fafa36e38e9p-4;
    p = p * q - 0x1.73e0af14592eap-4;
    p = p * q + 0x1.c7156fc91d3ccp-4;
    p = p * q - 0x1.24922cf989f6bp-3;
    p = p * q + 0x1.9999992b94609p-3;
    p = p * q - 0x1.555555550bad7p-2;
    p = b + b * q * p + (far ? AOT_RARE_HALF_PI / 2.0 : 0.0);
    p = m > 1.0 ? AOT_RARE_HALF_PI - p : p;
    return x < 0.0 ? -p : x > 0.0 ? p : x;
}

AOT_INLINE double aot_rare_asin(double x) {
    return fabs(x) >= 1.0 ? (fabs(x) > 1.0 ? AOT_RARE_NAN : x * AOT_RARE_HALF_PI)
                          : aot_rare_atan(x / sqrt((1.0 - x) * (1.0 + x)));
}
AOT_INLINE double aot_rare_acos(double x) {
    return x > 0.5 && x < 1.0 ? aot_rare_atan(sqrt((1.0 - x) * (1.0 + x)) / x)
           : x >= 1.0         ? (x > 1.0 ? AOT_RARE_NAN : 0.0)
                              : AOT_RARE_HALF_PI - aot_rare_asin(x);
}
AOT_INLINE double aot_rare_sinh(double x) {
    const double e = aot_rare_exp(fabs(x)), q = x * x;
    if (fabs(x) < 0.2) {
        return x * (1.0 + q / 6.0 * (1.0 + q / 20.0 * (1.0 + q / 42.0 * (1.0 + q / 72.0))));
    }
    return x < 0.0 ? (1.0 / e - e) * 0.5 : (e - 1.0 / e) * 0.5;
}
AOT_INLINE double aot_rare_cosh(double x) {
    const double e = aot_rare_exp(fabs(x));
    return (e + 1.0 / e) * 0.5;
}
AOT_INLINE double aot_rare_asinh(double x) {
    const double m = fabs(x), q = x * x;
    double y;
    if (!(m < AOT_RARE_INF)) {
        return x;
    }
    if (m < 0.1) {
        y = 1.0 - q * (25.0 / 42.0) * (1.0 - q * (49.0 / 72.0) * (1.0 - q * (81.0 / 110.0)));
        y = 1.0 - q / 6.0 * (1.0 - q * (9.0 / 20.0) * y);
        return x * y;
    }
    y = aot_rare_log(m + sqrt(q + 1.0));
    return x < 0.0 ? -y : y;
}
AOT_INLINE double aot_rare_acosh(double x) {
    return !(x >= 1.0)        ? AOT_RARE_NAN
           : x < AOT_RARE_INF ? aot_rare_log(x + sqrt((x - 1.0) * (x + 1.0)))
                              : x;
}
AOT_INLINE double aot_rare_atanh(double x) {
    const double q = x * x;
    if (fabs(x) < 0.1) {
        return x * (1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q / 9.0))));
    }
    if (!(fabs(x) < 1.0)) {
        return fabs(x) <= 1.0 ? x * AOT_RARE_INF : AOT_RARE_NAN;
    }
    return 0.5 * aot_rare_log((1.0 + x) / (1.0 - x));
}

/* x^y with the special cases of C99's pow. */
static inline double aot_rare_pow(float x, float y) {
    const double m = fabs((double)x), a = fabs((double)y);
    const int whole = !(a < 8388608.0) || (double)(int)a >= a;
    const int odd = whole && a < 16777216.0 && ((int)a & 1) != 0;
    const int minus = (aot_rare_float_bits(x) >> 31) != 0 && odd;
    double r;
    if (a <= 0.0 || (x >= 1.0F && x <= 1.0F)) {
        return 1.0;
    }
    if (isnan(x) || isnan(y)) {
        return AOT_RARE_NAN;
    }
    if (a >= AOT_RARE_INF) {
        return m >= 1.0 && m <= 1.0 ? 1.0 : (m > 1.0) == (y > 0.0F) ? AOT_RARE_INF : 0.0;
    }
    if (m <= 0.0 || m >= AOT_RARE_INF) {
        r = (m <= 0.0) == (y > 0.0F) ? 0.0 : AOT_RARE_INF;
    } else if (x < 0.0F && !whole) {
        return AOT_RARE_NAN;
    } else {
        r = aot_rare_exp((double)y * aot_rare_log(m));
    }
    return minus ? -r : r;
}

/* The exact remainder of x / z with the sign of x. */
static inline float aot_rare_fmod(float x, float z) {
    const uint32_t sign = aot_rare_float_bits(x) & UINT32_C(0x80000000);
    uint32_t a = aot_rare_float_bits(x) & UINT32_C(0x7FFFFFFF);
    uint32_t b = aot_rare_float_bits(z) & UINT32_C(0x7FFFFFFF);
    int ea = (int)(a >> 23), eb = (int)(b >> 23);
    if (b == 0 || a >= 0x7F800000U || b > 0x7F800000U) {
        return (float)NAN;
    }
    if (a < b) {
        return x;
    }
    a = ea > 0 ? (a & 0x7FFFFFU) | 0x800000U : a;
    b = eb > 0 ? (b & 0x7FFFFFU) | 0x800000U : b;
    ea += ea == 0;
    eb += eb == 0;
    for (; ea > eb; --ea) {
        a = (a >= b ? a - b : a) << 1;
    }
    a = a >= b ? a - b : a;
    if (a == 0) {
        return aot_rare_float(sign);
    }
    for (; a < 0x800000U && ea > 1; --ea) {
        a <<= 1;
    }
    a = a >= 0x800000U ? (a & 0x7FFFFFU) | (uint32_t)ea << 23 : a;
    return aot_rare_float(sign | a);
}

/* The remainder with the sign of z. */
static inline float aot_rare_mod(float x, float z) {
    const float r = aot_rare_fmod(x, z);
    const int move = (r < 0.0F && z > 0.0F) || (r > 0.0F && z < 0.0F);
    return move ? r + z : r;
}

#define AOT_RARE1(NAME, EXPR)                                                                      \
    typedef aot_rare_params aot_##NAME##_f32_params;                                               \
    AOT_INLINE void aot_##NAME##_f32(float *y, const float *in, const aot_rare_params *p) {        \
        const ptrdiff_t n = (ptrdiff_t)p->n;                                                       \
        ptrdiff_t i;                                                                               \
        for (i = 0; i < n; ++i) {                                                                  \
            const float x = in[i];                                                                 \
            y[i] = (float)(EXPR);                                                                  \
        }                                                                                          \
    }
AOT_RARE1(sin, aot_rare_wave(x, 0))
AOT_RARE1(cos, aot_rare_wave(x, 1))
AOT_RARE1(tan, aot_rare_wave(x, 0) / aot_rare_wave(x, 1))
AOT_RARE1(asin, aot_rare_asin((double)x))
AOT_RARE1(acos, aot_rare_acos((double)x))
AOT_RARE1(atan, aot_rare_atan((double)x))
AOT_RARE1(sinh, aot_rare_sinh((double)x))
AOT_RARE1(cosh, aot_rare_cosh((double)x))
AOT_RARE1(asinh, aot_rare_asinh((double)x))
AOT_RARE1(acosh, aot_rare_acosh((double)x))
AOT_RARE1(atanh, aot_rare_atanh((double)x))

#define AOT_RARE2(NAME, EXPR)                                                                      \
    typedef aot_broadcast2_params aot_##NAME##_f32_params;                                         \
    AOT_INLINE void aot_##NAME##_f32_row(float *y, const float *a, const float *b, ptrdiff_t n,    \
                                         int IA, int IB) {                                         \
        ptrdiff_t i;                                                                               \
        for (i = 0; i < n; ++i) {                                                                  \
            const float x = a[i * IA], z = b[i * IB];                                              \
            y[i] = (float)(EXPR);                                                                  \
        }                                                                                          \
    }                                                                                              \
    AOT_INLINE void aot_##NAME##_f32(float *y, const float *a, const float *b,                     \
                                     const aot_broadcast2_params *p, int IA, int IB) {             \
        AOT_BROADCAST2(float, float, float, AOT_RARE_ROW_##NAME);                                  \
    }
#define AOT_RARE_ROW_pow(y, a, b, n) aot_pow_f32_row(y, a, b, n, IA, IB)
#define AOT_RARE_ROW_mod(y, a, b, n) aot_mod_f32_row(y, a, b, n, IA, IB)
#define AOT_RARE_ROW_fmod(y, a, b, n) aot_fmod_f32_row(y, a, b, n, IA, IB)
AOT_RARE2(pow, aot_rare_pow(x, z))
AOT_RARE2(mod, aot_rare_mod(x, z))
AOT_RARE2(fmod, aot_rare_fmod(x, z))

#endif /* AOT_RARE_F32_H */
