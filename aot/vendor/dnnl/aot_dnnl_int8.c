/* SPDX-License-Identifier: MIT-0 */
/* Creators of primitives on 8-bit values; see aot_dnnl.h. */
#include "aot_dnnl.h"

#include <stddef.h>

#include "aot_dnnl_core.h"

static dnnl_data_type_t type_of(int32_t type) {
    return type == AOT_DNNL_U8 ? dnnl_u8 : dnnl_s8;
}

/* Without VNNI pairs of products saturate in 16 bits, or weights lose their lowest bit. */
static dnnl_status_t exact_sums(void) {
#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64)
    const unsigned avx512 = 0x40U, avx2 = AOT_DNNL_V3 ? 0x08U : 0x400U;
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    return (isa & (avx512 | avx2)) != 0U ? dnnl_success : dnnl_unimplemented;
#else
    return dnnl_success;
#endif
}

/* Post operations: [+ r * r_scale], [* scale + shift], and the bounds of a result of `type`. */
static dnnl_status_t finish_int8(const aot_new *n, float r_scale, float scale, float shift,
                                  int32_t type, float low, float high) {
    const float least = type == AOT_DNNL_U8 ? 0.0f : -128.0f;
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_post_ops_create(&ops);
    if (r_scale > 0.0f)
        THEN(status, append_sum(ops, r_scale));
    if (scale < 1.0f || scale > 1.0f || shift < 0.0f || shift > 0.0f)
        THEN(status, append_eltwise(ops, dnnl_eltwise_linear, scale, shift));
    if (low > least || high < least + 255.0f)
        THEN(status, append_eltwise(ops, dnnl_eltwise_clip, low, high));
    THEN(status, dnnl_primitive_attr_set_post_ops(n->attr, ops));
    if (ops != NULL)
        (void)dnnl_post_ops_destroy(ops);
    return status;
}

/* The attribute that sums are multiplied by scale[oc]; with `grouped` weights [groups, oc, ...]. */
static dnnl_status_t set_scales(const aot_new *n, dnnl_dim_t count, const float *scale,
                                int grouped) {
#if AOT_DNNL_V3
    (void)count;
    (void)scale;
    return dnnl_primitive_attr_set_scales_mask(n->attr, DNNL_ARG_WEIGHTS, grouped ? 3 : 1);
#else
    (void)grouped;
    return dnnl_primitive_attr_set_output_scales(n->attr, count, 1 << 1, scale);
#endif
}

/* Scales and bias as arguments. 2.x adds the bias first and multiplies the sum. */
static dnnl_status_t attach_scales(void **slots, const aot_new *n, dnnl_dim_t count,
                                   const float *scale, const float *b) {
    dnnl_status_t status = aot_dnnl_attach_copy(&slots[BIAS], n, dnnl_f32, count, b);
#if AOT_DNNL_V3
    THEN(status, aot_dnnl_attach_copy(&slots[SCALE_W], n, dnnl_f32, count, scale));
#else
    void *data = NULL;
    float *sums;
    dnnl_dim_t i;
    THEN(status, dnnl_memory_get_data_handle((dnnl_memory_t)slots[BIAS], &data));
    sums = (float *)data;
    for (i = 0; status == dnnl_success && i < count; ++i)
        sums[i] = b[i] / scale[i];
#endif
    return status;
}

static dnnl_status_t set_zero(void **slots, const aot_new *n, const int32_t *zero) {
    if (*zero == 0)
        return dnnl_success;
#if AOT_DNNL_V3
    {
        dnnl_status_t status = aot_dnnl_attach_copy(&slots[ZERO_X], n, dnnl_s32, 1, zero);
        THEN(status, dnnl_primitive_attr_set_zero_points_mask(n->attr, DNNL_ARG_SRC, 0));
        return status;
    }
#else
    (void)slots;
    return dnnl_primitive_attr_set_zero_points(n->attr, DNNL_ARG_SRC, 1, 0, zero);
#endif
}

static dnnl_status_t set_scale(void **slot, const aot_new *n, int arg, const float *scale) {
#if AOT_DNNL_V3
    dnnl_status_t status = aot_dnnl_attach_copy(slot, n, dnnl_f32, 1, scale);
    THEN(status, dnnl_primitive_attr_set_scales_mask(n->attr, arg, 0));
    return status;
#else
    (void)slot;
    return dnnl_primitive_attr_set_scales(n->attr, arg, 1, 0, scale);
#endif
}

aot_status aot_dnnl_qconv(void **slots, void **session, const void *w, const void *scale,
                          const void *b, const aot_dnnl_qconv_params *p) {
    aot_md x = MD_EMPTY, y = MD_EMPTY, any = MD_EMPTY, user = MD_EMPTY, bias = MD_EMPTY;
    aot_window o;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    widen(o.s, p->s, p->rank - 2);
    widen(o.d, p->d, p->rank - 2);
    widen(o.before, p->before, p->rank - 2);
    widen(o.after, p->after, p->rank - 2);
    THEN(status, exact_sums());
    THEN(status, set_scales(&n, p->y[1], (const float *)scale, p->w_rank > p->rank));
    THEN(status, set_zero(slots, &n, &p->x_zero));
    THEN(status, finish_int8(&n, p->r_scale, 1.0f, 0.0f, p->y_type, p->low, p->high));
    THEN(status, md_typed(&x, p->rank, p->x, type_of(p->x_type), aot_dnnl_last_tag(p->rank)));
    THEN(status, md_typed(&y, p->rank, p->y, type_of(p->y_type), aot_dnnl_last_tag(p->rank)));
    THEN(status, md_typed(&any, p->w_rank, p->w, dnnl_s8, dnnl_format_tag_any));
    THEN(status, md_typed(&user, p->w_rank, p->w, dnnl_s8, aot_dnnl_plain_tag(p->w_rank)));
    THEN(status, md_new(&bias, 1, &p->y[1], dnnl_a));
    THEN(status, new_convolution(&n, &x, &any, &bias, &y, &o));
    THEN(status, aot_dnnl_attach_weights(slots, session, &n, &user, w));
    THEN(status, attach_scales(slots, &n, p->y[1], (const float *)scale, (const float *)b));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    md_drop(&y);
    md_drop(&any);
    md_drop(&user);
    md_drop(&bias);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_qdense(void **slots, void **session, const void *w, const void *scale,
                           const void *b, const aot_dnnl_qdense_params *p) {
    const dnnl_dim_t dx[2] = {p->m, p->k}, dw[2] = {p->n, p->k}, dy[2] = {p->m, p->n};
    aot_md x = MD_EMPTY, y = MD_EMPTY, any = MD_EMPTY, user = MD_EMPTY, bias = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, exact_sums());
    THEN(status, set_scales(&n, p->n, (const float *)scale, 0));
    THEN(status, finish_int8(&n, p->r_scale, 1.0f, 0.0f, p->y_type, p->low, p->high));
    THEN(status, md_typed(&x, 2, dx, type_of(p->x_type), dnnl_ab));
    THEN(status, md_typed(&y, 2, dy, type_of(p->y_type), dnnl_ab));
    THEN(status, md_typed(&any, 2, dw, dnnl_s8, dnnl_format_tag_any));
    THEN(status, md_typed(&user, 2, dw, dnnl_s8, dnnl_ab));
    THEN(status, md_new(&bias, 1, &p->n, dnnl_a));
    THEN(status, new_inner_product(&n, &x, &any, &bias, &y));
    THEN(status, aot_dnnl_attach_weights(slots, session, &n, &user, w));
    THEN(status, attach_scales(slots, &n, p->n, (const float *)scale, (const float *)b));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    md_drop(&y);
    md_drop(&any);
    md_drop(&user);
    md_drop(&bias);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_qpool(void **slots, void **session, const aot_dnnl_qpool_params *p) {
    static const dnnl_alg_kind_t algs[] = {dnnl_pooling_max, dnnl_pooling_avg_include_padding,
                                           dnnl_pooling_avg_exclude_padding};
    const dnnl_format_tag_t tag = aot_dnnl_last_tag(p->rank);
    const dnnl_data_type_t type = type_of(p->x_type);
    aot_window o;
    aot_md x = MD_EMPTY, y = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    widen(o.k, p->k, p->rank - 2);
    widen(o.s, p->s, p->rank - 2);
    widen(o.d, p->d, p->rank - 2);
    widen(o.before, p->before, p->rank - 2);
    widen(o.after, p->after, p->rank - 2);
    THEN(status, finish_int8(&n, 0.0f, p->scale, p->shift, p->x_type, p->low, p->high));
    THEN(status, md_typed(&x, p->rank, p->x, type, tag));
    THEN(status, md_typed(&y, p->rank, p->y, type, tag));
    THEN(status, new_pooling(&n, algs[p->kind], &x, &y, &o));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    md_drop(&y);
    return aot_dnnl_end(&n, status);
}

aot_status aot_dnnl_qbinary(void **slots, void **session, const aot_dnnl_qbinary_params *p) {
    static const dnnl_alg_kind_t algs[] = {dnnl_binary_add, dnnl_binary_sub, dnnl_binary_mul};
    aot_md x = MD_EMPTY, x1 = MD_EMPTY, y = MD_EMPTY;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, set_scale(&slots[SCALE_X], &n, DNNL_ARG_SRC_0, &p->x_scale));
    THEN(status, set_scale(&slots[SCALE_X1], &n, DNNL_ARG_SRC_1, &p->x1_scale));
    THEN(status, finish_int8(&n, 0.0f, 1.0f, p->shift, p->y_type, p->low, p->high));
    THEN(status, md_typed(&x, 1, &p->n, type_of(p->x_type), dnnl_a));
    THEN(status, md_typed(&x1, 1, &p->n, type_of(p->x1_type), dnnl_a));
    THEN(status, md_typed(&y, 1, &p->n, type_of(p->y_type), dnnl_a));
    THEN(status, new_binary(&n, algs[p->kind], &x, &x1, &y));
    THEN(status, aot_dnnl_attach(&slots[SRC1], &n, dnnl_query_src_md, 1));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&x);
    md_drop(&x1);
    md_drop(&y);
    return aot_dnnl_end(&n, status);
}
