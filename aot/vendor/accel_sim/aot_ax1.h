/* SPDX-License-Identifier: MIT-0 */
/* How a compiled model uses AX1: one call per program. The machines of 64, 256 and 512 MAC/cycle
 * have functions of their own, so models for all of them can be in one program. */
#ifndef AOT_AX1_H
#define AOT_AX1_H

#include <stdint.h>

#include "aot/aot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes and CRC-32 of the commands and of the constants of a program. */
typedef struct ax1v1_64_aot_open_params {
    int32_t commands;
    int32_t commands_crc;
    int32_t weights;
    int32_t weights_crc;
} ax1v1_64_aot_open_params;

/* The regions of a program: 0 the commands, 1 constants, 2 scratch, then inputs and outputs.
 * `attr`: 1 flash, 2 may be written (AX1_ATTR_...). */
typedef struct ax1v1_64_aot_run_params {
    int32_t count;
    int32_t bytes[8];
    int32_t attr[8];
} ax1v1_64_aot_run_params;

typedef ax1v1_64_aot_open_params ax1v1_256_aot_open_params;
typedef ax1v1_64_aot_open_params ax1v1_512_aot_open_params;
typedef ax1v1_64_aot_run_params ax1v1_256_aot_run_params;
typedef ax1v1_64_aot_run_params ax1v1_512_aot_run_params;
typedef ax1v1_64_aot_run_params ax1v1_64_aot_start_params;
typedef ax1v1_64_aot_run_params ax1v1_256_aot_start_params;
typedef ax1v1_64_aot_run_params ax1v1_512_aot_start_params;

/* What a trace shows behind a start are results. */
#ifdef AOT_TRACE
#define ax1v1_64_aot_start ax1v1_64_aot_run
#define ax1v1_256_aot_start ax1v1_256_aot_run
#define ax1v1_512_aot_start ax1v1_512_aot_run
#endif

/* open: the machine is there, commands and constants are what the compiler wrote; close: nothing.
 *
 * run: starts the program, waits for its end. AOT_VENDOR if it stopped with a fault or nobody
 * answers.
 * start, wait: the same in two steps, other calls in between; the memory of the regions belongs to
 * the machine until then. One program at a time has the machine: another start waits for its end.
 * `weights` and `scratch` may be NULL where their sizes are 0; regions past `count` are NULL. */
/* fault: what stopped the last program ("no fault"), the byte of its commands, and the byte of
 * memory that does not exist (0: none). */
#define AOT_AX1_DECLARE(macs)                                                                      \
    aot_status ax1v1_##macs##_aot_open(void **slot, const void *commands, const void *weights,     \
                                       const ax1v1_##macs##_aot_open_params *p);                   \
    void ax1v1_##macs##_aot_close(void **slot);                                                    \
    aot_status ax1v1_##macs##_aot_run(void **slot, const void *commands, const void *weights,      \
                                      const void *scratch, const void *r3, const void *r4,         \
                                      const void *r5, const void *r6, const void *r7,              \
                                      const ax1v1_##macs##_aot_run_params *p);                     \
    aot_status ax1v1_##macs##_aot_start(void **slot, const void *commands, const void *weights,    \
                                        const void *scratch, const void *r3, const void *r4,       \
                                        const void *r5, const void *r6, const void *r7,            \
                                        const ax1v1_##macs##_aot_run_params *p);                   \
    aot_status ax1v1_##macs##_aot_wait(void **slot, const void *scratch, const void *r3,           \
                                       const void *r4, const void *r5, const void *r6,             \
                                       const void *r7);                                            \
    const char *ax1v1_##macs##_aot_fault(uint32_t *pc, uint32_t *address);

AOT_AX1_DECLARE(64)
AOT_AX1_DECLARE(256)
AOT_AX1_DECLARE(512)

#ifdef __cplusplus
}
#endif

#endif /* AOT_AX1_H */
