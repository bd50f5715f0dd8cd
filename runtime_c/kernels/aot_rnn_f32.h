/* SPDX-License-Identifier: MIT-0 */
/* What LSTM, GRU and RNN share: the products with packed weights, activations, time steps. */
#ifndef AOT_RNN_F32_H
#define AOT_RNN_F32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot_simd.h"
#include "aot_vmath_f32.h"

/* Columns of a panel of packed weights. */
#define AOT_RNN_PANEL (4 * AOT_VLEN)

/* Products that are summed up before they join a gate, as long sums lose digits. */
#define AOT_RNN_RUN 128

#define AOT_RNN_SIGMOID 0
#define AOT_RNN_TANH 1
#define AOT_RNN_RELU 2
#define AOT_RNN_HARD_SIGMOID 3
#define AOT_RNN_LEAKY_RELU 4
#define AOT_RNN_AFFINE 5
#define AOT_RNN_SCALED_TANH 6
#define AOT_RNN_SOFTSIGN 7
#define AOT_RNN_ELU 8
#define AOT_RNN_THRESHOLDED_RELU 9
#define AOT_RNN_SOFTPLUS 10

/* One direction of a recurrent layer. Strides in elements. Hp is `hidden` rounded up to AOT_VLEN;
   a row of gates holds every gate in Hp elements and is `row` elements long, a multiple of
   AOT_RNN_PANEL. */
typedef struct aot_rnn_f32_params {
    int32_t steps; /* time steps */
    int32_t batch;
    int32_t input;  /* features of x */
    int32_t hidden; /* features of the state */
    int32_t row;    /* elements of a row of gates */
    int32_t chunk;  /* time steps whose input products are made at once */
    int32_t x_time; /* strides of x */
    int32_t x_batch;
    int32_t y_time; /* strides of y */
    int32_t y_batch;
    int32_t state;   /* stride of a batch in initial and final states */
    int32_t reverse; /* 1: from the last step to the first */
    int32_t act[3];  /* AOT_RNN_* of f, g, h */
    float alpha[3];
    float beta[3];
    float clip;      /* gates are limited to -clip..clip before the activation; infinity: not */
    int32_t coupled; /* LSTM: the forget gate is 1 - input gate; GRU: linear before reset */
} aot_rnn_f32_params;

AOT_INLINE aot_vf aot_rnn_act(aot_vf v, int32_t act, float alpha, float beta) {
    const aot_vf zero = aot_vzero();
    switch (act) {
    case AOT_RNN_SIGMOID:
        return aot_vsigmoid(v);
    case AOT_RNN_TANH:
        return aot_vtanh(v);
    case AOT_RNN_RELU:
        return aot_vmax(zero, v);
    case AOT_RNN_HARD_SIGMOID:
        return aot_vclamp(v * alpha + beta, zero, aot_vset1(1.0F));
    case AOT_RNN_LEAKY_RELU:
        return aot_vselect(aot_vlt(v, zero), v * alpha, v);
    case AOT_RNN_AFFINE:
        return v * alpha + beta;
    case AOT_RNN_SCALED_TANH:
        return aot_vtanh(v * beta) * alpha;
    case AOT_RNN_SOFTSIGN:
        return v / (aot_vabs(v) + 1.0F);
    case AOT_RNN_ELU:
        return aot_vselect(aot_vlt(v, zero), aot_vexpm1(v) * alpha, v);
    case AOT_RNN_SOFTPLUS:
        return aot_vsoftplus(v);
    default:
        return aot_vselect(aot_vlt(aot_vset1(alpha), v), v, zero);
    }
}

/* Activation k of the layer, after clipping. */
AOT_INLINE aot_vf aot_rnn_gate(aot_vf v, const aot_rnn_f32_params *p, int k) {
    v = aot_vclamp(v, aot_vset1(-p->clip), aot_vset1(p->clip));
    return aot_rnn_act(v, p->act[k], p->alpha[k], p->beta[k]);
}

/* g[0..PANEL) += four vectors. */
AOT_INLINE void aot_rnn_add(float *g, aot_vf a, aot_vf b, aot_vf c, aot_vf d) {
    aot_vstore(g, aot_vload(g) + a);
    aot_vstore(g + AOT_VLEN, aot_vload(g + AOT_VLEN) + b);
    aot_vstore(g + 2 * AOT_VLEN, aot_vload(g + 2 * AOT_VLEN) + c);
    aot_vstore(g + 3 * AOT_VLEN, aot_vload(g + 3 * AOT_VLEN) + d);
}

/* g[0..PANEL) += sum over k of x[k] * w[k][PANEL] for one row. */
AOT_INLINE void aot_rnn_panel_1(float *g, const float *x, const float *w, int64_t depth) {
    for (int64_t k = 0; k < depth;) {
        const int64_t end = depth - k < AOT_RNN_RUN ? depth : k + AOT_RNN_RUN;
        aot_vf a = aot_vzero(), b = aot_vzero(), c = aot_vzero(), d = aot_vzero();
        for (; k < end; ++k, w += AOT_RNN_PANEL) {
            const aot_vf s = aot_vset1(x[k]);
            a = aot_vfma(aot_vload(w), s, a);
            b = aot_vfma(aot_vload(w + AOT_VLEN), s, b);
            c = aot_vfma(aot_vload(w + 2 * AOT_VLEN), s, c);
            d = aot_vfma(aot_vload(w + 3 * AOT_VLEN), s, d);
        }
        aot_rnn_add(g, a, b, c, d);
    }
}

/* The same for two rows. */
AOT_INLINE void aot_rnn_panel_2(float *g, float *h, const float *x, const float *z, const float *w,
                                int64_t depth) {
    for (int64_t k = 0; k < depth;) {
        const int64_t end = depth - k < AOT_RNN_RUN ? depth : k + AOT_RNN_RUN;
        aot_vf a = aot_vzero(), b = aot_vzero(), c = aot_vzero(), d = aot_vzero();
        aot_vf e = aot_vzero(), f = aot_vzero(), i = aot_vzero(), j = aot_vzero();
        for (; k < end; ++k, w += AOT_RNN_PANEL) {
            const aot_vf s = aot_vset1(x[k]), t = aot_vset1(z[k]);
            const aot_vf wa = aot_vload(w), wb = aot_vload(w + AOT_VLEN),
                         wc = aot_vload(w + 2 * AOT_VLEN), wd = aot_vload(w + 3 * AOT_VLEN);
            a = aot_vfma(wa, s, a);
            b = aot_vfma(wb, s, b);
            c = aot_vfma(wc, s, c);
            d = aot_vfma(wd, s, d);
            e = aot_vfma(wa, t, e);
            f = aot_vfma(wb, t, f);
            i = aot_vfma(wc, t, i);
            j = aot_vfma(wd, t, j);
        }
        aot_rnn_add(g, a, b, c, d);
        aot_rnn_add(h, e, f, i, j);
    }
}

/* g[0..columns) += the first columns of a panel; what follows in g is not touched, though the
   weights there are zero: x may be infinite. */
AOT_INLINE void aot_rnn_panel_part(float *g, const float *x, const float *w, int64_t depth,
                                   int64_t columns) {
    float part[AOT_RNN_PANEL] = {0};
    (void)memcpy(part, g, (size_t)columns * sizeof(float));
    aot_rnn_panel_1(part, x, w, depth);
    (void)memcpy(g, part, (size_t)columns * sizeof(float));
}

/* g [rows][row] (first `columns` of each) += x [rows][depth] * w, where w is
   [columns / PANEL, rounded up][depth][PANEL], x has stride x_row and g stride g_row. */
AOT_NOINLINE AOT_UNUSED static void aot_rnn_product(float *g, int64_t g_row, const float *x,
                                                    int64_t x_row, const float *w, int64_t rows,
                                                    int64_t depth, int64_t columns) {
    int64_t n = 0;
    for (; n + AOT_RNN_PANEL <= columns; n += AOT_RNN_PANEL, w += depth * AOT_RNN_PANEL) {
        int64_t r = 0;
        for (; r + 2 <= rows; r += 2) {
            aot_rnn_panel_2(g + r * g_row + n, g + (r + 1) * g_row + n, x + r * x_row,
                            x + (r + 1) * x_row, w, depth);
        }
        if (r < rows) { /* one is left; of a loop gcc would say that it may go on for ever */
            aot_rnn_panel_1(g + r * g_row + n, x + r * x_row, w, depth);
        }
    }
    for (int64_t r = 0; n < columns && r < rows; ++r) {
        aot_rnn_panel_part(g + r * g_row + n, x + r * x_row, w, depth, columns - n);
    }
}

/* gates [steps][batch][row] = bias + x * w for `count` steps from `first` on. */
AOT_INLINE void aot_rnn_inputs(float *gates, const float *x, const float *w, const float *bias,
                               const aot_rnn_f32_params *p, int32_t first, int32_t count) {
    const int64_t row = p->row;
    for (int64_t r = 0; r < (int64_t)count * p->batch; ++r) {
        (void)memcpy(gates + r * row, bias, (size_t)row * sizeof(float));
    }
    x += (int64_t)first * p->x_time;
    if (p->x_batch == p->input && p->x_time == p->batch * p->input) {
        aot_rnn_product(gates, row, x, p->input, w, (int64_t)count * p->batch, p->input, row);
    } else {
        for (int32_t b = 0; b < p->batch; ++b) {
            aot_rnn_product(gates + b * row, row * p->batch, x + (int64_t)b * p->x_batch, p->x_time,
                            w, count, p->input, row);
        }
    }
}

/* Steps that batch b takes: lens[b] limited to 0..steps, all of them if lens is NULL. */
AOT_INLINE int32_t aot_rnn_length(const int32_t *lens, int32_t b, int32_t steps) {
    if (!lens) {
        return steps;
    }
    return lens[b] < 0 ? 0 : lens[b] > steps ? steps : lens[b];
}

/* state [batch][Hp] from the caller's initial states, or zero. */
AOT_INLINE void aot_rnn_begin(float *state, const float *initial, const aot_rnn_f32_params *p,
                              int64_t hp) {
    (void)memset(state, 0, (size_t)(p->batch * hp) * sizeof(float));
    for (int64_t b = 0; initial && b < p->batch; ++b) {
        (void)memcpy(state + b * hp, initial + b * p->state, (size_t)p->hidden * sizeof(float));
    }
}

/* The caller's final states, if wanted. */
AOT_INLINE void aot_rnn_end(float *final, const float *state, const aot_rnn_f32_params *p,
                            int64_t hp) {
    for (int64_t b = 0; final && b < p->batch; ++b) {
        (void)memcpy(final + b * p->state, state + b * hp, (size_t)p->hidden * sizeof(float));
    }
}

/* The first of the steps t..t+chunk-1 of the walk, as an index of time. */
AOT_INLINE int32_t aot_rnn_first(const aot_rnn_f32_params *p, int32_t s, int32_t count) {
    return p->reverse ? p->steps - s - count : s;
}

/* Time of step s of a sequence of `length` steps. */
AOT_INLINE int32_t aot_rnn_time(const aot_rnn_f32_params *p, int32_t s, int32_t length) {
    return p->reverse ? length - 1 - s : s;
}

/* The first `columns` gates of step s += h * r: all batches at once when they walk together. */
AOT_INLINE void aot_rnn_recur(float *gates, const float *h, int64_t hp, const float *r,
                              const int32_t *lens, const aot_rnn_f32_params *p, int32_t s,
                              int32_t first, int64_t columns) {
    const int64_t row = p->row;
    if (!lens) {
        const int64_t at = aot_rnn_time(p, s, p->steps) - first;
        aot_rnn_product(gates + at * p->batch * row, row, h, hp, r, p->batch, p->hidden, columns);
        return;
    }
    for (int32_t b = 0; b < p->batch; ++b) {
        const int32_t length = aot_rnn_length(lens, b, p->steps);
        const int64_t at = aot_rnn_time(p, s, length) - first;
        if (s < length) {
            aot_rnn_product(gates + (at * p->batch + b) * row, row, h + b * hp, hp, r, 1, p->hidden,
                            columns);
        }
    }
}

#endif
