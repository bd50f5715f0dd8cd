/* SPDX-License-Identifier: MIT-0 */
/* What both files of the stand-in compute with. Written for clarity: what a test needs is the bits,
 * not the speed.
 *
 * A buffer that the caller hands in is overwritten to its end, so that one which holds something
 * else, or is too small, shows; one that the library wants and does not get is an error. */
#ifndef STANDIN_H
#define STANDIN_H

#include "arm_nnfunctions.h"

#include <string.h>

#if defined(__ARM_FEATURE_MVE)
enum { MVE = 1, DSP = 0 };
#elif defined(__ARM_FEATURE_DSP)
enum { MVE = 0, DSP = 1 };
#else
enum { MVE = 0, DSP = 0 };
#endif

static inline int32_t larger(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static inline int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static inline int32_t up(int32_t value, int32_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/* -- fixed point ------------------------------------------------------------------------------ */

/* a * b / 2^31 to nearest, halves upwards. */
static inline int32_t high_product(int32_t a, int32_t b) {
    const int64_t product = (int64_t)a * b;
    const int64_t floor = (product + (INT64_C(1) << 30)) >> 31;
    return (int32_t)(floor > INT32_MAX ? INT32_MAX : floor);
}

/* v / 2^by to nearest, halves away from zero. */
static inline int32_t shifted(int32_t v, int32_t by) {
    const int64_t half = by > 0 ? INT64_C(1) << (by - 1) : 0;
    return (int32_t)(v >= 0 ? ((int64_t)v + half) >> by : -((-(int64_t)v + half) >> by));
}

static inline int32_t scaled(int32_t v, int32_t mult, int32_t shift) {
    const int32_t moved = shift > 0 ? (int32_t)((uint32_t)v << shift) : v;
    return shifted(high_product(moved, mult), shift > 0 ? 0 : -shift);
}

/* With a multiplier of 16 bits, rounded once, halves upwards: for sums of 64 bits. */
static inline int32_t scaled_once(int64_t v, int32_t mult, int32_t shift) {
    const int32_t reduced = mult < 0x7FFF0000 ? (mult + 0x8000) >> 16 : 0x7FFF;
    return (int32_t)((v * reduced + (INT64_C(1) << (14 - shift))) >> (15 - shift));
}

static inline int32_t limited(int32_t v, int32_t zero, const cmsis_nn_activation *limits) {
    return smaller(larger(v + zero, limits->min), limits->max);
}

static inline int8_t value(int32_t v, int32_t zero, const cmsis_nn_activation *limits) {
    return (int8_t)limited(v, zero, limits);
}

/* What functions end with: values of 8 bits, weights of 4 bits too, values of 16 bits. */
typedef enum { S8, S4, S16 } kind;

static inline int32_t get(kind k, const void *x, int32_t i) {
    return k == S16 ? ((const int16_t *)x)[i] : ((const int8_t *)x)[i];
}

static inline void put(kind k, void *y, int32_t i, int32_t v) {
    if (k == S16)
        ((int16_t *)y)[i] = (int16_t)v;
    else
        ((int8_t *)y)[i] = (int8_t)v;
}

/* Weight i; those of 4 bits lie two to a byte, the first one low. */
static inline int32_t weight(kind k, const int8_t *w, int32_t i) {
    if (k != S4)
        return w[i];
    return i % 2 != 0 ? w[i / 2] >> 4 : (int8_t)((uint8_t)w[i / 2] << 4) >> 4;
}

/* -- scratch ---------------------------------------------------------------------------------- */

static inline int spoiled(const cmsis_nn_context *ctx, int32_t bytes) {
    if (bytes > 0 && (ctx->buf == NULL || ctx->size < bytes))
        return 0;
    if (bytes > 0)
        (void)memset(ctx->buf, 0x5A, (size_t)ctx->size);
    return 1;
}

/* The position of x that element `k` of window `i` covers, or -1. */
static inline int32_t covered(int32_t i, int32_t k, int32_t stride, int32_t pad, int32_t dilation,
                              int32_t extent) {
    const int32_t at = i * stride - pad + k * dilation;
    return at >= 0 && at < extent ? at : -1;
}

#endif
