/* SPDX-License-Identifier: MIT-0 */
/* Convolution of a plain tensor with few channels (an image) into a blocked one; groups = 1.
 *
 * V = AOT_VLEN. x [n][ic][ih][iw], y [n][ceil(oc/V)][oh][ow][V], r as y.
 * w: one panel per group of O vectors of output channels, [ic][kh][kw][O * V]; bias [ceil(oc/V) * V].
 *
 * The input rows of `rows` output rows are copied into scratch with their zero border, so the tile
 * meets no edge. Scratch, in floats: ic * ((rows-1)*sh + (kh-1)*dh + 1) * ((ow-1)*sw + (kw-1)*dw + 1).
 * Rows y0..y1-1 of the output are computed; x points at image row x_row0, y and r at output row
 * y_row0. In place: y may be r.
 */
#ifndef AOT_CONV_F32_PLAIN_H
#define AOT_CONV_F32_PLAIN_H

#include "aot_conv_act_f32.h"
#include "aot_tile_f32.h"

typedef struct {
    int32_t n, ic, ih, iw, oc, oh, ow;
    int32_t kh, kw, sh, sw, dh, dw, pt, pl;
    int32_t rows;
    int32_t y0, y1, x_row0, y_row0;
    int32_t x_row;
    int64_t x_plane, x_batch, y_plane, y_batch;
    int32_t act;
    float alpha, beta;
} aot_conv_f32_plain_params;

/* `count` image rows from row `iy` on, all channels, `width` floats each, zero outside. */
AOT_INLINE void aot_conv_f32_plain_rows(float *d, const float *x,
                                        const aot_conv_f32_plain_params *p, int32_t iy,
                                        int32_t count, int32_t width) {
    const int32_t past = width - p->pl < p->iw ? width - p->pl : p->iw; /* first column not taken */
    const int32_t take = past > 0 ? past : 0;
    int32_t c, i;
    for (c = 0; c < p->ic; ++c) {
        for (i = 0; i < count; ++i, d += width) {
            const int32_t row = iy + i;
            const float *s;
            if (row < 0 || row >= p->ih || take == 0) {
                memset(d, 0, (size_t)width * sizeof(float));
                continue;
            }
            s = x + (c * p->x_plane + (int64_t)(row - p->x_row0) * p->x_row);
            memset(d, 0, (size_t)p->pl * sizeof(float));
            memcpy(d + p->pl, s, (size_t)take * sizeof(float));
            memset(d + p->pl + take, 0, (size_t)(width - p->pl - take) * sizeof(float));
        }
    }
}

/* Every pixel of output rows y0..y1-1 whose input rows are in j->x, every output channel. */
AOT_INLINE void aot_conv_f32_plain_block(aot_tile_f32_job *j, const aot_conv_f32_plain_params *p,
                                         float *y, const float *r, const float *w,
                                         const float *bias, int32_t pixels, int32_t width, int P,
                                         int O, int ACT) {
    const int32_t blocks = (p->oc + AOT_VLEN - 1) / AOT_VLEN;
    int32_t b, o;
    j->w = w;
    for (b = 0; b < blocks; b += o) {
        int32_t q = 0, oy = 0, ox = 0;
        o = aot_tile_f32_group(b, blocks, O);
        j->bias = bias + b * AOT_VLEN;
        while (q < pixels) {
            const int32_t n = pixels - q < P ? pixels - q : P;
            const int32_t size = aot_tile_f32_size(P, n);
            const ptrdiff_t at = (ptrdiff_t)(b * p->y_plane) + (ptrdiff_t)q * AOT_VLEN;
            int32_t i;
            for (i = 0; i < size; ++i) {
                j->off[i] = (ptrdiff_t)oy * p->sh * width + (ptrdiff_t)ox * p->sw;
                if (i < n - 1 && ++ox == p->ow) {
                    ox = 0;
                    ++oy;
                }
            }
            if (++ox == p->ow) {
                ox = 0;
                ++oy;
            }
            j->n = n;
            j->y = y + at;
            j->r = r != NULL ? r + at : NULL;
            aot_tile_f32_run(j, o, P, O);
            if (ACT != 0) {
                aot_conv_act_f32_tile(j->y, n, AOT_VLEN, o, j->y_block, p->act, p->alpha, p->beta);
            }
            q += n;
        }
        j->w += (ptrdiff_t)p->ic * p->kh * p->kw * o * AOT_VLEN;
    }
}

/* Instance: P, O the tile family (aot_tile_f32_run); ACT 0 if act is NONE or CLAMP. */
AOT_INLINE void aot_conv_f32_plain(float *y, const float *x, const float *w, const float *bias,
                                   const float *r, void *scratch,
                                   const aot_conv_f32_plain_params *p, int P, int O, int ACT) {
    float *lines = (float *)scratch;
    const int32_t width = (p->ow - 1) * p->sw + (p->kw - 1) * p->dw + 1;
    aot_tile_f32_job j;
    int32_t image, oy;
    memset(&j, 0, sizeof j);
    j.x = lines;
    j.na = p->ic;
    j.nb = p->kh;
    j.kc = p->kw;
    j.kblk = p->dw == 1 || AOT_VLEN == 1 ? p->kw : 1;
    j.xb = (ptrdiff_t)p->dh * width;
    j.xstep = p->dw;
    j.y_pixel = AOT_VLEN;
    j.y_block = (ptrdiff_t)p->y_plane;
    j.clamp = p->act == AOT_ACT_CLAMP;
    j.lo = p->alpha;
    j.hi = p->beta;
    for (image = 0; image < p->n; ++image) {
        for (oy = p->y0; oy < p->y1; oy += p->rows) {
            const int32_t rows = p->y1 - oy < p->rows ? p->y1 - oy : p->rows;
            const int32_t count = (rows - 1) * p->sh + (p->kh - 1) * p->dh + 1;
            const ptrdiff_t at = (ptrdiff_t)(image * p->y_batch) +
                                 (ptrdiff_t)(oy - p->y_row0) * p->ow * AOT_VLEN;
            aot_conv_f32_plain_rows(lines, x + image * p->x_batch, p, oy * p->sh - p->pt, count,
                                    width);
            j.xa = (ptrdiff_t)count * width;
            aot_conv_f32_plain_block(&j, p, y + at, r != NULL ? r + at : NULL, w, bias,
                                     rows * p->ow, width, P, O, ACT);
        }
    }
}

#endif /* AOT_CONV_F32_PLAIN_H */
