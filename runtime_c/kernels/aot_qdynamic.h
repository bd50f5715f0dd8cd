/* SPDX-License-Identifier: MIT-0 */
/* Quantisation whose parameters are found at run time, and integer products that give the sums.
 *
 * aot_qdynamic_u8: scale = (max - min) / 255 of the range of x and 0 (1 if that is empty), zero its
 *   zero point, y = round(x / scale) + zero saturated, halves to even. aot_qdynamic_blocks_u8 reads
 *   channels in blocks and stores them last.
 * aot_matmulinteger: y [..][m][n] = sum of (a - az) * (b - bz), a [..][m][k], b [..][k][n]; az is
 * one zero point or one per row (a_step 1), bz one or one per column; NULL is 0. The leading axes
 * are dims, outermost first, with element strides in a and b (0 where repeated). aot_convinteger: y
 * [n][oc][out], x [n][ic][in], w [oc][ic / groups][k], arrays in the order depth, height, width;
 * padding adds nothing. xz is one zero point, wz one or one per output channel.
 *
 * Operands are int8 or uint8 (types of aot_quantised.h), sums int32, which must hold them. No
 * scratch; results must not overlap operands.
 */
#ifndef AOT_QDYNAMIC_H
#define AOT_QDYNAMIC_H

#include <stddef.h>

#include "aot_broadcast.h"
#include "aot_quantised.h"
#include "aot_quantize.h"

typedef struct aot_qdynamic_u8_params {
    int64_t n;
} aot_qdynamic_u8_params;

/* Scale and zero point of the range low..high, which holds 0; returns the zero point. */
AOT_INLINE int32_t aot_qdynamic_range(float *scale, uint8_t *zero, float low, float high) {
    const float step = high > low ? (high - low) / 255.0F : 1.0F, offset = 0.0F - low / step;
    *scale = step;
    *zero = (uint8_t)aot_quantize_round(offset < 0.0F ? 0.0F : offset > 255.0F ? 255.0F : offset);
    return *zero;
}

AOT_INLINE void aot_qdynamic_u8(uint8_t *y, float *scale, uint8_t *zero, const float *x,
                                const aot_qdynamic_u8_params *p) {
    float low = 0.0F, high = 0.0F;
    int32_t offset;
    int64_t i = 0;
#if AOT_VLEN > 1
    aot_vf least = aot_vzero(), most = aot_vzero();
    for (; i + AOT_VLEN <= p->n; i += AOT_VLEN) {
        const aot_vf v = aot_vload(x + i);
        least = aot_vmin(v, least);
        most = aot_vmax(v, most);
    }
    high = aot_vhmax(most);
    low = 0.0F - aot_vhmax(-least);
#endif
    for (; i < p->n; ++i) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    offset = aot_qdynamic_range(scale, zero, low, high);
    aot_quantize_run_u8(y, x, *scale, offset, p->n);
}

#if AOT_VLEN > 1
/* The same of x [n][C / V][space][V] with y [n][space][channels]; lanes past the last channel count
 * as 0. */
typedef struct aot_qdynamic_blocks_u8_params {
    int32_t n, channels;
    int64_t space;
} aot_qdynamic_blocks_u8_params;

AOT_INLINE void aot_qdynamic_blocks_u8(uint8_t *y, float *scale, uint8_t *zero, const float *x,
                                       const aot_qdynamic_blocks_u8_params *p) {
    const int32_t blocks = (p->channels + AOT_VLEN - 1) / AOT_VLEN;
    const int32_t tail = p->channels - (blocks - 1) * AOT_VLEN;
    const int64_t block = p->space * AOT_VLEN;
    aot_vf least = aot_vzero(), most = aot_vzero();
    int32_t keep[AOT_VLEN], offset, n, b, i;
    int64_t s;
    for (i = 0; i < AOT_VLEN; ++i) {
        keep[i] = i < tail ? -1 : 0;
    }
    for (n = 0; n < p->n * blocks; ++n) {
        const aot_vi mask = n % blocks == blocks - 1 ? aot_viload(keep) : aot_viset1(-1);
        for (s = n * block; s < (n + 1) * block; s += AOT_VLEN) {
            const aot_vf v = aot_vfrombits(aot_vbits(aot_vload(x + s)) & mask);
            least = aot_vmin(v, least);
            most = aot_vmax(v, most);
        }
    }
    offset = aot_qdynamic_range(scale, zero, 0.0F - aot_vhmax(-least), aot_vhmax(most));
    for (n = 0; n < p->n; ++n, x += blocks * block) {
        for (s = 0; s < block; s += AOT_VLEN) {
            for (b = 0; b < blocks - 1; ++b, y += AOT_VLEN) {
                aot_quantize_run_u8(y, x + b * block + s, *scale, offset, AOT_VLEN);
            }
            if (tail == AOT_VLEN) {
                aot_quantize_run_u8(y, x + b * block + s, *scale, offset, AOT_VLEN);
            } else {
                uint8_t some[AOT_VLEN];
                aot_quantize_run_u8(some, x + b * block + s, *scale, offset, AOT_VLEN);
                (void)memcpy(y, some, (size_t)tail);
            }
            y += tail;
        }
    }
}
#endif

typedef struct aot_matmulinteger_params {
    int64_t dims[AOT_BROADCAST_DIMS], a_stride[AOT_BROADCAST_DIMS], b_stride[AOT_BROADCAST_DIMS];
    int32_t m, k, n, a_step, b_step;
} aot_matmulinteger_params;

/* One matrix; b is read along its rows. */
AOT_INLINE void aot_matmulinteger_one(int32_t *y, const void *a, const void *b, int64_t ao,
                                      int64_t bo, const void *az, const void *bz,
                                      const aot_matmulinteger_params *p, int AT, int BT) {
    int32_t r, q, k;
    for (r = 0; r < p->m; ++r, y += p->n) {
        const int32_t zero = az != NULL ? aot_q_load(az, (int64_t)r * p->a_step, AT) : 0;
        for (q = 0; q < p->n; ++q) {
            y[q] = 0;
        }
        for (k = 0; k < p->k; ++k) {
            const int32_t v = aot_q_load(a, ao + (int64_t)r * p->k + k, AT) - zero;
            const int64_t row = bo + (int64_t)k * p->n;
            if (bz == NULL) {
                for (q = 0; q < p->n; ++q) {
                    y[q] += v * aot_q_load(b, row + q, BT);
                }
            } else {
                for (q = 0; q < p->n; ++q) {
                    const int32_t own = aot_q_load(bz, (int64_t)q * p->b_step, BT);
                    y[q] += v * (aot_q_load(b, row + q, BT) - own);
                }
            }
        }
    }
}

AOT_INLINE void aot_matmulinteger(int32_t *y, const void *a, const void *b, const void *az,
                                  const void *bz, const aot_matmulinteger_params *p, int AT,
                                  int BT) {
    int64_t at[AOT_BROADCAST_DIMS] = {0}, ao = 0, bo = 0;
    int d;
    if (aot_broadcast_empty(p->dims) != 0) {
        return;
    }
    do {
        aot_matmulinteger_one(y, a, b, ao, bo, az, bz, p, AT, BT);
        y += (ptrdiff_t)p->m * p->n;
        for (d = AOT_BROADCAST_DIMS - 1; d >= 0; --d) {
            ao += p->a_stride[d];
            bo += p->b_stride[d];
            if (++at[d] < p->dims[d]) {
                break;
            }
            ao -= p->a_stride[d] * p->dims[d];
            bo -= p->b_stride[d] * p->dims[d];
            at[d] = 0;
        }
    } while (d >= 0);
}

typedef struct aot_convinteger_params {
    int32_t n, ic, oc, groups;
    int32_t in[3], out[3], k[3], s[3], d[3], pad[3];
    int32_t w_step;
} aot_convinteger_params;

/* The sum of one window, its corner at `at`; xo and wo: offsets of the group's channels. */
AOT_INLINE int32_t aot_convinteger_sum(const void *x, const void *w, int64_t xo, int64_t wo,
                                       const int32_t *at, int32_t xz, int32_t wz,
                                       const aot_convinteger_params *p, int XT, int WT) {
    const int64_t plane = (int64_t)p->in[0] * p->in[1] * p->in[2];
    int32_t c, a, b, e, sum = 0;
    for (c = 0; c < p->ic / p->groups; ++c, xo += plane) {
        for (a = 0; a < p->k[0]; ++a) {
            const int32_t z = at[0] + a * p->d[0];
            for (b = 0; b < p->k[1]; ++b) {
                const int32_t row = at[1] + b * p->d[1];
                for (e = 0; e < p->k[2]; ++e, ++wo) {
                    const int32_t col = at[2] + e * p->d[2];
                    if (z >= 0 && z < p->in[0] && row >= 0 && row < p->in[1] && col >= 0 &&
                        col < p->in[2]) {
                        const int64_t i = ((int64_t)z * p->in[1] + row) * p->in[2] + col;
                        sum += (aot_q_load(x, xo + i, XT) - xz) * (aot_q_load(w, wo, WT) - wz);
                    }
                }
            }
        }
    }
    return sum;
}

AOT_INLINE void aot_convinteger(int32_t *y, const void *x, const void *w, const void *xz,
                                const void *wz, const aot_convinteger_params *p, int XT, int WT) {
    const int64_t plane = (int64_t)p->in[0] * p->in[1] * p->in[2];
    const int32_t group = p->ic / p->groups, results = p->oc / p->groups;
    const int64_t window = (int64_t)p->k[0] * p->k[1] * p->k[2] * group;
    const int32_t x_zero = xz != NULL ? aot_q_load(xz, 0, XT) : 0;
    int32_t n, oc, z, r, q;
    for (n = 0; n < p->n; ++n) {
        for (oc = 0; oc < p->oc; ++oc) {
            const int32_t w_zero = wz != NULL ? aot_q_load(wz, (int64_t)oc * p->w_step, WT) : 0;
            const int64_t xo = ((int64_t)n * p->ic + (int64_t)(oc / results) * group) * plane;
            for (z = 0; z < p->out[0]; ++z) {
                for (r = 0; r < p->out[1]; ++r) {
                    for (q = 0; q < p->out[2]; ++q) {
                        const int32_t at[3] = {z * p->s[0] - p->pad[0], r * p->s[1] - p->pad[1],
                                               q * p->s[2] - p->pad[2]};
                        *y++ = aot_convinteger_sum(x, w, xo, oc * window, at, x_zero, w_zero, p, XT,
                                                   WT);
                    }
                }
            }
        }
    }
}

#endif /* AOT_QDYNAMIC_H */
