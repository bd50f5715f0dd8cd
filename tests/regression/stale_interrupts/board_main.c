/* SPDX-License-Identifier: MIT-0 */
/* Interrupts that nobody expected, and a caller that holds them back, on a board. Exits with 0, or
 * with the number of the check that failed. */
#include "ax1_board.h"
#include "ax1_driver.h"
#include "board.h"

#if defined(__arm__)
/* The number of ax1_board.h's interrupt becomes pending; the state of PRIMASK. */
#define PEND() (*(volatile uint32_t *)(uintptr_t)0xE000E200U = 1U << AX1_BOARD_IRQ)
static int held_back(void) {
    uint32_t mask;
    __asm__ volatile("mrs %0, primask" : "=r"(mask));
    return (mask & 1U) != 0U;
}
#else
#define PEND() (*(volatile uint32_t *)(uintptr_t)0x02000000U = 1U)
static int held_back(void) {
    uintptr_t state;
    __asm__ volatile(AX1_CSR("csrr %0, mstatus") : "=r"(state));
    return (state & 8U) == 0U;
}
#endif

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
static volatile int called;
static ax1_memory regions[3];

static void done(void *user) {
    (void)user;
    ++called;
}

static int same(void) {
    int i, n = 0;
    for (i = 0; i < 256; ++i) {
        n += from[i] == to[i];
    }
    return n == 256;
}

static int start(void) {
    int i;
    for (i = 0; i < 256; ++i) {
        to[i] = 0;
    }
    return AX1_NAME(driver_start)(regions, 3, 0, 1, done, (void *)0) == AX1_OK;
}

int main(void) {
    int i;
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
    if (!start()) {
        aot_exit(1);
    }
    PEND();
    if (AX1_NAME(driver_wait)(AX1_SLEEP, 0) != AX1_OK || !same()) {
        aot_exit(2);
    }
    if (called != 1) {
        aot_exit(3);
    }
    PEND();
    for (i = 0; i < 100; ++i) {
        __asm__ volatile("" ::: "memory");
    }
    if (called != 1 || held_back()) {
        aot_exit(4);
    }
    AX1_IRQ_OFF();
    if (!start() || AX1_NAME(driver_wait)(AX1_SLEEP, 0) != AX1_OK || !same()) {
        aot_exit(5);
    }
    if (!held_back() || called != 1) {
        aot_exit(6);
    }
    AX1_IRQ_ON();
    __asm__ volatile("" ::: "memory");
    aot_exit(called == 2 ? 0 : 7);
}
