/* SPDX-License-Identifier: MIT-0 */
/* Quantised values times and plus constants that differ by channel (or by element): the bits of
 * float32, in integers.
 *
 * aot_qchannel_<type>, types s8 s16 u16; u stands for (x - x_zero) * sign. M 0: u; 1: u * factor;
 * 2: u / factor; 3 (PRelu): u * factor where u < 0, else u. With A an addend follows. `numbers`
 * hold for every set of constants: with M the factor, from the scale of x to that of y, with `bits`
 * fraction bits, its significand with its sign, and its exponent; with A the addend in steps of y
 * with `bits` fraction bits (the low and the high word), its significand and its exponent. They are
 * broadcast like b in aot_broadcast.h; sb counts words.
 *
 * float32 is off by less than 2^-22 of the terms; where that may change the quantised value, its
 * roundings are repeated one by one (aot_qexact.h). Results are limited to [lo, hi]. y may be x
 * where that is not broadcast; no scratch.
 */
#ifndef AOT_QCHANNEL_H
#define AOT_QCHANNEL_H

#include "aot_broadcast.h"
#include "aot_qexact.h"

#define AOT_QCHANNEL_DIV 2
#define AOT_QCHANNEL_PRELU 3
/* Words of a set of numbers, and where those of the addend begin. */
#define AOT_QCHANNEL_WORDS(M, A) (AOT_QCHANNEL_ADDEND(M) + ((A) ? 4 : 0))
#define AOT_QCHANNEL_ADDEND(M) ((M) ? 3 : 0)

typedef struct aot_qchannel_params {
    int64_t dims[AOT_BROADCAST_DIMS], sa[AOT_BROADCAST_DIMS], sb[AOT_BROADCAST_DIMS];
    int32_t mult; /* u in steps of y, where no factor applies */
    int32_t bits, sign, x_zero, y_zero, lo, hi;
    int32_t sig[2], exp[2]; /* scales of x and y */
} aot_qchannel_params;

typedef aot_qchannel_params aot_qchannel_s8_params;
typedef aot_qchannel_params aot_qchannel_s16_params;
typedef aot_qchannel_params aot_qchannel_u16_params;

/* |sig| * 2^exp. */
AOT_INLINE aot_qexact aot_qchannel_size(int32_t sig, int32_t exp) {
    const aot_qexact v = {(uint32_t)(sig < 0 ? -sig : sig), exp};
    return v;
}

/* What float32 computes, operation by operation. */
static AOT_NOINLINE AOT_UNUSED int32_t aot_qchannel_exact(int32_t u, const int32_t *k,
                                                          const aot_qchannel_params *p, int M,
                                                          int A) {
    const uint64_t size = (uint64_t)(uint32_t)(u < 0 ? -u : u);
    aot_qexact v = aot_qexact_of(size * (uint32_t)p->sig[0], p->exp[0]);
    int negative = u < 0;
    int32_t q;
    if (M != 0 && (M != AOT_QCHANNEL_PRELU || u < 0)) {
        const aot_qexact factor = aot_qchannel_size(k[1], k[2]);
        v = M == AOT_QCHANNEL_DIV ? aot_qexact_over(v, factor) : aot_qexact_times(v, factor);
        negative = negative != (k[1] < 0);
    }
    if (A != 0) {
        const int32_t *a = k + AOT_QCHANNEL_ADDEND(M);
        const int below = a[2] < 0;
        int swapped;
        v = aot_qexact_sum(v, aot_qchannel_size(a[2], a[3]), negative != below, &swapped);
        negative = swapped ? below : negative;
    }
    q = aot_qexact_rint(aot_qexact_over(v, aot_qchannel_size(p->sig[1], p->exp[1])));
    return negative ? -q : q;
}

AOT_INLINE int32_t aot_qchannel_limit(int64_t v, const aot_qchannel_params *p) {
    const int64_t lo = p->lo - p->y_zero, hi = p->hi - p->y_zero;
    return (int32_t)(v < lo ? lo : v > hi ? hi : v) + p->y_zero;
}

AOT_INLINE int32_t aot_qchannel_one(int32_t u, const int32_t *k, const aot_qchannel_params *p,
                                    int M, int A) {
    const int64_t half = (int64_t)1 << (p->bits - 1);
    const int32_t mult = M != 0 && (M != AOT_QCHANNEL_PRELU || u < 0) ? k[0] : p->mult;
    int64_t v = (int64_t)u * mult, size = v < 0 ? -v : v, error;
    int32_t down, up;
    if (A != 0) {
        const int32_t *a = k + AOT_QCHANNEL_ADDEND(M);
        const int64_t addend = (int64_t)a[1] * ((int64_t)1 << 32) + (uint32_t)a[0];
        v += addend;
        size += addend < 0 ? -addend : addend;
    }
    error = (int64_t)(u < 0 ? -u : u) + 2 + (size >> 22);
    down = aot_qchannel_limit((v - error + half) >> p->bits, p);
    up = aot_qchannel_limit((v + error + half) >> p->bits, p);
    return AOT_LIKELY(down == up) ? down : aot_qchannel_limit(aot_qchannel_exact(u, k, p, M, A), p);
}

#define AOT_QCHANNEL_KERNEL(SHORT, T)                                                              \
    AOT_INLINE void aot_qchannel_##SHORT##_row(T *y, const T *a, const int32_t *b, ptrdiff_t n,    \
                                               const aot_qchannel_params *p, int IA, int IB,       \
                                               int M, int A) {                                     \
        ptrdiff_t i;                                                                               \
        for (i = 0; i < n; ++i) {                                                                  \
            const int32_t u = (a[i * IA] - p->x_zero) * p->sign;                                   \
            y[i] = (T)aot_qchannel_one(u, b + i * IB * AOT_QCHANNEL_WORDS(M, A), p, M, A);         \
        }                                                                                          \
    }                                                                                              \
    AOT_INLINE void aot_qchannel_##SHORT(T *y, const T *a, const int32_t *b,                       \
                                         const aot_qchannel_params *p, int IA, int IB, int M,      \
                                         int A) {                                                  \
        AOT_BROADCAST2(T, T, int32_t, AOT_QCHANNEL_ROW_##SHORT);                                   \
    }
#define AOT_QCHANNEL_ROW_s8(y_, a_, b_, n_) aot_qchannel_s8_row(y_, a_, b_, n_, p, IA, IB, M, A)
#define AOT_QCHANNEL_ROW_s16(y_, a_, b_, n_) aot_qchannel_s16_row(y_, a_, b_, n_, p, IA, IB, M, A)
#define AOT_QCHANNEL_ROW_u16(y_, a_, b_, n_) aot_qchannel_u16_row(y_, a_, b_, n_, p, IA, IB, M, A)
AOT_QCHANNEL_KERNEL(s8, int8_t)
AOT_QCHANNEL_KERNEL(s16, int16_t)
AOT_QCHANNEL_KERNEL(u16, uint16_t)

#endif /* AOT_QCHANNEL_H */
