/* SPDX-License-Identifier: MIT-0 */
/* Scaled dot-product attention: y = softmax(softcap(scale * q * k^T) + bias) * v.
 *
 * q, y: [batch][kv_heads * group][sq][d or dv], k, v: [batch][kv_heads][skv][d or dv], each through
 * the strides (floats) of its first three axes, so that heads may be interleaved; the last axis is
 * contiguous. Query head h uses key head h / group.
 *
 * mask: element (b, h, i, j) at the sum of indices times mask_step; MASK 0 none, 1 bytes (0 forbids
 * a key), 2 floats (added). Keys from mask_cols on are forbidden. lens[batch], if not NULL, is the
 * number of keys that exist, of which the last belongs to the last query; query i else stands at
 * key i. A query sees keys left of its place up to `left`, right of it up to `right`; -1: all.
 *
 * ZERO: 1 if a query with no key gives zeros (as ONNX's Attention), 0 if NaN (as a Softmax does).
 * qk, in QK 1..4: [batch][heads][sq][skv] scores after the product, after softcap, with bias, after
 * softmax. P, O and P2, O2: tile families of q * k^T and of p * v (aot_tile_f32_run).
 *
 * HOW: 0 packs k and v of a head and computes `rows` queries together, for scratch of d * sv +
 * skv * dw + rows * (sv + 1) floats, sv and dw being the next multiples of AOT_VLEN of skv and dv;
 * 1 packs vectors of columns when they are needed for all sq queries of a head at once, for sq * sv
 * + AOT_VLEN * max(d * O, skv * O2); 2 takes one query after the other and k and v as they are, for
 * sv. With WORDS (aot_attention_f32__bf16.h) what is multiplied is rounded to words of two
 * bfloat16, so that `words` of n rows is (n + 1) / 2, not n, and rows of q take AOT_BF16_ROW(d)
 * floats each. y may be q if dv is d and their strides are the same.
 */
#ifndef AOT_ATTENTION_F32_H
#define AOT_ATTENTION_F32_H

#include <math.h>

#include "aot_bf16_pack.h"
#include "aot_matmul_f32.h"
#include "aot_vmath_f32.h"

typedef struct {
    int32_t batch, kv_heads, group, sq, skv, d, dv, rows;
    int32_t mask_cols, left, right;
    int64_t q_step[3], k_step[3], v_step[3], y_step[3], mask_step[4];
    float scale, softcap; /* softcap 0: none */
} aot_attention_f32_params;

/* One query head: its rows in memory, and where it stands in the mask. */
typedef struct {
    const float *q, *k, *v;
    float *y, *qk;
    const uint8_t *allowed;
    const float *bias;
    int64_t offset; /* of query 0 among the keys */
    int32_t keys;   /* that exist */
} aot_attention_f32_head;

AOT_INLINE int32_t aot_attention_f32_round(int32_t n) {
    return (n + AOT_VLEN - 1) / AOT_VLEN * AOT_VLEN;
}

/* Keys lo..hi-1 are those query i may see (hi <= lo: none). */
AOT_INLINE void aot_attention_f32_range(const aot_attention_f32_params *p, int64_t place,
                                        int32_t keys, int32_t *lo, int32_t *hi) {
    const int64_t first = p->left < 0 || place < p->left ? 0 : place - p->left;
    const int64_t end = p->right < 0 ? keys : place + p->right + 1;
    *lo = first < keys ? (int32_t)first : keys;
    *hi = end < 0 ? 0 : end < keys ? (int32_t)end : keys;
}

/* Rows of a panel for n summands. */
AOT_INLINE int32_t aot_attention_f32_words(int32_t n, int WORDS) {
    return WORDS != 0 ? (n + 1) / 2 : n;
}

/* A panel [d][o * V] of rows b * V... of k as columns, times scale; zero past the last key. */
AOT_INLINE void aot_attention_f32_pack_k(float *w, const float *k, int32_t b, int32_t o,
                                         const aot_attention_f32_params *p, int WORDS) {
    const int32_t first = b * AOT_VLEN, left = p->skv - first, width = o * AOT_VLEN;
    const int32_t cols = left < width ? left : width;
    const ptrdiff_t row = (ptrdiff_t)p->k_step[2];
#ifdef AOT_BF16_MADD
    if (WORDS != 0) {
        aot_bf16_pack_transposed(w, k + first * row, p->d, cols, width, row, p->scale);
        return;
    }
#endif
    (void)WORDS;
    aot_matmul_f32_pack(w, k + first * row, p->d, cols, width, 1, row, p->scale);
}

/* A panel of columns b * V... of v, `cols` of them, width floats wide; zero past the last one. */
AOT_INLINE void aot_attention_f32_pack_v(float *w, const float *v, int32_t b, int32_t cols,
                                         int32_t width, const aot_attention_f32_params *p,
                                         int WORDS) {
    int32_t t;
#ifdef AOT_BF16_MADD
    if (WORDS != 0) {
        aot_bf16_pack_rows(w, v + b * AOT_VLEN, p->skv, cols, width, (ptrdiff_t)p->v_step[2]);
        return;
    }
#endif
    (void)WORDS;
    for (t = 0; t < p->skv; ++t, w += width) {
        (void)memcpy(w, v + t * p->v_step[2] + b * AOT_VLEN, (size_t)cols * sizeof(float));
        if (cols < width) {
            (void)memset(w + cols, 0, (size_t)(width - cols) * sizeof(float));
        }
    }
}

/* Every panel of a head's keys (kw) and values (vw). */
AOT_INLINE void aot_attention_f32_pack(float *kw, float *vw, const float *k, const float *v,
                                       const aot_attention_f32_params *p, int O, int O2,
                                       int WORDS) {
    const int32_t keys = (p->skv + AOT_VLEN - 1) / AOT_VLEN;
    const int32_t out = (p->dv + AOT_VLEN - 1) / AOT_VLEN;
    const ptrdiff_t depth = aot_attention_f32_words(p->d, WORDS) * (ptrdiff_t)AOT_VLEN;
    const ptrdiff_t length = aot_attention_f32_words(p->skv, WORDS) * (ptrdiff_t)AOT_VLEN;
    int32_t b, o;
    for (b = 0; b < keys; b += o) {
        o = aot_tile_f32_group(b, keys, O);
        aot_attention_f32_pack_k(kw + b * depth, k, b, o, p, WORDS);
    }
    for (b = 0; b < out; b += o) {
        const int32_t left = p->dv - b * AOT_VLEN;
        o = aot_tile_f32_group(b, out, O2);
        aot_attention_f32_pack_v(vw + b * length, v, b, left < o * AOT_VLEN ? left : o * AOT_VLEN,
                                 o * AOT_VLEN, p, WORDS);
    }
}

/* Bias of keys lo..hi-1 of query i, added to s. */
AOT_INLINE void aot_attention_f32_mask(float *s, const aot_attention_f32_head *h,
                                       const aot_attention_f32_params *p, int32_t i, int32_t lo,
                                       int32_t hi, int MASK) {
    const ptrdiff_t at = i * (ptrdiff_t)p->mask_step[2], step = (ptrdiff_t)p->mask_step[3];
    int32_t j = lo;
    if (MASK == 1) {
        for (; j < hi; ++j) {
            s[j] = h->allowed[at + j * step] != 0 ? s[j] : -(float)INFINITY;
        }
        return;
    }
    if (step == 1) {
        for (; j + AOT_VLEN <= hi; j += AOT_VLEN) {
            aot_vstore(s + j, aot_vload(s + j) + aot_vload(h->bias + at + j));
        }
    }
    for (; j < hi; ++j) {
        s[j] += h->bias[at + j * step];
    }
}

/* Copies scores to the output qk of query i. */
AOT_INLINE void aot_attention_f32_show(const aot_attention_f32_head *h, const float *s,
                                       const aot_attention_f32_params *p, int32_t i, int QK,
                                       int now) {
    if (QK == now) {
        (void)memcpy(h->qk + (ptrdiff_t)i * p->skv, s, (size_t)p->skv * sizeof(float));
    }
}

/* Scores of query i, of which first..end-1 (whole vectors) are computed, to exponentials; returns
 * what is left to multiply them by. */
AOT_INLINE float aot_attention_f32_weigh(float *s, const aot_attention_f32_head *h,
                                         const aot_attention_f32_params *p, int32_t i,
                                         int32_t first, int32_t end, int HOW, int MASK, int ZERO,
                                         int QK) {
    aot_vf most = aot_vset1(-(float)INFINITY), sums = aot_vzero(), top;
    int32_t lo, hi, j;
    float peak, inverse;
    aot_attention_f32_range(p, i + h->offset, h->keys, &lo, &hi);
    aot_attention_f32_show(h, s, p, i, QK, 1);
    if (p->softcap > 0.0F) {
        const aot_vf cap = aot_vset1(p->softcap);
        for (j = first; j < end; j += AOT_VLEN) {
            aot_vstore(s + j, aot_vtanh(aot_vload(s + j) / cap) * cap);
        }
    }
    aot_attention_f32_show(h, s, p, i, QK, 2);
    if (MASK != 0 && lo < hi) {
        aot_attention_f32_mask(s, h, p, i, lo, hi, MASK);
    }
    for (j = first; j < lo && j < end; ++j) {
        s[j] = -(float)INFINITY;
    }
    for (j = hi > first ? hi : first; j < end; ++j) {
        s[j] = -(float)INFINITY;
    }
    aot_attention_f32_show(h, s, p, i, QK, 3);
    for (j = first; j < end; j += AOT_VLEN) {
        most = aot_vmax(aot_vload(s + j), most);
    }
    peak = aot_vhmax(most);
    if (ZERO != 0 && peak <= -(float)INFINITY) {
        j = first;
        while (j < end && s[j] <= -(float)INFINITY) {
            ++j;
        }
        if (j >= end) { /* else a score is NaN, and so is the result */
            (void)memset(s + first, 0, (size_t)(end - first) * sizeof(float));
            aot_attention_f32_show(h, s, p, i, QK, 4);
            return 0.0F;
        }
    }
    top = aot_vset1(peak);
    for (j = first; j < end; j += AOT_VLEN) {
        const aot_vf e = aot_vexp(aot_vload(s + j) - top);
        sums = sums + e;
        aot_vstore(s + j, e);
    }
    inverse = 1.0F / aot_vsum(sums);
    if (QK == 4 || HOW == 1) {
        for (j = first; j < end; j += AOT_VLEN) {
            aot_vstore(s + j, aot_vload(s + j) * inverse);
        }
        aot_attention_f32_show(h, s, p, i, QK, 4);
        inverse = 1.0F;
    }
    return inverse;
}

/* y[n] *= s */
AOT_INLINE void aot_attention_f32_scale(float *y, int32_t n, float s) {
    int32_t j = 0;
    for (; j + AOT_VLEN <= n; j += AOT_VLEN) {
        aot_vstore(y + j, aot_vload(y + j) * s);
    }
    for (; j < n; ++j) {
        y[j] *= s;
    }
}

/* Vectors first..end-1 of keys that some of the queries i..i+n-1 see (all if QK). */
AOT_INLINE void aot_attention_f32_span(const aot_attention_f32_params *p,
                                       const aot_attention_f32_head *h, int32_t i, int32_t n,
                                       int QK, int32_t *first, int32_t *end) {
    int32_t lo, hi, ignored;
    aot_attention_f32_range(p, i + h->offset, h->keys, &lo, &ignored);
    aot_attention_f32_range(p, i + n - 1 + h->offset, h->keys, &ignored, &hi);
    *first = QK != 0 ? 0 : lo / AOT_VLEN * AOT_VLEN;
    *end = aot_attention_f32_round(QK != 0 ? p->skv : hi);
}

/* Points the tiles at n rows of queries or weights, and rounds these to words in `rows`, which may
 * be where they are, if WORDS. */
AOT_INLINE void aot_attention_f32_left(aot_tile_f32_job *j, aot_gemm_f32_group_args *g, float *rows,
                                       ptrdiff_t step, const float *x, ptrdiff_t row, int32_t n,
                                       int32_t k, int WORDS) {
    static const float zeros[4 * AOT_VLEN] = {0};
    aot_gemm_f32_job(j, aot_attention_f32_words(k, WORDS), AOT_ACT_NONE, 0.0F, 0.0F);
    j->bias = zeros;
    j->x = x;
    g->x_row = row;
    g->m = n;
#ifdef AOT_BF16_MADD
    if (WORDS != 0) {
        int32_t i;
        for (i = 0; i < n; ++i) {
            aot_bf16_row(rows + i * step, x + i * row, k);
        }
        j->x = rows;
        g->x_row = step;
    }
#endif
    (void)rows;
    (void)step;
}

/* Queries i..i+n-1 of one head. kw, vw: packed keys and values, in HOW 1 room for a panel; s: rows
 * [n][sv]; qw: room for the queries as words. */
AOT_INLINE void aot_attention_f32_block(const aot_attention_f32_head *h, float *kw, float *vw,
                                        float *s, float *inverse, float *qw,
                                        const aot_attention_f32_params *p, int32_t i, int32_t n,
                                        int P, int O, int P2, int O2, int HOW, int MASK, int ZERO,
                                        int QK, int WORDS) {
    const int32_t sv = aot_attention_f32_round(p->skv), vecs = sv / AOT_VLEN;
    const int32_t out = (p->dv + AOT_VLEN - 1) / AOT_VLEN;
    const ptrdiff_t depth = aot_attention_f32_words(p->d, WORDS) * (ptrdiff_t)AOT_VLEN;
    const ptrdiff_t length = aot_attention_f32_words(p->skv, WORDS) * (ptrdiff_t)AOT_VLEN;
    const ptrdiff_t y_row = (ptrdiff_t)p->y_step[2];
    float *y = h->y + i * y_row;
    aot_gemm_f32_group_args g;
    aot_tile_f32_job j;
    int32_t first, end, b, o, t;
    aot_attention_f32_span(p, h, i, n, QK, &first, &end);
    first -= WORDS != 0 ? first % 2 : 0; /* whole words, where a vector is a number */
    if (first >= end) {
        for (t = 0; t < n; ++t) {
            (void)memset(y + t * y_row, 0, (size_t)p->dv * sizeof(float));
        }
        return;
    }
    (void)memset(&g, 0, sizeof g);
    aot_attention_f32_left(&j, &g, qw, AOT_BF16_ROW(p->d), h->q + i * (ptrdiff_t)p->q_step[2],
                           (ptrdiff_t)p->q_step[2], n, p->d, WORDS);
    g.y_row = sv;
    for (b = 0; b < vecs; b += o) {
        o = aot_tile_f32_group(b, vecs, O);
        if ((b + o) * AOT_VLEN > first && b * AOT_VLEN < end) {
            j.w = HOW == 1 ? kw : kw + b * depth;
            if (HOW == 1) {
                aot_attention_f32_pack_k(kw, h->k, b, o, p, WORDS);
            }
            g.y = s + b * AOT_VLEN;
            g.cols = o * AOT_VLEN;
            aot_gemm_f32_group(&j, &g, NULL, o, P, O, 0, 2 * WORDS);
        }
    }
    for (t = 0; t < n; ++t) {
        const float left = aot_attention_f32_weigh(s + (ptrdiff_t)t * sv, h, p, i + t, first, end,
                                                   HOW, MASK, ZERO, QK);
        if (HOW == 0) {
            inverse[t] = left;
        }
    }
    end = end < p->skv ? end : p->skv;
    aot_attention_f32_left(&j, &g, s + first, sv, s + first, sv, n, end - first, WORDS);
    g.y_row = y_row;
    for (b = 0; b < out; b += o) {
        const int32_t left = p->dv - b * AOT_VLEN;
        o = aot_tile_f32_group(b, out, O2);
        g.y = y + b * AOT_VLEN;
        g.cols = left < o * AOT_VLEN ? left : o * AOT_VLEN;
        if (HOW == 1) {
            aot_attention_f32_pack_v(vw, h->v, b, g.cols, o * AOT_VLEN, p, WORDS);
        }
        j.w = vw + (HOW == 1 ? 0 : b * length) +
              aot_attention_f32_words(first, WORDS) * (ptrdiff_t)o * AOT_VLEN;
        aot_gemm_f32_group(&j, &g, NULL, o, P2, O2, 0, 2 * WORDS);
    }
    for (t = 0; HOW == 0 && t < n; ++t) {
        aot_attention_f32_scale(y + t * y_row, p->dv, inverse[t]);
    }
}

/* sum of a[i] * b[i] */
AOT_INLINE float aot_attention_f32_dot(const float *a, const float *b, int32_t n) {
    aot_vf x = aot_vzero(), z = aot_vzero();
    int32_t i = 0;
    float tail = 0.0F;
    for (; i + 2 * AOT_VLEN <= n; i += 2 * AOT_VLEN) {
        x += aot_vload(a + i) * aot_vload(b + i);
        z += aot_vload(a + i + AOT_VLEN) * aot_vload(b + i + AOT_VLEN);
    }
    for (; i + AOT_VLEN <= n; i += AOT_VLEN) {
        x += aot_vload(a + i) * aot_vload(b + i);
    }
    for (; i < n; ++i) {
        tail += a[i] * b[i];
    }
    return aot_vsum(x + z) + tail;
}

/* y[n] = sum over t of s[t] * v[t][n], times scale; rows of v `row` floats apart. */
AOT_INLINE void aot_attention_f32_mix(float *y, const float *s, const float *v, ptrdiff_t row,
                                      int32_t rows, int32_t n, float scale) {
    int32_t i = 0, t;
    for (; i + 4 * AOT_VLEN <= n; i += 4 * AOT_VLEN) {
        aot_vf a = aot_vzero(), b = aot_vzero(), c = aot_vzero(), d = aot_vzero();
        for (t = 0; t < rows; ++t) {
            const float *x = v + t * row + i;
            a += aot_vload(x) * s[t];
            b += aot_vload(x + AOT_VLEN) * s[t];
            c += aot_vload(x + 2 * AOT_VLEN) * s[t];
            d += aot_vload(x + 3 * AOT_VLEN) * s[t];
        }
        aot_vstore(y + i, a * scale);
        aot_vstore(y + i + AOT_VLEN, b * scale);
        aot_vstore(y + i + 2 * AOT_VLEN, c * scale);
        aot_vstore(y + i + 3 * AOT_VLEN, d * scale);
    }
    for (; i + AOT_VLEN <= n; i += AOT_VLEN) {
        aot_vf a = aot_vzero();
        for (t = 0; t < rows; ++t) {
            a += aot_vload(v + t * row + i) * s[t];
        }
        aot_vstore(y + i, a * scale);
    }
    for (; i < n; ++i) {
        float a = 0.0F;
        for (t = 0; t < rows; ++t) {
            a += v[t * row + i] * s[t];
        }
        y[i] = a * scale;
    }
}

/* One query of a head straight from k and v. */
AOT_INLINE void aot_attention_f32_query(const aot_attention_f32_head *h, float *s,
                                        const aot_attention_f32_params *p, int32_t i, int MASK,
                                        int ZERO, int QK) {
    const float *q = h->q + i * (ptrdiff_t)p->q_step[2];
    const ptrdiff_t k_row = (ptrdiff_t)p->k_step[2], v_row = (ptrdiff_t)p->v_step[2];
    float *y = h->y + i * (ptrdiff_t)p->y_step[2];
    int32_t first, end, all, j;
    float inverse;
    aot_attention_f32_span(p, h, i, 1, QK, &first, &end);
    if (first >= end) {
        (void)memset(y, 0, (size_t)p->dv * sizeof(float));
        return;
    }
    all = end < p->skv ? end : p->skv;
    for (j = first; j < all; ++j) {
        s[j] = aot_attention_f32_dot(q, h->k + j * k_row, p->d) * p->scale;
    }
    for (; j < end; ++j) {
        s[j] = 0.0F;
    }
    inverse = aot_attention_f32_weigh(s, h, p, i, first, end, 2, MASK, ZERO, QK);
    aot_attention_f32_mix(y, s + first, h->v + first * v_row, v_row, all - first, p->dv, inverse);
}

/* Head `head` of batch `b`. */
AOT_INLINE void aot_attention_f32_at(aot_attention_f32_head *h, float *y, float *qk, const float *q,
                                     const void *mask, const int64_t *lens,
                                     const aot_attention_f32_params *p, int32_t b, int32_t head,
                                     int MASK) {
    const int64_t heads = (int64_t)p->kv_heads * p->group;
    const ptrdiff_t at = (ptrdiff_t)(b * p->mask_step[0] + head * p->mask_step[1]);
    int64_t keys = p->mask_cols;
    h->q = q + (b * p->q_step[0] + head * p->q_step[1]);
    h->y = y + (b * p->y_step[0] + head * p->y_step[1]);
    h->qk = qk != NULL ? qk + (b * heads + head) * p->sq * p->skv : NULL;
    h->allowed = MASK == 1 ? (const uint8_t *)mask + at : NULL;
    h->bias = MASK == 2 ? (const float *)mask + at : NULL;
    h->offset = 0;
    if (lens != NULL) {
        const int64_t given = lens[b] < 0 ? 0 : lens[b];
        h->offset = lens[b] < -(INT64_C(1) << 40) ? -(INT64_C(1) << 40) : lens[b];
        h->offset = (h->offset > INT64_C(1) << 40 ? INT64_C(1) << 40 : h->offset) - p->sq;
        keys = given < keys ? given : keys;
    }
    h->keys = (int32_t)keys;
}

AOT_INLINE void aot_attention_f32_run(float *y, float *qk, const float *q, const float *k,
                                      const float *v, const void *mask, const int64_t *lens,
                                      void *scratch, const aot_attention_f32_params *p, int P,
                                      int O, int P2, int O2, int HOW, int MASK, int ZERO, int QK,
                                      int WORDS) {
    const int32_t sv = aot_attention_f32_round(p->skv);
    float *s = (float *)scratch, *inverse = s + (ptrdiff_t)p->rows * sv;
    float *qw = HOW == 0 ? inverse + p->rows : inverse;
    float *kw = WORDS != 0 ? qw + p->rows * (ptrdiff_t)AOT_BF16_ROW(p->d) : qw;
    float *vw = HOW == 0 ? kw + (ptrdiff_t)aot_attention_f32_words(p->d, WORDS) * sv : kw;
    aot_attention_f32_head h;
    int32_t b, n, g, i;
    for (b = 0; b < p->batch; ++b) {
        for (n = 0; n < p->kv_heads; ++n) {
            h.k = k + (b * p->k_step[0] + n * p->k_step[1]);
            h.v = v + (b * p->v_step[0] + n * p->v_step[1]);
            if (HOW == 0) {
                aot_attention_f32_pack(kw, vw, h.k, h.v, p, O, O2, WORDS);
            }
            for (g = 0; g < p->group; ++g) {
                aot_attention_f32_at(&h, y, qk, q, mask, lens, p, b, n * p->group + g, MASK);
                for (i = 0; i < p->sq; i += p->rows) {
                    const int32_t left = p->sq - i;
                    if (HOW == 2) {
                        aot_attention_f32_query(&h, s, p, i, MASK, ZERO, QK);
                    } else {
                        aot_attention_f32_block(&h, kw, vw, s, inverse, qw, p, i,
                                                left < p->rows ? left : p->rows, P, O, P2, O2, HOW,
                                                MASK, ZERO, QK, WORDS);
                    }
                }
            }
        }
    }
}

AOT_INLINE void aot_attention_f32(float *y, float *qk, const float *q, const float *k,
                                  const float *v, const void *mask, const int64_t *lens,
                                  void *scratch, const aot_attention_f32_params *p, int P, int O,
                                  int P2, int O2, int HOW, int MASK, int ZERO, int QK) {
    aot_attention_f32_run(y, qk, q, k, v, mask, lens, scratch, p, P, O, P2, O2, HOW, MASK, ZERO, QK,
                          0);
}

#endif /* AOT_ATTENTION_F32_H */
