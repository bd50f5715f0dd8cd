/* SPDX-License-Identifier: MIT-0 */
/* Convolutions of float32 with a way of their own: depthwise ones, and small windows by Winograd.
 */
#include "convolution.h"

#include "aot_dwconv_f32_blocked.h"
#include "aot_winograd_f32_blocked.h"

#define V AOT_VLEN

/* n, channels, ih, iw, channels, kernel, strides, dilations, pads, groups */
static const geometry depthwise[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, 1},
    {2, 5, 7, 23, 5, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, 5},
    {1, 17, 9, 37, 17, 3, 3, 2, 2, 1, 1, {0, 0, 1, 1}, 17},
    {1, 16, 6, 21, 16, 5, 5, 1, 1, 1, 1, {2, 2, 2, 2}, 16},
    {1, 3, 8, 19, 3, 5, 5, 2, 2, 1, 1, {2, 1, 2, 3}, 3},
    {1, 4, 8, 40, 4, 3, 3, 1, 1, 2, 2, {2, 2, 2, 2}, 4},
    {1, 9, 5, 17, 9, 7, 4, 3, 3, 1, 1, {3, 2, 3, 1}, 9},
    {1, 2, 2, 2, 2, 3, 3, 1, 1, 1, 1, {3, 3, 3, 3}, 2},
    {1, 8, 3, 64, 8, 1, 3, 1, 3, 1, 1, {0, 1, 0, 1}, 8},
    {1, 18, 7, 11, 18, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, 9},
    {2, 20, 6, 19, 20, 3, 5, 2, 1, 1, 1, {1, 2, 1, 2}, 5},
    {1, 40, 5, 33, 40, 3, 3, 1, 2, 2, 2, {2, 2, 2, 2}, 5},
};

static void test_depthwise(int number, int act, int parts) {
    const geometry *g = &depthwise[number];
    const int oh = out_rows(g), ow = out_columns(g), taps = g->kh * g->kw, c = g->ic;
    const int n = g->n * c * oh * ow, KW = g->dw == 1 && (g->kw == 3 || g->kw == 5) ? g->kw : 0;
    const int S = g->sw <= 2 ? g->sw : 0, J = c / g->groups;
    const ptrdiff_t x_plane = (ptrdiff_t)g->ih * g->iw * V, y_plane = (ptrdiff_t)oh * ow * V;
    float *x = NEW(float, g->n *c * g->ih * g->iw), *w = NEW(float, c *J *taps);
    float *bias = NEW(float, c), *packed = NEW(float, blocks(c, V) * taps * J * V),
          *y = NEW(float, y_plane *blocks(c, V) * g->n);
    double *want = NEW(double, n), *size = NEW(double, n);
    const float *whole, *xb;
    check_case("depthwise %d, act %d, parts %d", number, act, parts);
    fill_f32(x, g->n * c * g->ih * g->iw, -1.0, 1.0);
    fill_f32(w, c * J * taps, -1.0, 1.0);
    fill_f32(bias, c, -1.0, 1.0);
    for (int i = 0; i < blocks(c, V) * taps * J * V; ++i) {
        const int channel = i / (taps * J * V) * V + i % V, t = i / (J * V) % taps;
        packed[i] = channel < c ? w[(channel * J + i / V % J) * taps + t] : 0.0F;
    }
    whole = padded_bias(bias, c, V);
    xb = to_blocks(x, g->n, c, g->ih * g->iw, V);
    convolve(want, size, x, w, bias, NULL, g);
    for (int part = 0; part <= parts; ++part) {
        const int y0 = part ? oh / 2 : 0, y1 = parts > part ? oh / 2 : oh;
        const int first = y0 * g->sh - g->pad[0], row0 = first > 0 ? first : 0;
        const aot_dwconv_f32_blocked_params p = {g->n,      c,
                                                 g->ih,     g->iw,
                                                 c,         oh,
                                                 ow,        g->kh,
                                                 g->kw,     g->sh,
                                                 g->sw,     g->dh,
                                                 g->dw,     g->pad[0],
                                                 g->pad[1], y0,
                                                 y1,        row0,
                                                 y0,        g->iw * V,
                                                 x_plane,   x_plane * blocks(c, V),
                                                 y_plane,   y_plane * blocks(c, V),
                                                 act,       -0.5F,
                                                 0.625F};
        float *to = y + (ptrdiff_t)y0 * ow * V;
        const float *from = xb + (ptrdiff_t)row0 * g->iw * V;
        const int ACT = act > AOT_ACT_CLAMP;
        if (J == 2) {
            aot_dwconv_f32_blocked(to, from, packed, whole, &p, 0, S, ACT, 2);
        } else if (J == 4) {
            aot_dwconv_f32_blocked(to, from, packed, whole, &p, 0, S, ACT, 4);
        } else if (J == 8) {
            aot_dwconv_f32_blocked(to, from, packed, whole, &p, 0, S, ACT, 8);
        } else if (KW == 3 && S == 1) {
            aot_dwconv_f32_blocked(to, from, packed, whole, &p, 3, 1, ACT, 1);
        } else if (KW == 3 && S == 2) {
            aot_dwconv_f32_blocked(to, from, packed, whole, &p, 3, 2, ACT, 1);
        } else if (KW == 5 && S == 1) {
            aot_dwconv_f32_blocked(to, from, packed, whole, &p, 5, 1, ACT, 1);
        } else if (KW == 5 && S == 2) {
            aot_dwconv_f32_blocked(to, from, packed, whole, &p, 5, 2, ACT, 1);
        } else {
            aot_dwconv_f32_blocked(to, from, packed, whole, &p, KW, S, ACT, 1);
        }
    }
    close_conv("y", y, want, size, g->n, c, oh * ow, V, act, -0.5F, 0.625F, 1e-6);
    check_free();
}

/* Winograd's transform of `taps` weights for the kernel's T - 1 points and infinity; one weight
 * stays as it is. Lagrange's interpolation through the points gives the row (1, p, p * p ...) / the
 * product of p - q over the other points q; infinity gives (0, ... 0, 1). The kernel has the sign
 * of point 0 in its own transform. Five points are those of stride 2. */
static void transform(double rows[8][7], int T, int taps) {
    static const double small[7] = {0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5};
    static const double four[5] = {0.0, 0.625, -0.625, 1.5, -1.5};
    static const double strided[5][3] = {{1, 0, 0}, {0, 1, 0}, {1, 0, 1}, {0, 0, 1}, {0, 1, 0}};
    const double *points = T == 6 ? four : small;
    for (int i = 0; T == 5 && i < 15; ++i) {
        rows[i / 3][i % 3] = strided[i / 3][i % 3];
    }
    if (T == 5) {
        return;
    }
    for (int i = 0; i < T - 1; ++i) {
        double product = 1.0;
        for (int q = 0; q < T - 1; ++q) {
            product *= q == i ? 1.0 : points[i] - points[q];
        }
        product = i == 0 ? fabs(product) : product;
        for (int k = 0; k < taps; ++k) {
            rows[i][k] = pow(points[i], k) / product;
        }
    }
    for (int k = 0; k < taps; ++k) {
        rows[T - 1][k] = k == taps - 1;
    }
}

/* Point `i` of T x T as weights are stored: with T = 5 the points of a sum follow each other. */
static void place(int i, int TW, int T, int *a, int *b) {
    static const int first[4] = {0, 2, 3, 5};
    for (int sum = 0; T == 5 && sum < 9; ++sum) {
        const int a0 = first[sum / 3], b0 = first[sum % 3], wide = first[sum % 3 + 1] - b0;
        const int count = (first[sum / 3 + 1] - a0) * wide;
        if (i < count) {
            *a = a0 + i / wide;
            *b = b0 + i % wide;
            return;
        }
        i -= count;
    }
    *a = i / TW;
    *b = i % TW;
}

/* n, ic, ih, iw, oc, kernel, strides, dilations, pads, groups */
static const geometry squares[] = {
    {1, 1, 3, 3, 1, 3, 3, 1, 1, 1, 1, {0, 0, 0, 0}, 1},
    {2, 3, 7, 9, 5, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, 1},
    {1, 17, 12, 13, 33, 3, 3, 1, 1, 1, 1, {1, 0, 1, 2}, 1},
    {1, 16, 6, 26, 64, 3, 3, 1, 1, 1, 1, {2, 1, 2, 1}, 1},
    {1, 3, 4, 13, 17, 1, 3, 1, 1, 1, 1, {0, 1, 0, 1}, 1},
    {1, 5, 14, 3, 16, 5, 1, 1, 1, 1, 1, {2, 0, 3, 0}, 1},
    {1, 17, 9, 11, 20, 5, 5, 1, 1, 1, 1, {2, 2, 2, 2}, 1},
    {2, 4, 12, 6, 5, 7, 1, 1, 1, 1, 1, {3, 0, 3, 0}, 1},
    {1, 18, 3, 21, 33, 1, 7, 1, 1, 1, 1, {0, 3, 0, 3}, 1},
    {1, 2, 9, 12, 3, 3, 7, 1, 1, 1, 1, {1, 6, 1, 0}, 1},
    {2, 18, 9, 14, 5, 3, 3, 2, 2, 1, 1, {1, 1, 1, 1}, 1},
    {1, 5, 13, 5, 40, 3, 3, 2, 2, 1, 1, {0, 2, 2, 0}, 1},
};

static void test_winograd(int number, int T, int act, int added, int parts) {
    const geometry *g = &squares[number];
    const int oh = out_rows(g), ow = out_columns(g), pixels = oh * ow, tiles = 5;
    const int TH = g->kh > 1 ? T : 1, TW = g->kw > 1 ? T : 1, M = (TH - g->kh) / g->sh + 1;
    const int n = g->n * g->oc * pixels, O = 2, points = TH * TW, taps = g->kh * g->kw;
    const ptrdiff_t x_plane = (ptrdiff_t)g->ih * g->iw * V, y_plane = (ptrdiff_t)pixels * V;
    float *x = NEW(float, g->n * g->ic * g->ih * g->iw), *w = NEW(float, g->oc * g->ic * taps);
    float *bias = NEW(float, g->oc), *r = NEW(float, n), *u = NEW(float, points * g->ic * g->oc);
    float *y = NEW(float, y_plane *blocks(g->oc, V) * g->n), *packed;
    float *scratch = NEW(float, (ptrdiff_t)points *tiles *V *(blocks(g->ic, V) + O));
    double *want = NEW(double, n), *size = NEW(double, n), most = 0.0;
    double rows[8][7], columns[8][7];
    const float *whole, *xb, *rb;
    /* Rounding errors grow with the tile, and are relative to the largest result. */
    const double error = T <= 5 ? 3e-6 : T == 6 ? 2e-5 : 1e-4;
    check_case("winograd %d, T %d, act %d, r %d, parts %d", number, T, act, added, parts);
    fill_f32(x, g->n * g->ic * g->ih * g->iw, -1.0, 1.0);
    fill_f32(w, g->oc * g->ic * taps, -1.0, 1.0);
    fill_f32(bias, g->oc, -1.0, 1.0);
    fill_f32(r, n, -1.0, 1.0);
    transform(rows, TH, g->kh);
    transform(columns, TW, g->kw);
    for (int i = 0; i < points * g->ic * g->oc; ++i) {
        int a, b;
        const float *k = w + (i % g->oc * g->ic + i / g->oc % g->ic) * taps;
        double v = 0.0;
        place(i / (g->ic * g->oc), TW, T, &a, &b);
        for (int t = 0; t < taps; ++t) {
            v += rows[a][t / g->kw] * columns[b][t % g->kw] * (double)k[t];
        }
        u[i] = (float)v;
    }
    whole = padded_bias(bias, g->oc, V);
    packed = to_panels(u, points * g->ic, g->oc, V, O);
    xb = to_blocks(x, g->n, g->ic, g->ih * g->iw, V);
    rb = added ? to_blocks(r, g->n, g->oc, pixels, V) : NULL;
    convolve(want, size, x, w, bias, added ? r : NULL, g);
    for (int i = 0; i < n; ++i) {
        most = size[i] > most ? size[i] : most;
    }
    for (int i = 0; i < n; ++i) {
        size[i] = most;
    }
    for (int part = 0; part <= parts; ++part) {
        const int cut = oh / 2 / M * M, y0 = part ? cut : 0, y1 = parts > part ? cut : oh;
        const int first = y0 * g->sh - g->pad[0], row0 = first > 0 ? first : 0;
        const ptrdiff_t to = (ptrdiff_t)y0 * ow * V;
        const float *from = xb + (ptrdiff_t)row0 * g->iw * V, *plus = added ? rb + to : NULL;
        const aot_winograd_f32_blocked_params p = {g->n,
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
                                                   1,
                                                   1,
                                                   g->pad[0],
                                                   g->pad[1],
                                                   tiles,
                                                   y0,
                                                   y1,
                                                   row0,
                                                   y0,
                                                   g->iw * V,
                                                   x_plane,
                                                   x_plane * blocks(g->ic, V),
                                                   y_plane,
                                                   y_plane * blocks(g->oc, V),
                                                   act,
                                                   -0.5F,
                                                   0.625F};
        const int ACT = act > AOT_ACT_CLAMP;
        aot_winograd_f32_blocked(y + to, from, packed, whole, plus, scratch, &p, T, g->kh, g->kw, 6,
                                 2, ACT);
    }
    close_conv("y", y, want, size, g->n, g->oc, pixels, V, act, -0.5F, 0.625F, error);
    check_free();
}

int main(void) {
    for (int number = 0; number < (int)(sizeof depthwise / sizeof *depthwise); ++number) {
        const int fits = depthwise[number].ic / depthwise[number].groups <= V;
        for (int k = 0; fits && k < 4; ++k) {
            test_depthwise(number, k == 3 ? AOT_ACT_SIGMOID : k % 2, k / 2);
        }
    }
    for (int number = 0; number < (int)(sizeof squares / sizeof *squares); ++number) {
        const geometry *g = &squares[number];
        const int least = g->sh > 1 ? 5 : 1 + (g->kh > g->kw ? g->kh : g->kw); /* even or 5 */
        for (int T = least; T <= (least == 5 ? 5 : 8); T += 2) {
            for (int k = 0; k < 4; ++k) {
                test_winograd(number, T, k == 3 ? AOT_ACT_TANH : k % 2, k % 2, k / 2);
            }
        }
    }
    return check_end();
}
