/* SPDX-License-Identifier: MIT-0 */
/* Convolutions of int8 quantised values, groups = 1: in portable C, on vectors, and the kernels for
 * Arm's DSP and vector instructions in their plain form. */
#include "quantised.h"

#include "aot_qconv_s8.h"
#include "aot_qconv_s8__dsp.h"
#include "aot_qconv_s8__mve.h"
#if AOT_VLEN > 1
#include "aot_qconv_s8__dot.h"
#include "aot_qconv_s8__vec.h"
#endif

#define V AOT_VLEN

/* n, ic, ih, iw, oc, kernel, strides, dilations, pads, zero points, bounds */
static const qgeometry cases[] = {
    {1, 4, 1, 1, 5, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, -3, 5, -128, 127},
    {1, 3, 7, 9, 16, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, -128, 127, -128, 127},
    {1, 16, 8, 8, 32, 3, 3, 2, 2, 1, 1, {0, 0, 1, 1}, 127, -128, -128, 127},
    {1, 8, 5, 5, 16, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, -3, 5, 5, 127},
    {2, 16, 7, 7, 33, 1, 1, 2, 2, 1, 1, {0, 0, 0, 0}, 0, 0, -128, 127},
    {1, 1, 12, 7, 64, 10, 4, 2, 2, 1, 1, {4, 1, 5, 1}, 83, 5, -128, 127},
    {2, 5, 6, 11, 7, 2, 3, 1, 1, 2, 3, {1, 2, 0, 3}, -3, 5, -128, 127},
    {1, 7, 1, 20, 3, 1, 5, 1, 3, 1, 1, {0, 4, 0, 0}, -3, 5, -128, 90},
    {3, 40, 3, 3, 12, 3, 3, 1, 1, 1, 1, {0, 0, 0, 0}, 127, 5, -128, 127},
    {1, 9, 13, 1, 11, 4, 1, 1, 1, 1, 1, {2, 0, 1, 0}, -3, -128, -128, 127},
    {1, 16, 9, 7, 5, 2, 3, 2, 1, 1, 1, {1, 1, 0, 1}, 4, -7, -128, 127},
    {1, 16, 5, 9, 6, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, 4, -7, -100, 127},
};

typedef struct run {
    const qgeometry *g;
    aot_qconv_s8_params p;
    scales s;
    const int8_t *x, *w;
    const int32_t *bias; /* as the kernels get it, long enough for all of them */
    const int64_t *sums;
    int8_t *y;
    int depth;
} run;

static void compare(const run *r, const char *what) {
    const int n = r->p.n * r->p.oh * r->p.ow * r->p.oc;
    same_values(what, r->y, r->sums, n, r->p.oc, &r->s, r->p.y_zero, r->p.lo, r->p.hi);
    (void)memset(r->y, 0x55, (size_t)n);
}

/* The two halves of the rows, x from the first row that a half reads on. */
static aot_qconv_s8_params part_of(const aot_qconv_s8_params *p, int part) {
    aot_qconv_s8_params q = *p;
    const int middle = p->n == 1 ? p->oh / 2 : 0, first = middle * p->sh - p->pt;
    q.y0 = part ? middle : 0;
    q.y1 = part ? p->oh : middle;
    q.y_row0 = q.y0;
    q.x_row0 = part && first > 0 && first < p->ih ? first : 0;
    return q;
}

static void portable(const run *r, int P, int O, int planar) {
    const aot_qconv_s8_params *p = &r->p;
    const int neighbours = p->ow % P == 0 && p->dw == 1 && p->sw <= p->kw;
    const int width = neighbours ? (P - 1) * p->sw + p->kw : P * p->kw;
    const int8_t *w = tile_weights(r->w, p->oc, p->kh, p->kw * p->ic, O, planar);
    int8_t *scratch = NEW(int8_t, p->kh * width * p->ic);
    for (int part = 0; part < 2; ++part) {
        const aot_qconv_s8_params q = part_of(p, part);
        const int8_t *x = r->x + q.x_row0 * p->iw * p->ic;
        int8_t *y = r->y + q.y_row0 * p->ow * p->oc;
        if (P == 4) {
            aot_qconv_s8(y, x, w, r->bias, r->s.mult, r->s.shift, scratch, &q, r->s.rq, r->s.pc, 4,
                         4, 0);
        } else if (P == 2) {
            aot_qconv_s8(y, x, w, r->bias, r->s.mult, r->s.shift, scratch, &q, r->s.rq, r->s.pc, 2,
                         8, 0);
        } else {
            aot_qconv_s8(y, x, w, r->bias, r->s.mult, r->s.shift, scratch, &q, r->s.rq, r->s.pc, 1,
                         4, 1);
        }
    }
    compare(r, "portable");
}

/* The sums themselves. */
static void plain_sums(const run *r) {
    const aot_qconv_s8_params *p = &r->p;
    const int n = p->n * p->oh * p->ow * p->oc;
    const int8_t *w = tile_weights(r->w, p->oc, p->kh, p->kw * p->ic, 4, 0);
    int8_t *scratch = NEW(int8_t, p->kh * 4 * (p->kw + p->sw) * p->ic);
    int32_t *y = NEW(int32_t, n);
    aot_qconv_s8((int8_t *)(void *)y, r->x, w, r->bias, NULL, NULL, scratch, p, 3, 0, 4, 4, 0);
    same_s32("sum", y, r->sums, n);
#if AOT_VLEN > 1
    (void)memset(y, 0, sizeof *y * (size_t)n);
    aot_qconv_s8__vec((int8_t *)(void *)y, r->x, vector_weights(r->w, p->oc, r->depth, 2, V, 1),
                      r->bias, NULL, NULL, NEW(int16_t, 4 * up_to(r->depth, 2)), p, 3, 0, 4, 2, 1);
    same_s32("sum of vectors", y, r->sums, n);
#endif
}

#if AOT_VLEN > 1
static void vectors(const run *r, int pair) {
    const aot_qconv_s8_params *p = &r->p;
    const int O = p->oc > V ? 2 : 1, P = p->oh * p->ow < 4 ? p->oh * p->ow : 4;
    const int8_t *w = vector_weights(r->w, p->oc, r->depth, O, V, pair);
    int16_t *scratch = NEW(int16_t, P * up_to(r->depth, 2));
    for (int part = 0; part < 2; ++part) {
        const aot_qconv_s8_params q = part_of(p, part);
        const int8_t *x = r->x + q.x_row0 * p->iw * p->ic;
        int8_t *y = r->y + q.y_row0 * p->ow * p->oc;
        if (P == 4 && O == 2 && pair) {
            aot_qconv_s8__vec(y, x, w, r->bias, r->s.mult, r->s.shift, scratch, &q, r->s.rq,
                              r->s.pc, 4, 2, 1);
        } else {
            aot_qconv_s8__vec(y, x, w, r->bias, r->s.mult, r->s.shift, scratch, &q, r->s.rq,
                              r->s.pc, P, O, pair);
        }
    }
    compare(r, pair ? "vectors, pairs" : "vectors");
}
#endif

#if AOT_VLEN > 1
static void dots(const run *r, int flip) {
    const aot_qconv_s8_params *p = &r->p;
    const int runs = p->kh * (p->dw == 1 ? 1 : p->kw), one = r->depth / runs, O = p->oc > V ? 2 : 1;
    const int8_t *w = dot_weights(r->w, p->oc, runs, one, O, V);
    const int32_t *bias = dot_bias(r->bias, r->w, p->oc, r->depth, V, flip);
    void *scratch =
        NEW(int8_t, dot_bytes(p->ic, p->oh, p->ow, p->kh, p->kw, p->sh, p->sw, p->dh, p->dw));
    for (int part = 0; part < 2; ++part) {
        const aot_qconv_s8_params q = part_of(p, part);
        const int8_t *x = r->x + q.x_row0 * p->iw * p->ic;
        int8_t *y = r->y + q.y_row0 * p->ow * p->oc;
        if (O == 2 && flip == 128) {
            aot_qconv_s8__dot(y, x, w, bias, r->s.mult, r->s.shift, scratch, &q, r->s.rq, r->s.pc,
                              7, 2, 2, 128, 0, 1 << 16);
        } else if (O == 2) {
            aot_qconv_s8__dot(y, x, w, bias, r->s.mult, r->s.shift, scratch, &q, r->s.rq, r->s.pc,
                              3, 2, 2, 0, 0, 64);
        } else {
            aot_qconv_s8__dot(y, x, w, bias, r->s.mult, r->s.shift, scratch, &q, r->s.rq, r->s.pc,
                              5, 1, 1, flip, 0, 1);
        }
    }
    compare(r, flip ? "dot products, unsigned" : "dot products");
}
#endif

/* w [oc][kh][kw][ic] in the order of a window in which columns come first (KIND 2 of the DSP
 * kernel, in words of pairs; DIRECT 2 of the MVE kernel). */
static void dsp(const run *r) {
    const aot_qconv_s8_params *p = &r->p;
    const int quads = p->ic % 4 == 0, whole = p->oh == p->ih && p->ow == p->iw;
    const int kind = p->kh * p->kw == 1 && quads && p->sh * p->sw == 1 && whole ? 1
                     : quads && p->kw == 3 && p->sw == 1 && p->dw == 1          ? 2
                                                                                : 0;
    const int channels = up_to(p->oc, 4), deep = up_to(r->depth, 8),
              clip = p->lo > -128 || p->hi < 127;
    int8_t *rows = NEW(int8_t, channels * r->depth);
    int32_t *bias = NEW(int32_t, channels);
    const int8_t *w;
    void *scratch;
    int wide;
    for (int c = 0; c < channels; ++c) {
        (void)memcpy(rows + c * r->depth, r->w + dsp_channel(c, p->oc) * r->depth,
                     (size_t)r->depth);
        bias[c] = r->bias[dsp_channel(c, p->oc)];
    }
    wide = dsp_wide(rows, bias, channels, r->depth);
    w = dsp_weights(rows, channels, r->depth, kind == 2 ? r->depth : deep, wide);
    if (kind ==
        2) { /* [block][kh][kw][ic / 4][parity][8] becomes [block][kh][ic / 4][parity][kw][8] */
        const int fours = p->ic / 4, size = p->kh * 3 * fours * 16;
        int8_t *transposed = NEW(int8_t, channels / 4 * size);
        for (int i = 0; i < channels / 4 * size; ++i) {
            const int byte = i % 8, column = i / 8 % 3, parity = i / 24 % 2, four = i / 48 % fours;
            const int ky = i / (48 * fours) % p->kh, block = i / size;
            transposed[i] =
                w[block * size + (((ky * 3 + column) * fours + four) * 2 + parity) * 8 + byte];
        }
        w = transposed;
    }
    scratch = check_new((size_t)(kind == 2   ? 8 * p->kh * p->ic
                                 : kind == 1 ? 4 * deep
                                             : 6 * deep + 4));
    for (int part = 0; part < 2; ++part) {
        const aot_qconv_s8_params q = part_of(p, part);
        aot_qconv_s8__dsp(r->y + q.y_row0 * p->ow * p->oc, r->x + q.x_row0 * p->iw * p->ic, w,
                          dsp_bias(bias, channels, wide), r->s.mult, r->s.shift, scratch, &q,
                          r->s.rq, r->s.pc, kind, clip, wide, p->oc % 4 != 0);
    }
    compare(r, "DSP");
}

static void mve(const run *r) {
    const aot_qconv_s8_params *p = &r->p;
    const int inside = (p->oh - 1) * p->sh < p->ih && (p->ow - 1) * p->sw < p->iw;
    const int direct = p->kh * p->kw == 1 && p->pt + p->pl == 0 && p->ic % 16 == 0 && inside ? 1
                       : p->ic % 16 == 0 && p->kw > p->sw && p->dw == 1                      ? 2
                                                                                             : 0;
    const int size = direct == 2 ? r->depth + p->sw * p->kh * p->ic : 2 * up_to(r->depth, 16);
    int8_t *rows = NEW(int8_t, p->oc * r->depth), *scratch = NEW(int8_t, direct == 1 ? 0 : size);
    for (int i = 0; i < p->oc * r->depth;
         ++i) { /* [oc][kw][kh][ic] for windows that share columns */
        const int c = i % p->ic, a = i / p->ic % p->kh, b = i / (p->ic * p->kh) % p->kw;
        const int from = i / r->depth * r->depth + (a * p->kw + b) * p->ic + c;
        rows[i] = direct == 2 ? r->w[from] : r->w[i];
    }
    for (int part = 0; part < 2; ++part) {
        const aot_qconv_s8_params q = part_of(p, part);
        aot_qconv_s8__mve(r->y + q.y_row0 * p->ow * p->oc, r->x + q.x_row0 * p->iw * p->ic,
                          mve_weights(rows, p->oc, r->depth), r->bias, r->s.mult, r->s.shift,
                          scratch, &q, r->s.rq, r->s.pc, direct, r->s.rq == 2 && p->lo < p->y_zero);
    }
    compare(r, "MVE");
}

static void test(int number, int rq, int pc, int small) {
    const qgeometry *g = &cases[number];
    const aot_qconv_s8_params p = qparams(g);
    const int depth = g->kh * g->kw * g->ic, n = p.n * p.oh * p.ow * p.oc;
    int8_t *w = some_values(g->oc * depth, -128);
    int32_t *bias = NEW(int32_t, g->oc);
    int64_t *sums = NEW(int64_t, n);
    run r = {g,
             p,
             some_scales(rq, pc, g->oc, 0.6 / sqrt(depth) / (small ? 4 : 64)),
             some_values(p.n * p.ih * p.iw * p.ic, -128),
             w,
             NULL,
             sums,
             NEW(int8_t, n),
             depth};
    check_case("qconv %d, RQ %d, PC %d, small weights %d", number, rq, pc, small);
    for (int i = 0; small && i < g->oc * depth; ++i) { /* narrow blocks of the DSP kernel */
        w[i] = (int8_t)(w[i] / 16);
    }
    fill_s32(bias, g->oc, -3000, 3000);
    qconvolve(sums, r.x, w, bias, &p, 0);
    r.bias = folded(bias, w, g->oc, depth, g->x_zero, up_to(g->oc, 32) + 8);
    portable(&r, 4, 4, 0);
    portable(&r, 2, 8, 0);
    portable(&r, 1, 4, 1);
    plain_sums(&r);
#if AOT_VLEN > 1
    vectors(&r, 0);
    vectors(&r, 1);
    dots(&r, 0);
    dots(&r, 128);
#endif
    if (g->oc >= 4) {
        dsp(&r);
    }
    if (rq != 1) { /* which MVE has no form of */
        mve(&r);
    }
    check_free();
}

int main(void) {
    for (int number = 0; number < (int)(sizeof cases / sizeof *cases); ++number) {
        for (int k = 0; k < 12; ++k) {
            test(number, k % 3, k / 3 % 2, k / 6);
        }
    }
    return check_end();
}
