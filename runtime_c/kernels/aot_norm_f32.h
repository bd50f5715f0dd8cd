/* SPDX-License-Identifier: MIT-0 */
/* Normalisations of float32 over contiguous lines: layer, RMS, group and instance, Lp, local
 * response; layer and RMS over channels of blocked tensors, too. Means and variances are computed
 * in two passes over a line. y may be x except in aot_lrn_f32. No scratch.
 */
#ifndef AOT_NORM_F32_H
#define AOT_NORM_F32_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "aot_reduce_f32.h"
#include "aot_vtranspose_f32.h"

/* Sum of (x - mean)^2 over n contiguous floats. */
AOT_INLINE float aot_norm_spread(const float *x, ptrdiff_t n, float mean) {
    const aot_vf m = aot_vset1(mean);
    aot_vf a = aot_vzero(), b = aot_vzero();
    ptrdiff_t i;
    for (i = 0; i + 2 * AOT_VLEN <= n; i += 2 * AOT_VLEN) {
        const aot_vf d = aot_vload(x + i) - m, e = aot_vload(x + i + AOT_VLEN) - m;
        a = a + d * d;
        b = b + e * e;
    }
    for (; i < n; i += AOT_VLEN) {
        const int lanes = n - i < AOT_VLEN ? (int)(n - i) : AOT_VLEN;
        const aot_vf d = aot_vload_n(x + i, lanes, mean) - m;
        a = a + d * d;
    }
    return aot_vsum(a + b);
}

/* y = (x - mean) * scale + shift over n contiguous floats. */
AOT_INLINE void aot_norm_line(float *y, const float *x, ptrdiff_t n, float mean, float scale,
                              float shift) {
    const aot_vf m = aot_vset1(mean), s = aot_vset1(scale), t = aot_vset1(shift);
    ptrdiff_t i;
    for (i = 0; i + AOT_VLEN <= n; i += AOT_VLEN) {
        aot_vstore(y + i, (aot_vload(x + i) - m) * s + t);
    }
    if (i < n) {
        const int rest = (int)(n - i);
        aot_vstore_n(y + i, (aot_vload_n(x + i, rest, mean) - m) * s + t, rest);
    }
}

/* Layer and RMS normalisation.
 * y, x: [rows, n]; scale, bias: [n], mean, invstd: [rows].
 * RMS: 1 divides by the root mean square, 0 by the standard deviation. BIAS, MEAN, INVSTD: 0 when
 * that pointer is not used. */
typedef struct aot_layernorm_f32_params {
    int64_t rows, n;
    float epsilon;
} aot_layernorm_f32_params;

AOT_INLINE void aot_layernorm_row(float *y, const float *x, const float *scale, const float *bias,
                                  ptrdiff_t n, float mean, float invstd, int BIAS) {
    const aot_vf m = aot_vset1(mean), s = aot_vset1(invstd);
    ptrdiff_t i;
    for (i = 0; i + AOT_VLEN <= n; i += AOT_VLEN) {
        aot_vf v = (aot_vload(x + i) - m) * s * aot_vload(scale + i);
        v = BIAS ? v + aot_vload(bias + i) : v;
        aot_vstore(y + i, v);
    }
    if (i < n) {
        const int rest = (int)(n - i);
        aot_vf v = (aot_vload_n(x + i, rest, mean) - m) * s * aot_vload_n(scale + i, rest, 0.0F);
        v = BIAS ? v + aot_vload_n(bias + i, rest, 0.0F) : v;
        aot_vstore_n(y + i, v, rest);
    }
}

AOT_INLINE void aot_layernorm_f32(float *y, float *mean, float *invstd, const float *x,
                                  const float *scale, const float *bias,
                                  const aot_layernorm_f32_params *p, int RMS, int BIAS, int MEAN,
                                  int INVSTD) {
    const ptrdiff_t n = (ptrdiff_t)p->n;
    const float count = (float)p->n;
    ptrdiff_t r;
    for (r = 0; r < (ptrdiff_t)p->rows; ++r, x += n, y += n) {
        const float m = RMS ? 0.0F : aot_reduce_sum_row(x, n, 0) / count;
        const float var = (RMS ? aot_reduce_sum_row(x, n, 2) : aot_norm_spread(x, n, m)) / count;
        const float inv = 1.0F / sqrtf(var + p->epsilon);
        if (MEAN != 0) {
            mean[r] = m;
        }
        if (INVSTD != 0) {
            invstd[r] = inv;
        }
        aot_layernorm_row(y, x, scale, bias, n, m, inv, BIAS);
    }
}

/* Layer and RMS normalisation over the channels of a blocked tensor, pixel by pixel.
 * y, x: [n, ceil(c / V), s, V], V = AOT_VLEN, `plane` floats from block to block, `batch` from
 * image to image; scale, bias: [ceil(c / V) * V], zero past c. Squares of V pixels are transposed,
 * so that a vector holds the sums of V pixels. RMS and BIAS as in aot_layernorm_f32. */
typedef struct aot_channelnorm_f32_params {
    int32_t n, c, s;
    int64_t plane, batch;
    float epsilon;
} aot_channelnorm_f32_params;

/* Block b of the channels of a pixel, less the mean; 0 past the last channel. */
AOT_INLINE aot_vf aot_channelnorm_load(const float *x, const aot_channelnorm_f32_params *p,
                                       int32_t b, float mean) {
    const aot_vf v = aot_vload(x + b * (ptrdiff_t)p->plane) - mean;
    float lane[AOT_VLEN];
    int i;
    if ((b + 1) * AOT_VLEN <= p->c) {
        return v;
    }
    for (i = 0; i < AOT_VLEN; ++i) {
        lane[i] = b * AOT_VLEN + i < p->c ? aot_vlane(v, i) : 0.0F;
    }
    return aot_vload(lane);
}

/* The sums over all channels of x - mean, or of its square, of `pixels` pixels, 1 or V. */
AOT_INLINE void aot_channelnorm_sums(float *sums, const float *x,
                                     const aot_channelnorm_f32_params *p, const float *mean,
                                     int pixels, int square) {
    aot_vf sum[AOT_VLEN];
    int32_t b;
    int i;
    AOT_UNROLL(16) for (i = 0; i < pixels; ++i) {
        sum[i] = aot_vzero();
    }
    for (b = 0; b * AOT_VLEN < p->c; ++b) {
        AOT_UNROLL(16) for (i = 0; i < pixels; ++i) {
            const aot_vf v = aot_channelnorm_load(x + i * AOT_VLEN, p, b, square ? mean[i] : 0.0F);
            sum[i] += square ? v * v : v;
        }
    }
    if (pixels == 1) {
        sums[0] = aot_vsum(sum[0]);
        return;
    }
    aot_vtranspose_f32_turn(sum);
    AOT_UNROLL(16) for (i = 1; i < AOT_VLEN; ++i) {
        sum[0] += sum[i];
    }
    aot_vstore(sums, sum[0]);
}

AOT_INLINE void aot_channelnorm_pixels(float *y, const float *x, const float *scale,
                                       const float *bias, const aot_channelnorm_f32_params *p,
                                       int pixels, int RMS, int BIAS) {
    float mean[AOT_VLEN] = {0}, inverse[AOT_VLEN];
    const float count = (float)p->c;
    int32_t b;
    int i;
    if (RMS == 0) {
        aot_channelnorm_sums(mean, x, p, mean, pixels, 0);
        for (i = 0; i < pixels; ++i) {
            mean[i] /= count;
        }
    }
    aot_channelnorm_sums(inverse, x, p, mean, pixels, 1);
    for (i = 0; i < pixels; ++i) {
        inverse[i] = 1.0F / sqrtf(inverse[i] / count + p->epsilon);
    }
    for (b = 0; b * AOT_VLEN < p->c; ++b) {
        const ptrdiff_t at = b * (ptrdiff_t)p->plane;
        const aot_vf s = aot_vload(scale + b * AOT_VLEN);
        const aot_vf t = BIAS ? aot_vload(bias + b * AOT_VLEN) : aot_vzero();
        for (i = 0; i < pixels; ++i) {
            const aot_vf v = (aot_vload(x + at + i * AOT_VLEN) - mean[i]) * inverse[i] * s;
            aot_vstore(y + at + i * AOT_VLEN, BIAS ? v + t : v);
        }
    }
}

AOT_INLINE void aot_channelnorm_f32(float *y, const float *x, const float *scale, const float *bias,
                                    const aot_channelnorm_f32_params *p, int RMS, int BIAS) {
    int32_t image, i;
    for (image = 0; image < p->n; ++image) {
        float *to = y + image * (ptrdiff_t)p->batch;
        const float *from = x + image * (ptrdiff_t)p->batch;
        for (i = 0; i + AOT_VLEN <= p->s; i += AOT_VLEN) {
            const ptrdiff_t at = (ptrdiff_t)i * AOT_VLEN;
            aot_channelnorm_pixels(to + at, from + at, scale, bias, p, AOT_VLEN, RMS, BIAS);
        }
        for (; i < p->s; ++i) {
            const ptrdiff_t at = (ptrdiff_t)i * AOT_VLEN;
            aot_channelnorm_pixels(to + at, from + at, scale, bias, p, 1, RMS, BIAS);
        }
    }
}

/* Group normalisation (instance normalisation: one channel per group).
 * y, x: [n, groups, channels, s]; scale, bias: [groups, channels]; statistics per group. */
typedef struct aot_groupnorm_f32_params {
    int64_t n, groups, channels, s;
    float epsilon;
} aot_groupnorm_f32_params;

AOT_INLINE void aot_groupnorm_f32(float *y, const float *x, const float *scale, const float *bias,
                                  const aot_groupnorm_f32_params *p) {
    const ptrdiff_t s = (ptrdiff_t)p->s, line = (ptrdiff_t)p->channels * s;
    ptrdiff_t i, g, c;
    for (i = 0; i < (ptrdiff_t)p->n; ++i) {
        for (g = 0; g < (ptrdiff_t)p->groups; ++g) {
            const float mean = aot_reduce_sum_row(x, line, 0) / (float)line;
            const float var = aot_norm_spread(x, line, mean) / (float)line;
            const float inv = 1.0F / sqrtf(var + p->epsilon);
            for (c = 0; c < (ptrdiff_t)p->channels; ++c, x += s, y += s) {
                const ptrdiff_t k = g * (ptrdiff_t)p->channels + c;
                aot_norm_line(y, x, s, mean, inv * scale[k], bias[k]);
            }
        }
    }
}

/* y = (x - mean) / (deviation + 1e-9), statistics per group over all n.
 * y, x: [n, groups, s]. */
typedef struct aot_mvn_f32_params {
    int64_t n, groups, s;
} aot_mvn_f32_params;

AOT_INLINE void aot_mvn_f32(float *y, const float *x, const aot_mvn_f32_params *p) {
    const ptrdiff_t s = (ptrdiff_t)p->s, step = (ptrdiff_t)p->groups * s, n = (ptrdiff_t)p->n;
    const float count = (float)p->n * (float)p->s;
    ptrdiff_t g, i;
    for (g = 0; g < (ptrdiff_t)p->groups; ++g, x += s, y += s) {
        float mean = 0.0F, spread = 0.0F;
        for (i = 0; i < n; ++i) {
            mean += aot_reduce_sum_row(x + i * step, s, 0);
        }
        mean /= count;
        for (i = 0; i < n; ++i) {
            spread += aot_norm_spread(x + i * step, s, mean);
        }
        spread = 1.0F / (sqrtf(spread / count) + 1e-9F);
        for (i = 0; i < n; ++i) {
            aot_norm_line(y + i * step, x + i * step, s, mean, spread, 0.0F);
        }
    }
}

/* y = x / |x|_P along an axis; a line whose norm is 0 gives 0.
 * y, x: [outer, axis, inner]. P: 1 or 2. */
typedef struct aot_lpnorm_f32_params {
    int64_t outer, axis, inner;
} aot_lpnorm_f32_params;

AOT_INLINE void aot_lpnorm_f32(float *y, const float *x, const aot_lpnorm_f32_params *p, int P) {
    const ptrdiff_t axis = (ptrdiff_t)p->axis, inner = (ptrdiff_t)p->inner;
    ptrdiff_t o, j, i;
    for (o = 0; o < (ptrdiff_t)p->outer; ++o, x += axis * inner, y += axis * inner) {
        for (j = 0; j < inner; ++j) {
            float sum = 0.0F;
            for (i = 0; i < axis; ++i) {
                const float v = x[i * inner + j];
                sum += P == 1 ? fabsf(v) : v * v;
            }
            sum = P == 1 ? sum : sqrtf(sum);
            for (i = 0; i < axis; ++i) {
                y[i * inner + j] = sum <= 0.0F ? 0.0F : x[i * inner + j] / sum; /* NaN stays */
            }
        }
    }
}

/* Local response normalisation: y = x / (bias + alpha * sum of squares of `size` channels)^beta.
 * y, x: [n, c, s]; the window of channel k is k - (size - 1) / 2 .. k + size / 2, cut at the ends.
 */
typedef struct aot_lrn_f32_params {
    int64_t n, c, s, size;
    float alpha, beta, bias; /* alpha already divided by size */
} aot_lrn_f32_params;

AOT_INLINE aot_vf aot_lrn_scale(aot_vf sum, const aot_lrn_f32_params *p) {
    return aot_vexp(aot_vlog(sum * p->alpha + p->bias) * -p->beta);
}

AOT_INLINE void aot_lrn_f32(float *y, const float *x, const aot_lrn_f32_params *p) {
    const ptrdiff_t s = (ptrdiff_t)p->s, channels = (ptrdiff_t)p->c;
    const ptrdiff_t before = ((ptrdiff_t)p->size - 1) / 2, after = (ptrdiff_t)p->size / 2;
    ptrdiff_t i, c, j, k;
    for (i = 0; i < (ptrdiff_t)p->n; ++i, x += channels * s, y += channels * s) {
        for (c = 0; c < channels; ++c) {
            const ptrdiff_t first = c > before ? c - before : 0;
            const ptrdiff_t last = c + after < channels ? c + after : channels - 1;
            for (j = 0; j < s; j += AOT_VLEN) {
                const int lanes = s - j < AOT_VLEN ? (int)(s - j) : AOT_VLEN;
                aot_vf sum = aot_vzero();
                for (k = first; k <= last; ++k) {
                    const aot_vf v = lanes == AOT_VLEN ? aot_vload(x + k * s + j)
                                                       : aot_vload_n(x + k * s + j, lanes, 0.0F);
                    sum = sum + v * v;
                }
                if (lanes == AOT_VLEN) {
                    aot_vstore(y + c * s + j, aot_vload(x + c * s + j) * aot_lrn_scale(sum, p));
                } else {
                    const aot_vf v = aot_vload_n(x + c * s + j, lanes, 0.0F);
                    aot_vstore_n(y + c * s + j, v * aot_lrn_scale(sum, p), lanes);
                }
            }
        }
    }
}

#endif /* AOT_NORM_F32_H */
