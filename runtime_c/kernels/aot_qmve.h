/* SPDX-License-Identifier: MIT-0 */
/* What the int8 kernels for Arm's vector extension (MVE, Helium) share: the product of one or two
 * rows of quantised values with every output channel.
 *
 * Weights w: [ceil(oc / 4)][chunks][4][16], zeros where there is no channel or no quantised value;
 * a row of quantised values holds 16 * chunks of them. The sums of four channels by two rows are
 * eight core registers that VMLADAVA adds 16 products to; they are requantised four at a time.
 *
 * Without MVE (or, for float arithmetic, without its floating-point half), and where the compiler
 * does not optimise and keeps too many registers, the same is computed in plain C from the same
 * weights, so that packing and addresses can be tested anywhere.
 */
#ifndef AOT_QMVE_H
#define AOT_QMVE_H

#include <stddef.h>

#include "aot_requant.h"

#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__) && defined(__OPTIMIZE__)
#define AOT_QMVE 1
#if (__ARM_FEATURE_MVE & 2) != 0
#define AOT_QMVE_FLOAT 1
#else
#define AOT_QMVE_FLOAT 0
#endif
#else
#define AOT_QMVE 0
#define AOT_QMVE_FLOAT 0
#endif

/* Whether RQ is computed in vectors. */
#define AOT_QMVE_VECTOR(RQ) (AOT_QMVE && (((RQ) == 0 && AOT_QMVE_FLOAT) || (RQ) == 2))

/* One product. The order of the members is that of the registers they are loaded to: do not
 * change it. y0 is the result of row x0; the pointers may move on. */
typedef struct {
    const int32_t *mult;
    const int8_t *shift;
    int8_t *y0, *y1;
    const int32_t *bias;
    int32_t chunks;
    const int8_t *w_end;
    const int8_t *x0, *x1;
    const int8_t *w;
    int32_t zero, lo, hi;
} aot_qmve_job;

/* -- Plain C ------------------------------------------------------------------------------------
 */

AOT_INLINE int32_t aot_qmve_sum(const int8_t *x, const int8_t *w, int32_t chunks) {
    int32_t k, i, sum = 0;
    for (k = 0; k < chunks; ++k, x += 16, w += 64) {
        for (i = 0; i < 16; ++i) {
            sum += x[i] * w[i];
        }
    }
    return sum;
}

/* The quantised value of one sum, its channel's four being at `c`. */
AOT_INLINE int8_t aot_qmve_code(const aot_qmve_job *j, int32_t sum, int32_t c, int RQ, int PC) {
    const int32_t at = PC ? c : 0;
    return (int8_t)aot_requant_value(j->bias[c] + sum, j->mult[at], RQ == 0 ? 0 : j->shift[at],
                                     j->zero, j->lo + j->zero, j->hi + j->zero, RQ);
}

AOT_INLINE void aot_qmve_plain(const aot_qmve_job *j, int RQ, int PC, int ROWS) {
    const int8_t *w = j->w;
    int32_t c, i;
    for (c = 0; w != j->w_end; c += 4, w += (ptrdiff_t)j->chunks * 64) {
        for (i = c; i < c + 4; ++i) {
            const int8_t *const from = w + (i - c) * 16;
            j->y0[i] = aot_qmve_code(j, aot_qmve_sum(j->x0, from, j->chunks), i, RQ, PC);
            if (ROWS == 2) {
                j->y1[i] = aot_qmve_code(j, aot_qmve_sum(j->x1, from, j->chunks), i, RQ, PC);
            }
        }
    }
}

#if AOT_QMVE

#include <arm_mve.h>

/* -- Copies -------------------------------------------------------------------------------------
 */

/* n > 0 bytes; d may be before s and overlap it. */
AOT_INLINE void aot_qmve_copy(int8_t *d, const int8_t *s, int32_t n) {
    __asm__ volatile("dlstp.8 lr, %[n]\n"
                     "1: vldrb.u8 q0, [%[s]], #16\n"
                     "vstrb.8 q0, [%[d]], #16\n"
                     "letp lr, 1b\n"
                     : [d] "+r"(d), [s] "+r"(s)
                     : [n] "r"(n)
                     : "q0", "lr", "cc", "memory");
}

/* The largest of n > 0 bytes. */
AOT_INLINE int32_t aot_qmve_most(const int8_t *s, int32_t n) {
    int32_t most = -128;
    __asm__ volatile("dlstp.8 lr, %[n]\n"
                     "1: vldrb.u8 q0, [%[s]], #16\n"
                     "vmaxv.s8 %[most], q0\n"
                     "letp lr, 1b\n"
                     : [s] "+r"(s), [most] "+r"(most)
                     : [n] "r"(n)
                     : "q0", "lr", "cc", "memory");
    return most;
}

/* `rows` > 0 rows of n > 0 bytes, `step` bytes apart in s, to d one after the other; threes is
 * n / 48 if that is whole, else 0. */
AOT_INLINE void aot_qmve_copy_rows(int8_t *d, const int8_t *s, int32_t n, int32_t step,
                                   int32_t rows, int32_t threes) {
    if (n <= 16) {
        __asm__ volatile("vctp.8 %[n]\n"
                         "dls lr, %[rows]\n"
                         "1: vpstt\n"
                         "vldrbt.u8 q0, [%[s]]\n"
                         "vstrbt.8 q0, [%[d]]\n"
                         "add %[s], %[s], %[step]\n"
                         "add %[d], %[d], %[n]\n"
                         "le lr, 1b\n"
                         : [d] "+r"(d), [s] "+r"(s)
                         : [n] "r"(n), [step] "r"(step), [rows] "r"(rows)
                         : "q0", "lr", "cc", "memory");
        return;
    }
    do {
        int8_t *to = d;
        const int8_t *from = s;
        if (threes != 0) {
            __asm__ volatile("dls lr, %[threes]\n"
                             "1: vldrb.u8 q0, [%[s]], #16\n"
                             "vldrb.u8 q1, [%[s]], #16\n"
                             "vldrb.u8 q2, [%[s]], #16\n"
                             "vstrb.8 q0, [%[d]], #16\n"
                             "vstrb.8 q1, [%[d]], #16\n"
                             "vstrb.8 q2, [%[d]], #16\n"
                             "le lr, 1b\n"
                             : [d] "+r"(to), [s] "+r"(from)
                             : [threes] "r"(threes)
                             : "q0", "q1", "q2", "lr", "cc", "memory");
        } else {
            __asm__ volatile("dlstp.8 lr, %[n]\n"
                             "1: vldrb.u8 q0, [%[s]], #16\n"
                             "vstrb.8 q0, [%[d]], #16\n"
                             "letp lr, 1b\n"
                             : [d] "+r"(to), [s] "+r"(from)
                             : [n] "r"(n)
                             : "q0", "lr", "cc", "memory");
        }
        d += n;
        s += step;
    } while (--rows != 0);
}

AOT_INLINE void aot_qmve_fill(int8_t *d, int32_t value, int32_t n) {
    __asm__ volatile("vdup.8 q0, %[v]\n"
                     "dlstp.8 lr, %[n]\n"
                     "1: vstrb.8 q0, [%[d]], #16\n"
                     "letp lr, 1b\n"
                     : [d] "+r"(d)
                     : [v] "r"(value), [n] "r"(n)
                     : "q0", "lr", "cc", "memory");
}

/* -- Two rows -------------------------------------------------------------------------------------
 *
 * r1 x0, r3 x1, r5 w, r9 chunks left; sums: r0 r2 r4 r6 of row 0, r8 r10 r12 lr of row 1;
 * q0 q1 quantised values, then sums; q2 weights; q5 zero, q6 lo, q7 hi. VMLADAV wants even
 * registers.
 */
#define AOT_QMVE_MAC2(op)                                                                          \
    "vldrb.u8 q0, [r1], #16\n"                                                                     \
    "vldrb.u8 q2, [r5], #64\n"                                                                     \
    "vldrb.u8 q1, [r3], #16\n" op ".s8 r0, q0, q2\n" op ".s8 r8, q1, q2\n"                         \
    "vldrb.u8 q2, [r5, #-48]\n" op ".s8 r2, q0, q2\n" op ".s8 r10, q1, q2\n"                       \
    "vldrb.u8 q2, [r5, #-32]\n" op ".s8 r4, q0, q2\n" op ".s8 r12, q1, q2\n"                       \
    "vldrb.u8 q2, [r5, #-16]\n" op ".s8 r6, q0, q2\n" op ".s8 lr, q1, q2\n"

#define AOT_QMVE_MAC1(op)                                                                          \
    "vldrb.u8 q0, [r1], #16\n"                                                                     \
    "vldrb.u8 q2, [r5], #64\n" op ".s8 r0, q0, q2\n"                                               \
    "vldrb.u8 q2, [r5, #-48]\n" op ".s8 r2, q0, q2\n"                                              \
    "vldrb.u8 q2, [r5, #-32]\n" op ".s8 r4, q0, q2\n"                                              \
    "vldrb.u8 q2, [r5, #-16]\n" op ".s8 r6, q0, q2\n"

/* The first chunk, pairs of chunks, and one more if their number is even. */
#define AOT_QMVE_SUMS(mac)                                                                         \
    "ldrd r1, r3, [%[j], #28]\n"                                                                   \
    "ldr r9, [%[j], #20]\n"                                                                        \
    "1:\n" mac("vmladav") "subs r9, r9, #3\n"                                                      \
                          "blt 3f\n"                                                               \
                          "2:\n" mac("vmladava") mac("vmladava") "subs r9, r9, #2\n"               \
                                                                 "bge 2b\n"                        \
                                                                 "3: tst r9, #1\n"                 \
                                                                 "beq 4f\n" mac("vmladava") "4:\n"

/* Bias, and the pointers: r0 mult, r2 shift, r4 y0, r6 y1, r8 bias, r9 chunks, r10 end of w. */
#define AOT_QMVE_BIAS2                                                                             \
    "vmov q0[2], q0[0], r0, r4\n"                                                                  \
    "vmov q0[3], q0[1], r2, r6\n"                                                                  \
    "vmov q1[2], q1[0], r8, r12\n"                                                                 \
    "vmov q1[3], q1[1], r10, lr\n"                                                                 \
    "ldm %[j], {r0, r2, r4, r6, r8, r9, r10}\n"                                                    \
    "vldrw.u32 q2, [r8], #16\n"                                                                    \
    "vadd.i32 q0, q0, q2\n"                                                                        \
    "vadd.i32 q1, q1, q2\n"
#define AOT_QMVE_BIAS1                                                                             \
    "vmov q0[2], q0[0], r0, r4\n"                                                                  \
    "vmov q0[3], q0[1], r2, r6\n"                                                                  \
    "ldm %[j], {r0, r2, r4, r6, r8, r9, r10}\n"                                                    \
    "vldrw.u32 q2, [r8], #16\n"                                                                    \
    "vadd.i32 q0, q0, q2\n"

/* Halves go away from zero: a negative number is made smaller by one before. */
#define AOT_QMVE_FIX(q)                                                                            \
    "vshr.s32 q3, " q ", #31\n"                                                                    \
    "vadd.i32 " q ", " q ", q3\n"
#define AOT_QMVE_LOAD(reg, step) "vldrw.u32 q2, [" reg "]" step "\n"
#define AOT_QMVE_SHIFTS(step) "vldrb.s32 q2, [r2]" step "\n"

#define AOT_QMVE_FLOAT2(m, s)                                                                      \
    AOT_QMVE_LOAD("r0", m)                                                                         \
    "vcvt.f32.s32 q0, q0\n"                                                                        \
    "vcvt.f32.s32 q1, q1\n"                                                                        \
    "vmul.f32 q0, q0, q2\n"                                                                        \
    "vmul.f32 q1, q1, q2\n"                                                                        \
    "vcvtn.s32.f32 q0, q0\n"                                                                       \
    "vcvtn.s32.f32 q1, q1\n"
#define AOT_QMVE_FLOAT1(m, s)                                                                      \
    AOT_QMVE_LOAD("r0", m)                                                                         \
    "vcvt.f32.s32 q0, q0\n"                                                                        \
    "vmul.f32 q0, q0, q2\n"                                                                        \
    "vcvtn.s32.f32 q0, q0\n"
#define AOT_QMVE_FIXED2_(m, s, f0, f1)                                                             \
    AOT_QMVE_LOAD("r0", m)                                                                         \
    "vqrdmulh.s32 q0, q0, q2\n"                                                                    \
    "vqrdmulh.s32 q1, q1, q2\n" AOT_QMVE_SHIFTS(s) f0 f1 "vrshl.s32 q0, q0, q2\n"                  \
                                                         "vrshl.s32 q1, q1, q2\n"
#define AOT_QMVE_FIXED1_(m, s, f0)                                                                 \
    AOT_QMVE_LOAD("r0", m)                                                                         \
    "vqrdmulh.s32 q0, q0, q2\n" AOT_QMVE_SHIFTS(s) f0 "vrshl.s32 q0, q0, q2\n"
#define AOT_QMVE_FIXED2(m, s) AOT_QMVE_FIXED2_(m, s, AOT_QMVE_FIX("q0"), AOT_QMVE_FIX("q1"))
#define AOT_QMVE_RELU2(m, s) AOT_QMVE_FIXED2_(m, s, "", "")
#define AOT_QMVE_FIXED1(m, s) AOT_QMVE_FIXED1_(m, s, AOT_QMVE_FIX("q0"))
#define AOT_QMVE_RELU1(m, s) AOT_QMVE_FIXED1_(m, s, "")

/* Any shift: those to the left come first, and only those to the right round. q3 shifts; q2 what is
 * to the left, then multipliers. */
#define AOT_QMVE_LEFT(s)                                                                           \
    "vldrb.s32 q3, [r2]" s "\n"                                                                    \
    "vmov.i32 q4, #0\n"                                                                            \
    "vmax.s32 q2, q3, q4\n"                                                                        \
    "vmin.s32 q3, q3, q4\n"
#define AOT_QMVE_RIGHT(q)                                                                          \
    "vand q4, " q ", q3\n"                                                                         \
    "vshr.s32 q4, q4, #31\n"                                                                       \
    "vadd.i32 " q ", " q ", q4\n"                                                                  \
    "vrshl.s32 " q ", " q ", q3\n"
#define AOT_QMVE_ANY2(m, s)                                                                        \
    AOT_QMVE_LEFT(s)                                                                               \
    "vqshl.s32 q0, q0, q2\n"                                                                       \
    "vqshl.s32 q1, q1, q2\n" AOT_QMVE_LOAD("r0", m) "vqrdmulh.s32 q0, q0, q2\n"                    \
                                                    "vqrdmulh.s32 q1, q1, q2\n" AOT_QMVE_RIGHT(    \
                                                        "q0") AOT_QMVE_RIGHT("q1")
#define AOT_QMVE_ANY1(m, s)                                                                        \
    AOT_QMVE_LEFT(s)                                                                               \
    "vqshl.s32 q0, q0, q2\n" AOT_QMVE_LOAD("r0",                                                   \
                                           m) "vqrdmulh.s32 q0, q0, q2\n" AOT_QMVE_RIGHT("q"       \
                                                                                         "0")

/* Zero point, bounds, store; the next four channels. */
#define AOT_QMVE_STORE2                                                                            \
    "vmax.s32 q0, q0, q6\n"                                                                        \
    "vmax.s32 q1, q1, q6\n"                                                                        \
    "vmin.s32 q0, q0, q7\n"                                                                        \
    "vmin.s32 q1, q1, q7\n"                                                                        \
    "vadd.i32 q0, q0, q5\n"                                                                        \
    "vadd.i32 q1, q1, q5\n"                                                                        \
    "vstrb.32 q0, [r4], #4\n"                                                                      \
    "vstrb.32 q1, [r6], #4\n"                                                                      \
    "stm %[j], {r0, r2, r4, r6, r8}\n"                                                             \
    "ldrd r1, r3, [%[j], #28]\n"                                                                   \
    "cmp r5, r10\n"                                                                                \
    "bne 1b\n"
#define AOT_QMVE_STORE1                                                                            \
    "vmax.s32 q0, q0, q6\n"                                                                        \
    "vmin.s32 q0, q0, q7\n"                                                                        \
    "vadd.i32 q0, q0, q5\n"                                                                        \
    "vstrb.32 q0, [r4], #4\n"                                                                      \
    "stm %[j], {r0, r2, r4, r6, r8}\n"                                                             \
    "ldr r1, [%[j], #28]\n"                                                                        \
    "cmp r5, r10\n"                                                                                \
    "bne 1b\n"

#define AOT_QMVE_RUN(rows, requant, m, s)                                                          \
    __asm__ volatile("ldrd r0, r2, [%[j], #40]\n"                                                  \
                     "ldr r4, [%[j], #48]\n"                                                       \
                     "ldr r5, [%[j], #36]\n"                                                       \
                     "vdup.32 q5, r0\n"                                                            \
                     "vdup.32 q6, r2\n"                                                            \
                     "vdup.32 q7, r4\n" AOT_QMVE_SUMS(AOT_QMVE_MAC##rows)                          \
                         AOT_QMVE_BIAS##rows AOT_QMVE_##requant##rows(m, s) AOT_QMVE_STORE##rows   \
                     :                                                                             \
                     : [j] "r"(j)                                                                  \
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr",   \
                       "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory")

/* Multipliers and shifts of every channel, or four equal ones that stay. */
#define AOT_QMVE_RUN_PC(rows, requant, PC)                                                         \
    do {                                                                                           \
        if (PC) {                                                                                  \
            AOT_QMVE_RUN(rows, requant, ", #16", ", #4");                                          \
        } else {                                                                                   \
            AOT_QMVE_RUN(rows, requant, "", "");                                                   \
        }                                                                                          \
    } while (0)

#if AOT_QMVE_FLOAT
#define AOT_QMVE_RUN_FLOAT(rows, PC) AOT_QMVE_RUN_PC(rows, FLOAT, PC)
#else
#define AOT_QMVE_RUN_FLOAT(rows, PC) (void)0
#endif

#define AOT_QMVE_RUN_ALL(rows, fast, RQ, PC, NEG)                                                  \
    do {                                                                                           \
        if (RQ == 0) {                                                                             \
            AOT_QMVE_RUN_FLOAT(rows, PC);                                                          \
        } else if (!fast) {                                                                        \
            AOT_QMVE_RUN_PC(rows, ANY, PC);                                                        \
        } else if (NEG) {                                                                          \
            AOT_QMVE_RUN_PC(rows, FIXED, PC);                                                      \
        } else {                                                                                   \
            AOT_QMVE_RUN_PC(rows, RELU, PC);                                                       \
        }                                                                                          \
    } while (0)

#else

#include <string.h>

#define AOT_QMVE_RUN_ALL(rows, fast, RQ, PC, NEG) (void)0

AOT_INLINE int32_t aot_qmve_most(const int8_t *s, int32_t n) {
    int32_t most = -128;
    for (; n > 0; --n, ++s) {
        most = *s > most ? *s : most;
    }
    return most;
}

AOT_INLINE void aot_qmve_copy(int8_t *d, const int8_t *s, int32_t n) {
    (void)memmove(d, s, (size_t)n);
}

AOT_INLINE void aot_qmve_copy_rows(int8_t *d, const int8_t *s, int32_t n, int32_t step,
                                   int32_t rows, int32_t threes) {
    (void)threes;
    for (; rows > 0; --rows, d += n, s += step) {
        (void)memcpy(d, s, (size_t)n);
    }
}

AOT_INLINE void aot_qmve_fill(int8_t *d, int32_t value, int32_t n) {
    (void)memset(d, value, (size_t)n);
}

#endif /* AOT_QMVE */

/* -- Every channel ----------------------------------------------------------------------------- */

/* Whether no shift of n channels needs care: none to the left, and none by nothing where a rounded
 * negative number matters (NEG). */
AOT_INLINE int aot_qmve_fast(const int8_t *shift, int32_t n, int RQ, int NEG) {
    return RQ != 2 || aot_qmve_most(shift, n) < (NEG ? 0 : 1);
}

/* Weights and what becomes of the sums. `job` keeps what all rows share; the channels after the
 * last four have a copy of what belongs to them. */
typedef struct {
    aot_qmve_job job;
    const int8_t *w;
    const int32_t *bias, *mult;
    const int8_t *shift;
    int32_t oc, full, fast;
    int32_t tail_bias[4], tail_mult[4];
    int8_t tail_shift[4];
} aot_qmve_weights;

AOT_INLINE void aot_qmve_prepare(aot_qmve_weights *t, const int8_t *w, const int32_t *bias,
                                 const int32_t *mult, const int8_t *shift, int32_t oc, int32_t k,
                                 int RQ, int PC, int NEG) {
    int32_t i;
    t->w = w;
    t->bias = bias;
    t->oc = oc;
    t->full = oc & ~3;
    t->job.chunks = (k + 15) / 16;
    t->fast = aot_qmve_fast(shift, PC ? oc : 1, RQ, NEG);
    for (i = PC && t->full == oc ? 4 : 0; i < 4; ++i) { /* without PC all channels read them */
        const int32_t c = t->full + i < oc ? t->full + i : oc - 1;
        t->tail_bias[i] = bias[c];
        t->tail_mult[i] = mult[PC ? c : 0];
        t->tail_shift[i] = RQ == 0 ? (int8_t)0 : shift[PC ? c : 0];
    }
    t->mult = PC ? mult : t->tail_mult;
    t->shift = PC && RQ != 0 ? shift : t->tail_shift;
}

/* The zero point and the bounds of the quantised values. */
AOT_INLINE void aot_qmve_limits(aot_qmve_weights *t, int32_t zero, int32_t lo, int32_t hi) {
    t->job.zero = zero;
    t->job.lo = lo - zero;
    t->job.hi = hi - zero;
}

AOT_INLINE void aot_qmve_run(aot_qmve_job *j, int fast, int RQ, int PC, int NEG, int ROWS) {
    if (!AOT_QMVE_VECTOR(RQ)) {
        aot_qmve_plain(j, RQ, PC, ROWS);
    } else if (ROWS == 2) {
        AOT_QMVE_RUN_ALL(2, fast, RQ, PC, NEG);
    } else {
        AOT_QMVE_RUN_ALL(1, fast, RQ, PC, NEG);
    }
    (void)fast;
    (void)NEG;
}

/* The channels before the last three at most. */
AOT_INLINE void aot_qmve_begin(aot_qmve_weights *t, int8_t *y0, int8_t *y1) {
    aot_qmve_job *const j = &t->job;
    j->mult = t->mult;
    j->shift = t->shift;
    j->y0 = y0;
    j->y1 = y1;
    j->bias = t->bias;
    j->w = t->w;
    j->w_end = t->w + (ptrdiff_t)t->full * j->chunks * 16;
}

/* The channels after the last four, to `values`. */
AOT_INLINE void aot_qmve_tail(aot_qmve_weights *t, int8_t *values) {
    aot_qmve_job *const j = &t->job;
    j->mult = t->tail_mult;
    j->shift = t->tail_shift;
    j->bias = t->tail_bias;
    j->y0 = values;
    j->y1 = values + 4;
    j->w = t->w + (ptrdiff_t)t->full * j->chunks * 16;
    j->w_end = j->w + (ptrdiff_t)j->chunks * 64;
}

/* All channels of the results y0, y1 of rows x0 and x1, which may be the same, or of x0 alone with
 * ROWS 1. */
AOT_INLINE void aot_qmve_rows(aot_qmve_weights *t, int8_t *y0, int8_t *y1, const int8_t *x0,
                              const int8_t *x1, int RQ, int PC, int NEG, int ROWS) {
    int8_t values[8];
    int32_t i, at = 0;
    t->job.x0 = x0;
    t->job.x1 = x1;
    if (t->full == 0) {
        aot_qmve_tail(t, values);
    } else {
        aot_qmve_begin(t, y0, y1);
    }
    do {
        aot_qmve_run(&t->job, t->fast, RQ, PC, NEG, ROWS);
        if (at == 0 && t->full != 0) {
            at = t->full;
            if (at < t->oc) {
                aot_qmve_tail(t, values);
            }
            continue;
        }
        for (i = t->full; i < t->oc; ++i) {
            y0[i] = values[i - t->full];
            if (ROWS == 2) {
                y1[i] = values[i - t->full + 4];
            }
        }
        return;
    } while (at < t->oc);
}

#endif /* AOT_QMVE_H */
