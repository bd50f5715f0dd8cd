/* SPDX-License-Identifier: MIT-0 */
/* Recurrent layers; see aot_dnnl.h. */
#include "aot_dnnl.h"

#include <stddef.h>
#include <string.h>

#include "aot_dnnl_core.h"

/* Descriptors of everything a recurrent layer reads and writes. */
typedef struct {
    aot_md x;
    aot_md state;
    aot_md w;
    aot_md r;
    aot_md b;
    aot_md y;
} ends;

static dnnl_status_t new_layer(aot_new *n, const aot_dnnl_recurrent_params *p, const ends *d) {
    const dnnl_prop_kind_t prop = dnnl_forward_inference;
    const dnnl_rnn_direction_t way =
        p->reverse ? dnnl_unidirectional_right2left : dnnl_unidirectional_left2right;
    const aot_md *h = p->begins ? &d->state : NULL, *yh = p->ends ? &d->state : NULL;
#if AOT_DNNL_V3
    if (p->kind == AOT_DNNL_LSTM)
        return dnnl_lstm_forward_primitive_desc_create(
            &n->pd, n->engine, prop, way, d->x, md_ref(h), md_ref(h), d->w, d->r, NULL, NULL, d->b,
            d->y, md_ref(yh), md_ref(yh), 0U, n->attr);
    if (p->kind == AOT_DNNL_GRU)
        return dnnl_gru_forward_primitive_desc_create(&n->pd, n->engine, prop, way, d->x, md_ref(h),
                                                      d->w, d->r, d->b, d->y, md_ref(yh), 0U,
                                                      n->attr);
    return dnnl_lbr_gru_forward_primitive_desc_create(&n->pd, n->engine, prop, way, d->x, md_ref(h),
                                                      d->w, d->r, d->b, d->y, md_ref(yh), 0U,
                                                      n->attr);
#else
    dnnl_rnn_desc_t o;
    dnnl_status_t status;
    if (p->kind == AOT_DNNL_LSTM)
        status = dnnl_lstm_forward_desc_init(&o, prop, way, &d->x, h, h, &d->w, &d->r, &d->b, &d->y,
                                             yh, yh, 0U);
    else if (p->kind == AOT_DNNL_GRU)
        status =
            dnnl_gru_forward_desc_init(&o, prop, way, &d->x, h, &d->w, &d->r, &d->b, &d->y, yh, 0U);
    else
        status = dnnl_lbr_gru_forward_desc_init(&o, prop, way, &d->x, h, &d->w, &d->r, &d->b, &d->y,
                                                yh, 0U);
    return described(n, status, &o);
#endif
}

static dnnl_status_t attach_states(void **slots, const aot_new *n, const ends *d,
                                   const aot_dnnl_recurrent_params *p) {
    static const int first[] = {SRC1, DST1}, second[] = {SRC2, DST2};
    dnnl_status_t status = dnnl_success;
    int i;
    for (i = 0; i < 2; ++i) {
        dnnl_memory_t memory = NULL;
        if (!(i == 0 ? p->begins : p->ends))
            continue;
        THEN(status, dnnl_memory_create(&memory, md_ref(&d->state), n->engine, DNNL_MEMORY_NONE));
        slots[first[i]] = memory;
        memory = NULL;
        if (p->kind != AOT_DNNL_LSTM)
            continue;
        THEN(status, dnnl_memory_create(&memory, md_ref(&d->state), n->engine, DNNL_MEMORY_NONE));
        slots[second[i]] = memory;
    }
    return status;
}

aot_status aot_dnnl_recurrent(void **slots, void **session, const void *w, const void *r,
                              const void *b, const aot_dnnl_recurrent_params *p) {
    const dnnl_dim_t gates = p->kind == AOT_DNNL_LSTM ? 4 : 3;
    const dnnl_dim_t biases = p->kind == AOT_DNNL_GRU ? 3 : 4;
    const dnnl_dim_t dx[3] = {p->steps, p->batch, p->input};
    const dnnl_dim_t dy[3] = {p->steps, p->batch, p->hidden};
    const dnnl_dim_t ds[4] = {1, 1, p->batch, p->hidden};
    const dnnl_dim_t dw[5] = {1, 1, p->input, gates, p->hidden};
    const dnnl_dim_t dr[5] = {1, 1, p->hidden, gates, p->hidden};
    const dnnl_dim_t db[4] = {1, 1, biases, p->hidden};
    ends d = {MD_EMPTY, MD_EMPTY, MD_EMPTY, MD_EMPTY, MD_EMPTY, MD_EMPTY};
    aot_md user_w = MD_EMPTY, user_r = MD_EMPTY;
    dnnl_memory_t bias = NULL;
    aot_new n;
    dnnl_status_t status = aot_dnnl_start(&n, session);
    THEN(status, md_new(&d.x, 3, dx, dnnl_tnc));
    THEN(status, md_new(&d.y, 3, dy, dnnl_tnc));
    THEN(status, md_new(&d.state, 4, ds, dnnl_ldnc));
    THEN(status, md_new(&d.w, 5, dw, dnnl_format_tag_any));
    THEN(status, md_new(&d.r, 5, dr, dnnl_format_tag_any));
    THEN(status, md_new(&d.b, 4, db, dnnl_ldgo));
    THEN(status, md_new(&user_w, 5, dw, dnnl_ldigo));
    THEN(status, md_new(&user_r, 5, dr, dnnl_ldigo));
    THEN(status, new_layer(&n, p, &d));
    THEN(status, aot_dnnl_attach_nth_weights(&slots[WEIGHTS], session, &n, 0, &user_w, w));
    THEN(status, aot_dnnl_attach_nth_weights(&slots[WEIGHTS1], session, &n, 1, &user_r, r));
    THEN(status, dnnl_memory_create(&bias, md_ref(&d.b), n.engine, (void *)(uintptr_t)b));
    slots[BIAS] = bias;
    THEN(status, attach_states(slots, &n, &d, p));
    THEN(status, aot_dnnl_finish(slots, session, &n, 0));
    md_drop(&d.x);
    md_drop(&d.state);
    md_drop(&d.w);
    md_drop(&d.r);
    md_drop(&d.b);
    md_drop(&d.y);
    md_drop(&user_w);
    md_drop(&user_r);
    return aot_dnnl_end(&n, status);
}

/* NULL stays NULL. */
static float *behind(const void *p, int64_t elements) {
    return p == NULL ? NULL : (float *)(uintptr_t)p + elements;
}

aot_status aot_dnnl_run_both(void **forward, void **reverse, void *y, void *yh, void *yc,
                             const void *x, const void *h, const void *c, void *part,
                             const aot_dnnl_run_both_params *p) {
    void **const ways[2] = {forward, reverse};
    const size_t bytes = (size_t)p->row * sizeof(float);
    aot_status status = AOT_OK;
    int64_t way, t;
    for (way = 0; way < 2 && status == AOT_OK; ++way) {
        const int64_t at = way * p->row;
        status = aot_dnnl_run_recurrent(ways[way], part, behind(yh, at), behind(yc, at), x,
                                        behind(h, at), behind(c, at));
        for (t = 0; t < p->steps && status == AOT_OK; ++t)
            memcpy(behind(y, 2 * t * p->row + at), behind(part, t * p->row), bytes);
    }
    return status;
}
