/* SPDX-License-Identifier: MIT-0 */
/* Convolution of a plain tensor with few channels (an image, sound); groups = 1.
 *
 * V = AOT_VLEN. x [n][ic][ih][iw], y [n][ceil(oc/V)][oh][ow][V] or, with YV = 1, plain, r as y.
 * w: one panel per group of O vectors of output channels, [ic][kh][kw][O * V]; bias [ceil(oc/V) *
 * V].
 *
 * Tiles inside the image read x itself; the window of a tile at the border is copied to scratch
 * with its zeros. Scratch, in floats (none needed, and NULL, without padding): ic * kh * ((P - 1) *
 * sw + (kw - 1) * dw + 1). Rows y0..y1-1 of the output are computed; x points at image row x_row0,
 * y and r at output row y_row0. In place: y may be r.
 */
#ifndef AOT_CONV_F32_PLAIN_H
#define AOT_CONV_F32_PLAIN_H

#include "aot_conv_act_f32.h"
#include "aot_tile_f32.h"

typedef struct {
    int32_t n, ic, ih, iw, oc, oh, ow;
    int32_t kh, kw, sh, sw, dh, dw, pt, pl;
    int32_t y0, y1, x_row0, y_row0;
    int32_t x_row;
    int64_t x_plane, x_batch, y_plane, y_batch;
    int32_t act;
    float alpha, beta;
} aot_conv_f32_plain_params;

/* The window of `width` columns from image row iy, column ix on: [ic][kh][width], zero outside. */
AOT_INLINE void aot_conv_f32_plain_window(float *d, const float *x,
                                          const aot_conv_f32_plain_params *p, int32_t iy,
                                          int32_t ix, int32_t width) {
    const int32_t lo = ix < 0 ? (-ix < width ? -ix : width) : 0;
    const int32_t hi = p->iw - ix < width ? (p->iw - ix > lo ? p->iw - ix : lo) : width;
    int32_t c, a, i;
    for (c = 0; c < p->ic; ++c) {
        for (a = 0; a < p->kh; ++a, d += width) {
            const int32_t row = iy + a * p->dh;
            const int inside = row >= 0 && row < p->ih;
            const int32_t from = inside ? lo : width, to = inside ? hi : width;
            const float *s = x + (c * p->x_plane + (ptrdiff_t)(row - p->x_row0) * p->x_row + ix);
            for (i = 0; i < from; ++i) {
                d[i] = 0.0F;
            }
            for (; i < to; ++i) {
                d[i] = s[i];
            }
            for (; i < width; ++i) {
                d[i] = 0.0F;
            }
        }
    }
}

/* Pixels ox..ox+n-1 of output row oy, every output channel; y, r at this image's first pixel. */
AOT_INLINE void aot_conv_f32_plain_tile(aot_tile_f32_job *j, const aot_conv_f32_plain_params *p,
                                        float *y, const float *x, const float *w, const float *bias,
                                        const float *r, float *window, int32_t oy, int32_t ox,
                                        int32_t n, int P, int O, int RUN, int YV, int ACT) {
    float edge[AOT_TILE_EDGE];
    const int32_t vecs = (p->oc + AOT_VLEN - 1) / AOT_VLEN;
    const int32_t size = aot_tile_f32_size(P, n);
    const int32_t iy = oy * p->sh - p->pt, ix = ox * p->sw - p->pl;
    const int32_t width = (n - 1) * p->sw + (p->kw - 1) * p->dw + 1;
    const int inside =
        iy >= 0 && iy + (p->kh - 1) * p->dh < p->ih && ix >= 0 && ix + width <= p->iw;
    int32_t i, b, o;
    if (inside != 0) {
        j->x = x + ((ptrdiff_t)(iy - p->x_row0) * p->x_row + ix);
        j->xa = (ptrdiff_t)p->x_plane;
        j->xb = (ptrdiff_t)p->dh * p->x_row;
    } else {
        aot_conv_f32_plain_window(window, x, p, iy, ix, width);
        j->x = window;
        j->xa = (ptrdiff_t)p->kh * width;
        j->xb = width;
    }
    for (i = 0; i < size; ++i) {
        j->off[i] = (ptrdiff_t)(i < n ? i : n - 1) * p->sw;
    }
    j->n = n;
    j->edge = n == size ? AOT_TILE_EVEN : 0;
    j->w = w;
    for (b = 0; b < vecs; b += o) {
        const int32_t left = p->oc - b * AOT_VLEN;
        const ptrdiff_t at = (ptrdiff_t)(b * p->y_plane) * (AOT_VLEN / YV) +
                             ((ptrdiff_t)(oy - p->y_row0) * p->ow + ox) * YV;
        int32_t cols;
        o = aot_tile_f32_group(b, vecs, O);
        cols = left < o * AOT_VLEN ? left : o * AOT_VLEN;
        j->bias = bias + b * AOT_VLEN;
        j->y = YV == AOT_VLEN ? y + at : edge;
        j->r = r == NULL ? NULL : YV == AOT_VLEN ? r + at : edge;
        if (YV != AOT_VLEN && r != NULL) {
            aot_tile_f32_gather(edge, r + at, (ptrdiff_t)p->y_plane, n, cols, P);
        }
        aot_tile_f32_run(j, o, P, O, RUN);
        if (ACT != 0) {
            aot_conv_act_f32_tile(j->y, n, AOT_VLEN, o, j->y_block, p->act, p->alpha, p->beta);
        }
        if (YV != AOT_VLEN) {
            aot_tile_f32_scatter(y + at, (ptrdiff_t)p->y_plane, edge, n, cols, P);
        }
        j->w += (ptrdiff_t)p->ic * p->kh * p->kw * o * AOT_VLEN;
    }
}

/* Instance: P, O the tile family (aot_tile_f32_run); RUN the products in a run, 0 for one
 * run; YV = V for a blocked y, 1 for a plain one; ACT 0 if act is NONE or CLAMP. */
AOT_INLINE void aot_conv_f32_plain(float *y, const float *x, const float *w, const float *bias,
                                   const float *r, void *scratch,
                                   const aot_conv_f32_plain_params *p, int P, int O, int RUN,
                                   int YV, int ACT) {
    aot_tile_f32_job j;
    int32_t image, oy, ox;
    (void)memset(&j, 0, sizeof j);
    j.na = p->ic;
    j.nb = p->kh;
    j.kc = p->kw;
    j.kblk = RUN != 0 && RUN < p->kw ? RUN : p->kw;
    j.xstep = p->dw;
    if (AOT_VLEN > 1) {
        j.kblk = p->dw == 1 ? j.kblk : 1;
        j.xstep = j.kblk * p->dw;
    }
    j.run = RUN != 0 ? RUN : AOT_TILE_RUN / 2;
    j.y_pixel = AOT_VLEN;
    j.y_block = YV == AOT_VLEN ? (ptrdiff_t)p->y_plane : P * AOT_VLEN;
    j.clamp = p->act == AOT_ACT_CLAMP;
    j.lo = p->alpha;
    j.hi = p->beta;
    for (image = 0; image < p->n; ++image) {
        const ptrdiff_t at = (ptrdiff_t)(image * p->y_batch);
        for (oy = p->y0; oy < p->y1; ++oy) {
            for (ox = 0; ox < p->ow; ox += P) {
                const int32_t n = p->ow - ox < P ? p->ow - ox : P;
                aot_conv_f32_plain_tile(&j, p, y + at, x + image * p->x_batch, w, bias,
                                        r != NULL ? r + at : NULL, (float *)scratch, oy, ox, n, P,
                                        O, RUN, YV, ACT);
            }
        }
    }
}

#endif /* AOT_CONV_F32_PLAIN_H */
