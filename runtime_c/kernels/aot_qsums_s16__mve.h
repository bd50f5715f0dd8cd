/* SPDX-License-Identifier: MIT-0 */
/* Sums of int16 quantised values and int8 weights with Arm's vector extension, and the same in
 * plain C: see aot_qsums_s16.h. */
#ifndef AOT_QSUMS_S16__MVE_H
#define AOT_QSUMS_S16__MVE_H

#include "aot_qmve.h"

#if AOT_QMVE

/* The order of the members is known to the assembly below. */
typedef struct {
    const int16_t *x0, *x1;
    const int8_t *w, *end;
    int32_t sum[8]; /* without bias */
} aot_s16_mve_job;

/* Eight quantised values of one or two rows, four channels: VMLADAVA adds eight products. */
#define AOT_S16_MVE_TWO(W, A, B)                                                                   \
    "vldrb.s16 " W ", [r5], #8\n"                                                                  \
    "vmladava.s16 " A ", " W ", q0\n"                                                              \
    "vmladava.s16 " B ", " W ", q1\n"
#define AOT_S16_MVE_ONE(W, A)                                                                      \
    "vldrb.s16 " W ", [r5], #8\n"                                                                  \
    "vmladava.s16 " A ", " W ", q0\n"

AOT_INLINE void aot_s16_mve_two(aot_s16_mve_job *j) {
    __asm__ volatile("ldrd r1, r3, [%[j]]\n"
                     "ldrd r5, r9, [%[j], #8]\n"
                     "movs r0, #0\nmovs r2, #0\nmovs r4, #0\nmovs r6, #0\n"
                     "mov r8, #0\nmov r10, #0\nmov r12, #0\nmov lr, #0\n"
                     "1:\n"
                     "vldrh.u16 q0, [r1], #16\n"
                     "vldrh.u16 q1, [r3], #16\n" AOT_S16_MVE_TWO("q2", "r0", "r8")
                         AOT_S16_MVE_TWO("q3", "r2", "r10") AOT_S16_MVE_TWO("q2", "r4", "r12")
                             AOT_S16_MVE_TWO("q3", "r6", "lr") "cmp r5, r9\n"
                                                               "bne 1b\n"
                                                               "strd r0, r2, [%[j], #16]\n"
                                                               "strd r4, r6, [%[j], #24]\n"
                                                               "strd r8, r10, [%[j], #32]\n"
                                                               "strd r12, lr, [%[j], #40]\n"
                     :
                     : [j] "r"(j)
                     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr",
                       "q0", "q1", "q2", "q3", "cc", "memory");
}

AOT_INLINE void aot_s16_mve_one(aot_s16_mve_job *j) {
    __asm__ volatile(
        "ldr r1, [%[j]]\n"
        "ldrd r5, r9, [%[j], #8]\n"
        "movs r0, #0\nmovs r2, #0\nmovs r4, #0\nmovs r6, #0\n"
        "1:\n"
        "vldrh.u16 q0, [r1], #16\n" AOT_S16_MVE_ONE("q1", "r0") AOT_S16_MVE_ONE("q2", "r2")
            AOT_S16_MVE_ONE("q3", "r4") AOT_S16_MVE_ONE("q1", "r6") "cmp r5, r9\n"
                                                                    "bne 1b\n"
                                                                    "strd r0, r2, [%[j], #16]\n"
                                                                    "strd r4, r6, [%[j], #24]\n"
        :
        : [j] "r"(j)
        : "r0", "r1", "r2", "r4", "r5", "r6", "r9", "q0", "q1", "q2", "q3", "cc", "memory");
}

AOT_INLINE void aot_s16_mve_rows(int32_t *sum, const int16_t *x0, const int16_t *x1,
                                 const int8_t *w, const int32_t *bias, int32_t depth) {
    const int32x4_t first = vldrwq_s32(bias);
    aot_s16_mve_job j;
    j.x0 = x0;
    j.x1 = x1;
    j.w = w;
    j.end = w + 4 * (ptrdiff_t)depth;
    if (x1 != NULL) {
        aot_s16_mve_two(&j);
        vstrwq_s32(sum + 4, vaddq_s32(vldrwq_s32(j.sum + 4), first));
    } else {
        aot_s16_mve_one(&j);
    }
    vstrwq_s32(sum, vaddq_s32(vldrwq_s32(j.sum), first));
}

AOT_INLINE void aot_s16_mve_taps(int32_t *sum, const int16_t *const *at, int32_t offset,
                                 const int8_t *w, int32_t taps, const int32_t *bias) {
    int32x4_t total = vldrwq_s32(bias);
    for (; taps > 0; --taps, ++at, w += 4) {
        total = vaddq_s32(total, vmulq_s32(vldrhq_s32(*at + offset), vldrbq_s32(w)));
    }
    vstrwq_s32(sum, total);
}

/* The quantised values of four channels; RQ 0 or 2. */
AOT_INLINE void aot_s16_mve_store(int16_t *y, const int32_t *sum, const int32_t *mult,
                                  const int8_t *shift, int32_t zero, int32_t lo, int32_t hi, int RQ,
                                  int PC) {
    const int32x4_t factor = PC ? vldrwq_s32(mult) : vdupq_n_s32(mult[0]);
    int32x4_t v = vldrwq_s32(sum);
    if (RQ == 2) {
        const int32x4_t none = vdupq_n_s32(0);
        const int32x4_t by = PC ? vldrbq_s32(shift) : vdupq_n_s32(shift[0]);
        const int32x4_t right = vminq_s32(by, none);
        v = vqrdmulhq_s32(vqshlq_s32(v, vmaxq_s32(by, none)), factor);
        /* Halves go away from zero, where there is a shift to the right. */
        v = vaddq_s32(v, vshrq_n_s32(vandq_s32(v, right), 31));
        v = vrshlq_s32(v, right);
    } else {
#if AOT_QMVE_FLOAT
        const float32x4_t scaled = vmulq_f32(vcvtq_f32_s32(v), vreinterpretq_f32_s32(factor));
        v = vcvtnq_s32_f32(scaled);
#endif
    }
    v = vmaxq_s32(vminq_s32(v, vdupq_n_s32(hi - zero)), vdupq_n_s32(lo - zero));
    vstrhq_s32(y, vaddq_s32(v, vdupq_n_s32(zero)));
}

#else

AOT_INLINE void aot_s16_mve_rows(int32_t *sum, const int16_t *x0, const int16_t *x1,
                                 const int8_t *w, const int32_t *bias, int32_t depth) {
    int32_t i, c, k;
    for (i = 0; i < (x1 != NULL ? 8 : 4); ++i) {
        const int16_t *const x = i < 4 ? x0 : x1;
        c = i & 3;
        sum[i] = bias[c];
        for (k = 0; k < depth; ++k) {
            sum[i] += x[k] * w[(k >> 3) * 32 + c * 8 + (k & 7)];
        }
    }
}

AOT_INLINE void aot_s16_mve_taps(int32_t *sum, const int16_t *const *at, int32_t offset,
                                 const int8_t *w, int32_t taps, const int32_t *bias) {
    int32_t c, k;
    for (c = 0; c < 4; ++c) {
        sum[c] = bias[c];
        for (k = 0; k < taps; ++k) {
            sum[c] += at[k][offset + c] * w[4 * k + c];
        }
    }
}

AOT_INLINE void aot_s16_mve_store(int16_t *y, const int32_t *sum, const int32_t *mult,
                                  const int8_t *shift, int32_t zero, int32_t lo, int32_t hi, int RQ,
                                  int PC) {
    int32_t c;
    for (c = 0; c < 4; ++c) {
        const int32_t at = PC ? c : 0;
        const int32_t v = aot_requant(sum[c], mult[at], shift == NULL ? 0 : shift[at], RQ) + zero;
        y[c] = (int16_t)aot_requant_clamp(v, lo, hi);
    }
}

#endif

#endif /* AOT_QSUMS_S16__MVE_H */
