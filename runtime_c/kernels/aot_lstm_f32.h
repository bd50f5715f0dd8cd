/* SPDX-License-Identifier: MIT-0 */
/* LSTM, float32, one direction. */
#ifndef AOT_LSTM_F32_H
#define AOT_LSTM_F32_H

#include "aot_rnn_f32.h"

typedef aot_rnn_f32_params aot_lstm_f32_params;

/* One time step of one batch: h, c [Hp] from gates [4][Hp] in the order input, output, forget,
   cell; peep is [3][Hp] in the order input, output, forget, or NULL. */
AOT_INLINE void aot_lstm_cell(float *h, float *c, const float *gates, const float *peep,
                              const aot_rnn_f32_params *p, int64_t hp) {
    for (int64_t i = 0; i < hp; i += AOT_VLEN) {
        aot_vf in = aot_vload(gates + i), out = aot_vload(gates + hp + i);
        aot_vf forget = aot_vload(gates + 2 * hp + i);
        const aot_vf old = aot_vload(c + i);
        if (peep != NULL) {
            in = aot_vfma(aot_vload(peep + i), old, in);
            forget = aot_vfma(aot_vload(peep + 2 * hp + i), old, forget);
        }
        in = aot_rnn_gate(in, p, 0);
        forget = p->coupled ? 1.0F - in : aot_rnn_gate(forget, p, 0);
        const aot_vf cell = aot_rnn_gate(aot_vload(gates + 3 * hp + i), p, 1);
        const aot_vf next = forget * old + in * cell;
        if (peep != NULL) {
            out = aot_vfma(aot_vload(peep + hp + i), next, out);
        }
        out = aot_rnn_gate(out, p, 0);
        aot_vstore(c + i, next);
        aot_vstore(h + i, out * aot_rnn_act(next, p->act[2], p->alpha[2], p->beta[2]));
    }
}

/* y [steps][batch][hidden] by strides (or NULL), yh and yc [batch][hidden] final states (or NULL);
   x [steps][batch][input] by strides; w and r packed weights [row/PANEL][input or hidden][PANEL],
   bias [row]; lens [batch] int32 or NULL (all steps); h0, c0 initial states or NULL (zero); peep
   [3][Hp] or NULL. Scratch: floats, batch * Hp for each of h and c, then chunk * batch * row.
   Not in place. With lens and reverse, chunk is steps. */
AOT_INLINE void aot_lstm_f32(float *y, float *yh, float *yc, const float *x, const float *w,
                             const float *r, const float *bias, const int32_t *lens,
                             const float *h0, const float *c0, const float *peep, void *scratch,
                             const aot_lstm_f32_params *p) {
    const int64_t hp = (p->hidden + AOT_VLEN - 1) / AOT_VLEN * AOT_VLEN, row = p->row;
    float *h = (float *)scratch, *c = h + p->batch * hp, *gates = c + p->batch * hp;
    aot_rnn_begin(h, h0, p, hp);
    aot_rnn_begin(c, c0, p, hp);
    for (int32_t s0 = 0; s0 < p->steps; s0 += p->chunk) {
        const int32_t count = p->steps - s0 < p->chunk ? p->steps - s0 : p->chunk;
        const int32_t first = aot_rnn_first(p, s0, count);
        aot_rnn_inputs(gates, x, w, bias, p, first, count);
        for (int32_t s = s0; s < s0 + count; ++s) {
            aot_rnn_recur(gates, h, hp, r, lens, p, s, first, row);
            for (int32_t b = 0; b < p->batch; ++b) {
                const int32_t length = aot_rnn_length(lens, b, p->steps);
                if (s >= length) {
                    if (y != NULL) {
                        (void)memset(y + (int64_t)s * p->y_time + (int64_t)b * p->y_batch, 0,
                                     (size_t)p->hidden * sizeof(float));
                    }
                    continue;
                }
                const int32_t t = aot_rnn_time(p, s, length);
                float *g = gates + ((int64_t)(t - first) * p->batch + b) * row;
                aot_lstm_cell(h + b * hp, c + b * hp, g, peep, p, hp);
                if (y != NULL) {
                    (void)memcpy(y + (int64_t)t * p->y_time + (int64_t)b * p->y_batch, h + b * hp,
                                 (size_t)p->hidden * sizeof(float));
                }
            }
        }
    }
    aot_rnn_end(yh, h, p, hp);
    aot_rnn_end(yc, c, p, hp);
}

#endif
