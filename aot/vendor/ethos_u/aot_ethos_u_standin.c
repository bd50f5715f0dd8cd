/* SPDX-License-Identifier: MIT-0 */
/* A stand-in for Arm's driver and the NPU, where a bundle is built without them. It computes
 * nothing: it reads the commands as the driver and the NPU do, and fails where one of them would.
 * The NPU that it stands for is AOT_ETHOS_U_PRODUCT and AOT_ETHOS_U_LOG_MACS. */
#include "aot_ethos_u_driver.h"

#ifdef AOT_ETHOS_U_STANDIN

#include <stdbool.h>

#ifndef AOT_ETHOS_U_STANDIN_FAIL
#define AOT_ETHOS_U_STANDIN_FAIL 0 /* the call of the driver that fails, 0: none */
#endif

/* What the first words say: four letters, then actions of the driver. */
enum { MAGIC = 0x31504f43, CONFIGURATION = 1, STREAM = 2, NOTHING = 5 };
/* Commands: those of one word name memories (0 to 7) or do something, those of two set an address
 * or a length. */
enum { STOP = 0x000, DMA = 0x010, CONVOLUTION = 0x002, DEPTHWISE = 0x003 };
enum { WEIGHT_MEMORY = 0x128, SCALE_MEMORY = 0x129, DMA_FROM = 0x130, DMA_TO = 0x131 };
enum { IFM_MEMORY = 0x10f, OFM_MEMORY = 0x11f, IFM2_MEMORY = 0x18f };
enum { IFM_BASE = 0x000, OFM_BASE = 0x010, IFM2_BASE = 0x080 };
enum { WEIGHT_BASE = 0x020, WEIGHT_BYTES, SCALE_BASE, SCALE_BYTES };
enum { DMA_SOURCE = 0x030, DMA_TARGET, DMA_BYTES };
/* This bit of a memory's number says: one of the NPU's own. */
enum { INTERNAL = 0x100 };

struct ethosu_driver {
    uint16_t memory[0x100];  /* what commands of one word said, by their number less 0x100 */
    uint64_t address[0x100]; /* what commands of two words said, by their number */
    const uint64_t *addresses;
    const size_t *sizes;
    int count;
};

static struct ethosu_driver only;

struct ethosu_driver *ethosu_reserve_driver(void) {
    return &only;
}

void ethosu_release_driver(struct ethosu_driver *driver) {
    (void)driver;
}

/* Whether `bytes` from `at` on are inside the memory that command `which` named. */
static bool inside(const struct ethosu_driver *d, int which, uint64_t at, uint64_t bytes) {
    const uint32_t memory = d->memory[which - 0x100];
    if ((memory & INTERNAL) != 0)
        return true;
    if (memory >= (uint32_t)d->count)
        return false;
    const uint64_t size = d->sizes[memory];
    return at <= size && bytes <= size - at;
}

static bool starts(const struct ethosu_driver *d, uint32_t command) {
    const uint64_t *const a = d->address;
    if (command == DMA)
        return inside(d, DMA_FROM, a[DMA_SOURCE], a[DMA_BYTES]) &&
               inside(d, DMA_TO, a[DMA_TARGET], a[DMA_BYTES]);
    const bool weighted = command == CONVOLUTION || command == DEPTHWISE;
    return inside(d, IFM_MEMORY, a[IFM_BASE], 1) && inside(d, OFM_MEMORY, a[OFM_BASE], 1) &&
           (!weighted || (inside(d, WEIGHT_MEMORY, a[WEIGHT_BASE], a[WEIGHT_BYTES]) &&
                          inside(d, SCALE_MEMORY, a[SCALE_BASE], a[SCALE_BYTES])));
}

/* Reads the NPU's commands up to the one that stops it. */
static bool runs(struct ethosu_driver *d, const uint32_t *word, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t command = word[i] & 0x3ff, parameter = word[i] >> 16;
        if ((word[i] & 0xc000) != 0) {
            if (++i == count)
                return false;
            if (command < 0x100)
                d->address[command] = word[i] | ((uint64_t)parameter << 32);
        } else if (command == STOP) {
            return i + 1 == count;
        } else if (command < 0x100) {
            if ((command < 8 || command == DMA) && command > 1 && !starts(d, command))
                return false;
        } else if (command < 0x200) {
            d->memory[command - 0x100] = (uint16_t)parameter;
        }
    }
    return false;
}

static bool fits(uint32_t configuration) {
    return configuration >> 28 == AOT_ETHOS_U_PRODUCT &&
           (configuration & 0xf) == AOT_ETHOS_U_LOG_MACS;
}

int ethosu_invoke_v3(struct ethosu_driver *driver, const void *commands, const int bytes,
                     uint64_t *const memories, const size_t *sizes, const int count, void *user) {
    static int calls = 0;
    const uint32_t *const word = commands;
    const uint32_t words = (uint32_t)bytes / 4;
    (void)user;
    if (++calls == AOT_ETHOS_U_STANDIN_FAIL)
        return -1;
    for (int i = 0; i < count; ++i)
        if (memories[i] % 16 != 0 || (memories[i] == 0 && sizes[i] != 0))
            return -1;
    if ((uintptr_t)commands % 16 != 0 || words == 0 || word[0] != MAGIC)
        return -1;
    driver->addresses = memories;
    driver->sizes = sizes;
    driver->count = count;
    for (uint32_t i = 1; i < words; ++i) {
        const uint32_t action = word[i] & 0xff;
        if (action == STREAM) {
            const uint32_t length = (word[i] >> 16) | (word[i] & 0xff00) << 8;
            return length <= words - i - 1 && runs(driver, word + i + 1, length) ? 0 : -1;
        }
        if (action == CONFIGURATION) {
            if (words - i < 3 || !fits(word[i + 1]))
                return -1;
            i += 2;
        } else if (action != NOTHING) {
            return -1;
        }
    }
    return -1;
}

#else
typedef int aot_ethos_u_no_standin; /* C knows no empty file */
#endif
