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
/* Where the result of the program under way goes: the slot that started it. */
static void **aot_ax1_owner;

/* What a slot holds: NULL, or which of these the programs that it started were. */
static char aot_ax1_good, aot_ax1_bad;

static void aot_ax1_take(void) {
    while (!AOT_TRY_LOCK(&aot_ax1_lock)) {
        /* another thread starts a program */
    }
}

static int aot_ax1_intact(const void *data, int32_t bytes, int32_t crc) {
    return bytes == 0 || AX1_NAME(driver_checksum)(data, (uint32_t)bytes) == (uint32_t)crc;
}

static void aot_ax1_note(void **slot, int good) {
    if (*slot != (void *)&aot_ax1_bad) {
        *slot = good ? (void *)&aot_ax1_good : (void *)&aot_ax1_bad;
    }
}

/* Waits for the program under way, if there is one. */
static void aot_ax1_settle(void) {
    if (aot_ax1_owner != NULL) {
        aot_ax1_note(aot_ax1_owner, AX1_NAME(driver_wait)(AOT_AX1_WAIT, AOT_AX1_LIMIT) == AX1_OK);
        aot_ax1_owner = NULL;
    }
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

static int aot_ax1_begin(const void *const *places, const ax1v1_64_aot_run_params *p) {
    uint32_t r;
    if (p->count < 1 || p->count > AX1_REGIONS) {
        return 0;
    }
    for (r = 0; r < (uint32_t)p->count; ++r) {
        aot_ax1_regions[r].base = places[r] != NULL ? places[r] : (const void *)aot_ax1_nothing;
        aot_ax1_regions[r].bytes = (uint32_t)p->bytes[r];
        aot_ax1_regions[r].attr = (uint32_t)p->attr[r];
    }
    return AX1_NAME(driver_start)(aot_ax1_regions, (uint32_t)p->count, 0U, AOT_AX1_IRQ, NULL,
                                  NULL) == AX1_OK;
}

/* Starts; with `await` it has ended on return. */
static void aot_ax1_launch(void **slot, const void *const *places, const ax1v1_64_aot_run_params *p,
                           int await) {
    aot_ax1_take();
    aot_ax1_settle();
    if (!aot_ax1_begin(places, p)) {
        aot_ax1_note(slot, 0);
    } else {
        aot_ax1_owner = slot;
        if (await) {
            aot_ax1_settle();
        }
    }
    AOT_UNLOCK(&aot_ax1_lock);
}

static aot_status aot_ax1_result(void **slot) {
    const aot_status status = *slot == (void *)&aot_ax1_bad ? AOT_VENDOR : AOT_OK;
    *slot = NULL;
    return status;
}

aot_status AX1_NAME(aot_run)(void **slot, const void *commands, const void *weights,
                             const void *scratch, const void *r3, const void *r4, const void *r5,
                             const void *r6, const void *r7, const ax1v1_64_aot_run_params *p) {
    const void *const places[AX1_REGIONS] = {commands, weights, scratch, r3, r4, r5, r6, r7};
    aot_ax1_launch(slot, places, p, 1);
    return aot_ax1_result(slot);
}

aot_status AX1_NAME(aot_start)(void **slot, const void *commands, const void *weights,
                               const void *scratch, const void *r3, const void *r4, const void *r5,
                               const void *r6, const void *r7, const ax1v1_64_aot_run_params *p) {
    const void *const places[AX1_REGIONS] = {commands, weights, scratch, r3, r4, r5, r6, r7};
    aot_ax1_launch(slot, places, p, 0);
    return AOT_OK; /* or what the wait returns */
}

aot_status AX1_NAME(aot_wait)(void **slot, const void *scratch, const void *r3, const void *r4,
                              const void *r5, const void *r6, const void *r7) {
    (void)scratch;
    (void)r3;
    (void)r4;
    (void)r5;
    (void)r6;
    (void)r7;
    aot_ax1_take();
    if (aot_ax1_owner == slot) {
        aot_ax1_settle();
    }
    AOT_UNLOCK(&aot_ax1_lock);
    return aot_ax1_result(slot);
}

const char *AX1_NAME(aot_fault)(uint32_t *pc, uint32_t *address) {
    ax1_report report;
    AX1_NAME(driver_report)(&report);
    *pc = report.pc;
    *address = report.address;
    return AX1_NAME(driver_text)(report.fault);
}
