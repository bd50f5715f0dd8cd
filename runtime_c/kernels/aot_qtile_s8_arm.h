/* SPDX-License-Identifier: MIT-0 */
/* Tiles of aot_qtile_s8.h for Arm cores without DSP instructions: two pixels times four channels
 * for Thumb-2, one pixel times four channels for Thumb-1.
 *
 * Both work in fixed registers. r7 is saved by hand: it may be the frame pointer. */
#ifndef AOT_QTILE_S8_ARM_H
#define AOT_QTILE_S8_ARM_H

#include "aot_qtile_s8_job.h"

#define AOT_QTILE_THUMB2 0
#define AOT_QTILE_THUMB1 0

#if defined(__GNUC__) && defined(__thumb__) && !defined(__ARM_NEON)
#if defined(__thumb2__)
#undef AOT_QTILE_THUMB2
#define AOT_QTILE_THUMB2 1

#define AOT_QT_CHANNEL(A, B)                                                                       \
    "ldrsb r0, [r3], #1\n"                                                                         \
    "mla " A ", r0, r12, " A "\n"                                                                  \
    "mla " B ", r0, lr, " B "\n"
#define AOT_QT_STEP                                                                                \
    "ldrsb r12, [r1], #1\n"                                                                        \
    "ldrsb lr, [r2], #1\n" AOT_QT_CHANNEL("r4", "r8") AOT_QT_CHANNEL("r5", "r9")                   \
        AOT_QT_CHANNEL("r6", "r10") AOT_QT_CHANNEL("r7", "r11")

AOT_INLINE void aot_qtile_s8_thumb2(aot_qtile_job *job) {
    register aot_qtile_job *j __asm__("r0") = job;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        "push {r4-r11, lr}\n"
        "push {r0, r1}\n"            /* sp: the job, the end of the weights */
        "ldr r1, [r0, #80]\n"
        "ldr r2, [r0, #84]\n"
        "ldr r3, [r0, #88]\n"
        "ldr r12, [r0, #92]\n"
        "ldm r12, {r4-r7}\n"
        "mov r8, r4\n"
        "mov r9, r5\n"
        "mov r10, r6\n"
        "mov r11, r7\n"
        "0: ldr r12, [r0, #64]\n"
        "cmp r12, #0\n"
        "beq 2f\n"
        "add r12, r12, r3\n"
        "str r12, [sp, #4]\n"
        "1:\n"
        AOT_QT_STEP
        AOT_QT_STEP
        AOT_QT_STEP
        AOT_QT_STEP
        "ldr r0, [sp, #4]\n"
        "cmp r0, r3\n"
        "bne 1b\n"
        "ldr r0, [sp]\n"
        "2: ldr r12, [r0, #68]\n"
        "cmp r12, #0\n"
        "beq 4f\n"
        "add r12, r12, r3\n"
        "str r12, [sp, #4]\n"
        "3:\n"
        AOT_QT_STEP
        "ldr r0, [sp, #4]\n"
        "cmp r0, r3\n"
        "bne 3b\n"
        "4: ldr r0, [sp]\n"
        "ldr r12, [r0, #72]\n"
        "add r1, r1, r12\n"
        "add r2, r2, r12\n"
        "ldr r12, [r0, #76]\n"
        "subs r12, r12, #1\n"
        "str r12, [r0, #76]\n"
        "bne 0b\n"
        "stm r0, {r4-r11}\n"
        "add sp, sp, #8\n"
        "pop {r4-r11, lr}\n"
        : "+r"(j)
        :
        : "r1", "r2", "r3", "r12", "cc", "memory");
    /* clang-format on */
}
#else
#undef AOT_QTILE_THUMB1
#define AOT_QTILE_THUMB1 1

#define AOT_QT_CHANNEL(W, SUM)                                                                     \
    "ldrsb r0, [" W ", r7]\n"                                                                      \
    "muls r0, r6, r0\n"                                                                            \
    "add " SUM ", r0\n"

AOT_INLINE void aot_qtile_s8_thumb1(aot_qtile_job *job) {
    register aot_qtile_job *j __asm__("r0") = job;
    /* clang-format off */
    __asm__ volatile(
        ".syntax unified\n"
        "push {r0, r7}\n"
        "ldr r1, [r0, #92]\n"
        "ldm r1!, {r2-r5}\n"
        "mov r8, r2\n"
        "mov r9, r3\n"
        "mov r10, r4\n"
        "mov r11, r5\n"
        "0: ldr r7, [r0, #64]\n"     /* the run; every pointer is to the end of its row */
        "ldr r1, [r0, #80]\n"
        "adds r1, r1, r7\n"
        "ldr r2, [r0, #88]\n"
        "adds r2, r2, r7\n"
        "adds r3, r2, r7\n"
        "adds r4, r3, r7\n"
        "adds r5, r4, r7\n"
        "str r5, [r0, #88]\n"
        "ldr r6, [r0, #72]\n"
        "adds r6, r6, r1\n"
        "str r6, [r0, #80]\n"
        "rsbs r7, r7, #0\n"
        "1: ldrsb r6, [r1, r7]\n"
        AOT_QT_CHANNEL("r2", "r8")
        AOT_QT_CHANNEL("r3", "r9")
        AOT_QT_CHANNEL("r4", "r10")
        AOT_QT_CHANNEL("r5", "r11")
        "adds r7, r7, #1\n"
        "bne 1b\n"
        "ldr r0, [sp]\n"
        "ldr r6, [r0, #76]\n"
        "subs r6, r6, #1\n"
        "str r6, [r0, #76]\n"
        "bne 0b\n"
        "mov r1, r8\n"
        "mov r2, r9\n"
        "mov r3, r10\n"
        "mov r4, r11\n"
        "stm r0!, {r1-r4}\n"
        "pop {r0, r7}\n"
        : "+r"(j)
        :
        : "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "cc", "memory");
    /* clang-format on */
}
#endif
#endif

#undef AOT_QT_CHANNEL
#undef AOT_QT_STEP

#endif /* AOT_QTILE_S8_ARM_H */
