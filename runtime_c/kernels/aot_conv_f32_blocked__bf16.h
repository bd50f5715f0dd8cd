/* SPDX-License-Identifier: MIT-0 */
/* Convolution of blocked tensors by the CPU's dot products of two bfloat16: any kernel, stride,
 * dilation, padding; one group of channels.
 *
 * V = AOT_VLEN. x, y, r and bias are those of aot_conv_f32_blocked.h. w holds one panel per group
 * of O vectors of output channels (the last ones 2 or 1): [kh][kw][ceil(ic/2)][O * V] words of two
 * input channels. The rows of the image that some rows of the result read, as many as fill
 * AOT_CONV_BF16_WORDS, are rounded to bfloat16 in scratch, [ceil(ic/V)][rows][columns][V/2] words;
 * of a 1x1 kernel that nothing pads only the pixels that it reads. aot_bf16.h says how products are
 * added.
 *
 * Scratch, in floats: AOT_CONV_BF16_WORDS, or what one row of the result reads, or the whole image,
 * if that is less. In place: y may be r.
 */
#ifndef AOT_CONV_F32_BLOCKED__BF16_H
#define AOT_CONV_F32_BLOCKED__BF16_H

#include "aot_conv_f32_blocked.h"

#ifndef AOT_BF16_MADD
#error "generated for AVX512_BF16: compile with -mavx512bf16, or -DAOT_ALLOW_NARROW for plain C"
#endif

typedef aot_conv_f32_blocked_params aot_conv_f32_blocked__bf16_params;

enum { AOT_CONV_BF16_WORDS = 1 << 16 }; /* a quarter of a second-level cache of 1 MiB */

/* Whether a 1x1 kernel reads pixels of the image alone. */
AOT_INLINE int aot_conv_bf16_flat(const aot_conv_f32_blocked_params *p) {
    return p->kh == 1 && p->kw == 1 && p->pt == 0 && p->pl == 0 && (p->oh - 1) * p->sh < p->ih &&
           (p->ow - 1) * p->sw < p->iw;
}

/* Rows of the result that are computed together. */
AOT_INLINE int32_t aot_conv_bf16_rows(const aot_conv_f32_blocked_params *p) {
    const int flat = aot_conv_bf16_flat(p);
    const int32_t planes = (p->ic + AOT_VLEN - 1) / AOT_VLEN;
    const int64_t row = (int64_t)planes * (AOT_VLEN / 2) * (flat ? p->ow : p->iw);
    const int32_t fit = (int32_t)(AOT_CONV_BF16_WORDS / row), reach = (p->kh - 1) * p->dh + 1;
    return fit <= reach ? 1 : (fit - reach) / (flat ? 1 : p->sh) + 1;
}

/* n pixels of V channels, `step` pixels apart, as V/2 words each; channels from `last` on are
 * zeros. */
AOT_INLINE void aot_conv_bf16_pixels(float *d, const float *x, int32_t n, int32_t step,
                                     int32_t last) {
    aot_vf keep;
    int32_t lanes[AOT_VLEN], i;
    for (i = 0; i < AOT_VLEN; ++i) {
        lanes[i] = i < last ? -1 : 0;
    }
    (void)memcpy(&keep, lanes, sizeof keep);
    for (i = 0; i + 2 <= n; i += 2, d += AOT_VLEN) {
        const float *s = x + (ptrdiff_t)i * step * AOT_VLEN;
        const aot_vf a = aot_vfrombits(aot_vbits(aot_vload(s)) & aot_vbits(keep));
        const aot_vf b = aot_vload(s + (ptrdiff_t)step * AOT_VLEN);
        aot_bf16_words(d, aot_bf16_finite(a),
                       aot_bf16_finite(aot_vfrombits(aot_vbits(b) & aot_vbits(keep))));
    }
    if (i < n) {
        float words[AOT_VLEN];
        const aot_vf a = aot_vload(x + (ptrdiff_t)i * step * AOT_VLEN);
        aot_bf16_words(words, aot_bf16_finite(aot_vfrombits(aot_vbits(a) & aot_vbits(keep))),
                       aot_vzero());
        (void)memcpy(d, words, AOT_VLEN / 2 * sizeof *d);
    }
}

/* The rows of the image that rows y0..y1-1 of the result read, in d, and `q`, the convolution of
 * them. */
AOT_INLINE void aot_conv_bf16_strip(float *d, aot_conv_f32_blocked_params *q, const float *x,
                                    const aot_conv_f32_blocked_params *p) {
    const int flat = aot_conv_bf16_flat(p);
    const int32_t top = q->y0 * p->sh - p->pt;
    const int32_t end = (q->y1 - 1) * p->sh - p->pt + (p->kh - 1) * p->dh + 1;
    const int32_t down = flat ? p->sh : 1, from = top < 0 ? 0 : top < p->ih ? top : p->ih;
    const int32_t past = end < p->ih ? end : p->ih;
    const int32_t rows = flat ? q->y1 - q->y0 : past > from ? past - from : 0;
    int32_t c, i;
    if (flat) {
        q->iw = p->ow;
        q->ih = p->oh;
        q->sh = 1;
        q->sw = 1;
    }
    q->x_row0 = flat ? q->y0 : from;
    q->x_row = q->iw * (AOT_VLEN / 2);
    q->x_plane = (int64_t)rows * q->x_row;
    for (c = 0; c < p->ic; c += AOT_VLEN) {
        const float *plane = x + c / AOT_VLEN * p->x_plane;
        for (i = 0; i < rows; ++i, d += q->x_row) {
            aot_conv_bf16_pixels(d, plane + (ptrdiff_t)(from + i * down - p->x_row0) * p->x_row,
                                 q->iw, flat ? p->sw : 1, p->ic - c);
        }
    }
}

/* Instance: P, O, YV, ACT as in aot_conv_f32_blocked.h. */
AOT_INLINE void aot_conv_f32_blocked__bf16(float *y, const float *x, const void *w,
                                           const float *bias, const float *r, void *scratch,
                                           const aot_conv_f32_blocked_params *p, int P, int O,
                                           int YV, int ACT) {
    const int32_t vecs = (p->oc + AOT_VLEN - 1) / AOT_VLEN, strip = aot_conv_bf16_rows(p);
    aot_tile_f32_job j;
    int32_t image, first, b, o;
    for (image = 0; image < p->n; ++image) {
        for (first = p->y0; first < p->y1; first += strip) {
            const float *panel = (const float *)w;
            aot_conv_f32_blocked_params q = *p;
            q.y0 = first;
            q.y1 = p->y1 - first < strip ? p->y1 : first + strip;
            aot_conv_bf16_strip((float *)scratch, &q, x + image * p->x_batch, p);
            aot_conv_f32_job(&j, &q, AOT_VLEN / 2, YV, P);
            j.kc = (p->ic + 1) / 2;
            j.kblk = AOT_VLEN / 2;
            j.x = (const float *)scratch;
            for (b = 0; b < vecs; b += o) {
                const ptrdiff_t at =
                    (ptrdiff_t)(image * p->y_batch + b * p->y_plane * (AOT_VLEN / YV));
                ptrdiff_t size;
                o = aot_tile_f32_group(b, vecs, O);
                size = (ptrdiff_t)p->kh * p->kw * j.kc * o * AOT_VLEN;
                j.w = panel;
                j.bias = bias + b * AOT_VLEN;
                aot_conv_f32_group(&j, &q, y + at, j.x, r != NULL ? r + at : NULL,
                                   b + o < vecs ? panel + size : NULL, o, b * AOT_VLEN, 0, P, O, YV,
                                   ACT, 2);
                panel += size;
            }
        }
    }
}

#endif /* AOT_CONV_F32_BLOCKED__BF16_H */
