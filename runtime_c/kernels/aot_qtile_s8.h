/* SPDX-License-Identifier: MIT-0 */
/* The heart of the portable int8 products: P pixels times O output channels in registers.
 *
 * w: one panel per O output channels, zero past the last channel; bias likewise padded. A panel is
 * [rows][run][O], or with PLANAR [rows][O][run].
 */
#ifndef AOT_QTILE_S8_H
#define AOT_QTILE_S8_H

#include <stddef.h>

#include "aot_qtile_s8_arm.h"
#include "aot_qtile_s8_riscv.h"
#include "aot_requant.h"

/* Cores with few registers: keeps the compiler from loading ahead, for want of registers it would
 * then spill sums. */
#if defined(__GNUC__) && (defined(__riscv) || (defined(__arm__) && !defined(__ARM_NEON)))
#define AOT_QFENCE() __asm__ volatile("" ::: "memory")
#else
#define AOT_QFENCE() ((void)0)
#endif

/* One k: s[i][j] += x[i][k] * w[k][j]; `next` bytes lie between the weights of two channels. */
AOT_INLINE void aot_qtile_s8_step(int32_t *s, const int8_t *const *q, const int8_t *w,
                                  ptrdiff_t next, int k, int P, int O) {
    int32_t v[AOT_QTILE_MAX];
    int i, j;
    AOT_UNROLL(16) for (i = 0; i < P; ++i) {
        v[i] = q[i][k];
    }
    AOT_UNROLL(16) for (j = 0; j < O; ++j) {
        const int32_t u = w[j * next];
        AOT_UNROLL(16) for (i = 0; i < P; ++i) {
            s[i * O + j] += v[i] * u;
        }
        AOT_QFENCE();
    }
}

/* The tile in the assembly of this core; 0 if it has none of this size. */
AOT_INLINE int aot_qtile_s8_assembly(aot_qtile_job *job, const int8_t *const *x, ptrdiff_t x_row,
                                     int32_t rows, int32_t run, const int8_t *w,
                                     const int32_t *bias, int P, int O, int PLANAR) {
    job->gap = (int32_t)x_row - run;
    job->rows = rows;
    job->p = x[0];
    job->w = w;
    job->bias = bias;
    job->fours = PLANAR ? run : (run & ~3) * O;
#if !AOT_QTILE_THUMB1
    job->q = x[P - 1];
    job->ones = (run & 3) * O;
#endif
#if AOT_QTILE_RISCV
    if (P == 2 && O == 8 && !PLANAR) {
        aot_qtile_s8_riscv(job, x[0], x[1], w, bias);
        return 1;
    }
#elif AOT_QTILE_THUMB2
    if (P == 2 && O == 4 && !PLANAR) {
        aot_qtile_s8_thumb2(job);
        return 1;
    }
#elif AOT_QTILE_THUMB1
    if (P == 1 && O == 4 && PLANAR) {
        aot_qtile_s8_thumb1(job);
        return 1;
    }
#endif
    return 0;
}

/* job->sum[P][O] = bias + rows of `run` products each; row a of pixel i is at x[i] + a * x_row. */
AOT_INLINE void aot_qtile_s8(aot_qtile_job *job, const int8_t *const *x, ptrdiff_t x_row,
                             int32_t rows, int32_t run, const int8_t *w, const int32_t *bias, int P,
                             int O, int PLANAR) {
    const ptrdiff_t next = PLANAR ? run : 1, step = PLANAR ? 1 : O;
    int32_t s[AOT_QTILE_MAX], k;
    ptrdiff_t at = 0;
    int i, j;
    if (aot_qtile_s8_assembly(job, x, x_row, rows, run, w, bias, P, O, PLANAR) != 0) {
        return;
    }
    AOT_UNROLL(16) for (j = 0; j < O; ++j) {
        AOT_UNROLL(16) for (i = 0; i < P; ++i) {
            s[i * O + j] = bias[j];
        }
    }
    for (; rows > 0; --rows, at += x_row, w += PLANAR ? (O - 1) * next : 0) {
        const int8_t *q[AOT_QTILE_MAX];
        AOT_UNROLL(16) for (i = 0; i < P; ++i) {
            q[i] = x[i] + at;
        }
        for (k = run; k >= 4; k -= 4, w += 4 * step) {
            aot_qtile_s8_step(s, q, w, next, 0, P, O);
            aot_qtile_s8_step(s, q, w + step, next, 1, P, O);
            aot_qtile_s8_step(s, q, w + 2 * step, next, 2, P, O);
            aot_qtile_s8_step(s, q, w + 3 * step, next, 3, P, O);
            AOT_UNROLL(16) for (i = 0; i < P; ++i) {
                q[i] += 4;
            }
        }
        for (; k > 0; --k, w += step) {
            aot_qtile_s8_step(s, q, w, next, 0, P, O);
            AOT_UNROLL(16) for (i = 0; i < P; ++i) {
                ++q[i];
            }
        }
    }
    AOT_UNROLL(16) for (i = 0; i < P * O; ++i) {
        job->sum[i] = s[i];
    }
}

/* Requantises sum[P][O] of P pixels and `channels` channels into y[i * pitch + channel]. RQ 3: y
 * stands for int32. */
AOT_INLINE void aot_qtile_s8_store(int8_t *y, ptrdiff_t pitch, const int32_t *sum,
                                   const int32_t *mult, const int8_t *shift, int channels,
                                   int32_t zero, int32_t lo, int32_t hi, int P, int O, int RQ,
                                   int PC) {
    int i, j;
    if (RQ == AOT_REQUANT_NONE) {
        int32_t *to = (int32_t *)(void *)y;
        for (j = 0; j < channels; ++j, ++to, ++sum) {
            AOT_UNROLL(16) for (i = 0; i < P; ++i) {
                to[i * pitch] = sum[i * O];
            }
        }
        return;
    }
    for (j = 0; j < channels; ++j, ++y, ++sum) {
        const int32_t m = mult[PC ? j : 0], s = RQ != 0 ? shift[PC ? j : 0] : 0;
        AOT_UNROLL(16) for (i = 0; i < P; ++i) {
            y[i * pitch] = (int8_t)aot_requant_value(sum[i * O], m, s, zero, lo, hi, RQ);
        }
    }
}

#endif /* AOT_QTILE_S8_H */
