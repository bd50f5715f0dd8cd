/* SPDX-License-Identifier: MIT-0 */
/* oneDNN primitives as objects of a context: created once, executed by every run.
 * float32 unless it says otherwise: a `type` in the parameters is that of tensors and weights;
 * biases, and what is one number per channel, are float32 always.
 *
 * Creators get zeroed slots and return AOT_OK or AOT_VENDOR; constants they are given must outlive
 * the object. Tensors are row-major, or have their channels in blocks of 4, 8 or 16 (`block`); the
 * lanes past the last channel hold zeros in what is read and in what is written. */
#ifndef AOT_DNNL_H
#define AOT_DNNL_H

#include <stdint.h>

#include "aot/aot.h"

enum { AOT_DNNL_SESSION_SLOTS = 3, AOT_DNNL_SLOTS = 24 };

/* Types of elements. Creators refuse bfloat16 on processors for which the library has no code. */
enum { AOT_DNNL_F32 = 0, AOT_DNNL_BF16 = 1 };

/* Engine, stream and the scratch memory that the primitives of one context share. */
AOT_WARN_UNUSED aot_status aot_dnnl_open(void **session);
void aot_dnnl_close(void **session);

/* y = act(conv(x, w) + b [+ r]), or the transposed convolution.
 * w: [oc, ic, k...], or with w_rank = rank + 1: [groups, oc, ic, k...] per group; b: [oc] or NULL.
 * d counts from 0: the gaps between the points of the window. */
typedef struct aot_dnnl_conv_params {
    int32_t type;    /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int32_t rank;    /* axes of x and y: 3, 4 or 5 */
    int32_t w_rank;  /* axes of w */
    int32_t x_block; /* channels of x in blocks of so many, 0 if row-major */
    int32_t y_block; /* the same of y and r */
    int32_t transposed;
    int32_t sum;  /* whether a residual r is added */
    int32_t act;  /* AOT_DNNL_ACT_* */
    int32_t post; /* then: 1 + r, 2 * r; not with sum */
    float alpha;
    float beta;
    int64_t scratch; /* bytes of the arena that runs bring along */
    int64_t x[5];
    int64_t y[5];
    int64_t w[6];
    int64_t s[3];
    int64_t d[3];
    int64_t before[3];
    int64_t after[3];
} aot_dnnl_conv_params;
AOT_WARN_UNUSED aot_status aot_dnnl_conv(void **slots, void **session, const void *w, const void *b,
                                         const aot_dnnl_conv_params *p);

/* y [m, n] = act(x [m, k] * w [k, n] + b [+ r]); b: [n] or NULL. */
typedef struct aot_dnnl_dense_params {
    int32_t type; /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int64_t m;
    int64_t k;
    int64_t n;
    int32_t sum;
    int32_t act;
    int32_t post;
    float alpha;
    float beta;
    int64_t scratch; /* bytes of the arena that runs bring along */
} aot_dnnl_dense_params;
AOT_WARN_UNUSED aot_status aot_dnnl_dense(void **slots, void **session, const void *w,
                                          const void *b, const aot_dnnl_dense_params *p);

/* y [..., m, n] = x [..., m, k] * x1 [..., k, n]; axes in front are equal or 1. */
typedef struct aot_dnnl_matmul_params {
    int32_t type; /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int32_t rank;
    int64_t x[6];
    int64_t x1[6];
    int64_t y[6];
} aot_dnnl_matmul_params;
AOT_WARN_UNUSED aot_status aot_dnnl_matmul(void **slots, void **session,
                                           const aot_dnnl_matmul_params *p);

/* Pooling: 0 maximum, 1 average over the padded window, 2 average over what is inside. */
typedef struct aot_dnnl_pool_params {
    int32_t type; /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int32_t rank;
    int32_t block;
    int32_t kind;
    int64_t x[5];
    int64_t y[5];
    int64_t k[3];
    int64_t s[3];
    int64_t d[3];
    int64_t before[3];
    int64_t after[3];
} aot_dnnl_pool_params;
AOT_WARN_UNUSED aot_status aot_dnnl_pool(void **slots, void **session,
                                         const aot_dnnl_pool_params *p);

/* Functions of one element: those that products apply too, then the others. */
enum {
    AOT_DNNL_ACT_NONE = 0,
    AOT_DNNL_ACT_CLIP = 1,  /* min(max(v, alpha), beta) */
    AOT_DNNL_ACT_LEAKY = 2, /* v < 0 ? alpha * v : v */
    AOT_DNNL_ACT_HARDSWISH = 3,
    AOT_DNNL_ACT_HARDSIGMOID = 4, /* alpha * v + beta, clipped to 0..1; only after a product */
    AOT_DNNL_ACT_SIGMOID = 5,
    AOT_DNNL_ACT_SWISH = 6, /* v * sigmoid(alpha * v) */
    AOT_DNNL_ACT_TANH = 7,
    AOT_DNNL_ACT_GELU = 8,
    AOT_DNNL_ACT_ELU = 9,
    AOT_DNNL_ACT_GELU_TANH = 10,
    AOT_DNNL_ACT_MISH = 11,
    AOT_DNNL_ACT_ABS = 12,
    AOT_DNNL_ACT_EXP = 13,
    AOT_DNNL_ACT_LOG = 14,
    AOT_DNNL_ACT_SQRT = 15,
    AOT_DNNL_ACT_ROUND = 16,
    AOT_DNNL_ACT_LINEAR = 17, /* alpha * v + beta */
    AOT_DNNL_ACT_POW = 18     /* alpha * v ^ beta */
};

/* y[i] = act(x[i]), n elements in whatever layout. */
typedef struct aot_dnnl_eltwise_params {
    int32_t type; /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int64_t n;
    int32_t act;
    float alpha;
    float beta;
} aot_dnnl_eltwise_params;
AOT_WARN_UNUSED aot_status aot_dnnl_eltwise(void **slots, void **session,
                                            const aot_dnnl_eltwise_params *p);

/* y = x op x1: 0 add, 1 subtract, 2 multiply, 3 divide, 4 maximum, 5 minimum. Row-major; an axis
 * of x1 is that of x or 1. */
typedef struct aot_dnnl_binary_params {
    int32_t type; /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int32_t rank;
    int32_t kind;
    int64_t x[6];
    int64_t x1[6];
} aot_dnnl_binary_params;
AOT_WARN_UNUSED aot_status aot_dnnl_binary(void **slots, void **session,
                                           const aot_dnnl_binary_params *p);

/* Local response normalisation over `size` (odd) channels of x [n, c, h, w]. */
typedef struct aot_dnnl_lrn_params {
    int32_t type; /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int32_t block;
    int64_t size;
    float alpha;
    float beta;
    float bias;
    int64_t x[4];
} aot_dnnl_lrn_params;
AOT_WARN_UNUSED aot_status aot_dnnl_lrn(void **slots, void **session, const aot_dnnl_lrn_params *p);

/* Softmax of x [outer, axis, inner] along its middle axis, or its logarithm. */
typedef struct aot_dnnl_softmax_params {
    int32_t type; /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int64_t outer;
    int64_t axis;
    int64_t inner;
    int32_t log;
} aot_dnnl_softmax_params;
AOT_WARN_UNUSED aot_status aot_dnnl_softmax(void **slots, void **session,
                                            const aot_dnnl_softmax_params *p);

/* Layer normalisation of the rows of x [outer, inner]; scale and shift: [inner]. */
typedef struct aot_dnnl_layernorm_params {
    int32_t type; /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int64_t outer;
    int64_t inner;
    float epsilon;
} aot_dnnl_layernorm_params;
AOT_WARN_UNUSED aot_status aot_dnnl_layernorm(void **slots, void **session, const void *scale,
                                              const void *shift,
                                              const aot_dnnl_layernorm_params *p);

/* y = x * scale + shift per channel, then the maximum of it and 0 if `relu`. Each row: [channels];
 * `zeros` and `ones` are rows of just that. */
typedef struct aot_dnnl_affine_params {
    int32_t type; /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int32_t rank; /* 3 to 5 */
    int32_t block;
    int32_t relu;
    int64_t x[5];
} aot_dnnl_affine_params;
AOT_WARN_UNUSED aot_status aot_dnnl_affine(void **slots, void **session, const void *scale,
                                           const void *shift, const void *zeros, const void *ones,
                                           const aot_dnnl_affine_params *p);

/* Reduction of x along its middle axis, y [outer, 1, inner]: 0 mean, 1 sum, 2 maximum, 3 minimum.
 */
typedef struct aot_dnnl_reduce_params {
    int32_t type; /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int64_t outer;
    int64_t axis;
    int64_t inner;
    int32_t kind;
} aot_dnnl_reduce_params;
AOT_WARN_UNUSED aot_status aot_dnnl_reduce(void **slots, void **session,
                                           const aot_dnnl_reduce_params *p);

/* x [n, c, ...] with its spatial axes resized to those of y: the nearest element, or linearly
 * between neighbours, of positions that count from the middle of an element. */
typedef struct aot_dnnl_resize_params {
    int32_t type; /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int32_t rank;
    int32_t block;
    int32_t linear;
    int64_t x[5];
    int64_t y[5];
} aot_dnnl_resize_params;
AOT_WARN_UNUSED aot_status aot_dnnl_resize(void **slots, void **session,
                                           const aot_dnnl_resize_params *p);

/* y = x < 0 ? slope * x : x; an axis of the slope is that of x or 1. */
typedef struct aot_dnnl_prelu_params {
    int32_t type; /* AOT_DNNL_F32 or AOT_DNNL_BF16 */
    int32_t rank;
    int32_t block;
    int64_t x[5];
    int64_t slope[5];
} aot_dnnl_prelu_params;
AOT_WARN_UNUSED aot_status aot_dnnl_prelu(void **slots, void **session, const void *slope,
                                          const aot_dnnl_prelu_params *p);

/* A recurrent layer of one direction: x [steps, batch, input], y [steps, batch, hidden].
 * w: [input, gates, hidden], r: [hidden, gates, hidden] with gates i, f, c, o of LSTM and u, r, o
 * of GRU; b: [gates, hidden], one more row, of r * o, with AOT_DNNL_GRU_LINEAR. */
enum { AOT_DNNL_LSTM = 0, AOT_DNNL_GRU = 1, AOT_DNNL_GRU_LINEAR = 2 };
typedef struct aot_dnnl_recurrent_params {
    int32_t kind;
    int32_t reverse; /* from the last step to the first */
    int32_t begins;  /* whether runs bring states to start from */
    int32_t ends;    /* whether the last states are wanted */
    int64_t steps;
    int64_t batch;
    int64_t input;
    int64_t hidden;
} aot_dnnl_recurrent_params;
AOT_WARN_UNUSED aot_status aot_dnnl_recurrent(void **slots, void **session, const void *w,
                                              const void *r, const void *b,
                                              const aot_dnnl_recurrent_params *p);

/* Values: 8-bit integers q whose value is (q - zero) * scale. Tensors of them are row-major, or
 * from three axes on have their channels last. Their creators fail on x86 processors that have no
 * VNNI: there the library's sums of values are not exact. */
enum { AOT_DNNL_S8 = 0, AOT_DNNL_U8 = 1 };

/* y = clip(conv(x - x_zero, w) * scale + b [+ r * r_scale], low, high), rounded to values.
 * w: int8 as in aot_dnnl_conv; scale, b: [oc], in values of y; the zero points of y and r are in b.
 */
typedef struct aot_dnnl_qconv_params {
    int32_t rank;
    int32_t w_rank;
    int32_t x_type; /* AOT_DNNL_S8 or AOT_DNNL_U8, which is r's and y's too in y_type */
    int32_t y_type;
    int32_t x_zero;
    float r_scale; /* 0: no residual */
    float low;
    float high;
    int64_t x[5];
    int64_t y[5];
    int64_t w[6];
    int64_t s[3];
    int64_t d[3];
    int64_t before[3];
    int64_t after[3];
} aot_dnnl_qconv_params;
AOT_WARN_UNUSED aot_status aot_dnnl_qconv(void **slots, void **session, const void *w,
                                          const void *scale, const void *b,
                                          const aot_dnnl_qconv_params *p);

/* y [m, n] = clip(x [m, k] * w [n, k] * scale + b [+ r * r_scale], low, high), rounded to values. */
typedef struct aot_dnnl_qdense_params {
    int64_t m;
    int64_t k;
    int64_t n;
    int32_t x_type;
    int32_t y_type;
    float r_scale;
    float low;
    float high;
} aot_dnnl_qdense_params;
AOT_WARN_UNUSED aot_status aot_dnnl_qdense(void **slots, void **session, const void *w,
                                           const void *scale, const void *b,
                                           const aot_dnnl_qdense_params *p);

/* Pooling of values as aot_dnnl_pool's, then y = clip(pooled * scale + shift, low, high). */
typedef struct aot_dnnl_qpool_params {
    int32_t rank;
    int32_t kind;
    int32_t x_type;
    float scale;
    float shift;
    float low;
    float high;
    int64_t x[5];
    int64_t y[5];
    int64_t k[3];
    int64_t s[3];
    int64_t d[3];
    int64_t before[3];
    int64_t after[3];
} aot_dnnl_qpool_params;
AOT_WARN_UNUSED aot_status aot_dnnl_qpool(void **slots, void **session,
                                          const aot_dnnl_qpool_params *p);

/* y = clip(x * x_scale op x1 * x1_scale + shift, low, high) of n values each; op as in binary. */
typedef struct aot_dnnl_qbinary_params {
    int64_t n;
    int32_t kind;
    int32_t x_type;
    int32_t x1_type;
    int32_t y_type;
    float x_scale;
    float x1_scale;
    float shift;
    float low;
    float high;
} aot_dnnl_qbinary_params;
AOT_WARN_UNUSED aot_status aot_dnnl_qbinary(void **slots, void **session,
                                            const aot_dnnl_qbinary_params *p);

/* Release what a creator put into `slots`, be it whole or not. */
void aot_dnnl_release(void **slots);

/* Execute. `scratch` is as large as the creator was told, or NULL; a primitive that needs more uses
 * the session's. x1 is the second operand, r the residual: it has y's size and may be y itself. */
AOT_WARN_UNUSED aot_status aot_dnnl_run(void **slots, void *y, const void *x, void *scratch);
AOT_WARN_UNUSED aot_status aot_dnnl_run2(void **slots, void *y, const void *x, const void *x1);
AOT_WARN_UNUSED aot_status aot_dnnl_run_sum(void **slots, void *y, const void *x, const void *r,
                                            void *scratch);

/* Execute with the operand `post` of what follows the activation: it has y's size and another
 * place. */
AOT_WARN_UNUSED aot_status aot_dnnl_run_post(void **slots, void *y, const void *x, const void *post,
                                             void *scratch);

/* Execute a recurrent layer; yh, yc, h and c: [batch, hidden], NULL where it has none. */
AOT_WARN_UNUSED aot_status aot_dnnl_run_recurrent(void **slots, void *y, void *yh, void *yc,
                                                  const void *x, const void *h, const void *c);

/* Execute two recurrent layers, the second from the last step to the first: y [steps, 2, row], yh,
 * yc, h and c [2, row] with rows of batch * hidden. `part` has room for [steps, row]. */
typedef struct aot_dnnl_run_both_params {
    int64_t steps;
    int64_t row;
} aot_dnnl_run_both_params;
AOT_WARN_UNUSED aot_status aot_dnnl_run_both(void **forward, void **reverse, void *y, void *yh,
                                             void *yc, const void *x, const void *h, const void *c,
                                             void *part, const aot_dnnl_run_both_params *p);

#endif /* AOT_DNNL_H */
