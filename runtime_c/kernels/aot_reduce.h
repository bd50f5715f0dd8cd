/* SPDX-License-Identifier: MIT-0 */
/* Reductions along one axis for every number type but float32, and for all of them: the position of
 * the largest or smallest element, running sums.
 *
 * x: [outer, axis, inner], y: [outer, inner] ([outer, axis, inner] for cumsum), row-major.
 * aot_reduce_<sum|prod|max|min>_<type>(y, x, p, MAP, FINISH): as aot_reduce_f32.h says; integers
 * wrap, and are divided and rooted towards zero.
 * No scratch; y may not overlap x.
 */
#ifndef AOT_REDUCE_H
#define AOT_REDUCE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/port.h"

typedef struct aot_reduce_params {
    int64_t outer, axis, inner;
    int64_t count; /* elements behind one result over all steps */
} aot_reduce_params;

#define AOT_REDUCE(NAME, SHORT, T, START, COMBINE, MAPPED, FINISHED)                               \
    typedef aot_reduce_params aot_reduce_##NAME##_##SHORT##_params;                                \
    AOT_INLINE T aot_reduce_##NAME##_##SHORT##_of(T a, T x, int MAP) {                             \
        const T b = (T)(MAPPED);                                                                   \
        (void)MAP;                                                                                 \
        return (T)(COMBINE);                                                                       \
    }                                                                                              \
    AOT_INLINE T aot_reduce_##NAME##_##SHORT##_end(T a, T count, int FINISH) {                     \
        (void)count;                                                                               \
        (void)FINISH;                                                                              \
        return (T)(FINISHED);                                                                      \
    }                                                                                              \
    AOT_INLINE void aot_reduce_##NAME##_##SHORT(T *y, const T *x, const aot_reduce_params *p,      \
                                                int MAP, int FINISH) {                             \
        const ptrdiff_t axis = (ptrdiff_t)p->axis, inner = (ptrdiff_t)p->inner;                    \
        ptrdiff_t o, i, j;                                                                         \
        for (o = 0; o < (ptrdiff_t)p->outer; ++o, y += inner) {                                    \
            for (j = 0; j < inner; ++j) {                                                          \
                y[j] = START;                                                                      \
            }                                                                                      \
            for (i = 0; i < axis; ++i, x += inner) {                                               \
                for (j = 0; j < inner; ++j) {                                                      \
                    y[j] = aot_reduce_##NAME##_##SHORT##_of(y[j], x[j], MAP);                      \
                }                                                                                  \
            }                                                                                      \
            for (j = 0; j < inner; ++j) {                                                          \
                y[j] = aot_reduce_##NAME##_##SHORT##_end(y[j], (T)p->count, FINISH);               \
            }                                                                                      \
        }                                                                                          \
    }

#define AOT_REDUCE_INT(SHORT, T, LOW, HIGH, MAGNITUDE)                                             \
    AOT_REDUCE(max, SHORT, T, LOW, a > b ? a : b, x, a)                                            \
    AOT_REDUCE(min, SHORT, T, HIGH, a < b ? a : b, x, a)                                           \
    AOT_REDUCE(prod, SHORT, T, 1, (uint64_t)a *(uint64_t)b, x, a)                                  \
    AOT_REDUCE(sum, SHORT, T, 0, (uint64_t)a + (uint64_t)b,                                        \
               MAP == 0   ? (uint64_t)x                                                            \
               : MAP == 1 ? (uint64_t)(MAGNITUDE)                                                  \
                          : (uint64_t)x * (uint64_t)x,                                             \
               FINISH == 1   ? (count == 0 ? 0 : a / count)                                        \
               : FINISH == 2 ? (T)sqrt((double)a)                                                  \
                             : a)

AOT_REDUCE_INT(s8, int8_t, INT8_MIN, INT8_MAX, x < 0 ? 0U - (uint64_t)x : (uint64_t)x)
AOT_REDUCE_INT(s16, int16_t, INT16_MIN, INT16_MAX, x < 0 ? 0U - (uint64_t)x : (uint64_t)x)
AOT_REDUCE_INT(s32, int32_t, INT32_MIN, INT32_MAX, x < 0 ? 0U - (uint64_t)x : (uint64_t)x)
AOT_REDUCE_INT(s64, int64_t, INT64_MIN, INT64_MAX, x < 0 ? 0U - (uint64_t)x : (uint64_t)x)
AOT_REDUCE_INT(u8, uint8_t, 0, UINT8_MAX, x)
AOT_REDUCE_INT(u16, uint16_t, 0, UINT16_MAX, x)
AOT_REDUCE_INT(u32, uint32_t, 0, UINT32_MAX, x)
AOT_REDUCE_INT(u64, uint64_t, 0, UINT64_MAX, x)

/* Logarithms of float64 are the C library's. */
#define AOT_REDUCE_F64_END                                                                         \
    FINISH == 1 ? a / count : FINISH == 2 ? sqrt(a) : FINISH == 3 ? log(a) : a
#define AOT_REDUCE_F64_MAP MAP == 1 ? fabs(x) : MAP == 2 ? x *x : x
AOT_REDUCE(sum, f64, double, 0.0, a + b, AOT_REDUCE_F64_MAP, AOT_REDUCE_F64_END)
AOT_REDUCE(prod, f64, double, 1.0, a *b, AOT_REDUCE_F64_MAP, AOT_REDUCE_F64_END)
AOT_REDUCE(max, f64, double, -(double)INFINITY, a > b || isnan(a) ? a : b, AOT_REDUCE_F64_MAP,
           AOT_REDUCE_F64_END)
AOT_REDUCE(min, f64, double, (double)INFINITY, a < b || isnan(a) ? a : b, AOT_REDUCE_F64_MAP,
           AOT_REDUCE_F64_END)

AOT_REDUCE(max, b8, uint8_t, 0, a | b, x != 0, a)
AOT_REDUCE(min, b8, uint8_t, 1, a &b, x != 0, a)

/* y = log(sum(exp(x))) of float64, by way of the maximum. */
typedef aot_reduce_params aot_reduce_logsumexp_f64_params;

AOT_INLINE void aot_reduce_logsumexp_f64(double *y, const double *x, const aot_reduce_params *p) {
    const ptrdiff_t axis = (ptrdiff_t)p->axis, inner = (ptrdiff_t)p->inner;
    ptrdiff_t o, j, i;
    for (o = 0; o < (ptrdiff_t)p->outer; ++o, x += axis * inner, y += inner) {
        for (j = 0; j < inner; ++j) {
            double top = -(double)INFINITY, sum = 0.0;
            for (i = 0; i < axis; ++i) {
                top = x[i * inner + j] > top ? x[i * inner + j] : top;
            }
            top = fabs(top) < (double)INFINITY ? top : 0.0;
            for (i = 0; i < axis; ++i) {
                sum += exp(x[i * inner + j] - top);
            }
            y[j] = log(sum) + top;
        }
    }
}

/* Index along the axis of the largest (MIN 0) or smallest (MIN 1) element; of equal ones the first
 * (LAST 0) or last (LAST 1); NaN beats every number. An empty axis gives 0. */
#define AOT_ARG(SHORT, T, IS_NAN)                                                                  \
    typedef aot_reduce_params aot_arg_##SHORT##_params;                                            \
    AOT_INLINE int aot_arg_##SHORT##_beats(T v, T best, int MIN, int LAST) {                       \
        if (IS_NAN(v) || IS_NAN(best)) {                                                           \
            return IS_NAN(v) && (LAST || !IS_NAN(best));                                           \
        }                                                                                          \
        if (MIN) {                                                                                 \
            return LAST ? v <= best : v < best;                                                    \
        }                                                                                          \
        return LAST ? v >= best : v > best;                                                        \
    }                                                                                              \
    AOT_INLINE void aot_arg_##SHORT(int64_t *y, const T *x, const aot_reduce_params *p, int MIN,   \
                                    int LAST) {                                                    \
        const ptrdiff_t axis = (ptrdiff_t)p->axis, inner = (ptrdiff_t)p->inner;                    \
        ptrdiff_t o, i, j;                                                                         \
        for (o = 0; o < (ptrdiff_t)p->outer; ++o, x += axis * inner, y += inner) {                 \
            for (j = 0; j < inner; ++j) {                                                          \
                y[j] = 0;                                                                          \
            }                                                                                      \
            for (i = 1; i < axis; ++i) {                                                           \
                for (j = 0; j < inner; ++j) {                                                      \
                    const T best = x[(ptrdiff_t)y[j] * inner + j];                                 \
                    if (aot_arg_##SHORT##_beats(x[i * inner + j], best, MIN, LAST)) {              \
                        y[j] = i;                                                                  \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* 1 at the first largest element along the axis, 0 elsewhere. y: like x, may not be x. */
#define AOT_HARDMAX(SHORT, T)                                                                      \
    typedef aot_reduce_params aot_hardmax_##SHORT##_params;                                        \
    AOT_INLINE void aot_hardmax_##SHORT(T *y, const T *x, const aot_reduce_params *p) {            \
        const ptrdiff_t axis = (ptrdiff_t)p->axis, inner = (ptrdiff_t)p->inner;                    \
        ptrdiff_t o, i, j;                                                                         \
        for (o = 0; o < (ptrdiff_t)p->outer; ++o, x += axis * inner, y += axis * inner) {          \
            for (j = 0; j < inner; ++j) {                                                          \
                ptrdiff_t best = 0;                                                                \
                for (i = 0; i < axis; ++i) {                                                       \
                    y[i * inner + j] = 0;                                                          \
                    best = aot_arg_##SHORT##_beats(x[i * inner + j], x[best * inner + j], 0, 0)    \
                               ? i                                                                 \
                               : best;                                                             \
                }                                                                                  \
                if (axis > 0) {                                                                    \
                    y[best * inner + j] = 1;                                                       \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define AOT_ARG_NEVER(v) 0
AOT_ARG(s8, int8_t, AOT_ARG_NEVER)
AOT_ARG(s16, int16_t, AOT_ARG_NEVER)
AOT_ARG(s32, int32_t, AOT_ARG_NEVER)
AOT_ARG(s64, int64_t, AOT_ARG_NEVER)
AOT_ARG(u8, uint8_t, AOT_ARG_NEVER)
AOT_ARG(u16, uint16_t, AOT_ARG_NEVER)
AOT_ARG(u32, uint32_t, AOT_ARG_NEVER)
AOT_ARG(u64, uint64_t, AOT_ARG_NEVER)
AOT_ARG(f32, float, isnan)
AOT_ARG(f64, double, isnan)
AOT_HARDMAX(f32, float)
AOT_HARDMAX(f64, double)

/* Running sums and products along the axis. EXCLUSIVE: an element's own value does not count;
 * REVERSE: from the end. float32 is accumulated in double, integers wrap. y may be x. */
#define AOT_RUNNING(NAME, SHORT, T, TU, START, OP)                                                 \
    typedef aot_reduce_params aot_##NAME##_##SHORT##_params;                                       \
    AOT_INLINE void aot_##NAME##_##SHORT(T *y, const T *x, const aot_reduce_params *p,             \
                                         int EXCLUSIVE, int REVERSE) {                             \
        const ptrdiff_t axis = (ptrdiff_t)p->axis, inner = (ptrdiff_t)p->inner;                    \
        const ptrdiff_t step = REVERSE ? -inner : inner;                                           \
        ptrdiff_t o, i, j;                                                                         \
        for (o = 0; o < (ptrdiff_t)p->outer; ++o) {                                                \
            for (j = 0; j < inner; ++j) {                                                          \
                ptrdiff_t at = o * axis * inner + j + (REVERSE ? (axis - 1) * inner : 0);          \
                TU sum = START;                                                                    \
                for (i = 0; i < axis; ++i, at += step) {                                           \
                    const TU v = (TU)x[at];                                                        \
                    y[at] = (T)(EXCLUSIVE ? sum : sum OP v);                                       \
                    sum = sum OP v;                                                                \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
#define AOT_CUMSUM(SHORT, T, TU)                                                                   \
    AOT_RUNNING(cumsum, SHORT, T, TU, 0, +)                                                        \
    AOT_RUNNING(cumprod, SHORT, T, TU, 1, *)
AOT_CUMSUM(f32, float, double)
AOT_CUMSUM(f64, double, double)
AOT_CUMSUM(s32, int32_t, uint32_t)
AOT_CUMSUM(s64, int64_t, uint64_t)
AOT_CUMSUM(u32, uint32_t, uint32_t)
AOT_CUMSUM(u64, uint64_t, uint64_t)

#endif /* AOT_REDUCE_H */
