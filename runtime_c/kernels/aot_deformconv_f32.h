/* SPDX-License-Identifier: MIT-0 */
/* DeformConv, float32, two spatial axes: every tap reads where its offset says, bilinearly.
 *
 * x [n][ic][ih][iw], w [oc][ic / groups][kh][kw], offset [n][og][kh][kw][2][oh][ow] (rows, then
 * columns), bias [oc] or NULL, mask [n][og][kh][kw][oh][ow] or NULL, y [n][oc][oh][ow].
 * Beyond the image there are zeros. Scratch: floats, ic * kh * kw. Not in place.
 */
#ifndef AOT_DEFORMCONV_F32_H
#define AOT_DEFORMCONV_F32_H

#include <stddef.h>
#include <stdint.h>

#include "aot/port.h"

typedef struct {
    int32_t n, ic, ih, iw, oc, oh, ow;
    int32_t kh, kw, sh, sw, dh, dw, pt, pl;
    int32_t groups, offset_groups;
} aot_deformconv_f32_params;

/* x between pixels, zero outside. */
AOT_INLINE float aot_deformconv_at(const float *x, int32_t h, int32_t w, float row, float column) {
    float sum = 0.0F;
    int32_t top, left, i, j;
    if (!(row > -1.0F && row < (float)h && column > -1.0F && column < (float)w)) {
        return 0.0F;
    }
    top = (int32_t)(row + 1.0F) - 1;
    left = (int32_t)(column + 1.0F) - 1;
    for (i = top; i < top + 2; ++i) {
        const float dy = row - (float)i, wy = dy < 0.0F ? 1.0F + dy : 1.0F - dy;
        for (j = left; j < left + 2; ++j) {
            const float dx = column - (float)j, wx = dx < 0.0F ? 1.0F + dx : 1.0F - dx;
            if (i >= 0 && i < h && j >= 0 && j < w) {
                sum += wy * wx * x[(ptrdiff_t)i * w + j];
            }
        }
    }
    return sum;
}

/* The patch [ic][kh][kw] that output pixel (oy, ox) of image `b` is made of. */
AOT_INLINE void aot_deformconv_patch(float *patch, const float *x, const float *offset,
                                     const float *mask, const aot_deformconv_f32_params *p,
                                     int32_t b, int32_t oy, int32_t ox) {
    const ptrdiff_t plane = (ptrdiff_t)p->oh * p->ow, at = (ptrdiff_t)oy * p->ow + ox;
    const int32_t taps = p->kh * p->kw, share = p->ic / p->offset_groups;
    int32_t c, k;
    for (c = 0; c < p->ic; ++c) {
        const ptrdiff_t tap0 = ((ptrdiff_t)b * p->offset_groups + c / share) * taps;
        const float *image = x + ((ptrdiff_t)b * p->ic + c) * p->ih * p->iw;
        for (k = 0; k < taps; ++k) {
            const float *o = offset + (tap0 + k) * 2 * plane + at;
            const float row = (float)(oy * p->sh - p->pt + k / p->kw * p->dh) + o[0];
            const float column = (float)(ox * p->sw - p->pl + k % p->kw * p->dw) + o[plane];
            const float v = aot_deformconv_at(image, p->ih, p->iw, row, column);
            *patch++ = mask != NULL ? v * mask[(tap0 + k) * plane + at] : v;
        }
    }
}

AOT_INLINE void aot_deformconv_f32(float *y, const float *x, const float *w, const float *offset,
                                   const float *bias, const float *mask, void *scratch,
                                   const aot_deformconv_f32_params *p) {
    float *patch = (float *)scratch;
    const ptrdiff_t plane = (ptrdiff_t)p->oh * p->ow;
    const int32_t depth = p->ic / p->groups * p->kh * p->kw, share = p->oc / p->groups;
    int32_t b, oy, ox, o, k;
    for (b = 0; b < p->n; ++b) {
        for (oy = 0; oy < p->oh; ++oy) {
            for (ox = 0; ox < p->ow; ++ox) {
                float *to = y + (ptrdiff_t)b * p->oc * plane + (ptrdiff_t)oy * p->ow + ox;
                aot_deformconv_patch(patch, x, offset, mask, p, b, oy, ox);
                for (o = 0; o < p->oc; ++o) {
                    const float *from = patch + (ptrdiff_t)(o / share) * depth;
                    const float *row = w + (ptrdiff_t)o * depth;
                    float sum = bias != NULL ? bias[o] : 0.0F;
                    for (k = 0; k < depth; ++k) {
                        sum += from[k] * row[k];
                    }
                    to[o * plane] = sum;
                }
            }
        }
    }
}

#endif /* AOT_DEFORMCONV_F32_H */
