/* SPDX-License-Identifier: MIT-0 */
/* Maxima of 8-bit values stored in channel blocks: x [planes][in][V], y [planes][out][V].
 *
 * V is the block (any size: channels last is one block of all). U tells unsigned values. Positions
 * outside the input do not count. Rows row0 to row1 - 1 are computed; row by row (aot_rows.h) x is
 * one plane. No scratch; y must not overlap x.
 */
#ifndef AOT_MAXPOOL_S8_BLOCKED_H
#define AOT_MAXPOOL_S8_BLOCKED_H

#include <stddef.h>
#include <string.h>

#include "aot_pool.h"
#include "aot_quantised.h"
#include "aot_rows.h"

typedef aot_pool_params aot_maxpool_s8_blocked_params;

/* y[lane] = the larger of y[lane] and x[lane]; `first` takes x as it is. */
#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__)

#include <arm_mve.h>

AOT_INLINE void aot_maxpool_s8_blocked_take(void *y, const void *x, int32_t lanes, int first,
                                            int U) {
    int8_t *to = (int8_t *)y;
    const int8_t *from = (const int8_t *)x;
    for (; lanes > 0; lanes -= 16, to += 16, from += 16) {
        const mve_pred16_t some = vctp8q((uint32_t)lanes);
        const int8x16_t v = vldrbq_z_s8(from, some);
        const int8x16_t old = first ? v : vldrbq_z_s8(to, some);
        if (U) {
            const uint8x16_t most = vmaxq_u8(vreinterpretq_u8_s8(v), vreinterpretq_u8_s8(old));
            vstrbq_p_s8(to, vreinterpretq_s8_u8(most), some);
        } else {
            vstrbq_p_s8(to, vmaxq_s8(v, old), some);
        }
    }
}

#else

/* A part that compilers make one instruction of. */
#define AOT_MAXPOOL_S8_PART 32
#define AOT_MAXPOOL_S8_TAKE(T)                                                                     \
    do {                                                                                           \
        T old_[AOT_MAXPOOL_S8_PART], new_[AOT_MAXPOOL_S8_PART];                                    \
        (void)memcpy(new_, from, sizeof new_);                                                     \
        (void)memcpy(old_, first ? from : to, sizeof old_);                                        \
        for (i = 0; i < AOT_MAXPOOL_S8_PART; ++i) {                                                \
            old_[i] = old_[i] > new_[i] ? old_[i] : new_[i];                                       \
        }                                                                                          \
        (void)memcpy(to, old_, sizeof old_);                                                       \
    } while (0)

AOT_INLINE void aot_maxpool_s8_blocked_take(void *y, const void *x, int32_t lanes, int first,
                                            int U) {
    int32_t i;
#if defined(AOT_VLEN) && AOT_VLEN > 1
    uint8_t *to = (uint8_t *)y;
    const uint8_t *from = (const uint8_t *)x;
    for (; lanes >= AOT_MAXPOOL_S8_PART; lanes -= AOT_MAXPOOL_S8_PART) {
        if (U) {
            AOT_MAXPOOL_S8_TAKE(uint8_t);
        } else {
            AOT_MAXPOOL_S8_TAKE(int8_t);
        }
        to += AOT_MAXPOOL_S8_PART;
        from += AOT_MAXPOOL_S8_PART;
    }
    y = to;
    x = from;
#endif
    for (i = 0; i < lanes; ++i) {
        const int32_t v = aot_q_load(x, i, U), old = first ? v : aot_q_load(y, i, U);
        aot_q_store(y, i, v > old ? v : old, U);
    }
}

#endif

AOT_INLINE void aot_maxpool_s8_blocked(void *y, const void *x, const aot_pool_params *p, int32_t V,
                                       int U) {
    const ptrdiff_t plane = (ptrdiff_t)p->in[0] * p->in[1] * p->in[2] * V;
    const ptrdiff_t result = (ptrdiff_t)p->out[0] * p->out[1] * p->out[2] * V;
    int32_t n, od, oh, ow, i, j, k;
    for (n = 0; n < p->planes; ++n) {
        for (od = 0; od < p->out[0]; ++od) {
            const aot_pool_span d = aot_pool_taps(p, 0, od);
            for (oh = p->row0; oh < p->row1; ++oh) {
                const aot_pool_span h = aot_pool_taps(p, 1, oh);
                for (ow = 0; ow < p->out[2]; ++ow) {
                    const aot_pool_span w = aot_pool_taps(p, 2, ow);
                    uint8_t *to = (uint8_t *)y + n * result +
                                  (((ptrdiff_t)od * p->out[1] + oh) * p->out[2] + ow) * V;
                    int first = 1;
                    for (i = d.first; i < d.end; ++i) {
                        for (j = h.first; j < h.end; ++j) {
                            for (k = w.first; k < w.end; ++k) {
                                const ptrdiff_t z = d.at + (ptrdiff_t)i * p->d[0];
                                const ptrdiff_t row = h.at + (ptrdiff_t)j * p->d[1];
                                const ptrdiff_t column = w.at + (ptrdiff_t)k * p->d[2];
                                const ptrdiff_t at = ((z * p->in[1] + row) * p->in[2] + column) * V;
                                const void *from =
                                    AOT_AT(x, row, column * V, (const uint8_t *)x + n * plane + at);
                                aot_maxpool_s8_blocked_take(to, from, V, first, U);
                                first = 0;
                            }
                        }
                    }
                }
            }
        }
    }
}

#endif /* AOT_MAXPOOL_S8_BLOCKED_H */
