/* SPDX-License-Identifier: MIT-0 */
/* Matrix product with constant weights of 4 bits, in blocks along k that share scale and zero.
 *
 * V = AOT_VLEN. y [m][n] = x [m][k] * w + bias, all row-major. The columns of w stand in groups of
 * o vectors (o = O, the last groups 2 or 1), and of each group, W = o * V: values [ceil(k/2)][W]
 * bytes, element t of a column in the low (t even) or high half of row t / 2; factors
 * [ceil(k/block)][2][W] floats, scale and zero: w = (q - zero) * scale. bias [ceil(n/V) * V].
 * `block` is even and divides `run`, the rows of w that are unpacked at a time; with vectors a
 * single row of x is multiplied by what registers unpack. Scratch: min(run, k
 * + 1) * min(O * V, ceil(n/V) * V) floats.
 */
#ifndef AOT_MATMUL_F32_Q4_H
#define AOT_MATMUL_F32_Q4_H

#include "aot_gemm_f32.h"
#if AOT_VLEN > 1
#include "aot_qvec.h"
#endif

typedef struct {
    int32_t m, n, k, block, run;
} aot_matmul_f32_q4_params;

/* Rows first..first+rows-1 of a group (first divisible by block) as floats [rows][width]. */
AOT_INLINE void aot_matmul_f32_q4_unpack(float *d, const uint8_t *values, const float *factors,
                                         int32_t first, int32_t rows, int32_t width,
                                         int32_t block) {
    const uint8_t *q = values + (ptrdiff_t)(first / 2) * width;
    int32_t t, c;
    for (t = 0; t < rows; t += 2, q += width) {
        const float *scale = factors + (ptrdiff_t)((first + t) / block) * 2 * width;
        const float *zero = scale + width;
        float *even = d + (ptrdiff_t)t * width, *odd = even + width;
        for (c = 0; c < width; ++c) {
            even[c] = ((float)(q[c] & 15) - zero[c]) * scale[c];
            odd[c] = ((float)(q[c] >> 4) - zero[c]) * scale[c];
        }
    }
}

#if AOT_VLEN > 1
/* The low four bits of every lane less 8; other bits do not count. */
AOT_INLINE aot_vf aot_matmul_f32_q4_numbers(aot_vi v) {
#if AOT_VLEN == 16 && defined(__AVX512F__)
    const __m512 all = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    return (aot_vf)_mm512_permutexvar_ps((__m512i)v, all);
#else
    return aot_vi2f((v & 15) - 8);
#endif
}

#define AOT_Q4_AHEAD 4096 /* bytes: what DRAM delivers while it takes to answer */
#define AOT_Q4_EACH(F) F(0) F(1) F(2) F(3)
#define AOT_Q4_TOTAL(j) aot_vf t##j = aot_vload(bias + ((j) < N ? (j)*AOT_VLEN : 0));
#define AOT_Q4_SUMS(j) aot_vf a##j = aot_vzero(), b##j = aot_vzero();
#define AOT_Q4_PAIR(j)                                                                             \
    if ((j) < N) {                                                                                 \
        const aot_vi v = aot_qvec_widen((const int8_t *)q + (j)*AOT_VLEN);                         \
        a##j += aot_matmul_f32_q4_numbers(v) * even;                                               \
        b##j += aot_matmul_f32_q4_numbers(v >> 4) * odd;                                           \
    }
#define AOT_Q4_SCALE(j)                                                                            \
    if ((j) < N) {                                                                                 \
        const aot_vf zero = aot_vload(factors + (j)*AOT_VLEN + width) - 8.0F;                      \
        t##j += ((a##j + b##j) - zero * all) * aot_vload(factors + (j)*AOT_VLEN);                  \
    }
#define AOT_Q4_STORE(j)                                                                            \
    if ((j) < N) {                                                                                 \
        aot_vstore(y + (j)*AOT_VLEN, t##j);                                                        \
    }

/* One row times N vectors (1 or 4) of a group of `width` columns, from registers to registers: the
 * same sums wherever a column stands. */
AOT_INLINE void aot_matmul_f32_q4_row(float *y, const float *x, const uint8_t *q,
                                      const float *factors, const float *bias,
                                      const aot_matmul_f32_q4_params *p, int32_t width, int N) {
    int32_t i = 0;
    AOT_Q4_EACH(AOT_Q4_TOTAL)
    for (; i < p->k; factors += (ptrdiff_t)2 * width) {
        const int32_t end = p->k - i < p->block ? p->k : i + p->block;
        aot_vf all = aot_vzero(), odds = aot_vzero();
        AOT_Q4_EACH(AOT_Q4_SUMS)
        for (; i < end; i += 2, q += width) {
            const aot_vf even = aot_vset1(x[i]), odd = aot_vset1(i + 1 < end ? x[i + 1] : 0.0F);
            AOT_PREFETCH(q + AOT_Q4_AHEAD);
            AOT_Q4_EACH(AOT_Q4_PAIR)
            all += even;
            odds += odd;
        }
        all += odds;
        AOT_Q4_EACH(AOT_Q4_SCALE)
    }
    AOT_Q4_EACH(AOT_Q4_STORE)
}

AOT_UNUSED AOT_NOINLINE static void aot_matmul_f32_q4_four(float *y, const float *x,
                                                           const uint8_t *q, const float *factors,
                                                           const float *bias,
                                                           const aot_matmul_f32_q4_params *p) {
    aot_matmul_f32_q4_row(y, x, q, factors, bias, p, 4 * AOT_VLEN, 4);
}

AOT_UNUSED AOT_NOINLINE static void
aot_matmul_f32_q4_one(float *y, const float *x, const uint8_t *q, const float *factors,
                      const float *bias, const aot_matmul_f32_q4_params *p, int32_t width) {
    aot_matmul_f32_q4_row(y, x, q, factors, bias, p, width, 1);
}

/* One row times a group of `width` columns, of which `cols` exist. */
AOT_INLINE void aot_matmul_f32_q4_group(float *y, const float *x, const uint8_t *q,
                                        const float *factors, const float *bias,
                                        const aot_matmul_f32_q4_params *p, int32_t width,
                                        int32_t cols) {
    float sums[4 * AOT_VLEN];
    int32_t i;
    if (width == 4 * AOT_VLEN) {
        aot_matmul_f32_q4_four(sums, x, q, factors, bias, p);
    } else {
        for (i = 0; i < width; i += AOT_VLEN) {
            aot_matmul_f32_q4_one(sums + i, x, q + i, factors + i, bias + i, p, width);
        }
    }
    (void)memcpy(y, sums, (size_t)cols * sizeof *y);
}
#endif

/* Instance: P, O the tile family (aot_tile_f32_run). */
AOT_INLINE void aot_matmul_f32_q4(float *y, const float *x, const uint8_t *values,
                                  const float *factors, const float *bias, void *scratch,
                                  const aot_matmul_f32_q4_params *p, int P, int O) {
    static const float zeros[4 * AOT_VLEN] = {0};
    const int32_t vecs = (p->n + AOT_VLEN - 1) / AOT_VLEN;
    const int32_t blocks = (p->k + p->block - 1) / p->block;
    float *panel = (float *)scratch;
    aot_gemm_f32_group_args g;
    aot_tile_f32_job j;
    int32_t b, o, t;
    (void)memset(&g, 0, sizeof g);
    g.x_row = p->k;
    g.y_row = p->n;
    g.m = p->m;
    for (b = 0; b < vecs; b += o) {
        const int32_t left = p->n - b * AOT_VLEN;
        int32_t width;
        o = aot_tile_f32_group(b, vecs, O);
        width = o * AOT_VLEN;
        g.y = y + b * AOT_VLEN;
        g.cols = left < width ? left : width;
#if AOT_VLEN > 1
        if (p->m == 1) {
            aot_matmul_f32_q4_group(g.y, x, values, factors, bias + b * AOT_VLEN, p, width, g.cols);
        }
#endif
        for (t = AOT_VLEN > 1 && p->m == 1 ? p->k : 0; t < p->k; t += p->run) {
            const int32_t rows = p->k - t < p->run ? p->k - t : p->run;
            aot_matmul_f32_q4_unpack(panel, values, factors, t, rows, width, p->block);
            aot_gemm_f32_job(&j, rows, AOT_ACT_NONE, 0.0F, 0.0F);
            j.x = x + t;
            j.w = panel;
            j.bias = t == 0 ? bias + b * AOT_VLEN : zeros;
            g.r = t == 0 ? NULL : g.y;
            aot_gemm_f32_group(&j, &g, NULL, o, P, O, 0);
        }
        values += (ptrdiff_t)((p->k + 1) / 2) * width;
        factors += (ptrdiff_t)blocks * 2 * width;
    }
}

#endif /* AOT_MATMUL_F32_Q4_H */
