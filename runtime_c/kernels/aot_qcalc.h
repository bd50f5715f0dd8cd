/* SPDX-License-Identifier: MIT-0 */
/* Sums, products and quotients of two tensors of quantised values of one type, broadcast as in
 * aot_broadcast.h: the bits that float32 gives, or those of TensorFlow Lite, in integers.
 *
 * aot_qcalc_<type>, types s8 s16 u16; a and b stand for the quantised values minus their zero
 * points. OP 0 (sum): (a + sign b), 1 (product), 2 (quotient; 0 / 0 is 0) with their scales to the
 * scale of y. In 64 bits with `bits` fraction bits: a * a_mult + b * b_mult, (a * b) * a_mult, a *
 * a_mult / b. float32 is off by less than 2^-22 of the value; where that may change the quantised
 * value, its roundings are repeated one by one with the scales sig * 2^exp. OP 3, 4: sum and
 * product of TensorFlow Lite for 16 bits, with zero points 0: operands times 2^15 to a common
 * scale, their sum to that of y; multipliers of RQ 2 of aot_requant.h.
 *
 * Results are limited to [lo, hi]. y may be an operand that is not broadcast; no scratch.
 */
#ifndef AOT_QCALC_H
#define AOT_QCALC_H

#include "aot_broadcast.h"
#include "aot_quantised.h"
#include "aot_qexact.h"

typedef struct aot_qcalc_params {
    int64_t dims[AOT_BROADCAST_DIMS], sa[AOT_BROADCAST_DIMS], sb[AOT_BROADCAST_DIMS];
    int32_t a_mult, b_mult, y_mult, a_shift, b_shift, y_shift;
    int32_t bits, sign;
    int32_t a_zero, b_zero, y_zero, lo, hi;
    int32_t sig[3], exp[3]; /* scales of a, b, y */
} aot_qcalc_params;

typedef aot_qcalc_params aot_qcalc_s8_params;
typedef aot_qcalc_params aot_qcalc_s16_params;
typedef aot_qcalc_params aot_qcalc_u16_params;

AOT_INLINE aot_qexact aot_qcalc_scale(const aot_qcalc_params *p, int k) {
    const aot_qexact s = {(uint32_t)p->sig[k], p->exp[k]};
    return s;
}

/* The value of a difference of quantised values, without its sign. */
AOT_INLINE aot_qexact aot_qcalc_value(int32_t v, const aot_qcalc_params *p, int k) {
    const aot_qexact s = aot_qcalc_scale(p, k);
    return aot_qexact_of((uint64_t)(uint32_t)(v < 0 ? -v : v) * s.sig, s.exp);
}

/* What float32 computes, operation by operation. */
static AOT_NOINLINE AOT_UNUSED int32_t aot_qcalc_exact(int32_t a, int32_t b,
                                                       const aot_qcalc_params *p, int OP) {
    const aot_qexact left = aot_qcalc_value(a, p, 0), right = aot_qcalc_value(b, p, 1);
    int negative = (a < 0) != (b < 0), swapped;
    aot_qexact v;
    int32_t q;
    if (OP == 0) {
        v = aot_qexact_sum(left, right, negative, &swapped);
        negative = (swapped ? b : a) < 0;
    } else {
        v = OP == 1 ? aot_qexact_times(left, right) : aot_qexact_over(left, right);
    }
    q = aot_qexact_rint(aot_qexact_over(v, aot_qcalc_scale(p, 2)));
    return negative ? -q : q;
}

AOT_INLINE int32_t aot_qcalc_limit(int64_t v, const aot_qcalc_params *p) {
    const int64_t lo = p->lo - p->y_zero, hi = p->hi - p->y_zero;
    return (int32_t)(v < lo ? lo : v > hi ? hi : v) + p->y_zero;
}

AOT_INLINE int32_t aot_qcalc_one(int32_t a, int32_t b, const aot_qcalc_params *p, int OP) {
    const int64_t half = (int64_t)1 << (p->bits - 1);
    int64_t v, size, error;
    int32_t down, up;
    if (OP == 2 && b == 0) {
        return aot_qcalc_limit(a < 0 ? INT32_MIN : a > 0 ? INT32_MAX : 0, p);
    }
    if (OP == 0) {
        const int64_t left = (int64_t)a * p->a_mult, right = (int64_t)b * p->b_mult;
        v = left + right;
        size = (left < 0 ? -left : left) + (right < 0 ? -right : right);
        error = (int64_t)(a < 0 ? -a : a) + (b < 0 ? -b : b) + 1;
    } else if (OP == 1) {
        const int64_t product = (int64_t)a * b;
        v = product * p->a_mult;
        size = v < 0 ? -v : v;
        error = (product < 0 ? -product : product) + 1;
    } else {
        v = (int64_t)a * p->a_mult / b;
        size = v < 0 ? -v : v;
        error = (int64_t)(a < 0 ? -a : a) + 2;
    }
    error += size >> 22;
    down = aot_qcalc_limit((v - error + half) >> p->bits, p);
    up = aot_qcalc_limit((v + error + half) >> p->bits, p);
    return AOT_LIKELY(down == up) ? down : aot_qcalc_limit(aot_qcalc_exact(a, b, p, OP), p);
}

/* v limited to what RQ 2 takes. */
AOT_INLINE int32_t aot_qcalc_narrow(int64_t v) {
    const int64_t top = (1 << 30) - 1;
    return (int32_t)(v < -top ? -top : v > top ? top : v);
}

AOT_INLINE int32_t aot_qcalc_tflite(int32_t a, int32_t b, const aot_qcalc_params *p, int OP) {
    int32_t sum;
    if (OP == 4) {
        sum = aot_qcalc_narrow((int64_t)a * b);
    } else {
        const int32_t left = aot_qcalc_narrow((int64_t)a * (1 << 15));
        const int32_t right = aot_qcalc_narrow((int64_t)b * (1 << 15));
        sum = aot_requant(left, p->a_mult, p->a_shift, 2);
        sum += aot_requant(right, p->b_mult, p->b_shift, 2);
    }
    return aot_qcalc_limit(aot_requant(sum, p->y_mult, p->y_shift, 2), p);
}

#define AOT_QCALC_KERNEL(SHORT, T)                                                                 \
    AOT_INLINE void aot_qcalc_##SHORT##_row(T *y, const T *a, const T *b, ptrdiff_t n,             \
                                            const aot_qcalc_params *p, int IA, int IB, int OP) {   \
        ptrdiff_t i;                                                                               \
        for (i = 0; i < n; ++i) {                                                                  \
            const int32_t u = a[i * IA] - p->a_zero, v = (b[i * IB] - p->b_zero) * p->sign;        \
            y[i] = (T)(OP < 3 ? aot_qcalc_one(u, v, p, OP) : aot_qcalc_tflite(u, v, p, OP));       \
        }                                                                                          \
    }                                                                                              \
    AOT_INLINE void aot_qcalc_##SHORT(T *y, const T *a, const T *b, const aot_qcalc_params *p,     \
                                      int IA, int IB, int OP) {                                    \
        AOT_BROADCAST2(T, T, T, AOT_QCALC_ROW_##SHORT);                                            \
    }
#define AOT_QCALC_ROW_s8(y_, a_, b_, n_) aot_qcalc_s8_row(y_, a_, b_, n_, p, IA, IB, OP)
#define AOT_QCALC_ROW_s16(y_, a_, b_, n_) aot_qcalc_s16_row(y_, a_, b_, n_, p, IA, IB, OP)
#define AOT_QCALC_ROW_u16(y_, a_, b_, n_) aot_qcalc_u16_row(y_, a_, b_, n_, p, IA, IB, OP)
AOT_QCALC_KERNEL(s8, int8_t)
AOT_QCALC_KERNEL(s16, int16_t)
AOT_QCALC_KERNEL(u16, uint16_t)

#endif /* AOT_QCALC_H */
