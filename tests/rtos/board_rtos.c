/* SPDX-License-Identifier: MIT-0 */
#include "board_rtos.h"

#include "FreeRTOS.h"
#include "board.h"

#define REG(address) (*(volatile uint32_t *)(uintptr_t)(address))

__attribute__((weak)) void device_interrupt(void) {}

#ifdef __riscv

#define MSIP REG(0x02000000U) /* the software interrupt of the core */
#define BY_SOFTWARE 0x80000003U
#define WITH_CSR(text) ".option push\n.option arch, +zicsr\n" text "\n.option pop\n"

void freertos_risc_v_trap_handler(void);
void freertos_risc_v_application_interrupt_handler(uint32_t cause);
void freertos_risc_v_application_exception_handler(uint32_t cause);

void board_take_over(void) {
    const uintptr_t handler = (uintptr_t)&freertos_risc_v_trap_handler;
    __asm__ volatile(WITH_CSR("csrw mtvec, %0\n\tcsrs mie, %1")::"r"(handler), "r"(8));
}

uint32_t board_clock(void) {
    return REG(configMTIME_BASE_ADDRESS);
}

void board_interrupt(void) {
    MSIP = 1;
}

void freertos_risc_v_application_interrupt_handler(uint32_t cause) {
    if (cause == BY_SOFTWARE) {
        MSIP = 0;
        device_interrupt();
    }
}

void freertos_risc_v_application_exception_handler(uint32_t cause) {
    aot_print("fault: mcause ");
    aot_print_hex(cause);
    aot_print("\n");
    aot_exit(1);
}

#else

#if defined(__ARM_ARCH_8M_MAIN__)
#define TIMER 0x50001000U /* CMSDK timer 1 of MPS2, seen by secure code */
#else
#define TIMER 0x40001000U
#endif
#define VTOR REG(0xE000ED08U)
#define NVIC_ENABLE REG(0xE000E100U)
#define NVIC_PEND REG(0xE000E200U)
#define NVIC_PRIORITY(n) (*(volatile uint8_t *)(uintptr_t)(0xE000E400U + (n)))
#define DEVICE 31U /* an interrupt that no device of the board raises */

typedef void handler(void);
extern handler *const aot_vectors[16];
void PendSV_Handler(void);
void SysTick_Handler(void);
__attribute__((weak)) void SVC_Handler(void);

__attribute__((aligned(256))) static handler *vectors[16 + DEVICE + 1];

void board_take_over(void) {
    int n;
    for (n = 0; n < 16; ++n) {
        vectors[n] = aot_vectors[n];
    }
    vectors[11] = SVC_Handler;
    vectors[14] = PendSV_Handler;
    vectors[15] = SysTick_Handler;
    vectors[16 + DEVICE] = device_interrupt;
    VTOR = (uint32_t)(uintptr_t)vectors;
    NVIC_PRIORITY(DEVICE) = 0xFF; /* as the kernel's own */
    NVIC_ENABLE = 1U << DEVICE;
    REG(TIMER + 8) = UINT32_MAX; /* reload */
    REG(TIMER + 4) = UINT32_MAX;
    REG(TIMER) = 1;
}

uint32_t board_clock(void) {
    return ~REG(TIMER + 4); /* it counts down */
}

void board_interrupt(void) {
    NVIC_PEND = 1U << DEVICE;
}

#endif
