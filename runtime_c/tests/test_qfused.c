/* SPDX-License-Identifier: MIT-0 */
/* Convolutions of quantised values with what follows them: a sum of quantised values, a sum of what
 * are no quantised values, a function of the sums. */
#include "quantised.h"

#include "aot_qconv_epilogue_s8.h"
#include "aot_qconv_epilogue_s8__dsp.h"
#include "aot_qconv_epilogue_s8__mve.h"
#if AOT_VLEN > 1
#include "aot_qconv_epilogue_s8__dot.h"
#include "aot_qconv_epilogue_s8__vec.h"
#endif

#define V AOT_VLEN
#define PIXELS 4

/* n, ic, ih, iw, oc, kernel, strides, dilations, pads, zero points, bounds */
static const qgeometry cases[] = {
    {1, 4, 1, 1, 5, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, -3, 5, -128, 127},
    {2, 3, 5, 9, 16, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, -128, 127, -128, 127},
    {1, 16, 6, 7, 33, 3, 3, 2, 2, 1, 1, {0, 0, 1, 1}, 127, -128, -128, 127},
    {1, 8, 5, 6, 8, 1, 3, 1, 1, 1, 2, {0, 2, 0, 2}, 0, 0, -100, 100},
};

typedef struct run {
    const qgeometry *g;
    aot_qconv_epilogue_params p;
    scales s;
    const int8_t *x, *w, *r;
    const int32_t *bias;
    const int64_t *sums;
    int depth, values;
} run;

static run begin(int number, int rq, int pc) {
    const qgeometry *g = &cases[number];
    const aot_qconv_s8_params p = qparams(g);
    const int depth = g->kh * g->kw * g->ic, n = p.n * p.oh * p.ow * p.oc;
    const int8_t *w = some_values(g->oc * depth, -128),
                 *x = some_values(p.n * p.ih * p.iw * p.ic, -128);
    int32_t *bias = NEW(int32_t, g->oc);
    int64_t *sums = NEW(int64_t, n);
    run r = {g,    {0},  some_scales(rq, pc, g->oc, 0.01 / sqrt(depth)),
             x,    w,    some_values(n, -128),
             NULL, sums, depth,
             n};
    r.p = (aot_qconv_epilogue_params){
        p.n,  p.ic, p.ih, p.iw,     p.oc,     p.oh, p.ow, p.kh, p.kw,   p.sh, p.sw, p.dh,
        p.dw, p.pt, p.pl, p.x_zero, p.y_zero, p.lo, p.hi, p.oc, PIXELS, 0,    0,    0,
        0,    0,    0,    0,        0,        0,    3,    -90,  110,    0,    p.oh, 0};
    fill_s32(bias, g->oc, -3000, 3000);
    qconvolve(sums, x, w, bias, &p, 0);
    r.bias = folded(bias, w, g->oc, depth, g->x_zero, up_to(g->oc, 32) + 8);
    return r;
}

#if AOT_VLEN > 1
/* What the kernels of dot products get; the instance constants are L, S, O, FLIP, WZ, STRIP. */
typedef struct dotted {
    const int8_t *w;
    const int32_t *bias;
    void *copy;
} dotted;

static dotted dots(const run *r, int O) {
    const aot_qconv_epilogue_params *p = &r->p;
    const int runs = p->kh * (p->dw == 1 ? 1 : p->kw);
    const dotted k = {
        dot_weights(r->w, p->oc, runs, r->depth / runs, O, V),
        dot_bias(r->bias, r->w, p->oc, r->depth, V, 128),
        NEW(int8_t, dot_bytes(p->ic, p->oh, p->ow, p->kh, p->kw, p->sh, p->sw, p->dh, p->dw))};
    return k;
}
#endif

/* Packed weights and scratch; the kernels are macros, which evaluate their arguments often. */
typedef struct packed {
    const int8_t *tiles, *pairs;
    int8_t *windows;  /* of a part of a row: P of them */
    int16_t *columns; /* the same, widened */
} packed;

static packed pack(const run *r, int O) {
    const aot_qconv_epilogue_params *p = &r->p;
    const packed k = {tile_weights(r->w, p->oc, p->kh, p->kw * p->ic, 4, 0),
                      vector_weights(r->w, p->oc, r->depth, O, V, 1),
                      NEW(int8_t, p->kh * 4 * (p->kw + p->sw) * p->ic),
                      NEW(int16_t, 4 * up_to(r->depth, 2))};
    return k;
}

/* The sum of two quantised values: KIND 0 rounds half upwards, 1 to even, in fixed point; 2 as
 * TFLite. */
static int64_t added(const run *r, int64_t a, int64_t b, int kind) {
    const aot_qconv_epilogue_params *p = &r->p;
    if (kind == 2) {
        const int32_t mult[3] = {p->a_mult, p->b_mult, p->y_mult};
        int8_t shift[3] = {(int8_t)p->a_shift, (int8_t)p->b_shift, (int8_t)p->y_shift};
        const scales s = {2, 1, (int32_t *)(uintptr_t)mult, shift};
        const int64_t left = rescaled((a - p->a_zero) * (1 << 20), &s, 0);
        const int64_t right = rescaled((b - p->b_zero) * (1 << 20), &s, 1);
        return rescaled(left + p->offset * right, &s, 2) + p->sum_zero;
    } else {
        const double v = (double)(a * p->a_mult + b * p->b_mult + p->offset);
        const double unit = ldexp(1.0, p->y_shift), half = kind == 1 ? 0.5 - 1.0 / unit : 0.0;
        /* The offset holds what rounds; without one less than a half the nearest is to even. */
        return kind == 0 ? (int64_t)floor(v / unit) : (int64_t)nearbyint(v / unit - half);
    }
}

/* A kernel makes the upper rows of the output, none if there is one row, and then the others. */
#define IN_TWO_PARTS(call)                                                                         \
    for (p->y0 = 0, p->y1 = p->oh / 2;; p->y0 = p->y1, p->y1 = p->oh) {                            \
        call;                                                                                      \
        if (p->y1 == p->oh) {                                                                      \
            break;                                                                                 \
        }                                                                                          \
    }

static void test_add(int number, int rq, int pc, int kind) {
    run r = begin(number, rq, pc);
    aot_qconv_epilogue_params *p = &r.p;
    const packed k = pack(&r, p->oc > V ? 2 : 1);
#if AOT_VLEN > 1
    const dotted d = dots(&r, p->oc > V ? 2 : 1);
#endif
    const scales own = {2, 1, NEW(int32_t, 3), NEW(int8_t, 3)};
    const int O = p->oc > V ? 2 : 1, channels = up_to(p->oc, 4);
    const int deep = up_to(r.depth, 8);
    int8_t *rows = NEW(int8_t, channels * r.depth), *y = NEW(int8_t, r.values);
    int8_t *stage = NEW(int8_t, PIXELS * p->oc);
    int32_t *bias = NEW(int32_t, channels);
    int64_t *want = NEW(int64_t, r.values);
    const int8_t *words;
    const int32_t *start;
    void *scratch;
    int wide;
    check_case("conv and sum of values %d, RQ %d, PC %d, KIND %d", number, rq, pc, kind);
    p->a_zero = p->y_zero;
    p->b_zero = -7;
    if (kind == 2) {
        set_scale(&own, 0, 0.4F);
        set_scale(&own, 1, 0.45F);
        set_scale(&own, 2, (float)ldexp(1.25, -20));
        p->a_mult = own.mult[0], p->b_mult = own.mult[1], p->y_mult = own.mult[2];
        p->a_shift = own.shift[0], p->b_shift = own.shift[1], p->y_shift = own.shift[2];
        p->offset = number % 2 ? -1 : 1;
    } else {
        p->a_mult = 9000;
        p->b_mult = -7777;
        p->y_shift = 14;
        p->offset = 12345 + (1 << 13) - kind;
    }
    for (int i = 0; i < r.values; ++i) {
        const int64_t value =
            within(rescaled(r.sums[i], &r.s, i % p->oc) + p->y_zero, p->lo, p->hi);
        want[i] = within(added(&r, value, r.r[i], kind), p->sum_lo, p->sum_hi);
    }
    IN_TWO_PARTS(aot_qconv_epilogue_s8(y, r.x, k.tiles, r.bias, r.s.mult, r.s.shift, k.windows, r.r,
                                       stage, p, kind, rq, pc, 4, 4, 0));
    same_s8("portable", y, want, r.values);
#if AOT_VLEN > 1
    IN_TWO_PARTS(aot_qconv_epilogue_s8__vec(y, r.x, k.pairs, r.bias, r.s.mult, r.s.shift, k.columns,
                                            r.r, stage, p, kind, rq, pc, 4, O, 1));
    same_s8("vectors", y, want, r.values);
    IN_TWO_PARTS(aot_qconv_epilogue_s8__dot(y, r.x, d.w, d.bias, r.s.mult, r.s.shift, d.copy, r.r,
                                            NULL, p, kind, rq, pc, 3, 2, O, 128, 0, 256));
    same_s8("dot products", y, want, r.values);
#endif
    for (int c = 0; c < channels; ++c) {
        (void)memcpy(rows + c * r.depth, r.w + dsp_channel(c, p->oc) * r.depth, (size_t)r.depth);
        bias[c] = r.bias[dsp_channel(c, p->oc)];
    }
    wide = dsp_wide(rows, bias, channels, r.depth);
    words = dsp_weights(rows, channels, r.depth, deep, wide);
    start = dsp_bias(bias, channels, wide);
    scratch = check_new((size_t)(6 * deep + 4));
    IN_TWO_PARTS(aot_qconv_epilogue_s8__dsp(y, r.x, words, start, r.s.mult, r.s.shift, scratch, r.r,
                                            stage, p, kind, rq, pc, 0, p->lo > -128 || p->hi < 127,
                                            wide, p->oc % 4 != 0));
    same_s8("DSP", y, want, r.values);
    if (rq != 1) {
        words = mve_weights(r.w, p->oc, r.depth);
        scratch = check_new((size_t)(2 * up_to(r.depth, 16)));
        IN_TWO_PARTS(aot_qconv_epilogue_s8__mve(y, r.x, words, r.bias, r.s.mult, r.s.shift, scratch,
                                                r.r, stage, p, kind, rq, pc, 0,
                                                rq == 2 && p->lo < p->y_zero));
        same_s8("MVE", y, want, r.values);
    }
    p->y0 = 0;
    (void)O;
    check_free();
}

/* round(sum * mult / 2^shift + (r - r_zero) * r_mult) in steps of 2^-24. */
static void test_sum(int number) {
    run r = begin(number, 1, 1);
    aot_qconv_epilogue_params *p = &r.p;
    const int O = p->oc > V ? 2 : 1;
    const packed k = pack(&r, O);
#if AOT_VLEN > 1
    const dotted d = dots(&r, O);
#endif
    int8_t *y = NEW(int8_t, r.values), *shift = NEW(int8_t, p->oc);
    int32_t *stage = NEW(int32_t, PIXELS * p->oc), *mult = NEW(int32_t, p->oc);
    int64_t *want = NEW(int64_t, r.values);
    check_case("conv and sum %d", number);
    p->b_mult = -(1 << 23); /* halves, so that ties happen */
    p->b_zero = 11;
    for (int c = 0; c < p->oc; ++c) { /* in some channels sums are multiples of 1 / 512 */
        shift[c] = (int8_t)(c % 3 == 0 ? 15 : 30);
        mult[c] = c % 3 == 0 ? 1 << 30 : (int32_t)check_integer(1 << 28, 1 << 30);
    }
    for (int i = 0; i < r.values; ++i) {
        const int64_t part = r.sums[i] * mult[i % p->oc];
        /* Rounded down, by a division of whole numbers. */
        const int64_t unit = INT64_C(1) << shift[i % p->oc];
        const int64_t down = part / unit - (part % unit < 0);
        const double v = (double)(down + (int64_t)(r.r[i] - 11) * p->b_mult) / 16777216.0;
        want[i] = within((int64_t)nearbyint(v) + p->sum_zero, p->sum_lo, p->sum_hi);
    }
    aot_qconv_epilogue_s8(y, r.x, k.tiles, r.bias, mult, shift, k.windows, r.r, stage, p,
                          AOT_EPILOGUE_SUM, 3, 1, 4, 4, 0);
    same_s8("portable", y, want, r.values);
#if AOT_VLEN > 1
    aot_qconv_epilogue_s8__vec(y, r.x, k.pairs, r.bias, mult, shift, k.columns, r.r, stage, p,
                               AOT_EPILOGUE_SUM, 3, 1, 4, O, 1);
    same_s8("vectors", y, want, r.values);
    aot_qconv_epilogue_s8__dot(y, r.x, d.w, d.bias, mult, shift, d.copy, r.r, NULL, p,
                               AOT_EPILOGUE_SUM, 3, 1, 3, 2, O, 128, 0, 256);
    same_s8("dot products", y, want, r.values);
#endif
    (void)O;
    check_free();
}

/* A curve by pieces of 2^15 places: value = (a + b * t + c * t * t) / 2^20, t the way through. */
static void test_act(int number) {
    run r = begin(number, 1, 1);
    aot_qconv_epilogue_params *p = &r.p;
    const int O = p->oc > V ? 2 : 1, pieces = 5;
    const packed k = pack(&r, O);
#if AOT_VLEN > 1
    const dotted d = dots(&r, O);
#endif
    int8_t *y = NEW(int8_t, r.values), *shift = NEW(int8_t, p->oc);
    int32_t *stage = NEW(int32_t, PIXELS * p->oc), *mult = NEW(int32_t, p->oc), curve[15];
    check_case("conv and function %d", number);
    p->offset = 70000;
    p->a_mult = pieces * 32768 - 1;
    for (int c = 0; c < p->oc; ++c) {
        shift[c] = 24;
        mult[c] = (int32_t)check_integer(1 << 26, 1 << 27);
    }
    for (int i = 0; i < 15; ++i) {
        curve[i] = (int32_t)check_integer(-100, 100) * (1 << 18);
    }
#if AOT_VLEN > 1
    for (int vector = 0; vector < 3; ++vector) {
#else
    for (int vector = 0; vector < 1; ++vector) {
#endif
        (void)memset(y, 0x55, (size_t)r.values);
        if (vector == 0) {
            aot_qconv_epilogue_s8(y, r.x, k.tiles, r.bias, mult, shift, k.windows, curve, stage, p,
                                  AOT_EPILOGUE_CURVE, 3, 1, 4, 4, 0);
        }
#if AOT_VLEN > 1
        if (vector == 1) {
            aot_qconv_epilogue_s8__vec(y, r.x, k.pairs, r.bias, mult, shift, k.columns, curve,
                                       stage, p, AOT_EPILOGUE_CURVE, 3, 1, 4, O, 1);
        }
        if (vector == 2) {
            aot_qconv_epilogue_s8__dot(y, r.x, d.w, d.bias, mult, shift, d.copy, curve, NULL, p,
                                       AOT_EPILOGUE_CURVE, 3, 1, 3, 2, O, 128, 0, 256);
        }
#endif
        for (int i = 0; i < r.values; ++i) {
            const double sum = (double)r.sums[i] * mult[i % p->oc] / 16777216.0;
            const double place = fmin(fmax(floor(sum) + 70000, 0), pieces * 32768 - 1);
            const int32_t *piece = curve + 3 * (int)(place / 32768);
            const double t = fmod(place, 32768) / 32768;
            const double v = (piece[0] + (piece[1] + piece[2] * t) * t) / 1048576.0;
            /* The kernel rounds down twice on the way, each time by less than 2^-19 of a quantised
             * value. */
            const int64_t low = within((int64_t)floor(v - 4e-6), p->sum_lo, p->sum_hi);
            const int64_t high = within((int64_t)floor(v), p->sum_lo, p->sum_hi);
            CHECK(y[i] >= low && y[i] <= high);
        }
    }
    (void)O;
    check_free();
}

int main(void) {
    for (int number = 0; number < (int)(sizeof cases / sizeof *cases); ++number) {
        for (int k = 0; k < 18; ++k) {
            test_add(number, k % 3, k / 3 % 2, k / 6);
        }
        for (int k = 0; k < 4; ++k) {
            test_sum(number);
            test_act(number);
        }
    }
    return check_end();
}
