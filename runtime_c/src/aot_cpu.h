/* SPDX-License-Identifier: MIT-0 */
/* Whether this CPU, and the system that saves its registers, has units that kernels use. What asks
 * is compiled without these units. */
#ifndef AOT_CPU_H
#define AOT_CPU_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif (defined(__aarch64__) || defined(__riscv)) && defined(__linux__)
#include <sys/auxv.h>
#endif

/* Registers of cpuid; the last one is XCR0, the registers that the system saves. */
enum { AOT_CPU_EAX, AOT_CPU_EBX, AOT_CPU_ECX, AOT_CPU_EDX, AOT_CPU_XCR0 };

/* Bits that must be set in one word that describes the CPU. x86-64: in register `place` of cpuid's
 * `leaf` and `subleaf`, or in XCR0, behind a row that asks for OSXSAVE. Elsewhere in entry
 * `leaf` of the auxiliary vector. */
typedef struct aot_cpu_need {
    uint32_t leaf;
    uint32_t subleaf;
    uint32_t place;
    uint32_t bits;
} aot_cpu_need;

/* The word that `need` is about; 0 if the CPU has no such word. */
static inline uint32_t aot_cpu_word(const aot_cpu_need *need) {
#if defined(__x86_64__)
    unsigned int words[4] = {0, 0, 0, 0};
    if (need->place == AOT_CPU_XCR0) {
        unsigned int low, high;
        /* xgetbv, which assemblers know by that name only where the unit is switched on */
        __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));
        (void)high;
        return low;
    }
    (void)__get_cpuid_count(need->leaf, need->subleaf, &words[0], &words[1], &words[2], &words[3]);
    return words[need->place];
#elif (defined(__aarch64__) || defined(__riscv)) && defined(__linux__)
    return (uint32_t)getauxval(need->leaf);
#else
    return need->bits; /* nobody to ask */
#endif
}

/* Whether all bits are set; rows behind the first one that fails are not looked at. */
static inline int aot_cpu_has(const aot_cpu_need *needs, size_t count) {
    size_t i;
    for (i = 0; i < count; ++i) {
        if ((aot_cpu_word(&needs[i]) & needs[i].bits) != needs[i].bits) {
            return 0;
        }
    }
    return 1;
}

#endif /* AOT_CPU_H */
