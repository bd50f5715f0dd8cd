/* SPDX-License-Identifier: MIT-0 */
/* ConvTranspose, float32, one to three spatial axes (missing leading ones have size 1).
 *
 * Gathers: y[o] = b + sum over taps k with (o + pad - k * dilation) divisible by the stride.
 *   x  input, plain [N][C][D][H][W] or, with V > 1, blocked [N][C/V][D][H][W][V]
 *   w  [group][blocks of V output channels][kd][kh][kw][C/group][V], zero padded
 *   b  one float per output channel, padded to whole blocks per group; never NULL
 *   y  plain, or blocked like x with YV = V. V > 1 needs one group.
 * Runs of T output columns of the same phase share their weights. No scratch, never in place.
 */
#ifndef AOT_CONVTRANSPOSE_F32_H
#define AOT_CONVTRANSPOSE_F32_H

#include <stddef.h>

#include "aot_conv_act_f32.h"
#include "aot_simd.h"

typedef struct {
    int32_t n, ic, oc, group;
    int32_t in[3], out[3], kernel[3];
    int32_t stride[3], dilation[3], pad[3];
    int32_t act;
    float alpha, beta;
} aot_convtranspose_f32_params;

enum { AOT_CONVTRANSPOSE_T = 8 };
/* Products that are summed up before they join a total, as long sums lose digits. */
enum { AOT_CONVTRANSPOSE_RUN = 128 };

/* The input position along one axis that tap k brings to output o, or -1. */
AOT_INLINE int32_t aot_convtranspose_from(const aot_convtranspose_f32_params *p, int axis,
                                          int32_t o, int32_t k) {
    const int32_t at = o + p->pad[axis] - k * p->dilation[axis];
    if (at < 0 || at % p->stride[axis] != 0 || at / p->stride[axis] >= p->in[axis]) {
        return -1;
    }
    return at / p->stride[axis];
}

#if AOT_VLEN > 1
/* acc[0..N-1] += N pixels side by side, from x on, times w over `count` channels; N is 8, 4 or 1.
 * Every sum is a variable of its own: gcc keeps arrays of them on the stack. */
AOT_INLINE void aot_convtranspose_f32_run(aot_vf *acc, const float *x, const float *w,
                                          int32_t count, ptrdiff_t plane, int N) {
    enum { V = AOT_VLEN };
    aot_vf a0 = aot_vzero(), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0;
    for (int32_t c0 = 0; c0 < count; c0 += V, x += plane) {
        const int32_t lanes = count - c0 < V ? count - c0 : V;
        for (int32_t c = 0; c < lanes; c++, w += V) {
            const aot_vf wv = aot_vload(w);
            a0 += wv * x[c];
            if (N > 1) {
                a1 += wv * x[V + c];
                a2 += wv * x[2 * V + c];
                a3 += wv * x[3 * V + c];
            }
            if (N > 4) {
                a4 += wv * x[4 * V + c];
                a5 += wv * x[5 * V + c];
                a6 += wv * x[6 * V + c];
                a7 += wv * x[7 * V + c];
            }
        }
    }
    acc[0] += a0;
    if (N > 1) {
        acc[1] += a1;
        acc[2] += a2;
        acc[3] += a3;
    }
    if (N > 4) {
        acc[4] += a4;
        acc[5] += a5;
        acc[6] += a6;
        acc[7] += a7;
    }
}

/* acc[t] += pixel `at` + t of the row x * w over all input channels, for the columns t of which the
 * row has the pixel. */
AOT_INLINE void aot_convtranspose_f32_tap(aot_vf *acc, const float *x, const float *w, int32_t at,
                                          int32_t columns, int32_t width, int32_t ic,
                                          ptrdiff_t plane) {
    const int32_t end = width - at < columns ? width - at : columns;
    int32_t c, t;
    for (c = 0; c < ic; c += AOT_CONVTRANSPOSE_RUN, w += AOT_CONVTRANSPOSE_RUN * AOT_VLEN) {
        const int32_t count = ic - c < AOT_CONVTRANSPOSE_RUN ? ic - c : AOT_CONVTRANSPOSE_RUN;
        const float *const from = x + c / AOT_VLEN * plane;
        for (t = at < 0 ? -at : 0; t + 8 <= end; t += 8) {
            aot_convtranspose_f32_run(acc + t, from + (ptrdiff_t)(at + t) * AOT_VLEN, w, count,
                                      plane, 8);
        }
        for (; t + 4 <= end; t += 4) {
            aot_convtranspose_f32_run(acc + t, from + (ptrdiff_t)(at + t) * AOT_VLEN, w, count,
                                      plane, 4);
        }
        for (; t < end; t++) {
            aot_convtranspose_f32_run(acc + t, from + (ptrdiff_t)(at + t) * AOT_VLEN, w, count,
                                      plane, 1);
        }
    }
}

/* One block of output channels (`lanes` real ones) of one image, from a blocked input; output
 * pixels are `ystep` floats apart, its channels `ylane`. */
AOT_INLINE void aot_convtranspose_f32_block(float *y, const float *x, const float *w,
                                            const float *b, int32_t lanes, ptrdiff_t ystep,
                                            ptrdiff_t ylane,
                                            const aot_convtranspose_f32_params *p) {
    const int32_t v = AOT_VLEN, sw = p->stride[2], ow = p->out[2], step = AOT_CONVTRANSPOSE_T;
    const ptrdiff_t row = (ptrdiff_t)p->in[2] * v;
    const ptrdiff_t plane = row * p->in[0] * p->in[1];
    for (int32_t od = 0; od < p->out[0]; od++) {
        for (int32_t oh = 0; oh < p->out[1]; oh++) {
            float *yr = y + ((ptrdiff_t)od * p->out[1] + oh) * ow * ystep;
            for (int32_t phase = 0; phase < sw && phase < ow; phase++) {
                for (int32_t o = phase; o < ow; o += step * sw) {
                    const int32_t left = (ow - o + sw - 1) / sw;
                    const int32_t columns = left < step ? left : step;
                    aot_vf acc[AOT_CONVTRANSPOSE_T];
                    const float *wk = w;
                    for (int32_t t = 0; t < step; t++) {
                        acc[t] = aot_vload(b);
                    }
                    for (int32_t kd = 0; kd < p->kernel[0]; kd++) {
                        const int32_t d = aot_convtranspose_from(p, 0, od, kd);
                        for (int32_t kh = 0; kh < p->kernel[1]; kh++) {
                            const int32_t h = aot_convtranspose_from(p, 1, oh, kh);
                            for (int32_t kw = 0; kw < p->kernel[2]; kw++) {
                                /* Columns of a phase read pixels side by side, or none does. */
                                const int32_t at = o + p->pad[2] - kw * p->dilation[2];
                                if (d >= 0 && h >= 0 && at % sw == 0) {
                                    aot_convtranspose_f32_tap(
                                        acc, x + ((ptrdiff_t)d * p->in[1] + h) * row, wk, at / sw,
                                        columns, p->in[2], p->ic, plane);
                                }
                                wk += (ptrdiff_t)p->ic * v;
                            }
                        }
                    }
                    for (int32_t t = 0; t < columns; t++) {
                        const aot_vf r = aot_conv_act_f32(acc[t], p->act, p->alpha, p->beta);
                        float *to = yr + (o + t * sw) * ystep;
                        if (ystep > 1) {
                            aot_vstore(to, r);
                            continue;
                        }
                        for (int32_t lane = 0; lane < lanes; lane++) {
                            to[lane * ylane] = aot_vlane(r, lane);
                        }
                    }
                }
            }
        }
    }
}
#endif

/* One output element in plain layout; x and w start at its image, group and channel. */
AOT_INLINE float aot_convtranspose_f32_one(const float *x, const float *w, float start, int32_t od,
                                           int32_t oh, int32_t ow,
                                           const aot_convtranspose_f32_params *p) {
    const int32_t ic = p->ic / p->group;
    const ptrdiff_t plane = (ptrdiff_t)p->in[0] * p->in[1] * p->in[2];
    float acc = start;
    for (int32_t kd = 0; kd < p->kernel[0]; kd++) {
        const int32_t d = aot_convtranspose_from(p, 0, od, kd);
        for (int32_t kh = 0; kh < p->kernel[1]; kh++) {
            const int32_t h = aot_convtranspose_from(p, 1, oh, kh);
            for (int32_t kw = 0; kw < p->kernel[2]; kw++, w += ic) {
                const int32_t c0 = aot_convtranspose_from(p, 2, ow, kw);
                if (d < 0 || h < 0 || c0 < 0) {
                    continue;
                }
                const float *xi = x + ((ptrdiff_t)d * p->in[1] + h) * p->in[2] + c0;
                float sum = 0.0F;
                for (int32_t c = 0; c < ic; c++) {
                    sum += xi[c * plane] * w[c];
                }
                acc += sum;
            }
        }
    }
    return acc;
}

/* V, YV: 1 where x, y are plain, AOT_VLEN where they are blocked; YV > 1 needs V > 1. */
AOT_INLINE void aot_convtranspose_f32(float *y, const float *x, const float *w, const float *b,
                                      const aot_convtranspose_f32_params *p, int V, int YV) {
    const int32_t taps = p->kernel[0] * p->kernel[1] * p->kernel[2];
    const ptrdiff_t in = (ptrdiff_t)p->in[0] * p->in[1] * p->in[2];
    const ptrdiff_t out = (ptrdiff_t)p->out[0] * p->out[1] * p->out[2];
#if AOT_VLEN > 1
    if (V > 1) {
        const int32_t out_blocks = (p->oc + V - 1) / V, in_blocks = (p->ic + V - 1) / V;
        for (int32_t n = 0; n < p->n; n++) {
            for (int32_t ob = 0; ob < out_blocks; ob++) {
                const int32_t left = p->oc - ob * V;
                float *yb = y + (YV > 1 ? (n * out_blocks + ob) * out * V
                                        : ((ptrdiff_t)n * p->oc + (ptrdiff_t)ob * V) * out);
                aot_convtranspose_f32_block(yb, x + n * in_blocks * in * V,
                                            w + (ptrdiff_t)ob * taps * p->ic * V, b + ob * V,
                                            left < V ? left : V, YV, YV > 1 ? 1 : out, p);
            }
        }
        return;
    }
#else
    (void)V;
    (void)YV;
#endif
    const int32_t ic = p->ic / p->group, oc = p->oc / p->group;
    for (int32_t n = 0; n < p->n; n++) {
        for (int32_t o = 0; o < p->oc; o++) {
            const float *xg = x + ((ptrdiff_t)n * p->ic + (ptrdiff_t)(o / oc) * ic) * in;
            const float *wo = w + (ptrdiff_t)o * taps * ic;
            float *yo = y + ((ptrdiff_t)n * p->oc + o) * out;
            for (int32_t d = 0; d < p->out[0]; d++) {
                for (int32_t h = 0; h < p->out[1]; h++) {
                    for (int32_t c = 0; c < p->out[2]; c++) {
                        const float acc = aot_convtranspose_f32_one(xg, wo, b[o], d, h, c, p);
                        const aot_vf act =
                            aot_conv_act_f32(aot_vset1(acc), p->act, p->alpha, p->beta);
                        *yo++ = aot_vlane(act, 0);
                    }
                }
            }
        }
    }
}

#endif
