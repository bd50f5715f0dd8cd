/* SPDX-License-Identifier: MIT-0 */
/* Layers of quantised values by the user's CMSIS-NN: int8, and int16 where a name ends with 16,
 * whose zero points are 0; a 4 means weights of 4 bits, two to a byte, the first one low. Extents
 * are [batch, height, width, channels], values are stored in that order, pairs are height and
 * width. An offset of an operand is its zero point negated, that of a result its zero point.
 * Multipliers are Q31 with a power of two.
 *
 * `bytes` is the size of `scratch`, as the compiler computed it for the target. A library that
 * wants more makes the run fail with AOT_VENDOR: it was built for another core, or is another
 * version. */
#ifndef AOT_CMSIS_NN_H
#define AOT_CMSIS_NN_H

#include <stdint.h>

#include "aot/aot.h"

typedef struct aot_cmsis_nn_conv_params {
    int32_t x[4];
    int32_t w[4]; /* output channels, height, width, channels of one group */
    int32_t y[4];
    int32_t x_offset;
    int32_t y_offset;
    int32_t low;
    int32_t high;
    int32_t stride[2];
    int32_t pad[2];
    int32_t bytes;
    int32_t dilation[2];
} aot_cmsis_nn_conv_params;

/* Weights [O, H, W, I], bias in units of the sums, one multiplier per output channel. */
#define AOT_CMSIS_NN_CONV(NAME, T, B)                                                              \
    aot_status NAME(T *y, const T *x, const int8_t *w, const B *bias, const int32_t *mult,         \
                    const int32_t *shift, void *scratch, const aot_cmsis_nn_conv_params *p)
typedef aot_cmsis_nn_conv_params aot_cmsis_nn_conv4_params, aot_cmsis_nn_conv16_params;
AOT_CMSIS_NN_CONV(aot_cmsis_nn_conv, int8_t, int32_t);
AOT_CMSIS_NN_CONV(aot_cmsis_nn_conv4, int8_t, int32_t);
AOT_CMSIS_NN_CONV(aot_cmsis_nn_conv16, int16_t, int32_t);

/* Weights [1, H, W, O]: every input channel has O / I filters of its own. */
typedef aot_cmsis_nn_conv_params aot_cmsis_nn_depthwise_params, aot_cmsis_nn_depthwise4_params,
    aot_cmsis_nn_depthwise16_params;
AOT_CMSIS_NN_CONV(aot_cmsis_nn_depthwise, int8_t, int32_t);
AOT_CMSIS_NN_CONV(aot_cmsis_nn_depthwise4, int8_t, int32_t);
AOT_CMSIS_NN_CONV(aot_cmsis_nn_depthwise16, int16_t, int64_t);

typedef struct aot_cmsis_nn_transposed_params {
    int32_t x[4];
    int32_t w[4];
    int32_t y[4];
    int32_t x_offset;
    int32_t y_offset;
    int32_t low;
    int32_t high;
    int32_t stride[2];
    int32_t pad[2];
    int32_t bytes;
    int32_t turned; /* bytes behind these, for weights in turned order */
} aot_cmsis_nn_transposed_params;

/* A transposed convolution with weights [O, H, W, I]. */
aot_status aot_cmsis_nn_transposed(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                   const int32_t *mult, const int32_t *shift, void *scratch,
                                   const aot_cmsis_nn_transposed_params *p);

typedef struct aot_cmsis_nn_dense_params {
    int32_t rows;
    int32_t depth;
    int32_t channels;
    int32_t x_offset;
    int32_t y_offset;
    int32_t low;
    int32_t high;
    int32_t mult; /* of all channels, unless each has its own */
    int32_t shift;
} aot_cmsis_nn_dense_params;

/* y[rows, channels] = x[rows, depth] * w[channels, depth]. `sums` are the bias and x_offset times
 * the sum of the weights, for cores with Helium; NULL for others. */
aot_status aot_cmsis_nn_dense(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                              const int32_t *sums, const aot_cmsis_nn_dense_params *p);
typedef aot_cmsis_nn_dense_params aot_cmsis_nn_dense4_params;
aot_status aot_cmsis_nn_dense4(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                               const int32_t *sums, const aot_cmsis_nn_dense4_params *p);
typedef aot_cmsis_nn_dense_params aot_cmsis_nn_dense_channels_params;
aot_status aot_cmsis_nn_dense_channels(int8_t *y, const int8_t *x, const int8_t *w,
                                       const int32_t *bias, const int32_t *sums,
                                       const int32_t *mult, const int32_t *shift,
                                       const aot_cmsis_nn_dense_channels_params *p);

typedef struct aot_cmsis_nn_pool_params {
    int32_t x[4];
    int32_t y[4];
    int32_t window[2];
    int32_t stride[2];
    int32_t pad[2];
    int32_t low;
    int32_t high;
    int32_t bytes;
} aot_cmsis_nn_pool_params;

typedef aot_cmsis_nn_pool_params aot_cmsis_nn_average_params, aot_cmsis_nn_average16_params,
    aot_cmsis_nn_maximum_params, aot_cmsis_nn_maximum16_params;
aot_status aot_cmsis_nn_average(int8_t *y, const int8_t *x, void *scratch,
                                const aot_cmsis_nn_pool_params *p);
aot_status aot_cmsis_nn_average16(int16_t *y, const int16_t *x, void *scratch,
                                  const aot_cmsis_nn_pool_params *p);
aot_status aot_cmsis_nn_maximum(int8_t *y, const int8_t *x, const aot_cmsis_nn_pool_params *p);
aot_status aot_cmsis_nn_maximum16(int16_t *y, const int16_t *x, const aot_cmsis_nn_pool_params *p);

typedef struct aot_cmsis_nn_add_params {
    int32_t n;
    int32_t a_offset;
    int32_t b_offset;
    int32_t y_offset;
    int32_t left; /* bits by which operands move up first */
    int32_t a_mult;
    int32_t a_shift;
    int32_t b_mult;
    int32_t b_shift;
    int32_t y_mult;
    int32_t y_shift;
    int32_t low;
    int32_t high;
} aot_cmsis_nn_add_params;

/* n sums; y may be a or b. */
aot_status aot_cmsis_nn_add(int8_t *y, const int8_t *a, const int8_t *b,
                            const aot_cmsis_nn_add_params *p);
typedef aot_cmsis_nn_add_params aot_cmsis_nn_add16_params;
aot_status aot_cmsis_nn_add16(int16_t *y, const int16_t *a, const int16_t *b,
                              const aot_cmsis_nn_add_params *p);

typedef struct aot_cmsis_nn_mul_params {
    int32_t n;
    int32_t a_offset;
    int32_t b_offset;
    int32_t y_offset;
    int32_t mult;
    int32_t shift;
    int32_t low;
    int32_t high;
} aot_cmsis_nn_mul_params;

/* n products; y may be a or b. */
aot_status aot_cmsis_nn_mul(int8_t *y, const int8_t *a, const int8_t *b,
                            const aot_cmsis_nn_mul_params *p);
typedef aot_cmsis_nn_mul_params aot_cmsis_nn_mul16_params;
aot_status aot_cmsis_nn_mul16(int16_t *y, const int16_t *a, const int16_t *b,
                              const aot_cmsis_nn_mul_params *p);

typedef struct aot_cmsis_nn_softmax_params {
    int32_t rows;
    int32_t size;
    int32_t mult;
    int32_t shift;
    int32_t least; /* a smaller difference to the largest value counts as no power */
} aot_cmsis_nn_softmax_params;

/* Rows of quantised values of 1/256 from -128 on. */
aot_status aot_cmsis_nn_softmax(int8_t *y, const int8_t *x, const aot_cmsis_nn_softmax_params *p);

typedef struct aot_cmsis_nn_softmax16_params {
    int32_t rows;
    int32_t size;
    int32_t mult;
    int32_t shift;
} aot_cmsis_nn_softmax16_params;

/* Rows of quantised values of 1/32768; tables of 513 values of exp and of 1 / (1 + v). */
aot_status aot_cmsis_nn_softmax16(int16_t *y, const int16_t *x, const int16_t *exps,
                                  const int16_t *overs, const aot_cmsis_nn_softmax16_params *p);

typedef struct aot_cmsis_nn_matmul_params {
    int32_t n; /* matrices */
    int32_t rows;
    int32_t depth;
    int32_t columns;
    int32_t a_offset;
    int32_t b_offset;
    int32_t y_offset;
    int32_t low;
    int32_t high;
    int32_t mult;
    int32_t shift;
    int32_t sums;   /* bytes of scratch for sums of columns, on cores with Helium */
    int32_t turned; /* bytes behind these for one b in turned order; 0: it is [columns, depth] */
} aot_cmsis_nn_matmul_params;

/* y[n, rows, columns] = a[n, rows, depth] * b[n, depth, columns]. */
aot_status aot_cmsis_nn_matmul(int8_t *y, const int8_t *a, const int8_t *b, void *scratch,
                               const aot_cmsis_nn_matmul_params *p);
typedef aot_cmsis_nn_matmul_params aot_cmsis_nn_matmul16_params;
aot_status aot_cmsis_nn_matmul16(int16_t *y, const int16_t *a, const int16_t *b, void *scratch,
                                 const aot_cmsis_nn_matmul_params *p);

typedef struct aot_cmsis_nn_concat_params {
    int32_t x[4];
    int32_t axis;
    int32_t whole; /* extent of y along the axis */
    int32_t start;
} aot_cmsis_nn_concat_params;

/* Puts x into y from `start` on along the axis. */
aot_status aot_cmsis_nn_concat(int8_t *y, const int8_t *x, const aot_cmsis_nn_concat_params *p);

typedef struct aot_cmsis_nn_pad_params {
    int32_t x[4];
    int32_t before[4];
    int32_t after[4];
    int32_t value;
} aot_cmsis_nn_pad_params;

aot_status aot_cmsis_nn_pad(int8_t *y, const int8_t *x, const aot_cmsis_nn_pad_params *p);

typedef struct aot_cmsis_nn_transpose_params {
    int32_t rank;
    int32_t x[4];
    int32_t y[4];
    int32_t perm[4];
} aot_cmsis_nn_transpose_params;

/* Axis i of y is axis perm[i] of x. */
aot_status aot_cmsis_nn_transpose(int8_t *y, const int8_t *x,
                                  const aot_cmsis_nn_transpose_params *p);

#endif /* AOT_CMSIS_NN_H */
