/* SPDX-License-Identifier: MIT-0 */
/* LSTM, GRU and RNN between int8 quantised values on integers: int8 weights, states in fixed point.
 *
 * Sums: x and weights are quantised values, the state that is multiplied has 15 fraction bits; both
 * sums are scaled to 24 fraction bits. Gates and the other states have 30 fraction bits, an LSTM's
 * cell has cell_bits. tanh and the logistic function (1 + tanh(v / 2)) / 2 come from one table.
 */
#ifndef AOT_QRNN_S8_H
#define AOT_QRNN_S8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/port.h"
#include "aot_dsp_mac.h"

/* Quantised values that an iteration of a sum takes: compilers make vectors of the simplest loop
 * only. */
#if defined(__SSE2__) || defined(__ARM_NEON) || defined(__riscv_vector)
#define AOT_QRNN_STEP 1
#else
#define AOT_QRNN_STEP 4
#endif

#define AOT_QRNN_LSTM 0 /* gates in the order input, output, forget, cell */
#define AOT_QRNN_GRU 1  /* update, reset, candidate */
#define AOT_QRNN_RNN 2

/* One direction of a layer. Strides in elements. */
typedef struct aot_qrnn_s8_params {
    int32_t steps, batch;
    int32_t input, hidden; /* features of x and of the state */
    int32_t x_time, x_batch, y_time, y_batch, last_batch;
    int32_t reverse;   /* 1: from the last step to the first */
    int32_t shift;     /* fraction bits of multiplied sums beyond 24, at least 1 */
    int32_t cell_bits; /* fraction bits of the cell, at most 30 */
    int32_t y_mult;    /* y - y_zero = h * y_mult / 2^y_shift for h with 30 fraction bits */
    int32_t y_shift, y_zero;
    int32_t last_mult, last_shift, last_zero; /* the same of the last state */
    int32_t lo, hi;
} aot_qrnn_s8_params;

/* Where quantised values of a step go; NULL where they are not wanted. */
typedef struct aot_qrnn_out {
    int8_t *y, *last;
} aot_qrnn_out;

/* Where the scratch memory's parts begin. */
typedef struct aot_qrnn_memory {
    int32_t *state; /* [hidden] the cell, or the state in 30 fraction bits */
    int32_t *gates; /* [gates][hidden] arguments of activations, 24 fraction bits */
    int32_t *more;  /* [hidden] GRU: the recurrent part of the candidate */
    int16_t *h;     /* [hidden] the state, 15 fraction bits */
    int16_t *reset; /* [hidden] GRU: the state times the reset gate */
} aot_qrnn_memory;

/* v / 2^n to nearest, halves upwards; n >= 1. */
AOT_INLINE int64_t aot_qrnn_round(int64_t v, int32_t n) {
    return (v + ((int64_t)1 << (n - 1))) >> n;
}

AOT_INLINE int32_t aot_qrnn_limit(int64_t v, int32_t top) {
    return v > top ? top : v < -top ? -top : (int32_t)v;
}

/* tanh of v with `bits` fraction bits, as 30: from the nearest entry of the table of 257, tanh(k /
   32), along its parabola (the next term is below 2^-19). bits is 24, or 25 for v / 2. */
AOT_INLINE int32_t aot_qrnn_tanh(int64_t v, const int32_t *table, int32_t bits) {
    const int32_t limited = aot_qrnn_limit(v, (1 << (bits + 3)) - 1);
    const int32_t size = limited < 0 ? -limited : limited;
    const int32_t k = (size + (1 << (bits - 6))) >> (bits - 5);
    const int64_t d = size - k * (1 << (bits - 5));
    const int64_t f = table[k], slope = (1 << 30) - ((f * f) >> 30);
    const int64_t bend = (((f * slope) >> 30) * ((d * d) >> bits)) >> bits;
    const int32_t found = (int32_t)(f + ((slope * d) >> bits) - bend);
    return limited < 0 ? -found : found;
}

AOT_INLINE int32_t aot_qrnn_logistic(int32_t v, const int32_t *table) {
    return ((1 << 30) + aot_qrnn_tanh(v, table, 25)) >> 1;
}

/* (a * b) with 30 fraction bits of one of them dropped. */
AOT_INLINE int32_t aot_qrnn_times(int32_t a, int32_t b) {
    return (int32_t)aot_qrnn_round((int64_t)a * b, 30);
}

#if AOT_DSP
/* sum plus the products of the low and of the high halves. */
AOT_INLINE int32_t aot_qrnn_smlad(uint32_t a, uint32_t b, int32_t sum) {
    __asm__("smlad %0,%1,%2,%0" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}
#endif

/* sum plus the products of four quantised values each, or of four halves of the state and four
 * quantised values. */
AOT_INLINE int32_t aot_qrnn_four8(int32_t sum, const int8_t *a, const int8_t *w) {
#if AOT_DSP
    const uint32_t x = aot_dsp_load(a), v = aot_dsp_load(w);
    sum = aot_qrnn_smlad(aot_dsp_even(x), aot_dsp_even(v), sum);
    return aot_qrnn_smlad(aot_dsp_odd(x), aot_dsp_odd(v), sum);
#else
    return sum + a[0] * w[0] + a[1] * w[1] + a[2] * w[2] + a[3] * w[3];
#endif
}

AOT_INLINE int32_t aot_qrnn_four16(int32_t sum, const int16_t *a, const int8_t *w) {
#if AOT_DSP
    const uint32_t x = aot_dsp_load((const int8_t *)(const void *)a);
    const uint32_t z = aot_dsp_load((const int8_t *)(const void *)(a + 2)), v = aot_dsp_load(w);
    sum = aot_qrnn_smlad(aot_dsp_lows(x, z), aot_dsp_even(v), sum);
    return aot_qrnn_smlad(aot_dsp_highs(x, z), aot_dsp_odd(v), sum);
#else
    return sum + a[0] * w[0] + a[1] * w[1] + a[2] * w[2] + a[3] * w[3];
#endif
}

AOT_INLINE int32_t aot_qrnn_dot8(const int8_t *a, const int8_t *w, int32_t n) {
    int32_t sum = 0, k = 0;
    for (; AOT_QRNN_STEP == 4 && k + 4 <= n; k += 4) {
        sum = aot_qrnn_four8(sum, a + k, w + k);
    }
    for (; k < n; ++k) {
        sum += a[k] * w[k];
    }
    return sum;
}

AOT_INLINE int32_t aot_qrnn_dot16(const int16_t *a, const int8_t *w, int32_t n) {
    int32_t sum = 0, k = 0;
    for (; AOT_QRNN_STEP == 4 && k + 4 <= n; k += 4) {
        sum = aot_qrnn_four16(sum, a + k, w + k);
    }
    for (; k < n; ++k) {
        sum += a[k] * w[k];
    }
    return sum;
}

/* gates[i] = bias[i] + x w[i] + h r[i] for `rows` rows, with 24 fraction bits; x or h may be NULL.
   mult of x, then `all` further on that of h. */
AOT_INLINE void aot_qrnn_rows(int32_t *gates, const int8_t *x, const int16_t *h, const int8_t *w,
                              const int8_t *r, const int32_t *mult, const int64_t *bias,
                              int32_t rows, int32_t all, const aot_qrnn_s8_params *p) {
    for (int32_t i = 0; i < rows; ++i) {
        int64_t sum = bias[i];
        if (x != NULL) {
            sum += (int64_t)aot_qrnn_dot8(x, w + (ptrdiff_t)i * p->input, p->input) * mult[i];
        }
        if (h != NULL) {
            sum +=
                (int64_t)aot_qrnn_dot16(h, r + (ptrdiff_t)i * p->hidden, p->hidden) * mult[all + i];
        }
        gates[i] = aot_qrnn_limit(aot_qrnn_round(sum, p->shift), INT32_MAX);
    }
}

/* The quantised value of a state with 30 fraction bits. */
AOT_INLINE int8_t aot_qrnn_code(int32_t h, int32_t mult, int32_t shift, int32_t zero,
                                const aot_qrnn_s8_params *p) {
    const int64_t q = aot_qrnn_round((int64_t)h * mult, shift) + zero;
    return (int8_t)(q < p->lo ? p->lo : q > p->hi ? p->hi : q);
}

/* The new state of unit i: what is multiplied next, and its quantised values where they are wanted.
 */
AOT_INLINE void aot_qrnn_store(aot_qrnn_out out, int32_t i, int16_t *to, int32_t h,
                               const aot_qrnn_s8_params *p) {
    to[i] = (int16_t)aot_qrnn_limit(aot_qrnn_round(h, 15), INT16_MAX);
    if (out.y != NULL) {
        out.y[i] = aot_qrnn_code(h, p->y_mult, p->y_shift, p->y_zero, p);
    }
    if (out.last != NULL) {
        out.last[i] = aot_qrnn_code(h, p->last_mult, p->last_shift, p->last_zero, p);
    }
}

AOT_INLINE void aot_qrnn_lstm_step(aot_qrnn_out to, const aot_qrnn_memory *m, const int32_t *table,
                                   const aot_qrnn_s8_params *p) {
    const int32_t n = p->hidden, bits = p->cell_bits;
    for (int32_t i = 0; i < n; ++i) {
        const int32_t *g = m->gates + i;
        const int64_t in = aot_qrnn_logistic(g[0], table),
                      forget = aot_qrnn_logistic(g[2 * n], table);
        const int32_t out = aot_qrnn_logistic(g[n], table);
        const int64_t fresh = (in * aot_qrnn_tanh(g[3 * n], table, 24)) >> (30 - bits);
        const int64_t cell = aot_qrnn_round(forget * m->state[i] + fresh, 30);
        const int64_t argument = bits < 24 ? cell * (1 << (24 - bits)) : cell >> (bits - 24);
        m->state[i] = (int32_t)cell;
        aot_qrnn_store(to, i, m->h, aot_qrnn_times(out, aot_qrnn_tanh(argument, table, 24)), p);
    }
}

/* LINEAR: the candidate's argument is gates + more * reset; else gates hold all of it. */
AOT_INLINE void aot_qrnn_gru_step(aot_qrnn_out to, const aot_qrnn_memory *m, const int32_t *table,
                                  const aot_qrnn_s8_params *p, int LINEAR) {
    const int32_t n = p->hidden;
    for (int32_t i = 0; i < n; ++i) {
        const int32_t *g = m->gates + i;
        const int32_t update = aot_qrnn_logistic(g[0], table);
        int64_t argument = g[2 * n];
        if (LINEAR != 0) {
            argument += aot_qrnn_times(aot_qrnn_logistic(g[n], table), m->more[i]);
        }
        const int32_t fresh = aot_qrnn_tanh(argument, table, 24);
        const int32_t h = fresh + aot_qrnn_times(update, m->state[i] - fresh);
        m->state[i] = h;
        aot_qrnn_store(to, i, m->h, h, p);
    }
}

/* All sums of one step of a GRU. */
AOT_INLINE void aot_qrnn_gru_sums(const int8_t *x, const int8_t *w, const int8_t *r,
                                  const int32_t *mult, const int64_t *bias,
                                  const aot_qrnn_memory *m, const int32_t *table,
                                  const aot_qrnn_s8_params *p, int LINEAR) {
    const int32_t n = p->hidden, two = 2 * n, all = 3 * n;
    const int8_t *w2 = w + (ptrdiff_t)two * p->input, *r2 = r + (ptrdiff_t)two * n;
    aot_qrnn_rows(m->gates, x, m->h, w, r, mult, bias, two, all, p);
    if (LINEAR != 0) {
        aot_qrnn_rows(m->gates + two, x, NULL, w2, r2, mult + two, bias + two, n, all, p);
        aot_qrnn_rows(m->more, NULL, m->h, w2, r2, mult + two, bias + all, n, all, p);
        return;
    }
    for (int32_t i = 0; i < n; ++i) {
        const int32_t gate = aot_qrnn_logistic(m->gates[n + i], table);
        const int32_t part = aot_qrnn_times(gate, m->state[i]);
        m->reset[i] = (int16_t)aot_qrnn_limit(aot_qrnn_round(part, 15), INT16_MAX);
    }
    aot_qrnn_rows(m->gates + two, x, m->reset, w2, r2, mult + two, bias + two, n, all, p);
}

AOT_INLINE aot_qrnn_memory aot_qrnn_parts(void *scratch, int32_t n, int32_t gates) {
    aot_qrnn_memory m;
    m.state = (int32_t *)scratch;
    m.gates = m.state + n;
    m.more = m.gates + (ptrdiff_t)gates * n;
    m.h = (int16_t *)(void *)(m.more + n);
    m.reset = m.h + n;
    return m;
}

/* Where the quantised values of step t of batch b go, the s-th step computed. */
AOT_INLINE aot_qrnn_out aot_qrnn_target(int8_t *y, int8_t *last, int32_t b, int32_t s, int32_t t,
                                        const aot_qrnn_s8_params *p) {
    aot_qrnn_out out = {NULL, NULL};
    if (y != NULL) {
        out.y = y + (ptrdiff_t)b * p->y_batch + (ptrdiff_t)t * p->y_time;
    }
    if (last && s + 1 == p->steps) {
        out.last = last + (ptrdiff_t)b * p->last_batch;
    }
    return out;
}

/* y quantised values of all steps and last those of the last one computed, by strides; one of them
   may be NULL (Y, LAST: which are not). x [steps][batch][input] by strides; w
   [gates*hidden][input], r [gates*hidden][hidden]; mult int32: of the sums over x, then of those
   over the state; bias int64 with 24 + shift fraction bits, the zero point of x in it, for a GRU
   with LINEAR (the reset gate scales the candidate's recurrent sum) followed by the candidate's
   recurrent bias [hidden]. Sums of quantised values are below 2^31, multiplied ones below 2^61.
   States begin with zero. Scratch: int32 (gates + 2) * hidden, int16 2 * hidden. Not in place. */
AOT_INLINE void aot_qrnn_s8(int8_t *y, int8_t *last, const int8_t *x, const int8_t *w,
                            const int8_t *r, const int32_t *mult, const int64_t *bias,
                            const int32_t *table, void *scratch, const aot_qrnn_s8_params *p,
                            int KIND, int LINEAR, int Y, int LAST) {
    const int32_t n = p->hidden;
    const int32_t gates = KIND == AOT_QRNN_LSTM ? 4 : KIND == AOT_QRNN_GRU ? 3 : 1;
    const aot_qrnn_memory m = aot_qrnn_parts(scratch, n, gates);
    for (int32_t b = 0; b < p->batch; ++b) {
        (void)memset(m.state, 0, (size_t)n * sizeof(int32_t));
        (void)memset(m.h, 0, (size_t)n * sizeof(int16_t));
        for (int32_t s = 0; s < p->steps; ++s) {
            const int32_t t = p->reverse ? p->steps - 1 - s : s;
            const int8_t *from = x + (ptrdiff_t)t * p->x_time + (ptrdiff_t)b * p->x_batch;
            const aot_qrnn_out to = aot_qrnn_target(Y ? y : NULL, LAST ? last : NULL, b, s, t, p);
            if (KIND == AOT_QRNN_GRU) {
                aot_qrnn_gru_sums(from, w, r, mult, bias, &m, table, p, LINEAR);
                aot_qrnn_gru_step(to, &m, table, p, LINEAR);
                continue;
            }
            aot_qrnn_rows(m.gates, from, m.h, w, r, mult, bias, gates * n, gates * n, p);
            if (KIND == AOT_QRNN_LSTM) {
                aot_qrnn_lstm_step(to, &m, table, p);
                continue;
            }
            for (int32_t i = 0; i < n; ++i) {
                aot_qrnn_store(to, i, m.h, aot_qrnn_tanh(m.gates[i], table, 24), p);
            }
        }
    }
}

#endif
