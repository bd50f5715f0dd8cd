/* SPDX-License-Identifier: MIT-0 */
#include "ax1_driver.h"

#ifdef AX1_BOARD_H /* else AX1_BOARD names a header of the program's own */

#if defined(__arm__) || defined(__riscv)
#define AX1_AT(address) (*(volatile uint32_t *)(uintptr_t)(address))

static void ax1_raise(void *user);

/* Whether the machine still needs time, which an interrupt that nobody expected must not stop. */
static int ax1_runs(void) {
    return (AX1_READ(AX1_REG_STATUS) & AX1_STATUS_BUSY) != 0U;
}

static void ax1_take_over(void) {
    AX1_NAME(sim_stepped)(1);
    AX1_NAME(sim_interrupt)(ax1_raise, (void *)0);
}
#endif

#if defined(__arm__)
#define AX1_VTOR AX1_AT(0xE000ED08U)
#define AX1_NVIC_ENABLE AX1_AT(0xE000E100U)
#define AX1_NVIC_PEND AX1_AT(0xE000E200U)
#define AX1_TIMER 0x40000000U
#define AX1_TIMER_IRQ 8U
#define AX1_VECTORS 48

typedef void ax1_handler(void);

/* The core's handlers, then those of 32 interrupts. */
__attribute__((aligned(256))) static ax1_handler *ax1_vectors[AX1_VECTORS];

static void ax1_raise(void *user) {
    (void)user;
    AX1_NVIC_PEND = 1U << AX1_BOARD_IRQ;
}

static void ax1_timer(void) {
    AX1_AT(AX1_TIMER + 12U) = 1U; /* seen */
    AX1_NAME(sim_advance)(AX1_BOARD_CYCLES);
}

static void ax1_ended(void) {
    if (!ax1_runs()) {
        AX1_AT(AX1_TIMER) = 0U;
    }
    AX1_NAME(driver_isr)();
}

int AX1_NAME(board_held)(void) {
    uint32_t mask;
    __asm__ volatile("mrs %0, primask" : "=r"(mask));
    return (int)(mask & 1U);
}

void AX1_NAME(board_prepare)(void) {
    ax1_handler *const *old = (ax1_handler *const *)(uintptr_t)AX1_VTOR;
    int n;
    if (old != ax1_vectors) {
        for (n = 0; n < AX1_VECTORS; ++n) {
            ax1_vectors[n] = old[n < 16 ? n : 2]; /* unexpected ones as the NMI */
        }
        ax1_vectors[16U + AX1_TIMER_IRQ] = ax1_timer;
        ax1_vectors[16U + AX1_BOARD_IRQ] = ax1_ended;
        AX1_VTOR = (uint32_t)(uintptr_t)ax1_vectors;
        __asm__ volatile("dsb" ::: "memory");
        AX1_NVIC_ENABLE = 1U << AX1_TIMER_IRQ | 1U << AX1_BOARD_IRQ;
    }
    ax1_take_over();
}

void AX1_NAME(board_started)(void) {
    AX1_AT(AX1_TIMER + 4U) = AX1_BOARD_TICKS;
    AX1_AT(AX1_TIMER + 8U) = AX1_BOARD_TICKS;
    AX1_AT(AX1_TIMER) = 9U; /* enable, interrupt */
}

#elif defined(__riscv)
#define AX1_MSIP AX1_AT(0x02000000U)
#define AX1_TIME 0x0200BFF8U
#define AX1_TIME_END 0x02004000U

static void ax1_raise(void *user) {
    (void)user;
    AX1_MSIP = 1U;
}

/* The timer's next interrupt in `ticks`. */
static void ax1_next(uint64_t ticks) {
    uint32_t high, low;
    uint64_t end;
    do {
        high = AX1_AT(AX1_TIME + 4U);
        low = AX1_AT(AX1_TIME);
    } while (high != AX1_AT(AX1_TIME + 4U));
    end = ticks == 0U ? UINT64_MAX : ((uint64_t)high << 32 | low) + ticks;
    AX1_AT(AX1_TIME_END + 4U) = UINT32_MAX; /* none while it is changed */
    AX1_AT(AX1_TIME_END) = (uint32_t)end;
    AX1_AT(AX1_TIME_END + 4U) = (uint32_t)(end >> 32);
}

__attribute__((used)) uintptr_t AX1_NAME(board_faults); /* who handles exceptions */

__attribute__((interrupt("machine"), used)) void AX1_NAME(board_interrupt)(void);
void AX1_NAME(board_interrupt)(void) {
    uintptr_t cause;
    __asm__ volatile(AX1_CSR("csrr %0, mcause") : "=r"(cause));
    if ((cause & 0xFFU) == 7U) {
        ax1_next(AX1_BOARD_TICKS);
        AX1_NAME(sim_advance)(AX1_BOARD_CYCLES);
    } else {
        AX1_MSIP = 0U;
        if (!ax1_runs()) {
            ax1_next(0);
        }
        AX1_NAME(driver_isr)();
    }
}

#define AX1_TEXT2(name) #name
#define AX1_TEXT(name) AX1_TEXT2(name)
#if __riscv_xlen == 64
#define AX1_LOAD "ld"
#else
#define AX1_LOAD "lw"
#endif

void AX1_NAME(board_trap)(void);
__attribute__((naked, used, aligned(4))) void AX1_NAME(board_trap)(void) {
    __asm__ volatile(AX1_CSR(
        "csrw mscratch, t0\n"
        "csrr t0, mcause\n"
        "bltz t0, 1f\n"
        "la t0, " AX1_TEXT(AX1_NAME(board_faults)) "\n" AX1_LOAD " t0, 0(t0)\n"
                                                   "jr t0\n"
                                                   "1: csrr t0, mscratch\n"
                                                   "j " AX1_TEXT(AX1_NAME(board_interrupt))));
}

void AX1_NAME(board_prepare)(void) {
    const uintptr_t trap = (uintptr_t)&AX1_NAME(board_trap);
    uintptr_t old, sources;
    __asm__ volatile(AX1_CSR("csrr %0, mtvec") : "=r"(old));
    if (old != trap) {
        AX1_NAME(board_faults) = old;
        ax1_next(0);
        __asm__ volatile(AX1_CSR("csrw mtvec, %0")::"r"(trap));
        __asm__ volatile(AX1_CSR("csrrs %0, mie, %1") : "=r"(sources) : "r"((uintptr_t)0x88));
        if (sources == 0U) {
            __asm__ volatile(AX1_CSR("csrsi mstatus, 8"));
        }
    }
    ax1_take_over();
}

void AX1_NAME(board_started)(void) {
    ax1_next(AX1_BOARD_TICKS);
}

int AX1_NAME(board_held)(void) {
    uintptr_t state;
    __asm__ volatile(AX1_CSR("csrr %0, mstatus") : "=r"(state));
    return (state & 8U) == 0U;
}

#else
/* Hosts: a start runs to the end. */
void AX1_NAME(board_prepare)(void) {}
void AX1_NAME(board_started)(void) {}
int AX1_NAME(board_held)(void) {
    return 0;
}
#endif

#endif /* AX1_BOARD_H */
