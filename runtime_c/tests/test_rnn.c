/* SPDX-License-Identifier: MIT-0 */
/* LSTM, GRU and the plain recurrent layer, step by step in doubles. */
#include "check.h"

#include "aot_control.h"
#include "aot_gru_f32.h"
#include "aot_lstm_f32.h"
#include "aot_rnn_f32.h"

#define V AOT_VLEN
enum { LSTM, GRU, PLAIN };

typedef struct layer {
    int kind, steps, batch, input, hidden, reverse, coupled, chunk;
    int lens, initial, peep, apart, acts, clipped, silent;
} layer;

static double act_of(double v, int act, double alpha, double beta) {
    switch (act) {
    case AOT_RNN_SIGMOID:
        return 1 / (1 + exp(-v));
    case AOT_RNN_TANH:
        return tanh(v);
    case AOT_RNN_RELU:
        return v < 0 ? 0 : v;
    case AOT_RNN_HARD_SIGMOID:
        return fmin(1, fmax(0, alpha * v + beta));
    case AOT_RNN_LEAKY_RELU:
        return v < 0 ? alpha * v : v;
    case AOT_RNN_AFFINE:
        return alpha * v + beta;
    case AOT_RNN_SCALED_TANH:
        return alpha * tanh(beta * v);
    case AOT_RNN_SOFTSIGN:
        return v / (1 + fabs(v));
    case AOT_RNN_ELU:
        return v < 0 ? alpha * (exp(v) - 1) : v;
    case AOT_RNN_SOFTPLUS:
        return log1p(exp(v));
    default:
        return v > alpha ? v : 0;
    }
}

/* Everything of one run; weights as [gate][hidden][input or hidden], biases [gate][hidden]. */
typedef struct data {
    const layer *l;
    aot_rnn_f32_params p;
    int gates, hp, row;
    float *x, *w, *r, *bias, *rbias, *peep, *h0, *c0;
    int32_t *lens;
    double *y, *h, *c;
} data;

static double limited(const data *d, double v) {
    return d->l->clipped ? fmin(0.75, fmax(-0.75, v)) : v;
}
static double gate(const data *d, double v, int which) {
    const aot_rnn_f32_params *p = &d->p;
    return act_of(limited(d, v), p->act[which], (double)p->alpha[which], (double)p->beta[which]);
}

/* bias + x * w (+ h * r) of one gate and one element of the state. */
static double sum_of(const data *d, const float *x, const double *h, int which, int i) {
    const int H = d->l->hidden, I = d->l->input, at = which * H + i;
    double sum = (double)d->bias[at];
    for (int k = 0; k < I; ++k) {
        sum += (double)x[k] * (double)d->w[at * I + k];
    }
    for (int k = 0; h != NULL && k < H; ++k) {
        sum += h[k] * (double)d->r[at * H + k];
    }
    return sum;
}

/* One step of one batch; h and c hold the state. */
static void step(const data *d, const float *x, double *h, double *c) {
    const int H = d->l->hidden;
    double next[64], cell[64], old[64];
    (void)memcpy(old, h, sizeof(double) * (size_t)H);
    for (int i = 0; i < H; ++i) {
        if (d->l->kind == LSTM) { /* gates: input, output, forget, cell */
            const double p_in = d->l->peep ? (double)d->peep[i] * c[i] : 0.0;
            const double p_forget = d->l->peep ? (double)d->peep[2 * H + i] * c[i] : 0.0;
            const double in = gate(d, sum_of(d, x, old, 0, i) + p_in, 0);
            const double forget =
                d->l->coupled ? 1 - in : gate(d, sum_of(d, x, old, 2, i) + p_forget, 0);
            cell[i] = forget * c[i] + in * gate(d, sum_of(d, x, old, 3, i), 1);
            const double p_out = d->l->peep ? (double)d->peep[H + i] * cell[i] : 0.0;
            next[i] = gate(d, sum_of(d, x, old, 1, i) + p_out, 0) *
                      act_of(cell[i], d->p.act[2], (double)d->p.alpha[2], (double)d->p.beta[2]);
        } else if (d->l->kind == GRU) { /* gates: update, reset, candidate */
            const double update = gate(d, sum_of(d, x, old, 0, i), 0);
            double inner = d->l->coupled ? (double)d->rbias[i] : 0.0;
            for (int k = 0; k < H; ++k) {
                const double reset = d->l->coupled ? 1.0 : gate(d, sum_of(d, x, old, 1, k), 0);
                inner += reset * old[k] * (double)d->r[(2 * H + i) * H + k];
            }
            inner *= d->l->coupled ? gate(d, sum_of(d, x, old, 1, i), 0) : 1.0;
            next[i] = (1 - update) * gate(d, sum_of(d, x, NULL, 2, i) + inner, 1) + update * old[i];
        } else {
            next[i] = gate(d, sum_of(d, x, old, 0, i), 0);
        }
    }
    (void)memcpy(h, next, sizeof(double) * (size_t)H);
    if (d->l->kind == LSTM) {
        (void)memcpy(c, cell, sizeof(double) * (size_t)H);
    }
}

/* y, and the final states, of all steps and batches. */
static void walk(data *d) {
    const layer *l = d->l;
    for (int i = 0; i < l->steps * l->batch * l->hidden; ++i) {
        d->y[i] = 0.0;
    }
    for (int b = 0; b < l->batch; ++b) {
        double *h = d->h + b * l->hidden, *c = d->c + b * l->hidden;
        const int given = l->lens ? d->lens[b] : l->steps;
        const int length = given < 0 ? 0 : given > l->steps ? l->steps : given;
        for (int i = 0; i < l->hidden; ++i) {
            h[i] = l->initial ? (double)d->h0[b * l->hidden + i] : 0.0;
            c[i] = l->initial ? (double)d->c0[b * l->hidden + i] : 0.0;
        }
        for (int s = 0; s < length; ++s) {
            const int t = l->reverse ? length - 1 - s : s;
            step(d, d->x + t * d->p.x_time + b * d->p.x_batch, h, c);
            (void)memcpy(d->y + (t * l->batch + b) * l->hidden, h,
                         sizeof(double) * (size_t)l->hidden);
        }
    }
}

/* Gates first..last of [gate][hidden][depth] in panels: [panel][depth][PANEL], Hp per gate. */
static float *panels(const float *from, const data *d, int first, int last, int depth) {
    const int H = d->l->hidden, wide = (last - first) * d->hp;
    const int count = (wide + AOT_RNN_PANEL - 1) / AOT_RNN_PANEL;
    float *to = NEW(float, count *depth *AOT_RNN_PANEL);
    for (int i = 0; i < count * depth * AOT_RNN_PANEL; ++i) {
        const int column = i / (depth * AOT_RNN_PANEL) * AOT_RNN_PANEL + i % AOT_RNN_PANEL;
        const int g = column / d->hp, e = column % d->hp, k = i / AOT_RNN_PANEL % depth;
        to[i] = g < last - first && e < H ? from[((first + g) * H + e) * depth + k] : 0.0F;
    }
    return to;
}

/* A vector per gate, zero between the gates and behind them. */
static float *spread(const float *from, const data *d, int gates, int size) {
    float *to = NEW(float, size);
    for (int i = 0; i < size; ++i) {
        const int g = i / d->hp, e = i % d->hp;
        to[i] = g < gates && e < d->l->hidden ? from[g * d->l->hidden + e] : 0.0F;
    }
    return to;
}

static void run(const data *d, float *y, float *yh, float *yc) {
    const layer *l = d->l;
    const int one = (d->hp + AOT_RNN_PANEL - 1) / AOT_RNN_PANEL * AOT_RNN_PANEL;
    const float *w = panels(d->w, d, 0, d->gates, l->input);
    const float *bias = spread(d->bias, d, d->gates, d->row), *h0 = l->initial ? d->h0 : NULL;
    const int32_t *lens = l->lens ? d->lens : NULL;
    const int gates = l->chunk * l->batch * d->row, state = l->batch * d->hp;
    if (l->kind == LSTM) {
        const float *peep = l->peep ? spread(d->peep, d, 3, 3 * d->hp) : NULL;
        aot_lstm_f32(y, yh, yc, d->x, w, panels(d->r, d, 0, 4, l->hidden), bias, lens, h0,
                     l->initial ? d->c0 : NULL, peep, NEW(float, 2 * state + gates), &d->p);
    } else if (l->kind == GRU) {
        const int two = (2 * d->hp + AOT_RNN_PANEL - 1) / AOT_RNN_PANEL * AOT_RNN_PANEL;
        const float *first = panels(d->r, d, 0, 2, l->hidden);
        const float *last = panels(d->r, d, 2, 3, l->hidden);
        float *r = NEW(float, (two + one) * l->hidden), *rbias = spread(d->rbias, d, 1, one);
        (void)memcpy(r, first, sizeof(float) * (size_t)(two * l->hidden));
        (void)memcpy(r + two * l->hidden, last, sizeof(float) * (size_t)(one * l->hidden));
        if (!l->coupled) {
            (void)memset(rbias, 0, sizeof(float) * (size_t)one);
        }
        aot_gru_f32(y, yh, d->x, w, r, bias, rbias, lens, h0, NEW(float, state + 2 * one + gates),
                    &d->p);
    } else {
        aot_simple_rnn_f32(y, yh, d->x, w, panels(d->r, d, 0, 1, l->hidden), bias, lens, h0,
                           NEW(float, state + gates), &d->p);
    }
}

/* Batches outside time, or inside it: x_time and x_batch the other way round. */
static void test(const layer *l) {
    static const int gates[3] = {4, 3, 1};
    const int n = l->steps * l->batch * l->input, out = l->steps * l->batch * l->hidden;
    const int H = l->hidden, g = gates[l->kind];
    data d = {l,    {0},  g,    (H + V - 1) / V * V,
              0,    NULL, NULL, NULL,
              NULL, NULL, NULL, NULL,
              NULL, NULL, NULL, NULL,
              NULL};
    float *y = l->silent ? NULL : NEW(float, out), *yh = NEW(float, l->batch *H);
    float *yc = NEW(float, l->batch *H);
    check_case("layer %d (LSTM, GRU, plain), %d steps, batch %d, %d to %d, reverse %d, coupled %d, "
               "chunk %d, lens %d, initial %d, peep %d, apart %d, act %d, clip %d",
               l->kind, l->steps, l->batch, l->input, H, l->reverse, l->coupled, l->chunk, l->lens,
               l->initial, l->peep, l->apart, l->acts, l->clipped);
    d.row = (g * d.hp + AOT_RNN_PANEL - 1) / AOT_RNN_PANEL * AOT_RNN_PANEL;
    d.p = (aot_rnn_f32_params){l->steps,
                               l->batch,
                               l->input,
                               H,
                               d.row,
                               l->chunk,
                               l->apart ? l->input : l->batch * l->input,
                               l->apart ? l->steps * l->input : l->input,
                               l->batch * H,
                               H,
                               H,
                               l->reverse,
                               {l->acts, l->acts, l->acts},
                               {0.5F, 0.25F, 0.75F},
                               {0.25F, 0.5F, 1.25F},
                               l->clipped ? 0.75F : (float)INFINITY,
                               l->coupled};
    if (l->acts < 0) { /* ONNX's own */
        d.p.act[0] = l->kind == PLAIN ? AOT_RNN_TANH : AOT_RNN_SIGMOID;
        d.p.act[1] = d.p.act[2] = AOT_RNN_TANH;
    }
    fill_f32(d.x = NEW(float, n), n, -1.0, 1.0);
    fill_f32(d.w = NEW(float, g *H * l->input), g * H * l->input, -0.4, 0.4);
    fill_f32(d.r = NEW(float, g *H *H), g * H * H, -0.4, 0.4);
    fill_f32(d.bias = NEW(float, g *H), g * H, -0.5, 0.5);
    fill_f32(d.rbias = NEW(float, H), H, -0.5, 0.5);
    fill_f32(d.peep = NEW(float, 3 * H), 3 * H, -0.5, 0.5);
    fill_f32(d.h0 = NEW(float, l->batch *H), l->batch * H, -1.0, 1.0);
    fill_f32(d.c0 = NEW(float, l->batch *H), l->batch * H, -1.0, 1.0);
    d.lens = NEW(int32_t, l->batch);
    for (int b = 0; b < l->batch; ++b) {
        d.lens[b] = b == 0 ? l->steps - 1 : b == 1 ? l->steps + 5 : b == 2 ? -1 : 1;
    }
    d.y = NEW(double, out);
    d.h = NEW(double, l->batch *H);
    d.c = NEW(double, l->batch *H);
    walk(&d);
    run(&d, y, yh, l->kind == LSTM ? yc : NULL);
    if (y != NULL) {
        close_f32("y", y, d.y, out, 2e-5, 2e-5);
    }
    close_f32("final h", yh, d.h, l->batch * H, 2e-5, 2e-5);
    if (l->kind == LSTM) {
        close_f32("final c", yc, d.c, l->batch * H, 2e-5, 2e-5);
    }
    check_free();
}

/* What If and Loop read. */
static void test_control(void) {
    static const unsigned char no = 0, yes = 1, odd = 7;
    static const int64_t counts[3] = {-4, 0, 9};
    check_case("control");
    CHECK(!aot_is_true(&no) && aot_is_true(&yes) && aot_is_true(&odd));
    CHECK(aot_steps((const unsigned char *)&counts[0], -1) == 0);
    CHECK(aot_steps((const unsigned char *)&counts[1], 5) == 0);
    CHECK(aot_steps((const unsigned char *)&counts[2], 5) == 5);
    CHECK(aot_steps((const unsigned char *)&counts[2], -1) == 9);
}

int main(void) {
    /* batch, input, hidden */
    static const int sizes[][3] = {{1, 1, 1}, {2, 3, 5}, {3, 17, 16}, {4, 2, 33}};
    for (int kind = LSTM; kind <= PLAIN; ++kind) {
        for (int k = 0; k < 4; ++k) {
            for (int m = 0; m < 32; ++m) {
                const int lens = m >> 1 & 1, reverse = m & 1, steps = 5;
                const layer l = {
                    kind,        steps,      sizes[k][0], sizes[k][1],
                    sizes[k][2], reverse,    m >> 2 & 1,  lens && reverse ? steps : 1 + m % 3 * 2,
                    lens,        m >> 3 & 1, m >> 4 & 1,  m >> 2 & 1,
                    -1,          m % 7 == 0, m % 5 == 4};
                test(&l);
            }
        }
        for (int act = AOT_RNN_SIGMOID; act <= AOT_RNN_SOFTPLUS; ++act) {
            const layer l = {kind, 3, 2, 3, 5, 0, 0, 3, 0, 1, 0, 0, act, act % 2, 0};
            test(&l);
        }
    }
    test_control();
    return check_end();
}
