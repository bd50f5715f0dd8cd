/* SPDX-License-Identifier: MIT-0 */
/* What the tests of float32 convolutions share: geometries, activations, blocked tensors and the
 * formula, in doubles. */
#ifndef AOT_TESTS_CONVOLUTION_H
#define AOT_TESTS_CONVOLUTION_H

#include "check.h"

#include "aot_conv_act_f32.h"

/* A convolution of two spatial axes; pads are top, left, bottom, right. */
typedef struct geometry {
    int n, ic, ih, iw, oc, kh, kw, sh, sw, dh, dw, pad[4], groups;
} geometry;

static AOT_UNUSED int out_rows(const geometry *g) {
    return (g->ih + g->pad[0] + g->pad[2] - (g->kh - 1) * g->dh - 1) / g->sh + 1;
}
static AOT_UNUSED int out_columns(const geometry *g) {
    return (g->iw + g->pad[1] + g->pad[3] - (g->kw - 1) * g->dw - 1) / g->sw + 1;
}

/* Blocks of V channels, and where element (image, channel, pixel) stands in them. */
static AOT_UNUSED int blocks(int channels, int V) {
    return (channels + V - 1) / V;
}
static AOT_UNUSED ptrdiff_t blocked(int image, int channel, int pixel, int channels, int pixels,
                                    int V) {
    const ptrdiff_t plane = (ptrdiff_t)image * blocks(channels, V) + channel / V;
    return (plane * pixels + pixel) * V + channel % V;
}

/* x [n][c][pixels] with channels in blocks of V; the lanes of no channel stay NaN. */
static AOT_UNUSED float *to_blocks(const float *x, int n, int c, int pixels, int V) {
    float *to = NEW(float, (ptrdiff_t)n *blocks(c, V) * pixels * V);
    for (int i = 0; i < n * c * pixels; ++i) {
        to[blocked(i / (c * pixels), i / pixels % c, i % pixels, c, pixels, V)] = x[i];
    }
    return to;
}

/* The activations that convolutions and products fuse. */
static AOT_UNUSED double activated(double v, int act, double alpha, double beta) {
    const double inner = alpha * v + beta;
    switch (act) {
    case AOT_ACT_CLAMP:
        return v < alpha ? alpha : v > beta ? beta : v;
    case AOT_ACT_LEAKY:
        return v < 0 ? alpha * v : v;
    case AOT_ACT_HARDSWISH:
        return v * (v < -3 ? 0.0 : v > 3 ? 1.0 : v / 6 + 0.5);
    case AOT_ACT_HARDSIGMOID:
        return inner < 0 ? 0.0 : inner > 1 ? 1.0 : inner;
    case AOT_ACT_SIGMOID:
        return 1 / (1 + exp(-v));
    case AOT_ACT_SILU:
        return v / (1 + exp(-alpha * v));
    case AOT_ACT_TANH:
        return tanh(v);
    case AOT_ACT_GELU:
        return v * 0.5 * erfc(-v / sqrt(2));
    case AOT_ACT_ELU:
        return v < 0 ? alpha * (exp(v) - 1) : v;
    case AOT_ACT_GELU_TANH:
        return v * 0.5 * (1 + tanh(sqrt(2 / acos(-1)) * (v + 0.044715 * v * v * v)));
    default:
        return v;
    }
}

/* want [n][oc][oh][ow] = x [n][ic][ih][iw] convolved with w [oc][ic / groups][kh][kw], plus bias
 * and r (or NULL, as want). `size` gets the sum of the magnitudes of what was added up. */
static AOT_UNUSED void convolve(double *want, double *size, const float *x, const float *w,
                                const float *bias, const float *r, const geometry *g) {
    const int oh = out_rows(g), ow = out_columns(g), icg = g->ic / g->groups;
    for (int i = 0; i < g->n * g->oc * oh * ow; ++i) {
        const int image = i / (g->oc * oh * ow), o = i / (oh * ow) % g->oc;
        const int first = o / (g->oc / g->groups) * icg;
        want[i] = (bias != NULL ? (double)bias[o] : 0.0) + (r != NULL ? (double)r[i] : 0.0);
        size[i] = fabs(want[i]);
        for (int k = 0; k < icg * g->kh * g->kw; ++k) {
            const int c = k / (g->kh * g->kw), a = k / g->kw % g->kh, b = k % g->kw;
            const int row = i / ow % oh * g->sh + a * g->dh - g->pad[0];
            const int column = i % ow * g->sw + b * g->dw - g->pad[1];
            if (row >= 0 && row < g->ih && column >= 0 && column < g->iw) {
                const double v =
                    (double)x[((image * g->ic + first + c) * g->ih + row) * g->iw + column] *
                    (double)w[(o * icg + c) * g->kh * g->kw + a * g->kw + b];
                want[i] += v;
                size[i] += fabs(v);
            }
        }
    }
}

/* A result [n][c][pixels], plain (V 1) or blocked, against the activated formula. */
static AOT_UNUSED void close_conv(const char *what, const float *y, const double *want,
                                  const double *size, int n, int c, int pixels, int V, int act,
                                  float alpha, float beta, double error) {
    for (int i = 0; i < n * c * pixels; ++i) {
        const ptrdiff_t at = blocked(i / (c * pixels), i / pixels % c, i % pixels, c, pixels, V);
        const double w = activated(want[i], act, (double)alpha, (double)beta);
        /* An infinite sum of magnitudes comes with a result that is no number or infinite. */
        const double slack = isfinite(size[i]) ? error * (1.0 + size[i]) : 0.0;
        close_at(what, i, (double)y[at], w, 0.0, slack);
    }
}

/* Panels [rows][o * V] of a matrix [rows][columns], one per group of o vectors of columns: as many
 * as O, the last ones the largest powers of two that are left. Zero past the columns. */
static AOT_UNUSED float *to_panels(const float *w, int rows, int columns, int V, int O) {
    const int vectors = blocks(columns, V);
    float *to = NEW(float, (ptrdiff_t)rows *vectors *V), *at = to;
    int o;
    for (int b = 0; b < vectors; b += o) {
        for (o = O; o > vectors - b; o /= 2) {
        }
        for (int r = 0; r < rows; ++r) {
            for (int c = b * V; c < (b + o) * V; ++c) {
                *at++ = c < columns ? w[(ptrdiff_t)r * columns + c] : 0.0F;
            }
        }
    }
    return to;
}

/* A bias for whole vectors: zero past the channels. */
static AOT_UNUSED float *padded_bias(const float *bias, int channels, int V) {
    float *to = NEW(float, blocks(channels, V) * V);
    for (int i = 0; i < blocks(channels, V) * V; ++i) {
        to[i] = i < channels ? bias[i] : 0.0F;
    }
    return to;
}

#endif /* AOT_TESTS_CONVOLUTION_H */
