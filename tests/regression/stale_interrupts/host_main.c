/* SPDX-License-Identifier: MIT-0 */
/* Interrupts that nobody expected, on the simulator. Exits with the number of the check that
 * failed. */
#include "ax1_driver.h"

/* What core.h counts and does: `enabled` calls of AX1_IRQ_ON; every sleep ends with a spurious
 * interrupt and moves the machine by 8 cycles. */
int holding, enabled, sleeps;

void asleep(void) {
    ++sleeps;
    AX1_NAME(driver_isr)();
    AX1_NAME(sim_advance)(8U);
}

static const uint32_t program[] = {
    0x05,   16,       256U << 12, 0x0F00, /* VIEW pixel=16 row=256 height=1 width=16 */
    0x07,   256,      16,         1,      /* STRD */
    0x8010, 1U << 29, 0x80080000, 0xF00F, /* LD signal=ST */
    0x0111, 2U << 29, 0x80080000, 0xF00F, /* ST wait=LD */
    0x00,   9,        0,          0,      /* HALT status=9 */
};
static uint8_t from[256], to[256];
static int called;

static void done(void *user) {
    (void)user;
    ++called;
}

static void interrupt(void *user) {
    (void)user;
    AX1_NAME(driver_isr)();
}

static int same(void) {
    int i, n = 0;
    for (i = 0; i < 256; ++i) {
        n += from[i] == to[i];
    }
    return n == 256;
}

int main(void) {
    const ax1_memory regions[3] = {
        {program, sizeof program, AX1_ATTR_FLASH}, {from, 256U, 0U}, {to, 256U, AX1_ATTR_WRITABLE}};
    int i;
    for (i = 0; i < 256; ++i) {
        from[i] = (uint8_t)(3 * i + 1);
    }
    AX1_NAME(driver_isr)(); /* before any program */
    AX1_NAME(sim_stepped)(1);
    AX1_NAME(sim_interrupt)(interrupt, (void *)0);
    if (AX1_NAME(driver_start)(regions, 3U, 0U, 1, done, (void *)0) != AX1_OK) {
        return 1;
    }
    AX1_NAME(driver_isr)(); /* left by an earlier program */
    if (called != 0) {
        return 2;
    }
    if (AX1_NAME(driver_wait)(AX1_SLEEP, 0U) != AX1_OK) {
        return 3;
    }
    if (!same() || called != 1 || sleeps < 2) {
        return 4;
    }
    AX1_NAME(driver_isr)();
    if (called != 1) {
        return 5;
    }
    if (enabled == 0) {
        return 6;
    }
    /* Interrupts that the caller holds back stay so. */
    holding = 1;
    enabled = 0;
    if (AX1_NAME(driver_start)(regions, 3U, 0U, 1, done, (void *)0) != AX1_OK ||
        AX1_NAME(driver_wait)(AX1_SLEEP, 0U) != AX1_OK) {
        return 7;
    }
    return enabled == 0 ? 0 : 8;
}
