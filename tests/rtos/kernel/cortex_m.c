/* SPDX-License-Identifier: MIT-0 */
/* Tasks on Arm Cortex-M: SysTick makes the beat, PendSV switches when no other handler runs. A task
 * has the process stack; handlers, and main() before the scheduler starts, have the main stack. */
#include "kernel.h"

#define REG(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define SYST_CSR REG(0xE000E010U)
#define SYST_RVR REG(0xE000E014U)
#define SYST_CVR REG(0xE000E018U)
#define ICSR REG(0xE000ED04U)
#define SHPR3 REG(0xE000ED20U)

#define ICSR_PENDSVSET (1U << 28)
#define LOWEST 0xFFFF0000U    /* priority of SysTick and PendSV */
#define TO_THREAD 0xFFFFFFFDU /* the return of a handler to a task without registers of the FPU */
#define THUMB 0x01000000U     /* xPSR */

void PendSV_Handler(void);
void SysTick_Handler(void);

void port_mask(void) {
    __asm__ volatile("cpsid i" ::: "memory");
}

void port_unmask(void) {
    __asm__ volatile("cpsie i\n\tisb" ::: "memory");
}

void kernel_yield(void) {
    ICSR = ICSR_PENDSVSET;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}

static void ended(void) {
    for (;;) { /* a task must not return */
    }
}

StackType_t *port_frame(StackType_t *end, TaskFunction_t code, void *argument,
                        const StackType_t *base) {
    StackType_t *top = (StackType_t *)((uintptr_t)end & ~(uintptr_t)7);
    (void)base;
    *--top = THUMB;
    *--top = (uintptr_t)code & ~(uintptr_t)1;
    *--top = (uintptr_t)ended;
    top -= 5; /* r12, r3 to r0 */
    *top = (uintptr_t)argument;
    *--top = TO_THREAD;
    return top - 8; /* r11 to r4 */
}

#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
#define SET_LIMIT() __asm__ volatile("msr psplim, %0" ::"r"(kernel_limit()))
#else
#define SET_LIMIT() ((void)0)
#endif

#ifdef __ARM_FP
#define SAVE_FPU "tst lr, #16\n\tit eq\n\tvstmdbeq r0!, {s16-s31}\n"
#define LOAD_FPU "tst lr, #16\n\tit eq\n\tvldmiaeq r0!, {s16-s31}\n"
#else
#define SAVE_FPU ""
#define LOAD_FPU ""
#endif

/* The core saves r0 to r3, r12, lr, pc and the state; of the FPU s0 to s15 if the task has used it,
 * as bit 4 of lr tells. */
__attribute__((naked)) void PendSV_Handler(void) {
    __asm__ volatile("mrs r0, psp\n" SAVE_FPU "stmdb r0!, {r4-r11, lr}\n"
                     "bl kernel_masked_switch\n"
                     "ldmia r0!, {r4-r11, lr}\n" LOAD_FPU "msr psp, r0\n"
                     "bx lr\n");
}

__attribute__((used)) StackType_t *kernel_masked_switch(StackType_t *top);
StackType_t *kernel_masked_switch(StackType_t *top) {
    port_mask();
    top = kernel_switch(top);
    SET_LIMIT();
    port_unmask();
    return top;
}

void SysTick_Handler(void) {
    port_mask();
    if (kernel_tick()) {
        ICSR = ICSR_PENDSVSET;
    }
    port_unmask();
}

void port_start(void) {
    static StackType_t nobody[32]; /* for the registers of main(), which does not go on */
    __asm__ volatile("msr psp, %0" ::"r"(nobody + 32));
    SHPR3 = LOWEST;
    SYST_RVR = configCPU_CLOCK_HZ / configTICK_RATE_HZ - 1;
    SYST_CVR = 0;
    SYST_CSR = 7; /* processor clock, interrupt, enable */
    kernel_yield();
}
