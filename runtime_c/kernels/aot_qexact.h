/* SPDX-License-Identifier: MIT-0 */
/* What float32 makes of a positive number, operation by operation, in integers: for the results
 * of fixed point that lie so close to a half that the roundings of float32 decide.
 *
 * A value is sig * 2^exp with 2^23 <= sig < 2^24, or 0 with sig 0. Results round to nearest, halves
 * to even, as float32 does while nothing overflows or becomes subnormal. Functions shared by all
 * instances of kernels, because they run rarely.
 */
#ifndef AOT_QEXACT_H
#define AOT_QEXACT_H

#include "aot_requant.h"

typedef struct aot_qexact {
    uint32_t sig;
    int32_t exp;
} aot_qexact;

/* How many bits v has below and with its highest 1. */
AOT_INLINE int32_t aot_qexact_length(uint64_t v) {
    uint32_t part = (uint32_t)(v >> 32);
    int32_t n = 32;
    if (part == 0U) {
        part = (uint32_t)v;
        n = 0;
    }
    for (int32_t step = 16; step > 0; step >>= 1) {
        if ((part >> step) != 0U) {
            part >>= step;
            n += step;
        }
    }
    return n + (int32_t)part;
}

/* v * 2^exp. */
static AOT_NOINLINE AOT_UNUSED aot_qexact aot_qexact_of(uint64_t v, int32_t exp) {
    const int32_t above = aot_qexact_length(v) - 24;
    aot_qexact r = {0, 0};
    if (v == 0) {
        return r;
    }
    v = above > 0 ? aot_requant_drop(v, above) : v << -above;
    r.sig = (uint32_t)v;
    r.exp = exp + above;
    if (r.sig == UINT32_C(1) << 24) { /* rounded up to one bit more */
        r.sig >>= 1;
        ++r.exp;
    }
    return r;
}

AOT_INLINE aot_qexact aot_qexact_times(aot_qexact a, aot_qexact b) {
    return aot_qexact_of((uint64_t)a.sig * b.sig, a.exp + b.exp);
}

/* a / b for b > 0: 27 bits of the quotient, the last of them set by a remainder. */
static AOT_NOINLINE AOT_UNUSED aot_qexact aot_qexact_over(aot_qexact a, aot_qexact b) {
    const uint64_t up = (uint64_t)a.sig << 27, whole = up / b.sig;
    return aot_qexact_of(whole | (uint64_t)(whole * b.sig != up), a.exp - 27 - b.exp);
}

/* a + b, or a - b with `minus`; the difference is |a - b|, *swapped whether it is b - a. */
static AOT_NOINLINE AOT_UNUSED aot_qexact aot_qexact_sum(aot_qexact a, aot_qexact b, int minus,
                                                         int *swapped) {
    uint64_t high, low;
    int32_t apart;
    *swapped = a.sig == 0 || (b.sig != 0 && (a.exp < b.exp || (a.exp == b.exp && a.sig < b.sig)));
    if (*swapped != 0) {
        const aot_qexact t = a;
        a = b;
        b = t;
    }
    if (b.sig == 0) {
        return a;
    }
    apart = a.exp - b.exp;
    if (apart > 36) { /* b only decides on which side of a the sum is */
        apart = 36;
        b.sig = 1;
    }
    high = (uint64_t)a.sig << apart;
    low = b.sig;
    return aot_qexact_of(minus ? high - low : high + low, a.exp - apart);
}

/* To the nearest integer, halves to even, limited to AOT_REQUANT_LIMIT. */
AOT_INLINE int32_t aot_qexact_rint(aot_qexact v) {
    uint64_t whole;
    if (v.sig == 0 || v.exp < -48) {
        return 0;
    }
    if (v.exp > -2) {
        return AOT_REQUANT_LIMIT;
    }
    whole = aot_requant_drop(v.sig, -v.exp);
    return whole > AOT_REQUANT_LIMIT ? AOT_REQUANT_LIMIT : (int32_t)whole;
}

#endif /* AOT_QEXACT_H */
