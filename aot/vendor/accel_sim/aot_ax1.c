/* SPDX-License-Identifier: MIT-0 */
#include "aot_ax1.h"

#include <stddef.h>

#include "aot/port.h"
#include "ax1_driver.h"

/* A board that can sleep is woken by the machine's interrupt; elsewhere its status is polled. */
#ifdef AX1_BOARD
#define AOT_AX1_IRQ 1
#define AOT_AX1_WAIT AX1_SLEEP
#else
#define AOT_AX1_IRQ 0
#define AOT_AX1_WAIT AX1_POLL
#endif

/* Looks or wake-ups until a program that does not end is aborted. */
#ifndef AOT_AX1_LIMIT
#define AOT_AX1_LIMIT 4000000000U
#endif

static unsigned char aot_ax1_lock;
static ax1_memory aot_ax1_regions[AX1_REGIONS];
/* What an empty region points to. */
static const uint32_t aot_ax1_nothing[4] = {0, 0, 0, 0};

static int aot_ax1_intact(const void *data, int32_t bytes, int32_t crc) {
    return bytes == 0 || AX1_NAME(driver_checksum)(data, (uint32_t)bytes) == (uint32_t)crc;
}

aot_status AX1_NAME(aot_open)(void **slot, const void *commands, const void *weights,
                              const ax1v1_64_aot_open_params *p) {
    *slot = NULL;
    if (AX1_READ(AX1_REG_ID) != AX1_ID_VALUE ||
        AX1_READ(AX1_REG_CFG) != ((uint32_t)AX1_MACS | (uint32_t)AX1_VERSION << 16) ||
        !aot_ax1_intact(commands, p->commands, p->commands_crc) ||
        !aot_ax1_intact(weights, p->weights, p->weights_crc)) {
        return AOT_VENDOR;
    }
    return AOT_OK;
}

void AX1_NAME(aot_close)(void **slot) {
    *slot = NULL;
}

static aot_status aot_ax1_execute(const void *const *places, const ax1v1_64_aot_run_params *p) {
    uint32_t r;
    for (r = 0; r < (uint32_t)p->count; ++r) {
        aot_ax1_regions[r].base = places[r] != NULL ? places[r] : (const void *)aot_ax1_nothing;
        aot_ax1_regions[r].bytes = (uint32_t)p->bytes[r];
        aot_ax1_regions[r].attr = (uint32_t)p->attr[r];
    }
    if (AX1_NAME(driver_start)(aot_ax1_regions, (uint32_t)p->count, 0U, AOT_AX1_IRQ, NULL, NULL) !=
        AX1_OK) {
        return AOT_VENDOR;
    }
    return AX1_NAME(driver_wait)(AOT_AX1_WAIT, AOT_AX1_LIMIT) == AX1_OK ? AOT_OK : AOT_VENDOR;
}

aot_status AX1_NAME(aot_run)(void **slot, const void *commands, const void *weights,
                             const void *scratch, const void *r3, const void *r4, const void *r5,
                             const void *r6, const void *r7, const ax1v1_64_aot_run_params *p) {
    const void *const places[AX1_REGIONS] = {commands, weights, scratch, r3, r4, r5, r6, r7};
    aot_status status;
    (void)slot;
    if (p->count < 1 || p->count > AX1_REGIONS) {
        return AOT_VENDOR;
    }
    while (!AOT_TRY_LOCK(&aot_ax1_lock)) {
        /* another thread's program runs */
    }
    status = aot_ax1_execute(places, p);
    AOT_UNLOCK(&aot_ax1_lock);
    return status;
}
