/* SPDX-License-Identifier: MIT-0 */
/* A network by XNNPACK's own runtime: values and operators are defined in a subgraph, the library
 * plans its memory, sets operators up once and runs them. The input has its channels last.
 * benchmarks/chain.py writes chain.h: VALUES, sizes and the shape of the input, and build().
 *
 *     chain weights.bin input.bin output.bin RUNS        prints the milliseconds of each run */
#define _POSIX_C_SOURCE 200112L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xnnpack.h>

#include "aot_xnnpack.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != xnn_status_success) {                                                        \
            fprintf(stderr, "line %d\n", __LINE__);                                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A value: its id in the subgraph, its rank (0 before it is defined) and
 * extents. */
typedef struct {
    uint32_t id;
    size_t rank;
    size_t dims[6];
} value;

enum { INPUT, OUTPUT, EXTERNAL, MOST = 1024 };

static xnn_subgraph_t graph;
static value values[MOST];
static int last; /* the number of the result */

/* Values come in the order of the calls that make them. */
static void define(int v, int type, int zero, float scale, size_t rank, const size_t *dims) {
    uint32_t id = v == 0 ? INPUT : v == last ? OUTPUT : XNN_INVALID_VALUE_ID, flags = 0;
    value *to = &values[v];
    if (to->rank != 0)
        return;
    if (v == 0 || v == last)
        flags = v == 0 ? XNN_VALUE_FLAG_EXTERNAL_INPUT : XNN_VALUE_FLAG_EXTERNAL_OUTPUT;
    to->rank = rank;
    memcpy(to->dims, dims, rank * sizeof *dims);
    if (type == 0)
        OK(xnn_define_tensor_value(graph, xnn_datatype_fp32, rank, dims, NULL, id, flags, &to->id));
    else
        OK(xnn_define_quantized_tensor_value(graph, xnn_datatype_qint8, zero, scale, rank, dims,
                                             NULL, id, flags, &to->id));
}

/* A constant of floats, of int8 weights or int32 biases with a scale, or with
 * one per channel. */
static uint32_t constant(const void *data, const float *scales, float scale, int type, int bias,
                         size_t rank, const size_t *dims) {
    const enum xnn_datatype one = bias ? xnn_datatype_qint32 : xnn_datatype_qint8;
    const enum xnn_datatype each = bias ? xnn_datatype_qcint32 : xnn_datatype_qcint8;
    const uint32_t none = XNN_INVALID_VALUE_ID;
    uint32_t id = none;
    if (data == NULL)
        return none;
    if (type == 0)
        OK(xnn_define_tensor_value(graph, xnn_datatype_fp32, rank, dims, data, none, 0, &id));
    else if (type == 1)
        OK(xnn_define_quantized_tensor_value(graph, one, 0, scale, rank, dims, data, none, 0, &id));
    else
        OK(xnn_define_channelwise_quantized_tensor_value(graph, each, scales, rank, 0, dims, data,
                                                         none, 0, &id));
    return id;
}

static size_t positions(int size, int before, int after, int kernel, int stride, int dilation) {
    return (size_t)((size + before + after - (kernel - 1) * dilation - 1) / stride + 1);
}

/* The result of windows over `size` positions. */
static void windowed(size_t y[4], const int32_t *size, const int32_t *pad, const int32_t *kernel,
                     const int32_t *stride, const int32_t *dilation) {
    y[1] = positions(size[0], pad[0], pad[2], kernel[0], stride[0], dilation[0]);
    y[2] = positions(size[1], pad[3], pad[1], kernel[1], stride[1], dilation[1]);
}

/* Bounds of int8 values come as values, the subgraph wants them as real
 * numbers. */
static float real(float bound, int type, int zero, float scale) {
    if (type == 0)
        return bound;
    return bound <= -128.0f  ? -INFINITY
           : bound >= 127.0f ? INFINITY
                             : (bound - (float)zero) * scale;
}

/* The arguments from padding to strides. */
#define WINDOW(p)                                                                                  \
    (uint32_t)(p)->pad[0], (uint32_t)(p)->pad[1], (uint32_t)(p)->pad[2], (uint32_t)(p)->pad[3],    \
        (uint32_t)(p)->kernel[0], (uint32_t)(p)->kernel[1], (uint32_t)(p)->stride[0],              \
        (uint32_t)(p)->stride[1], (uint32_t)(p)->dilation[0], (uint32_t)(p)->dilation[1]

static void conv(const aot_xnnpack_conv_params *p, const void *w, const void *b,
                 const float *scales, int x, int y) {
    const size_t in = (size_t)p->channels[0], groups = (size_t)p->groups;
    const size_t out = groups * (size_t)p->channels[1];
    const size_t filter[4] = {out, (size_t)p->kernel[0], (size_t)p->kernel[1], in};
    const size_t from[4] = {(size_t)p->batch, (size_t)p->size[0], (size_t)p->size[1], groups * in};
    size_t to[4] = {(size_t)p->batch, 0, 0, out}, i;
    float *sums = NULL;
    if (p->transposed)
        exit(1);
    windowed(to, p->size, p->pad, p->kernel, p->stride, p->dilation);
    define(x, p->type, p->zero[0], p->scale[0], 4, from);
    define(y, p->type, p->zero[1], p->scale[2], 4, to);
    if (p->type == 2) {
        sums = (float *)malloc(out * sizeof(float));
        for (i = 0; i < out; ++i)
            sums[i] = p->scale[0] * scales[i];
    }
    OK(xnn_define_convolution_2d(graph, WINDOW(p), (uint32_t)groups, in, (size_t)p->channels[1],
                                 real(p->low, p->type, p->zero[1], p->scale[2]),
                                 real(p->high, p->type, p->zero[1], p->scale[2]), values[x].id,
                                 constant(w, scales, p->scale[1], p->type, 0, 4, filter),
                                 constant(b, sums, p->scale[0] * p->scale[1], p->type, 1, 1, &out),
                                 values[y].id, 0));
}

static void pool(const aot_xnnpack_pool_params *p, int x, int y) {
    enum { AVERAGE, MAXIMUM, MAXIMUM_INT8, MEAN };
    const int type = p->kind == MAXIMUM_INT8 || p->kind > MEAN;
    const float low = real(p->low, type, p->zero[1], p->scale[1]);
    const float high = real(p->high, type, p->zero[1], p->scale[1]);
    size_t to[4] = {(size_t)p->batch, 1, 1, (size_t)p->channels};
    if (p->kind < MEAN)
        windowed(to, p->size, p->pad, p->kernel, p->stride, p->dilation);
    define(y, type, p->zero[1], p->scale[1], 4, to);
    if (p->kind >= MEAN)
        OK(xnn_define_global_average_pooling_2d(graph, low, high, values[x].id, values[y].id, 0));
    else if (p->kind == MAXIMUM)
        OK(xnn_define_max_pooling_2d(graph, WINDOW(p), low, high, values[x].id, values[y].id, 0));
    else
        exit(1);
}

static void pair(const aot_xnnpack_pair_params *p, int a, int b, int y) {
    const int type = p->kind == 6;
    if (p->kind != 0 && p->kind != 6) /* sums */
        exit(1);
    define(y, type, p->zero[2], p->scale[2], values[a].rank, values[a].dims);
    OK(xnn_define_add2(graph, real(p->low, type, p->zero[2], p->scale[2]),
                       real(p->high, type, p->zero[2], p->scale[2]), values[a].id, values[b].id,
                       values[y].id, 0));
}

static void unary(const aot_xnnpack_unary_params *p, const void *slope, int x, int y) {
    (void)slope;
    if (p->kind != 9) /* Softmax */
        exit(1);
    define(y, 0, 0, 0.0f, values[x].rank, values[x].dims);
    OK(xnn_define_softmax(graph, values[x].id, values[y].id, 0));
}

#include "chain.h"

static char *loaded(const char *path, size_t beyond) {
    FILE *f = fopen(path, "rb");
    size_t size;
    char *data;
    if (f == NULL || fseek(f, 0, SEEK_END) != 0)
        exit(1);
    size = (size_t)ftell(f);
    rewind(f);
    data = (char *)malloc(size + beyond);
    if (data == NULL || fread(data, 1, size, f) != size)
        exit(1);
    (void)fclose(f);
    return data;
}

int main(int argc, char **argv) {
    static char result[OUTPUT_BYTES + XNN_EXTRA_BYTES];
    struct xnn_external_value ends[EXTERNAL] = {{INPUT, NULL}, {OUTPUT, result}};
    xnn_runtime_t runtime = NULL;
    int run;
    FILE *f;
    if (argc != 5)
        return 2;
    OK(xnn_initialize(NULL));
    OK(xnn_create_subgraph(EXTERNAL, 0, &graph));
    last = VALUES - 1;
    build(loaded(argv[1], 0));
    OK(xnn_create_runtime_v2(graph, NULL, 0, &runtime));
    ends[INPUT].data = loaded(argv[2], XNN_EXTRA_BYTES);
    OK(xnn_setup_runtime(runtime, EXTERNAL, ends));
    for (run = 0; run < atoi(argv[4]) + 2; ++run) {
        struct timespec a, b;
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
        OK(xnn_invoke_runtime(runtime));
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
        if (run >= 2) /* the first ones warm up */
            printf("%.6f\n",
                   (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6);
    }
    f = fopen(argv[3], "wb");
    if (f == NULL || fwrite(result, 1, OUTPUT_BYTES, f) != OUTPUT_BYTES)
        return 1;
    return fclose(f);
}
