/* SPDX-License-Identifier: MIT-0 */
/* Functions of CUDA and cuBLAS computed by the CPU, for tests. A stream does its work at once, or
 * keeps it in a graph while it is captured. Memory of the "GPU" begins as NaN. The environment may
 * name a call that fails (STANDIN_FAILS), and ask for a line per event (STANDIN_SAYS). */
#include "standin.h"

bool standin_fails(const char *call) {
    const char *named = getenv("STANDIN_FAILS");
    return named != NULL && strcmp(named, call) == 0;
}

static void say(const char *event, size_t count) {
    if (getenv("STANDIN_SAYS") != NULL)
        fprintf(stderr, "%s %zu\n", event, count);
}

/* Blocks of cudaMalloc that are not freed. */
static struct block {
    struct block *next;
    const char *first;
    size_t size;
} * blocks;
static bool lost; /* whether work used other addresses */

static bool held(const void *place, size_t size) {
    const char *p = place;
    for (const struct block *b = blocks; b != NULL; b = b->next)
        if (p >= b->first && size <= b->size && p - b->first <= (long long)(b->size - size))
            return true;
    return place == NULL;
}

static void run(const work *w) {
    if (w->y != NULL && held(w->a, 4) && held(w->b, 4) && held(w->z, 4) && held(w->bias, 4) &&
        held(w->y, 4) && held(w->space, w->space_bytes))
        w->run(w);
    else
        lost = true;
}

void standin_put(cudaStream_t stream, work w) {
    graph *g = stream->captured;
    if (g == NULL) {
        say("started", 1);
        run(&w);
        return;
    }
    g->all = realloc(g->all, (g->count + 1) * sizeof w);
    g->all[g->count++] = w;
}

const char *cudaGetErrorString(cudaError_t e) {
    return e == cudaErrorMemoryAllocation ? "out of memory"
           : e == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                          : "unknown error";
}
const char *cudnnGetErrorString(cudnnStatus_t s) {
    return s == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_BAD_PARAM";
}
const char *cublasGetStatusString(cublasStatus_t s) {
    return s == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INVALID_VALUE";
}
cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **place, size_t size) {
    if (standin_fails(__func__) || (*place = aligned_alloc(256, size / 256 * 256 + 256)) == NULL)
        return cudaErrorMemoryAllocation;
    memset(*place, 0xff, size);
    struct block *made = malloc(sizeof *made);
    *made = (struct block){blocks, *place, size};
    blocks = made;
    say("allocated", size);
    return cudaSuccess;
}
cudaError_t cudaFree(void *place) {
    for (struct block **b = &blocks; *b != NULL; b = &(*b)->next)
        if ((*b)->first == place) {
            struct block *gone = *b;
            *b = gone->next;
            free(gone);
            break;
        }
    free(place);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *place, int value, size_t count, cudaStream_t stream) {
    (void)stream;
    memset(place, value, count);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t count, enum cudaMemcpyKind kind) {
    (void)kind;
    memcpy(to, from, count);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    (void)stream;
    say(kind == cudaMemcpyHostToDevice ? "uploaded" : "downloaded", count);
    return standin_fails(__func__) ? cudaErrorUnknown : cudaMemcpy(to, from, count, kind);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    free(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    (void)stream;
    return lost ? cudaErrorIllegalAddress : cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    (void)mode;
    if (standin_fails(__func__))
        return cudaErrorUnknown;
    stream->captured = calloc(1, sizeof(graph));
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *made) {
    *made = stream->captured;
    say("captured", stream->captured->count);
    stream->captured = NULL;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t g,
                                          unsigned long long flags) {
    (void)flags;
    graph *copy = malloc(sizeof *copy);
    copy->count = g->count;
    copy->all = malloc(g->count * sizeof(work));
    memcpy(copy->all, g->all, g->count * sizeof(work));
    *made = (cudaGraphExec_t)copy;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t stream) {
    const graph *g = (const graph *)made;
    (void)stream;
    say("launched", g->count);
    if (standin_fails(__func__))
        return cudaErrorUnknown;
    for (size_t i = 0; i < g->count; ++i)
        run(&g->all[i]);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) {
    free(g->all);
    free(g);
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t made) {
    return cudaGraphDestroy((cudaGraph_t)made);
}

/* -- cuBLAS: matrices are stored by columns ---------------------------------------------------- */

cublasStatus_t cublasCreate(cublasHandle_t *h) {
    *h = calloc(1, sizeof **h);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t h) {
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t stream) {
    h->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

/* What NVIDIA recommends for GPUs before Hopper, at the alignment that it asks for. */
cublasStatus_t cublasSetWorkspace(cublasHandle_t h, void *space, size_t bytes) {
    h->space = space;
    h->space_bytes = bytes;
    return held(space, bytes) && (uintptr_t)space % 256 == 0 && bytes >= 4 << 20
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}

static void product(const work *w) {
    double *column = malloc((size_t)w->m * sizeof *column);
    for (long long batch = 0; batch < w->batch; ++batch) {
        const float *a = w->a + batch * w->sa, *b = w->b + batch * w->sb;
        for (int j = 0; j < w->n; ++j) {
            for (int i = 0; i < w->m; ++i)
                column[i] = 0.0;
            for (int l = 0; l < w->k; ++l) {
                const double x = (double)(w->tb ? b[j + l * w->ldb] : b[l + j * w->ldb]);
                for (int i = 0; i < w->m; ++i)
                    column[i] += x * (double)(w->ta ? a[l + i * w->lda] : a[i + l * w->lda]);
            }
            for (int i = 0; i < w->m; ++i)
                w->y[batch * w->sc + i + (long long)j * w->ldc] = w->alpha * (float)column[i];
        }
    }
    free(column);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta,
                                         cublasOperation_t tb, int m, int n, int k,
                                         const float *alpha, const float *A, int lda, long long sa,
                                         const float *B, int ldb, long long sb, const float *beta,
                                         float *C, int ldc, long long sc, int batch) {
    const bool fits = lda >= (ta ? k : m) && ldb >= (tb ? n : k) && ldc >= m;
    /* Without a workspace cuBLAS would allocate, also while it is captured. */
    if (standin_fails(__func__) || !fits || *beta != 0.0F || h->space == NULL)
        return CUBLAS_STATUS_INVALID_VALUE;
    standin_put(h->stream, (work){.run = product,
                                  .a = A,
                                  .b = B,
                                  .y = C,
                                  .space = h->space,
                                  .space_bytes = h->space_bytes,
                                  .alpha = *alpha,
                                  .m = m,
                                  .n = n,
                                  .k = k,
                                  .ta = (int)ta,
                                  .tb = (int)tb,
                                  .lda = lda,
                                  .ldb = ldb,
                                  .ldc = ldc,
                                  .sa = sa,
                                  .sb = sb,
                                  .sc = sc,
                                  .batch = batch});
    return CUBLAS_STATUS_SUCCESS;
}
