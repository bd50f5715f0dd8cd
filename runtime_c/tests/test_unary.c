/* SPDX-License-Identifier: MIT-0 */
/* Elementwise functions of one tensor of float32 or float64, against the C library in doubles. */
#include "check.h"

#include "aot_math_f64.h"
#include "aot_rare_f32.h"
#include "aot_simd.h"
#include "aot_unary_f32.h"
#include "aot_vmath_f32.h"

typedef double (*formula)(double x, double a, double b, double c);
typedef struct {
    const char *name;
    formula want;
    double lo, hi;             /* where random elements lie */
    double a, b, c;            /* the constants of the function */
    double relative, absolute; /* of the float32 kernel */
} function;

static const ptrdiff_t sizes[] = {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 64, 131};

/* Random elements, and every third one of those that have rules of their own. */
static void inputs(double *x, ptrdiff_t n, const function *f) {
    static const double special[] = {0.0,   -0.0,   1.0,  -1.0,       0.5,   -0.5,  2.5,
                                     -1.5,  1e-40,  1e9,  -1e-40,     1e38,  -1e38, 88.9,
                                     -88.0, -104.5, 20.5, 16777217.0, 0.625, 0.92};
    const ptrdiff_t count = (ptrdiff_t)(sizeof special / sizeof *special);
    for (ptrdiff_t i = 0; i < n; ++i) {
        const ptrdiff_t k = i / 3 % (count + 3);
        x[i] = check_uniform(f->lo, f->hi);
        if (i % 3 == 2) {
            x[i] = k < count        ? special[k]
                   : k == count     ? (double)NAN
                   : k == count + 1 ? (double)INFINITY
                                    : -(double)INFINITY;
        }
        x[i] = (double)(float)x[i];
    }
}

typedef void (*run_f32)(float *y, const float *x, ptrdiff_t n, const function *f);
typedef void (*run_f64)(double *y, const double *x, ptrdiff_t n, const function *f);

static void test(const function *f, run_f32 single, run_f64 whole) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
        const ptrdiff_t n = sizes[s];
        double *x = NEW(double, n), *want = NEW(double, n), *y = NEW(double, n);
        float *xf = NEW(float, n), *yf = NEW(float, n);
        inputs(x, n, f);
        for (ptrdiff_t i = 0; i < n; ++i) {
            xf[i] = (float)x[i];
            want[i] = f->want(x[i], (double)(float)f->a, (double)(float)f->b, (double)(float)f->c);
        }
        check_case("%s_f32 of %ld", f->name, (long)n);
        single(yf, xf, n, f);
        close_f32("y", yf, want, n, f->relative, f->absolute);
        single(xf, xf, n, f);
        close_f32("y in place", xf, want, n, f->relative, f->absolute);
        check_case("%s_f64 of %ld", f->name, (long)n);
        whole(y, x, n, f);
        close_f64("y", y, want, n, 1e-11, 1e-13);
        whole(x, x, n, f);
        close_f64("y in place", x, want, n, 1e-11, 1e-13);
        check_free();
    }
}

/* NAME with its formula of x, a, b, c. The float32 kernels of aot_rare_f32.h take no constants. */
#define RUN_F64(NAME)                                                                              \
    static void f64_##NAME(double *y, const double *x, ptrdiff_t n, const function *f) {           \
        const aot_##NAME##_f64_params p = {n, (double)(float)f->a, (double)(float)f->b,            \
                                           (double)(float)f->c};                                   \
        aot_##NAME##_f64(y, x, &p);                                                                \
    }
#define WANT(NAME, EXPR)                                                                           \
    static double want_##NAME(double x, double a, double b, double c) {                            \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
        (void)c;                                                                                   \
        return EXPR;                                                                               \
    }
#define TEST(NAME, LO, HI, A, B, C, RELATIVE, ABSOLUTE)                                            \
    static void test_##NAME(void) {                                                                \
        const function f = {#NAME, want_##NAME, LO, HI, A, B, C, RELATIVE, ABSOLUTE};              \
        test(&f, f32_##NAME, f64_##NAME);                                                          \
    }
#define UNARY(NAME, LO, HI, A, B, C, RELATIVE, ABSOLUTE, EXPR)                                     \
    static void f32_##NAME(float *y, const float *x, ptrdiff_t n, const function *f) {             \
        const aot_##NAME##_f32_params p = {n, (float)f->a, (float)f->b, (float)f->c};              \
        aot_##NAME##_f32(y, x, &p);                                                                \
    }                                                                                              \
    RUN_F64(NAME) WANT(NAME, EXPR) TEST(NAME, LO, HI, A, B, C, RELATIVE, ABSOLUTE)
#define RARE(NAME, LO, HI)                                                                         \
    static void f32_##NAME(float *y, const float *x, ptrdiff_t n, const function *f) {             \
        const aot_##NAME##_f32_params p = {n};                                                     \
        (void)f;                                                                                   \
        aot_##NAME##_f32(y, x, &p);                                                                \
    }                                                                                              \
    RUN_F64(NAME) WANT(NAME, NAME(x)) TEST(NAME, LO, HI, 0, 0, 0, 7e-8, 1e-45)

static double limited(double x, double lo, double hi) {
    return x < lo ? lo : x > hi ? hi : x;
}
static double logistic(double x) {
    return 1.0 / (1.0 + exp(-x));
}
static double log_of_1_plus_exp(double x) {
    return x > 40.0 ? x : log1p(exp(x));
}

/* The last digits of float32 are 6e-8 apart; 1.4e-45 is its smallest number. */
UNARY(abs, -9, 9, 0, 0, 0, 0, 0, x < 0 ? -x : x)
UNARY(neg, -9, 9, 0, 0, 0, 0, 0, 0 - x)
UNARY(reciprocal, -9, 9, 0, 0, 0, 1.2e-7, 3e-45, pow(x, -1))
UNARY(square, -9, 9, 0, 0, 0, 1.2e-7, 3e-45, pow(x, 2))
UNARY(cube, -9, 9, 0, 0, 0, 2e-7, 3e-45, pow(x, 3))
UNARY(sqrt, -1, 99, 0, 0, 0, 1.2e-7, 0, sqrt(x))
UNARY(pow_half, -1, 99, 0, 0, 0, 1.2e-7, 0, pow(x, 0.5))
UNARY(rsqrt, -1, 99, 0, 0, 0, 3e-7, 0, 1 / sqrt(x))
UNARY(exp, -110, 90, 0, 0, 0, 3e-7, 3e-45, exp(x))
UNARY(log, -1, 9, 0, 0, 0, 3e-7, 0, log(x))
UNARY(sigmoid, -30, 30, 0, 0, 0, 3e-7, 3e-45, logistic(x))
UNARY(tanh, -2, 2, 0, 0, 0, 3e-7, 3e-45, tanh(x))
UNARY(erf, -4.5, 4.5, 0, 0, 0, 3e-7, 3e-45, erf(x))
UNARY(floor, -9, 9, 0, 0, 0, 0, 0, floor(x))
UNARY(ceil, -9, 9, 0, 0, 0, 0, 0, ceil(x))
UNARY(round, -9, 9, 0, 0, 0, 0, 0, nearbyint(x))
UNARY(sign, -9, 9, 0, 0, 0, 0, 0, isnan(x) ? x : (x > 0) - (x < 0))
UNARY(softplus, -20, 20, 0, 0, 0, 4e-7, 3e-45, log_of_1_plus_exp(x))
UNARY(softsign, -9, 9, 0, 0, 0, 2e-7, 3e-45, x / (1 + fabs(x)))
UNARY(mish, -20, 25, 0, 0, 0, 1e-6, 1e-42, x *tanh(log_of_1_plus_exp(x)))
UNARY(gelu, -6, 6, 0, 0, 0, 5e-7, 5e-7, x * 0.5 * (1 + erf(x / sqrt(2))))
UNARY(gelu_tanh, -6, 6, 0, 0, 0, 1e-6, 1e-6,
      x * 0.5 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))))
UNARY(relu, -9, 9, 0, 0, 0, 0, 0, x < 0 ? 0 : x)
UNARY(leaky_relu, -9, 9, 0.1, 0, 0, 1.2e-7, 3e-45, x < 0 ? a * x : x)
UNARY(clip, -9, 9, -2.5, 3.25, 0, 0, 0, limited(x, a, b))
UNARY(elu, -9, 9, 1.5, 1.25, 0.5, 4e-7, 3e-45, x < 0 ? a * expm1(c * x) : b * x)
UNARY(hard_sigmoid, -4, 4, 0.2, 0.5, 0, 1e-7, 1e-7, limited(a *x + b, 0, 1))
UNARY(hard_swish, -4, 4, 0.2, 0.5, 0, 1e-7, 5e-7, x *limited(a *x + b, 0, 1))
UNARY(swish, -9, 9, 1.5, 0, 0, 2e-6, 3e-45, x *logistic(a *x))
UNARY(thresholded_relu, -4, 4, 1.0, 0, 0, 0, 0, x > a ? x : 0)
UNARY(shrink, -4, 4, 1.0, 0.25, 0, 1e-7, 0, x > a ? x - b : x < -a ? x + b : 0)
UNARY(affine, -9, 9, 1.5, -0.75, 0, 2e-7, 1e-6, a *x + b)
RARE(sin, -40, 40)
RARE(cos, -40, 40)
RARE(tan, -40, 40)
RARE(asin, -1, 1)
RARE(acos, -1, 1)
RARE(atan, -9, 9)
RARE(sinh, -9, 9)
RARE(cosh, -9, 9)
RARE(asinh, -9, 9)
RARE(acosh, 0.5, 9)
RARE(atanh, -1, 1)

/* A lane of a vector: float32 functions that keep the sign of a zero, and selections with NaN. */
static void test_lanes(void) {
    float zero = -0.0F, y = 1.0F, lanes[16];
    const float nan = (float)NAN;
    const aot_unary_f32_params p = {1, 0.0F, 0.0F, 0.0F};
    check_case("lanes");
    aot_round_f32(&y, &zero, &p);
    CHECK(signbit(y) && y >= 0.0F);
    zero = -0.25F;
    aot_round_f32(&y, &zero, &p);
    CHECK(signbit(y) && y >= 0.0F);
    for (int i = 0; i < 16; ++i) {
        lanes[i] = (float)(i + 1);
    }
    CHECK(fabs((double)aot_vsum(aot_vload(lanes)) - AOT_VLEN * (AOT_VLEN + 1) / 2) < 1e-6);
    CHECK(fabs((double)aot_vhmax(aot_vload(lanes)) - AOT_VLEN) < 1e-6);
    CHECK(isnan(aot_vlane(aot_vmaximum(aot_vset1(nan), aot_vzero()), 0)));
    CHECK(isnan(aot_vlane(aot_vmaximum(aot_vzero(), aot_vset1(nan)), 0)));
    CHECK(isnan(aot_vlane(aot_vminimum(aot_vset1(nan), aot_vzero()), AOT_VLEN - 1)));
    CHECK(isnan(aot_vlane(aot_vminimum(aot_vzero(), aot_vset1(nan)), AOT_VLEN - 1)));
    CHECK(isnan(aot_vlane(aot_vclamp(aot_vset1(nan), aot_vzero(), aot_vset1(1.0F)), 0)));
    CHECK(fabsf(aot_sexp(1.0F) - 2.71828182F) < 5e-7F);
    CHECK(fabsf(aot_slog(10.0F) - 2.30258509F) < 5e-7F);
}

int main(void) {
    static void (*const tests[])(void) = {
        test_abs,     test_neg,          test_reciprocal, test_square,     test_cube,
        test_sqrt,    test_pow_half,     test_rsqrt,      test_exp,        test_log,
        test_sigmoid, test_tanh,         test_erf,        test_floor,      test_ceil,
        test_round,   test_sign,         test_softplus,   test_softsign,   test_mish,
        test_gelu,    test_gelu_tanh,    test_relu,       test_leaky_relu, test_clip,
        test_elu,     test_hard_sigmoid, test_hard_swish, test_swish,      test_thresholded_relu,
        test_shrink,  test_affine,       test_sin,        test_cos,        test_tan,
        test_asin,    test_acos,         test_atan,       test_sinh,       test_cosh,
        test_asinh,   test_acosh,        test_atanh,      test_lanes};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; ++i) {
        tests[i]();
    }
    return check_end();
}
