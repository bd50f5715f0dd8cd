/* SPDX-License-Identifier: MIT-0 */
/* Convolution of quantised values, the general form: any groups, dilations, one to three spatial
 * axes, 8-bit and 16-bit quantised values, weights with their zero points taken off. Channels last:
 *
 * x [n][in0][in1][in2][ic], w [oc][k0][k1][k2][ic / groups], y [n][out0][out1][out2][oc];
 * y = clamp(requantise(bias[oc] + sum of (x - x_zero) * w) + y_zero, lo, hi).
 *
 * mult and shift have one element per output channel (one in all with PC 0), see aot_requant.h.
 * Arrays of the parameters are in the order depth, height, width (1 and 0 for axes that are
 * absent). With up above 1 there are up - 1 zeros between the positions of x: a transposed
 * convolution. The sums must fit int32. XT, WT, YT are types of aot_quantised.h. No scratch; y must
 * not overlap x.
 */
#ifndef AOT_QCONV_REF_H
#define AOT_QCONV_REF_H

#include "aot_quantised.h"
#include "aot_requant.h"

typedef struct aot_qconv_ref_params {
    int32_t n, ic, oc, groups;
    int32_t in[3], out[3], k[3], s[3], d[3], pad[3], up[3];
    int32_t x_zero, y_zero, lo, hi;
} aot_qconv_ref_params;

/* The position in x of a tap at `at` along an axis, or -1. */
AOT_INLINE int32_t aot_qconv_ref_at(const aot_qconv_ref_params *p, int axis, int32_t at) {
    const int32_t up = p->up[axis];
    if (up > 1) {
        at = at >= 0 && at % up == 0 ? at / up : -1;
    }
    return at < p->in[axis] ? at : -1;
}

/* The sum of one window and channel; `at` is the window's corner in x, xo and wo are offsets of
 * the first channel of the group and of the channel's weights. */
AOT_INLINE int32_t aot_qconv_ref_sum(const void *x, const void *w, int64_t xo, int64_t wo,
                                     const int32_t *at, const aot_qconv_ref_params *p, int XT,
                                     int WT) {
    const int32_t group = p->ic / p->groups;
    int32_t a, b, e, c, sum = 0;
    for (a = 0; a < p->k[0]; ++a) {
        const int32_t z = aot_qconv_ref_at(p, 0, at[0] + a * p->d[0]);
        for (b = 0; b < p->k[1]; ++b) {
            const int32_t row = aot_qconv_ref_at(p, 1, at[1] + b * p->d[1]);
            for (e = 0; e < p->k[2]; ++e, wo += group) {
                const int32_t col = aot_qconv_ref_at(p, 2, at[2] + e * p->d[2]);
                int64_t i;
                if (z < 0 || row < 0 || col < 0) {
                    continue;
                }
                i = xo + (((int64_t)z * p->in[1] + row) * p->in[2] + col) * p->ic;
                for (c = 0; c < group; ++c) {
                    sum += (aot_q_load(x, i + c, XT) - p->x_zero) * aot_q_load(w, wo + c, WT);
                }
            }
        }
    }
    return sum;
}

AOT_INLINE void aot_qconv_ref(void *y, const void *x, const void *w, const int32_t *bias,
                              const int32_t *mult, const int8_t *shift,
                              const aot_qconv_ref_params *p, int RQ, int PC, int XT, int WT,
                              int YT) {
    const int64_t image = (int64_t)p->in[0] * p->in[1] * p->in[2] * p->ic;
    const int32_t group = p->ic / p->groups, results = p->oc / p->groups;
    const int64_t kernel = (int64_t)p->k[0] * p->k[1] * p->k[2] * group;
    int64_t j = 0;
    int32_t n, z, r, q, oc;
    for (n = 0; n < p->n; ++n) {
        for (z = 0; z < p->out[0]; ++z) {
            for (r = 0; r < p->out[1]; ++r) {
                for (q = 0; q < p->out[2]; ++q) {
                    const int32_t at[3] = {z * p->s[0] - p->pad[0], r * p->s[1] - p->pad[1],
                                           q * p->s[2] - p->pad[2]};
                    for (oc = 0; oc < p->oc; ++oc, ++j) {
                        const int64_t xo = n * image + (int64_t)(oc / results) * group;
                        const int32_t acc =
                            bias[oc] + aot_qconv_ref_sum(x, w, xo, oc * kernel, at, p, XT, WT);
                        const int32_t k = PC ? oc : 0;
                        const int32_t v =
                            aot_requant(acc, mult[k], shift != NULL ? shift[k] : 0, RQ);
                        aot_q_store(y, j, aot_q_shifted(v, p->y_zero, p->lo, p->hi), YT);
                    }
                }
            }
        }
    }
}

#endif /* AOT_QCONV_REF_H */
