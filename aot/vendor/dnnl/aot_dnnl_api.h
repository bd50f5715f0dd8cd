/* SPDX-License-Identifier: MIT-0 */
/* The two generations of oneDNN's C interface under one set of names: 2.x describes an operation
 * with a struct of its own, 3.x creates its primitive descriptor directly. */
#ifndef AOT_DNNL_API_H
#define AOT_DNNL_API_H

#include <dnnl.h>

#include "aot/port.h"

#if DNNL_VERSION_MAJOR < 2 || (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 6) ||               \
    DNNL_VERSION_MAJOR > 3
#error "vendor dnnl needs oneDNN 2.6 or newer, below 4"
#endif

#if DNNL_VERSION_MAJOR >= 3
#define AOT_DNNL_V3 1
typedef dnnl_memory_desc_t aot_md; /* a handle, to be destroyed */
typedef const_dnnl_memory_desc_t aot_md_ref;
AOT_INLINE aot_md_ref md_ref(const aot_md *d) {
    return d == NULL ? NULL : *d;
}
#else
#define AOT_DNNL_V3 0
typedef dnnl_memory_desc_t aot_md; /* the struct itself */
typedef const dnnl_memory_desc_t *aot_md_ref;
AOT_INLINE aot_md_ref md_ref(const aot_md *d) {
    return d;
}
#endif

/* What every creator passes on. */
typedef struct {
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t pd; /* the result */
} aot_new;

/* oneDNN declares every list of extents with twelve elements. */
AOT_INLINE void widen(dnnl_dims_t to, const dnnl_dim_t *from, int count) {
    int i;
    for (i = 0; i < DNNL_MAX_NDIMS; ++i)
        to[i] = i < count ? from[i] : 0;
}

AOT_INLINE dnnl_status_t md_typed(aot_md *d, int rank, const dnnl_dim_t *extents,
                                  dnnl_data_type_t type, dnnl_format_tag_t tag) {
    dnnl_dims_t dims;
    widen(dims, extents, rank);
#if AOT_DNNL_V3
    return dnnl_memory_desc_create_with_tag(d, rank, dims, type, tag);
#else
    return dnnl_memory_desc_init_by_tag(d, rank, dims, type, tag);
#endif
}

AOT_INLINE dnnl_status_t md_new(aot_md *d, int rank, const dnnl_dim_t *extents,
                                dnnl_format_tag_t tag) {
    return md_typed(d, rank, extents, dnnl_f32, tag);
}

AOT_INLINE void md_drop(aot_md *d) {
#if AOT_DNNL_V3
    if (*d != NULL)
        (void)dnnl_memory_desc_destroy(*d);
    *d = NULL;
#else
    (void)d;
#endif
}

/* An empty descriptor, so that md_drop is always legal. */
#if AOT_DNNL_V3
#define MD_EMPTY NULL
#else
#define MD_EMPTY                                                                                   \
    { 0 }
#endif

AOT_INLINE dnnl_status_t append_sum(dnnl_post_ops_t ops, float scale) {
#if AOT_DNNL_V3
    return dnnl_post_ops_append_sum(ops, scale, 0, dnnl_data_type_undef);
#else
    return dnnl_post_ops_append_sum(ops, scale);
#endif
}

AOT_INLINE dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha,
                                        float beta) {
#if AOT_DNNL_V3
    return dnnl_post_ops_append_eltwise(ops, alg, alpha, beta);
#else
    return dnnl_post_ops_append_eltwise(ops, 1.0f, alg, alpha, beta);
#endif
}

#if !AOT_DNNL_V3
AOT_INLINE dnnl_status_t described(aot_new *n, dnnl_status_t status, const_dnnl_op_desc_t d) {
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(&n->pd, d, n->attr, n->engine, NULL);
}
#endif

/* The geometry of a window; d counts the gaps between its points. */
typedef struct {
    dnnl_dims_t k;
    dnnl_dims_t s;
    dnnl_dims_t d;
    dnnl_dims_t before;
    dnnl_dims_t after;
} aot_window;

AOT_INLINE dnnl_status_t new_convolution(aot_new *n, const aot_md *x, const aot_md *w,
                                         const aot_md *b, const aot_md *y, const aot_window *o) {
    const dnnl_prop_kind_t prop = dnnl_forward_inference;
    const dnnl_alg_kind_t alg = dnnl_convolution_auto;
#if AOT_DNNL_V3
    return dnnl_convolution_forward_primitive_desc_create(&n->pd, n->engine, prop, alg, md_ref(x),
                                                          md_ref(w), md_ref(b), md_ref(y), o->s,
                                                          o->d, o->before, o->after, n->attr);
#else
    dnnl_convolution_desc_t d;
    return described(n,
                     dnnl_dilated_convolution_forward_desc_init(&d, prop, alg, x, w, b, y, o->s,
                                                                o->d, o->before, o->after),
                     &d);
#endif
}

AOT_INLINE dnnl_status_t new_deconvolution(aot_new *n, const aot_md *x, const aot_md *w,
                                           const aot_md *b, const aot_md *y, const aot_window *o) {
    const dnnl_prop_kind_t prop = dnnl_forward_inference;
    const dnnl_alg_kind_t alg = dnnl_deconvolution_direct;
#if AOT_DNNL_V3
    return dnnl_deconvolution_forward_primitive_desc_create(&n->pd, n->engine, prop, alg, md_ref(x),
                                                            md_ref(w), md_ref(b), md_ref(y), o->s,
                                                            o->d, o->before, o->after, n->attr);
#else
    dnnl_deconvolution_desc_t d;
    return described(n,
                     dnnl_dilated_deconvolution_forward_desc_init(&d, prop, alg, x, w, b, y, o->s,
                                                                  o->d, o->before, o->after),
                     &d);
#endif
}

AOT_INLINE dnnl_status_t new_inner_product(aot_new *n, const aot_md *x, const aot_md *w,
                                           const aot_md *b, const aot_md *y) {
    const dnnl_prop_kind_t prop = dnnl_forward_inference;
#if AOT_DNNL_V3
    return dnnl_inner_product_forward_primitive_desc_create(
        &n->pd, n->engine, prop, md_ref(x), md_ref(w), md_ref(b), md_ref(y), n->attr);
#else
    dnnl_inner_product_desc_t d;
    return described(n, dnnl_inner_product_forward_desc_init(&d, prop, x, w, b, y), &d);
#endif
}

AOT_INLINE dnnl_status_t new_matmul(aot_new *n, const aot_md *x, const aot_md *x1,
                                    const aot_md *y) {
#if AOT_DNNL_V3
    return dnnl_matmul_primitive_desc_create(&n->pd, n->engine, md_ref(x), md_ref(x1), NULL,
                                             md_ref(y), n->attr);
#else
    dnnl_matmul_desc_t d;
    return described(n, dnnl_matmul_desc_init(&d, x, x1, NULL, y), &d);
#endif
}

AOT_INLINE dnnl_status_t new_pooling(aot_new *n, dnnl_alg_kind_t alg, const aot_md *x,
                                     const aot_md *y, const aot_window *o) {
    const dnnl_prop_kind_t prop = dnnl_forward_inference;
#if AOT_DNNL_V3
    return dnnl_pooling_forward_primitive_desc_create(&n->pd, n->engine, prop, alg, md_ref(x),
                                                      md_ref(y), o->s, o->k, o->d, o->before,
                                                      o->after, n->attr);
#else
    dnnl_pooling_v2_desc_t d;
    return described(n,
                     dnnl_pooling_v2_forward_desc_init(&d, prop, alg, x, y, o->s, o->k, o->d,
                                                       o->before, o->after),
                     &d);
#endif
}

AOT_INLINE dnnl_status_t new_eltwise(aot_new *n, dnnl_alg_kind_t alg, const aot_md *x, float alpha,
                                     float beta) {
    const dnnl_prop_kind_t prop = dnnl_forward_inference;
#if AOT_DNNL_V3
    return dnnl_eltwise_forward_primitive_desc_create(&n->pd, n->engine, prop, alg, md_ref(x),
                                                      md_ref(x), alpha, beta, n->attr);
#else
    dnnl_eltwise_desc_t d;
    return described(n, dnnl_eltwise_forward_desc_init(&d, prop, alg, x, alpha, beta), &d);
#endif
}

AOT_INLINE dnnl_status_t new_binary(aot_new *n, dnnl_alg_kind_t alg, const aot_md *x,
                                    const aot_md *x1, const aot_md *y) {
#if AOT_DNNL_V3
    return dnnl_binary_primitive_desc_create(&n->pd, n->engine, alg, md_ref(x), md_ref(x1),
                                             md_ref(y), n->attr);
#else
    dnnl_binary_desc_t d;
    return described(n, dnnl_binary_desc_init(&d, alg, x, x1, y), &d);
#endif
}

AOT_INLINE dnnl_status_t new_softmax(aot_new *n, int log, const aot_md *x, int axis) {
    const dnnl_prop_kind_t prop = dnnl_forward_inference;
    const dnnl_alg_kind_t alg = log ? dnnl_softmax_log : dnnl_softmax_accurate;
#if AOT_DNNL_V3
    return dnnl_softmax_forward_primitive_desc_create(&n->pd, n->engine, prop, alg, md_ref(x),
                                                      md_ref(x), axis, n->attr);
#else
    dnnl_softmax_v2_desc_t d;
    return described(n, dnnl_softmax_v2_forward_desc_init(&d, prop, alg, x, x, axis), &d);
#endif
}

AOT_INLINE dnnl_status_t new_layer_normalization(aot_new *n, const aot_md *x, float epsilon) {
    const dnnl_prop_kind_t prop = dnnl_forward_inference;
    const unsigned flags = (unsigned)dnnl_use_scale | (unsigned)dnnl_use_shift;
#if AOT_DNNL_V3
    return dnnl_layer_normalization_forward_primitive_desc_create(
        &n->pd, n->engine, prop, md_ref(x), md_ref(x), NULL, epsilon, flags, n->attr);
#else
    dnnl_layer_normalization_desc_t d;
    return described(
        n, dnnl_layer_normalization_forward_desc_init(&d, prop, x, NULL, epsilon, flags), &d);
#endif
}

AOT_INLINE dnnl_status_t new_batch_normalization(aot_new *n, const aot_md *x, int relu) {
    const dnnl_prop_kind_t prop = dnnl_forward_inference;
    const unsigned flags = (unsigned)dnnl_use_global_stats | (unsigned)dnnl_use_scale |
                           (unsigned)dnnl_use_shift | (relu ? (unsigned)dnnl_fuse_norm_relu : 0U);
#if AOT_DNNL_V3
    return dnnl_batch_normalization_forward_primitive_desc_create(
        &n->pd, n->engine, prop, md_ref(x), md_ref(x), 0.0f, flags, n->attr);
#else
    dnnl_batch_normalization_desc_t d;
    return described(n, dnnl_batch_normalization_forward_desc_init(&d, prop, x, 0.0f, flags), &d);
#endif
}

AOT_INLINE dnnl_status_t new_lrn(aot_new *n, const aot_md *x, dnnl_dim_t size, float alpha,
                                 float beta, float bias) {
    const dnnl_prop_kind_t prop = dnnl_forward_inference;
    const dnnl_alg_kind_t alg = dnnl_lrn_across_channels;
#if AOT_DNNL_V3
    return dnnl_lrn_forward_primitive_desc_create(&n->pd, n->engine, prop, alg, md_ref(x),
                                                  md_ref(x), size, alpha, beta, bias, n->attr);
#else
    dnnl_lrn_desc_t d;
    return described(n, dnnl_lrn_forward_desc_init(&d, prop, alg, x, size, alpha, beta, bias), &d);
#endif
}

AOT_INLINE dnnl_status_t new_reduction(aot_new *n, dnnl_alg_kind_t alg, const aot_md *x,
                                       const aot_md *y) {
#if AOT_DNNL_V3
    return dnnl_reduction_primitive_desc_create(&n->pd, n->engine, alg, md_ref(x), md_ref(y), 0.0f,
                                                0.0f, n->attr);
#else
    dnnl_reduction_desc_t d;
    return described(n, dnnl_reduction_desc_init(&d, alg, x, y, 0.0f, 0.0f), &d);
#endif
}

AOT_INLINE dnnl_status_t new_resampling(aot_new *n, dnnl_alg_kind_t alg, const aot_md *x,
                                        const aot_md *y) {
    const dnnl_prop_kind_t prop = dnnl_forward_inference;
#if AOT_DNNL_V3
    return dnnl_resampling_forward_primitive_desc_create(&n->pd, n->engine, prop, alg, NULL,
                                                         md_ref(x), md_ref(y), n->attr);
#else
    dnnl_resampling_desc_t d;
    return described(n, dnnl_resampling_forward_desc_init(&d, prop, alg, NULL, x, y), &d);
#endif
}

AOT_INLINE dnnl_status_t new_prelu(aot_new *n, const aot_md *x, const aot_md *w) {
    const dnnl_prop_kind_t prop = dnnl_forward_inference;
#if AOT_DNNL_V3
    return dnnl_prelu_forward_primitive_desc_create(&n->pd, n->engine, prop, md_ref(x), md_ref(w),
                                                    md_ref(x), n->attr);
#else
    dnnl_prelu_desc_t d;
    return described(n, dnnl_prelu_forward_desc_init(&d, prop, x, w), &d);
#endif
}

#endif /* AOT_DNNL_API_H */
