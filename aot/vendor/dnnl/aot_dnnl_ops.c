/* SPDX-License-Identifier: MIT-0 */
/* A creator for each kind of primitive; see aot_dnnl.h. */
#include "aot_dnnl.h"

#include <stddef.h>

#include "aot_dnnl_core.h"

static dnnl_status_t of_type(aot_md *d, int32_t type, int rank, const dnnl_dim_t *extents,
                             dnnl_format_tag_t tag) {
    return md_typed(d, rank, extents, type == AOT_DNNL_BF16 ? dnnl_bf16 : dnnl_f32, tag);
}

aot_status aot_dnnl_conv(void **slots, void **session, const void *w, const void *b,
                         const aot_dnnl_conv_params *p) {
    aot_md x = MD_EMPTY, y = MD_EMPTY, any = MD_EMPTY, user = MD_EMPTY, bias = MD_EMPTY;
    aot_window o;
    aot_new n = {NULL, NULL, NULL};
    const aot_after after = {p->sum, p->act, p->alpha, p->beta, p->post, &y};
    dnnl_status_t status = of_type(&y, p->type, p->rank, p->y, aot_dnnl_tag(p->rank, p->y_block));
    widen(o.s, p->s, p->rank - 2);
    widen(o.d, p->d, p->rank - 2);
    widen(o.before, p->before, p->rank - 2);
    widen(o.after, p->after, p->rank - 2);
    THEN(status, of_type(&x, p->type, p->rank, p->x, aot_dnnl_tag(p->rank, p->x_block)));
    THEN(status, aot_dnnl_begin(&n, slots, session, &after));
    THEN(status, of_type(&any, p->type, p->w_rank, p->w, dnnl_format_tag_any));
    THEN(status, of_type(&user, p->type, p->w_rank, p->w, aot_dnnl_plain_tag(p->w_rank)));
    THEN(status, md_new(&bias, 1, &p->y[1], dnnl_a));
    if (p->transposed)
        THEN(status, new_deconvolution(&n, &x, &any, b == NULL ? NULL : &bias, &y, &o));
    else
        THEN(status, new_convolution(&n, &x, &any, b == NULL ? NULL : &bias, &y, &o));
    THEN(status, aot_dnnl_attach_weights(slots, session, &n, &user, w));
    if (b != NULL)
        THEN(status, aot_dnnl_attach_row(&slots[BIAS], &n, p->y[1], b));
    THEN(status, aot_dnnl_finish(slots, session, &n, p->scratch));
    md_drop(&x);
    md_drop(&y);
    md_drop(&any);
    md_drop(&user);
    md_drop(&bias);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_dense(void **slots, void **session, const void *w, const void *b,
                          const aot_dnnl_dense_params *p) {
    const dnnl_dim_t dx[2] = {p->m, p->k}, dw[2] = {p->n, p->k}, dy[2] = {p->m, p->n};
    aot_md x = MD_EMPTY, y = MD_EMPTY, any = MD_EMPTY, user = MD_EMPTY, bias = MD_EMPTY;
    aot_new n = {NULL, NULL, NULL};
    const aot_after after = {p->sum, p->act, p->alpha, p->beta, p->post, &y};
    dnnl_status_t status = of_type(&y, p->type, 2, dy, dnnl_ab);
    THEN(status, aot_dnnl_begin(&n, slots, session, &after));
    THEN(status, of_type(&x, p->type, 2, dx, dnnl_ab));
    THEN(status, of_type(&any, p->type, 2, dw, dnnl_format_tag_any));
    THEN(status, of_type(&user, p->type, 2, dw, dnnl_ba));
    THEN(status, md_new(&bias, 1, &p->n, dnnl_a));
    THEN(status, new_inner_product(&n, &x, &any, b == NULL ? NULL : &bias, &y));
    THEN(status, aot_dnnl_attach_weights(slots, session, &n, &user, w));
    if (b != NULL)
        THEN(status, aot_dnnl_attach_row(&slots[BIAS], &n, p->n, b));
    THEN(status, aot_dnnl_finish(slots, session, &n, p->scratch));
    md_drop(&x);
    md_drop(&y);
    md_drop(&any);
    md_drop(&user);
    md_drop(&bias);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_matmul(void **slots, void **session, const aot_dnnl_matmul_params *p) {
    const dnnl_format_tag_t tag = aot_dnnl_plain_tag(p->rank);
    aot_md x = MD_EMPTY, x1 = MD_EMPTY, y = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, of_type(&x, p->type, p->rank, p->x, tag));
    THEN(status, of_type(&x1, p->type, p->rank, p->x1, tag));
    THEN(status, of_type(&y, p->type, p->rank, p->y, tag));
    THEN(status, new_matmul(&n, &x, &x1, &y));
    THEN(status, aot_dnnl_attach(&slots[WEIGHTS], &n, dnnl_query_weights_md, 0));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    md_drop(&x1);
    md_drop(&y);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_pool(void **slots, void **session, const aot_dnnl_pool_params *p) {
    static const dnnl_alg_kind_t algs[] = {dnnl_pooling_max, dnnl_pooling_avg_include_padding,
                                           dnnl_pooling_avg_exclude_padding};
    const dnnl_format_tag_t tag = aot_dnnl_tag(p->rank, p->block);
    aot_window o;
    aot_md x = MD_EMPTY, y = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    widen(o.k, p->k, p->rank - 2);
    widen(o.s, p->s, p->rank - 2);
    widen(o.d, p->d, p->rank - 2);
    widen(o.before, p->before, p->rank - 2);
    widen(o.after, p->after, p->rank - 2);
    THEN(status, of_type(&x, p->type, p->rank, p->x, tag));
    THEN(status, of_type(&y, p->type, p->rank, p->y, tag));
    THEN(status, new_pooling(&n, algs[p->kind], &x, &y, &o));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    md_drop(&y);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_eltwise(void **slots, void **session, const aot_dnnl_eltwise_params *p) {
    aot_md x = MD_EMPTY;
    dnnl_alg_kind_t alg = dnnl_eltwise_relu;
    float alpha = p->alpha, beta = p->beta;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, aot_dnnl_alg(p->act, &alpha, &beta, &alg));
    THEN(status, of_type(&x, p->type, 1, &p->n, dnnl_a));
    THEN(status, new_eltwise(&n, alg, &x, alpha, beta));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_binary(void **slots, void **session, const aot_dnnl_binary_params *p) {
    static const dnnl_alg_kind_t algs[] = {dnnl_binary_add, dnnl_binary_sub, dnnl_binary_mul,
                                           dnnl_binary_div, dnnl_binary_max, dnnl_binary_min};
    const dnnl_format_tag_t tag = aot_dnnl_plain_tag(p->rank);
    aot_md x = MD_EMPTY, x1 = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, of_type(&x, p->type, p->rank, p->x, tag));
    THEN(status, of_type(&x1, p->type, p->rank, p->x1, tag));
    THEN(status, new_binary(&n, algs[p->kind], &x, &x1, &x));
    THEN(status, aot_dnnl_attach(&slots[SRC1], &n, dnnl_query_src_md, 1));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    md_drop(&x1);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_softmax(void **slots, void **session, const aot_dnnl_softmax_params *p) {
    const dnnl_dim_t dims[3] = {p->outer, p->axis, p->inner};
    const int rank = p->inner == 1 ? 2 : 3;
    aot_md x = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, of_type(&x, p->type, rank, dims, aot_dnnl_plain_tag(rank)));
    THEN(status, new_softmax(&n, p->log, &x, 1));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_layernorm(void **slots, void **session, const void *scale, const void *shift,
                              const aot_dnnl_layernorm_params *p) {
    const dnnl_dim_t dims[2] = {p->outer, p->inner};
    aot_md x = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, of_type(&x, p->type, 2, dims, dnnl_ab));
    THEN(status, new_layer_normalization(&n, &x, p->epsilon));
    THEN(status, aot_dnnl_attach_row(&slots[SCALE], &n, p->inner, scale));
    THEN(status, aot_dnnl_attach_row(&slots[SHIFT], &n, p->inner, shift));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_affine(void **slots, void **session, const void *scale, const void *shift,
                           const void *zeros, const void *ones, const aot_dnnl_affine_params *p) {
    aot_md x = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, of_type(&x, p->type, p->rank, p->x, aot_dnnl_tag(p->rank, p->block)));
    THEN(status, new_batch_normalization(&n, &x, p->relu));
    THEN(status, aot_dnnl_attach_row(&slots[SCALE], &n, p->x[1], scale));
    THEN(status, aot_dnnl_attach_row(&slots[SHIFT], &n, p->x[1], shift));
    THEN(status, aot_dnnl_attach_row(&slots[MEAN], &n, p->x[1], zeros));
    THEN(status, aot_dnnl_attach_row(&slots[VARIANCE], &n, p->x[1], ones));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_lrn(void **slots, void **session, const aot_dnnl_lrn_params *p) {
    aot_md x = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, of_type(&x, p->type, 4, p->x, aot_dnnl_tag(4, p->block)));
    THEN(status, new_lrn(&n, &x, p->size, p->alpha, p->beta, p->bias));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_reduce(void **slots, void **session, const aot_dnnl_reduce_params *p) {
    static const dnnl_alg_kind_t algs[] = {dnnl_reduction_mean, dnnl_reduction_sum,
                                           dnnl_reduction_max, dnnl_reduction_min};
    const dnnl_dim_t from[3] = {p->outer, p->axis, p->inner}, to[3] = {p->outer, 1, p->inner};
    aot_md x = MD_EMPTY, y = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, of_type(&x, p->type, 3, from, dnnl_abc));
    THEN(status, of_type(&y, p->type, 3, to, dnnl_abc));
    THEN(status, new_reduction(&n, algs[p->kind], &x, &y));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    md_drop(&y);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_resize(void **slots, void **session, const aot_dnnl_resize_params *p) {
    const dnnl_format_tag_t tag = aot_dnnl_tag(p->rank, p->block);
    aot_md x = MD_EMPTY, y = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, of_type(&x, p->type, p->rank, p->x, tag));
    THEN(status, of_type(&y, p->type, p->rank, p->y, tag));
    THEN(status,
         new_resampling(&n, p->linear ? dnnl_resampling_linear : dnnl_resampling_nearest, &x, &y));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    md_drop(&y);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_prelu(void **slots, void **session, const void *slope,
                          const aot_dnnl_prelu_params *p) {
    aot_md x = MD_EMPTY, any = MD_EMPTY, user = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, of_type(&x, p->type, p->rank, p->x, aot_dnnl_tag(p->rank, p->block)));
    THEN(status, of_type(&any, p->type, p->rank, p->slope, dnnl_format_tag_any));
    THEN(status, of_type(&user, p->type, p->rank, p->slope, aot_dnnl_plain_tag(p->rank)));
    THEN(status, new_prelu(&n, &x, &any));
    THEN(status, aot_dnnl_attach_weights(slots, session, &n, &user, slope));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    md_drop(&any);
    md_drop(&user);
    return aot_dnnl_end(&n, status);
}
