/* SPDX-License-Identifier: MIT-0 */
/* Session, what all creators share, execution; see aot_dnnl.h and aot_dnnl_core.h. */
#include "aot_dnnl.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "aot_dnnl_core.h"

/* Slots of the session. */
enum { ENGINE, STREAM, POOL };

typedef char aot_dnnl_slots_fit[(int)IN_ARENA < (int)AOT_DNNL_SLOTS ? 1 : -1];

static const struct {
    int slot;
    int arg;
} arguments[] = {
    {SRC, DNNL_ARG_SRC},
    {SRC1, DNNL_ARG_SRC_1},
    {SRC2, DNNL_ARG_SRC_2},
    {DST, DNNL_ARG_DST},
    {DST1, DNNL_ARG_DST_1},
    {DST2, DNNL_ARG_DST_2},
    {WEIGHTS, DNNL_ARG_WEIGHTS},
    {WEIGHTS1, DNNL_ARG_WEIGHTS_1},
    {BIAS, DNNL_ARG_BIAS},
    {SCALE, DNNL_ARG_SCALE},
    {SHIFT, DNNL_ARG_SHIFT},
    {MEAN, DNNL_ARG_MEAN},
    {VARIANCE, DNNL_ARG_VARIANCE},
    {SCRATCH, DNNL_ARG_SCRATCHPAD},
    {POST0, DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1},
    {POST1, DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1},
    {POST2, DNNL_ARG_ATTR_MULTIPLE_POST_OP(2) | DNNL_ARG_SRC_1},
#if AOT_DNNL_V3 /* 2.x has them in the attributes */
    {SCALE_X, DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC_0},
    {SCALE_X1, DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC_1},
    {SCALE_W, DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS},
    {ZERO_X, DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC},
#endif
};
enum { ARGUMENTS = sizeof arguments / sizeof arguments[0] };

static aot_status told(dnnl_status_t status) {
    return status == dnnl_success ? AOT_OK : AOT_VENDOR;
}

dnnl_format_tag_t aot_dnnl_plain_tag(int rank) {
    static const dnnl_format_tag_t tags[] = {dnnl_a,    dnnl_ab,    dnnl_abc,
                                             dnnl_abcd, dnnl_abcde, dnnl_abcdef};
    return rank >= 1 && rank <= 6 ? tags[rank - 1] : dnnl_format_tag_undef;
}

dnnl_format_tag_t aot_dnnl_last_tag(int rank) {
    static const dnnl_format_tag_t tags[] = {dnnl_acb, dnnl_acdb, dnnl_acdeb};
    return rank >= 3 && rank <= 5 ? tags[rank - 3] : dnnl_format_tag_undef;
}

dnnl_format_tag_t aot_dnnl_tag(int rank, int block) {
    static const dnnl_format_tag_t tags[3][3] = {{dnnl_aBc4b, dnnl_aBcd4b, dnnl_aBcde4b},
                                                 {dnnl_aBc8b, dnnl_aBcd8b, dnnl_aBcde8b},
                                                 {dnnl_aBc16b, dnnl_aBcd16b, dnnl_aBcde16b}};
    if (block == 0)
        return aot_dnnl_plain_tag(rank);
    if (rank < 3 || rank > 5)
        return dnnl_format_tag_undef;
    return block == 4 || block == 8 || block == 16 ? tags[block / 8][rank - 3]
                                                   : aot_dnnl_last_tag(rank);
}

/* -- Session --------------------------------------------------------------------------------- */

aot_status aot_dnnl_open(void **session) {
    dnnl_engine_t engine = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t status = dnnl_engine_create(&engine, dnnl_cpu, 0);
    session[ENGINE] = engine;
    THEN(status, dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    session[STREAM] = stream;
    return told(status);
}

static void drop_memory(void **slot) {
    if (*slot != NULL)
        (void)dnnl_memory_destroy((dnnl_memory_t)*slot);
    *slot = NULL;
}

void aot_dnnl_close(void **session) {
    drop_memory(&session[POOL]);
    if (session[STREAM] != NULL)
        (void)dnnl_stream_destroy((dnnl_stream_t)session[STREAM]);
    if (session[ENGINE] != NULL)
        (void)dnnl_engine_destroy((dnnl_engine_t)session[ENGINE]);
    session[STREAM] = NULL;
    session[ENGINE] = NULL;
}

static dnnl_status_t memory_size(dnnl_memory_t memory, size_t *bytes) {
#if AOT_DNNL_V3
    const_dnnl_memory_desc_t d = NULL;
#else
    const dnnl_memory_desc_t *d = NULL;
#endif
    const dnnl_status_t status = dnnl_memory_get_memory_desc(memory, &d);
    *bytes = status == dnnl_success ? dnnl_memory_desc_get_size(d) : 0;
    return status;
}

/* Have at least `bytes` of scratch in the session: primitives run one after the other. */
static dnnl_status_t reserve(void **session, size_t bytes) {
    const dnnl_dim_t dims[1] = {(dnnl_dim_t)((bytes + 3) / 4)};
    aot_md d = MD_EMPTY;
    dnnl_memory_t memory = NULL;
    dnnl_status_t status = dnnl_success;
    size_t have = 0;
    if (session[POOL] != NULL)
        status = memory_size((dnnl_memory_t)session[POOL], &have);
    if (status != dnnl_success || have >= bytes)
        return status;
    drop_memory(&session[POOL]);
    status = md_new(&d, 1, dims, dnnl_a);
    THEN(status, dnnl_memory_create(&memory, md_ref(&d), (dnnl_engine_t)session[ENGINE],
                                    DNNL_MEMORY_ALLOCATE));
    session[POOL] = memory;
    md_drop(&d);
    return status;
}

/* -- Creation of any primitive --------------------------------------------------------------- */

dnnl_status_t aot_dnnl_alg(int act, float *alpha, float *beta, dnnl_alg_kind_t *alg) {
    switch (act) {
    case AOT_DNNL_ACT_CLIP:
        *alg = dnnl_eltwise_clip;
        if (*alpha == 0.0f && isinf(*beta)) {
            *alg = dnnl_eltwise_relu;
            *beta = 0.0f;
        }
        break;
    case AOT_DNNL_ACT_LEAKY:
        *alg = dnnl_eltwise_relu;
        break;
    case AOT_DNNL_ACT_HARDSWISH: /* 2.x has these constants built in */
        *alg = dnnl_eltwise_hardswish;
        *alpha = AOT_DNNL_V3 ? 1.0f / 6.0f : 0.0f;
        *beta = AOT_DNNL_V3 ? 0.5f : 0.0f;
        break;
    case AOT_DNNL_ACT_SIGMOID:
        *alg = dnnl_eltwise_logistic;
        break;
    case AOT_DNNL_ACT_SWISH:
        *alg = dnnl_eltwise_swish;
        break;
    case AOT_DNNL_ACT_TANH:
        *alg = dnnl_eltwise_tanh;
        break;
    case AOT_DNNL_ACT_GELU:
        *alg = dnnl_eltwise_gelu_erf;
        break;
    case AOT_DNNL_ACT_ELU:
        *alg = dnnl_eltwise_elu;
        break;
    case AOT_DNNL_ACT_GELU_TANH:
        *alg = dnnl_eltwise_gelu_tanh;
        break;
    case AOT_DNNL_ACT_MISH:
        *alg = dnnl_eltwise_mish;
        break;
    case AOT_DNNL_ACT_ABS:
        *alg = dnnl_eltwise_abs;
        break;
    case AOT_DNNL_ACT_EXP:
        *alg = dnnl_eltwise_exp;
        break;
    case AOT_DNNL_ACT_LOG:
        *alg = dnnl_eltwise_log;
        break;
    case AOT_DNNL_ACT_SQRT:
        *alg = dnnl_eltwise_sqrt;
        break;
    case AOT_DNNL_ACT_ROUND:
        *alg = dnnl_eltwise_round;
        break;
    case AOT_DNNL_ACT_LINEAR:
        *alg = dnnl_eltwise_linear;
        break;
    case AOT_DNNL_ACT_POW:
        *alg = dnnl_eltwise_pow;
        break;
    default:
        return dnnl_invalid_arguments;
    }
    return dnnl_success;
}

static dnnl_status_t append_act(dnnl_post_ops_t ops, int act, float alpha, float beta) {
    dnnl_alg_kind_t alg;
    dnnl_status_t status;
    if (act == AOT_DNNL_ACT_NONE)
        return dnnl_success;
    if (act == AOT_DNNL_ACT_HARDSIGMOID) {
        status = append_eltwise(ops, dnnl_eltwise_linear, alpha, beta);
        THEN(status, append_eltwise(ops, dnnl_eltwise_clip, 0.0f, 1.0f));
        return status;
    }
    status = aot_dnnl_alg(act, &alpha, &beta, &alg);
    THEN(status, append_eltwise(ops, alg, alpha, beta));
    return status;
}

dnnl_status_t aot_dnnl_start(aot_new *n, void **session) {
    dnnl_status_t status;
    n->engine = (dnnl_engine_t)session[ENGINE];
    n->attr = NULL;
    n->pd = NULL;
    status = dnnl_primitive_attr_create(&n->attr);
    THEN(status, dnnl_primitive_attr_set_scratchpad_mode(n->attr, dnnl_scratchpad_mode_user));
    return status;
}

/* Append the operation with a tensor, whose memory is the slot of its number among the others. */
static dnnl_status_t append_post(void **slots, const aot_new *n, dnnl_post_ops_t ops,
                                 const aot_after *after) {
    const dnnl_alg_kind_t alg = after->post == 1 ? dnnl_binary_add : dnnl_binary_mul;
    const int at = dnnl_post_ops_len(ops);
    dnnl_memory_t memory = NULL;
    dnnl_status_t status = dnnl_post_ops_append_binary(ops, alg, md_ref(after->y));
    THEN(status, dnnl_memory_create(&memory, md_ref(after->y), n->engine, DNNL_MEMORY_NONE));
    slots[POST0 + at] = memory;
    return status;
}

dnnl_status_t aot_dnnl_begin(aot_new *n, void **slots, void **session, const aot_after *after) {
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = aot_dnnl_start(n, session);
    if (!after->sum && after->act == AOT_DNNL_ACT_NONE && !after->post)
        return status;
    THEN(status, dnnl_post_ops_create(&ops));
    if (after->sum)
        THEN(status, append_sum(ops, 1.0f));
    THEN(status, append_act(ops, after->act, after->alpha, after->beta));
    if (after->post)
        THEN(status, append_post(slots, n, ops, after));
    THEN(status, dnnl_primitive_attr_set_post_ops(n->attr, ops));
    if (ops != NULL)
        (void)dnnl_post_ops_destroy(ops);
    return status;
}

dnnl_status_t aot_dnnl_attach(void **slot, const aot_new *n, dnnl_query_t what, int index) {
    const aot_md_ref d = dnnl_primitive_desc_query_md(n->pd, what, index);
    dnnl_memory_t memory = NULL;
    const dnnl_status_t status = dnnl_memory_create(&memory, d, n->engine, DNNL_MEMORY_NONE);
    *slot = memory;
    return status;
}

dnnl_status_t aot_dnnl_attach_row(void **slot, const aot_new *n, dnnl_dim_t count,
                                  const void *data) {
    aot_md d = MD_EMPTY;
    dnnl_memory_t memory = NULL;
    dnnl_status_t status = md_new(&d, 1, &count, dnnl_a);
    THEN(status, dnnl_memory_create(&memory, md_ref(&d), n->engine, (void *)(uintptr_t)data));
    *slot = memory;
    md_drop(&d);
    return status;
}

dnnl_status_t aot_dnnl_attach_copy(void **slot, const aot_new *n, dnnl_data_type_t type,
                                   dnnl_dim_t count, const void *data) {
    aot_md d = MD_EMPTY;
    dnnl_memory_t memory = NULL;
    void *to = NULL;
    dnnl_status_t status = md_typed(&d, 1, &count, type, dnnl_a);
    THEN(status, dnnl_memory_create(&memory, md_ref(&d), n->engine, DNNL_MEMORY_ALLOCATE));
    THEN(status, dnnl_memory_get_data_handle(memory, &to));
    if (status == dnnl_success)
        memcpy(to, data, dnnl_memory_desc_get_size(md_ref(&d)));
    *slot = memory;
    md_drop(&d);
    return status;
}

static dnnl_status_t reorder(const aot_new *n, void **session, aot_md_ref from, aot_md_ref to,
                             dnnl_memory_t source, dnnl_memory_t result) {
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_exec_arg_t args[2];
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&pd, from, n->engine, to, n->engine, NULL);
    THEN(status, dnnl_primitive_create(&primitive, pd));
    args[0].arg = DNNL_ARG_FROM;
    args[0].memory = source;
    args[1].arg = DNNL_ARG_TO;
    args[1].memory = result;
    THEN(status, dnnl_primitive_execute(primitive, (dnnl_stream_t)session[STREAM], 2, args));
    THEN(status, dnnl_stream_wait((dnnl_stream_t)session[STREAM]));
    if (primitive != NULL)
        (void)dnnl_primitive_destroy(primitive);
    if (pd != NULL)
        (void)dnnl_primitive_desc_destroy(pd);
    return status;
}

dnnl_status_t aot_dnnl_attach_nth_weights(void **slot, void **session, const aot_new *n, int index,
                                          const aot_md *user, const void *w) {
    const aot_md_ref wanted = dnnl_primitive_desc_query_md(n->pd, dnnl_query_weights_md, index);
    dnnl_memory_t source = NULL, copy = NULL;
    dnnl_status_t status =
        dnnl_memory_create(&source, md_ref(user), n->engine, (void *)(uintptr_t)w);
    if (status != dnnl_success || dnnl_memory_desc_equal(wanted, md_ref(user))) {
        *slot = source;
        return status;
    }
    status = dnnl_memory_create(&copy, wanted, n->engine, DNNL_MEMORY_ALLOCATE);
    *slot = copy;
    THEN(status, reorder(n, session, md_ref(user), wanted, source, copy));
    (void)dnnl_memory_destroy(source);
    return status;
}

dnnl_status_t aot_dnnl_attach_weights(void **slots, void **session, const aot_new *n,
                                      const aot_md *user, const void *w) {
    return aot_dnnl_attach_nth_weights(&slots[WEIGHTS], session, n, 0, user, w);
}

dnnl_status_t aot_dnnl_finish(void **slots, void **session, const aot_new *n, int64_t arena) {
    dnnl_primitive_t primitive = NULL;
    dnnl_status_t status = dnnl_primitive_create(&primitive, n->pd);
    size_t bytes = 0;
    slots[PRIMITIVE] = primitive;
    slots[SESSION] = session;
    THEN(status, aot_dnnl_attach(&slots[SRC], n, dnnl_query_src_md, 0));
    THEN(status, aot_dnnl_attach(&slots[DST], n, dnnl_query_dst_md, 0));
    THEN(status, aot_dnnl_attach(&slots[SCRATCH], n, dnnl_query_scratchpad_md, 0));
    THEN(status, memory_size((dnnl_memory_t)slots[SCRATCH], &bytes));
    if (status == dnnl_success && bytes == 0)
        drop_memory(&slots[SCRATCH]);
    if (bytes <= (size_t)arena)
        slots[IN_ARENA] = slots;
    else
        THEN(status, reserve(session, bytes));
    return status;
}

aot_status aot_dnnl_end(aot_new *n, dnnl_status_t status) {
    if (n->pd != NULL)
        (void)dnnl_primitive_desc_destroy(n->pd);
    if (n->attr != NULL)
        (void)dnnl_primitive_attr_destroy(n->attr);
    return told(status);
}

void aot_dnnl_release(void **slots) {
    int i;
    for (i = 0; i < ARGUMENTS; ++i)
        drop_memory(&slots[arguments[i].slot]);
    if (slots[PRIMITIVE] != NULL)
        (void)dnnl_primitive_destroy((dnnl_primitive_t)slots[PRIMITIVE]);
    slots[PRIMITIVE] = NULL;
}

/* -- Execution ------------------------------------------------------------------------------- */

static dnnl_status_t point(void *memory, const void *data) {
    return dnnl_memory_set_data_handle((dnnl_memory_t)memory, (void *)(uintptr_t)data);
}

static dnnl_status_t execute(void **slots, void *y, const void *x, void *arena) {
    void **session = (void **)slots[SESSION];
    const dnnl_stream_t stream = (dnnl_stream_t)session[STREAM];
    dnnl_exec_arg_t args[ARGUMENTS];
    void *scratch = arena;
    int i, count = 0;
    dnnl_status_t status = point(slots[SRC], x);
    THEN(status, point(slots[DST], y));
    if (slots[SCRATCH] != NULL) {
        if (slots[IN_ARENA] == NULL)
            THEN(status, dnnl_memory_get_data_handle((dnnl_memory_t)session[POOL], &scratch));
        THEN(status, point(slots[SCRATCH], scratch));
    }
    for (i = 0; i < ARGUMENTS; ++i)
        if (slots[arguments[i].slot] != NULL) {
            args[count].arg = arguments[i].arg;
            args[count].memory = (dnnl_memory_t)slots[arguments[i].slot];
            ++count;
        }
    THEN(status, dnnl_primitive_execute((dnnl_primitive_t)slots[PRIMITIVE], stream, count, args));
    THEN(status, dnnl_stream_wait(stream));
    return status;
}

aot_status aot_dnnl_run(void **slots, void *y, const void *x, void *scratch) {
    return told(execute(slots, y, x, scratch));
}

aot_status aot_dnnl_run2(void **slots, void *y, const void *x, const void *x1) {
    dnnl_status_t status = point(slots[slots[SRC1] != NULL ? SRC1 : WEIGHTS], x1);
    THEN(status, execute(slots, y, x, NULL));
    return told(status);
}

aot_status aot_dnnl_run_sum(void **slots, void *y, const void *x, const void *r, void *scratch) {
    size_t bytes = 0;
    dnnl_status_t status = dnnl_success;
    if (y != r) { /* the library adds to what the result's memory holds */
        status = memory_size((dnnl_memory_t)slots[DST], &bytes);
        if (status == dnnl_success)
            memcpy(y, r, bytes);
    }
    THEN(status, execute(slots, y, x, scratch));
    return told(status);
}

aot_status aot_dnnl_run_post(void **slots, void *y, const void *x, const void *post,
                             void *scratch) {
    const int at = slots[POST0] != NULL ? POST0 : slots[POST1] != NULL ? POST1 : POST2;
    dnnl_status_t status = point(slots[at], post);
    THEN(status, execute(slots, y, x, scratch));
    return told(status);
}

aot_status aot_dnnl_run_recurrent(void **slots, void *y, void *yh, void *yc, const void *x,
                                  const void *h, const void *c) {
    dnnl_status_t status = dnnl_success;
    if (slots[SRC1] != NULL)
        THEN(status, point(slots[SRC1], h));
    if (slots[SRC2] != NULL)
        THEN(status, point(slots[SRC2], c));
    if (slots[DST1] != NULL)
        THEN(status, point(slots[DST1], yh));
    if (slots[DST2] != NULL)
        THEN(status, point(slots[DST2], yc));
    THEN(status, execute(slots, y, x, NULL));
    return told(status);
}
