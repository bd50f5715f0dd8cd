/* SPDX-License-Identifier: MIT-0 */
/* Softmax of int8 quantised values along one axis: x and y are [outer][axis][inner], table[d] is
 * exp(-d * scale of x) for a quantised value d below the largest, that of d > last is table[last].
 *
 * TFLITE 0: the table has `bits` fraction bits and a sum of it is below 2^31; unit = 2^16 / scale
 * of y, below 2^28; y = exp / sum * unit / 2^16 + y_zero, halves upwards.
 * TFLITE 1: the table is Q0.31; as TensorFlow Lite's reference with scale 1/256 and zero -128.
 * y may be x; no scratch.
 */
#ifndef AOT_QSOFTMAX_S8_H
#define AOT_QSOFTMAX_S8_H

#include <stddef.h>

#include "aot_quantised.h"
#include "aot_requant.h"

typedef struct aot_qsoftmax_s8_params {
    int64_t outer, axis, inner;
    int32_t unit, bits, y_zero, last;
} aot_qsoftmax_s8_params;

/* Half the high word of the doubled product, rounded to nearest. */
AOT_INLINE int32_t aot_qsoftmax_mul(int32_t a, int32_t b) {
    const int64_t product = (int64_t)a * b;
    const int64_t nudged = product + (product >= 0 ? INT64_C(1073741824) : INT64_C(-1073741823));
    return (int32_t)(nudged / INT64_C(2147483648));
}

/* v / 2^by to nearest, halves away from zero. */
AOT_INLINE int32_t aot_qsoftmax_half(int32_t v, int32_t by) {
    const int32_t mask = (int32_t)((UINT32_C(1) << by) - 1U);
    return (v >> by) + ((v & mask) > (mask >> 1) + (v < 0));
}

/* 1 / (1 + a) as Q0.31 for a in [0, 1) as Q0.31: three Newton steps in Q2.29. */
AOT_INLINE int32_t aot_qsoftmax_reciprocal(int32_t a) {
    const int32_t sum = (int32_t)(((int64_t)a + 2147483647 + 1) / 2);
    int32_t x = 1515870810 + aot_qsoftmax_mul(sum, -1010580540); /* 48/17 - 32/17 * sum */
    int i;
    for (i = 0; i < 3; ++i) {
        const int32_t rest = (INT32_C(1) << 29) - aot_qsoftmax_mul(sum, x);
        const int64_t step = (int64_t)aot_qsoftmax_mul(x, rest) * 4;
        const int64_t limited = step > INT32_MAX ? INT32_MAX : step < INT32_MIN ? INT32_MIN : step;
        x += (int32_t)limited;
    }
    return x > INT32_MAX / 2 ? INT32_MAX : x * 2;
}

AOT_INLINE int32_t aot_qsoftmax_lead(uint32_t v) {
    int32_t n = 0;
    for (; (v & UINT32_C(0x80000000)) == 0; v <<= 1) {
        ++n;
    }
    return n;
}

/* What turns an entry of the table into a quantised value: q = (entry * scale) >> shift and so on.
 */
typedef struct aot_qsoftmax_scale {
    uint32_t scale;
    int32_t shift;
} aot_qsoftmax_scale;

AOT_INLINE aot_qsoftmax_scale aot_qsoftmax_prepare(uint32_t sum, const aot_qsoftmax_s8_params *p,
                                                   int TFLITE) {
    aot_qsoftmax_scale s;
    if (TFLITE != 0) {
        const int32_t lead = aot_qsoftmax_lead(sum);
        const uint32_t fraction = (sum << lead) - UINT32_C(0x80000000);
        s.scale = (uint32_t)aot_qsoftmax_reciprocal((int32_t)fraction);
        s.shift = 12 - lead + 23;
    } else {
        s.scale = (uint32_t)(((uint64_t)(uint32_t)p->unit << p->bits) / sum);
        s.shift = p->bits + 16;
    }
    return s;
}

AOT_INLINE int8_t aot_qsoftmax_code(int32_t entry, const aot_qsoftmax_scale *s, int32_t y_zero,
                                    int TFLITE) {
    int32_t v;
    if (TFLITE != 0) {
        const int32_t product = aot_qsoftmax_mul((int32_t)s->scale, entry);
        v = s->shift > 31 ? 0 : aot_qsoftmax_half(product, s->shift);
    } else {
        const uint64_t product = (uint64_t)(uint32_t)entry * s->scale;
        v = (int32_t)((product + (UINT64_C(1) << (s->shift - 1))) >> s->shift);
    }
    return (int8_t)aot_q_shifted(v, y_zero, -128, 127);
}

AOT_INLINE int32_t aot_qsoftmax_entry(const int32_t *table, int32_t d, int32_t last) {
    return table[d < last ? d : last];
}

AOT_INLINE void aot_qsoftmax_s8(int8_t *y, const int8_t *x, const int32_t *table,
                                const aot_qsoftmax_s8_params *p, int TFLITE) {
    const ptrdiff_t step = (ptrdiff_t)p->inner;
    int64_t o, i, k;
    for (o = 0; o < p->outer; ++o) {
        for (i = 0; i < p->inner; ++i) {
            const int8_t *from = x + o * p->axis * p->inner + i;
            int8_t *to = y + o * p->axis * p->inner + i;
            aot_qsoftmax_scale s;
            uint32_t sum = 0;
            int32_t top = -128;
            for (k = 0; k < p->axis; ++k) {
                top = from[k * step] > top ? from[k * step] : top;
            }
            for (k = 0; k < p->axis; ++k) {
                const int32_t entry = aot_qsoftmax_entry(table, top - from[k * step], p->last);
                sum += (uint32_t)(TFLITE ? aot_qsoftmax_half(entry, 12) : entry);
            }
            s = aot_qsoftmax_prepare(sum, p, TFLITE);
            for (k = 0; k < p->axis; ++k) {
                to[k * step] =
                    aot_qsoftmax_code(aot_qsoftmax_entry(table, top - from[k * step], p->last), &s,
                                      p->y_zero, TFLITE);
            }
        }
    }
}

#endif /* AOT_QSOFTMAX_S8_H */
