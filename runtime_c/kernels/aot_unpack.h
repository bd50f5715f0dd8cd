/* SPDX-License-Identifier: MIT-0 */
/* Weights that are stored in fewer bytes: canonical Huffman codes of their upper bits, the lower
 * bits as they are.
 *
 * A stream is
 *
 *   byte 0      longest code in bits, 1 to AOT_UNPACK_LONGEST
 *   byte 1      lower bits of an element that follow its code, 0 to 24
 *   byte 2      upper bits of symbol 0, as int8; those of symbol s are s more
 *   byte 3      number of symbols less one
 *   byte 4 on   the length of each symbol's code (0: no code), two in a byte, the lower half first
 *   then        codes and lower bits of the elements, the highest bit of a byte first
 *
 * Codes of one length are in the order of symbols, and shorter ones come first. With runs the last
 * symbol stands for AOT_UNPACK_RUN elements of zero, and no lower bits follow it. Elements are
 * little-endian integers of 1, 2 or 4 bytes. Whatever the bytes of a stream are, no more is written
 * than was asked for, and nothing is read past the end of the stream.
 */
#ifndef AOT_UNPACK_H
#define AOT_UNPACK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/port.h"

#define AOT_UNPACK_LONGEST 11
#define AOT_UNPACK_HEAD 4
#define AOT_UNPACK_RUN 16
#define AOT_UNPACK_ZEROS 0x8000U /* marks the symbol for a run of zeros in the table */
#define AOT_UNPACK_FLAT 2        /* `runs` where all elements have four bits */

/* Whether words of four bytes are read and written at two addresses: of cores whose lowest byte
 * comes first, those that need aligned addresses get a chance, too. */
#if !defined(__GNUC__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#define AOT_UNPACK_WORDS(p, q) 0
#define AOT_UNPACK_ALIGNED(p) (p)
#elif defined(__ARM_FEATURE_UNALIGNED) || defined(__x86_64__)
#define AOT_UNPACK_WORDS(p, q) 1
#define AOT_UNPACK_ALIGNED(p) (p)
#else
#define AOT_UNPACK_WORDS(p, q) ((((uintptr_t)(p) | (uintptr_t)(q)) & 3U) == 0)
#define AOT_UNPACK_ALIGNED(p) __builtin_assume_aligned(p, 4)
#endif

/* Where a stream is read. table: for each start of `longest` bits the code's
 * length, above the upper bits of its element (8 bits). `bit` counts from `codes` on. */
typedef struct {
    const uint8_t *codes;
    uint16_t *table;
    uint32_t bit, bytes; /* bytes: of codes */
    int32_t longest, low, zeros;
    uint32_t base; /* symbol 0 */
} aot_unpack;

/* Begins to read a stream of `bytes` bytes, AOT_UNPACK_HEAD or more; the table has room for
 * 1 << most entries. */
static AOT_NOINLINE AOT_UNUSED void aot_unpack_begin(aot_unpack *u, const void *stream,
                                                     int32_t bytes, void *table, int32_t most,
                                                     int32_t runs) {
    const uint8_t *const head = (const uint8_t *)stream, *const length = head + AOT_UNPACK_HEAD;
    const int32_t there = 2 * (bytes - AOT_UNPACK_HEAD),
                  symbols = head[3] < there ? head[3] + 1 : there;
    const int32_t longest = head[0] < 1 ? 1 : head[0] > most ? most : head[0], size = 1 << longest;
    uint16_t *const entries = (uint16_t *)table;
    int32_t next[16] = {0}, at = 0, s, i;
    u->table = entries;
    u->longest = longest;
    u->low = head[1] > 24 ? 24 : head[1];
    u->zeros = 0;
    u->bit = 0;
    u->codes = length + (symbols + 1) / 2;
    u->bytes = (uint32_t)(bytes - AOT_UNPACK_HEAD - (symbols + 1) / 2);
    for (s = 0; s < symbols; ++s) {
        ++next[(length[s >> 1] >> (4 * (s & 1))) & 15];
    }
    u->base = head[2];
    for (i = 1; i <= longest; ++i) {
        const int32_t count = next[i] << (longest - i);
        next[i] = at;
        at += count;
    }
    for (i = at; i < size; ++i) {
        entries[i] = 1U << 8; /* what a damaged stream leaves */
    }
    for (s = 0; s < symbols; ++s) {
        const int32_t bits = (length[s >> 1] >> (4 * (s & 1))) & 15;
        if (bits > 0 && bits <= longest) {
            const uint32_t zeros = runs && s == symbols - 1 ? AOT_UNPACK_ZEROS : 0U;
            const uint32_t entry = zeros | (uint32_t)bits << 8 | ((uint32_t)(head[2] + s) & 0xFFU);
            at = next[bits];
            next[bits] += 1 << (longest - bits);
            for (; at < next[bits] && at < size; ++at) {
                entries[at] = (uint16_t)entry;
            }
        }
    }
}

/* 25 bits or more from `bit` on, in the upper bits of the result. */
AOT_INLINE uint32_t aot_unpack_word(const uint8_t *codes, uint32_t bit) {
    const uint8_t *const p = codes + (bit >> 3);
    const uint32_t word =
        (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
    return word << (bit & 7U);
}

/* The same where the stream may end: it goes on with zeros. */
static AOT_NOINLINE AOT_UNUSED uint32_t aot_unpack_last(const aot_unpack *u) {
    const uint32_t first = u->bit >> 3;
    uint32_t word = 0, i;
    for (i = 0; i < 4; ++i) {
        word = word << 8 | (first + i < u->bytes ? u->codes[first + i] : 0U);
    }
    return word << (u->bit & 7U);
}

/* Elements of four bits, two in a byte, while the stream has them; returns their end. */
AOT_INLINE uint8_t *aot_unpack_flat(aot_unpack *u, uint8_t *to, const uint8_t *end) {
    const uint32_t base = u->base;
    const int32_t there = (int32_t)(2 * u->bytes - u->bit / 4);
    int32_t n = end - to < there ? (int32_t)(end - to) : there;
    const uint8_t *from = u->codes + u->bit / 8;
    n = n < 0 ? 0 : n;
    u->bit += 4 * (uint32_t)n;
    if (n > 0 && (u->bit / 4 - (uint32_t)n) % 2 != 0) {
        *to++ = (uint8_t)(base + (*from++ & 15U));
        --n;
    }
    for (; n >= 8 && AOT_UNPACK_WORDS(from, to); n -= 8, from += 4, to += 8) {
        const uint32_t most = (base * 0x01010101U) & 0x7F7F7F7FU;
        const uint32_t sign = (base * 0x01010101U) & 0x80808080U;
        uint32_t word, high, even, odd, two[2];
        (void)memcpy(&word, AOT_UNPACK_ALIGNED(from), 4);
        high = word >> 4 & 0x0F0F0F0FU;
        word &= 0x0F0F0F0FU;
        even = (high & 0x00FF00FFU) | (word & 0x00FF00FFU) << 8;
        odd = (high >> 8 & 0x00FF00FFU) | (word & 0xFF00FF00U);
        /* No sum of a byte leaves it: the highest bit of the base comes behind the addition. */
        two[0] = (((even & 0xFFFFU) | odd << 16) + most) ^ sign;
        two[1] = ((even >> 16 | (odd & 0xFFFF0000U)) + most) ^ sign;
        (void)memcpy(AOT_UNPACK_ALIGNED(to), two, 8);
    }
    for (; n >= 2; n -= 2, to += 2, ++from) {
        to[0] = (uint8_t)(base + (*from >> 4));
        to[1] = (uint8_t)(base + (*from & 15U));
    }
    if (n > 0) {
        *to++ = (uint8_t)(base + (*from >> 4));
    }
    return to;
}

/* Elements of one byte without runs, while the stream is long enough; returns their end. */
AOT_INLINE uint8_t *aot_unpack_bytes(aot_unpack *u, uint8_t *to, const uint8_t *end) {
    const uint16_t *const table = u->table;
    const uint8_t *const codes = u->codes;
    const uint32_t safe = u->bytes < 40 ? 0 : 8 * (u->bytes - 40), low = (uint32_t)u->low;
    const int32_t shift = 32 - u->longest;
    uint32_t bit = u->bit, word, entry;
    if (low != 0) {
        for (; to != end && bit < safe; bit += (entry >> 8) + low) {
            word = aot_unpack_word(codes, bit);
            entry = table[word >> shift];
            *to++ = (uint8_t)(entry << low | word << (entry >> 8) >> (32U - low));
        }
    } else {
        for (; end - to >= 8 && bit < safe; to += 8) {
            int i;
            AOT_UNROLL(4)
            for (i = 0; i < 8; i += 2) { /* two codes are 24 bits at most */
                word = aot_unpack_word(codes, bit);
                entry = table[word >> shift];
                to[i] = (uint8_t)entry;
                word <<= entry >> 8;
                bit += entry >> 8;
                entry = table[word >> shift];
                to[i + 1] = (uint8_t)entry;
                bit += entry >> 8;
            }
        }
    }
    u->bit = bit;
    return to;
}

/* The next element, of any size; a run of zeros leaves the others of it in `zeros`. */
AOT_INLINE uint32_t aot_unpack_one(aot_unpack *u) {
    uint32_t entry, value;
    if (u->zeros > 0) {
        --u->zeros;
        return 0;
    }
    entry = u->table[aot_unpack_last(u) >> (32 - u->longest)];
    u->bit += (entry >> 8) & 15U;
    if ((entry & AOT_UNPACK_ZEROS) != 0) {
        u->zeros = AOT_UNPACK_RUN - 1;
        return 0;
    }
    value = entry & 0xFFU;
    if (u->low > 0) {
        value = value << u->low | aot_unpack_last(u) >> (32 - u->low);
        u->bit += (uint32_t)u->low;
    }
    return value;
}

/* The next n bytes, a multiple of the elements' `size`; `runs` is 1 with runs, AOT_UNPACK_FLAT or
 * 0: a constant where it is called, so that images have no loop that they do not need. */
static AOT_NOINLINE AOT_UNUSED void aot_unpack_take(aot_unpack *u, void *y, int32_t n, int32_t size,
                                                    int32_t runs) {
    uint8_t *to = (uint8_t *)y;
    const uint8_t *const end = to + n;
    if (size == 1 && runs == AOT_UNPACK_FLAT) {
        to = aot_unpack_flat(u, to, end);
    } else if (size == 1 && runs == 0) {
        to = aot_unpack_bytes(u, to, end);
    }
    while (to != end) {
        const uint32_t value = aot_unpack_one(u);
        int32_t i;
        for (i = 0; i < size; ++i) {
            *to++ = (uint8_t)(value >> (8 * i));
        }
    }
}

#endif /* AOT_UNPACK_H */
