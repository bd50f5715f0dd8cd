/* SPDX-License-Identifier: MIT-0 */
/* What the creators of aot_dnnl_ops.c share. */
#ifndef AOT_DNNL_CORE_H
#define AOT_DNNL_CORE_H

#include "aot_dnnl.h"
#include "aot_dnnl_api.h"

/* Slots of a primitive: itself, the memory of each argument (NULL where it has none), its session,
 * and whether its scratch is the arena's. */
enum {
    PRIMITIVE,
    SRC,
    SRC1,
    SRC2,
    DST,
    DST1,
    DST2,
    WEIGHTS,
    WEIGHTS1,
    BIAS,
    SCALE,
    SHIFT,
    MEAN,
    VARIANCE,
    SCALE_X,  /* of the first input's values */
    SCALE_X1, /* of the second input's */
    SCALE_W,  /* of the weights' */
    ZERO_X,   /* the first input's zero point */
    POST0,    /* the tensor that the first operation after the product takes, */
    POST1,    /* or the second, */
    POST2,    /* or the third */
    SCRATCH,
    SESSION,
    IN_ARENA
};

/* Go on only while all is well. */
#define THEN(status, call)                                                                         \
    do {                                                                                           \
        if ((status) == dnnl_success)                                                              \
            (status) = (call);                                                                     \
    } while (0)

dnnl_format_tag_t aot_dnnl_plain_tag(int rank);
dnnl_format_tag_t aot_dnnl_last_tag(int rank);
/* Blocks of 4, 8 or 16 channels, row-major of block 0; any other is all channels, which are last. */
dnnl_format_tag_t aot_dnnl_tag(int rank, int block);

/* The library's name of a function of one element, its parameters adapted. */
dnnl_status_t aot_dnnl_alg(int act, float *alpha, float *beta, dnnl_alg_kind_t *alg);

/* Attributes with no more in them than that scratch is ours to place. */
dnnl_status_t aot_dnnl_start(aot_new *n, void **session);

/* What follows a product: a residual, an activation, 1 + or 2 * a tensor described by `y`. */
typedef struct {
    int sum;
    int act;
    float alpha;
    float beta;
    int post;
    const aot_md *y;
} aot_after;

/* Attributes: scratch is ours to place; then what follows a product. */
dnnl_status_t aot_dnnl_begin(aot_new *n, void **slots, void **session, const aot_after *after);

/* A memory described as the primitive wants argument `what`; its address comes with each run. */
dnnl_status_t aot_dnnl_attach(void **slot, const aot_new *n, dnnl_query_t what, int index);

/* A memory of one row of constants. */
dnnl_status_t aot_dnnl_attach_row(void **slot, const aot_new *n, dnnl_dim_t count,
                                  const void *data);

/* Weights number `index` as the primitive prefers them: the constant itself, or a copy of the
 * library's. */
dnnl_status_t aot_dnnl_attach_nth_weights(void **slot, void **session, const aot_new *n, int index,
                                          const aot_md *user, const void *w);
dnnl_status_t aot_dnnl_attach_weights(void **slots, void **session, const aot_new *n,
                                      const aot_md *user, const void *w);

/* A memory of the library's own that holds a copy of `count` elements. */
dnnl_status_t aot_dnnl_attach_copy(void **slot, const aot_new *n, dnnl_data_type_t type,
                                   dnnl_dim_t count, const void *data);

/* The primitive with memories for its input, result and scratch, of which runs bring `arena`. */
dnnl_status_t aot_dnnl_finish(void **slots, void **session, const aot_new *n, int64_t arena);

/* Drop what creation needed, and tell how it went. */
aot_status aot_dnnl_end(aot_new *n, dnnl_status_t status);

#endif /* AOT_DNNL_CORE_H */
