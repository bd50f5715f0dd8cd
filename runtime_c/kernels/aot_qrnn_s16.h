/* SPDX-License-Identifier: MIT-0 */
/* LSTM, GRU and RNN of which quantised values have 16 bits, on integers, as exactly as float32:
 * int8 weights.
 *
 * As aot_qrnn_s8.h, but: sums have 64 bits; the state has 30 fraction bits wherever it is kept, and
 * as many as the product with the largest multiplier leaves when it is summed; a cell has 30 too;
 * tanh comes from a table of 385 along a cubic (the next term is below 2^-26).
 */
#ifndef AOT_QRNN_S16_H
#define AOT_QRNN_S16_H

#include "aot_quantised.h"
#include "aot_qrnn_s8.h"

#define AOT_QRNN_SUM_BITS 32 /* fraction bits of arguments while they are summed */

/* Quantised values of a state: value = h * mult / 2^shift + zero for h with 30 fraction bits. */
typedef struct aot_qrnn_s16_values {
    int32_t mult, shift, zero, lo, hi;
} aot_qrnn_s16_values;

/* One direction of a layer. Strides in elements. */
typedef struct aot_qrnn_s16_params {
    int32_t steps, batch;
    int32_t input, hidden; /* features of x and of the state */
    int32_t x_time, x_batch, y_time, y_batch, last_batch;
    int32_t reverse;          /* 1: from the last step to the first */
    int32_t x_shift, h_shift; /* fraction bits of multiplied sums beyond 32 */
    int32_t h_bits;           /* fraction bits of sums over the state */
    int32_t y_mult, y_shift, y_zero, y_lo, y_hi;
    int32_t last_mult, last_shift, last_zero, last_lo, last_hi;
} aot_qrnn_s16_params;

/* What does not change over a layer: operands, then where the scratch memory's parts begin. */
typedef struct aot_qrnn_s16_layer {
    const int8_t *w, *r;
    const int32_t *mult, *table;
    const int64_t *bias;
    int64_t *cell;  /* [hidden] LSTM: 30 fraction bits */
    int32_t *gates; /* [gates][hidden] arguments of activations, 24 fraction bits */
    int32_t *more;  /* [hidden] GRU: the recurrent part of the candidate */
    int32_t *h;     /* [hidden] the state, 30 fraction bits */
    int32_t *reset; /* [hidden] GRU: the state times the reset gate */
} aot_qrnn_s16_layer;

/* tanh of v with `bits` fraction bits, 24 or 25 for v / 2, as 30: around the nearest entry. */
AOT_INLINE int32_t aot_qrnn_fine_tanh(int64_t v, const int32_t *table, int32_t bits) {
    const int32_t limited = aot_qrnn_limit(v, 12 * (1 << bits) - 1);
    const int32_t size = limited < 0 ? -limited : limited;
    const int32_t k = (size + (1 << (bits - 6))) >> (bits - 5);
    const int64_t d = size - k * (1 << (bits - 5));
    const int64_t f = table[k], square = (f * f) >> 30, slope = (1 << 30) - square;
    const int64_t d2 = (d * d) >> (2 * bits - 30), d3 = (d2 * d) >> bits;
    const int64_t bend = (((f * slope) >> 30) * d2) >> 30;
    const int64_t turn = (slope * (3 * square - (1 << 30))) >> 30;
    const int64_t third = (turn * 357913941) >> 30; /* 2^30 / 3 */
    const int64_t found = f + ((slope * d) >> bits) - bend + ((third * d3) >> 30);
    const int32_t one = found > (1 << 30) ? 1 << 30 : (int32_t)found;
    return limited < 0 ? -one : one;
}

AOT_INLINE int32_t aot_qrnn_fine_logistic(int32_t v, const int32_t *table) {
    return (1 << 29) + (aot_qrnn_fine_tanh(v, table, 25) >> 1); /* the sum may be 2^31 */
}

/* gates[i] = bias[i] + x w[i] + h r[i] for `rows` rows from row `first` on, with 24 fraction bits;
   x or h may be NULL. bias at `from`, mult of x at `first`, then `all` further on that of h. */
AOT_INLINE void aot_qrnn_fine_rows(int32_t *gates, const void *x, int64_t at, const int32_t *h,
                                   const aot_qrnn_s16_layer *m, int32_t first, int32_t from,
                                   int32_t rows, int32_t all, const aot_qrnn_s16_params *p,
                                   int XT) {
    const int8_t *w = m->w + (ptrdiff_t)first * p->input, *r = m->r + (ptrdiff_t)first * p->hidden;
    for (int32_t i = 0; i < rows; ++i, w += p->input, r += p->hidden) {
        int64_t total = m->bias[from + i];
        if (x != NULL) {
            int64_t sum = 0;
            for (int32_t k = 0; k < p->input; ++k) {
                sum += (int64_t)aot_q_load(x, at + k, XT) * w[k];
            }
            total += (sum * m->mult[first + i]) >> p->x_shift;
        }
        if (h != NULL) {
            int64_t sum = 0;
            for (int32_t k = 0; k < p->hidden; ++k) {
                sum += (int64_t)h[k] * r[k];
            }
            total += ((sum >> (30 - p->h_bits)) * m->mult[all + first + i]) >> p->h_shift;
        }
        gates[i] = aot_qrnn_limit(aot_qrnn_round(total, AOT_QRNN_SUM_BITS - 24), INT32_MAX);
    }
}

/* forget * cell, of 30 fraction bits both; |cell| < 2^40. */
AOT_INLINE int64_t aot_qrnn_kept(int64_t forget, int64_t cell) {
    const int64_t high = cell >> 15, low = cell - high * (1 << 15);
    return aot_qrnn_round(forget * high + ((forget * low) >> 15), 15);
}

AOT_INLINE void aot_qrnn_fine_lstm(const aot_qrnn_s16_layer *m, int32_t n) {
    for (int32_t i = 0; i < n; ++i) {
        const int32_t *g = m->gates + i;
        const int32_t in = aot_qrnn_fine_logistic(g[0], m->table);
        const int32_t out = aot_qrnn_fine_logistic(g[n], m->table);
        const int32_t forget = aot_qrnn_fine_logistic(g[2 * n], m->table);
        const int32_t fresh = aot_qrnn_times(in, aot_qrnn_fine_tanh(g[3 * n], m->table, 24));
        m->cell[i] = aot_qrnn_kept(forget, m->cell[i]) + fresh;
        m->h[i] =
            aot_qrnn_times(out, aot_qrnn_fine_tanh(aot_qrnn_round(m->cell[i], 6), m->table, 24));
    }
}

/* One step of a GRU. LINEAR: the candidate's argument is gates + more * reset; else gates hold all
   of it. */
AOT_INLINE void aot_qrnn_fine_gru(const void *x, int64_t at, aot_qrnn_s16_layer *m,
                                  const aot_qrnn_s16_params *p, int LINEAR, int XT) {
    const int32_t n = p->hidden, two = 2 * n, all = 3 * n;
    int32_t *last = m->gates + two;
    aot_qrnn_fine_rows(m->gates, x, at, m->h, m, 0, 0, two, all, p, XT);
    for (int32_t i = 0; i < n; ++i) {
        m->gates[n + i] = aot_qrnn_fine_logistic(m->gates[n + i], m->table);
        m->reset[i] = aot_qrnn_times(m->gates[n + i], m->h[i]);
    }
    if (LINEAR != 0) {
        aot_qrnn_fine_rows(last, x, at, NULL, m, two, two, n, all, p, XT);
        aot_qrnn_fine_rows(m->more, NULL, 0, m->h, m, two, all, n, all, p, XT);
    } else {
        aot_qrnn_fine_rows(last, x, at, m->reset, m, two, two, n, all, p, XT);
    }
    for (int32_t i = 0; i < n; ++i) {
        const int32_t update = aot_qrnn_fine_logistic(m->gates[i], m->table);
        int64_t argument = last[i];
        int32_t fresh;
        if (LINEAR != 0) {
            argument += aot_qrnn_round((int64_t)m->gates[n + i] * m->more[i], 30);
        }
        fresh = aot_qrnn_fine_tanh(argument, m->table, 24);
        m->h[i] = fresh + (int32_t)aot_qrnn_round((int64_t)update * ((int64_t)m->h[i] - fresh), 30);
    }
}

AOT_INLINE void aot_qrnn_fine_values(void *y, int64_t at, const int32_t *h, int32_t n,
                                     const aot_qrnn_s16_values *c, int T) {
    for (int32_t i = 0; i < n; ++i) {
        const int64_t q = aot_qrnn_round((int64_t)h[i] * c->mult, c->shift) + c->zero;
        aot_q_store(y, at + i, (int32_t)(q < c->lo ? c->lo : q > c->hi ? c->hi : q), T);
    }
}

AOT_INLINE void aot_qrnn_fine_parts(aot_qrnn_s16_layer *m, void *scratch, int32_t n,
                                    int32_t gates) {
    m->cell = (int64_t *)scratch;
    m->gates = (int32_t *)(void *)(m->cell + n);
    m->more = m->gates + (ptrdiff_t)gates * n;
    m->h = m->more + n;
    m->reset = m->h + n;
}

/* y quantised values of all steps and last those of the last one computed, by strides; one of them
   may be NULL (Y, LAST: which are not); XT, YT, LT: types of aot_quantised.h. x
   [steps][batch][input] by strides; w [gates*hidden][input], r [gates*hidden][hidden]; mult int32,
   with 32 + x_shift fraction bits, of the sums over x, then with 32 + h_shift - h_bits those over
   the state; bias int64 with 32, the zero point of x in it, for a GRU with LINEAR (the reset gate
   scales the candidate's recurrent sum) followed by the candidate's recurrent bias [hidden].
   Multiplied sums are below 2^62, all of an argument below 2^61. At most 1023 steps of an LSTM.
   States begin with zero. Scratch, aligned to 8: int64 hidden, int32 (gates + 3) * hidden. Not in
   place. */
AOT_INLINE void aot_qrnn_s16(void *y, void *last, const void *x, const int8_t *w, const int8_t *r,
                             const int32_t *mult, const int64_t *bias, const int32_t *table,
                             void *scratch, const aot_qrnn_s16_params *p, int KIND, int LINEAR,
                             int Y, int LAST, int XT, int YT, int LT) {
    const aot_qrnn_s16_values every = {p->y_mult, p->y_shift, p->y_zero, p->y_lo, p->y_hi};
    const aot_qrnn_s16_values final = {p->last_mult, p->last_shift, p->last_zero, p->last_lo,
                                       p->last_hi};
    const int32_t n = p->hidden;
    const int32_t gates = KIND == AOT_QRNN_LSTM ? 4 : KIND == AOT_QRNN_GRU ? 3 : 1;
    aot_qrnn_s16_layer m = {w, r, mult, table, bias, NULL, NULL, NULL, NULL, NULL};
    aot_qrnn_fine_parts(&m, scratch, n, gates);
    for (int32_t b = 0; b < p->batch; ++b) {
        (void)memset(m.cell, 0, (size_t)n * sizeof(int64_t));
        (void)memset(m.h, 0, (size_t)n * sizeof(int32_t));
        for (int32_t s = 0; s < p->steps; ++s) {
            const int32_t t = p->reverse != 0 ? p->steps - 1 - s : s;
            const int64_t at = (int64_t)t * p->x_time + (int64_t)b * p->x_batch;
            if (KIND == AOT_QRNN_GRU) {
                aot_qrnn_fine_gru(x, at, &m, p, LINEAR, XT);
            } else {
                aot_qrnn_fine_rows(m.gates, x, at, m.h, &m, 0, 0, gates * n, gates * n, p, XT);
            }
            if (KIND == AOT_QRNN_LSTM) {
                aot_qrnn_fine_lstm(&m, n);
            }
            for (int32_t i = 0; KIND == AOT_QRNN_RNN && i < n; ++i) {
                m.h[i] = aot_qrnn_fine_tanh(m.gates[i], table, 24);
            }
            if (Y != 0) {
                aot_qrnn_fine_values(y, (int64_t)b * p->y_batch + (int64_t)t * p->y_time, m.h, n,
                                     &every, YT);
            }
        }
        if (LAST != 0) {
            aot_qrnn_fine_values(last, (int64_t)b * p->last_batch, m.h, n, &final, LT);
        }
    }
}

#endif
