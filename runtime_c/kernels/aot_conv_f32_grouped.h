/* SPDX-License-Identifier: MIT-0 */
/* 1 x 1 convolution of plain tensors in groups of a few channels: y = act(conv(x) + bias + r).
 *
 * x [n][groups][ic][pixels], y and r [n][groups][oc][pixels], n images x_batch and y_batch floats
 * apart; w [groups][oc][ic + 1], the last column being the bias. Vectors hold pixels, so that
 * groups fill them whatever their numbers of channels are. Scratch: ic + 1 rows of O vectors, or of
 * as many as the pixels fill. In place: y may be r.
 */
#ifndef AOT_CONV_F32_GROUPED_H
#define AOT_CONV_F32_GROUPED_H

#include "aot_gemm_f32.h"

typedef struct {
    int32_t n, groups, ic, oc, pixels; /* ic, oc: channels of a group */
    int64_t x_batch, y_batch;
    int32_t act;
    float alpha, beta;
} aot_conv_f32_grouped_params;

/* `cols` pixels of k channels as a panel [k + 1][width]; the last row is 1, for the bias. */
AOT_INLINE void aot_conv_f32_grouped_pack(float *d, const float *x, int32_t k, int32_t cols,
                                          int32_t width, ptrdiff_t plane) {
    int32_t i, c;
    for (i = 0; i < k; ++i, d += width) {
        const float *s = x + i * plane;
        for (c = 0; c + AOT_VLEN <= cols; c += AOT_VLEN) {
            aot_vstore(d + c, aot_vload(s + c));
        }
        if (c < width) {
            (void)memset(d + c, 0, (size_t)(width - c) * sizeof *d);
            (void)memcpy(d + c, s + c, (size_t)(cols - c) * sizeof *d);
        }
    }
    for (c = 0; c < width; c += AOT_VLEN) {
        aot_vstore(d + c, aot_vset1(1.0F));
    }
}

/* Instance: P, O the tile family (aot_tile_f32_run); ACT 0 if act is NONE or CLAMP. */
AOT_INLINE void aot_conv_f32_grouped(float *y, const float *x, const float *w, const float *r,
                                     void *scratch, const aot_conv_f32_grouped_params *p, int P,
                                     int O, int ACT) {
    static const float zeros[4 * AOT_VLEN] = {0};
    const int32_t vecs = (p->pixels + AOT_VLEN - 1) / AOT_VLEN;
    const ptrdiff_t plane = p->pixels;
    float *const panel = (float *)scratch;
    aot_gemm_f32_group_args g;
    aot_tile_f32_job j;
    int32_t image, i, b, o;
    aot_gemm_f32_job(&j, p->ic + 1, p->act, p->alpha, p->beta);
    j.w = panel;
    j.bias = zeros;
    g.x_row = p->ic + 1;
    g.y_row = plane;
    g.m = p->oc;
    g.act = p->act;
    g.alpha = p->alpha;
    g.beta = p->beta;
    for (image = 0; image < p->n; ++image) {
        for (i = 0; i < p->groups; ++i) {
            const float *xi = x + image * p->x_batch + i * p->ic * plane;
            const ptrdiff_t yi = (ptrdiff_t)(image * p->y_batch) + i * p->oc * plane;
            j.x = w + (ptrdiff_t)i * p->oc * (p->ic + 1);
            for (b = 0; b < vecs; b += o) {
                const int32_t at = b * AOT_VLEN, left = p->pixels - at;
                o = aot_tile_f32_group(b, vecs, O);
                g.cols = left < o * AOT_VLEN ? left : o * AOT_VLEN;
                g.y = y + yi + at;
                g.r = r != NULL ? r + yi + at : NULL;
                aot_conv_f32_grouped_pack(panel, xi + at, p->ic, g.cols, o * AOT_VLEN, plane);
                aot_gemm_f32_group(&j, &g, NULL, o, P, O, ACT, 0);
            }
        }
    }
}

#endif /* AOT_CONV_F32_GROUPED_H */
