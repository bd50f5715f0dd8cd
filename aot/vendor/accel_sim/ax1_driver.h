/* SPDX-License-Identifier: MIT-0 */
/* The driver of AX1 for programs without an operating system: start, wait, say what went wrong.
 *
 * Registers are those of the simulator (ax1.h), or of hardware where AX1_MMIO_BASE is defined as
 * the address of its registers. What depends on the core are macros, empty unless defined before
 * (for instance in the file that AX1_BOARD names; those of the cache are else those of port.h):
 *
 *   AX1_WFI()                      sleeps until an interrupt, also while they are held back
 *   AX1_IRQ_HELD()                 whether interrupts are held back now: nonzero, or 0
 *   AX1_IRQ_OFF() AX1_IRQ_ON()     hold interrupts back; let them through if not held before
 *   AX1_CLEAN(base, bytes)         writes the cache to memory before a start
 *   AX1_INVALIDATE(base, bytes)    drops the cache before results are read
 *   AX1_PREPARE() AX1_STARTED()    before and after a start with irq
 *   AX1_RELAX()                    once per look in a polling loop; moves the simulator's time
 */
#ifndef AX1_DRIVER_H
#define AX1_DRIVER_H

#include <stdint.h>

#include "ax1.h"

#ifdef AX1_BOARD
#include AX1_BOARD
#endif

#ifdef AX1_MMIO_BASE
#define AX1_REGISTER(offset)                                                                       \
    (*(volatile uint32_t *)((uintptr_t)(AX1_MMIO_BASE) + (uintptr_t)(offset)))
#define AX1_READ(offset) AX1_REGISTER(offset)
#define AX1_WRITE(offset, value) ((void)(AX1_REGISTER(offset) = (value)))
#else
#define AX1_READ(offset) AX1_NAME(mmio_read)(offset)
#define AX1_WRITE(offset, value) AX1_NAME(mmio_write)((offset), (value))
#endif

#ifndef AX1_WFI
#define AX1_WFI() AX1_RELAX()
#endif
#ifndef AX1_PREPARE
#define AX1_PREPARE() ((void)0)
#define AX1_STARTED() ((void)0)
#endif
#ifndef AX1_IRQ_OFF
#define AX1_IRQ_HELD() 0
#define AX1_IRQ_OFF() ((void)0)
#define AX1_IRQ_ON() ((void)0)
#endif
#ifndef AX1_IRQ_HELD
#error "AX1_IRQ_OFF needs AX1_IRQ_HELD beside it: without it interrupts would be let through"
#endif
#ifndef AX1_CLEAN
#include "aot/port.h"
#define AX1_CLEAN(base, bytes) aot_cache_clean(base, bytes)
#define AX1_INVALIDATE(base, bytes) aot_cache_invalidate(base, bytes)
#endif
#ifndef AX1_RELAX
#ifdef AX1_MMIO_BASE
#define AX1_RELAX() ((void)0)
#else
#define AX1_RELAX() AX1_NAME(sim_advance)(256U)
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A region of the program: `attr` is AX1_ATTR_FLASH and AX1_ATTR_WRITABLE. Region 0 holds the
 * commands; the program may leave it where it is, commands do not depend on addresses. */
typedef struct ax1_memory {
    const void *base;
    uint32_t bytes, attr;
} ax1_memory;

typedef enum ax1_result {
    AX1_OK = 0,
    AX1_RUNNING, /* not done yet; of start: somebody else's program runs */
    AX1_FAULTED, /* see ax1_report */
    AX1_TIMEOUT, /* it was aborted */
    AX1_ABSENT   /* no AX1 of this size and version at these registers */
} ax1_result;

/* How to wait. */
typedef enum ax1_wait_mode { AX1_POLL = 0, AX1_SLEEP = 1 } ax1_wait_mode;

/* What the last program left. `fault` is AX1_FAULT_..., `pc` the byte of the stream, `address` the
 * byte that does not exist (0: none); `status` of HALT. */
typedef struct ax1_report {
    uint32_t fault, pc, address, status;
    uint64_t cycles;
    uint32_t busy[4], stalled[4]; /* LD, EX, VX, ST */
} ax1_report;

/* Starts the program at byte `entry` of region 0. With `irq` its end raises the interrupt, whose
 * handler must call driver_isr. `done`, if not NULL, is called there, once. The regions must stay
 * valid until the program has ended; `count` <= AX1_REGIONS. */
ax1_result AX1_NAME(driver_start)(const ax1_memory *regions, uint32_t count, uint32_t entry,
                                  int irq, void (*done)(void *user), void *user);

/* AX1_RUNNING, or how it ended. */
ax1_result AX1_NAME(driver_poll)(void);

/* Waits for the end: AX1_POLL looks again and again, AX1_SLEEP sleeps between interrupts (the
 * program was started with irq). STATUS alone says what the end is: an interrupt of something else,
 * or of an earlier program, only wakes the core. After `limit` looks or wake-ups without an end (0:
 * never) the program is aborted. It never returns AX1_RUNNING. Interrupts may be held back by the
 * caller: they stay so, and `done` is then called when the caller lets them through. */
ax1_result AX1_NAME(driver_wait)(ax1_wait_mode mode, uint32_t limit);

/* The interrupt handler. While the program runs, and where no end is awaited, it lowers the
 * interrupt and does nothing else. */
void AX1_NAME(driver_isr)(void);

void AX1_NAME(driver_report)(ax1_report *report);

/* CRC-32 (of zlib, PNG, Ethernet) of commands or weights, to be compared once with what the
 * compiler wrote down: a flipped bit of an operand is a legal program that computes something else.
 */
uint32_t AX1_NAME(driver_checksum)(const void *data, uint32_t bytes);

/* English for AX1_FAULT_...; never NULL. */
const char *AX1_NAME(driver_text)(uint32_t fault);

#ifdef __cplusplus
}
#endif

#endif /* AX1_DRIVER_H */
