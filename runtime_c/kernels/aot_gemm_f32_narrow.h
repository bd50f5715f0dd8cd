/* SPDX-License-Identifier: MIT-0 */
/* Matrix product with constant weights that are narrower than float32: y = act(x * w + bias + r).
 *
 * V = AOT_VLEN. x [m][k], y and r [m][n], whose rows are y_row apart, all row-major. The columns of
 * w stand in groups of o vectors (o = O, the last groups 2 or 1), and each group, W = o * V
 * columns, in steps of 8, 4 or 2
 * rows, the last step filled up with zeros. A step has 32 bits per column. KIND says how:
 *
 * - S4: [W] words of 8 rows, rows 0..3 in the low and rows 4..7 in the high halves of the bytes
 * from the lowest one on; 0..15 stand for -8..7.
 *
 * - S8: [4][W] bytes with sign.
 *
 * - S8_WORDS: [W] words of 4 rows, the first one in the lowest byte.
 *
 * - F16: [2][W] float16.
 *
 * - BF16: [W] words of 2 rows, the first one in the low half.
 *
 * With FACTORS `block` rows of a column share a scale (FACTORS 1), or a scale and a zero (2):
 * factors [ceil(k/block)][FACTORS][W] floats, one group after the other; w = (q - zero) * scale.
 * Halves have none (FACTORS 0). bias [ceil(n/V) * V]. `block` is a multiple of 8 and divides `run`,
 * the rows of w that are widened at a time; with vectors a single row of x is multiplied by what
 * registers widen. Scratch: min(run, k + 7) * min(O * V, ceil(n/V) * V) floats, none for that row.
 * In place: y may be r.
 */
#ifndef AOT_GEMM_F32_NARROW_H
#define AOT_GEMM_F32_NARROW_H

#include "aot_cast.h"
#include "aot_gemm_f32.h"
#if AOT_VLEN > 1
#include "aot_qvec.h"
#endif

enum {
    AOT_NARROW_S4 = 0,
    AOT_NARROW_S8 = 1,
    AOT_NARROW_F16 = 2,
    AOT_NARROW_BF16 = 3,
    AOT_NARROW_S8_WORDS = 4
};

typedef struct {
    int32_t m, n, k, y_row, block, run;
    int32_t act;
    float alpha, beta;
} aot_gemm_f32_narrow_params;

#define AOT_NARROW_ROWS(KIND)                                                                      \
    ((KIND) == AOT_NARROW_S4 ? 8 : (KIND) == AOT_NARROW_S8 || (KIND) == AOT_NARROW_S8_WORDS ? 4 : 2)

/* V numbers of 16 bits at `p` as floats. */
AOT_INLINE aot_vf aot_narrow_f16(const uint8_t *p) {
#if AOT_VLEN == 16 && defined(__AVX512F__)
    return (aot_vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
#elif AOT_VLEN == 8 && defined(__F16C__)
    return (aot_vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
#elif AOT_VLEN == 4 && defined(__aarch64__)
    return (aot_vf)vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
#else
    uint16_t bits[AOT_VLEN];
    float lanes[AOT_VLEN];
    int i;
    (void)memcpy(bits, p, sizeof bits);
    for (i = 0; i < AOT_VLEN; ++i) {
        lanes[i] = aot_cast_from_f16(bits[i]);
    }
    return aot_vload(lanes);
#endif
}

/* The low four bits of every lane less 8; other bits do not count. */
AOT_INLINE aot_vf aot_narrow_s4(aot_vi v) {
#if AOT_VLEN == 16 && defined(__AVX512F__)
    const __m512 all = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    return (aot_vf)_mm512_permutexvar_ps((__m512i)v, all);
#else
    return aot_vi2f((v & 15) - 8);
#endif
}

/* V bytes with sign at `p` as floats. */
AOT_INLINE aot_vf aot_narrow_s8(const uint8_t *p) {
#if AOT_VLEN == 1
    return (float)(int8_t)*p;
#else
    return aot_vi2f(aot_qvec_widen((const int8_t *)p));
#endif
}

/* Byte t of every lane, with sign. */
AOT_INLINE aot_vf aot_narrow_byte(aot_vi v, int t) {
#if AOT_VLEN == 1
    return (float)(int8_t)((uint32_t)v >> 8 * t);
#else
    return aot_vi2f(v << (24 - 8 * t) >> 24);
#endif
}

/* The even and the odd one of two bfloat16 in every lane. */
AOT_INLINE aot_vf aot_narrow_bf16(aot_vi v, int odd) {
    const aot_vi high = aot_viset1(INT32_C(-65536));
#if AOT_VLEN == 1
    return aot_vfrombits(odd != 0 ? v & high : (int32_t)((uint32_t)v << 16));
#else
    return aot_vfrombits(odd != 0 ? v & high : v << 16);
#endif
}

/* Columns c..c+V-1 of row t of the step at w. */
AOT_INLINE aot_vf aot_narrow_vector(const uint8_t *w, ptrdiff_t c, int32_t width, int t, int KIND) {
    const ptrdiff_t at = t * (ptrdiff_t)width + c;
    aot_vi v;
    if (KIND == AOT_NARROW_S8) {
        return aot_narrow_s8(w + at);
    }
    if (KIND == AOT_NARROW_F16) {
        return aot_narrow_f16(w + 2 * at);
    }
    (void)memcpy(&v, w + 4 * c, sizeof v);
    if (KIND == AOT_NARROW_S4) {
        return aot_narrow_s4(v >> (8 * (t & 3) + t / 4 * 4));
    }
    return KIND == AOT_NARROW_S8_WORDS ? aot_narrow_byte(v, t) : aot_narrow_bf16(v, t);
}

/* Rows first..first+rows-1 of a group (first divisible by block) as floats [rows][width], and what
 * fills up the last step. */
AOT_INLINE void aot_narrow_widen(float *d, const uint8_t *w, const float *factors, int32_t first,
                                 int32_t rows, int32_t width, int32_t block, int KIND,
                                 int FACTORS) {
    const uint8_t *q = w + (ptrdiff_t)(first / AOT_NARROW_ROWS(KIND)) * 4 * width;
    int32_t i, t, c;
    for (i = 0; i < rows; i += AOT_NARROW_ROWS(KIND), q += (ptrdiff_t)4 * width) {
        const float *scale =
            FACTORS != 0 ? factors + (ptrdiff_t)((first + i) / block) * FACTORS * width : NULL;
        for (t = 0; t < AOT_NARROW_ROWS(KIND); ++t, d += width) {
            for (c = 0; c < width; c += AOT_VLEN) {
                aot_vf v = aot_narrow_vector(q, c, width, t, KIND);
                if (FACTORS == 2) {
                    v -= aot_vload(scale + width + c);
                }
                aot_vstore(d + c, FACTORS != 0 ? v * aot_vload(scale + c) : v);
            }
        }
    }
}

#if AOT_VLEN > 1
#define AOT_NARROW_EACH(F) F(0) F(1) F(2) F(3)
#define AOT_NARROW_TOTAL(j) aot_vf t##j = aot_vload(bias + ((j) < N ? (j)*AOT_VLEN : 0));
#define AOT_NARROW_SUMS(j) aot_vf a##j = aot_vzero(), b##j = aot_vzero();
#define AOT_NARROW_ADD(j)                                                                          \
    if ((j) < N) {                                                                                 \
        a##j += aot_narrow_vector(w, (j)*AOT_VLEN, width, row, KIND) * even;                       \
        b##j += aot_narrow_vector(w, (j)*AOT_VLEN, width, row + 1, KIND) * odd;                    \
    }
#define AOT_NARROW_PAIR(i)                                                                         \
    if (2 * (i) < AOT_NARROW_ROWS(KIND)) {                                                         \
        enum { row = 2 * (i) };                                                                    \
        const aot_vf even = aot_vset1(s[row]), odd = aot_vset1(s[row + 1]);                        \
        AOT_NARROW_ADD(0) AOT_NARROW_ADD(1) AOT_NARROW_ADD(2) AOT_NARROW_ADD(3) all += even;       \
        odds += odd;                                                                               \
    }
#define AOT_NARROW_SCALE(j)                                                                        \
    if ((j) < N) {                                                                                 \
        aot_vf s##j = a##j + b##j;                                                                 \
        if (FACTORS == 2) {                                                                        \
            s##j -= aot_vload(factors + (j)*AOT_VLEN + width) * all;                               \
        }                                                                                          \
        t##j += FACTORS != 0 ? s##j * aot_vload(factors + (j)*AOT_VLEN) : s##j;                    \
    }
#define AOT_NARROW_STORE(j)                                                                        \
    if ((j) < N) {                                                                                 \
        aot_vstore(y + (j)*AOT_VLEN, t##j);                                                        \
    }

/* One row times N vectors (1, 2 or 4) of a group of `width` columns, from registers to registers:
 * the same sums wherever a column stands. */
AOT_INLINE void aot_narrow_row(float *y, const float *x, const uint8_t *w, const float *factors,
                               const float *bias, const aot_gemm_f32_narrow_params *p,
                               int32_t width, int N, int KIND, int FACTORS) {
    int32_t i = 0, line;
    AOT_NARROW_EACH(AOT_NARROW_TOTAL)
    for (; i < p->k; factors = FACTORS != 0 ? factors + (ptrdiff_t)FACTORS * width : NULL) {
        const int32_t end = p->k - i < p->block ? p->k : i + p->block;
        aot_vf all = aot_vzero(), odds = aot_vzero();
        AOT_NARROW_EACH(AOT_NARROW_SUMS)
        for (; i < end; i += AOT_NARROW_ROWS(KIND), w += (ptrdiff_t)4 * width) {
            float last[8] = {0};
            const float *s = x + i;
            if (end - i < AOT_NARROW_ROWS(KIND)) {
                (void)memcpy(last, s, (size_t)(end - i) * sizeof *s);
                s = last;
            }
            for (line = 0; line < 4 * N * AOT_VLEN; line += 64) {
                AOT_PREFETCH_AHEAD(w, AOT_STREAM_AHEAD + line);
            }
            AOT_NARROW_EACH(AOT_NARROW_PAIR)
        }
        all += odds;
        AOT_NARROW_EACH(AOT_NARROW_SCALE)
    }
    AOT_NARROW_EACH(AOT_NARROW_STORE)
}

/* One row times a group of O vectors, or of `o` at the end. */
AOT_INLINE void aot_narrow_group(float *sums, const float *x, const uint8_t *w,
                                 const float *factors, const float *bias,
                                 const aot_gemm_f32_narrow_params *p, int32_t o, int O, int KIND,
                                 int FACTORS) {
    const ptrdiff_t step = KIND == AOT_NARROW_S8 ? 1 : KIND == AOT_NARROW_F16 ? 2 : 4;
    int32_t i;
    if (o == O) {
        aot_narrow_row(sums, x, w, factors, bias, p, O * AOT_VLEN, O, KIND, FACTORS);
        return;
    }
    for (i = 0; i < o * AOT_VLEN; i += AOT_VLEN) {
        aot_narrow_row(sums + i, x, w + i * step, FACTORS != 0 ? factors + i : NULL, bias + i, p,
                       o * AOT_VLEN, 1, KIND, FACTORS);
    }
}
#endif

/* What groups of columns have in common. */
AOT_INLINE void aot_narrow_groups(aot_gemm_f32_group_args *g, const aot_gemm_f32_narrow_params *p) {
    g->x_row = p->k;
    g->y_row = p->y_row;
    g->m = p->m;
    g->act = p->act;
    g->alpha = p->alpha;
    g->beta = p->beta;
}

/* The group of `o` vectors of columns that begins at vector b. */
AOT_INLINE void aot_narrow_columns(aot_gemm_f32_group_args *g, float *y, const float *r, int32_t n,
                                   int32_t b, int32_t o) {
    const int32_t left = n - b * AOT_VLEN, width = o * AOT_VLEN;
    g->y = y + b * AOT_VLEN;
    g->r = r != NULL ? r + b * AOT_VLEN : NULL;
    g->cols = left < width ? left : width;
}

/* Instance: P, O the tile family (aot_tile_f32_run); ACT 0 if act is NONE or CLAMP; KIND; FACTORS.
 */
AOT_INLINE void aot_gemm_f32_narrow(float *y, const float *x, const void *weights,
                                    const float *factors, const float *bias, const float *r,
                                    void *scratch, const aot_gemm_f32_narrow_params *p, int P,
                                    int O, int ACT, int KIND, int FACTORS) {
    static const float zeros[4 * AOT_VLEN] = {0};
    const int32_t vecs = (p->n + AOT_VLEN - 1) / AOT_VLEN;
    const int32_t blocks = (p->k + p->block - 1) / p->block;
    const uint8_t *w = (const uint8_t *)weights;
    float *panel = (float *)scratch;
    aot_gemm_f32_group_args g;
    aot_tile_f32_job j;
    int32_t b, o, t;
    aot_gemm_f32_job(&j, p->k, p->act, p->alpha, p->beta);
    aot_narrow_groups(&g, p);
    for (b = 0; b < vecs; b += o) {
        int32_t width;
        o = aot_tile_f32_group(b, vecs, O);
        width = o * AOT_VLEN;
        j.bias = bias + b * AOT_VLEN;
        aot_narrow_columns(&g, y, r, p->n, b, o);
#if AOT_VLEN > 1
        if (p->m == 1) {
            float sums[4 * AOT_VLEN];
            aot_narrow_group(sums, x, w, factors, j.bias, p, o, O, KIND, FACTORS);
            aot_gemv_f32_finish(sums, &j, &g, o, ACT);
        }
#endif
        for (t = AOT_VLEN > 1 && p->m == 1 ? p->k : 0; t < p->k; t += p->run) {
            const int32_t rows = p->k - t < p->run ? p->k - t : p->run;
            const int last = t + rows == p->k;
            aot_narrow_widen(panel, w, factors, t, rows, width, p->block, KIND, FACTORS);
            j.kc = rows;
            j.kblk = rows;
            j.x = x + t;
            j.w = panel;
            j.clamp = last && p->act == AOT_ACT_CLAMP;
            aot_gemm_f32_group(&j, &g, NULL, o, P, O, last ? ACT : 0, 0);
            j.bias = zeros;
            g.r = g.y; /* y holds the sums of the runs before */
        }
        w += (ptrdiff_t)((p->k - 1) / AOT_NARROW_ROWS(KIND) + 1) * 4 * width;
        factors = FACTORS != 0 ? factors + (ptrdiff_t)blocks * FACTORS * width : NULL;
    }
}

#endif /* AOT_GEMM_F32_NARROW_H */
