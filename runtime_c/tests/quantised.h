/* SPDX-License-Identifier: MIT-0 */
/* What the tests of integer kernels share: multipliers, the roundings of requantisation as they are
 * defined, convolutions of quantised values. */
#ifndef AOT_TESTS_QUANTISED_H
#define AOT_TESTS_QUANTISED_H

#include "check.h"

#include "aot_qconv_s8_params.h"
#include "aot_requant.h"

/* One multiplier per channel, or one in all: the fields that kernels of arithmetic RQ read. */
typedef struct scales {
    int rq, pc;
    int32_t *mult;
    int8_t *shift;
} scales;

/* A scale as aot_requant.h has it: 0 the bits of a float; 1 an integer of 24 significant bits times
 * 2^-(25 + shift); 2 an integer of 31 bits times 2^(shift - 31). */
static AOT_UNUSED void set_scale(const scales *s, int at, float scale) {
    int exponent;
    const double fraction = frexp((double)scale, &exponent); /* 0.5 <= fraction < 1 */
    if (s->rq == 0) {
        (void)memcpy(&s->mult[at], &scale, sizeof scale);
    } else {
        s->mult[at] = (int32_t)(fraction * 2147483648.0);
        s->shift[at] = (int8_t)(s->rq == 1 ? 6 - exponent : exponent);
    }
}

/* Scales around `usual`. */
static AOT_UNUSED scales some_scales(int rq, int pc, int channels, double usual) {
    const scales s = {rq, pc, NEW(int32_t, channels), NEW(int8_t, channels)};
    for (int c = 0; c < (pc ? channels : 1); ++c) {
        set_scale(&s, c, (float)(usual * check_uniform(0.3, 3.0)));
    }
    return s;
}

/* v / 2^n, halves away from zero. */
static AOT_UNUSED int64_t divided(int64_t v, int n) {
    const int64_t size = ((v < 0 ? -v : v) + ((INT64_C(1) << n) >> 1)) >> n;
    return v < 0 ? -size : size;
}

/* The rescaled sum before the zero point: in float32, rounded once as a product and once to an
 * integer (RQ 0 and 1); or in fixed point, first halves upwards, then away from zero (RQ 2). */
static AOT_UNUSED int64_t rescaled(int64_t acc, const scales *s, int channel) {
    const int k = s->pc ? channel : 0;
    float scale;
    if (s->rq == 2) {
        const int left = s->shift[k] > 0 ? s->shift[k] : 0;
        const int64_t top = (1 << 30) - 1, moved = acc * (INT64_C(1) << left);
        const int64_t limited = moved > top ? top : moved < -top ? -top : moved;
        const int64_t product = limited * s->mult[k] + (INT64_C(1) << 30);
        const int64_t high = product >= 0 ? product / (INT64_C(1) << 31)
                                          : -((-product + (INT64_C(1) << 31) - 1) >> 31);
        return divided(high, s->shift[k] < 0 ? -s->shift[k] : 0);
    }
    if (s->rq == 1) {
        scale = (float)ldexp((double)s->mult[k], -25 - s->shift[k]);
    } else {
        (void)memcpy(&scale, &s->mult[k], sizeof scale);
    }
    /* A product of two floats is exact in double. */
    return (int64_t)nearbyint((double)(float)((double)(float)acc * (double)scale));
}

static AOT_UNUSED int64_t within(int64_t v, int64_t lo, int64_t hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

/* Quantised values of int8, the ends of the range often. */
static AOT_UNUSED int8_t *some_values(ptrdiff_t n, int lo) {
    int8_t *x = NEW(int8_t, n);
    for (ptrdiff_t i = 0; i < n; ++i) {
        x[i] = (int8_t)within(check_integer(-160, 160), lo, 127);
    }
    return x;
}

/* A convolution of quantised values; pads at the end are pb and pr. `groups` is 1, or the channels.
 */
typedef struct qgeometry {
    int n, ic, ih, iw, oc, kh, kw, sh, sw, dh, dw, pad[4], x_zero, y_zero, lo, hi;
} qgeometry;

static AOT_UNUSED aot_qconv_s8_params qparams(const qgeometry *g) {
    const aot_qconv_s8_params p = {
        g->n,
        g->ic,
        g->ih,
        g->iw,
        g->oc,
        (g->ih + g->pad[0] + g->pad[2] - (g->kh - 1) * g->dh - 1) / g->sh + 1,
        (g->iw + g->pad[1] + g->pad[3] - (g->kw - 1) * g->dw - 1) / g->sw + 1,
        g->kh,
        g->kw,
        g->sh,
        g->sw,
        g->dh,
        g->dw,
        g->pad[0],
        g->pad[1],
        g->x_zero,
        g->y_zero,
        g->lo,
        g->hi,
        g->oc,
        0,
        0,
        0,
        0};
    aot_qconv_s8_params all = p;
    all.y1 = p.oh;
    return all;
}

/* want [n][oh][ow][oc] = bias + sums of (x - x_zero) * w, w [oc][kh][kw][ic] or, of depthwise ones,
 * [oc][kh][kw]; what is outside x counts as x_zero. */
static AOT_UNUSED void qconvolve(int64_t *want, const int8_t *x, const int8_t *w,
                                 const int32_t *bias, const aot_qconv_s8_params *p, int depthwise) {
    const int group = depthwise ? 1 : p->ic;
    for (int i = 0; i < p->n * p->oh * p->ow * p->oc; ++i) {
        const int c = i % p->oc, ox = i / p->oc % p->ow, oy = i / (p->oc * p->ow) % p->oh;
        const int image = i / (p->oc * p->ow * p->oh);
        want[i] = bias[c];
        for (int k = 0; k < p->kh * p->kw * group; ++k) {
            const int row = oy * p->sh - p->pt + k / (p->kw * group) * p->dh;
            const int column = ox * p->sw - p->pl + k / group % p->kw * p->dw;
            if (row >= 0 && row < p->ih && column >= 0 && column < p->iw) {
                const int from = ((image * p->ih + row) * p->iw + column) * p->ic;
                want[i] += (x[from + (depthwise ? c : k % group)] - p->x_zero) *
                           w[c * p->kh * p->kw * group + k];
            }
        }
    }
}

/* The bias that kernels get: minus x_zero times the weights of a channel; zero up to `padded`. */
static AOT_UNUSED int32_t *folded(const int32_t *bias, const int8_t *w, int oc, int depth,
                                  int x_zero, int padded) {
    int32_t *to = NEW(int32_t, padded);
    for (int c = 0; c < padded; ++c) {
        to[c] = c < oc ? bias[c] : 0;
        for (int k = 0; c < oc && k < depth; ++k) {
            to[c] -= x_zero * w[c * depth + k];
        }
    }
    return to;
}

/* Quantised values [pixels][oc] against sums. */
static AOT_UNUSED void same_values(const char *what, const int8_t *y, const int64_t *sums, int n,
                                   int oc, const scales *s, int y_zero, int lo, int hi) {
    for (int i = 0; i < n; ++i) {
        same_at(what, i, y[i], within(rescaled(sums[i], s, i % oc) + y_zero, lo, hi));
    }
}

static AOT_UNUSED int up_to(int n, int multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

/* -- Weights as the kernels want them: of w [n][k] ----------------------------------------------
 */

/* aot_qtile_s8.h: [panel][rows][run][O], or planar [panel][rows][O][run]; k = rows * run. */
static AOT_UNUSED int8_t *tile_weights(const int8_t *w, int n, int rows, int run, int O,
                                       int planar) {
    const int panels = up_to(n, O) / O;
    int8_t *to = NEW(int8_t, panels * rows * run * O);
    for (int i = 0; i < panels * rows * run * O; ++i) {
        const int row = i / (run * O) % rows, c = planar ? i / run % O : i % O;
        const int k = planar ? i % run : i / O % run, channel = i / (rows * run * O) * O + c;
        to[i] = channel < n ? w[(channel * rows + row) * run + k] : 0;
    }
    return to;
}

/* aot_qvec.h: [panel][k][O][V], or in pairs [panel][k / 2][O][V][2]; k rounded up to even. */
static AOT_UNUSED int8_t *vector_weights(const int8_t *w, int n, int k, int O, int V, int pair) {
    const int deep = up_to(k, 2), size = deep * O * V, panels = up_to(n, O * V) / (O * V);
    int8_t *to = NEW(int8_t, panels * size);
    for (int i = 0; i < panels * size; ++i) {
        const int at = i % size, channel = i / size * O * V + (pair ? at / 2 : at) % (O * V);
        const int t = pair ? at / (2 * O * V) * 2 + at % 2 : at / (O * V);
        to[i] = channel < n && t < k ? w[channel * k + t] : 0;
    }
    return to;
}

/* aot_qdot.h: w [n][runs][run] as [panel][runs][run / 4][O][V][4]; a last panel of few channels has
 * one vector. */
static AOT_UNUSED int8_t *dot_weights(const int8_t *w, int n, int runs, int run, int O, int V) {
    const int deep = runs * up_to(run, 4), size = deep * O * V, channels = up_to(n, V);
    int8_t *to = NEW(int8_t, deep * channels);
    for (int i = 0; i < deep * channels; ++i) {
        const int panel = i / size, at = i % size, left = channels - panel * O * V;
        const int wide = left < O * V ? left : O * V;
        const int channel = panel * O * V + at / 4 % wide;
        const int group = at / (4 * wide), t = group * 4 % up_to(run, 4) + at % 4;
        const int from = (channel * runs + group * 4 / up_to(run, 4)) * run + t;
        to[i] = channel < n && t < run ? w[from] : 0;
    }
    return to;
}

/* The bias of values that count as unsigned; w [n][depth]. */
static AOT_UNUSED int32_t *dot_bias(const int32_t *bias, const int8_t *w, int n, int depth, int V,
                                    int flip) {
    int32_t *to = NEW(int32_t, up_to(n, V));
    for (int c = 0; c < n; ++c) {
        to[c] = bias[c];
        for (int i = 0; i < depth; ++i) {
            to[c] -= flip * w[c * depth + i];
        }
    }
    return to;
}

/* Bytes that aot_qconv_s8__dot may need for all rows. */
static AOT_UNUSED int dot_bytes(int ic, int oh, int ow, int kh, int kw, int sh, int sw, int dh,
                                int dw) {
    const int rows = (oh - 1) * sh + (kh - 1) * dh + 1, width = (ow - 1) * sw + (kw - 1) * dw + 1;
    return (rows * width + 7 * sw) * ic + 128;
}

/* aot_qmve.h: [block of four channels][chunk][4][16]. */
static AOT_UNUSED int8_t *mve_weights(const int8_t *w, int n, int k) {
    const int chunks = up_to(k, 16) / 16, blocks = up_to(n, 4) / 4;
    int8_t *to = NEW(int8_t, blocks * chunks * 64);
    for (int i = 0; i < blocks * chunks * 64; ++i) {
        const int channel = i / (chunks * 64) * 4 + i / 16 % 4, t = i / 64 % chunks * 16 + i % 16;
        to[i] = channel < n && t < k ? w[channel * k + t] : 0;
    }
    return to;
}

/* Channel i of the blocks of aot_qconv_s8__dsp.h: the last block ends at the last channel. */
static AOT_UNUSED int dsp_channel(int i, int oc) {
    return oc % 4 != 0 && i >= oc - oc % 4 ? oc - 4 + i % 4 : i;
}

/* Whether a sum of a second channel may pass 23 bits, or a half word of weights 16: then a block
 * must be wide (aot_dsp_mac.h). */
static AOT_UNUSED int dsp_wide(const int8_t *w, const int32_t *bias, int n, int k) {
    for (int c = 1; c < n; c += 2) {
        int64_t sum = bias[c] < 0 ? -(int64_t)bias[c] : bias[c];
        for (int t = 0; t < k; ++t) {
            const int half = 256 * w[c * k + t] + w[(c - 1) * k + t];
            sum += 128 * abs(w[c * k + t]);
            if (half >= 32768 || half <= -32768) {
                return 1;
            }
        }
        if (sum >= 1 << 23) {
            return 1;
        }
    }
    return 0;
}

/* aot_dsp_mac.h: per block of four channels and pair of quantised values two words, of channels (0,
 * 1) and (2, 3); of four quantised values the even pair (0, 2) comes first, then (1, 3). Bytes 0
 * and 2 of a word are the first channel's, 1 and 3 the second's, which in narrow weights is one
 * less if the first's is negative: a half word is 256 * second + first. k is a multiple of 4, n of
 * the channels given. */
static AOT_UNUSED int8_t *dsp_weights(const int8_t *w, int n, int k, int deep, int wide) {
    const int blocks = up_to(n, 4) / 4;
    int8_t *to = NEW(int8_t, blocks * 4 * deep);
    for (int i = 0; i < blocks * deep * 4; ++i) {
        const int byte = i % 4, word = i / 4 % 2, parity = i / 8 % 2, four = i / 16 % (deep / 4);
        const int first = i / (4 * deep) * 4 + 2 * word, t = 4 * four + byte / 2 * 2 + parity;
        const int a = first < n && t < k ? w[first * k + t] : 0;
        const int b = first + 1 < n && t < k ? w[(first + 1) * k + t] : 0;
        to[i] = (int8_t)(byte % 2 == 0 ? a : wide ? b : b - (a < 0));
    }
    return to;
}

static AOT_UNUSED int32_t *dsp_bias(const int32_t *bias, int n, int wide) {
    int32_t *to = NEW(int32_t, up_to(n, 4));
    for (int c = 0; c < up_to(n, 4); ++c) {
        const uint32_t own = c < n ? (uint32_t)bias[c] : 0U;
        const uint32_t first = c < n && c % 2 ? (uint32_t)bias[c - 1] : 0U;
        to[c] = (int32_t)(c % 2 && !wide ? 256U * own + first : own);
    }
    return to;
}

#endif /* AOT_TESTS_QUANTISED_H */
