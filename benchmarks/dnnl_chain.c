/* SPDX-License-Identifier: MIT-0 */
/* A network as a plain chain of oneDNN 3 primitives, as its own examples write one: the library
 * chooses every layout, each result is handed to the next primitive, nothing waits in between.
 * benchmarks/chain.py writes chain.h: VALUES, sizes and the shape of the input, and build().
 *
 *     chain weights.bin input.bin output.bin RUNS        prints the milliseconds of each run */
#define _POSIX_C_SOURCE 200112L
#include <dnnl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "aot_dnnl.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != dnnl_success) {                                                              \
            fprintf(stderr, "line %d\n", __LINE__);                                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

typedef struct {
    dnnl_primitive_t primitive;
    int count;
    dnnl_exec_arg_t args[4];
} step;

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_memory_t values[1024];
static step steps[1024];
static int done, moved;

static const_dnnl_memory_desc_t described(dnnl_memory_t m) {
    const_dnnl_memory_desc_t d = NULL;
    OK(dnnl_memory_get_memory_desc(m, &d));
    return d;
}

/* oneDNN declares every list of extents with twelve elements. */
static void widen(dnnl_dims_t to, const int64_t *from, int count) {
    int i;
    for (i = 0; i < DNNL_MAX_NDIMS; ++i)
        to[i] = i < count ? from[i] : 0;
}

static dnnl_memory_desc_t of(int rank, const int64_t *from, dnnl_format_tag_t tag) {
    dnnl_dims_t dims;
    dnnl_memory_desc_t d = NULL;
    widen(dims, from, rank);
    OK(dnnl_memory_desc_create_with_tag(&d, rank, dims, dnnl_f32, tag));
    return d;
}

static dnnl_format_tag_t plain(int rank) {
    static const dnnl_format_tag_t tags[] = {dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
    return tags[rank - 1];
}

static dnnl_memory_t memory(const_dnnl_memory_desc_t d, const void *data) {
    dnnl_memory_t m = NULL;
    OK(dnnl_memory_create(&m, d, engine, data ? (void *)(size_t)data : DNNL_MEMORY_ALLOCATE));
    return m;
}

static void argument(int arg, dnnl_memory_t m) {
    step *s = &steps[done];
    s->args[s->count].arg = arg;
    s->args[s->count].memory = m;
    ++s->count;
}

static dnnl_memory_t reordered(dnnl_memory_t from, const_dnnl_memory_desc_t wanted) {
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t p = NULL;
    dnnl_exec_arg_t args[2];
    if (dnnl_memory_desc_equal(described(from), wanted))
        return from;
    args[0].arg = DNNL_ARG_FROM;
    args[0].memory = from;
    args[1].arg = DNNL_ARG_TO;
    args[1].memory = memory(wanted, NULL);
    OK(dnnl_reorder_primitive_desc_create(&pd, described(from), engine, wanted, engine, NULL));
    OK(dnnl_primitive_create(&p, pd));
    OK(dnnl_primitive_execute(p, stream, 2, args));
    OK(dnnl_stream_wait(stream));
    return args[1].memory;
}

static dnnl_primitive_attr_t attributes(int sum, int act, float low, float high) {
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    OK(dnnl_primitive_attr_create(&attr));
    OK(dnnl_post_ops_create(&ops));
    if (sum)
        OK(dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef));
    if (act == AOT_DNNL_ACT_CLIP && !isinf(high))
        OK(dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_clip, low, high));
    else if (act == AOT_DNNL_ACT_CLIP)
        OK(dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.0f, 0.0f));
    else if (act != AOT_DNNL_ACT_NONE)
        exit(1);
    OK(dnnl_primitive_attr_set_post_ops(attr, ops));
    return attr;
}

/* Value v laid out as the next primitive wants it, by a step of its own where it is not. */
static dnnl_memory_t arranged(int v, const_dnnl_memory_desc_t wanted) {
    dnnl_memory_t from = values[v], to;
    dnnl_primitive_desc_t pd = NULL;
    if (dnnl_memory_desc_equal(described(from), wanted))
        return from;
    to = memory(wanted, NULL);
    OK(dnnl_reorder_primitive_desc_create(&pd, described(from), engine, wanted, engine, NULL));
    OK(dnnl_primitive_create(&steps[done].primitive, pd));
    argument(DNNL_ARG_FROM, from);
    argument(DNNL_ARG_TO, to);
    ++done;
    ++moved;
    return to;
}

/* The residual's memory becomes the result's. */
static void finish(dnnl_primitive_desc_t pd, int x, int r, int y, dnnl_memory_t w,
                   dnnl_memory_t b) {
    const_dnnl_memory_desc_t to = dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    dnnl_memory_t src = arranged(x, dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0));
    values[y] = r >= 0 ? arranged(r, to) : memory(to, NULL);
    argument(DNNL_ARG_SRC, src);
    argument(DNNL_ARG_DST, values[y]);
    if (w != NULL)
        argument(DNNL_ARG_WEIGHTS, w);
    if (b != NULL)
        argument(DNNL_ARG_BIAS, b);
    OK(dnnl_primitive_create(&steps[done].primitive, pd));
    ++done;
}

static dnnl_memory_t weights(dnnl_primitive_desc_t pd, dnnl_memory_desc_t user, const float *w) {
    return reordered(memory(user, w), dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0));
}

static dnnl_memory_t row(const float *b, int64_t count) {
    return b == NULL ? NULL : memory(of(1, &count, dnnl_a), b);
}

static void conv(const aot_dnnl_conv_params *p, const float *w, const float *b, int x, int r,
                 int y) {
    dnnl_primitive_desc_t pd = NULL;
    dnnl_memory_desc_t any = of(p->w_rank, p->w, dnnl_format_tag_any), bias = NULL;
    const_dnnl_memory_desc_t to = of(p->rank, p->y, dnnl_format_tag_any);
    dnnl_dims_t s, d, before, after;
    widen(s, p->s, p->rank - 2);
    widen(d, p->d, p->rank - 2);
    widen(before, p->before, p->rank - 2);
    widen(after, p->after, p->rank - 2);
    if (b != NULL)
        bias = of(1, &p->y[1], dnnl_a);
    OK(dnnl_convolution_forward_primitive_desc_create(
        &pd, engine, dnnl_forward_inference, dnnl_convolution_auto,
        of(p->rank, p->x, dnnl_format_tag_any), any, bias, to, s, d, before, after,
        attributes(r >= 0, p->act, p->alpha, p->beta)));
    finish(pd, x, r, y, weights(pd, of(p->w_rank, p->w, plain(p->w_rank)), w), row(b, p->y[1]));
}

static void pool(const aot_dnnl_pool_params *p, int x, int y) {
    static const dnnl_alg_kind_t algs[] = {dnnl_pooling_max, dnnl_pooling_avg_include_padding,
                                           dnnl_pooling_avg_exclude_padding};
    dnnl_primitive_desc_t pd = NULL;
    dnnl_dims_t s, k, d, before, after;
    widen(s, p->s, p->rank - 2);
    widen(k, p->k, p->rank - 2);
    widen(d, p->d, p->rank - 2);
    widen(before, p->before, p->rank - 2);
    widen(after, p->after, p->rank - 2);
    OK(dnnl_pooling_forward_primitive_desc_create(
        &pd, engine, dnnl_forward_inference, algs[p->kind], described(values[x]),
        of(p->rank, p->y, dnnl_format_tag_any), s, k, d, before, after, NULL));
    finish(pd, x, -1, y, NULL, NULL);
}

static void dense(const aot_dnnl_dense_params *p, const float *w, const float *b, int x, int y) {
    const int64_t dx[2] = {p->m, p->k}, dw[2] = {p->n, p->k}, dy[2] = {p->m, p->n};
    dnnl_primitive_desc_t pd = NULL;
    void *data = NULL;
    OK(dnnl_memory_get_data_handle(values[x], &data)); /* one pixel: rows in every layout */
    values[x] = memory(of(2, dx, dnnl_ab), data);
    OK(dnnl_inner_product_forward_primitive_desc_create(
        &pd, engine, dnnl_forward_inference, described(values[x]), of(2, dw, dnnl_format_tag_any),
        b == NULL ? NULL : of(1, &p->n, dnnl_a), of(2, dy, dnnl_ab),
        attributes(0, p->act, p->alpha, p->beta)));
    finish(pd, x, -1, y, weights(pd, of(2, dw, dnnl_ba), w), row(b, p->n));
}

#include "chain.h"

static char *loaded(const char *path) {
    FILE *f = fopen(path, "rb");
    long size;
    char *data;
    if (f == NULL || fseek(f, 0, SEEK_END) != 0)
        exit(1);
    size = ftell(f);
    rewind(f);
    data = (char *)malloc((size_t)size);
    if (data == NULL || fread(data, 1, (size_t)size, f) != (size_t)size)
        exit(1);
    (void)fclose(f);
    return data;
}

int main(int argc, char **argv) {
    const char *w, *x;
    void *to = NULL, *from = NULL;
    int run, i;
    FILE *f;
    if (argc != 5)
        return 2;
    w = loaded(argv[1]);
    x = loaded(argv[2]);
    OK(dnnl_engine_create(&engine, dnnl_cpu, 0));
    OK(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    values[0] = memory(of(INPUT_RANK, input_shape, plain(INPUT_RANK)), NULL);
    build(w);
    OK(dnnl_memory_get_data_handle(values[0], &to));
    OK(dnnl_memory_get_data_handle(values[VALUES - 1], &from));
    for (run = 0; run < atoi(argv[4]) + 2; ++run) {
        struct timespec a, b;
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
        memcpy(to, x, INPUT_BYTES);
        for (i = 0; i < done; ++i)
            OK(dnnl_primitive_execute(steps[i].primitive, stream, steps[i].count, steps[i].args));
        OK(dnnl_stream_wait(stream));
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
        if (run >= 2) /* the first ones warm up */
            printf("%.6f\n",
                   (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6);
    }
    fprintf(stderr, "%d steps, of which %d reorder\n", done, moved);
    f = fopen(argv[3], "wb");
    if (f == NULL || fwrite(from, 1, OUTPUT_BYTES, f) != OUTPUT_BYTES)
        return 1;
    return fclose(f);
}
