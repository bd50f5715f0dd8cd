/* SPDX-License-Identifier: MIT-0 */
/* Depthwise convolutions and matrix products of int8 quantised values, in portable C, on vectors,
 * and for Arm's DSP and vector instructions in their plain form. */
#include "quantised.h"

#include "aot_qdwconv_s8.h"
#include "aot_qdwconv_s8__dsp.h"
#include "aot_qdwconv_s8__mve.h"
#include "aot_qfc_s8.h"
#include "aot_qfc_s8__dsp.h"
#include "aot_qfc_s8__mve.h"
#if AOT_VLEN > 1
#include "aot_qdwconv_s8__dot.h"
#include "aot_qdwconv_s8__vec.h"
#include "aot_qfc_s8__dot.h"
#include "aot_qfc_s8__vec.h"
#endif

#define V AOT_VLEN

/* n, channels, ih, iw, channels, kernel, strides, dilations, pads, zero points, bounds */
static const qgeometry cases[] = {
    {1, 4, 1, 1, 4, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, -3, 5, -128, 127},
    {1, 8, 9, 9, 8, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, -3, 5, -128, 127},
    {2, 64, 5, 5, 64, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, -128, 127, -128, 127},
    {1, 16, 8, 19, 16, 3, 3, 2, 2, 1, 1, {0, 0, 1, 1}, 127, -128, -128, 127},
    {1, 21, 6, 13, 21, 5, 5, 1, 1, 1, 1, {2, 2, 2, 2}, -3, 5, -128, 127},
    {2, 3, 7, 8, 3, 2, 4, 1, 1, 1, 2, {0, 1, 1, 2}, -3, 5, -128, 127},
    {1, 12, 15, 1, 12, 15, 1, 1, 1, 1, 1, {0, 0, 0, 0}, -3, 5, 5, 127},
    {1, 130, 6, 1, 130, 5, 1, 1, 1, 1, 1, {0, 0, 0, 0}, -3, 5, -20, 60},
    {1, 4, 9, 9, 4, 2, 2, 3, 3, 1, 1, {0, 0, 0, 0}, 100, 5, -128, 127},
    {1, 6, 1, 17, 6, 1, 9, 1, 3, 1, 1, {0, 4, 0, 4}, -3, 5, -128, 127},
    {1, 2, 7, 23, 2, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, 7, -5, -128, 127},
    {1, 96, 4, 61, 96, 3, 3, 2, 2, 1, 1, {1, 1, 1, 1}, -9, -5, -110, 127},
};

/* The two halves of the rows. */
static aot_qdwconv_s8_params part_of(const aot_qdwconv_s8_params *p, int part) {
    aot_qdwconv_s8_params q = *p;
    const int middle = p->n == 1 ? p->oh / 4 * 2 : 0, first = middle * p->sh - p->pt;
    q.y0 = part ? middle : 0;
    q.y1 = part ? p->oh : middle;
    q.y_row0 = q.y0;
    q.x_row0 = part && first > 0 && first < p->ih ? first : 0;
    return q;
}

typedef struct run {
    aot_qdwconv_s8_params p;
    scales s;
    const int8_t *x, *w;
    const int32_t *bias;
    const int64_t *sums;
    int8_t *y;
} run;

static void compare(const run *r, const char *what) {
    const int n = r->p.n * r->p.oh * r->p.ow * r->p.oc;
    same_values(what, r->y, r->sums, n, r->p.oc, &r->s, r->p.y_zero, r->p.lo, r->p.hi);
    (void)memset(r->y, 0x55, (size_t)n);
}

static void portable(const run *r, int P, int CB, int known) {
    const aot_qdwconv_s8_params *p = &r->p;
    const int ring = (p->kh - 1) * p->dh + 1, width = (p->ow - 1) * p->sw + (p->kw - 1) * p->dw + 1;
    const int fixed = known && p->dw == 1 && p->kw <= 5 && p->sw <= 2;
    const int KH = known && p->kh <= 5 ? p->kh : 0, KW = fixed ? p->kw : 0, S = fixed ? p->sw : 0;
    int8_t *scratch = NEW(int8_t, ring * width * CB);
    for (int part = 0; part < 2; ++part) {
        const aot_qdwconv_s8_params q = part_of(p, part);
        aot_qdwconv_s8(r->y + q.y_row0 * p->ow * p->oc, r->x + q.x_row0 * p->iw * p->ic, r->w,
                       r->bias, r->s.mult, r->s.shift, scratch, &q, r->s.rq, r->s.pc, P, KH, KW, S,
                       CB);
    }
    compare(r, fixed ? "portable, known window" : "portable");
}

#if AOT_VLEN > 1
static void vectors(const run *r, int O, int W16) {
    const aot_qdwconv_s8_params *p = &r->p;
    const int pitch = up_to(p->oc, V), taps = p->kh * p->kw;
    int8_t *w = NEW(int8_t, taps * pitch);
    int16_t *wide = NEW(int16_t, taps * pitch);
    for (int i = 0; i < taps * pitch; ++i) {
        w[i] = i % pitch < p->oc ? r->w[i % pitch * taps + i / pitch] : 0;
        wide[i] = w[i];
    }
    for (int part = 0; part < 2; ++part) {
        const aot_qdwconv_s8_params q = part_of(p, part);
        aot_qdwconv_s8__vec(r->y + q.y_row0 * p->ow * p->oc, r->x + q.x_row0 * p->iw * p->ic,
                            W16 ? (const void *)wide : w, r->bias, r->s.mult, r->s.shift, NULL, &q,
                            r->s.rq, r->s.pc, O, W16);
    }
    compare(r, W16 ? "vectors, int16 weights" : "vectors");
}
#endif

#if AOT_VLEN > 1
/* By dot products; of two sets of weights the second has what the halves of the first lack. */
static void dots(const run *r, int SETS, int known) {
    const aot_qdwconv_s8_params *p = &r->p;
    const int groups = (p->kh + 3) / 4, taps = p->kh * p->kw,
              blocks = (p->oc + 4 * V - 1) / (4 * V);
    int8_t *w = NEW(int8_t, SETS * p->kw * groups * 16 * V * blocks);
    int32_t *bias = NEW(int32_t, 4 * V * blocks + blocks), first = 0;
    const int columns = AOT_QDW_COLUMNS * p->sw + p->kw * p->dw;
    for (int c = 0; c < p->oc; ++c) {
        const int block = c / (4 * V) * 4 * V, lanes = aot_qdw_lanes(block, p->oc);
        const int lane = aot_qdw_place(c - block, lanes);
        int32_t sum = 0;
        for (int t = 0; t < taps; ++t) {
            const int a = t / p->kw, b = t % p->kw, all = r->w[c * taps + t];
            for (int set = 0; set < SETS; ++set) {
                const int at = ((set * p->kw + b) * groups + a / 4) * 16 * lanes + 4 * lane + a % 4;
                const int value = SETS == 1 ? all : set ? all - all / 2 : all / 2;
                w[block * SETS * p->kw * groups * 4 + at] = (int8_t)value;
            }
            sum += all;
        }
        bias[block + lane] = r->bias[c] - 128 * sum;
        first = block + 4 * lanes;
    }
    for (int i = 0; i < blocks; ++i) {
        bias[first + i] = SETS - 1;
    }
    for (int part = 0; part < 2; ++part) {
        const aot_qdwconv_s8_params q = part_of(p, part);
        aot_qdwconv_s8__dot(r->y + q.y_row0 * p->ow * p->oc, r->x + q.x_row0 * p->iw * p->ic, w,
                            bias, r->s.mult, r->s.shift, NEW(int32_t, columns * groups * 4 * V), &q,
                            r->s.rq, r->s.pc, known ? p->kw : 0, known ? groups : 0, SETS);
    }
    compare(r, SETS > 1 ? "dot products, two sets" : "dot products");
}
#endif

static void dsp(const run *r) {
    const aot_qdwconv_s8_params *p = &r->p;
    const int near = p->kh == 3 && p->kw == 3 && p->dh == 1 && p->dw == 1 && p->sh == p->sw;
    const int kind = near && p->sh <= 2 ? p->sh : 0, taps = p->kh * p->kw;
    const size_t size = kind ? AOT_QDW_DSP_SCRATCH : sizeof(void *) * (size_t)taps + (size_t)p->ic;
    int8_t *w = NEW(int8_t, p->oc * taps);
    void *scratch = check_new(size);
    for (int i = 0; i < p->oc * taps; ++i) { /* [block][taps][4] */
        w[i] = r->w[(i / (4 * taps) * 4 + i % 4) * taps + i / 4 % taps];
    }
    for (int part = 0; part < 2; ++part) {
        const aot_qdwconv_s8_params q = part_of(p, part);
        aot_qdwconv_s8__dsp(r->y + q.y_row0 * p->ow * p->oc, r->x + q.x_row0 * p->iw * p->ic, w,
                            r->bias, r->s.mult, r->s.shift, scratch, &q, r->s.rq, r->s.pc, kind,
                            p->lo > -128 || p->hi < 127);
    }
    compare(r, "DSP");
}

static void mve(const run *r) {
    const aot_qdwconv_s8_params *p = &r->p;
    const int taps = p->kh * p->kw, padded = up_to(taps, 4), channels = up_to(p->oc, 16);
    const int group = 16 % p->oc == 0 && p->sw == 1 ? 16 / p->oc : 1;
    const size_t pointers = (sizeof(void *) + 4U) * (size_t)padded + (size_t)channels;
    const size_t more = p->oc % 16 ? sizeof(void *) * (size_t)padded + 16U * (size_t)taps : 0U;
    int8_t *w = NEW(int8_t, channels * taps);
    void *scratch = check_new(pointers + more);
    for (int i = 0; i < channels * taps;
         ++i) { /* [block][taps][16], channels repeated at the end */
        w[i] = r->w[(i / (16 * taps) * 16 + i % 16) % p->oc * taps + i / 16 % taps];
    }
    for (int part = 0; part < 2; ++part) {
        const aot_qdwconv_s8_params q = part_of(p, part);
        aot_qdwconv_s8__mve(r->y + q.y_row0 * p->ow * p->oc, r->x + q.x_row0 * p->iw * p->ic, w,
                            r->bias, r->s.mult, r->s.shift, scratch, &q, r->s.rq, r->s.pc,
                            r->s.rq == 2 && p->lo < p->y_zero, taps == 9, group);
    }
    compare(r, "MVE");
}

static void test(int number, int rq, int pc) {
    const qgeometry *g = &cases[number];
    const aot_qdwconv_s8_params p = qparams(g);
    const int taps = g->kh * g->kw, n = p.n * p.oh * p.ow * p.oc;
    int8_t *w = some_values(g->oc * taps, -127); /* sums of two products fit 16 bits */
    int32_t *bias = NEW(int32_t, g->oc);
    int64_t *sums = NEW(int64_t, n);
    run r = {p,
             some_scales(rq, pc, g->oc, 0.01 / sqrt(taps)),
             some_values(p.n * p.ih * p.iw * p.ic, -128),
             w,
             NULL,
             sums,
             NEW(int8_t, n)};
    check_case("depthwise %d, RQ %d, PC %d", number, rq, pc);
    fill_s32(bias, g->oc, -3000, 3000);
    qconvolve(sums, r.x, w, bias, &p, 1);
    r.bias = folded(bias, w, g->oc, taps, g->x_zero, g->oc);
    portable(&r, p.ow < 4 ? p.ow : 4, 8, 1);
    portable(&r, 1, 4, 0);
    portable(&r, 3, 16, 1);
    if (g->ic % 4 == 0) {
        dsp(&r);
    }
    r.bias = folded(bias, w, g->oc, taps, g->x_zero, up_to(g->oc, 16) + 16);
#if AOT_VLEN > 1
    vectors(&r, 1, 0);
    vectors(&r, g->oc / V > 4 ? 4 : g->oc / V > 1 ? g->oc / V : 1, 0);
    vectors(&r, 1, 1);
    dots(&r, 1, 1);
    dots(&r, 1, 0);
    dots(&r, 2, 1);
#endif
    if (rq != 1) {
        mve(&r);
    }
    check_free();
}

/* -- Matrix products -----------------------------------------------------------------------------
 */

typedef struct product {
    aot_qfc_s8_params p;
    scales s;
    const int8_t *x, *w;
    const int32_t *bias;
    const int64_t *sums;
    int8_t *y;
} product;

static void compare_product(const product *r, const char *what) {
    const int n = r->p.m * r->p.n;
    same_values(what, r->y, r->sums, n, r->p.n, &r->s, r->p.y_zero, r->p.lo, r->p.hi);
    (void)memset(r->y, 0x55, (size_t)n);
}

static void products_on(const product *r) {
    const aot_qfc_s8_params *p = &r->p;
    const scales *s = &r->s;
    const int wide = dsp_wide(r->w, r->bias, p->n, p->k), deep = up_to(p->k, 8),
              rows = p->m == 1 ? 1 : 2;
    const int full = p->k % 16 == 0, clip = p->lo > -128 || p->hi < 127;
    int8_t *copy = p->k % 8 ? NEW(int8_t, deep) : NULL;
    aot_qfc_s8(r->y, r->x, tile_weights(r->w, p->n, 1, p->k, 4, 0), r->bias, s->mult, s->shift,
               NULL, p, s->rq, s->pc, p->m < 4 ? p->m : 4, 4, 0);
    compare_product(r, "portable");
    aot_qfc_s8(r->y, r->x, tile_weights(r->w, p->n, 1, p->k, 4, 1), r->bias, s->mult, s->shift,
               NULL, p, s->rq, s->pc, 1, 4, 1);
    compare_product(r, "portable, planar");
#if AOT_VLEN > 1
    for (int pair = 0; pair < 2; ++pair) {
        const int O = p->n > V ? 2 : 1, P = p->m < 4 ? p->m : 4;
        aot_qfc_s8__vec(r->y, r->x, vector_weights(r->w, p->n, p->k, O, V, pair), r->bias, s->mult,
                        s->shift, NEW(int16_t, P * up_to(p->k, 2)), p, s->rq, s->pc, P, O, pair);
        compare_product(r, pair ? "vectors, pairs" : "vectors");
        aot_qfc_s8__dot(r->y, r->x, dot_weights(r->w, p->n, 1, p->k, O, V),
                        dot_bias(r->bias, r->w, p->n, p->k, V, 128), s->mult, s->shift,
                        NEW(int8_t, dot_bytes(p->k, p->m, 1, 1, 1, 1, 1, 1, 1)), p, s->rq, s->pc, 2,
                        2, O, 128, 0, 4096);
        compare_product(r, "dot products");
    }
#endif
    aot_qfc_s8__dsp(r->y, r->x, dsp_weights(r->w, p->n, p->k, deep, wide),
                    dsp_bias(r->bias, p->n, wide), s->mult, s->shift, copy, p, s->rq, s->pc, clip,
                    wide);
    compare_product(r, "DSP");
    if (s->rq != 1) {
        aot_qfc_s8__mve(r->y, r->x, mve_weights(r->w, p->n, p->k), r->bias, s->mult, s->shift,
                        NEW(int8_t, full ? 0 : rows * up_to(p->k, 16)), p, s->rq, s->pc, full,
                        s->rq == 2 && p->lo < p->y_zero, rows);
        compare_product(r, "MVE");
    }
}

static void test_product(int m, int k, int n, int rq, int pc, int small) {
    const aot_qfc_s8_params p = {m,  k, n, small ? -128 : 89, small ? 127 : -4, small ? -100 : -128,
                                 127};
    int8_t *w = some_values(n * k, -128);
    int32_t *bias = NEW(int32_t, n);
    int64_t *sums = NEW(int64_t, m * n);
    product r = {p,
                 some_scales(rq, pc, n, 0.6 / sqrt(k) / (small ? 4 : 64)),
                 some_values(m * k, -128),
                 w,
                 NULL,
                 sums,
                 NEW(int8_t, m * n)};
    check_case("product [%d, %d, %d], RQ %d, PC %d, small weights %d", m, k, n, rq, pc, small);
    fill_s32(bias, n, -3000, 3000);
    for (int i = 0; small && i < n * k; ++i) {
        w[i] = (int8_t)(w[i] / 16);
    }
    for (int i = 0; i < m * n; ++i) {
        sums[i] = bias[i % n];
        for (int t = 0; t < k; ++t) {
            sums[i] += (r.x[i / n * k + t] - p.x_zero) * w[i % n * k + t];
        }
    }
    r.bias = folded(bias, w, n, k, p.x_zero, up_to(n, 32) + 8);
    products_on(&r);
    check_free();
}

int main(void) {
    for (int k = 0; k < (int)(6 * sizeof cases / sizeof *cases); ++k) {
        test(k / 6, k % 3, k / 3 % 2);
    }
    for (int k = 0; k < 12; ++k) {
        test_product(1, 64, 12, k % 3, k / 3 % 2, k / 6);
        test_product(1, 8, 130, k % 3, k / 3 % 2, k / 6);
        test_product(5, 33, 7, k % 3, k / 3 % 2, k / 6);
        test_product(2, 3, 1, k % 3, k / 3 % 2, k / 6);
        test_product(7, 80, 33, k % 3, k / 3 % 2, k / 6);
    }
    return check_end();
}
