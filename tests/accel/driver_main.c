/* SPDX-License-Identifier: MIT-0 */
/* The driver as a program uses it. Built with the simulator, or (AX1_MMIO_BASE) with an array that
 * stands for the registers of hardware. Exits with the number of the first check that fails. */
#include "ax1_driver.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return __LINE__ % 251 + 1;                                                             \
        }                                                                                          \
    } while (0)

#ifdef AX1_MMIO_BASE
volatile uint32_t registers[64];

int main(void) {
    static const uint32_t halt[4] = {0, 0, 0, 0};
    const ax1_memory regions[1] = {{halt, sizeof halt, AX1_ATTR_FLASH}};
    ax1_report report;
    CHECK(AX1_NAME(driver_start)(regions, 1, 0, 0, 0, 0) == AX1_ABSENT);
    registers[0] = AX1_ID_VALUE;
    registers[1] = 256U | 1U << 16;
    CHECK(AX1_NAME(driver_start)(regions, 1, 16, 1, 0, 0) == AX1_OK);
    CHECK(registers[AX1_REG_CTRL / 4] == (AX1_CTRL_START | AX1_CTRL_IRQ));
    CHECK(registers[AX1_REG_ENTRY / 4] == 16 && registers[AX1_REG_SIZE(0) / 4] == 16);
    registers[AX1_REG_STATUS / 4] = AX1_STATUS_BUSY;
    CHECK(AX1_NAME(driver_poll)() == AX1_RUNNING);
    CHECK(AX1_NAME(driver_wait)(AX1_POLL, 10) == AX1_TIMEOUT);
    CHECK(registers[AX1_REG_CTRL / 4] == AX1_CTRL_ABORT);
    registers[AX1_REG_STATUS / 4] = AX1_STATUS_FAULT | 3U << 8;
    CHECK(AX1_NAME(driver_wait)(AX1_POLL, 10) == AX1_FAULTED);
    AX1_NAME(driver_report)(&report);
    CHECK(report.fault == AX1_FAULT_REGION);
    return 0;
}
#else
/* VIEW 0: 16 x 1 pixels of 16 bytes; STRD 0; LD of region 1; ST to region 2; HALT. */
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
    called += user == &called;
}

static void interrupt(void *user) {
    (void)user;
    AX1_NAME(driver_isr)();
}

static ax1_result start(const ax1_memory *regions, int irq) {
    return AX1_NAME(driver_start)(regions, 3, 0, irq, done, &called);
}

static int same(void) {
    int i, n = 0;
    for (i = 0; i < 256; ++i) {
        n += from[i] == to[i];
    }
    return n == 256;
}

int main(void) {
    ax1_memory regions[3];
    ax1_report report;
    int i;
    regions[0].base = program;
    regions[0].bytes = sizeof program;
    regions[0].attr = AX1_ATTR_FLASH;
    regions[1].base = from;
    regions[1].bytes = sizeof from;
    regions[1].attr = 0;
    regions[2].base = to;
    regions[2].bytes = sizeof to;
    regions[2].attr = AX1_ATTR_WRITABLE;
    for (i = 0; i < 256; ++i) {
        from[i] = (uint8_t)(3 * i + 1);
    }
    /* Direct: done when start returns. */
    CHECK(start(regions, 0) == AX1_OK);
    CHECK(AX1_NAME(driver_poll)() == AX1_OK && same() && called == 0);
    AX1_NAME(driver_report)(&report);
    CHECK(report.status == 9 && report.fault == 0 && report.cycles > 64);
    CHECK(report.busy[0] == 32 + 32 && report.busy[3] == 32 + 32 && report.stalled[3] > 0);
    /* Stepped: not done before its time, and not startable twice. */
    to[0] = 0;
    AX1_NAME(sim_stepped)(1);
    AX1_NAME(sim_interrupt)(interrupt, 0);
    CHECK(start(regions, 1) == AX1_OK);
    CHECK(AX1_NAME(driver_poll)() == AX1_RUNNING && start(regions, 1) == AX1_RUNNING);
    AX1_NAME(sim_advance)(10);
    CHECK(AX1_NAME(driver_poll)() == AX1_RUNNING && to[0] == 0);
    CHECK(AX1_NAME(driver_wait)(AX1_SLEEP, 0) == AX1_OK && same() && called == 1);
    CHECK(start(regions, 0) == AX1_OK);
    CHECK(AX1_NAME(driver_wait)(AX1_POLL, 0) == AX1_OK && called == 1);
    /* A lost interrupt, and too little time: flash is slow. */
    CHECK(start(regions, 1) == AX1_OK);
    AX1_NAME(sim_interrupt)(0, 0);
    CHECK(AX1_NAME(driver_wait)(AX1_SLEEP, 5) == AX1_OK && called == 1);
    regions[1].attr = AX1_ATTR_FLASH;
    CHECK(start(regions, 1) == AX1_OK);
    CHECK(AX1_NAME(driver_wait)(AX1_SLEEP, 1) == AX1_TIMEOUT);
    CHECK(start(regions, 0) == AX1_OK);
    CHECK(AX1_NAME(driver_wait)(AX1_POLL, 1) == AX1_TIMEOUT);
    AX1_NAME(driver_report)(&report);
    CHECK(report.fault == AX1_FAULT_ABORTED);
    /* Faults. */
    regions[2].bytes = 100;
    CHECK(start(regions, 0) == AX1_OK);
    CHECK(AX1_NAME(driver_wait)(AX1_POLL, 0) == AX1_FAULTED);
    AX1_NAME(driver_report)(&report);
    CHECK(report.fault == AX1_FAULT_REGION && report.pc == 48 && report.address == 112);
    regions[2].attr = 0;
    CHECK(start(regions, 0) == AX1_OK);
    CHECK(AX1_NAME(driver_wait)(AX1_POLL, 0) == AX1_FAULTED);
    AX1_NAME(driver_report)(&report);
    CHECK(report.fault == AX1_FAULT_READ_ONLY);
    /* A wrong base: results would land in what is read. */
    regions[2].base = from + 255;
    regions[2].bytes = 256;
    regions[2].attr = AX1_ATTR_WRITABLE;
    CHECK(start(regions, 0) == AX1_OK);
    CHECK(AX1_NAME(driver_wait)(AX1_POLL, 0) == AX1_FAULTED);
    AX1_NAME(driver_report)(&report);
    CHECK(report.fault == AX1_FAULT_REGION && report.pc == 0 && report.address == 0);
    CHECK(AX1_NAME(driver_checksum)("123456789", 9) == 0xCBF43926U);
    CHECK(AX1_NAME(driver_text)(report.fault)[0] == 'a' && AX1_NAME(driver_text)(99)[0] == 'a');
    return 0;
}
#endif
