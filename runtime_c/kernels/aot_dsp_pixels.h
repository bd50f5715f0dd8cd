/* SPDX-License-Identifier: MIT-0 */
/* Two pixels of a convolution, all channels: sums of aot_dsp_mac.h, rescaled and stored while they
 * are in registers.
 */
#ifndef AOT_DSP_PIXELS_H
#define AOT_DSP_PIXELS_H

#include "aot_dsp_out.h"

/* The order of the members is known to the assembly below, up to `w`. For PC 0 `mult` and `shift`
 * hold the multiplier and (RQ 2) the right shift less one. */
typedef struct {
    const uint32_t *x, *end; /* words of both pixels */
    const int32_t *bias;
    const void *mult, *shift;
    int8_t *y0, *y1;
    int32_t blocks;  /* of four channels */
    int32_t zero;    /* RQ 0: y_zero; RQ 2: 2 * y_zero + 1 */
    uint32_t lo, hi; /* four times */
    const int8_t *w;
    aot_dsp_out out; /* for C: with the multipliers of these channels; instance constants */
    int8_t PC, ROW, WIDE;
} aot_dsp_job;

/* Stores the quantised values of two pixels; the second may be void and lie on the first. */
typedef void aot_dsp_run(const aot_dsp_job *);

#if AOT_DSP

#define AOT_DSP_JOB_BEGIN                                                                          \
    "push {r4-r11,lr}\n"                                                                           \
    "ldm r0,{r1-r12}\n"                                                                            \
    "push {r1-r11}\n"                                                                              \
    "mov r2,r12\n"                                                                                 \
    "2:\n"                                                                                         \
    "ldr r3,[sp,#8]\n"                                                                             \
    "ldm r3,{r4-r7}\n"                                                                             \
    "ldm r3!,{r8-r11}\n"                                                                           \
    "str r3,[sp,#8]\n"                                                                             \
    "ldr r1,[sp]\n"                                                                                \
    "1:\n"
#define AOT_DSP_JOB_LOOP                                                                           \
    "ldr r0,[sp,#4]\n"                                                                             \
    "cmp r1,r0\n"                                                                                  \
    "blo 1b\n"

/* RQ 2: a channel's sums A and B; r3 its multiplier, r12 its right shift less one, and then lr half
 * a unit and the zero point. Right shifts of 1 to AOT_DSP_RIGHT only, others at FAR. */
#define AOT_DSP_FIXED_ONE(A, SHIFT)                                                                \
    SHIFT                                                                                          \
    "smmulr " A "," A ",r3\n"                                                                      \
    "add " A "," A "," A ",asr #31\n"                                                              \
    "add " A "," A ",lr\n"                                                                         \
    "asr " A "," A ",r12\n"                                                                        \
    "ssat " A ",#8," A "\n"
#define AOT_DSP_FIXED_CHANNEL(FACTOR, A, B, SHIFT, FAR, BACK)                                      \
    FACTOR                                                                                         \
    "cmp r12,#22\n"                                                                                \
    "bhs " FAR "f\n"                                                                               \
    "ldr lr,[sp,#32]\n"                                                                            \
    "lsl lr,lr,r12\n"                                                                              \
    "add r12,r12,#1\n" AOT_DSP_FIXED_ONE(A, SHIFT(A)) AOT_DSP_FIXED_ONE(B, SHIFT(B)) BACK ":\n"
#define AOT_DSP_FACTOR_PC                                                                          \
    "ldrsb r12,[r1],#1\n"                                                                          \
    "ldr r3,[r0],#4\n"                                                                             \
    "mvn r12,r12\n"
#define AOT_DSP_FACTOR_PT "ldrd r3,r12,[sp,#12]\n"
#define AOT_DSP_TWICE(A) "lsl " A "," A ",#1\n"
#define AOT_DSP_SECOND(A) "asr " A "," A ",#7\n"
#define AOT_DSP_FIXED(FACTOR, SECOND)                                                              \
    AOT_DSP_FIXED_CHANNEL(FACTOR, "r4", "r8", AOT_DSP_TWICE, "11", "21")                           \
    AOT_DSP_FIXED_CHANNEL(FACTOR, "r5", "r9", SECOND, "12", "22")                                  \
    AOT_DSP_FIXED_CHANNEL(FACTOR, "r6", "r10", AOT_DSP_TWICE, "13", "23")                          \
    AOT_DSP_FIXED_CHANNEL(FACTOR, "r7", "r11", SECOND, "14", "24")
#define AOT_DSP_FIXED_PC(SECOND)                                                                   \
    "ldrd r0,r1,[sp,#12]\n" AOT_DSP_FIXED(AOT_DSP_FACTOR_PC, SECOND) "strd r0,r1,[sp,#12]\n"
#define AOT_DSP_FIXED_PT(SECOND) AOT_DSP_FIXED(AOT_DSP_FACTOR_PT, SECOND)

/* Any shift, two sums on the stack: (high word + its sign + half a unit) >> right, or (sum << left)
 * * multiplier, where the sum is limited to 24 bits. */
#define AOT_DSP_FAR(A, B, PLAIN, FAR, BACK)                                                        \
    FAR ":\n" PLAIN(A) PLAIN(B) "strd " A "," B ",[sp,#-8]!\n"                                     \
                                "bl 3f\n"                                                          \
                                "ldrd " A "," B ",[sp],#8\n"                                       \
                                "b " BACK "b\n"
#define AOT_DSP_PLAIN(A)
#define AOT_DSP_PLAIN_SECOND(A) "asr " A "," A ",#8\n"
#define AOT_DSP_FIXED_TAIL(PLAIN)                                                                  \
    AOT_DSP_FAR("r4", "r8", AOT_DSP_PLAIN, "11", "21")                                             \
    AOT_DSP_FAR("r5", "r9", PLAIN, "12", "22")                                                     \
    AOT_DSP_FAR("r6", "r10", AOT_DSP_PLAIN, "13", "23")                                            \
    AOT_DSP_FAR("r7", "r11", PLAIN, "14", "24")                                                    \
    "3:\n"                                                                                         \
    "push {r0,r1,r2,r4,lr}\n"                                                                      \
    "add r1,sp,#20\n"                                                                              \
    "movs r4,#4\n"                                                                                 \
    "4:\n"                                                                                         \
    "ldr r0,[r1,r4]\n"                                                                             \
    "cmp r12,#0\n"                                                                                 \
    "bge 5f\n"                                                                                     \
    "mvn r2,r12\n"                                                                                 \
    "add r2,r2,#1\n"                                                                               \
    "ssat r0,#24,r0\n"                                                                             \
    "lsl r0,r0,r2\n"                                                                               \
    "smmulr r0,r0,r3\n"                                                                            \
    "b 6f\n"                                                                                       \
    "5:\n"                                                                                         \
    "lsl r0,r0,#1\n"                                                                               \
    "smmulr r0,r0,r3\n"                                                                            \
    "add r0,r0,r0,asr #31\n"                                                                       \
    "mov r2,#1\n"                                                                                  \
    "lsl r2,r2,r12\n"                                                                              \
    "add r0,r0,r2\n"                                                                               \
    "add r2,r12,#1\n"                                                                              \
    "asr r0,r0,r2\n"                                                                               \
    "6:\n"                                                                                         \
    "ldr r2,[sp,#60]\n"                                                                            \
    "add r0,r0,r2,asr #1\n"                                                                        \
    "ssat r0,#8,r0\n"                                                                              \
    "str r0,[r1,r4]\n"                                                                             \
    "subs r4,r4,#4\n"                                                                              \
    "bpl 4b\n"                                                                                     \
    "pop {r0,r1,r2,r4,pc}\n"
#define AOT_DSP_FIXED_FAR_0 AOT_DSP_FIXED_TAIL(AOT_DSP_PLAIN_SECOND)
#define AOT_DSP_FIXED_FAR_1 AOT_DSP_FIXED_TAIL(AOT_DSP_PLAIN)
#define AOT_DSP_FLOAT_FAR_0 ""
#define AOT_DSP_FLOAT_FAR_1 ""

/* RQ 0: S the channel's scale; lr the zero point. */
#define AOT_DSP_FLOAT_ONE(A, B, S, FRACTION)                                                       \
    "vmov s4,s5," A "," B "\n"                                                                     \
    "vcvt.f32.s32 s4,s4" FRACTION "\n"                                                             \
    "vcvt.f32.s32 s5,s5" FRACTION "\n"                                                             \
    "vmul.f32 s4,s4," S "\n"                                                                       \
    "vmul.f32 s5,s5," S "\n"                                                                       \
    "vcvtr.s32.f32 s4,s4\n"                                                                        \
    "vcvtr.s32.f32 s5,s5\n"                                                                        \
    "vmov " A "," B ",s4,s5\n"                                                                     \
    "qadd " A "," A ",lr\n"                                                                        \
    "qadd " B "," B ",lr\n"                                                                        \
    "ssat " A ",#8," A "\n"                                                                        \
    "ssat " B ",#8," B "\n"
#define AOT_DSP_FLOAT(S0, S1, S2, S3, FRACTION)                                                    \
    "ldr lr,[sp,#32]\n" AOT_DSP_FLOAT_ONE("r4", "r8", S0, "")                                      \
        AOT_DSP_FLOAT_ONE("r5", "r9", S1, FRACTION) AOT_DSP_FLOAT_ONE("r6", "r10", S2, "")         \
            AOT_DSP_FLOAT_ONE("r7", "r11", S3, FRACTION)
#define AOT_DSP_FLOAT_PC(FRACTION)                                                                 \
    "ldr r0,[sp,#12]\n"                                                                            \
    "vldm r0!,{s0-s3}\n"                                                                           \
    "str r0,[sp,#12]\n" AOT_DSP_FLOAT("s0", "s1", "s2", "s3", FRACTION)
#define AOT_DSP_FLOAT_PT(FRACTION)                                                                 \
    "vldr s0,[sp,#12]\n" AOT_DSP_FLOAT("s0", "s0", "s0", "s0", FRACTION)

#define AOT_DSP_PACK(A, B, C, D)                                                                   \
    "bfi " A "," B ",#8,#8\n"                                                                      \
    "bfi " C "," D ",#8,#8\n"                                                                      \
    "pkhbt " A "," A "," C ",lsl #16\n"
#define AOT_DSP_CLIP_ONE(A)                                                                        \
    "ssub8 r3," A ",r12\n"                                                                         \
    "sel " A "," A ",r12\n"                                                                        \
    "ssub8 r3,lr," A "\n"                                                                          \
    "sel " A "," A ",lr\n"
#define AOT_DSP_CLIP "ldrd r12,lr,[sp,#36]\n" AOT_DSP_CLIP_ONE("r4") AOT_DSP_CLIP_ONE("r8")

/* The second pixel may be void and lie on the first. */
#define AOT_DSP_JOB_END(CLIP)                                                                      \
    AOT_DSP_PACK("r4", "r5", "r6", "r7")                                                           \
    AOT_DSP_PACK("r8", "r9", "r10", "r11")                                                         \
    CLIP "ldrd r0,r1,[sp,#20]\n"                                                                   \
         "str r8,[r1],#4\n"                                                                        \
         "str r4,[r0],#4\n"                                                                        \
         "strd r0,r1,[sp,#20]\n"                                                                   \
         "ldr r0,[sp,#28]\n"                                                                       \
         "subs r0,r0,#1\n"                                                                         \
         "str r0,[sp,#28]\n"                                                                       \
         "bne 2b\n"                                                                                \
         "add sp,sp,#44\n"                                                                         \
         "pop {r4-r11,pc}\n"

#define AOT_DSP_JOB(name, KIND, STEPS, OUT, CLIP, FAR)                                             \
    __attribute__((naked)) static AOT_NOINLINE AOT_UNUSED void name(                               \
        AOT_UNUSED const aot_dsp_job *job) {                                                       \
        __asm__ volatile(AOT_DSP_JOB_BEGIN STEPS AOT_DSP_JOB_LOOP OUT AOT_DSP_JOB_END(CLIP) FAR::  \
                             : AOT_DSP_CLOBBERS_##KIND);                                           \
    }
#define AOT_DSP_JOBS_OUT(name, KIND, WIDE, STEPS, SPLIT, ARG)                                      \
    AOT_DSP_JOB(name##_pc, KIND, STEPS, SPLIT AOT_DSP_##KIND##_PC(ARG), "",                        \
                AOT_DSP_##KIND##_FAR_##WIDE)                                                       \
    AOT_DSP_JOB(name##_pt, KIND, STEPS, SPLIT AOT_DSP_##KIND##_PT(ARG), "",                        \
                AOT_DSP_##KIND##_FAR_##WIDE)                                                       \
    AOT_DSP_JOB(name##_pc_clip, KIND, STEPS, SPLIT AOT_DSP_##KIND##_PC(ARG), AOT_DSP_CLIP,         \
                AOT_DSP_##KIND##_FAR_##WIDE)                                                       \
    AOT_DSP_JOB(name##_pt_clip, KIND, STEPS, SPLIT AOT_DSP_##KIND##_PT(ARG), AOT_DSP_CLIP,         \
                AOT_DSP_##KIND##_FAR_##WIDE)
#define AOT_DSP_CLOBBERS_FIXED AOT_DSP_CLOBBERS
#if AOT_DSP_FPU
#define AOT_DSP_CLOBBERS_FLOAT "s0", "s1", "s2", "s3", "s4", "s5", AOT_DSP_CLOBBERS
#define AOT_DSP_JOBS(name, WIDE, STEPS, SPLIT, SECOND, FRACTION)                                   \
    AOT_DSP_JOBS_OUT(name##_2, FIXED, WIDE, STEPS, SPLIT, SECOND)                                  \
    AOT_DSP_JOBS_OUT(name##_0, FLOAT, WIDE, STEPS, SPLIT, FRACTION)
#else
#define AOT_DSP_JOBS(name, WIDE, STEPS, SPLIT, SECOND, FRACTION)                                   \
    AOT_DSP_JOBS_OUT(name##_2, FIXED, WIDE, STEPS, SPLIT, SECOND)
#endif

AOT_DSP_JOBS(aot_dsp_job_narrow, 0, AOT_DSP_FOUR(AOT_DSP_NARROW), AOT_DSP_SPLIT, AOT_DSP_SECOND,
             ",#8")
AOT_DSP_JOBS(aot_dsp_job_narrow_row, 0, AOT_DSP_SIX(AOT_DSP_NARROW), AOT_DSP_SPLIT, AOT_DSP_SECOND,
             ",#8")
AOT_DSP_JOBS(aot_dsp_job_wide, 1, AOT_DSP_FOUR(AOT_DSP_WIDE), "", AOT_DSP_TWICE, "")
AOT_DSP_JOBS(aot_dsp_job_wide_row, 1, AOT_DSP_SIX(AOT_DSP_WIDE), "", AOT_DSP_TWICE, "")

#define AOT_DSP_NAMED(name)                                                                        \
    (PC ? (CLIP ? name##_pc_clip : name##_pc) : (CLIP ? name##_pt_clip : name##_pt))
#define AOT_DSP_OF(RQ_)                                                                            \
    (ROW ? (WIDE ? AOT_DSP_NAMED(aot_dsp_job_wide_row_##RQ_)                                       \
                 : AOT_DSP_NAMED(aot_dsp_job_narrow_row_##RQ_))                                    \
         : (WIDE ? AOT_DSP_NAMED(aot_dsp_job_wide_##RQ_)                                           \
                 : AOT_DSP_NAMED(aot_dsp_job_narrow_##RQ_)))

#endif

/* The same in C. */
AOT_INLINE void aot_dsp_job_plain(const aot_dsp_job *job, int RQ) {
    const int32_t size = (int32_t)(job->end - job->x);
    const int8_t *w = job->w;
    int32_t sum[8], c;
    for (c = 0; c < 4 * job->blocks; c += 4, w += job->ROW ? 6 * size : 4 * size) {
        if (job->ROW != 0) {
            aot_dsp_row_2x4(sum, job->x, w, job->bias + c, job->end, job->WIDE);
        } else {
            aot_dsp_2x4(sum, job->x, w, job->bias + c, job->end, job->WIDE);
        }
        aot_dsp_store(job->y1 + c, sum + 4, c, 4, &job->out, RQ, job->PC, 1, job->WIDE);
        aot_dsp_store(job->y0 + c, sum, c, 4, &job->out, RQ, job->PC, 1, job->WIDE);
    }
}
static AOT_UNUSED void aot_dsp_job_float(const aot_dsp_job *job) {
    aot_dsp_job_plain(job, 0);
}
static AOT_UNUSED void aot_dsp_job_integer(const aot_dsp_job *job) {
    aot_dsp_job_plain(job, 1);
}
static AOT_UNUSED void aot_dsp_job_fixed(const aot_dsp_job *job) {
    aot_dsp_job_plain(job, 2);
}

/* Blocks of four channels of two pixels; ROW: as aot_dsp_row_2x4. */
AOT_INLINE aot_dsp_run *aot_dsp_run_of(int RQ, int PC, int ROW, int CLIP, int WIDE) {
#if AOT_DSP
    if (RQ == 2) {
        return AOT_DSP_OF(2);
    }
#if AOT_DSP_FPU
    if (RQ == 0) {
        return AOT_DSP_OF(0);
    }
#endif
#endif
    (void)PC;
    (void)ROW;
    (void)CLIP;
    (void)WIDE;
    return RQ == 0 ? aot_dsp_job_float : RQ == 1 ? aot_dsp_job_integer : aot_dsp_job_fixed;
}

/* A job but for its pixels: `blocks` of four channels from `channel` on, whose w and bias these
 * are. */
AOT_INLINE void aot_dsp_job_init(aot_dsp_job *job, const aot_dsp_out *o, const int8_t *w,
                                 const int32_t *bias, int32_t channel, int32_t blocks, int RQ,
                                 int PC, int ROW, int CLIP, int WIDE) {
    job->bias = bias;
    job->w = w;
    job->blocks = blocks;
    job->zero = RQ == 2 ? 2 * o->zero + 1 : o->zero;
    if (PC != 0) {
        job->mult = o->mult + channel;
        job->shift = RQ == 0 ? NULL : o->shift + channel;
    } else {
        job->mult = (const void *)(intptr_t)o->mult[0];
        job->shift = RQ == 0 ? NULL : (const void *)(intptr_t)(-o->shift[0] - 1);
    }
    if (CLIP != 0) {
        job->lo = ((uint32_t)o->lo & 0xFFU) * 0x01010101U;
        job->hi = ((uint32_t)o->hi & 0xFFU) * 0x01010101U;
    }
#if AOT_DSP
    if (RQ == 2 || (RQ == 0 && AOT_DSP_FPU)) {
        return;
    }
#endif
    job->out = *o;
    job->out.mult += PC ? channel : 0;
    if (PC && RQ != 0) { /* otherwise shift may be NULL, to which C adds nothing, not even 0 */
        job->out.shift += channel;
    }
    job->PC = (int8_t)PC;
    job->ROW = (int8_t)ROW;
    job->WIDE = (int8_t)WIDE;
}

#endif /* AOT_DSP_PIXELS_H */
