/* SPDX-License-Identifier: MIT-0 */
/* What the two sources of the stand-in share: work that a stream does, streams and handles. */
#ifndef STANDIN_H
#define STANDIN_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cublas_v2.h"
#include "cudnn.h"

typedef struct work {
    void (*run)(const struct work *);
    const float *a, *b, *z, *bias;
    float *y;
    const void *space; /* of `space_bytes`, as large as the library wants it */
    size_t space_bytes;
    float alpha, beta;
    struct cudnnTensorStruct *ad, *bd, *yd;
    int number, m, n, k, ta, tb, lda, ldb, ldc, batch;
    long long sa, sb, sc;
    double value;
    struct cudnnPoolingStruct *pool;
    struct cudnnFilterStruct *w;
    struct cudnnConvolutionStruct *conv;
} work;

typedef struct CUgraph_st {
    size_t count;
    work *all;
} graph;

struct CUstream_st {
    graph *captured;
};
struct cudnnContext {
    cudaStream_t stream;
};
struct cublasContext {
    cudaStream_t stream;
    void *space;
    size_t space_bytes;
};

/* Whether the environment says that this call fails. */
bool standin_fails(const char *call);

/* Does the work, or keeps it where the stream is captured. Work at addresses that the GPU has not
 * (any more) is left, and the next cudaStreamSynchronize fails. */
void standin_put(cudaStream_t stream, work w);

#endif
