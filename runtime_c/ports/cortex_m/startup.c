/* SPDX-License-Identifier: MIT-0 */
/* Start-up, fault reports, semihosting and an instruction counter for Arm Cortex-M. */
#include "board.h"

#define REG(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define SYST_CSR REG(0xE000E010U)
#define SYST_RVR REG(0xE000E014U)
#define SYST_CVR REG(0xE000E018U)
#define ICSR REG(0xE000ED04U)
#define VTOR REG(0xE000ED08U)
#define CFSR REG(0xE000ED28U)
#define HFSR REG(0xE000ED2CU)
#define MMFAR REG(0xE000ED34U)
#define BFAR REG(0xE000ED38U)

#define ICSR_PENDSTSET (1U << 26)
#define HFSR_DEBUGEVT (1U << 31)
#define TICKS (1U << 24) /* of SysTick, which counts down */

/* -- Vectors and reset --------------------------------------------------------------------------
 */

void aot_reset(void);
static void fault_entry(void);
static void unexpected(void);
static void systick(void);

typedef void handler(void);

typedef struct vectors {
    void *stack;
    handler *handlers[15]; /* of the core; no device's interrupt is ever enabled */
} vectors;

__attribute__((section(".vectors"), used)) const vectors aot_vectors = {
    aot_stack_top,
    {aot_reset, unexpected /* NMI */, fault_entry /* hard fault */, fault_entry /* memory */,
     fault_entry /* bus */, fault_entry /* usage */, fault_entry /* secure */, unexpected,
     unexpected, unexpected, unexpected /* SVCall */, unexpected /* debug */, unexpected,
     unexpected /* PendSV */, systick}};

/* No instruction of the floating-point unit may run before it is enabled. */
__attribute__((naked, used)) void aot_reset(void) {
    __asm__ volatile("ldr r0, =aot_stack_top\n"
                     "mov sp, r0\n"
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
                     "ldr r0, =aot_stack_limit\n"
                     "msr msplim, r0\n"
#endif
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
                     "ldr r0, =0xE000ED88\n" /* CPACR: full access to coprocessors 10 and 11 */
                     "ldr r1, [r0]\n"
                     "movs r2, #15\n"
                     "lsls r2, r2, #20\n"
                     "orrs r1, r1, r2\n"
                     "str r1, [r0]\n"
                     "dsb\n"
                     "isb\n"
#endif
                     "bl aot_start\n"
                     ".ltorg\n");
}

/* -- Semihosting ---------------------------------------------------------------------------------
 */

intptr_t aot_semihost(intptr_t operation, const void *arguments) {
    register intptr_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = arguments;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

/* -- Counter ------------------------------------------------------------------------------------
 */

static volatile uint32_t wraps;

static void systick(void) {
    ++wraps;
}

void aot_count_start(void) {
#if !defined(__ARM_ARCH_6M__)
    VTOR = (uint32_t)(uintptr_t)&aot_vectors;
#endif
    wraps = 0;
    SYST_RVR = TICKS - 1;
    SYST_CVR = 0;
    SYST_CSR = 7;           /* processor clock, interrupt, enable */
    while (SYST_CVR == 0) { /* it starts with the next tick */
    }
}

uint64_t aot_count(void) {
    uint32_t before, value;
    do {
        before = wraps;
        value = SYST_CVR;
    } while (before != wraps || (ICSR & ICSR_PENDSTSET) != 0);
    return ((uint64_t)before << 24) + (TICKS - 1 - value);
}

/* -- Faults ---------------------------------------------------------------------------------------
 */

/* The handler gets a stack of its own: what is wrong may be the old one. */
__attribute__((naked, used)) static void fault_entry(void) {
    __asm__ volatile("mrs r0, msp\n"
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
                     "movs r1, #0\n"
                     "msr msplim, r1\n"
#endif
                     "mov r1, lr\n"
                     "bl aot_fault\n"
                     "mov sp, r0\n"
                     "bx r1\n");
}

typedef struct resumed {
    uint32_t *stack;
    uint32_t code;
} resumed;

static void report(const char *name, uint32_t value) {
    aot_print(name);
    aot_print_hex(value);
}

/* `stack` holds r0-r3, r12, lr, pc, psr; `code` is how to return. Returns only to go on. */
__attribute__((used)) uint64_t aot_fault(uint32_t *stack, uint32_t code) {
#if !defined(__ARM_ARCH_6M__)
    if ((HFSR & HFSR_DEBUGEVT) != 0) {
        /* Semihosting without a debugger: the call fails, the program goes on. */
        HFSR = HFSR_DEBUGEVT;
        stack[0] = 0xFFFFFFFFU;
        stack[6] += 2;
        return ((uint64_t)code << 32) | (uint32_t)(uintptr_t)stack;
    }
#endif
    (void)code;
    /* `aotc run` says what the registers mean. */
    aot_print("fault:");
#if !defined(__ARM_ARCH_6M__)
    report(" cfsr ", CFSR);
    report(" hfsr ", HFSR);
    if ((CFSR & 0x8080U) != 0) {
        report(" address ", (CFSR & 0x80U) != 0 ? MMFAR : BFAR);
    }
#endif
    report(" pc ", stack[6]);
    report(" lr ", stack[5]);
    aot_fault_end((const uintptr_t *)(stack + 8));
}

static void unexpected(void) {
    report("fault: interrupt ", ICSR & 0x1FFU);
    aot_print("\n");
    aot_exit(1);
}
