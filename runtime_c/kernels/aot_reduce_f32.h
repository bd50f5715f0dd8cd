/* SPDX-License-Identifier: MIT-0 */
/* Reductions of float32 along one axis: aot_reduce_<name>_f32(y, x, p, MAP, FINISH).
 *
 * x: [outer, axis, inner], y: [outer, inner], row-major. In a blocked tensor the spatial axes are
 * one axis and the lanes are `inner`.
 * MAP: 0 x, 1 |x|, 2 x * x. FINISH: 0 as it is, 1 divided by p->count, 2 square root, 3 logarithm.
 * An empty axis gives the identity (0, 1, -inf, inf). NaN anywhere gives NaN.
 * Sums are formed in blocks (64 terms to a partial sum), so their error grows with n / 64.
 * No scratch; y may not overlap x.
 */
#ifndef AOT_REDUCE_F32_H
#define AOT_REDUCE_F32_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "aot_vmath_f32.h"

typedef struct aot_reduce_f32_params {
    int64_t outer, axis, inner;
    float count; /* elements behind one result over all steps */
} aot_reduce_f32_params;

#define AOT_REDUCE_BLOCK 64

AOT_INLINE aot_vf aot_reduce_map(aot_vf x, int MAP) {
    return MAP == 1 ? aot_vabs(x) : MAP == 2 ? x * x : x;
}

AOT_INLINE float aot_reduce_finish(float v, float count, int FINISH) {
    return FINISH == 1 ? v / count : FINISH == 2 ? sqrtf(v) : FINISH == 3 ? aot_slog(v) : v;
}

AOT_INLINE aot_vf aot_reduce_sum_of(aot_vf a, aot_vf b) {
    return a + b;
}
AOT_INLINE aot_vf aot_reduce_prod_of(aot_vf a, aot_vf b) {
    return a * b;
}
AOT_INLINE aot_vf aot_reduce_max_of(aot_vf a, aot_vf b) {
    return aot_vmaximum(a, b);
}
AOT_INLINE aot_vf aot_reduce_min_of(aot_vf a, aot_vf b) {
    return aot_vminimum(a, b);
}
AOT_INLINE float aot_reduce_sum_of1(float a, float b) {
    return a + b;
}
AOT_INLINE float aot_reduce_prod_of1(float a, float b) {
    return a * b;
}
/* A NaN in either operand stays, as in the vectors. */
AOT_INLINE float aot_reduce_max_of1(float a, float b) {
    return a > b || isnan(a) ? a : b;
}
AOT_INLINE float aot_reduce_min_of1(float a, float b) {
    return a < b || isnan(a) ? a : b;
}

#define AOT_REDUCE_F32(NAME, START)                                                                \
    typedef aot_reduce_f32_params aot_reduce_##NAME##_f32_params;                                  \
    /* V columns, n rows `step` floats apart; only the first `lanes` columns are read. */          \
    AOT_INLINE aot_vf aot_reduce_##NAME##_cols(const float *x, ptrdiff_t n, ptrdiff_t step,        \
                                               int lanes, int MAP) {                               \
        const aot_vf start = aot_vset1(START);                                                     \
        aot_vf total = start;                                                                      \
        ptrdiff_t i = 0, j;                                                                        \
        if (lanes < AOT_VLEN) {                                                                    \
            while (i < n) {                                                                        \
                aot_vf a = start;                                                                  \
                for (j = 0; j < AOT_REDUCE_BLOCK && i < n; ++j, ++i) {                             \
                    const aot_vf v = aot_vload_n(x + i * step, lanes, 1.0F);                       \
                    a = aot_reduce_##NAME##_of(a, aot_reduce_map(v, MAP));                         \
                }                                                                                  \
                total = aot_reduce_##NAME##_of(total, a);                                          \
            }                                                                                      \
            return total;                                                                          \
        }                                                                                          \
        while (n - i >= 4) {                                                                       \
            aot_vf a = start, b = start, c = start, d = start;                                     \
            for (j = 0; j < AOT_REDUCE_BLOCK && n - i >= 4; j += 4, i += 4) {                      \
                const float *r = x + i * step;                                                     \
                a = aot_reduce_##NAME##_of(a, aot_reduce_map(aot_vload(r), MAP));                  \
                b = aot_reduce_##NAME##_of(b, aot_reduce_map(aot_vload(r + step), MAP));           \
                c = aot_reduce_##NAME##_of(c, aot_reduce_map(aot_vload(r + 2 * step), MAP));       \
                d = aot_reduce_##NAME##_of(d, aot_reduce_map(aot_vload(r + 3 * step), MAP));       \
            }                                                                                      \
            a = aot_reduce_##NAME##_of(aot_reduce_##NAME##_of(a, b),                               \
                                       aot_reduce_##NAME##_of(c, d));                              \
            total = aot_reduce_##NAME##_of(total, a);                                              \
        }                                                                                          \
        /* Up to three rows are left; gcc warns of a loop whose end it does not see. */            \
        for (j = n % 4; j > 0; --j) {                                                              \
            total = aot_reduce_##NAME##_of(total, aot_reduce_map(aot_vload(x + i * step), MAP));   \
            ++i;                                                                                   \
        }                                                                                          \
        return total;                                                                              \
    }                                                                                              \
    /* n contiguous floats to one. */                                                              \
    AOT_INLINE float aot_reduce_##NAME##_row(const float *x, ptrdiff_t n, int MAP) {               \
        const ptrdiff_t whole = n / AOT_VLEN;                                                      \
        const int rest = (int)(n - whole * AOT_VLEN);                                              \
        float lane[AOT_VLEN], total = START;                                                       \
        int i;                                                                                     \
        aot_vstore(lane, aot_reduce_##NAME##_cols(x, whole, AOT_VLEN, AOT_VLEN, MAP));             \
        if (whole > 0) {                                                                           \
            for (i = 0; i < AOT_VLEN; ++i) {                                                       \
                total = aot_reduce_##NAME##_of1(total, lane[i]);                                   \
            }                                                                                      \
        }                                                                                          \
        aot_vstore(lane, aot_reduce_map(aot_vload_n(x + whole * AOT_VLEN, rest, 0.0F), MAP));      \
        for (i = 0; i < rest; ++i) {                                                               \
            total = aot_reduce_##NAME##_of1(total, lane[i]);                                       \
        }                                                                                          \
        return total;                                                                              \
    }                                                                                              \
    AOT_INLINE void aot_reduce_##NAME##_f32(float *y, const float *x,                              \
                                            const aot_reduce_f32_params *p, int MAP, int FINISH) { \
        const ptrdiff_t axis = (ptrdiff_t)p->axis, inner = (ptrdiff_t)p->inner;                    \
        ptrdiff_t o, j;                                                                            \
        int k;                                                                                     \
        for (o = 0; o < (ptrdiff_t)p->outer; ++o, x += axis * inner, y += inner) {                 \
            if (inner == 1) {                                                                      \
                const float v = aot_reduce_##NAME##_row(x, axis, MAP);                             \
                *y = aot_reduce_finish(v, p->count, FINISH);                                       \
                continue;                                                                          \
            }                                                                                      \
            for (j = 0; j < inner; j += AOT_VLEN) {                                                \
                const int lanes = inner - j < AOT_VLEN ? (int)(inner - j) : AOT_VLEN;              \
                float lane[AOT_VLEN];                                                              \
                aot_vstore(lane, aot_reduce_##NAME##_cols(x + j, axis, inner, lanes, MAP));        \
                for (k = 0; k < lanes; ++k) {                                                      \
                    y[j + k] = aot_reduce_finish(lane[k], p->count, FINISH);                       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

AOT_REDUCE_F32(sum, 0.0F)
AOT_REDUCE_F32(prod, 1.0F)
AOT_REDUCE_F32(max, -(float)INFINITY)
AOT_REDUCE_F32(min, (float)INFINITY)

/* y = log(sum(exp(x))) along the axis, by way of the maximum: no overflow. */
typedef aot_reduce_f32_params aot_reduce_logsumexp_f32_params;

AOT_INLINE void aot_reduce_logsumexp_f32(float *y, const float *x, const aot_reduce_f32_params *p) {
    const ptrdiff_t axis = (ptrdiff_t)p->axis, inner = (ptrdiff_t)p->inner;
    ptrdiff_t o, j, i;
    for (o = 0; o < (ptrdiff_t)p->outer; ++o, x += axis * inner, y += inner) {
        for (j = 0; j < inner; j += AOT_VLEN) {
            const int lanes = inner - j < AOT_VLEN ? (int)(inner - j) : AOT_VLEN;
            const aot_vf top = aot_reduce_max_cols(x + j, axis, inner, lanes, 0);
            const aot_vi finite = aot_vlt(aot_vabs(top), aot_vset1((float)INFINITY));
            const aot_vf shift = aot_vselect(finite, top, aot_vzero());
            aot_vf sum = aot_vzero();
            for (i = 0; i < axis; ++i) {
                sum = sum + aot_vexp(aot_vload_n(x + i * inner + j, lanes, 0.0F) - shift);
            }
            aot_vstore_n(y + j, aot_vlog(sum) + shift, lanes);
        }
    }
}

#endif /* AOT_REDUCE_F32_H */
