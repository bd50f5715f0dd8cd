/* SPDX-License-Identifier: MIT-0 */
/* Calls of Arm Compute Library, a C++ library, behind C functions. NAME_init makes a function of
 * the library per match, with its tensors, and packs its weights; a run gives the tensors their
 * memory. Channels are stored last. Where the library's kernels need padding around a tensor, the
 * tensor has memory of its own, to which or from which a run copies. */
#ifndef AOT_ACL_H
#define AOT_ACL_H

#include <stdint.h>

#include "aot/aot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An object: slot 0. `b` is NULL for functions of one operand. */
aot_status aot_acl_run(void **slots, void *y, const void *a, const void *b);
void aot_acl_release(void **slots);

/* Extents are height, width; channels are those of one group. There is one group, or one of each
 * channel of the input. `type` is 0 for float32, 1 for int8 values. */
typedef struct {
    int32_t type;
    int32_t batch;
    int32_t size[2];
    int32_t result[2];
    int32_t groups;
    int32_t channels[2]; /* in, out */
    int32_t kernel[2];
    int32_t stride[2];
    int32_t dilation[2];
    int32_t pad[4]; /* top, right, bottom, left */
    float low;
    float high;
    int32_t zero[2]; /* zero points: x, y */
    float scale[2];
} aot_acl_conv_params;

/* `w` is [outputs, height, width, channels], of depthwise convolutions [height, width, outputs];
 * `bias` is NULL or one per output channel, so are `scales`, those of int8 weights. */
aot_status aot_acl_conv(void **slots, const void *w, const void *bias, const float *scales,
                        const aot_acl_conv_params *p);

/* `kind`: 0 an average without padding, 1 a maximum, 2 the average of all positions. */
typedef struct {
    int32_t kind;
    int32_t batch;
    int32_t size[2];
    int32_t result[2];
    int32_t channels;
    int32_t kernel[2];
    int32_t stride[2];
    int32_t pad[4]; /* top, right, bottom, left */
    float low;
    float high;
} aot_acl_pool_params;
aot_status aot_acl_pool(void **slots, const aot_acl_pool_params *p);

/* `kind`: see the list in aot_acl.cpp; shapes have `rank` extents. */
typedef struct {
    int32_t kind;
    int32_t rank;
    int32_t a[6];
    int32_t b[6];
    int32_t y[6];
    int32_t type;
    float low;
    float high;
    int32_t zero[3]; /* zero points: a, b, y */
    float scale[3];
} aot_acl_pair_params;
aot_status aot_acl_pair(void **slots, const aot_acl_pair_params *p);

/* `rows` rows of `channels`; `kind`: see the list in aot_acl.cpp. `alpha` and `beta` are the bounds
 * of a clamp, or the slope. */
typedef struct {
    int32_t kind;
    int32_t rows;
    int32_t channels;
    float alpha;
    float beta;
} aot_acl_unary_params;
aot_status aot_acl_unary(void **slots, const aot_acl_unary_params *p);

#ifdef __cplusplus
}
#endif

#endif /* AOT_ACL_H */
