/* SPDX-License-Identifier: MIT-0 */
/* Pooling, elementwise operators, Softmax, moves; see arm_nnfunctions.h. */
#include "standin.h"

/* -- pooling ---------------------------------------------------------------------------------- */

/* The average or maximum of one channel in window (row, column); -1 if it covers nothing. */
static int pooled(kind q, const cmsis_nn_pool_params *p, const cmsis_nn_dims *xd, const void *x,
                  int32_t from, const cmsis_nn_dims *wd, int32_t row, int32_t column, int maximum,
                  void *y, int32_t at) {
    int32_t total = 0, count = 0, top = INT16_MIN, i, j;
    for (i = 0; i < wd->h; ++i)
        for (j = 0; j < wd->w; ++j) {
            const int32_t r = covered(row, i, p->stride.h, p->padding.h, 1, xd->h);
            const int32_t c = covered(column, j, p->stride.w, p->padding.w, 1, xd->w);
            if (r >= 0 && c >= 0) {
                const int32_t v = get(q, x, from + (r * xd->w + c) * xd->c);
                total += v;
                top = larger(top, v);
                ++count;
            }
        }
    if (count == 0)
        return -1;
    total += total > 0 ? count / 2 : -(count / 2);
    put(q, y, at, limited(maximum ? top : total / count, 0, &p->activation));
    return 0;
}

static arm_cmsis_nn_status pool(kind q, const cmsis_nn_pool_params *p, const cmsis_nn_dims *xd,
                                const void *x, const cmsis_nn_dims *wd, const cmsis_nn_dims *yd,
                                int maximum, void *y) {
    int32_t n, i, j, c, at = 0;
    for (n = 0; n < xd->n; ++n)
        for (i = 0; i < yd->h; ++i)
            for (j = 0; j < yd->w; ++j)
                for (c = 0; c < xd->c; ++c)
                    if (pooled(q, p, xd, x, n * xd->h * xd->w * xd->c + c, wd, i, j, maximum, y,
                               at++) != 0)
                        return ARM_CMSIS_NN_ARG_ERROR;
    return ARM_CMSIS_NN_SUCCESS;
}

#define POOLS(s, k, T)                                                                             \
    arm_cmsis_nn_status arm_avgpool_##s(                                                           \
        const cmsis_nn_context *ctx, const cmsis_nn_pool_params *p, const cmsis_nn_dims *xd,       \
        const T *x, const cmsis_nn_dims *wd, const cmsis_nn_dims *yd, T *y) {                      \
        if (!spoiled(ctx, arm_avgpool_##s##_get_buffer_size(yd->w, xd->c)))                        \
            return ARM_CMSIS_NN_ARG_ERROR;                                                         \
        return pool(k, p, xd, x, wd, yd, 0, y);                                                    \
    }                                                                                              \
    arm_cmsis_nn_status arm_max_pool_##s(                                                          \
        const cmsis_nn_context *ctx, const cmsis_nn_pool_params *p, const cmsis_nn_dims *xd,       \
        const T *x, const cmsis_nn_dims *wd, const cmsis_nn_dims *yd, T *y) {                      \
        (void)ctx;                                                                                 \
        return pool(k, p, xd, x, wd, yd, 1, y);                                                    \
    }
POOLS(s8, S8, int8_t)
POOLS(s16, S16, int16_t)

/* -- elementwise ------------------------------------------------------------------------------ */

#define PAIRS(s, k, T)                                                                             \
    arm_cmsis_nn_status arm_elementwise_add_##s(                                                   \
        const T *a, const T *b, int32_t a_offset, int32_t a_mult, int32_t a_shift,                 \
        int32_t b_offset, int32_t b_mult, int32_t b_shift, int32_t left, T *y, int32_t y_offset,   \
        int32_t y_mult, int32_t y_shift, int32_t low, int32_t high, int32_t n) {                   \
        const cmsis_nn_activation all = {low, high};                                               \
        const int32_t unit = INT32_C(1) << left;                                                   \
        int32_t i;                                                                                 \
        for (i = 0; i < n; ++i) {                                                                  \
            const int32_t sum = scaled((a[i] + a_offset) * unit, a_mult, a_shift) +                \
                                scaled((b[i] + b_offset) * unit, b_mult, b_shift);                 \
            put(k, y, i, limited(scaled(sum, y_mult, y_shift), y_offset, &all));                   \
        }                                                                                          \
        return ARM_CMSIS_NN_SUCCESS;                                                               \
    }                                                                                              \
    arm_cmsis_nn_status arm_elementwise_mul_##s(                                                   \
        const T *a, const T *b, int32_t a_offset, int32_t b_offset, T *y, int32_t y_offset,        \
        int32_t mult, int32_t shift, int32_t low, int32_t high, int32_t n) {                       \
        const cmsis_nn_activation all = {low, high};                                               \
        int32_t i;                                                                                 \
        for (i = 0; i < n; ++i)                                                                    \
            put(k, y, i,                                                                           \
                limited(scaled((a[i] + a_offset) * (b[i] + b_offset), mult, shift), y_offset,      \
                        &all));                                                                    \
        return ARM_CMSIS_NN_SUCCESS;                                                               \
    }
PAIRS(s8, S8, int8_t)
PAIRS(s16, S16, int16_t)

/* -- Softmax ---------------------------------------------------------------------------------- */

/* e to a number v <= 0 of 5 integer bits, as Q0.31: the fraction below a quarter by a polynomial,
 * whole powers of two by constants. */
static int32_t power(int32_t v) {
    static const int32_t factors[] = {1672461947, 1302514674, 790015084, 290630308,
                                      39332535,   720401,     242};
    const int32_t quarter = INT32_C(1) << 24, rest = (v & (quarter - 1)) - quarter;
    const int32_t x = rest * 32 + (INT32_C(1) << 28), x2 = high_product(x, x);
    const int32_t x3 = high_product(x2, x), x4 = high_product(x2, x2);
    const int32_t tail = shifted(high_product(shifted(x4, 2) + x3, 715827883) + x2, 1);
    int32_t result = 1895147668 + high_product(1895147668, x + tail);
    int i;
    for (i = 0; i < 7; ++i)
        if (((rest - v) & (quarter << i)) != 0)
            result = high_product(result, factors[i]);
    return v == 0 ? INT32_MAX : result;
}

/* 1 / (1 + a) for a of [0, 1), both Q0.31: three Newton steps. */
static int32_t reciprocal(int32_t a) {
    const int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
    int32_t x = 1515870810 + high_product(half, -1010580540), i;
    for (i = 0; i < 3; ++i) {
        const int32_t step = high_product(x, (INT32_C(1) << 29) - high_product(half, x));
        x += (int32_t)larger(smaller(step, INT32_MAX / 4), INT32_MIN / 4) * 4;
    }
    return x > INT32_MAX / 2 ? INT32_MAX : x * 2;
}

void arm_softmax_s8(const int8_t *x, int32_t rows, int32_t size, int32_t mult, int32_t shift,
                    int32_t least, int8_t *y) {
    const cmsis_nn_activation all = {INT8_MIN, INT8_MAX};
    for (; rows > 0; --rows, x += size, y += size) {
        int32_t top = INT8_MIN, lead = 0, factor, i;
        uint32_t sum = 0;
        for (i = 0; i < size; ++i)
            top = larger(top, x[i]);
        for (i = 0; i < size; ++i)
            if (x[i] - top >= least)
                sum += (uint32_t)shifted(
                    power(high_product((x[i] - top) * (INT32_C(1) << shift), mult)), 12);
        while (((sum << lead) & UINT32_C(0x80000000)) == 0)
            ++lead;
        factor = reciprocal((int32_t)((sum << lead) - UINT32_C(0x80000000)));
        for (i = 0; i < size; ++i) {
            int32_t v = 0;
            if (x[i] - top >= least)
                v = shifted(high_product(factor, power(high_product(
                                                     (x[i] - top) * (INT32_C(1) << shift), mult))),
                            35 - lead);
            y[i] = value(v, -128, &all);
        }
    }
}

/* An entry of a table of 512 intervals and what lies between: v of 16 bits. */
static int32_t between(const int16_t *table, int32_t v) {
    const int32_t at = 256 + (v >> 7);
    return table[at] + ((table[at + 1] - table[at]) * (v & 127) + 64) / 128 -
           (((table[at + 1] - table[at]) * (v & 127) + 64) % 128 < 0);
}

arm_cmsis_nn_status arm_softmax_s16(const int16_t *x, int32_t rows, int32_t size, int32_t mult,
                                    int32_t shift, const cmsis_nn_softmax_lut_s16 *tables,
                                    int16_t *y) {
    for (; rows > 0; --rows, x += size, y += size) {
        int32_t top = INT16_MIN, sum = 0, lead = 0, factor, i;
        for (i = 0; i < size; ++i)
            top = larger(top, x[i]);
        for (i = 0; i < size; ++i) {
            const int32_t v = scaled(x[i] - top, mult, shift) + INT16_MAX;
            y[i] = (int16_t)between(tables->exp_lut, larger(smaller(v, INT16_MAX), INT16_MIN));
            sum += y[i];
        }
        while ((((uint32_t)sum << lead) & UINT32_C(0x80000000)) == 0)
            ++lead;
        factor = between(tables->one_by_one_lut,
                         ((int32_t)((uint32_t)sum << (lead - 1)) + (1 << 13)) / (1 << 14) - 98304);
        for (i = 0; i < size; ++i)
            y[i] = (int16_t)((((y[i] * factor) >> (30 - lead)) + 1) >> 1);
    }
    return ARM_CMSIS_NN_SUCCESS;
}

/* -- moves ------------------------------------------------------------------------------------ */

/* `blocks` runs of `size` bytes to y, whose runs are `step` apart from `start` on. */
static void joined(const int8_t *x, int32_t blocks, int32_t size, int8_t *y, int32_t step,
                   int32_t start) {
    int32_t i;
    for (i = 0; i < blocks; ++i)
        (void)memcpy(y + i * step + start, x + i * size, (size_t)size);
}

void arm_concatenation_s8_x(const int8_t *input, const uint16_t x, const uint16_t y,
                            const uint16_t z, const uint16_t w, int8_t *output,
                            const uint16_t whole, const uint32_t offset) {
    joined(input, y * z * w, x, output, whole, (int32_t)offset);
}

void arm_concatenation_s8_y(const int8_t *input, const uint16_t x, const uint16_t y,
                            const uint16_t z, const uint16_t w, int8_t *output,
                            const uint16_t whole, const uint32_t offset) {
    joined(input, z * w, x * y, output, x * whole, x * (int32_t)offset);
}

void arm_concatenation_s8_z(const int8_t *input, const uint16_t x, const uint16_t y,
                            const uint16_t z, const uint16_t w, int8_t *output,
                            const uint16_t whole, const uint32_t offset) {
    joined(input, w, x * y * z, output, x * y * whole, x * y * (int32_t)offset);
}

void arm_concatenation_s8_w(const int8_t *input, const uint16_t x, const uint16_t y,
                            const uint16_t z, const uint16_t w, int8_t *output,
                            const uint32_t offset) {
    joined(input, 1, x * y * z * w, output, 0, x * y * z * (int32_t)offset);
}

arm_cmsis_nn_status arm_pad_s8(const int8_t *x, int8_t *y, const int8_t with,
                               const cmsis_nn_dims *xd, const cmsis_nn_dims *before,
                               const cmsis_nn_dims *after) {
    int32_t n, h, w, c;
    for (n = -before->n; n < xd->n + after->n; ++n)
        for (h = -before->h; h < xd->h + after->h; ++h)
            for (w = -before->w; w < xd->w + after->w; ++w)
                for (c = -before->c; c < xd->c + after->c; ++c) {
                    const int inside = n >= 0 && n < xd->n && h >= 0 && h < xd->h && w >= 0 &&
                                       w < xd->w && c >= 0 && c < xd->c;
                    *y++ = inside ? x[((n * xd->h + h) * xd->w + w) * xd->c + c] : with;
                }
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_transpose_s8(const int8_t *x, int8_t *const y,
                                     const cmsis_nn_dims *const xd, const cmsis_nn_dims *const yd,
                                     const cmsis_nn_transpose_params *const params) {
    const int32_t extents[4] = {xd->n, xd->h, xd->w, xd->c};
    const int32_t sizes[4] = {yd->n, yd->h, yd->w, yd->c};
    const int32_t total = yd->n * yd->h * yd->w * yd->c;
    int32_t i, d, k;
    for (i = 0; i < total; ++i) {
        int32_t rest = i, from = 0;
        for (d = params->num_dims - 1; d >= 0; --d) {
            int32_t step = 1;
            if (sizes[d] != extents[params->permutations[d]])
                return ARM_CMSIS_NN_ARG_ERROR;
            for (k = (int32_t)params->permutations[d] + 1; k < params->num_dims; ++k)
                step *= extents[k];
            from += rest % sizes[d] * step;
            rest /= sizes[d];
        }
        y[i] = x[from];
    }
    return ARM_CMSIS_NN_SUCCESS;
}
