/* SPDX-License-Identifier: MIT-0 */
#include "ax1_driver.h"

#include <stddef.h>

static struct {
    const ax1_memory *regions;
    uint32_t count;
    void (*done)(void *user);
    void *user;
    volatile int awaited; /* an interrupt that shows the end; the handler clears it */
    int irq;
} ax1_driver;

static ax1_result ax1_result_of(uint32_t status) {
    if ((status & AX1_STATUS_BUSY) != 0U) {
        return AX1_RUNNING;
    }
    return (status & AX1_STATUS_FAULT) != 0U ? AX1_FAULTED : AX1_OK;
}

static int ax1_busy(void) {
    return (AX1_READ(AX1_REG_STATUS) & AX1_STATUS_BUSY) != 0U;
}

static void ax1_set_region(uint32_t n, const ax1_memory *memory) {
    const uint64_t address = memory != NULL ? (uint64_t)(uintptr_t)memory->base : 0U;
    AX1_WRITE(AX1_REG_BASE(n), (uint32_t)address);
    AX1_WRITE(AX1_REG_BASE(n) + 4U, (uint32_t)(address >> 32));
    AX1_WRITE(AX1_REG_SIZE(n), memory != NULL ? memory->bytes : 0U);
    AX1_WRITE(AX1_REG_ATTR(n), memory != NULL ? memory->attr : 0U);
}

ax1_result AX1_NAME(driver_start)(const ax1_memory *regions, uint32_t count, uint32_t entry,
                                  int irq, void (*done)(void *user), void *user) {
    const uint32_t cfg = (uint32_t)AX1_MACS | (uint32_t)AX1_VERSION << 16;
    int held;
    uint32_t n;
    if (AX1_READ(AX1_REG_ID) != AX1_ID_VALUE || AX1_READ(AX1_REG_CFG) != cfg ||
        count > AX1_REGIONS) {
        return AX1_ABSENT;
    }
    if (ax1_busy()) {
        return AX1_RUNNING;
    }
    ax1_driver.awaited = 0;
    ax1_driver.regions = regions;
    ax1_driver.count = count;
    ax1_driver.done = done;
    ax1_driver.user = user;
    ax1_driver.irq = irq;
    if (irq) {
        AX1_PREPARE();
    }
    for (n = 0; n < AX1_REGIONS; ++n) {
        ax1_set_region(n, n < count ? &regions[n] : NULL);
        if (n < count && regions[n].bytes != 0U) {
            AX1_CLEAN(regions[n].base, regions[n].bytes);
        }
    }
    AX1_WRITE(AX1_REG_ENTRY, entry);
    /* Held back, a stale interrupt finds the machine running and not one that has yet to start. */
    held = AX1_IRQ_HELD();
    AX1_IRQ_OFF();
    ax1_driver.awaited = irq;
    AX1_WRITE(AX1_REG_CTRL, AX1_CTRL_START | (irq ? AX1_CTRL_IRQ : 0U));
    if (!held) {
        AX1_IRQ_ON();
    }
    if (irq) {
        AX1_STARTED();
    }
    return AX1_OK;
}

/* What the processor must see once the program has ended. */
static ax1_result ax1_finish(ax1_result result) {
    uint32_t n;
    for (n = 0; n < ax1_driver.count; ++n) {
        if (ax1_driver.regions[n].bytes != 0U &&
            (ax1_driver.regions[n].attr & AX1_ATTR_WRITABLE) != 0U) {
            AX1_INVALIDATE(ax1_driver.regions[n].base, ax1_driver.regions[n].bytes);
        }
    }
    ax1_driver.count = 0;
    return result;
}

ax1_result AX1_NAME(driver_poll)(void) {
    const ax1_result result = ax1_result_of(AX1_READ(AX1_REG_STATUS));
    return result == AX1_RUNNING ? result : ax1_finish(result);
}

/* Until an interrupt of whatever kind, unless the program has ended. */
static void ax1_sleep(void) {
    const int held = AX1_IRQ_HELD();
    /* Held back, an interrupt between the look and the sleep still ends the sleep. */
    AX1_IRQ_OFF();
    if (ax1_busy()) {
        AX1_WFI();
    }
    if (!held) {
        AX1_IRQ_ON();
    } else {
        AX1_RELAX(); /* no handler moves the simulator's time */
    }
}

ax1_result AX1_NAME(driver_wait)(ax1_wait_mode mode, uint32_t limit) {
    const int sleeps = mode == AX1_SLEEP && ax1_driver.irq;
    uint32_t looks;
    for (looks = 0; limit == 0U || looks < limit; ++looks) {
        ax1_result result;
        if (sleeps) {
            ax1_sleep();
        }
        result = AX1_NAME(driver_poll)();
        if (result != AX1_RUNNING) {
            return result;
        }
        if (!sleeps) {
            AX1_RELAX();
        }
    }
    if (AX1_NAME(driver_poll)() == AX1_RUNNING) {
        AX1_WRITE(AX1_REG_CTRL, AX1_CTRL_ABORT);
        return ax1_finish(AX1_TIMEOUT);
    }
    return AX1_NAME(driver_poll)();
}

void AX1_NAME(driver_isr)(void) {
    /* First this: an end after the look raises the interrupt again. */
    AX1_WRITE(AX1_REG_IRQ_CLEAR, 1U);
    if (!ax1_driver.awaited || ax1_busy()) {
        return; /* not from the end of this program */
    }
    ax1_driver.awaited = 0;
    if (ax1_driver.done != NULL) {
        ax1_driver.done(ax1_driver.user);
    }
}

void AX1_NAME(driver_report)(ax1_report *report) {
    const uint32_t status = AX1_READ(AX1_REG_STATUS);
    uint32_t u;
    report->fault = status >> 8 & 255U;
    report->status = status >> 16;
    report->pc = AX1_READ(AX1_REG_FAULT_PC);
    report->address = AX1_READ(AX1_REG_FAULT_ADDR);
    report->cycles = (uint64_t)AX1_READ(AX1_REG_CYCLES + 4U) << 32 | AX1_READ(AX1_REG_CYCLES);
    for (u = 0; u < 4U; ++u) {
        report->busy[u] = AX1_READ(AX1_REG_BUSY(u));
        report->stalled[u] = AX1_READ(AX1_REG_STALL(u));
    }
}

uint32_t AX1_NAME(driver_checksum)(const void *data, uint32_t bytes) {
    const uint8_t *p = (const uint8_t *)data;
    uint32_t crc = 0xFFFFFFFFU, n;
    int bit;
    for (n = 0; n < bytes; ++n) {
        crc ^= p[n];
        for (bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1U) != 0U ? 0xEDB88320U : 0U);
        }
    }
    return ~crc;
}

const char *AX1_NAME(driver_text)(uint32_t fault) {
    static const char *const texts[] = {
        "no fault",
        "an opcode that does not exist",
        "reserved bits are set",
        "a byte outside its region",
        "a write to a read-only region",
        "a byte outside a local memory or view",
        "more tokens than a counter holds",
        "units wait for tokens that never come",
        "the stream ends without HALT",
        "loops are nested too deep or end without a beginning",
        "tokens were left at the end",
        "a field has a value that means nothing",
        "compressed weights are broken",
        "the program was aborted",
    };
    return fault < sizeof texts / sizeof texts[0] ? texts[fault] : "an unknown fault";
}
