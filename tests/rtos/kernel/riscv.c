/* SPDX-License-Identifier: MIT-0 */
/* Tasks on RISC-V in machine mode: mtime makes the beat, `ecall` switches. A trap saves all
 * registers on the stack of its task and goes on in the stack that main() had. */
#include "kernel.h"

#define REG(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define MTIME_LOW REG(configMTIME_BASE_ADDRESS)
#define MTIME_HIGH REG(configMTIME_BASE_ADDRESS + 4U)
#define MTIMECMP_LOW REG(configMTIMECMP_BASE_ADDRESS)
#define MTIMECMP_HIGH REG(configMTIMECMP_BASE_ADDRESS + 4U)
#define PERIOD (configCPU_CLOCK_HZ / configTICK_RATE_HZ)

/* Compilers differ in whether -march=rv32imac includes the CSR instructions. */
#define WITH_CSR(text) ".option push\n.option arch, +zicsr\n" text "\n.option pop\n"

#define FRAME                                                                                      \
    32 /* words: mepc, x1, mstatus, x5 to x31, and two to make it a multiple of 16 bytes */
#define MSTATUS_OF_TASK 0x1880U /* machine mode; interrupts on after mret */
#define INTERRUPT 0x80000000U
#define BY_TIMER (INTERRUPT | 7U)
#define BY_ECALL 11U

void freertos_risc_v_trap_handler(void);
void freertos_risc_v_application_interrupt_handler(uint32_t cause);
void freertos_risc_v_application_exception_handler(uint32_t cause);

void port_mask(void) {
    __asm__ volatile(WITH_CSR("csrci mstatus, 8")::: "memory");
}

void port_unmask(void) {
    __asm__ volatile(WITH_CSR("csrsi mstatus, 8")::: "memory");
}

/* In an interrupt a switch happens at its end. */
static volatile uint8_t in_trap, wanted;

void kernel_yield(void) {
    if (in_trap) {
        wanted = 1;
    } else {
        __asm__ volatile("ecall" ::: "memory");
    }
}

static void ended(void) {
    for (;;) { /* a task must not return */
    }
}

StackType_t *port_frame(StackType_t *end, TaskFunction_t code, void *argument,
                        const StackType_t *base) {
    StackType_t *top = (StackType_t *)((uintptr_t)end & ~(uintptr_t)15) - FRAME;
    (void)base;
    top[0] = (uintptr_t)code;
    top[1] = (uintptr_t)ended;
    top[2] = MSTATUS_OF_TASK;
    top[10] = (uintptr_t)argument; /* a0 */
    return top;
}

/* Word n of the frame is xn from 5 on. gp and tp are the same in all tasks. */
#define EACH(op)                                                                                   \
    op " x1, 4(sp)\n" op " x5, 20(sp)\n" op " x6, 24(sp)\n" op " x7, 28(sp)\n" op                  \
       " x8, 32(sp)\n" op " x9, 36(sp)\n" op " x10, 40(sp)\n" op " x11, 44(sp)\n" op               \
       " x12, 48(sp)\n" op " x13, 52(sp)\n" op " x14, 56(sp)\n" op " x15, 60(sp)\n" op             \
       " x16, 64(sp)\n" op " x17, 68(sp)\n" op " x18, 72(sp)\n" op " x19, 76(sp)\n" op             \
       " x20, 80(sp)\n" op " x21, 84(sp)\n" op " x22, 88(sp)\n" op " x23, 92(sp)\n" op             \
       " x24, 96(sp)\n" op " x25, 100(sp)\n" op " x26, 104(sp)\n" op " x27, 108(sp)\n" op          \
       " x28, 112(sp)\n" op " x29, 116(sp)\n" op " x30, 120(sp)\n" op " x31, 124(sp)\n"

__attribute__((naked, aligned(4))) void freertos_risc_v_trap_handler(void) {
    __asm__ volatile(WITH_CSR(
        "addi sp, sp, -128\n" EACH("sw") "csrr t0, mepc\n"
                                         "sw t0, 0(sp)\n"
                                         "csrr t0, mstatus\n"
                                         "sw t0, 8(sp)\n"
                                         "mv a0, sp\n"
                                         "csrr a1, mcause\n"
                                         "la sp, aot_stack_top\n"
                                         "call kernel_trap\n"
                                         "mv sp, a0\n"
                                         "lw t0, 0(sp)\n"
                                         "csrw mepc, t0\n"
                                         "lw t0, 8(sp)\n"
                                         "csrw mstatus, t0\n" EACH("lw") "addi sp, sp, 128\n"
                                                                         "mret\n"));
}

static uint64_t next;

/* The compare register must not hold a time of the past in between. */
static void tick_at(uint64_t time) {
    MTIMECMP_HIGH = UINT32_MAX;
    MTIMECMP_LOW = (uint32_t)time;
    MTIMECMP_HIGH = (uint32_t)(time >> 32);
}

__attribute__((used)) StackType_t *kernel_trap(StackType_t *top, uint32_t cause);
StackType_t *kernel_trap(StackType_t *top, uint32_t cause) {
    in_trap = 1;
    wanted = 0;
    if (cause == BY_TIMER) {
        next += PERIOD;
        tick_at(next);
        wanted |= kernel_tick() != 0;
    } else if (cause == BY_ECALL) {
        top[0] += 4; /* behind the instruction */
        wanted = 1;
    } else if ((cause & INTERRUPT) != 0) {
        freertos_risc_v_application_interrupt_handler(cause);
    } else {
        freertos_risc_v_application_exception_handler(cause);
    }
    in_trap = 0;
    return wanted ? kernel_switch(top) : top;
}

void port_start(void) {
    uint32_t high;
    do {
        high = MTIME_HIGH;
        next = (uint64_t)high << 32 | MTIME_LOW;
    } while (high != MTIME_HIGH);
    next += PERIOD;
    tick_at(next);
    __asm__ volatile(WITH_CSR("csrs mie, %0")::"r"(0x80));
    kernel_yield();
}
