/* SPDX-License-Identifier: MIT-0 */
/* GRU, float32, one direction. */
#ifndef AOT_GRU_F32_H
#define AOT_GRU_F32_H

#include "aot_rnn_f32.h"

typedef aot_rnn_f32_params aot_gru_f32_params;

/* The update and reset gates of one batch: z and r [Hp] become activations; rh = r * h. */
AOT_INLINE void aot_gru_gates(float *z, float *r, float *rh, const float *h,
                              const aot_rnn_f32_params *p, int64_t hp) {
    for (int64_t i = 0; i < hp; i += AOT_VLEN) {
        const aot_vf reset = aot_rnn_gate(aot_vload(r + i), p, 0);
        aot_vstore(z + i, aot_rnn_gate(aot_vload(z + i), p, 0));
        aot_vstore(r + i, reset);
        aot_vstore(rh + i, reset * aot_vload(h + i));
    }
}

/* h = (1 - z) * g(n) + z * h, n being the candidate's sum. */
AOT_INLINE void aot_gru_cell(float *h, const float *z, const float *n, const aot_rnn_f32_params *p,
                             int64_t hp) {
    for (int64_t i = 0; i < hp; i += AOT_VLEN) {
        const aot_vf update = aot_vload(z + i);
        const aot_vf candidate = aot_rnn_gate(aot_vload(n + i), p, 1);
        aot_vstore(h + i, (1.0F - update) * candidate + update * aot_vload(h + i));
    }
}

/* The tensors are those of aot_lstm_f32; gates are in the order update, reset, candidate. r is
   packed in two parts, update and reset, then the candidate, each padded to whole panels.
   p->coupled is ONNX's linear_before_reset: the candidate's recurrent bias rbias [Hp rounded up to
   a panel] is then inside the reset (else it is part of bias and rbias is zero). Scratch in floats:
   batch * Hp for h, the row of the candidate's recurrent product (Hp rounded up to a panel, used
   for r * h as well: twice), then chunk * batch * row. */
AOT_INLINE void aot_gru_f32(float *y, float *yh, const float *x, const float *w, const float *r,
                            const float *bias, const float *rbias, const int32_t *lens,
                            const float *h0, void *scratch, const aot_gru_f32_params *p) {
    const int64_t hp = (p->hidden + AOT_VLEN - 1) / AOT_VLEN * AOT_VLEN, row = p->row;
    const int64_t one = (hp + AOT_RNN_PANEL - 1) / AOT_RNN_PANEL * AOT_RNN_PANEL;
    const int64_t two = (2 * hp + AOT_RNN_PANEL - 1) / AOT_RNN_PANEL * AOT_RNN_PANEL;
    float *h = (float *)scratch, *n = h + p->batch * hp, *rh = n + one, *gates = rh + one;
    const float *r_candidate = r + two * p->hidden;
    aot_rnn_begin(h, h0, p, hp);
    for (int32_t s0 = 0; s0 < p->steps; s0 += p->chunk) {
        const int32_t count = p->steps - s0 < p->chunk ? p->steps - s0 : p->chunk;
        const int32_t first = aot_rnn_first(p, s0, count);
        aot_rnn_inputs(gates, x, w, bias, p, first, count);
        for (int32_t s = s0; s < s0 + count; ++s) {
            aot_rnn_recur(gates, h, hp, r, lens, p, s, first, 2 * hp);
            for (int32_t b = 0; b < p->batch; ++b) {
                const int32_t length = aot_rnn_length(lens, b, p->steps);
                float *state = h + b * hp;
                if (s >= length) {
                    if (y != NULL) {
                        (void)memset(y + (int64_t)s * p->y_time + (int64_t)b * p->y_batch, 0,
                                     (size_t)p->hidden * sizeof(float));
                    }
                    continue;
                }
                const int32_t t = aot_rnn_time(p, s, length);
                float *g = gates + ((int64_t)(t - first) * p->batch + b) * row;
                float *z = g, *reset = g + hp, *candidate = g + 2 * hp;
                aot_gru_gates(z, reset, rh, state, p, hp);
                (void)memcpy(n, rbias, (size_t)one * sizeof(float));
                aot_rnn_product(n, one, p->coupled ? state : rh, hp, r_candidate, 1, p->hidden,
                                one);
                for (int64_t i = 0; i < hp; i += AOT_VLEN) {
                    aot_vf v = aot_vload(n + i);
                    if (p->coupled != 0) {
                        v = v * aot_vload(reset + i);
                    }
                    aot_vstore(candidate + i, aot_vload(candidate + i) + v);
                }
                aot_gru_cell(state, z, candidate, p, hp);
                if (y != NULL) {
                    (void)memcpy(y + (int64_t)t * p->y_time + (int64_t)b * p->y_batch, state,
                                 (size_t)p->hidden * sizeof(float));
                }
            }
        }
    }
    aot_rnn_end(yh, h, p, hp);
}

typedef aot_rnn_f32_params aot_simple_rnn_f32_params;

/* The plain recurrent layer: h = f(x w + h r + bias). Scratch in floats: batch * Hp for h, then
   chunk * batch * row. */
AOT_INLINE void aot_simple_rnn_f32(float *y, float *yh, const float *x, const float *w,
                                   const float *r, const float *bias, const int32_t *lens,
                                   const float *h0, void *scratch,
                                   const aot_simple_rnn_f32_params *p) {
    const int64_t hp = (p->hidden + AOT_VLEN - 1) / AOT_VLEN * AOT_VLEN, row = p->row;
    float *h = (float *)scratch, *gates = h + p->batch * hp;
    aot_rnn_begin(h, h0, p, hp);
    for (int32_t s0 = 0; s0 < p->steps; s0 += p->chunk) {
        const int32_t count = p->steps - s0 < p->chunk ? p->steps - s0 : p->chunk;
        const int32_t first = aot_rnn_first(p, s0, count);
        aot_rnn_inputs(gates, x, w, bias, p, first, count);
        for (int32_t s = s0; s < s0 + count; ++s) {
            aot_rnn_recur(gates, h, hp, r, lens, p, s, first, row);
            for (int32_t b = 0; b < p->batch; ++b) {
                const int32_t length = aot_rnn_length(lens, b, p->steps);
                float *state = h + b * hp;
                if (s >= length) {
                    if (y != NULL) {
                        (void)memset(y + (int64_t)s * p->y_time + (int64_t)b * p->y_batch, 0,
                                     (size_t)p->hidden * sizeof(float));
                    }
                    continue;
                }
                const int32_t t = aot_rnn_time(p, s, length);
                const float *g = gates + ((int64_t)(t - first) * p->batch + b) * row;
                for (int64_t i = 0; i < hp; i += AOT_VLEN) {
                    aot_vstore(state + i, aot_rnn_gate(aot_vload(g + i), p, 0));
                }
                if (y != NULL) {
                    (void)memcpy(y + (int64_t)t * p->y_time + (int64_t)b * p->y_batch, state,
                                 (size_t)p->hidden * sizeof(float));
                }
            }
        }
    }
    aot_rnn_end(yh, h, p, hp);
}

#endif
