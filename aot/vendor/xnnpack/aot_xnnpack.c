/* SPDX-License-Identifier: MIT-0 */
/* Calls of XNNPACK as its header of February 2022 declares them; see aot_xnnpack.h. */
#include "aot_xnnpack.h"

#include <stddef.h>
#include <xnnpack.h>

#ifndef AOT_XNNPACK_THREADS
#define AOT_XNNPACK_THREADS 1
#endif

enum { FLOATS, INT8, INT8_CHANNELS };

static aot_status told(enum xnn_status status) {
    return status == xnn_status_success ? AOT_OK : AOT_VENDOR;
}

static xnn_operator_t operator_of(void **slots) {
    return (xnn_operator_t)slots[0];
}

static pthreadpool_t pool_of(void **session) {
    return (pthreadpool_t)session[0];
}

/* Where the library puts the operator that it creates. */
static aot_status kept(void **slots, xnn_operator_t made, enum xnn_status status) {
    slots[0] = made;
    return told(status);
}

/* Execute what `setup` prepared. */
static aot_status executed(void **session, void **slots, enum xnn_status setup) {
    return setup != xnn_status_success
               ? AOT_VENDOR
               : told(xnn_run_operator(operator_of(slots), pool_of(session)));
}

aot_status aot_xnnpack_open(void **session) {
    if (AOT_XNNPACK_THREADS > 1) {
        session[0] = pthreadpool_create(AOT_XNNPACK_THREADS);
        if (session[0] == NULL)
            return AOT_VENDOR;
    }
    return told(xnn_initialize(NULL));
}

void aot_xnnpack_close(void **session) {
    if (session[0] != NULL)
        pthreadpool_destroy(pool_of(session));
    session[0] = NULL;
}

void aot_xnnpack_release(void **slots) {
    if (slots[0] != NULL)
        (void)xnn_delete_operator(operator_of(slots));
    slots[0] = NULL;
}

/* -- Convolutions ------------------------------------------------------------------------------ */

/* Calls with the arguments that all of them have. */
#define CREATED(name, ...) xnn_create_##name(__VA_ARGS__, 0, &op)
#define SET_UP(name, ...) xnn_setup_##name(operator_of(slots), __VA_ARGS__, x, y, pool_of(session))

/* The arguments from padding to strides of channels. */
#define WINDOW(p)                                                                                  \
    (uint32_t)(p)->pad[0], (uint32_t)(p)->pad[1], (uint32_t)(p)->pad[2], (uint32_t)(p)->pad[3],    \
        (uint32_t)(p)->kernel[0], (uint32_t)(p)->kernel[1], (uint32_t)(p)->stride[0],              \
        (uint32_t)(p)->stride[1]
#define DILATION(p) (uint32_t)(p)->dilation[0], (uint32_t)(p)->dilation[1]
#define GROUPS(p)                                                                                  \
    (uint32_t)(p)->groups, (size_t)(p)->channels[0], (size_t)(p)->channels[1],                     \
        (size_t)(p)->groups *(size_t)(p)->channels[0],                                             \
        (size_t)(p)->groups *(size_t)(p)->channels[1]
#define FILTER(p) WINDOW(p), DILATION(p), GROUPS(p)
#define BOUNDS(p) (p)->low, (p)->high
#define RESULT(p) (int8_t)(p)->low, (int8_t)(p)->high
#define SIZE(p) (size_t)(p)->batch, (size_t)(p)->size[0], (size_t)(p)->size[1]
#define EXTRA(p) (uint32_t)(p)->extra[0], (uint32_t)(p)->extra[1]

aot_status aot_xnnpack_conv(void **slots, const void *w, const void *bias, const void *scales,
                            const aot_xnnpack_conv_params *p) {
    const int8_t zx = (int8_t)p->zero[0], zy = (int8_t)p->zero[1];
    const float sx = p->scale[0], sw = p->scale[1], sy = p->scale[2];
    xnn_operator_t op = NULL;
    enum xnn_status status;
    if (p->type == FLOATS && p->transposed)
        status = CREATED(deconvolution2d_nhwc_f32, FILTER(p), w, bias, BOUNDS(p));
    else if (p->type == FLOATS)
        status = CREATED(convolution2d_nhwc_f32, FILTER(p), w, bias, BOUNDS(p));
    else if (p->type == INT8_CHANNELS)
        status =
            CREATED(convolution2d_nhwc_qc8, FILTER(p), zx, sx, scales, w, bias, zy, sy, RESULT(p));
    else if (p->transposed)
        status =
            CREATED(deconvolution2d_nhwc_qs8, FILTER(p), zx, sx, sw, w, bias, zy, sy, RESULT(p));
    else
        status = CREATED(convolution2d_nhwc_qs8, FILTER(p), zx, sx, sw, w, bias, zy, sy, RESULT(p));
    return kept(slots, op, status);
}

aot_status aot_xnnpack_run_conv(void **session, void **slots, void *y, const void *x,
                                const aot_xnnpack_run_conv_params *p) {
    enum xnn_status status;
    if (p->type == FLOATS && p->transposed)
        status = SET_UP(deconvolution2d_nhwc_f32, SIZE(p), EXTRA(p));
    else if (p->type == FLOATS)
        status = SET_UP(convolution2d_nhwc_f32, SIZE(p));
    else if (p->type == INT8_CHANNELS)
        status = SET_UP(convolution2d_nhwc_qc8, SIZE(p));
    else if (p->transposed)
        status = SET_UP(deconvolution2d_nhwc_qs8, SIZE(p), EXTRA(p));
    else
        status = SET_UP(convolution2d_nhwc_qs8, SIZE(p));
    return executed(session, slots, status);
}

/* -- Pooling ----------------------------------------------------------------------------------- */

#define CHANNELS(p) (size_t)(p)->channels, (size_t)(p)->channels, (size_t)(p)->channels

/* In windows, without padding; then over all positions. */
enum { AVERAGE, MAXIMUM, MAXIMUM_INT8, MEAN, MEAN_INT8 };

aot_status aot_xnnpack_pool(void **slots, const aot_xnnpack_pool_params *p) {
    const int8_t zx = (int8_t)p->zero[0], zy = (int8_t)p->zero[1];
    xnn_operator_t op = NULL;
    enum xnn_status status;
    if (p->kind == AVERAGE)
        status = CREATED(average_pooling2d_nhwc_f32, WINDOW(p), CHANNELS(p), BOUNDS(p));
    else if (p->kind == MAXIMUM)
        status = CREATED(max_pooling2d_nhwc_f32, WINDOW(p), DILATION(p), CHANNELS(p), BOUNDS(p));
    else if (p->kind == MAXIMUM_INT8)
        status = CREATED(max_pooling2d_nhwc_s8, WINDOW(p), DILATION(p), CHANNELS(p), RESULT(p));
    else if (p->kind == MEAN)
        status = CREATED(global_average_pooling_nwc_f32, CHANNELS(p), BOUNDS(p));
    else
        status = CREATED(global_average_pooling_nwc_qs8, CHANNELS(p), zx, p->scale[0], zy,
                         p->scale[1], RESULT(p));
    return kept(slots, op, status);
}

aot_status aot_xnnpack_run_pool(void **session, void **slots, void *y, const void *x,
                                const aot_xnnpack_run_pool_params *p) {
    const size_t batch = (size_t)p->batch, width = (size_t)p->size[0] * (size_t)p->size[1];
    enum xnn_status status;
    if (p->kind == AVERAGE)
        status = SET_UP(average_pooling2d_nhwc_f32, SIZE(p));
    else if (p->kind == MAXIMUM)
        status = SET_UP(max_pooling2d_nhwc_f32, SIZE(p));
    else if (p->kind == MAXIMUM_INT8)
        status = SET_UP(max_pooling2d_nhwc_s8, SIZE(p));
    else if (p->kind == MEAN)
        status = SET_UP(global_average_pooling_nwc_f32, batch, width);
    else
        status = SET_UP(global_average_pooling_nwc_qs8, batch, width);
    return executed(session, slots, status);
}

/* -- Two operands ------------------------------------------------------------------------------ */

#define CASE(number, call)                                                                         \
    case number:                                                                                   \
        status = call;                                                                             \
        break;

/* Number and name of operators of floats with bounds, without, and of int8 values. */
#define BOUNDED(X) X(0, add) X(1, subtract) X(2, multiply) X(3, divide)
#define UNBOUNDED(X) X(4, maximum) X(5, minimum)
#define OF_INT8(X) X(6, add) X(7, subtract) X(8, multiply)

aot_status aot_xnnpack_pair(void **slots, const aot_xnnpack_pair_params *p) {
    xnn_operator_t op = NULL;
    enum xnn_status status = xnn_status_invalid_parameter;
    switch (p->kind) {
#define CREATE(number, name) CASE(number, CREATED(name##_nd_f32, BOUNDS(p)))
        BOUNDED(CREATE)
#undef CREATE
#define CREATE(number, name) CASE(number, xnn_create_##name##_nd_f32(0, &op))
        UNBOUNDED(CREATE)
#undef CREATE
#define CREATE(number, name)                                                                       \
    CASE(number, CREATED(name##_nd_qs8, (int8_t)p->zero[0], p->scale[0], (int8_t)p->zero[1],       \
                         p->scale[1], (int8_t)p->zero[2], p->scale[2], RESULT(p)))
        OF_INT8(CREATE)
#undef CREATE
    default:
        break;
    }
    return kept(slots, op, status);
}

aot_status aot_xnnpack_run_pair(void **session, void **slots, void *y, const void *a, const void *b,
                                const aot_xnnpack_run_pair_params *p) {
    const size_t rank = (size_t)p->rank;
    enum xnn_status status = xnn_status_invalid_parameter;
    size_t left[6], right[6], i;
    for (i = 0; i < rank && i < 6; ++i) {
        left[i] = (size_t)p->a[i];
        right[i] = (size_t)p->b[i];
    }
    switch (p->kind) {
#define SETUP(number, name, type)                                                                  \
    CASE(number, xnn_setup_##name##_nd_##type(operator_of(slots), rank, left, rank, right, a, b,   \
                                              y, pool_of(session)))
#define SETUP_F32(number, name) SETUP(number, name, f32)
#define SETUP_QS8(number, name) SETUP(number, name, qs8)
        BOUNDED(SETUP_F32)
        UNBOUNDED(SETUP_F32)
        OF_INT8(SETUP_QS8)
#undef SETUP
    default:
        break;
    }
    return executed(session, slots, status);
}

/* -- One operand ------------------------------------------------------------------------------- */

/* Number and name of operators of floats without parameters. */
#define PLAIN(X)                                                                                   \
    X(0, abs)                                                                                      \
    X(1, bankers_rounding)                                                                         \
    X(2, ceiling)                                                                                  \
    X(3, floor)                                                                                    \
    X(4, hardswish)                                                                                \
    X(5, negate)                                                                                   \
    X(6, sigmoid)                                                                                  \
    X(7, square)                                                                                   \
    X(8, square_root)                                                                              \
    X(9, softmax)
enum { CLAMP = 10, LEAKY_RELU, ELU, PRELU };

aot_status aot_xnnpack_unary(void **slots, const void *slope, const aot_xnnpack_unary_params *p) {
    xnn_operator_t op = NULL;
    enum xnn_status status = xnn_status_invalid_parameter;
    switch (p->kind) {
#define CREATE(number, name) CASE(number, CREATED(name##_nc_f32, CHANNELS(p)))
        PLAIN(CREATE)
#undef CREATE
        CASE(CLAMP, CREATED(clamp_nc_f32, CHANNELS(p), p->alpha, p->beta))
        CASE(LEAKY_RELU, CREATED(leaky_relu_nc_f32, CHANNELS(p), p->alpha))
        CASE(ELU, CREATED(elu_nc_f32, CHANNELS(p), p->alpha))
        CASE(PRELU, CREATED(prelu_nc_f32, CHANNELS(p), slope))
    default:
        break;
    }
    return kept(slots, op, status);
}

aot_status aot_xnnpack_run_unary(void **session, void **slots, void *y, const void *x,
                                 const aot_xnnpack_run_unary_params *p) {
    enum xnn_status status = xnn_status_invalid_parameter;
    switch (p->kind) {
#define SETUP(number, name, type) CASE(number, SET_UP(name##_nc_##type, (size_t)p->rows))
        PLAIN(SETUP_F32)
        SETUP_F32(CLAMP, clamp)
        SETUP_F32(LEAKY_RELU, leaky_relu)
        SETUP_F32(ELU, elu)
        SETUP_F32(PRELU, prelu)
    default:
        break;
    }
    return executed(session, slots, status);
}

/* -- Resizing ---------------------------------------------------------------------------------- */

aot_status aot_xnnpack_resize(void **slots, const aot_xnnpack_resize_params *p) {
    xnn_operator_t op = NULL;
    const enum xnn_status status =
        xnn_create_resize_bilinear2d_nhwc_f32(CHANNELS(p), (uint32_t)p->flags, &op);
    return kept(slots, op, status);
}

aot_status aot_xnnpack_run_resize(void **session, void **slots, void *y, const void *x,
                                  const aot_xnnpack_run_resize_params *p) {
    return executed(
        session, slots,
        SET_UP(resize_bilinear2d_nhwc_f32, SIZE(p), (size_t)p->result[0], (size_t)p->result[1]));
}
