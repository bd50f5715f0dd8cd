/* SPDX-License-Identifier: MIT-0 */
/* y[i] = table[x[i]] for n quantised values of 8 bits, which index as unsigned bytes. y may be x;
 * no scratch.
 *
 * x86-64 looks 64 or 32 bytes up in the 16 rows of the table at once: a lookup gives 0 for bytes
 * whose top bit is set. Of a half of the bytes, counted down by 16 from row to row, all rows up to
 * a byte's own are looked up, and each row is stored as what it changes of the one before it.
 */
#ifndef AOT_QTABLE_H
#define AOT_QTABLE_H

#include <stdint.h>
#include <string.h>

#include "aot/port.h"

#if defined(__AVX512BW__)
#include <immintrin.h>
#define AOT_QTABLE_V __m512i
#define AOT_QTABLE_(op) _mm512_##op
#define AOT_QTABLE_XOR _mm512_xor_si512
#define AOT_QTABLE_ROW(v) _mm512_broadcast_i32x4(v)
#elif defined(__AVX2__)
#include <immintrin.h>
#define AOT_QTABLE_V __m256i
#define AOT_QTABLE_(op) _mm256_##op
#define AOT_QTABLE_XOR _mm256_xor_si256
#define AOT_QTABLE_ROW(v) _mm256_broadcastsi128_si256(v)
#endif

typedef struct aot_qtable_params {
    int64_t n;
} aot_qtable_params;

#ifdef AOT_QTABLE_V
/* As many whole vectors as n has; their bytes. */
AOT_INLINE int64_t aot_qtable_vectors(uint8_t *y, const uint8_t *x, const uint8_t *table,
                                      int64_t n) {
    const AOT_QTABLE_V step = AOT_QTABLE_(set1_epi8)(16), top = AOT_QTABLE_(set1_epi8)((char)0x80);
    AOT_QTABLE_V row[16];
    int64_t i;
    int h;
    for (h = 0; h < 16; ++h) {
        __m128i own, before;
        (void)memcpy(&own, table + 16 * h, sizeof own);
        (void)memcpy(&before, table + 16 * (h - (h % 8 != 0)), sizeof before);
        row[h] = AOT_QTABLE_ROW(h % 8 != 0 ? _mm_xor_si128(own, before) : own);
    }
    for (i = 0; i + (int64_t)sizeof step <= n; i += (int64_t)sizeof step) {
        AOT_QTABLE_V low, high, found;
        (void)memcpy(&low, x + i, sizeof low);
        high = AOT_QTABLE_XOR(low, top);
        found = AOT_QTABLE_XOR(AOT_QTABLE_(shuffle_epi8)(row[0], low),
                               AOT_QTABLE_(shuffle_epi8)(row[8], high));
        AOT_UNROLL(16) for (h = 1; h < 8; ++h) {
            low = AOT_QTABLE_(subs_epi8)(low, step);
            high = AOT_QTABLE_(subs_epi8)(high, step);
            found = AOT_QTABLE_XOR(found, AOT_QTABLE_(shuffle_epi8)(row[h], low));
            found = AOT_QTABLE_XOR(found, AOT_QTABLE_(shuffle_epi8)(row[h + 8], high));
        }
        (void)memcpy(y + i, &found, sizeof found);
    }
    return i;
}
#endif

AOT_INLINE void aot_qtable(void *y, const void *x, const void *table, const aot_qtable_params *p) {
    uint8_t *to = (uint8_t *)y;
    const uint8_t *from = (const uint8_t *)x, *entry = (const uint8_t *)table;
    int64_t i = 0;
#ifdef AOT_QTABLE_V
    i = aot_qtable_vectors(to, from, entry, p->n);
#endif
    for (; i < p->n; ++i) {
        to[i] = entry[from[i]];
    }
}

#endif /* AOT_QTABLE_H */
