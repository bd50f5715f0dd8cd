/* SPDX-License-Identifier: MIT-0 */
/* Weights in a file of their own: a header of 64 bytes, then the constants.
 *
 *   bytes   0..3   "AOTW"
 *           4..7   AOT_ABI_VERSION
 *           8..11  identity: what constants there are, of which shapes, packed for which target
 *          12..15  CRC-32 (as in zlib) of bytes 0..11, 16..23 and of the constants
 *          16..23  bytes of constants
 *          24..63  zero
 * Numbers are little-endian whatever the target, constants in the target's byte order.
 */
#ifndef AOT_WEIGHTS_H
#define AOT_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include "aot/aot.h"

#define AOT_WEIGHTS_HEADER 64

/* CRC-32 of `bytes` bytes behind what `crc` is of; four bits at a time, for the table's size. */
static inline uint32_t aot_crc32(uint32_t crc, const unsigned char *data, size_t bytes) {
    static const uint32_t table[16] = {0x00000000U, 0x1db71064U, 0x3b6e20c8U, 0x26d930acU,
                                       0x76dc4190U, 0x6b6b51f4U, 0x4db26158U, 0x5005713cU,
                                       0xedb88320U, 0xf00f9344U, 0xd6d6a3e8U, 0xcb61b38cU,
                                       0x9b64c2b0U, 0x86d3d2d4U, 0xa00ae278U, 0xbdbdf21cU};
    size_t i;
    crc = ~crc;
    for (i = 0; i < bytes; ++i) {
        crc ^= data[i];
        crc = (crc >> 4) ^ table[crc & 15U];
        crc = (crc >> 4) ^ table[crc & 15U];
    }
    return ~crc;
}

static inline uint32_t aot_le32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Whether a file begins as one of the constants of the model `identity`. */
static inline aot_status aot_check_header(const unsigned char *file, uint32_t identity) {
    if (file[0] != 'A' || file[1] != 'O' || file[2] != 'T' || file[3] != 'W') {
        return AOT_BAD_WEIGHTS;
    }
    if (aot_le32(file + 4) != AOT_ABI_VERSION || aot_le32(file + 8) != identity) {
        return AOT_BAD_WEIGHTS;
    }
    return AOT_OK;
}

/* Whether `file` holds `payload` bytes of constants of the model `identity`, undamaged. */
static inline aot_status aot_check_weights(const unsigned char *file, size_t bytes,
                                           uint32_t identity, size_t payload) {
    uint32_t crc;
    if (bytes != AOT_WEIGHTS_HEADER + payload) {
        return AOT_BAD_WEIGHTS;
    }
    if (aot_check_header(file, identity) != AOT_OK) {
        return AOT_BAD_WEIGHTS;
    }
    crc = aot_crc32(0, file, 12);
    crc = aot_crc32(crc, file + 16, 8);
    crc = aot_crc32(crc, file + AOT_WEIGHTS_HEADER, payload);
    return crc == aot_le32(file + 12) ? AOT_OK : AOT_BAD_WEIGHTS;
}

#endif /* AOT_WEIGHTS_H */
