/* SPDX-License-Identifier: MIT-0 */
/* Convolutions of float32 on the register tile: of blocked tensors and of plain ones. */
#include "convolution.h"

#include "aot_conv_f32_blocked.h"
#include "aot_conv_f32_grouped.h"
#include "aot_conv_f32_plain.h"
#include "aot_tile_f32.h"

#define V AOT_VLEN

/* n, ic, ih, iw, oc, kernel, strides, dilations, pads, groups */
static const geometry cases[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, 1},
    {2, 3, 5, 7, 5, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, 1},
    {1, 17, 4, 9, 33, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, 1},
    {1, 3, 9, 11, 19, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, 1},
    {2, 4, 8, 33, 8, 3, 3, 2, 2, 1, 1, {0, 1, 1, 0}, 1},
    {1, 5, 12, 10, 70, 3, 5, 1, 2, 2, 1, {2, 2, 2, 2}, 1},
    {1, 2, 6, 31, 6, 1, 7, 1, 3, 1, 2, {0, 5, 0, 6}, 1},
    {1, 1, 20, 3, 2, 5, 1, 3, 1, 1, 1, {4, 0, 3, 0}, 1},
    {1, 2, 3, 3, 3, 3, 3, 1, 1, 1, 1, {5, 4, 5, 4}, 1},
    {1, 8, 6, 7, 12, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, 2},
    {2, 6, 5, 5, 9, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, 3},
    {1, 32, 5, 15, 64, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, 2},
    {1, 20, 4, 4, 20, 2, 2, 1, 1, 1, 1, {0, 0, 0, 0}, 20},
    {2, 12, 5, 7, 27, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, 3},
    {1, 300, 1, 131, 2, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, 1},
};

/* The weights of groups in the panels of the blocked kernel: [kh][kw][kc][o * V], kc the input
 * channels of every group that the panel touches, from a multiple of V on. */
static float *group_panels(const float *w, const geometry *g, int O) {
    const int vectors = blocks(g->oc, V), icg = g->ic / g->groups, ocg = g->oc / g->groups;
    float *to = NEW(float, (ptrdiff_t)g->kh * g->kw * (g->ic + V) * vectors * V), *at = to;
    int o;
    for (int b = 0; b < vectors; b += o) {
        for (o = O; o > vectors - b; o /= 2) {
        }
        const int end = (b + o) * V < g->oc ? (b + o) * V : g->oc;
        const int first = b * V / ocg * icg / V * V, kc = ((end - 1) / ocg + 1) * icg - first;
        for (int i = 0; i < g->kh * g->kw * kc * o * V; ++i) {
            const int c = b * V + i % (o * V), k = first + i / (o * V) % kc, t = i / (o * V * kc);
            const int own = c < g->oc && k >= c / ocg * icg && k < (c / ocg + 1) * icg;
            *at++ = own ? w[(c * icg + k % icg) * g->kh * g->kw + t] : 0.0F;
        }
    }
    return to;
}

typedef struct variant {
    int P, O, YV, act, added, run, rows; /* `rows`: the result is computed in two parts */
    float alpha, beta;
} variant;

/* A panel of several vectors belongs to one group, so that groups of odd sizes have one each. */
static int tile_blocks(const geometry *g, int O) {
    while (g->groups > 1 && O > 1 && g->oc / g->groups % (O * V) != 0) {
        O /= 2;
    }
    return O;
}

/* Rows y0 to y1 - 1, from an x that begins at the first row they read. */
static void run_blocked(float *y, const float *x, const float *w, const float *bias, const float *r,
                        const geometry *g, const variant *v, int y0, int y1) {
    const int oh = out_rows(g), ow = out_columns(g), first = y0 * g->sh - g->pad[0];
    const int row0 = first > 0 ? first : 0;
    const ptrdiff_t to = (ptrdiff_t)y0 * ow * v->YV, y_plane = (ptrdiff_t)oh * ow * v->YV;
    const ptrdiff_t x_plane = (ptrdiff_t)g->ih * g->iw * V;
    const aot_conv_f32_blocked_params p = {g->n,
                                           g->ic,
                                           g->ih,
                                           g->iw,
                                           g->oc,
                                           oh,
                                           ow,
                                           g->kh,
                                           g->kw,
                                           g->sh,
                                           g->sw,
                                           g->dh,
                                           g->dw,
                                           g->pad[0],
                                           g->pad[1],
                                           g->groups,
                                           y0,
                                           y1,
                                           row0,
                                           y0,
                                           g->iw * V,
                                           x_plane,
                                           x_plane * blocks(g->ic, V),
                                           y_plane,
                                           y_plane * (v->YV == V ? blocks(g->oc, V) : g->oc),
                                           v->act,
                                           v->alpha,
                                           v->beta};
    const int act = v->act > AOT_ACT_CLAMP;
    const float *xs = x + (ptrdiff_t)row0 * g->iw * V, *rs = r != NULL ? r + to : NULL;
    if (tile_blocks(g, v->O) != v->O) {
        aot_conv_f32_blocked(y + to, xs, w, bias, rs, &p, v->P, tile_blocks(g, v->O), v->YV, act);
    } else if (v->P == 14) {
        aot_conv_f32_blocked(y + to, xs, w, bias, rs, &p, 14, 2, v->YV, act);
    } else if (v->P == 6 && v->O == 4) {
        aot_conv_f32_blocked(y + to, xs, w, bias, rs, &p, 6, 4, v->YV, act);
    } else if (v->P == 6) {
        aot_conv_f32_blocked(y + to, xs, w, bias, rs, &p, 6, 2, v->YV, act);
    } else if (v->O == 4) {
        aot_conv_f32_blocked(y + to, xs, w, bias, rs, &p, 4, 4, v->YV, act);
    } else {
        aot_conv_f32_blocked(y + to, xs, w, bias, rs, &p, 4, 2, v->YV, act);
    }
}

static void run_plain(float *y, const float *x, const float *w, const float *bias, const float *r,
                      float *scratch, const geometry *g, const variant *v, int y0, int y1) {
    const int oh = out_rows(g), ow = out_columns(g), first = y0 * g->sh - g->pad[0];
    const int row0 = first > 0 ? first : 0;
    const ptrdiff_t to = (ptrdiff_t)y0 * ow * v->YV, y_plane = (ptrdiff_t)oh * ow * v->YV;
    const ptrdiff_t x_plane = (ptrdiff_t)g->ih * g->iw;
    const aot_conv_f32_plain_params p = {
        g->n,      g->ic,
        g->ih,     g->iw,
        g->oc,     oh,
        ow,        g->kh,
        g->kw,     g->sh,
        g->sw,     g->dh,
        g->dw,     g->pad[0],
        g->pad[1], y0,
        y1,        row0,
        y0,        g->iw,
        x_plane,   x_plane * g->ic,
        y_plane,   y_plane * (v->YV == V ? blocks(g->oc, V) : g->oc),
        v->act,    v->alpha,
        v->beta};
    const int act = v->act > AOT_ACT_CLAMP;
    const float *xs = x + (ptrdiff_t)row0 * g->iw, *rs = r != NULL ? r + to : NULL;
    if (v->P == 14) {
        aot_conv_f32_plain(y + to, xs, w, bias, rs, scratch, &p, 14, 2, v->run, v->YV, act);
    } else if (v->P == 6 && v->O == 4) {
        aot_conv_f32_plain(y + to, xs, w, bias, rs, scratch, &p, 6, 4, v->run, v->YV, act);
    } else if (v->P == 6) {
        aot_conv_f32_plain(y + to, xs, w, bias, rs, scratch, &p, 6, 2, v->run, v->YV, act);
    } else if (v->O == 4) {
        aot_conv_f32_plain(y + to, xs, w, bias, rs, scratch, &p, 4, 4, v->run, v->YV, act);
    } else {
        aot_conv_f32_plain(y + to, xs, w, bias, rs, scratch, &p, 4, 2, v->run, v->YV, act);
    }
}

/* Vectors of pixels: weights [oc][ic / groups + 1], the last column being the bias. */
static void run_grouped(float *y, const float *x, const float *w, const float *bias, const float *r,
                        const geometry *g, const variant *v) {
    const int icg = g->ic / g->groups, pixels = g->ih * g->iw;
    const int vectors = blocks(pixels, V) < v->O ? blocks(pixels, V) : v->O;
    const aot_conv_f32_grouped_params p = {g->n,
                                           g->groups,
                                           icg,
                                           g->oc / g->groups,
                                           pixels,
                                           (int64_t)g->ic * pixels,
                                           (int64_t)g->oc * pixels,
                                           v->act,
                                           v->alpha,
                                           v->beta};
    float *rows = NEW(float, g->oc *(icg + 1)), *scratch = NEW(float, (icg + 1) * vectors * V);
    const int act = v->act > AOT_ACT_CLAMP;
    for (int i = 0; i < g->oc * (icg + 1); ++i) {
        const int c = i / (icg + 1), k = i % (icg + 1);
        rows[i] = k < icg ? w[c * icg + k] : bias[c];
    }
    if (v->P == 14) {
        aot_conv_f32_grouped(y, x, rows, r, scratch, &p, 14, 2, act);
    } else if (v->P == 6 && v->O == 4) {
        aot_conv_f32_grouped(y, x, rows, r, scratch, &p, 6, 4, act);
    } else if (v->P == 6) {
        aot_conv_f32_grouped(y, x, rows, r, scratch, &p, 6, 2, act);
    } else if (v->O == 4) {
        aot_conv_f32_grouped(y, x, rows, r, scratch, &p, 4, 4, act);
    } else {
        aot_conv_f32_grouped(y, x, rows, r, scratch, &p, 4, 2, act);
    }
}

/* `strange`: NaN and infinities in x, which must not get from group to group. */
static void test(int number, const variant *v, int strange) {
    const geometry *g = &cases[number];
    const int oh = out_rows(g), ow = out_columns(g), pixels = oh * ow, nw = g->ic / g->groups;
    const int n = g->n * g->oc * pixels, middle = v->rows ? oh / 2 : 0, taps = nw * g->kh * g->kw;
    const ptrdiff_t held = (ptrdiff_t)g->n * (v->YV == V ? blocks(g->oc, V) * V : g->oc) * pixels;
    float *x = NEW(float, g->n * g->ic * g->ih * g->iw), *w = NEW(float, g->oc *taps);
    float *bias = NEW(float, g->oc), *r = NEW(float, n), *y = NEW(float, held);
    double *want = NEW(double, n), *size = NEW(double, n);
    const float *whole = padded_bias((fill_f32(bias, g->oc, -1.0, 1.0), bias), g->oc, V), *added;
    check_case("conv %d, tile %dx%d, YV %d, act %d, r %d, run %d, parts %d, NaN %d", number, v->P,
               v->O, v->YV, v->act, v->added, v->run, v->rows, strange);
    fill_f32(x, g->n * g->ic * g->ih * g->iw, -1.0, 1.0);
    fill_f32(w, g->oc * taps, -1.0, 1.0);
    fill_f32(r, n, -1.0, 1.0);
    if (strange) {
        x[0] = (float)NAN;
        x[g->ic * g->ih * g->iw - 1] = (float)INFINITY;
    }
    convolve(want, size, x, w, bias, v->added ? r : NULL, g);
    added = !v->added ? NULL : to_blocks(r, g->n, g->oc, pixels, v->YV);
    {
        const float *xb = to_blocks(x, g->n, g->ic, g->ih * g->iw, V);
        const float *panels = group_panels(w, g, tile_blocks(g, v->O));
        if (middle > 0) {
            run_blocked(y, xb, panels, whole, added, g, v, 0, middle);
        }
        run_blocked(y, xb, panels, whole, added, g, v, middle, oh);
        close_conv("blocked", y, want, size, g->n, g->oc, pixels, v->YV, v->act, v->alpha, v->beta,
                   1e-6);
        if (v->added) { /* y may be r */
            float *both = to_blocks(r, g->n, g->oc, pixels, v->YV);
            run_blocked(both, xb, panels, whole, both, g, v, 0, oh);
            close_conv("blocked in place", both, want, size, g->n, g->oc, pixels, v->YV, v->act,
                       v->alpha, v->beta, 1e-6);
        }
    }
    if (g->kh * g->kw * g->sh * g->sw == 1 && v->YV == 1) {
        float *both = NEW(float, n);
        (void)memcpy(both, r, (size_t)n * sizeof *r);
        run_grouped(both, x, w, bias, v->added ? both : NULL, g, v); /* y may be r */
        close_conv("grouped", both, want, size, g->n, g->oc, pixels, 1, v->act, v->alpha, v->beta,
                   1e-6);
    }
    if (g->groups == 1) {
        float *transposed = NEW(float, g->oc *taps);
        const int pads = g->pad[0] + g->pad[1] + g->pad[2] + g->pad[3];
        const int most = ow < v->P ? ow : v->P, wide = (most - 1) * g->sw + (g->kw - 1) * g->dw + 1;
        float *scratch = pads > 0 ? NEW(float, g->ic * g->kh * wide) : NULL;
        const float *panels;
        for (int i = 0; i < g->oc * taps; ++i) {
            transposed[i % taps * g->oc + i / taps] = w[i];
        }
        panels = to_panels(transposed, taps, g->oc, V, v->O);
        (void)memset(y, 0xFF, (size_t)held * sizeof *y);
        if (middle > 0) {
            run_plain(y, x, panels, whole, added, scratch, g, v, 0, middle);
        }
        run_plain(y, x, panels, whole, added, scratch, g, v, middle, oh);
        close_conv("plain", y, want, size, g->n, g->oc, pixels, v->YV, v->act, v->alpha, v->beta,
                   1e-6);
    }
    check_free();
}

int main(void) {
    static const int tiles[5][2] = {{14, 2}, {6, 4}, {6, 2}, {4, 4}, {4, 2}};
    for (int number = 0; number < (int)(sizeof cases / sizeof *cases); ++number) {
        for (int t = 0; t < 5; ++t) {
            for (int k = 0; k < 4; ++k) {
                const variant v = {tiles[t][0], tiles[t][1], k % 2 ? V : 1,
                                   k == 2,      k > 1,       k == 1 ? 4 : 0,
                                   k == 3,      -0.75F,      t % 2 ? 0.5F : INFINITY};
                test(number, &v, 0);
                test(number, &v, (k == 1 && cases[number].groups > 1) || k == 2);
            }
        }
    }
    for (int act = AOT_ACT_LEAKY; act <= AOT_ACT_GELU_TANH; ++act) {
        const variant v = {6, 2, act % 2 ? V : 1, act, act % 3 == 0, 0, 0, 0.375F, 0.5F};
        test(3, &v, 0);
        test(9, &v, 0);
    }
    return check_end();
}
