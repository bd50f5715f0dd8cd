/* SPDX-License-Identifier: MIT-0 */
/* Softmax and its logarithm along one axis, between quantised values of 8 or 16 bits, in integers:
 * x and y are [outer][axis][inner], of types XT and YT of aot_quantised.h.
 *
 * Values and their differences to the largest are rounded as float32 rounds them, whole numbers of
 * 2^exp of the scale of x; the powers of e are off by less than 2^-30, and
 * their sum is exact. What comes after is done in fixed point, and repeated with the roundings of
 * float32 where those may change the quantised value; with LOG 1 always.
 *
 * table[i] is 2^(-i/64) in Q1.31. Scratch: the powers of one row in Q1.31, with LOG 0. y may be x.
 */
#ifndef AOT_QSOFTMAX16_H
#define AOT_QSOFTMAX16_H

#include <stddef.h>

#include "aot_quantised.h"
#include "aot_qexact.h"

typedef struct aot_qsoftmax16_params {
    int64_t outer, axis, inner;
    int32_t sig[2], exp[2]; /* scales of x and y, see aot_qexact.h */
    int64_t rate;           /* below 2^32: log2(e) * 2^(exp[0] + 16) = rate / 2^bits */
    int32_t bits;           /* 32..62 */
    int32_t unit, shift;    /* 1 / scale of y = unit / 2^shift, 2^30 <= unit < 2^31 */
    int32_t x_zero, y_zero, lo, hi;
} aot_qsoftmax16_params;

/* v rounded to the 24 significant bits of a float. */
AOT_INLINE uint64_t aot_qsoftmax16_single(uint64_t v) {
    const int32_t n = aot_qexact_length(v) - 24;
    return n > 0 ? aot_requant_drop(v, n) << n : v;
}

/* The value of a quantised value in units of 2^exp of the scale of x. */
AOT_INLINE int64_t aot_qsoftmax16_value(int32_t value, const aot_qsoftmax16_params *p) {
    const int32_t d = value - p->x_zero;
    const uint32_t size = (uint32_t)(d < 0 ? -d : d);
    const int64_t v = (int64_t)aot_qsoftmax16_single((uint64_t)size * (uint32_t)p->sig[0]);
    return d < 0 ? -v : v;
}

AOT_INLINE uint32_t aot_qsoftmax16_high(uint32_t a, uint32_t b) {
    return (uint32_t)(((uint64_t)a * b) >> 32);
}

/* exp(-d * 2^exp of the scale of x) in Q1.31 for d < 2^42. */
AOT_INLINE uint32_t aot_qsoftmax16_power(uint64_t d, const uint32_t *table,
                                         const aot_qsoftmax16_params *p) {
    const uint64_t rate = (uint64_t)p->rate;
    const uint64_t t = (d >> 16) * rate + (((d & 0xFFFFU) * rate) >> 16);
    const uint64_t whole = t >> p->bits;
    const uint32_t part = (uint32_t)(t >> (p->bits - 32));
    /* 1 - 2^-r for r below 1/64: a cubic polynomial. */
    const uint32_t r = part & 0x3FFFFFFU, entry = table[part >> 26];
    uint32_t s = UINT32_C(1031759336) - aot_qsoftmax16_high(UINT32_C(237422494), r);
    s = aot_qsoftmax16_high(UINT32_C(2977044467) - aot_qsoftmax16_high(s, r), r);
    if (whole > 31U) {
        return 0;
    }
    const uint64_t product = ((uint64_t)entry << 32) - (uint64_t)entry * s;
    return (uint32_t)((product + (UINT64_C(1) << (31U + whole))) >> (32U + whole));
}

/* What turns the powers of one row into quantised values: power * factor / 2^shift. */
typedef struct aot_qsoftmax16_scale {
    uint64_t factor;
    int32_t shift;
    aot_qexact over; /* 1 / sum as float32 has it */
} aot_qsoftmax16_scale;

AOT_INLINE aot_qsoftmax16_scale aot_qsoftmax16_prepare(uint64_t sum,
                                                       const aot_qsoftmax16_params *p) {
    const aot_qexact one = {UINT32_C(1) << 23, -23};
    aot_qsoftmax16_scale s;
    int32_t up = 0;
    for (; (sum >> up) > UINT32_MAX; ++up) {
    }
    s.factor = ((uint64_t)(uint32_t)p->unit << 32) / (sum >> up);
    s.shift = 32 + up + p->shift;
    if (s.shift > 62) {
        s.factor >>= s.shift - 62;
        s.shift = 62;
    }
    s.over = aot_qexact_over(one, aot_qexact_of(sum, -31));
    return s;
}

/* The roundings of float32: of the power, the product and the quotient. */
static AOT_NOINLINE AOT_UNUSED int32_t aot_qsoftmax16_exact(uint32_t power, aot_qexact over,
                                                            const aot_qsoftmax16_params *p) {
    const aot_qexact y = {(uint32_t)p->sig[1], p->exp[1]};
    const aot_qexact share = aot_qexact_times(aot_qexact_of(power, -31), over);
    return aot_qexact_rint(aot_qexact_over(share, y));
}

AOT_INLINE int32_t aot_qsoftmax16_limit(uint64_t v, const aot_qsoftmax16_params *p) {
    const uint64_t top = AOT_REQUANT_LIMIT;
    return aot_q_shifted((int32_t)(v > top ? top : v), p->y_zero, p->lo, p->hi);
}

/* float32 is off by less than 2^-21 of the value. */
AOT_INLINE int32_t aot_qsoftmax16_result(uint32_t power, const aot_qsoftmax16_scale *s,
                                         const aot_qsoftmax16_params *p) {
    const uint64_t half = UINT64_C(1) << (s->shift - 1), v = power * s->factor;
    const uint64_t error = (v >> 21) + 1U;
    const int32_t down = aot_qsoftmax16_limit((v + half - error) >> s->shift, p);
    const int32_t up = aot_qsoftmax16_limit((v + half + error) >> s->shift, p);
    if (AOT_LIKELY(down == up)) {
        return down;
    }
    return aot_qsoftmax16_limit((uint64_t)aot_qsoftmax16_exact(power, s->over, p), p);
}

/* ln(sum / 2^31) as float32 has it: the bits of log2 by squaring. */
static AOT_NOINLINE AOT_UNUSED aot_qexact aot_qsoftmax16_log(uint64_t sum) {
    const uint64_t ln2 = UINT64_C(2977044472);
    const uint64_t rounded = aot_qsoftmax16_single(sum);
    uint64_t whole = 0, bits = 0, m;
    while ((rounded >> whole) > UINT32_MAX) {
        ++whole;
    }
    m = rounded >> whole;
    for (int i = 0; i < 32; ++i) {
        const uint64_t square = m * m;
        const uint64_t two = square >> 63;
        m = square >> (31U + two);
        bits = 2U * bits + two;
    }
    /* (whole + bits / 2^32) * ln2 with 59 fraction bits */
    return aot_qexact_of(((whole * ln2) << 27) + ((bits * ln2) >> 5), -59);
}

/* -(d * 2^exp + log), rounded as float32 rounds it and its quotient by the scale of y. */
static AOT_NOINLINE AOT_UNUSED int32_t aot_qsoftmax16_log_result(uint64_t d, aot_qexact log,
                                                                 const aot_qsoftmax16_params *p) {
    const aot_qexact y = {(uint32_t)p->sig[1], p->exp[1]};
    int swapped;
    const aot_qexact v = aot_qexact_sum(aot_qexact_of(d, p->exp[0]), log, 0, &swapped);
    const int32_t q = aot_qexact_rint(aot_qexact_over(v, y));
    return aot_q_shifted(-q, p->y_zero, p->lo, p->hi);
}

/* One row of `axis` quantised values, `step` apart. */
AOT_INLINE void aot_qsoftmax16_row(void *y, const void *x, int64_t from, const uint32_t *table,
                                   uint32_t *powers, const aot_qsoftmax16_params *p, int XT, int YT,
                                   int LOG) {
    int32_t most = aot_q_load(x, from, XT);
    uint64_t sum = 0;
    for (int64_t k = 1; k < p->axis; ++k) {
        const int32_t value = aot_q_load(x, from + k * p->inner, XT);
        most = value > most ? value : most;
    }
    const int64_t top = aot_qsoftmax16_value(most, p);
    for (int64_t k = 0; k < p->axis; ++k) {
        const int64_t v = aot_qsoftmax16_value(aot_q_load(x, from + k * p->inner, XT), p);
        const uint32_t power =
            aot_qsoftmax16_power(aot_qsoftmax16_single((uint64_t)(top - v)), table, p);
        sum += power;
        if (!LOG) {
            powers[k] = power;
        }
    }
    if (LOG != 0) {
        const aot_qexact log = aot_qsoftmax16_log(sum);
        for (int64_t k = 0; k < p->axis; ++k) {
            const int64_t at = from + k * p->inner;
            const int64_t v = aot_qsoftmax16_value(aot_q_load(x, at, XT), p);
            aot_q_store(y, at, aot_qsoftmax16_log_result((uint64_t)(top - v), log, p), YT);
        }
    } else {
        const aot_qsoftmax16_scale s = aot_qsoftmax16_prepare(sum, p);
        for (int64_t k = 0; k < p->axis; ++k) {
            aot_q_store(y, from + k * p->inner, aot_qsoftmax16_result(powers[k], &s, p), YT);
        }
    }
}

AOT_INLINE void aot_qsoftmax16(void *y, const void *x, const uint32_t *table, void *scratch,
                               const aot_qsoftmax16_params *p, int XT, int YT, int LOG) {
    for (int64_t o = 0; o < p->outer; ++o) {
        for (int64_t i = 0; i < p->inner; ++i) {
            aot_qsoftmax16_row(y, x, o * p->axis * p->inner + i, table, (uint32_t *)scratch, p, XT,
                               YT, LOG);
        }
    }
}

#endif /* AOT_QSOFTMAX16_H */
