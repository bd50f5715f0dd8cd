/* SPDX-License-Identifier: MIT-0 */
/* Two pixels of a convolution, all channels: sums of aot_dsp_mac.h, rescaled and stored while they
 * are in registers.
 */
#ifndef AOT_DSP_PIXELS_H
#define AOT_DSP_PIXELS_H

#include "aot_dsp_out.h"

/* The order of the members is known to the assembly below. For PC 0 `mult` and `shift` hold the
 * multiplier and (RQ 2) the right shift. */
typedef struct {
    const uint32_t *x, *end; /* words of both pixels */
    const int32_t *bias;
    const void *mult, *shift;
    int8_t *y0, *y1;
    int32_t blocks;  /* of four channels */
    int32_t zero;    /* RQ 0: y_zero; RQ 2: 2 * y_zero + 1, or its shifted value with PC 0 */
    uint32_t lo, hi; /* four times */
    const int8_t *w;
} aot_dsp_job;

#if AOT_DSP

#define AOT_DSP_JOB_BEGIN                                                                          \
    "push {r4-r11, lr}\n"                                                                          \
    "ldm r0, {r1-r12}\n"                                                                           \
    "push {r1-r11}\n"                                                                              \
    "mov r2, r12\n"                                                                                \
    "2:\n"                                                                                         \
    "ldr r3, [sp, #8]\n"                                                                           \
    "ldm r3, {r4-r7}\n"                                                                            \
    "ldm r3!, {r8-r11}\n"                                                                          \
    "str r3, [sp, #8]\n"                                                                           \
    "ldr r1, [sp]\n"                                                                               \
    "1:\n"
#define AOT_DSP_JOB_LOOP                                                                           \
    "ldr r0, [sp, #4]\n"                                                                           \
    "cmp r1, r0\n"                                                                                 \
    "blo 1b\n"

/* RQ 2: a channel's sums A and B, times 2 after SHIFT; r3 its multiplier, r12 the right shift, lr
 * half a unit and the zero point. */
#define AOT_DSP_FIXED_ONE(A, SHIFT)                                                                \
    SHIFT                                                                                          \
    "smmulr " A ", " A ", r3\n"                                                                    \
    "add " A ", " A ", " A ", asr #31\n"                                                           \
    "add " A ", " A ", lr\n"                                                                       \
    "asr " A ", " A ", r12\n"                                                                      \
    "ssat " A ", #8, " A "\n"
#define AOT_DSP_FIXED_NEXT                                                                         \
    "ldrsb r12, [r1], #1\n"                                                                        \
    "ldr lr, [sp, #32]\n"                                                                          \
    "ldr r3, [r0], #4\n"                                                                           \
    "mvn r12, r12\n"                                                                               \
    "lsl lr, lr, r12\n"                                                                            \
    "add r12, r12, #1\n"
#define AOT_DSP_TWICE(A) "lsl " A ", " A ", #1\n"
#define AOT_DSP_SECOND(A) "asr " A ", " A ", #7\n"
#define AOT_DSP_FIXED(NEXT, SECOND)                                                                \
    NEXT AOT_DSP_FIXED_ONE("r4", AOT_DSP_TWICE("r4")) AOT_DSP_FIXED_ONE("r8", AOT_DSP_TWICE("r8")) \
        NEXT AOT_DSP_FIXED_ONE("r5", SECOND("r5")) AOT_DSP_FIXED_ONE("r9", SECOND("r9"))           \
            NEXT AOT_DSP_FIXED_ONE("r6", AOT_DSP_TWICE("r6"))                                      \
                AOT_DSP_FIXED_ONE("r10", AOT_DSP_TWICE("r10"))                                     \
                    NEXT AOT_DSP_FIXED_ONE("r7", SECOND("r7"))                                     \
                        AOT_DSP_FIXED_ONE("r11", SECOND("r11"))
#define AOT_DSP_FIXED_PC(SECOND)                                                                   \
    "ldrd r0, r1, [sp, #12]\n" AOT_DSP_FIXED(AOT_DSP_FIXED_NEXT, SECOND) "strd r0, r1, [sp, "      \
                                                                         "#12]\n"
#define AOT_DSP_FIXED_PT(SECOND)                                                                   \
    "ldrd r3, r12, [sp, #12]\n"                                                                    \
    "ldr lr, [sp, #32]\n" AOT_DSP_FIXED("", SECOND)

/* RQ 0: S the channel's scale; lr the zero point. */
#define AOT_DSP_FLOAT_ONE(A, B, S, FRACTION)                                                       \
    "vmov s4, s5, " A ", " B "\n"                                                                  \
    "vcvt.f32.s32 s4, s4" FRACTION "\n"                                                            \
    "vcvt.f32.s32 s5, s5" FRACTION "\n"                                                            \
    "vmul.f32 s4, s4, " S "\n"                                                                     \
    "vmul.f32 s5, s5, " S "\n"                                                                     \
    "vcvtr.s32.f32 s4, s4\n"                                                                       \
    "vcvtr.s32.f32 s5, s5\n"                                                                       \
    "vmov " A ", " B ", s4, s5\n"                                                                  \
    "qadd " A ", " A ", lr\n"                                                                      \
    "qadd " B ", " B ", lr\n"                                                                      \
    "ssat " A ", #8, " A "\n"                                                                      \
    "ssat " B ", #8, " B "\n"
#define AOT_DSP_FLOAT(S0, S1, S2, S3, FRACTION)                                                    \
    "ldr lr, [sp, #32]\n" AOT_DSP_FLOAT_ONE("r4", "r8", S0, "")                                    \
        AOT_DSP_FLOAT_ONE("r5", "r9", S1, FRACTION) AOT_DSP_FLOAT_ONE("r6", "r10", S2, "")         \
            AOT_DSP_FLOAT_ONE("r7", "r11", S3, FRACTION)
#define AOT_DSP_FLOAT_PC(FRACTION)                                                                 \
    "ldr r0, [sp, #12]\n"                                                                          \
    "vldm r0!, {s0-s3}\n"                                                                          \
    "str r0, [sp, #12]\n" AOT_DSP_FLOAT("s0", "s1", "s2", "s3", FRACTION)
#define AOT_DSP_FLOAT_PT(FRACTION)                                                                 \
    "vldr s0, [sp, #12]\n" AOT_DSP_FLOAT("s0", "s0", "s0", "s0", FRACTION)

#define AOT_DSP_PACK(A, B, C, D)                                                                   \
    "bfi " A ", " B ", #8, #8\n"                                                                   \
    "bfi " C ", " D ", #8, #8\n"                                                                   \
    "pkhbt " A ", " A ", " C ", lsl #16\n"
#define AOT_DSP_CLIP_ONE(A)                                                                        \
    "ssub8 r3, " A ", r12\n"                                                                       \
    "sel " A ", " A ", r12\n"                                                                      \
    "ssub8 r3, lr, " A "\n"                                                                        \
    "sel " A ", " A ", lr\n"
#define AOT_DSP_CLIP "ldrd r12, lr, [sp, #36]\n" AOT_DSP_CLIP_ONE("r4") AOT_DSP_CLIP_ONE("r8")

/* The second pixel may be void and lie on the first. */
#define AOT_DSP_JOB_END(CLIP)                                                                      \
    AOT_DSP_PACK("r4", "r5", "r6", "r7")                                                           \
    AOT_DSP_PACK("r8", "r9", "r10", "r11")                                                         \
    CLIP "ldrd r0, r1, [sp, #20]\n"                                                                \
         "str r8, [r1], #4\n"                                                                      \
         "str r4, [r0], #4\n"                                                                      \
         "strd r0, r1, [sp, #20]\n"                                                                \
         "ldr r0, [sp, #28]\n"                                                                     \
         "subs r0, r0, #1\n"                                                                       \
         "str r0, [sp, #28]\n"                                                                     \
         "bne 2b\n"                                                                                \
         "add sp, sp, #44\n"                                                                       \
         "pop {r4-r11, pc}\n"

#define AOT_DSP_JOB(name, KIND, STEPS, OUT, CLIP)                                                  \
    __attribute__((naked)) static AOT_NOINLINE AOT_UNUSED void name(                               \
        AOT_UNUSED const aot_dsp_job *job) {                                                       \
        __asm__ volatile(AOT_DSP_JOB_BEGIN STEPS AOT_DSP_JOB_LOOP OUT AOT_DSP_JOB_END(CLIP)::      \
                             : AOT_DSP_CLOBBERS_##KIND);                                           \
    }
#define AOT_DSP_JOBS_OUT(name, KIND, STEPS, SPLIT, ARG)                                            \
    AOT_DSP_JOB(name##_pc, KIND, STEPS, SPLIT AOT_DSP_##KIND##_PC(ARG), "")                        \
    AOT_DSP_JOB(name##_pt, KIND, STEPS, SPLIT AOT_DSP_##KIND##_PT(ARG), "")                        \
    AOT_DSP_JOB(name##_pc_clip, KIND, STEPS, SPLIT AOT_DSP_##KIND##_PC(ARG), AOT_DSP_CLIP)         \
    AOT_DSP_JOB(name##_pt_clip, KIND, STEPS, SPLIT AOT_DSP_##KIND##_PT(ARG), AOT_DSP_CLIP)
#define AOT_DSP_CLOBBERS_FIXED AOT_DSP_CLOBBERS
#ifdef __ARM_FP
#define AOT_DSP_CLOBBERS_FLOAT "s0", "s1", "s2", "s3", "s4", "s5", AOT_DSP_CLOBBERS
#define AOT_DSP_JOBS(name, STEPS, SPLIT, SECOND, FRACTION)                                         \
    AOT_DSP_JOBS_OUT(name##_2, FIXED, STEPS, SPLIT, SECOND)                                        \
    AOT_DSP_JOBS_OUT(name##_0, FLOAT, STEPS, SPLIT, FRACTION)
#else
#define AOT_DSP_JOBS(name, STEPS, SPLIT, SECOND, FRACTION)                                         \
    AOT_DSP_JOBS_OUT(name##_2, FIXED, STEPS, SPLIT, SECOND)
#endif

AOT_DSP_JOBS(aot_dsp_job_narrow, AOT_DSP_FOUR(AOT_DSP_NARROW), AOT_DSP_SPLIT, AOT_DSP_SECOND,
             ", #8")
AOT_DSP_JOBS(aot_dsp_job_narrow_row, AOT_DSP_SIX(AOT_DSP_NARROW), AOT_DSP_SPLIT, AOT_DSP_SECOND,
             ", #8")
AOT_DSP_JOBS(aot_dsp_job_wide, AOT_DSP_FOUR(AOT_DSP_WIDE), "", AOT_DSP_TWICE, "")
AOT_DSP_JOBS(aot_dsp_job_wide_row, AOT_DSP_SIX(AOT_DSP_WIDE), "", AOT_DSP_TWICE, "")

#define AOT_DSP_CALL(name, job)                                                                    \
    (PC ? (CLIP ? name##_pc_clip : name##_pc) : (CLIP ? name##_pt_clip : name##_pt))(job)
#ifdef __ARM_FP
#define AOT_DSP_START(name, job)                                                                   \
    do {                                                                                           \
        if (RQ == 0) {                                                                             \
            AOT_DSP_CALL(name##_0, job);                                                           \
        } else {                                                                                   \
            AOT_DSP_CALL(name##_2, job);                                                           \
        }                                                                                          \
    } while (0)
#else
#define AOT_DSP_START(name, job) AOT_DSP_CALL(name##_2, job)
#endif

#endif

/* Whether aot_dsp_pixels has this arithmetic. */
AOT_INLINE int aot_dsp_has(int RQ) {
#if AOT_DSP && !defined(__ARM_FP)
    return RQ == 2;
#else
    return RQ == 0 || RQ == 2;
#endif
}

/* Blocks of four channels of two pixels; ROW: as aot_dsp_row_2x4. For o->fast only. */
AOT_INLINE void aot_dsp_pixels(const aot_dsp_job *job, const aot_dsp_out *o, int RQ, int PC,
                               int ROW, int CLIP, int WIDE) {
#if AOT_DSP
    (void)o;
    if (ROW) {
        if (WIDE) {
            AOT_DSP_START(aot_dsp_job_wide_row, job);
        } else {
            AOT_DSP_START(aot_dsp_job_narrow_row, job);
        }
    } else {
        if (WIDE) {
            AOT_DSP_START(aot_dsp_job_wide, job);
        } else {
            AOT_DSP_START(aot_dsp_job_narrow, job);
        }
    }
#else
    const int8_t *w = job->w;
    const int32_t size = (int32_t)(job->end - job->x);
    int8_t *y[2];
    int32_t sum[8], i;
    y[0] = job->y0;
    y[1] = job->y1;
    for (i = 0; i < job->blocks; ++i, y[0] += 4, y[1] += 4) {
        aot_dsp_block(sum, job->x, w, job->bias + 4 * i, job->end, ROW, WIDE);
        aot_dsp_store(y, 2, sum, 4 * i, 4, o, RQ, PC, CLIP, WIDE);
        w += ROW ? 6 * size : 4 * size;
    }
#endif
}

/* The job of a convolution, without its weights and pixels. */
AOT_INLINE void aot_dsp_job_init(aot_dsp_job *job, const aot_dsp_out *o, const int32_t *bias,
                                 int32_t channels, int RQ, int PC) {
    job->bias = bias;
    job->mult = PC ? (const void *)o->mult : (const void *)(intptr_t)o->mult[0];
    job->shift = o->shift;
    job->blocks = channels / 4;
    job->zero = RQ == 2 ? 2 * o->zero + 1 : o->zero;
    if (RQ == 2 && !PC) {
        const int32_t right = -o->shift[0];
        job->shift = (const void *)(intptr_t)right;
        job->zero = (int32_t)((uint32_t)job->zero << (right - 1));
    }
    job->lo = ((uint32_t)o->lo & 0xFFU) * 0x01010101U;
    job->hi = ((uint32_t)o->hi & 0xFFU) * 0x01010101U;
}

#endif /* AOT_DSP_PIXELS_H */
