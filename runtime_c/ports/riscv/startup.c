/* SPDX-License-Identifier: MIT-0 */
/* Start-up, fault reports, semihosting and an instruction counter for RISC-V in machine mode. */
#include "board.h"

/* Compilers differ in whether -march=rv32imac includes the CSR instructions. */
#define WITH_CSR(text) ".option push\n.option arch, +zicsr\n" text ".option pop\n"

#ifdef __riscv_vector
#define UNITS "0x2200" /* mstatus.FS and VS */
#else
#define UNITS "0x2000" /* mstatus.FS */
#endif
#ifdef __riscv_flen
#define FPU_ON                                                                                     \
    "li t0, " UNITS "\n"                                                                           \
    "csrs mstatus, t0\n"                                                                           \
    "csrw fcsr, zero\n"
#else
#define FPU_ON ""
#endif

/* -- Reset ----------------------------------------------------------------------------------------
 */

void aot_reset(void);
void aot_trap_entry(void);

__attribute__((naked, used, section(".vectors"))) void aot_reset(void) {
    __asm__ volatile(WITH_CSR(".option norelax\n"
                              "la gp, __global_pointer$\n"
                              ".option relax\n"
                              "la sp, aot_stack_top\n"
                              "la tp, aot_tls_start\n"
                              "la t0, aot_trap_entry\n"
                              "csrw mtvec, t0\n" FPU_ON "call aot_start\n"));
}

/* -- Semihosting ---------------------------------------------------------------------------------
 */

/* The three instructions must be uncompressed and in one page. */
intptr_t aot_semihost(intptr_t operation, const void *arguments) {
    register intptr_t a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = arguments;
    __asm__ volatile(".option push\n"
                     ".option norvc\n"
                     ".balign 16\n"
                     "slli x0, x0, 0x1f\n"
                     "ebreak\n"
                     "srai x0, x0, 7\n"
                     ".option pop\n"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
}

/* -- Counter ------------------------------------------------------------------------------------
 */

static uint64_t start;

void aot_count_start(void) {
    start = 0;
    start = aot_count();
}

uint64_t aot_count(void) {
#if __riscv_xlen == 64
    uint64_t value;
    __asm__ volatile(WITH_CSR("csrr %0, minstret\n") : "=r"(value));
    return value - start;
#else
    uint32_t low, high, again;
    do {
        __asm__ volatile(WITH_CSR("csrr %0, minstreth\n") : "=r"(high));
        __asm__ volatile(WITH_CSR("csrr %0, minstret\n") : "=r"(low));
        __asm__ volatile(WITH_CSR("csrr %0, minstreth\n") : "=r"(again));
    } while (high != again);
    return (((uint64_t)high << 32) | low) - start;
#endif
}

/* -- Faults ---------------------------------------------------------------------------------------
 */

__attribute__((naked, used, aligned(4))) void aot_trap_entry(void) {
    __asm__ volatile(WITH_CSR("mv a2, sp\n"
                              "mv a3, ra\n"
                              "csrr a0, mcause\n"
                              "csrr a1, mepc\n"
                              "csrr a4, mtval\n"
                              "j aot_fault\n"));
}

static void report(const char *name, uintptr_t value) {
    aot_print(name);
    aot_print_hex(value);
}

__attribute__((used)) void aot_fault(uintptr_t cause, uintptr_t pc, const uintptr_t *stack,
                                     uintptr_t lr, uintptr_t value) {
    /* `aotc run` says what the registers mean. */
    report("fault: mcause ", cause);
    report(" mtval ", value);
    report(" pc ", pc);
    report(" lr ", lr);
    aot_fault_end(stack);
}
