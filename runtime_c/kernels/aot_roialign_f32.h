/* SPDX-License-Identifier: MIT-0 */
/* RoiAlign, float32: bilinear samples of a region, averaged or maximised per bin.
 *
 * x [n][c][h][w], rois [r][4] (x1, y1, x2, y2), batch [r] image of each region (regions of images
 * that do not exist are zero), y [r][c][ph][pw].
 * RATIO samples per bin and axis, or as many as the bin has pixels if it is 0 (at most 2^30). Those
 * beyond the image are counted and not visited, so a region takes no longer than its bins and the
 * image are large, whatever its extent.
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

/* The samples of a bin along an axis: sample i lies at start + (i + 0.5) * length / count; those
 * from first to last - 1 are visited, the others lie beyond the image. */
typedef struct {
    float start, length;
    int32_t count, first, last;
} aot_roialign_line;

AOT_INLINE int32_t aot_roialign_count(float bin, int RATIO) {
    const float most = 1073741824.0F;
    if (RATIO > 0) {
        return RATIO;
    }
    if (!(bin > 0.0F)) {
        return 0;
    }
    return bin >= most ? (int32_t)most : (int32_t)bin + (bin > (float)(int32_t)bin ? 1 : 0);
}

AOT_INLINE float aot_roialign_place(const aot_roialign_line *line, int32_t i) {
    return line->start + ((float)i + 0.5F) * line->length / (float)line->count;
}

/* The first sample that lies at `least` or behind it (ABOVE 0), or behind it (ABOVE 1). Places
 * never decrease, also rounded; a place that is no number is behind everything if ABOVE is 1. */
AOT_INLINE int32_t aot_roialign_first(const aot_roialign_line *line, float least, int ABOVE) {
    int32_t low = 0, high = line->count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        const float at = aot_roialign_place(line, middle);
        if (ABOVE ? !(at <= least) : at >= least) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* The line of a bin over an axis of `size` pixels. */
AOT_INLINE aot_roialign_line aot_roialign_samples(float start, float length, int32_t size,
                                                  int RATIO) {
    aot_roialign_line line;
    line.start = start;
    line.length = length;
    line.count = aot_roialign_count(length, RATIO);
    line.first = 0;
    line.last = line.count;
    if (RATIO == 0 && line.count > 64) { /* else the search takes longer than the samples */
        line.first = aot_roialign_first(&line, -1.0F, 0);
        line.last = aot_roialign_first(&line, (float)size, 1);
    }
    return line;
}

AOT_INLINE float aot_roialign_bin(const float *x, const aot_roialign_f32_params *p, float y0,
                                  float x0, float bh, float bw, int RATIO, int MAX) {
    const aot_roialign_line down = aot_roialign_samples(y0, bh, p->h, RATIO);
    const aot_roialign_line along = aot_roialign_samples(x0, bw, p->w, RATIO);
    const float count = (float)down.count * (float)along.count;
    /* What is not visited is 0, also as the first of the samples. */
    const int skips = down.last - down.first < down.count || along.last - along.first < along.count;
    int begun = down.first > 0 || along.first > 0;
    float sum = 0.0F, most = 0.0F;
    int32_t i, j, top = 0, bottom = 0, left = 0, right = 0;
    float dy = 0.0F, dx = 0.0F;
    for (i = down.first; i < down.last; ++i) {
        const int row = aot_roialign_at(aot_roialign_place(&down, i), p->h, &top, &bottom, &dy);
        for (j = along.first; j < along.last; ++j) {
            const float at = aot_roialign_place(&along, j);
            float a = 0.0F, b = 0.0F, c = 0.0F, d = 0.0F, best;
            if (row && aot_roialign_at(at, p->w, &left, &right, &dx)) {
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
            most = begun == 0 || best > most ? best : most;
            begun = 1;
        }
    }
    if (MAX) {
        return skips && most < 0.0F ? 0.0F : most;
    }
    return sum / (count > 1.0F ? count : 1.0F);
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
