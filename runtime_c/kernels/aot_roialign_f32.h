/* SPDX-License-Identifier: MIT-0 */
/* RoiAlign, float32: bilinear samples of a region, averaged or maximised per bin.
 *
 * x [n][c][h][w], rois [r][4] (x1, y1, x2, y2), batch [r] image of each region (regions of images
 * that do not exist are zero), y [r][c][ph][pw].
 * RATIO samples per bin and axis, or as many as the bin has pixels if it is 0 (at most 32767).
 * HALF: pixel centres lie at half coordinates; otherwise regions are at least one pixel large.
 * MAX 0: the mean of the samples; 1: the largest weighted neighbour of all samples, as onnxruntime
 * has it. A sample beyond the image by more than a pixel counts as 0. No scratch, not in place.
 */
#ifndef AOT_ROIALIGN_F32_H
#define AOT_ROIALIGN_F32_H

#include <stddef.h>
#include <stdint.h>

#include "aot/port.h"

typedef struct {
    int32_t n, c, h, w, regions, ph, pw;
    float scale;
} aot_roialign_f32_params;

/* One coordinate of a sample: its two neighbours, and the weight of the second; 0 if outside. */
AOT_INLINE int aot_roialign_at(float v, int32_t size, int32_t *low, int32_t *high, float *weight) {
    if (!(v >= -1.0F && v <= (float)size)) {
        return 0;
    }
    v = v > 0.0F ? v : 0.0F;
    *low = (int32_t)v;
    *high = *low + 1;
    *weight = v - (float)*low;
    if (*low >= size - 1) {
        *low = *high = size - 1;
        *weight = 0.0F;
    }
    return 1;
}

/* Samples per bin along an axis. */
AOT_INLINE int32_t aot_roialign_grid(float bin, int RATIO) {
    if (RATIO > 0) {
        return RATIO;
    }
    if (!(bin > 0.0F)) {
        return 0;
    }
    return bin >= 32767.0F ? 32767 : (int32_t)bin + (bin > (float)(int32_t)bin ? 1 : 0);
}

AOT_INLINE float aot_roialign_bin(const float *x, const aot_roialign_f32_params *p, float y0,
                                  float x0, float bh, float bw, int RATIO, int MAX) {
    const int32_t gh = aot_roialign_grid(bh, RATIO), gw = aot_roialign_grid(bw, RATIO);
    float sum = 0.0F, most = 0.0F;
    int32_t i, j, top = 0, bottom = 0, left = 0, right = 0;
    float dy = 0.0F, dx = 0.0F;
    for (i = 0; i < gh; ++i) {
        const float at = y0 + ((float)i + 0.5F) * bh / (float)gh;
        const int row = aot_roialign_at(at, p->h, &top, &bottom, &dy);
        for (j = 0; j < gw; ++j) {
            const float along = x0 + ((float)j + 0.5F) * bw / (float)gw;
            float a = 0.0F, b = 0.0F, c = 0.0F, d = 0.0F, best;
            if (row && aot_roialign_at(along, p->w, &left, &right, &dx)) {
                const float *upper = x + (ptrdiff_t)top * p->w;
                const float *lower = x + (ptrdiff_t)bottom * p->w;
                a = (1.0F - dy) * (1.0F - dx) * upper[left];
                b = (1.0F - dy) * dx * upper[right];
                c = dy * (1.0F - dx) * lower[left];
                d = dy * dx * lower[right];
            }
            sum += a + b + c + d;
            best = a > b ? a : b;
            best = c > best ? c : best;
            best = d > best ? d : best;
            most = (i == 0 && j == 0) || best > most ? best : most;
        }
    }
    return MAX ? most : sum / (float)(gh * gw > 1 ? gh * gw : 1);
}

AOT_INLINE void aot_roialign_f32(float *y, const float *x, const float *rois, const int64_t *batch,
                                 const aot_roialign_f32_params *p, int RATIO, int HALF, int MAX) {
    const float shift = HALF ? 0.5F : 0.0F;
    int32_t r, c, i, j;
    for (r = 0; r < p->regions; ++r, rois += 4) {
        const float x1 = rois[0] * p->scale - shift, y1 = rois[1] * p->scale - shift;
        float width = rois[2] * p->scale - shift - x1, height = rois[3] * p->scale - shift - y1;
        const int known = batch[r] >= 0 && batch[r] < p->n;
        const float *image = x + (known ? (ptrdiff_t)batch[r] * p->c * p->h * p->w : 0);
        float bh, bw;
        if (!HALF) {
            width = width > 1.0F ? width : 1.0F;
            height = height > 1.0F ? height : 1.0F;
        }
        bh = height / (float)p->ph;
        bw = width / (float)p->pw;
        for (c = 0; c < p->c; ++c) {
            const float *plane = image + (ptrdiff_t)c * p->h * p->w;
            for (i = 0; i < p->ph; ++i) {
                for (j = 0; j < p->pw; ++j) {
                    *y++ = known ? aot_roialign_bin(plane, p, y1 + (float)i * bh,
                                                    x1 + (float)j * bw, bh, bw, RATIO, MAX)
                                 : 0.0F;
                }
            }
        }
    }
}

#endif /* AOT_ROIALIGN_F32_H */
