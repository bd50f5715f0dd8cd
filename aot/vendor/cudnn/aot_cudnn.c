/* SPDX-License-Identifier: MIT-0 */
#include "aot_cudnn.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

/* -- What failed ------------------------------------------------------------------------------- */

/* The last failed call, for aot_cudnn_error, which is called next. */
static const char *failed_library, *failed_call, *failed_text, *failed_node;

static bool good(bool ok, const char *library, const char *call, const char *text) {
    if (!ok) {
        failed_library = library;
        failed_call = call;
        failed_text = text;
    }
    return ok;
}

static bool cuda_good(cudaError_t e, const char *call) {
    return good(e == cudaSuccess, "CUDA", call, cudaGetErrorString(e));
}

static bool dnn_good(cudnnStatus_t s, const char *call) {
    return good(s == CUDNN_STATUS_SUCCESS, "cuDNN", call, cudnnGetErrorString(s));
}

static bool blas_good(cublasStatus_t s, const char *call) {
    return good(s == CUBLAS_STATUS_SUCCESS, "cuBLAS", call, cublasGetStatusString(s));
}

#define CUDA(name, ...) cuda_good(name(__VA_ARGS__), #name)
#define DNN(name, ...) dnn_good(name(__VA_ARGS__), #name)
#define BLAS(name, ...) blas_good(name(__VA_ARGS__), #name)

void aot_cudnn_error(const char *node, aot_status status) {
    if (failed_call != NULL)
        fprintf(stderr, "cudnn: node %s: %s of %s: %s\n", failed_node != NULL ? failed_node : node,
                failed_call, failed_library, failed_text);
    else
        fprintf(stderr, "cudnn: node %s: status %d\n", node, (int)status);
    failed_call = failed_node = NULL;
}

static aot_status status_of(bool ok) {
    return ok ? AOT_OK : AOT_VENDOR;
}

/* Allocates what `slots` points to, all zero. */
static bool made(void **slots, size_t bytes) {
    slots[0] = calloc(1, bytes);
    return good(slots[0] != NULL, "C", "calloc", "out of memory");
}

/* -- Sessions ---------------------------------------------------------------------------------- */

/* What cudaMalloc aligns to, and the workspace that NVIDIA recommends for cuBLAS on recent GPUs. */
enum { ALIGN = 256, BLAS_BYTES = 32 << 20 };

/* The values of all regions, which run one after the other, and behind them the workspace of all
 * steps are one block, made when the last region is known: graphs keep the addresses. */
typedef struct {
    cudaStream_t stream;
    cudnnHandle_t dnn;
    cublasHandle_t blas;
    char *memory, *workspace;
    size_t memory_bytes, workspace_bytes;
} gpu;

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

aot_status aot_cudnn_open(void **session) {
    if (!made(session, sizeof(gpu)))
        return AOT_VENDOR;
    gpu *g = (gpu *)session[0];
    return status_of(CUDA(cudaStreamCreateWithFlags, &g->stream, cudaStreamNonBlocking) &&
                     DNN(cudnnCreate, &g->dnn) && DNN(cudnnSetStream, g->dnn, g->stream) &&
                     BLAS(cublasCreate, &g->blas) && BLAS(cublasSetStream, g->blas, g->stream));
}

void aot_cudnn_close(void **session) {
    gpu *g = (gpu *)session[0];
    if (g == NULL)
        return;
    if (g->blas != NULL)
        (void)cublasDestroy(g->blas);
    if (g->dnn != NULL)
        (void)cudnnDestroy(g->dnn);
    (void)cudaFree(g->memory);
    if (g->stream != NULL)
        (void)cudaStreamDestroy(g->stream);
    free(g);
    session[0] = NULL;
}

aot_status aot_cudnn_hold(void **constant, const void *data, const aot_cudnn_hold_params *p) {
    const size_t bytes = (size_t)p->bytes;
    return status_of(CUDA(cudaMalloc, &constant[0], bytes) &&
                     CUDA(cudaMemcpy, constant[0], data, bytes, cudaMemcpyHostToDevice));
}

void aot_cudnn_drop(void **constant) {
    (void)cudaFree(constant[0]);
    constant[0] = NULL;
}

/* -- Steps ------------------------------------------------------------------------------------- */

/* The kinds of steps; layers.py numbers them alike. ADD to MAXIMUM are cudnnOpTensor's. */
enum {
    ADD,
    MULTIPLY,
    MINIMUM,
    MAXIMUM,
    ROOT,
    ACCUMULATE,
    CONVOLUTION,
    PRODUCT,
    SIGMOID,
    RELU,
    TANH,
    CLIPPED,
    ELU,
    SOFTMAX,
    COPY,
    NORMALISE,
    LARGEST,
    MEAN
};

typedef struct step {
    struct step *next;
    const aot_cudnn_step_params *p;
    const char *node;
    const char *fixed[3]; /* constants on the GPU */
    cudnnTensorDescriptor_t a, b, y, channels;
    cudnnOpTensorDescriptor_t pair;
    cudnnActivationDescriptor_t activation;
    cudnnPoolingDescriptor_t pool;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t conv;
    cudnnConvolutionFwdAlgo_t algorithm;
    size_t workspace;
} step;

typedef struct {
    gpu *g;
    step *first, *last;
} region;

static const float one = 1.0F, zero = 0.0F;

static bool tensor(cudnnTensorDescriptor_t *d, const int32_t *n, const int32_t *s) {
    const int32_t dense[4] = {n[1] * n[2] * n[3], n[2] * n[3], n[3], 1};
    s = s == NULL || s[3] + s[2] + s[1] + s[0] == 0 ? dense : s;
    return DNN(cudnnCreateTensorDescriptor, d) &&
           DNN(cudnnSetTensor4dDescriptorEx, *d, CUDNN_DATA_FLOAT, n[0], n[1], n[2], n[3], s[0],
               s[1], s[2], s[3]);
}

static bool activation(step *s, cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                       double coefficient) {
    return DNN(cudnnCreateActivationDescriptor, &s->activation) &&
           DNN(cudnnSetActivationDescriptor, s->activation, mode, nan, coefficient);
}

/* The library's first choice of those algorithms that take less memory than the GPU has. */
static bool convolution(step *s, gpu *g, const aot_cudnn_step_params *p) {
    const int32_t channels[4] = {1, p->y[1], 1, 1};
    const cudnnMathType_t math = p->flags & 2 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    cudnnConvolutionFwdAlgoPerf_t found[8];
    int count = 0;
    if (!(tensor(&s->channels, channels, NULL) &&
          activation(s, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0.0) &&
          DNN(cudnnCreateFilterDescriptor, &s->filter) &&
          DNN(cudnnSetFilter4dDescriptor, s->filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, p->b[0],
              p->b[1], p->b[2], p->b[3]) &&
          DNN(cudnnCreateConvolutionDescriptor, &s->conv) &&
          DNN(cudnnSetConvolution2dDescriptor, s->conv, p->pad[0], p->pad[1], p->stride[0],
              p->stride[1], p->dilation[0], p->dilation[1], CUDNN_CROSS_CORRELATION,
              CUDNN_DATA_FLOAT) &&
          DNN(cudnnSetConvolutionGroupCount, s->conv, p->groups) &&
          DNN(cudnnSetConvolutionMathType, s->conv, math) &&
          DNN(cudnnGetConvolutionForwardAlgorithm_v7, g->dnn, s->a, s->filter, s->conv, s->y, 8,
              &count, found)))
        return false;
    for (int i = 0; i < count; ++i) {
        const bool exact = p->flags & 2 || found[i].mathType == CUDNN_FMA_MATH ||
                           found[i].mathType == CUDNN_DEFAULT_MATH;
        if (found[i].status != CUDNN_STATUS_SUCCESS || !exact)
            continue;
        s->algorithm = found[i].algo;
        return DNN(cudnnSetConvolutionMathType, s->conv, math) &&
               DNN(cudnnGetConvolutionForwardWorkspaceSize, g->dnn, s->a, s->filter, s->conv, s->y,
                   s->algorithm, &s->workspace);
    }
    return good(false, "cuDNN", "cudnnGetConvolutionForwardAlgorithm_v7", "no algorithm fits");
}

static bool pooling(step *s, const aot_cudnn_step_params *p) {
    const cudnnPoolingMode_t mode =
        p->kind == LARGEST ? CUDNN_POOLING_MAX : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
    return DNN(cudnnCreatePoolingDescriptor, &s->pool) &&
           DNN(cudnnSetPooling2dDescriptor, s->pool, mode, CUDNN_PROPAGATE_NAN, p->window[0],
               p->window[1], p->pad[0], p->pad[1], p->stride[0], p->stride[1]);
}

/* Makes the descriptors that a step of this kind needs. */
static bool described(step *s, gpu *g, const aot_cudnn_step_params *p) {
    static const cudnnOpTensorOp_t pairs[] = {CUDNN_OP_TENSOR_ADD, CUDNN_OP_TENSOR_MUL,
                                              CUDNN_OP_TENSOR_MIN, CUDNN_OP_TENSOR_MAX,
                                              CUDNN_OP_TENSOR_SQRT};
    static const cudnnActivationMode_t functions[] = {
        CUDNN_ACTIVATION_SIGMOID, CUDNN_ACTIVATION_RELU, CUDNN_ACTIVATION_TANH,
        CUDNN_ACTIVATION_CLIPPED_RELU, CUDNN_ACTIVATION_ELU};
    const int32_t rows[4] = {1, p->a[1], 1, 1};
    if (p->kind == PRODUCT) {
        s->workspace = BLAS_BYTES;
        return true;
    }
    if (!tensor(&s->a, p->a, p->a_stride) || !tensor(&s->y, p->y, p->y_stride))
        return false;
    if (p->kind <= ROOT)
        return tensor(&s->b, p->b, NULL) && DNN(cudnnCreateOpTensorDescriptor, &s->pair) &&
               DNN(cudnnSetOpTensorDescriptor, s->pair, pairs[p->kind], CUDNN_DATA_FLOAT,
                   CUDNN_PROPAGATE_NAN);
    if (p->kind == CONVOLUTION)
        return convolution(s, g, p);
    if (p->kind >= SIGMOID && p->kind <= ELU)
        return activation(s, functions[p->kind - SIGMOID],
                          p->flags & 1 ? CUDNN_NOT_PROPAGATE_NAN : CUDNN_PROPAGATE_NAN,
                          (double)p->alpha);
    if (p->kind == NORMALISE)
        return tensor(&s->channels, rows, NULL);
    return p->kind < LARGEST || pooling(s, p);
}

aot_status aot_cudnn_region(void **slots, void **session, const aot_cudnn_region_params *p) {
    gpu *g = (gpu *)session[0];
    if (!made(slots, sizeof(region)))
        return AOT_VENDOR;
    ((region *)slots[0])->g = g;
    g->memory_bytes = larger(g->memory_bytes, ((size_t)p->bytes + ALIGN - 1) / ALIGN * ALIGN);
    return AOT_OK;
}

void aot_cudnn_region_release(void **slots) {
    free(slots[0]);
    slots[0] = NULL;
}

aot_status aot_cudnn_step(void **slots, void **owner, void **a, void **b, void **z,
                          const void *node, const aot_cudnn_step_params *p) {
    region *r = (region *)owner[0];
    void **const given[3] = {a, b, z};
    if (!made(slots, sizeof(step)))
        return AOT_VENDOR;
    step *s = (step *)slots[0];
    s->p = p;
    s->node = failed_node = (const char *)node;
    for (int i = 0; i < 3; ++i)
        s->fixed[i] = given[i] == NULL ? NULL : (const char *)given[i][0];
    if (r->last != NULL)
        r->last->next = s;
    else
        r->first = s;
    r->last = s;
    if (!described(s, r->g, p))
        return AOT_VENDOR;
    r->g->workspace_bytes = larger(r->g->workspace_bytes, s->workspace);
    failed_node = NULL;
    return AOT_OK;
}

void aot_cudnn_step_release(void **slots) {
    step *s = (step *)slots[0];
    if (s == NULL)
        return;
    cudnnTensorDescriptor_t tensors[4] = {s->a, s->b, s->y, s->channels};
    for (int i = 0; i < 4; ++i)
        if (tensors[i] != NULL)
            (void)cudnnDestroyTensorDescriptor(tensors[i]);
    if (s->pair != NULL)
        (void)cudnnDestroyOpTensorDescriptor(s->pair);
    if (s->activation != NULL)
        (void)cudnnDestroyActivationDescriptor(s->activation);
    if (s->pool != NULL)
        (void)cudnnDestroyPoolingDescriptor(s->pool);
    if (s->filter != NULL)
        (void)cudnnDestroyFilterDescriptor(s->filter);
    if (s->conv != NULL)
        (void)cudnnDestroyConvolutionDescriptor(s->conv);
    free(s);
    slots[0] = NULL;
}

/* -- Runs -------------------------------------------------------------------------------------- */

/* One fused call where the library surely has it, else convolution, bias and Relu by themselves. */
static bool convolve(const gpu *g, const step *s, const void *x, const void *w, const void *bias,
                     const void *z, void *y) {
    const bool relu = s->p->flags & 1;
    if (relu && s->p->groups == 1 && bias != NULL)
        return DNN(cudnnConvolutionBiasActivationForward, g->dnn, &one, s->a, x, s->filter, w,
                   s->conv, s->algorithm, g->workspace, s->workspace, z == NULL ? &zero : &one,
                   s->y, z == NULL ? y : z, s->channels, bias, s->activation, s->y, y);
    return DNN(cudnnConvolutionForward, g->dnn, &one, s->a, x, s->filter, w, s->conv, s->algorithm,
               g->workspace, s->workspace, &zero, s->y, y) &&
           (bias == NULL || DNN(cudnnAddTensor, g->dnn, &one, s->channels, bias, &one, s->y, y)) &&
           (z == NULL || DNN(cudnnAddTensor, g->dnn, &one, s->y, z, &one, s->y, y)) &&
           (!relu ||
            DNN(cudnnActivationForward, g->dnn, s->activation, &one, s->y, y, &zero, s->y, y));
}

/* Rows are stored one after the other: to cuBLAS, which stores columns so, all is transposed. */
static bool multiply(const gpu *g, const step *s, const float *a, const float *b, float *y) {
    const int32_t m = s->p->sizes[0], n = s->p->sizes[1], k = s->p->sizes[2];
    const bool ta = s->p->flags & 1, tb = s->p->flags & 2;
    return BLAS(cublasSgemmStridedBatched, g->blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N,
                ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &s->p->alpha, b, tb ? k : n,
                s->p->sizes[5], a, ta ? m : k, s->p->sizes[4], &zero, y, n, (long long)m * n,
                s->p->sizes[3]);
}

/* Puts the work of a step into the stream. */
static bool started(const gpu *g, const step *s) {
    const aot_cudnn_step_params *p = s->p;
    const char *in[3];
    char *const y = g->memory + p->at[3];
    for (int i = 0; i < 3; ++i)
        in[i] = p->at[i] < 0 ? s->fixed[i] : g->memory + p->at[i];
    if (p->kind <= ROOT)
        return DNN(cudnnOpTensor, g->dnn, s->pair, &p->alpha, s->a, in[0], &p->beta, s->b,
                   p->kind == ROOT ? in[0] : in[1], &zero, s->y, y);
    if (p->kind >= SIGMOID && p->kind <= ELU)
        return DNN(cudnnActivationForward, g->dnn, s->activation, &one, s->a, in[0], &zero, s->y,
                   y);
    switch (p->kind) {
    case ACCUMULATE:
        return DNN(cudnnAddTensor, g->dnn, &p->alpha, s->a, in[0], &one, s->y, y);
    case CONVOLUTION:
        return convolve(g, s, in[0], in[1], s->fixed[2], in[2] == s->fixed[2] ? NULL : in[2], y);
    case PRODUCT:
        return multiply(g, s, (const float *)(const void *)in[0],
                        (const float *)(const void *)in[1], (float *)(void *)y);
    case SOFTMAX:
        return DNN(cudnnSoftmaxForward, g->dnn, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL,
                   &one, s->a, in[0], &zero, s->y, y);
    case COPY:
        return DNN(cudnnTransformTensor, g->dnn, &p->alpha, s->a, in[0], &zero, s->y, y);
    case NORMALISE: /* of each row, by the statistics of a batch whose channels
                       are the rows */
        return DNN(cudnnBatchNormalizationForwardTraining, g->dnn, CUDNN_BATCHNORM_SPATIAL, &one,
                   &zero, s->a, in[0], s->y, y, s->channels, in[1], in[2], 1.0, NULL, NULL,
                   (double)p->alpha, NULL, NULL);
    default:
        return DNN(cudnnPoolingForward, g->dnn, s->pool, &one, s->a, in[0], &zero, s->y, y);
    }
}

static bool all_started(const region *r) {
    for (const step *s = r->first; s != NULL; s = s->next)
        if (!started(r->g, s)) {
            failed_node = s->node;
            return false;
        }
    return true;
}

/* Makes the block of memory, all zero, and gives cuBLAS its workspace, which cuBLAS would allocate
 * itself while it is recorded. cuBLAS and cuDNN keep nothing there from call to call. */
static bool settled(gpu *g) {
    const size_t bytes = g->memory_bytes + g->workspace_bytes;
    if (g->memory != NULL)
        return true;
    if (!CUDA(cudaMalloc, (void **)&g->memory, bytes))
        return false;
    g->workspace = g->memory + g->memory_bytes;
    return CUDA(cudaMemsetAsync, g->memory, 0, bytes, g->stream) &&
           (g->workspace_bytes == 0 ||
            BLAS(cublasSetWorkspace, g->blas, g->workspace, g->workspace_bytes));
}

/* Records the steps as a graph; where the libraries cannot, runs start them one by one. */
static void record(const region *r, cudaGraphExec_t *made) {
    cudaGraph_t graph = NULL;
    if (cudaStreamBeginCapture(r->g->stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess) {
        const bool complete = all_started(r);
        const bool ended = cudaStreamEndCapture(r->g->stream, &graph) == cudaSuccess;
        if (!complete || !ended || cudaGraphInstantiateWithFlags(made, graph, 0) != cudaSuccess)
            *made = NULL;
        if (graph != NULL)
            (void)cudaGraphDestroy(graph);
    }
    (void)cudaGetLastError();
    failed_call = failed_node = NULL;
}

aot_status aot_cudnn_graph(void **graph, void **slots) {
    const region *r = (const region *)slots[0];
    cudaGraphExec_t made = NULL;
    /* The constants, which the default stream copies, may still be on their way. */
    if (!settled(r->g) || !CUDA(cudaStreamSynchronize, NULL) || !all_started(r) ||
        !CUDA(cudaStreamSynchronize, r->g->stream))
        return AOT_VENDOR;
    record(r, &made);
    graph[0] = made;
    return AOT_OK;
}

void aot_cudnn_graph_release(void **graph) {
    if (graph[0] != NULL)
        (void)cudaGraphExecDestroy((cudaGraphExec_t)graph[0]);
    graph[0] = NULL;
}

aot_status aot_cudnn_upload(void **slots, const void *from, const aot_cudnn_upload_params *p) {
    const gpu *g = ((region *)slots[0])->g;
    return status_of(CUDA(cudaMemcpyAsync, g->memory + p->at, from, (size_t)p->bytes,
                          cudaMemcpyHostToDevice, g->stream));
}

aot_status aot_cudnn_run(void **graph, void **slots) {
    const region *r = (const region *)slots[0];
    return status_of(graph[0] == NULL
                         ? all_started(r)
                         : CUDA(cudaGraphLaunch, (cudaGraphExec_t)graph[0], r->g->stream));
}

aot_status aot_cudnn_download(void **slots, void *to, const aot_cudnn_download_params *p) {
    const gpu *g = ((region *)slots[0])->g;
    return status_of(CUDA(cudaMemcpyAsync, to, g->memory + p->at, (size_t)p->bytes,
                          cudaMemcpyDeviceToHost, g->stream) &&
                     CUDA(cudaStreamSynchronize, g->stream));
}
