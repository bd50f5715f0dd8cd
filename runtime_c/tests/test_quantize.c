/* SPDX-License-Identifier: MIT-0 */
/* QuantizeLinear and DequantizeLinear by axis and by blocks; quantisation found at run time. */
#include "check.h"

#include "aot_qdynamic.h"
#include "aot_quantize.h"

/* [outer][axis][inner]; a scale for all, one per slice, one per block of two slices. */
static const aot_quantize_params shapes[] = {
    {1, 1, 19, 1, 0, 0, 0}, {2, 5, 3, 1, 0, 1, 0}, {3, 5, 2, 2, 6, 2, 1}, {0, 3, 2, 1, 0, 1, 0}};

static int64_t scale_at(const aot_quantize_params *p, int64_t i) {
    return i / (p->axis * p->inner) * p->so + i / p->inner % p->axis / p->block * p->sa +
           i % p->inner * p->si;
}

/* round(x / scale) + zero, halves to even, saturated; NaN counts as 0. x / scale is a float. */
static int64_t quantised(float x, float scale, int64_t zero, int64_t lo, int64_t hi) {
    const float q = x / scale;
    const double v = isnan(q) ? 0.0 : fmin(fmax(nearbyint((double)q), -2e6), 2e6);
    const int64_t code = (int64_t)v + zero;
    return code < lo ? lo : code > hi ? hi : code;
}

static void inputs(float *x, int64_t n, float *scale, double most) {
    for (int i = 0; i < 32; ++i) {
        scale[i] = i % 2 ? 0.5F : (float)check_uniform(0.1, 1.0);
    }
    for (int64_t i = 0; i < n; ++i) {
        const int64_t kind = check_integer(0, 15);
        x[i] = kind == 0   ? (float)NAN
               : kind == 1 ? (float)INFINITY
               : kind == 2 ? -(float)INFINITY
               : kind < 8  ? (float)check_integer(-20, 20) / 4.0F
                           : (float)check_uniform(-most, most);
    }
}

#define CODES(SHORT, T, LO, HI)                                                                    \
    static void codes_##SHORT(int shape, int with_zero) {                                          \
        const aot_quantize_params *p = &shapes[shape];                                             \
        const int64_t n = p->outer * p->axis * p->inner;                                           \
        float scale[32], *x = NEW(float, n), *back = NEW(float, n);                                \
        T zero[32], *y = NEW(T, n);                                                                \
        check_case("quantize to %s, shape %d, zero %d", #SHORT, shape, with_zero);                 \
        inputs(x, n, scale, 1.2 * (HI));                                                           \
        for (int i = 0; i < 32; ++i) {                                                             \
            zero[i] = (T)(i == 0 ? (HI) : i == 1 ? (LO) : check_integer(LO, HI));                  \
        }                                                                                          \
        aot_quantize_##SHORT(y, x, scale, with_zero ? zero : NULL, p);                             \
        aot_dequantize_##SHORT(back, y, scale, with_zero ? zero : NULL, p);                        \
        for (int64_t i = 0; i < n; ++i) {                                                          \
            const int64_t k = scale_at(p, i), z = with_zero ? zero[k] : 0;                         \
            same_at("code", (ptrdiff_t)i, y[i], quantised(x[i], scale[k], z, LO, HI));             \
            close_at("value", (ptrdiff_t)i, (double)back[i],                                       \
                     (double)(y[i] - z) * (double)scale[k], 1e-7, 0.0);                            \
        }                                                                                          \
        check_free();                                                                              \
    }
CODES(s8, int8_t, -128, 127)
CODES(u8, uint8_t, 0, 255)
CODES(s16, int16_t, -32768, 32767)
CODES(u16, uint16_t, 0, 65535)
CODES(s4, int8_t, -8, 7)
CODES(u4, uint8_t, 0, 15)
CODES(s2, int8_t, -2, 1)
CODES(u2, uint8_t, 0, 3)

/* Floats in blocks of AOT_VLEN channels, integers with channels last: values of the plain kernels.
 */
static void test_blocked(int with_zero) {
    enum { N = 2, B = 3, S = 5, V = AOT_VLEN, ALL = N * B * S * V };
    const aot_quantize_params p = {N, B, S, 1, 0, 0, 0};
    const int8_t zero = (int8_t)check_integer(-128, 127);
    float scale[32], *x = NEW(float, ALL), *back = NEW(float, ALL);
    int8_t *y = NEW(int8_t, ALL);
    check_case("quantize blocks, zero %d", with_zero);
    inputs(x, ALL, scale, 150.0);
    aot_quantize_s8_blocked(y, x, scale, with_zero ? &zero : NULL, &p);
    aot_dequantize_s8_blocked(back, y, scale, with_zero ? &zero : NULL, &p);
    for (int i = 0; i < ALL; ++i) {
        const int lane = i % V, at = i / V % S, block = i / V / S % B, image = i / V / S / B;
        const int8_t code = y[((image * S + at) * B + block) * V + lane];
        const int64_t z = with_zero ? zero : 0;
        same_at("code", i, code, quantised(x[i], scale[0], z, -128, 127));
        close_at("value", i, (double)back[i], (double)(code - z) * (double)scale[0], 1e-7, 0.0);
    }
    check_free();
}

static void test_wide(void) {
    const aot_quantize_params p = {1, 4, 1, 1, 0, 0, 0};
    static const int32_t x[4] = {INT32_MIN, -5, 0, INT32_MAX}, zero = 7;
    const float scale = 0.5F;
    static const double want[4] = {-1073741827.5, -6, -3.5, 1073741820};
    float y[4];
    check_case("dequantize int32");
    aot_dequantize_s32(y, x, &scale, &zero, &p);
    close_f32("y", y, want, 4, 1e-7, 0.0);
}

/* Small float types: the nearest of all values of the type, found by trying all quantised values.
 */
static double f8_value(int code, int M, int bias, int kind) {
    const int e = (code & 127) >> M, m = code & ((1 << M) - 1), last = 127 >> M;
    const double sign = code & 128 ? -1.0 : 1.0;
    if (kind == 2 ? code == 128 : kind == 1 ? (code & 127) == 127 : e == last) {
        return kind == 0 && m == 0 ? sign * (double)INFINITY : (double)NAN;
    }
    return sign * (e == 0 ? ldexp(m, 1 - bias - M) : ldexp(m + (1 << M), e - bias - M));
}

static void test_small(int M, int bias, int kind, int saturate) {
    const aot_quantize_params p = {1, 400, 1, 1, 0, 0, 0};
    const float scale = 0.5F;
    float x[400], back[400];
    uint8_t y[400];
    double top = 0.0;
    check_case("float8 of %d bits, kind %d, saturated %d", M, kind, saturate);
    for (int code = 0; code < 128; ++code) {
        const double v = f8_value(code, M, bias, kind);
        top = isfinite(v) ? fmax(top, v) : top;
    }
    for (int i = 0; i < 400; ++i) {
        x[i] = (float)(ldexp(check_uniform(-1.0, 1.0), (int)check_integer(-19, 5)) *
                       (i % 4 ? 1 : top));
    }
    aot_quantize_f8(y, x, &scale, NULL, &p, M, bias, kind, saturate);
    aot_dequantize_f8(back, y, &scale, NULL, &p, M, bias, kind);
    for (int i = 0; i < 400; ++i) {
        const double v = (double)x[i] * 2, got = f8_value(y[i], M, bias, kind);
        double best = 1e300;
        int nearest = 0;
        for (int code = 0; code < 256; ++code) {
            const double far = fabs(f8_value(code, M, bias, kind) - v);
            /* Of two as near, the even one. */
            if (far < best || (far <= best && code % 2 == 0)) {
                best = far;
                nearest = code;
            }
        }
        if (fabs(v) > top + ldexp(top, -M - 3)) { /* surely beyond the last that rounds to top */
            CHECK(saturate ? fabs(fabs(got) - top) <= 0.0 : !isfinite(got));
        } else if (fabs(v) <= top) {
            close_at("code", i, got, f8_value(nearest, M, bias, kind), 0.0, 0.0);
        }
        close_at("value", i, (double)back[i], got / 2, 0.0, 0.0);
    }
}

static void test_f4(void) {
    static const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const aot_quantize_params p = {1, 100, 1, 1, 0, 0, 0};
    const float scale = 2.0F;
    float x[100], back[100];
    uint8_t y[100];
    check_case("float4");
    for (int i = 0; i < 100; ++i) {
        x[i] = (float)(i - 50) / 3.0F;
        x[i] = i % 2 ? (float)(i - 50) / 4.0F : x[i];
    }
    aot_quantize_f4(y, x, &scale, NULL, &p);
    aot_dequantize_f4(back, y, &scale, NULL, &p);
    for (int i = 0; i < 100; ++i) {
        const double v = fabs((double)x[i]) / 2;
        int nearest = 0;
        for (int k = 1; k < 8; ++k) {
            const double far = fabs(values[k] - v), old = fabs(values[nearest] - v);
            nearest = far < old || (far <= old && k % 2 == 0) ? k : nearest;
        }
        same_at("code", i, y[i] & 7, nearest);
        close_at("value", i, (double)back[i], (x[i] < 0 ? -2 : 2) * values[nearest], 0.0, 0.0);
    }
}

/* The range of x and 0 in 255 steps. */
static void test_dynamic(int n, double lo, double hi) {
    const aot_qdynamic_u8_params p = {n};
    float *x = NEW(float, n), scale = -1.0F, low = 0.0F, high = 0.0F, step;
    uint8_t *y = NEW(uint8_t, n), zero = 99;
    double offset;
    check_case("dynamic quantisation of %d in %g..%g", n, lo, hi);
    fill_f32(x, n, lo, hi);
    aot_qdynamic_u8(y, &scale, &zero, x, &p);
    for (int i = 0; i < n; ++i) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    step = high > low ? (high - low) / 255.0F : 1.0F;
    offset = fmin(255.0, fmax(0.0, nearbyint((double)(-low / step))));
    close_at("scale", 0, (double)scale, (double)step, 1e-7, 0.0);
    same_at("zero", 0, zero, (int64_t)offset);
    for (int i = 0; i < n; ++i) {
        same_at("code", i, y[i], quantised(x[i], scale, zero, 0, 255));
    }
    check_free();
}

/* Sums of products of quantised values less their zero points: one for all, or one per row and
 * column. */
static void test_products(int signs, int zeros) {
    enum { M = 3, K = 5, N = 4 };
    const aot_matmulinteger_params p = {
        {1, 1, 1, 1, 2, 3}, {0, 0, 0, 0, M * K, 0}, {0, 0, 0, 0, 0, K * N}, M, K, N, zeros == 2,
        zeros == 2};
    const int AT = signs & 1, BT = signs >> 1;
    uint8_t a[30], b[60], az[3], bz[4];
    int32_t y[72];
    check_case("products of integers, types %d and %d, zero points %d", AT, BT, zeros);
    fill_u8(a, 30, 0, 255);
    fill_u8(b, 60, 0, 255);
    fill_u8(az, 3, 0, 255);
    fill_u8(bz, 4, 0, 255);
    aot_matmulinteger(y, a, b, zeros ? az : NULL, zeros ? bz : NULL, &p, AT, BT);
    for (int i = 0; i < 72; ++i) {
        const int r = i / N % M, c = i % N, row = zeros == 2 ? r : 0, column = zeros == 2 ? c : 0;
        const int u0 = !zeros ? 0 : AT ? az[row] : (int8_t)az[row];
        const int v0 = !zeros ? 0 : BT ? bz[column] : (int8_t)bz[column];
        int64_t want = 0;
        for (int k = 0; k < K; ++k) {
            const uint8_t u = a[(i / 36 * M + r) * K + k], v = b[(i / 12 % 3 * K + k) * N + c];
            want += ((AT ? u : (int8_t)u) - u0) * ((BT ? v : (int8_t)v) - v0);
        }
        same_at("y", i, y[i], want);
    }
}

static void test_conv(int signs, int zeros) {
    const aot_convinteger_params p = {
        2, 4, 6, 2, {1, 5, 6}, {1, 3, 4}, {1, 3, 2}, {1, 2, 2}, {1, 1, 2}, {0, 1, 2}, zeros == 2};
    const int XT = signs & 1, WT = signs >> 1;
    uint8_t x[240], w[72], xz = 200, wz[6];
    int32_t y[144];
    check_case("conv of integers, types %d and %d, zero points %d", XT, WT, zeros);
    fill_u8(x, 240, 0, 255);
    fill_u8(w, 72, 0, 255);
    fill_u8(wz, 6, 0, 255);
    aot_convinteger(y, x, w, zeros ? &xz : NULL, zeros ? wz : NULL, &p, XT, WT);
    for (int i = 0; i < 144; ++i) {
        const int oc = i / 12 % 6, image = i / 72, own = zeros == 2 ? oc : 0;
        const int x0 = !zeros ? 0
                       : XT   ? xz
                              : (int8_t)xz,
                  w0 = !zeros ? 0
                       : WT   ? wz[own]
                              : (int8_t)wz[own];
        int64_t want = 0;
        for (int k = 0; k < 12; ++k) {
            const int row = i / 4 % 3 * 2 - 1 + k / 2 % 3, column = i % 4 * 2 - 2 + k % 2 * 2;
            if (row >= 0 && row < 5 && column >= 0 && column < 6) {
                const uint8_t u = x[((image * 4 + oc / 3 * 2 + k / 6) * 5 + row) * 6 + column];
                const uint8_t v = w[oc * 12 + k];
                want += ((XT ? u : (int8_t)u) - x0) * ((WT ? v : (int8_t)v) - w0);
            }
        }
        same_at("y", i, y[i], want);
    }
}

#if AOT_VLEN > 1
/* Vectors over one number: the quotient of the division, where it is 2^-60 or more. */
static void test_over(float by) {
    const aot_qvec_divisor d = aot_qvec_divide_by(by);
    float x[AOT_VLEN], got[AOT_VLEN];
    check_case("vectors over %g", (double)by);
    for (int i = 0; i < 400; ++i) {
        for (int k = 0; k < AOT_VLEN; ++k) {
            x[k] = i % 3 == 0   ? (float)check_integer(-600, 600) / 2.0F * by /* halves */
                   : i % 3 == 1 ? (float)check_uniform(-300.0, 300.0)
                                : (float)check_uniform(-1e-3, 1e-3);
        }
        aot_vstore(got, aot_qvec_over(aot_vload(x), &d));
        for (int k = 0; k < AOT_VLEN; ++k) {
            CHECK(got[k] == x[k] / by);
        }
    }
}
#endif

int main(void) {
    for (int k = 0; k < 8; ++k) {
        codes_s8(k / 2, k % 2);
        codes_u8(k / 2, k % 2);
        codes_s16(k / 2, k % 2);
        codes_u16(k / 2, k % 2);
        codes_s4(k / 2, k % 2);
        codes_u4(k / 2, k % 2);
        codes_s2(k / 2, k % 2);
        codes_u2(k / 2, k % 2);
    }
    test_wide();
    for (int saturate = 0; saturate < 2; ++saturate) { /* E5M2, E4M3FN, E4M3FNUZ, E5M2FNUZ */
        test_small(2, 15, 0, saturate);
        test_small(3, 7, 1, saturate);
        test_small(3, 8, 2, saturate);
        test_small(2, 16, 2, saturate);
    }
    test_f4();
    test_dynamic(1, 0.0, 1.0);
    test_dynamic(50, -3.0, 7.0);
    test_dynamic(50, 2.0, 7.0);
    test_dynamic(50, -7.0, -2.0);
    test_dynamic(0, 0.0, 1.0);
    for (int k = 0; k < 12; ++k) {
        test_products(k % 4, k / 4);
        test_conv(k % 4, k / 4);
    }
    for (int k = 0; k < 2; ++k) {
        test_blocked(k);
    }
#if AOT_VLEN > 1
    for (int k = 0; k < 20; ++k) {
        test_over((float)ldexp(check_uniform(1.0, 2.0), (int)check_integer(-59, 59)));
    }
    test_over(0x1.fffffep-5F);
    test_over(1e-30F);
#endif
    return check_end();
}
