/* SPDX-License-Identifier: MIT-0 */
/* Calls of XNNPACK. NAME_init creates an operator per match, which packs its weights; a run sets
 * the operator up with its pointers and executes it. Channels are stored last. Operands of runs are
 * read up to XNN_EXTRA_BYTES past their ends. */
#ifndef AOT_XNNPACK_H
#define AOT_XNNPACK_H

#include <stdint.h>

#include "aot/aot.h"

/* A session: slot 0 is the pool of threads, NULL for one thread. */
aot_status aot_xnnpack_open(void **session);
void aot_xnnpack_close(void **session);

/* An operator: slot 0. */
void aot_xnnpack_release(void **slots);

/* Extents are height, width; channels are those of one group. `type` is 0 for float32, 1 for int8
 * values, 2 for int8 values with a scale per output channel of the weights (`scales`). */
typedef struct {
    int32_t type;
    int32_t transposed;
    int32_t batch;
    int32_t size[2];
    int32_t groups;
    int32_t channels[2]; /* in, out */
    int32_t kernel[2];
    int32_t stride[2];
    int32_t dilation[2];
    int32_t pad[4];   /* top, right, bottom, left */
    int32_t extra[2]; /* rows, columns that a transposed convolution adds at the end */
    int32_t zero[2];  /* zero points: x, y */
    float scale[3];   /* x, weights, y */
    float low;
    float high;
} aot_xnnpack_conv_params;
typedef aot_xnnpack_conv_params aot_xnnpack_run_conv_params;

/* `w` is [outputs, height, width, channels of a group]; `bias` is NULL or one per output channel.
 */
aot_status aot_xnnpack_conv(void **slots, const void *w, const void *bias, const void *scales,
                            const aot_xnnpack_conv_params *p);
aot_status aot_xnnpack_run_conv(void **session, void **slots, void *y, const void *x,
                                const aot_xnnpack_run_conv_params *p);

/* `kind`: see the list in aot_xnnpack.c. */
typedef struct {
    int32_t kind;
    int32_t batch;
    int32_t size[2];
    int32_t channels;
    int32_t kernel[2];
    int32_t stride[2];
    int32_t dilation[2];
    int32_t pad[4];
    int32_t zero[2];
    float scale[2];
    float low;
    float high;
} aot_xnnpack_pool_params;
typedef aot_xnnpack_pool_params aot_xnnpack_run_pool_params;

aot_status aot_xnnpack_pool(void **slots, const aot_xnnpack_pool_params *p);
aot_status aot_xnnpack_run_pool(void **session, void **slots, void *y, const void *x,
                                const aot_xnnpack_run_pool_params *p);

/* `kind` is the place in the list of two operands of aot_xnnpack.c; shapes have `rank` extents. */
typedef struct {
    int32_t type;
    int32_t kind;
    int32_t rank;
    int32_t a[6];
    int32_t b[6];
    int32_t zero[3]; /* a, b, y */
    float scale[3];
    float low;
    float high;
} aot_xnnpack_pair_params;
typedef aot_xnnpack_pair_params aot_xnnpack_run_pair_params;

aot_status aot_xnnpack_pair(void **slots, const aot_xnnpack_pair_params *p);
aot_status aot_xnnpack_run_pair(void **session, void **slots, void *y, const void *a, const void *b,
                                const aot_xnnpack_run_pair_params *p);

/* `rows` rows of `channels`; `kind` is the place in the list of one operand of aot_xnnpack.c.
 * `alpha` and `beta` are the bounds of a clamp or the slope; `slope` is NULL or one per channel. */
typedef struct {
    int32_t kind;
    int32_t rows;
    int32_t channels;
    float alpha;
    float beta;
} aot_xnnpack_unary_params;
typedef aot_xnnpack_unary_params aot_xnnpack_run_unary_params;

aot_status aot_xnnpack_unary(void **slots, const void *slope, const aot_xnnpack_unary_params *p);
aot_status aot_xnnpack_run_unary(void **session, void **slots, void *y, const void *x,
                                 const aot_xnnpack_run_unary_params *p);

/* `flags` are the library's: 8 for aligned corners, 4 for positions y * in / out. */
typedef struct {
    int32_t flags;
    int32_t batch;
    int32_t size[2];
    int32_t result[2];
    int32_t channels;
} aot_xnnpack_resize_params;
typedef aot_xnnpack_resize_params aot_xnnpack_run_resize_params;

aot_status aot_xnnpack_resize(void **slots, const aot_xnnpack_resize_params *p);
aot_status aot_xnnpack_run_resize(void **session, void **slots, void *y, const void *x,
                                  const aot_xnnpack_run_resize_params *p);

#endif /* AOT_XNNPACK_H */
