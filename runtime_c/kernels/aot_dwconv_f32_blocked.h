/* SPDX-License-Identifier: MIT-0 */
/* Depthwise convolution (one filter per channel) of blocked tensors, and convolution in groups of J
 * channels, 2, 4 or 8, less than V.
 *
 * V = AOT_VLEN. x [n][ceil(c/V)][ih][iw][V], y [n][ceil(c/V)][oh][ow][V], c = ic = oc;
 * w [ceil(c/V)][kh][kw][J][V], the weights of a group's channel after another, bias [ceil(c/V)][V],
 * zero past the channels. y = act(conv(x) + bias). Rows y0..y1-1 of the output are computed; x
 * points at image row x_row0, y at output row y_row0. Row by row (aot_rows.h) x_row0 is 0. No
 * scratch; y must not overlap x. Pad lanes carry whatever x's pad lanes make of them.
 */
#ifndef AOT_DWCONV_F32_BLOCKED_H
#define AOT_DWCONV_F32_BLOCKED_H

#include "aot_conv_act_f32.h"
#include "aot_rows.h"

typedef struct {
    int32_t n, ic, ih, iw, oc, oh, ow;
    int32_t kh, kw, sh, sw, dh, dw, pt, pl;
    int32_t y0, y1, x_row0, y_row0;
    int32_t x_row;
    int64_t x_plane, x_batch, y_plane, y_batch;
    int32_t act;
    float alpha, beta;
} aot_dwconv_f32_blocked_params;

#define AOT_DW_P 8 /* pixels of a tile */
#define AOT_DW_EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)

/* The accumulators of a tile live in registers only with names of their own. In a tile with `guard`
 * columns outside lo..hi-1 are not read and pixels from n on are not stored. */
#define AOT_DW_ACC(p) aot_vf a##p = b;
#define AOT_DW_TAP(p, t)                                                                           \
    if (!guard || ((p)*s + (t)*d >= lo && (p)*s + (t)*d < hi)) {                                   \
        a##p += w##t * aot_vload(row + ((p)*s + (t)*d) * AOT_VLEN);                                \
    }
#define AOT_DW_W(t) const aot_vf w##t = aot_vload(wr + (t)*AOT_VLEN);
#define AOT_DW_TAPS1(p) AOT_DW_TAP(p, 0)
#define AOT_DW_TAPS3(p) AOT_DW_TAP(p, 0) AOT_DW_TAP(p, 1) AOT_DW_TAP(p, 2)
#define AOT_DW_TAPS5(p) AOT_DW_TAPS3(p) AOT_DW_TAP(p, 3) AOT_DW_TAP(p, 4)
/* Lane l of a vector gets channel j of the group that it is in. */
#if AOT_VLEN == 16
#define AOT_DW_LANES(J, j)                                                                         \
    0 / J *J + j, 1 / J *J + j, 2 / J *J + j, 3 / J *J + j, 4 / J *J + j, 5 / J *J + j,            \
        6 / J *J + j, 7 / J *J + j, 8 / J *J + j, 9 / J *J + j, 10 / J *J + j, 11 / J *J + j,      \
        12 / J *J + j, 13 / J *J + j, 14 / J *J + j, 15 / J *J + j
#elif AOT_VLEN == 8
#define AOT_DW_LANES(J, j)                                                                         \
    0 / J *J + j, 1 / J *J + j, 2 / J *J + j, 3 / J *J + j, 4 / J *J + j, 5 / J *J + j,            \
        6 / J *J + j, 7 / J *J + j
#elif AOT_VLEN == 4
#define AOT_DW_LANES(J, j) 0 / J *J + j, 1 / J *J + j, 2 / J *J + j, 3 / J *J + j
#endif
#if AOT_VLEN > 1 && defined(__clang__)
#define AOT_DW_SHUFFLE(x, J, j) __builtin_shufflevector(x, x, AOT_DW_LANES(J, j))
#elif AOT_VLEN > 1
#define AOT_DW_SHUFFLE(x, J, j) __builtin_shuffle(x, (aot_vi){AOT_DW_LANES(J, j)})
#else
#define AOT_DW_SHUFFLE(x, J, j) (x)
#endif
#define AOT_DW_SPREAD(x, j)                                                                        \
    (J == 2 ? AOT_DW_SHUFFLE(x, 2, j) : J == 4 ? AOT_DW_SHUFFLE(x, 4, j) : AOT_DW_SHUFFLE(x, 8, j))
#define AOT_DW_GROUP_W(j) const aot_vf w##j = aot_vload(wr + (J > (j) ? (j) : 0) * AOT_VLEN);
#define AOT_DW_GROUP_WS                                                                            \
    AOT_DW_GROUP_W(0)                                                                              \
    AOT_DW_GROUP_W(1)                                                                              \
    AOT_DW_GROUP_W(2)                                                                              \
    AOT_DW_GROUP_W(3)                                                                              \
    AOT_DW_GROUP_W(4)                                                                              \
    AOT_DW_GROUP_W(5)                                                                              \
    AOT_DW_GROUP_W(6)                                                                              \
    AOT_DW_GROUP_W(7)
#define AOT_DW_GROUP_TAP(p)                                                                        \
    if (!guard || ((p)*s >= lo && (p)*s < hi)) {                                                   \
        const aot_vf v = aot_vload(row + (p)*s * AOT_VLEN);                                        \
        a##p += w0 * AOT_DW_SPREAD(v, 0);                                                          \
        a##p += w1 * AOT_DW_SPREAD(v, 1);                                                          \
        if (J > 2) {                                                                               \
            a##p += w2 * AOT_DW_SPREAD(v, 2);                                                      \
            a##p += w3 * AOT_DW_SPREAD(v, 3);                                                      \
        }                                                                                          \
        if (J > 4) {                                                                               \
            a##p += w4 * AOT_DW_SPREAD(v, 4);                                                      \
            a##p += w5 * AOT_DW_SPREAD(v, 5);                                                      \
            a##p += w6 * AOT_DW_SPREAD(v, 6);                                                      \
            a##p += w7 * AOT_DW_SPREAD(v, 7);                                                      \
        }                                                                                          \
    }
#define AOT_DW_STORE(p)                                                                            \
    if (!guard || (p) < n) {                                                                       \
        aot_vstore(y + (p)*AOT_VLEN, clamp ? aot_vclamp(a##p, vlo, vhi) : a##p);                   \
    }

/* One tile: `n` pixels, `taps` kernel rows from row `x` (first column of the first pixel) on,
 * `x_step` floats apart; row by row from column `at` of row `line` of `image` on. KW, s, d are
 * constants for 3- and 5-wide kernels. */
AOT_INLINE void aot_dwconv_f32_tile(float *y, const float *x, const float *w, const float *bias,
                                    int32_t taps, ptrdiff_t x_step, const float *image,
                                    int32_t line, ptrdiff_t at,
                                    const aot_dwconv_f32_blocked_params *p, int32_t lo, int32_t hi,
                                    int32_t n, int KW, int s, int d, int guard, int J) {
    const aot_vf b = aot_vload(bias);
    const aot_vf vlo = aot_vset1(p->alpha), vhi = aot_vset1(p->beta);
    const int clamp = p->act == AOT_ACT_CLAMP;
    int32_t ky, kx;
    (void)image, (void)line, (void)at;
    AOT_DW_EACH(AOT_DW_ACC)
    for (ky = 0; ky < taps; ++ky) {
        const float *row = AOT_AT_F32(image, line + ky * p->dh, at, x + ky * x_step);
        const float *wr = w + (ptrdiff_t)ky * p->kw * J * AOT_VLEN;
        if (KW == 3) {
            AOT_DW_W(0) AOT_DW_W(1) AOT_DW_W(2) AOT_DW_EACH(AOT_DW_TAPS3)
        } else if (KW == 5) {
            AOT_DW_W(0) AOT_DW_W(1) AOT_DW_W(2) AOT_DW_W(3) AOT_DW_W(4) AOT_DW_EACH(AOT_DW_TAPS5)
        } else {
            const int32_t first = lo, past = hi;
            for (kx = 0; kx < p->kw; ++kx) {
                if (J == 1) {
                    AOT_DW_W(0)
                    AOT_DW_EACH(AOT_DW_TAPS1)
                } else {
                    AOT_DW_GROUP_WS
                    AOT_DW_EACH(AOT_DW_GROUP_TAP)
                }
                row += d * AOT_VLEN;
                wr += J * AOT_VLEN;
                lo -= d;
                hi -= d;
            }
            lo = first;
            hi = past;
        }
    }
    AOT_DW_EACH(AOT_DW_STORE)
}

/* One output row of one channel block, `plane` floats into the image. */
AOT_INLINE void aot_dwconv_f32_row(float *y, const float *image, ptrdiff_t plane, const float *w,
                                   const float *bias, const aot_dwconv_f32_blocked_params *p,
                                   int32_t oy, int KW, int S, int ACT, int J) {
    const float *x = AOT_ROWS_APART ? image : image + plane;
    const int s = S != 0 ? S : p->sw;
    const int d = KW != 0 ? 1 : p->dw;
    const int32_t iy = oy * p->sh - p->pt;
    const int32_t reach = (p->kw - 1) * d;
    int32_t first = 0, last = p->kh, ox;
    while (first < last && iy + first * p->dh < 0) {
        ++first;
    }
    while (last > first && iy + (last - 1) * p->dh >= p->ih) {
        --last;
    }
    w += (ptrdiff_t)first * p->kw * J * AOT_VLEN;
    x += AOT_ROWS_APART ? 0 : (ptrdiff_t)(iy + first * p->dh - p->x_row0) * p->x_row;
    for (ox = 0; ox < p->ow; ox += AOT_DW_P) {
        const int32_t left = p->ow - ox;
        const int32_t n = left < AOT_DW_P ? left : AOT_DW_P;
        const int32_t ix = ox * s - p->pl;
        const ptrdiff_t column = (ptrdiff_t)ix * AOT_VLEN;
        const float *at = AOT_ROWS_APART ? x : x + column;
        float *out = y + (ptrdiff_t)ox * AOT_VLEN;
        if (n == AOT_DW_P && ix >= 0 && ix + (AOT_DW_P - 1) * s + reach < p->iw) {
            aot_dwconv_f32_tile(out, at, w, bias, last - first, (ptrdiff_t)p->dh * p->x_row, image,
                                iy + first * p->dh, plane + column, p, 0, 0, n, KW, s, d, 0, J);
        } else {
            /* Columns that this tile may read, as seen from `at`. */
            const int32_t end = (n - 1) * s + reach + 1;
            const int32_t hi = p->iw - ix < end ? p->iw - ix : end;
            aot_dwconv_f32_tile(out, at, w, bias, last - first, (ptrdiff_t)p->dh * p->x_row, image,
                                iy + first * p->dh, plane + column, p, -ix, hi, n, KW, s, d, 1, J);
        }
    }
    if (ACT != 0) {
        aot_conv_act_f32_tile(y, p->ow, AOT_VLEN, 1, 0, p->act, p->alpha, p->beta);
    }
}

/* Instance: KW the kernel width if 3 or 5 and dw = 1, else 0; S the stride if 1 or 2, else 0;
 * ACT 0 if act is NONE or CLAMP; J channels of a group, 1 for a depthwise convolution, and more
 * with KW 0. */
AOT_INLINE void aot_dwconv_f32_blocked(float *y, const float *x, const float *w, const float *bias,
                                       const aot_dwconv_f32_blocked_params *p, int KW, int S,
                                       int ACT, int J) {
    const int32_t vecs = (p->ic + AOT_VLEN - 1) / AOT_VLEN;
    int32_t image, b, oy;
    for (image = 0; image < p->n; ++image) {
        for (b = 0; b < vecs; ++b) {
            float *yb = y + (image * p->y_batch + b * p->y_plane);
            const ptrdiff_t plane = (ptrdiff_t)(image * p->x_batch + b * p->x_plane);
            const float *wb = w + (ptrdiff_t)b * p->kh * p->kw * J * AOT_VLEN;
            for (oy = p->y0; oy < p->y1; ++oy) {
                aot_dwconv_f32_row(yb + (ptrdiff_t)(oy - p->y_row0) * p->ow * AOT_VLEN, x, plane,
                                   wb, bias + b * AOT_VLEN, p, oy, KW, S, ACT, J);
            }
        }
    }
}

#endif /* AOT_DWCONV_F32_BLOCKED_H */
