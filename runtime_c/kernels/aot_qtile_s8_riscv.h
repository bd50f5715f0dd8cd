/* SPDX-License-Identifier: MIT-0 */
/* The tile of aot_qtile_s8.h with two pixels and eight channels, for RISC-V with multiplication. */
#ifndef AOT_QTILE_S8_RISCV_H
#define AOT_QTILE_S8_RISCV_H

#include "aot_qtile_s8_job.h"

#if defined(__riscv) && defined(__riscv_mul) && !defined(__riscv_32e) && defined(__GNUC__)
#define AOT_QTILE_RISCV 1

#define AOT_QT_CHANNEL(W, A, B)                                                                    \
    "lb a5," W "(%[w])\n"                                                                          \
    "mul t0,a5,a3\n"                                                                               \
    "mul a5,a5,a4\n"                                                                               \
    "add " A "," A ",t0\n"                                                                         \
    "add " B "," B ",a5\n"
#define AOT_QT_STEP(K, W0, W1, W2, W3, W4, W5, W6, W7)                                             \
    "lb a3, " K "(%[p])\n"                                                                         \
    "lb a4, " K "(%[q])\n" AOT_QT_CHANNEL(W0, "s2", "s3") AOT_QT_CHANNEL(W1, "s4", "s5")           \
        AOT_QT_CHANNEL(W2, "s6", "s7") AOT_QT_CHANNEL(W3, "s8", "s9")                              \
            AOT_QT_CHANNEL(W4, "s10", "s11") AOT_QT_CHANNEL(W5, "a6", "a7")                        \
                AOT_QT_CHANNEL(W6, "t3", "t4") AOT_QT_CHANNEL(W7, "t5", "t6")

/* All products of two pixels and eight channels, in an order of instructions that keeps every sum
 * in a register (compilers spill some). */
AOT_INLINE void aot_qtile_s8_riscv(aot_qtile_job *j, const int8_t *p, const int8_t *q,
                                   const int8_t *w, const int32_t *bias) {
    /* clang-format off */
    __asm__ volatile(
        "lw s2, 0(%[i])\nmv s3, s2\n"
        "lw s4, 4(%[i])\nmv s5, s4\n"
        "lw s6, 8(%[i])\nmv s7, s6\n"
        "lw s8, 12(%[i])\nmv s9, s8\n"
        "lw s10, 16(%[i])\nmv s11, s10\n"
        "lw a6, 20(%[i])\nmv a7, a6\n"
        "lw t3, 24(%[i])\nmv t4, t3\n"
        "lw t5, 28(%[i])\nmv t6, t5\n"
        "0: lw t1, 64(%[j])\n"
        "add t1, t1, %[w]\n"
        "beq t1, %[w], 2f\n"
        "1:\n"
        AOT_QT_STEP("0", "0", "1", "2", "3", "4", "5", "6", "7")
        AOT_QT_STEP("1", "8", "9", "10", "11", "12", "13", "14", "15")
        AOT_QT_STEP("2", "16", "17", "18", "19", "20", "21", "22", "23")
        AOT_QT_STEP("3", "24", "25", "26", "27", "28", "29", "30", "31")
        "addi %[p], %[p], 4\n"
        "addi %[q], %[q], 4\n"
        "addi %[w], %[w], 32\n"
        "bne %[w], t1, 1b\n"
        "2: lw t1, 68(%[j])\n"
        "add t1, t1, %[w]\n"
        "beq t1, %[w], 4f\n"
        "3:\n"
        AOT_QT_STEP("0", "0", "1", "2", "3", "4", "5", "6", "7")
        "addi %[p], %[p], 1\n"
        "addi %[q], %[q], 1\n"
        "addi %[w], %[w], 8\n"
        "bne %[w], t1, 3b\n"
        "4: lw t0, 72(%[j])\n"
        "add %[p], %[p], t0\n"
        "add %[q], %[q], t0\n"
        "lw t0, 76(%[j])\n"
        "addi t0, t0, -1\n"
        "sw t0, 76(%[j])\n"
        "bnez t0, 0b\n"
        "sw s2, 0(%[j])\nsw s3, 32(%[j])\n"
        "sw s4, 4(%[j])\nsw s5, 36(%[j])\n"
        "sw s6, 8(%[j])\nsw s7, 40(%[j])\n"
        "sw s8, 12(%[j])\nsw s9, 44(%[j])\n"
        "sw s10, 16(%[j])\nsw s11, 48(%[j])\n"
        "sw a6, 20(%[j])\nsw a7, 52(%[j])\n"
        "sw t3, 24(%[j])\nsw t4, 56(%[j])\n"
        "sw t5, 28(%[j])\nsw t6, 60(%[j])\n"
        : [p] "+r"(p), [q] "+r"(q), [w] "+r"(w)
        : [j] "r"(j), [i] "r"(bias)
        : "memory", "a3", "a4", "a5", "t0", "t1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9",
          "s10", "s11", "a6", "a7", "t3", "t4", "t5", "t6");
    /* clang-format on */
}
#else
#define AOT_QTILE_RISCV 0
#endif

#undef AOT_QT_CHANNEL
#undef AOT_QT_STEP

#endif /* AOT_QTILE_S8_RISCV_H */
