/* SPDX-License-Identifier: MIT-0 */
/* The simulated accelerator on boards: AX1_BOARD for the Cortex-M boards with CMSDK timers (QEMU's
 * mps2-an385, -an386, -an500) and for RISC-V machines with a CLINT (QEMU's virt).
 *
 * While a program runs that was started with irq, a timer interrupt moves the machine; its end
 * makes another interrupt pending in the interrupt controller, whose handler calls the driver's.
 * The core sleeps in between. Nothing else may use that timer.
 *
 * Interrupts that the caller holds back stay so; a wait then moves the machine itself. A RISC-V
 * core begins with interrupts held back: the first start lets them through if no source of
 * interrupts (mie) is enabled, since nobody can be disturbed by it. */
#ifndef AX1_BOARD_H
#define AX1_BOARD_H

#include "ax1.h"

/* Cycles of the machine per interrupt of the timer, and how far apart these are, in its ticks. */
#ifndef AX1_BOARD_CYCLES
#define AX1_BOARD_CYCLES 2000U
#endif
#ifndef AX1_BOARD_TICKS
#define AX1_BOARD_TICKS 2000U
#endif

/* Interrupt number of the end of a program on Cortex-M: any that no device uses. */
#ifndef AX1_BOARD_IRQ
#define AX1_BOARD_IRQ 31U
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Takes the interrupts; before every start. */
void AX1_NAME(board_prepare)(void);
/* Lets time pass. */
void AX1_NAME(board_started)(void);
/* Whether the core holds interrupts back: 1, or 0. */
int AX1_NAME(board_held)(void);

#ifdef __cplusplus
}
#endif

#define AX1_PREPARE() AX1_NAME(board_prepare)()
#define AX1_STARTED() AX1_NAME(board_started)()
#if defined(__arm__)
#define AX1_WFI() __asm__ volatile("dsb\n\twfi" ::: "memory")
#define AX1_IRQ_HELD() AX1_NAME(board_held)()
#define AX1_IRQ_OFF() __asm__ volatile("cpsid i" ::: "memory")
#define AX1_IRQ_ON() __asm__ volatile("cpsie i\n\tisb" ::: "memory")
#elif defined(__riscv)
#define AX1_CSR(text) ".option push\n.option arch, +zicsr\n" text "\n.option pop\n"
#define AX1_WFI() __asm__ volatile("wfi" ::: "memory")
#define AX1_IRQ_HELD() AX1_NAME(board_held)()
#define AX1_IRQ_OFF() __asm__ volatile(AX1_CSR("csrci mstatus, 8")::: "memory")
#define AX1_IRQ_ON() __asm__ volatile(AX1_CSR("csrsi mstatus, 8")::: "memory")
#endif

#endif /* AX1_BOARD_H */
