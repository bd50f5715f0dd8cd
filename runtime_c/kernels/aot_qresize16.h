/* SPDX-License-Identifier: MIT-0 */
/* Resizing of quantised values of which some have 16 bits, of types XT and YT of aot_quantised.h,
 * along up to three neighbouring axes at once.
 *
 * Sums in 64 bits of quantised values times weights in fixed point. What float32 makes of them
 * differs by less than slack * 2^-24 of the sum of their sizes; where that may change the quantised
 * value, its roundings are repeated one by one: with NESTED 0 of every input times the product of
 * its weights, with NESTED 1 along the last axis, then the one before it, then the first.
 */
#ifndef AOT_QRESIZE16_H
#define AOT_QRESIZE16_H

#include "aot_quantised.h"
#include "aot_qresize_s8.h"

/* Bits of a sum that are multiplied apart from those above. */
#define AOT_QRESIZE16_LOW 24

typedef struct aot_qresize16_params {
    int32_t outer;   /* product of the axes before the three resized ones */
    int32_t in[3];   /* their extents in x, missing ones first and 1 */
    int32_t out[3];  /* their extents in y */
    int32_t inner;   /* product of the axes after them */
    int32_t taps[3]; /* inputs per output along each */
    int32_t bits;    /* fraction bits of the sums: 2^16 << bits times all |weights| < 2^53 */
    int32_t mult;    /* y - y_zero = sum * mult / 2^(shift + 24) */
    int32_t shift;   /* 1..62 */
    int32_t slack;   /* roundings of float32 */
    int64_t error;   /* of a sum, by the fixed point of the weights */
    int32_t x_zero, y_zero, lo, hi;
    int32_t outside;        /* value of outputs with a tap -1 */
    int32_t sig[2], exp[2]; /* scales of x and y, see aot_qexact.h */
} aot_qresize16_params;

/* The inputs of one output along each axis: positions, and weights as the bits of a float32. */
typedef struct aot_qresize16_lines {
    const int32_t *at[3], *w[3];
} aot_qresize16_lines;

/* A float32 of less than 4 with AOT_QRESIZE_BITS fraction bits. */
AOT_INLINE int32_t aot_qresize16_fixed(int32_t bits) {
    const int32_t sig = (int32_t)(((uint32_t)bits & 0x7FFFFFU) | 0x800000U);
    const int32_t down = 150 - AOT_QRESIZE_BITS - (int32_t)(((uint32_t)bits >> 23) & 0xFFU);
    int32_t v = 0;
    if (down <= 0) {
        v = sig << -down;
    } else if (down <= 25) {
        v = (sig + (1 << (down - 1))) >> down;
    }
    return bits < 0 ? -v : v;
}

/* -- float32 in integers ---------------------------------------------------------------------- */

typedef struct aot_qresize16_float {
    aot_qexact v;
    int negative;
} aot_qresize16_float;

/* A weight from its bits; subnormal ones are not used. */
AOT_INLINE aot_qresize16_float aot_qresize16_weight(int32_t bits) {
    aot_qresize16_float r = {{0, 0}, bits < 0};
    if (((uint32_t)bits & 0x7FFFFFFFU) != 0U) {
        r.v.sig = ((uint32_t)bits & 0x7FFFFFU) | 0x800000U;
        r.v.exp = (int32_t)(((uint32_t)bits >> 23) & 0xFFU) - 150;
    }
    return r;
}

AOT_INLINE aot_qresize16_float aot_qresize16_times(aot_qresize16_float a, aot_qresize16_float b) {
    const aot_qresize16_float r = {aot_qexact_times(a.v, b.v), a.negative != b.negative};
    return r;
}

AOT_INLINE aot_qresize16_float aot_qresize16_plus(aot_qresize16_float a, aot_qresize16_float b) {
    aot_qresize16_float r;
    int swapped;
    r.v = aot_qexact_sum(a.v, b.v, a.negative != b.negative, &swapped);
    r.negative = swapped ? b.negative : a.negative;
    return r;
}

AOT_INLINE aot_qresize16_float aot_qresize16_value(const void *x, int64_t at,
                                                   const aot_qresize16_params *p, int XT) {
    const int32_t d = aot_q_load(x, at, XT) - p->x_zero;
    const uint64_t size = (uint64_t)(uint32_t)(d < 0 ? -d : d) * (uint32_t)p->sig[0];
    const aot_qresize16_float r = {aot_qexact_of(size, p->exp[0]), d < 0};
    return r;
}

/* The sum at x[from] as float32 has it, in quantised values of y. */
static AOT_NOINLINE AOT_UNUSED int32_t aot_qresize16_exact(const aot_qresize16_lines *l,
                                                           const void *x, int64_t from,
                                                           const aot_qresize16_params *p, int XT,
                                                           int NESTED) {
    const aot_qresize16_float none = {{0, 0}, 0};
    const aot_qexact y = {(uint32_t)p->sig[1], p->exp[1]};
    aot_qresize16_float sum = none;
    for (int32_t i = 0; i < p->taps[0]; ++i) {
        const aot_qresize16_float first = aot_qresize16_weight(l->w[0][i]);
        aot_qresize16_float plane = none;
        for (int32_t j = 0; j < p->taps[1]; ++j) {
            const aot_qresize16_float second = aot_qresize16_weight(l->w[1][j]);
            const int32_t row = (l->at[0][i] * p->in[1] + l->at[1][j]) * p->in[2];
            aot_qresize16_float line = none;
            for (int32_t k = 0; k < p->taps[2]; ++k) {
                const int64_t at = from + (int64_t)(row + l->at[2][k]) * p->inner;
                const aot_qresize16_float v = aot_qresize16_value(x, at, p, XT);
                aot_qresize16_float w = aot_qresize16_weight(l->w[2][k]);
                if (NESTED != 0) {
                    line = aot_qresize16_plus(line, aot_qresize16_times(w, v));
                } else {
                    w = aot_qresize16_times(aot_qresize16_times(w, second), first);
                    sum = aot_qresize16_plus(sum, aot_qresize16_times(w, v));
                }
            }
            if (NESTED != 0) {
                plane = aot_qresize16_plus(plane, aot_qresize16_times(line, second));
            }
        }
        if (NESTED != 0) {
            sum = aot_qresize16_plus(sum, aot_qresize16_times(plane, first));
        }
    }
    const int32_t q = aot_qexact_rint(aot_qexact_over(sum.v, y));
    return sum.negative ? -q : q;
}

/* -- fixed point ------------------------------------------------------------------------------ */

AOT_INLINE int32_t aot_qresize16_limit(int64_t q, const aot_qresize16_params *p) {
    const int64_t value = q + p->y_zero;
    return (int32_t)(value < p->lo ? p->lo : value > p->hi ? p->hi : value);
}

AOT_INLINE int32_t aot_qresize16_scaled(int64_t sum, const aot_qresize16_params *p) {
    const int64_t high = sum >> AOT_QRESIZE16_LOW;
    const int64_t low = sum - high * ((int64_t)1 << AOT_QRESIZE16_LOW);
    const int64_t v = high * p->mult + ((low * p->mult) >> AOT_QRESIZE16_LOW);
    return aot_qresize16_limit((v + ((int64_t)1 << (p->shift - 1))) >> p->shift, p);
}

/* The quantised value of the sum of n taps at x[from]. */
AOT_INLINE int32_t aot_qresize16_code(const aot_qresize_tap *tap, int32_t n,
                                      const aot_qresize16_lines *l, const void *x, int64_t from,
                                      const aot_qresize16_params *p, int XT, int NESTED) {
    int64_t sum = 0, size = 0;
    for (int32_t t = 0; t < n; ++t) {
        const int64_t part =
            (int64_t)tap[t].weight * (aot_q_load(x, from + tap[t].at, XT) - p->x_zero);
        sum += part;
        size += part < 0 ? -part : part;
    }
    const int64_t error = (size >> 24) * p->slack + p->slack + p->error;
    const int32_t down = aot_qresize16_scaled(sum - error, p);
    const int32_t up = aot_qresize16_scaled(sum + error, p);
    if (AOT_LIKELY(down == up)) {
        return down;
    }
    return aot_qresize16_limit(aot_qresize16_exact(l, x, from, p, XT, NESTED), p);
}

/* The taps of an output; their number, -1 for an output outside. Taps of weight 0 are left out. */
AOT_INLINE int32_t aot_qresize16_gather(aot_qresize_tap *tap, const aot_qresize16_lines *l,
                                        const aot_qresize16_params *p) {
    const int32_t drop = 2 * AOT_QRESIZE_BITS - p->bits;
    int32_t n = 0;
    if (l->at[0][0] < 0 || l->at[1][0] < 0 || l->at[2][0] < 0) {
        return -1;
    }
    for (int32_t i = 0; i < p->taps[0]; ++i) {
        const int64_t first = aot_qresize16_fixed(l->w[0][i]);
        for (int32_t j = 0; j < p->taps[1]; ++j) {
            const int64_t product = first * aot_qresize16_fixed(l->w[1][j]);
            const int64_t pair = aot_qresize_drop(product, AOT_QRESIZE_BITS);
            const int32_t row = (l->at[0][i] * p->in[1] + l->at[1][j]) * p->in[2];
            for (int32_t k = 0; pair != 0 && k < p->taps[2]; ++k) {
                const int64_t all = pair * aot_qresize16_fixed(l->w[2][k]);
                const int32_t weight = (int32_t)aot_qresize_drop(all, drop);
                if (weight != 0) {
                    tap[n].at = (row + l->at[2][k]) * p->inner;
                    tap[n++].weight = weight;
                }
            }
        }
    }
    return n;
}

/* Output (a, b, c) of all planes. */
AOT_INLINE void aot_qresize16_place(void *y, const void *x, aot_qresize_tap *tap,
                                    const aot_qresize16_lines *l, int64_t to,
                                    const aot_qresize16_params *p, int XT, int YT, int NESTED) {
    const int32_t n = aot_qresize16_gather(tap, l, p);
    const int64_t in = (int64_t)p->in[0] * p->in[1] * p->in[2] * p->inner;
    const int64_t out = (int64_t)p->out[0] * p->out[1] * p->out[2] * p->inner;
    for (int32_t o = 0; o < p->outer; ++o) {
        for (int32_t i = 0; i < p->inner; ++i) {
            const int32_t value =
                n < 0 ? p->outside : aot_qresize16_code(tap, n, l, x, o * in + i, p, XT, NESTED);
            aot_q_store(y, o * out + to + i, value, YT);
        }
    }
}

/* y [outer][out][inner] from x [outer][in][inner]. at and w are the tables of the three axes one
   after the other, each [out][taps]. Scratch: a tap for every product of weights. Not in place. */
AOT_INLINE void aot_qresize16(void *y, const void *x, const int32_t *at, const int32_t *w,
                              void *scratch, const aot_qresize16_params *p, int XT, int YT,
                              int NESTED) {
    const int32_t second = p->out[0] * p->taps[0], third = second + p->out[1] * p->taps[1];
    int64_t to = 0;
    for (int32_t a = 0; a < p->out[0]; ++a) {
        for (int32_t b = 0; b < p->out[1]; ++b) {
            for (int32_t c = 0; c < p->out[2]; ++c, to += p->inner) {
                const int32_t i = a * p->taps[0];
                const int32_t j = second + b * p->taps[1], k = third + c * p->taps[2];
                const aot_qresize16_lines l = {{at + i, at + j, at + k}, {w + i, w + j, w + k}};
                aot_qresize16_place(y, x, (aot_qresize_tap *)scratch, &l, to, p, XT, YT, NESTED);
            }
        }
    }
}

#endif /* AOT_QRESIZE16_H */
