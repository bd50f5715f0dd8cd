/* SPDX-License-Identifier: MIT-0 */
/* A copy by the accelerator on a board: its result is in memory when the interrupt has come, not
 * before. Exits with 0, or with the number of the check that failed. */
#include "ax1_board.h"
#include "ax1_driver.h"
#include "board.h"

static const uint32_t program[] = {
    0x05,   16,       256U << 12, 0x0F00, /* VIEW pixel=16 row=256 height=1 width=16 */
    0x07,   256,      16,         1,      /* STRD */
    0x02,   199,      0,          0,      /* LOOP 200 */
    0x10,   1U << 29, 0x80080000, 0xF00F, /* LD */
    0x03,   0,        0,          0,      /* ENDL */
    0x8010, 1U << 29, 0x80080000, 0xF00F, /* LD signal=ST */
    0x0111, 2U << 29, 0x80080000, 0xF00F, /* ST wait=LD */
    0x00,   9,        0,          0,      /* HALT status=9 */
};
static uint8_t from[256];
static volatile uint8_t to[256];
static volatile int called, early;

static int same(void) {
    int i, n = 0;
    for (i = 0; i < 256; ++i) {
        n += from[i] == to[i];
    }
    return n == 256;
}

static void done(void *user) {
    (void)user;
    ++called;
    early += !same();
}

int main(void) {
    static ax1_memory regions[3];
    ax1_report report;
    int i, round;
    for (i = 0; i < 256; ++i) {
        from[i] = (uint8_t)(3 * i + 1);
    }
    regions[0].base = program;
    regions[0].bytes = sizeof program;
    regions[0].attr = AX1_ATTR_FLASH;
    regions[1].base = from;
    regions[1].bytes = sizeof from;
    regions[1].attr = AX1_ATTR_FLASH;
    regions[2].base = (const void *)(uintptr_t)to;
    regions[2].bytes = sizeof to;
    regions[2].attr = AX1_ATTR_WRITABLE;
    for (round = 1; round <= 2; ++round) {
        for (i = 0; i < 256; ++i) {
            to[i] = 0;
        }
        if (AX1_NAME(driver_start)(regions, 3, 0, 1, done, 0) != AX1_OK) {
            aot_exit(1);
        }
        if (AX1_NAME(driver_poll)() != AX1_RUNNING || same() || called != round - 1) {
            aot_exit(2);
        }
        if (AX1_NAME(driver_wait)(AX1_SLEEP, 0) != AX1_OK || !same() || called != round || early) {
            aot_exit(3);
        }
        AX1_NAME(driver_report)(&report);
        if (report.status != 9 || report.cycles < 201U * (64U + 256U)) {
            aot_exit(4);
        }
    }
    regions[2].bytes = 100;
    if (AX1_NAME(driver_start)(regions, 3, 0, 1, done, 0) != AX1_OK ||
        AX1_NAME(driver_wait)(AX1_SLEEP, 0) != AX1_FAULTED || called != 3) {
        aot_exit(5);
    }
    AX1_NAME(driver_report)(&report);
    aot_exit(report.fault == AX1_FAULT_REGION && report.pc == 6 * 16 ? 0 : 6);
}
