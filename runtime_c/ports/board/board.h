/* SPDX-License-Identifier: MIT-0 */
/* What start-up code gives to a program on a board without operating system. */
#ifndef AOT_BOARD_H
#define AOT_BOARD_H

#include <stddef.h>
#include <stdint.h>

#define AOT_NORETURN __attribute__((noreturn))

/* -- From the linker script ------------------------------------------------------------------- */

extern unsigned char aot_code_start[], aot_code_end[];   /* instructions */
extern unsigned char aot_hot_start[], aot_hot_end[];     /* those copied to fast memory, */
extern const unsigned char aot_hot_load[];               /* and where from */
extern unsigned char aot_stack_limit[], aot_stack_top[]; /* the stack grows down */
extern unsigned char aot_data_start[], aot_data_end[];   /* initialised variables */
extern const unsigned char aot_data_load[];              /* their initial values */
extern unsigned char aot_bss_start[], aot_bss_end[];     /* zeroed variables */
extern unsigned char aot_arena_start[], aot_arena_end[]; /* the built-in arena, zeroed too */

/* -- From the port ---------------------------------------------------------------------------- */

/* Ask the debugger or emulator; -1 where there is none. */
intptr_t aot_semihost(intptr_t operation, const void *arguments);

/* Counts instructions under QEMU's -icount shift=0, in ticks of the target's `tick_hz`. */
void aot_count_start(void);
uint64_t aot_count(void);

/* -- In semihost.c ---------------------------------------------------------------------------- */

void aot_print(const char *text);    /* to the debugger's console */
void aot_print_hex(uintptr_t value); /* 0x0000002a */
void aot_print_decimal(uint32_t value);
char *aot_hex(char *end, uint64_t value); /* writes backwards, gives the first character */
AOT_NORETURN void aot_exit(int code);     /* QEMU's own exit status */

/* Prepare memory, then main; the port calls it with a stack and enabled coprocessors. */
AOT_NORETURN void aot_start(void);

/* End of a fault report: who called whom, as far as the stack tells, then exit. */
AOT_NORETURN void aot_fault_end(const uintptr_t *stack);

#endif /* AOT_BOARD_H */
