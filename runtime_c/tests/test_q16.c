/* SPDX-License-Identifier: MIT-0 */
/* Convolutions, depthwise ones and matrix products of int16 quantised values with int8 weights: in
 * plain C, and for Arm's DSP and vector instructions in their plain form. */
#include "quantised.h"

#include "aot_qconv_s16.h"
#include "aot_qdwconv_s16.h"
#include "aot_qfc_s16.h"

/* n, ic, ih, iw, oc, kernel, strides, dilations, pads, zero points, bounds */
static const qgeometry cases[] = {
    {1, 1, 5, 5, 4, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, 0, 0, -32768, 32767},
    {1, 8, 9, 7, 8, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, -300, 500, -32768, 32767},
    {2, 5, 6, 7, 7, 2, 3, 2, 1, 1, 1, {0, 1, 1, 2}, 1000, -7, -500, 20000},
    {1, 3, 8, 9, 5, 3, 2, 1, 2, 2, 2, {2, 1, 0, 1}, -9, 11, -32768, 32767},
    {1, 16, 4, 5, 13, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, 77, -77, -32768, 32767},
    {2, 6, 5, 5, 9, 1, 1, 2, 2, 1, 1, {0, 0, 0, 0}, 0, 3, 0, 32767},
};

static int16_t *some_words(int n) {
    int16_t *x = NEW(int16_t, n);
    for (int i = 0; i < n; ++i) {
        x[i] = (int16_t)within(check_integer(-40000, 40000), -32768, 32767);
    }
    return x;
}

static void compare(const char *what, int16_t *y, const int64_t *sums, int n, int oc,
                    const scales *s, int y_zero, int lo, int hi) {
    for (int i = 0; i < n; ++i) {
        same_at(what, i, y[i], within(rescaled(sums[i], s, i % oc) + y_zero, lo, hi));
    }
    (void)memset(y, 0x55, (size_t)n * sizeof *y);
}

/* As qconvolve of quantised.h, of int16 quantised values. */
static void convolve(int64_t *want, const int16_t *x, const int8_t *w, const int32_t *bias,
                     const aot_qconv_s16_params *p, int depthwise) {
    const int group = depthwise ? 1 : p->ic, taps = p->kh * p->kw * group;
    for (int i = 0; i < p->n * p->oh * p->ow * p->oc; ++i) {
        const int c = i % p->oc, ox = i / p->oc % p->ow, oy = i / (p->oc * p->ow) % p->oh;
        const int image = i / (p->oc * p->ow * p->oh);
        want[i] = bias[c];
        for (int k = 0; k < taps; ++k) {
            const int row = oy * p->sh - p->pt + k / (p->kw * group) * p->dh;
            const int column = ox * p->sw - p->pl + k / group % p->kw * p->dw;
            if (row >= 0 && row < p->ih && column >= 0 && column < p->iw) {
                const int from = ((image * p->ih + row) * p->iw + column) * p->ic;
                want[i] += (x[from + (depthwise ? c : k % group)] - p->x_zero) * w[c * taps + k];
            }
        }
    }
}

/* w [n][k] as [n / 4][deep][4], or for UNIT 2 as [n / 4][deep / 8][4][8]; zeros behind. */
static int8_t *packed(const int8_t *w, int n, int k, int deep, int UNIT) {
    const int blocks = up_to(n, 4) / 4;
    int8_t *to = NEW(int8_t, blocks * deep * 4);
    for (int i = 0; i < blocks * deep * 4; ++i) {
        const int at = i % (deep * 4), c = UNIT == 2 ? at / 8 % 4 : at % 4;
        const int t = UNIT == 2 ? at / 32 * 8 + at % 8 : at / 4, channel = i / (deep * 4) * 4 + c;
        to[i] = channel < n && t < k ? w[channel * k + t] : 0;
    }
    return to;
}

/* packed, and for UNIT 1 the words of aot_dsp_mac.h, of pairs of neighbours. */
static const int8_t *weights_of(const int8_t *w, int n, int k, int deep, int UNIT) {
    int8_t *turned;
    if (UNIT != 1) {
        return packed(w, n, k, deep, UNIT);
    }
    turned = NEW(int8_t, n * deep);
    for (int i = 0; i < n * deep; ++i) {
        const int t = i % deep, from = t % 4 == 1 ? t + 1 : t % 4 == 2 ? t - 1 : t;
        turned[i] = from < k ? w[i / deep * k + from] : 0;
    }
    return dsp_weights(turned, n, deep, deep, 1);
}

/* Weights [oc][kh][kw][ic] along a window: each row, or tap, has an even number of them. */
static int8_t *along_window(const int8_t *w, const aot_qconv_s16_params *p, int kind, int *size) {
    const int run = (p->dw == 1 ? p->kw : 1) * p->ic, runs = p->kh * p->kw * p->ic / run;
    const int even = kind == 1 ? run : up_to(run, 2);
    int8_t *to = NEW(int8_t, p->oc * runs * even);
    *size = runs * even;
    for (int i = 0; i < p->oc * runs * even; ++i) {
        const int at = i % even, r = i / even;
        to[i] = at < run ? w[r * run + at] : 0;
    }
    return to;
}

static void convolution(int number, int rq, int pc) {
    const qgeometry *g = &cases[number];
    const aot_qconv_s16_params p = qparams(g);
    const int depth = g->kh * g->kw * g->ic, n = p.n * p.oh * p.ow * p.oc;
    const int kind = depth == g->ic && !g->pad[0], clip = g->lo > -32768 || g->hi < 32767;
    const int16_t *x = some_words(p.n * p.ih * p.iw * p.ic);
    int8_t *w = some_values(g->oc * depth, -127);
    int32_t *bias = NEW(int32_t, g->oc);
    int64_t *sums = NEW(int64_t, n);
    int16_t *y = NEW(int16_t, n);
    const scales s = some_scales(rq, pc, g->oc, 0.003 / sqrt(depth));
    int size;
    const int8_t *window = along_window(w, &p, kind, &size);
    check_case("convolution %d, RQ %d, PC %d", number, rq, pc);
    fill_s32(bias, g->oc, -300000, 300000);
    convolve(sums, x, w, bias, &p, 0);
    bias = folded(bias, w, g->oc, depth, g->x_zero, up_to(g->oc, 4));
    for (int unit = 0; unit < 3; ++unit) {
        const int deep = aot_s16_depth(size, unit);
        const int8_t *own = weights_of(window, g->oc, size, deep, unit);
        int16_t *scratch = NEW(int16_t, 2 * deep);
        aot_qconv_s16(y, x, own, bias, s.mult, s.shift, scratch, &p, rq, pc, kind, clip, unit);
        compare(unit == 2 ? "MVE"
                : unit    ? "DSP"
                          : "plain",
                y, sums, n, g->oc, &s, g->y_zero, g->lo, g->hi);
    }
    check_free();
}

static void depthwise(int number, int rq, int pc) {
    qgeometry g = cases[number];
    aot_qdwconv_s16_params p;
    static const int turned[4] = {0, 2, 1, 3};
    g.oc = g.ic;
    p = qparams(&g);
    {
        const int taps = g.kh * g.kw, n = p.n * p.oh * p.ow * p.oc, blocks = up_to(g.oc, 4) / 4;
        const int clip = g.lo > -32768 || g.hi < 32767;
        const int16_t *x = some_words(p.n * p.ih * p.iw * p.ic);
        int8_t *w = some_values(g.oc * taps, -127), *own = NEW(int8_t, blocks * taps * 4);
        int32_t *bias = NEW(int32_t, g.oc);
        int64_t *sums = NEW(int64_t, n);
        int16_t *y = NEW(int16_t, n);
        void *scratch = check_new(sizeof(void *) * (size_t)taps + 2U * (size_t)up_to(g.ic, 8));
        const scales s = some_scales(rq, pc, g.oc, 0.003 / sqrt(taps));
        check_case("depthwise %d, RQ %d, PC %d", number, rq, pc);
        fill_s32(bias, g.oc, -300000, 300000);
        convolve(sums, x, w, bias, &p, 1);
        bias = folded(bias, w, g.oc, taps, g.x_zero, up_to(g.oc, 4));
        for (int unit = 0; unit < 3; ++unit) {
            for (int i = 0; i < blocks * taps * 4; ++i) {
                const int c = i / (taps * 4) * 4 + (unit == 1 ? turned[i % 4] : i % 4);
                own[i] = c < g.oc ? w[c * taps + i / 4 % taps] : 0;
            }
            aot_qdwconv_s16(y, x, own, bias, s.mult, s.shift, scratch, &p, rq, pc, clip, unit);
            compare(unit == 2 ? "MVE"
                    : unit    ? "DSP"
                              : "plain",
                    y, sums, n, g.oc, &s, g.y_zero, g.lo, g.hi);
        }
        check_free();
    }
}

static void product(int m, int k, int n, int rq, int pc) {
    const aot_qfc_s16_params p = {m, k, n, -40, 900, -32768, 32767};
    const int16_t *x = some_words(m * k);
    int8_t *w = some_values(n * k, -127);
    int32_t *bias = NEW(int32_t, n);
    int64_t *sums = NEW(int64_t, m * n);
    int16_t *y = NEW(int16_t, m * n);
    const scales s = some_scales(rq, pc, n, 0.003 / sqrt(k));
    check_case("product %d x %d x %d, RQ %d, PC %d", m, k, n, rq, pc);
    fill_s32(bias, n, -300000, 300000);
    for (int i = 0; i < m * n; ++i) {
        sums[i] = bias[i % n];
        for (int t = 0; t < k; ++t) {
            sums[i] += (x[i / n * k + t] - p.x_zero) * w[i % n * k + t];
        }
    }
    bias = folded(bias, w, n, k, p.x_zero, up_to(n, 4));
    for (int unit = 0; unit < 3; ++unit) {
        const int deep = aot_s16_depth(k, unit);
        const int8_t *own = weights_of(w, n, k, deep, unit);
        int16_t *scratch = NEW(int16_t, deep);
        aot_qfc_s16(y, x, own, bias, s.mult, s.shift, scratch, &p, rq, pc, 0, unit);
        compare(unit == 2 ? "MVE"
                : unit    ? "DSP"
                          : "plain",
                y, sums, m * n, n, &s, p.y_zero, p.lo, p.hi);
    }
    check_free();
}

int main(void) {
    for (int rq = 0; rq < 3; ++rq) {
        for (int pc = 0; pc < 2; ++pc) {
            for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); ++i) {
                convolution(i, rq, pc);
                depthwise(i, rq, pc);
            }
            product(1, 8, 4, rq, pc);
            product(3, 21, 10, rq, pc);
            product(2, 64, 33, rq, pc);
        }
    }
    return check_end();
}
