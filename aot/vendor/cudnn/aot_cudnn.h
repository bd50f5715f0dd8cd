/* SPDX-License-Identifier: MIT-0 */
/* Calls of cuDNN and cuBLAS. Values inside a region live in memory of the GPU, at offsets that
 * were planned when the model was compiled. NAME_init makes descriptors, chooses algorithms, copies
 * the weights to the GPU, starts the steps of each region once and records them as a CUDA graph,
 * which runs launch. */
#ifndef AOT_CUDNN_H
#define AOT_CUDNN_H

#include <stdint.h>

#include "aot/aot.h"

/* A session: slot 0. All regions share its stream, its libraries and its memory. */
aot_status aot_cudnn_open(void **session);
void aot_cudnn_close(void **session);

/* A region, slot 0: its steps in order. `bytes` is how much memory its values take. */
typedef struct {
    int32_t number;
    int64_t bytes;
} aot_cudnn_region_params;
aot_status aot_cudnn_region(void **region, void **session, const aot_cudnn_region_params *p);
void aot_cudnn_region_release(void **region);

/* A constant, slot 0: its address on the GPU. */
typedef struct {
    int64_t bytes;
} aot_cudnn_hold_params;
aot_status aot_cudnn_hold(void **constant, const void *data, const aot_cudnn_hold_params *p);
void aot_cudnn_drop(void **constant);

/* A step of a region: y = kind(a, b, z). `at` are the offsets of a, b, z and y in the session's
 * memory; where one of the first three is -1 it is a constant or absent. Shapes and strides count
 * elements on four axes. Of a convolution `b` is the shape of the weights and `z` a residual; a
 * product has sizes = rows, columns, depth, products, and per product the steps to the next a and
 * b; flags 1 and 2 say that a or b is stored transposed. `flags` of a convolution: 1 for Relu, 2
 * for TF32 arithmetic; of a Relu: 1 to make zeros of NaN. alpha and beta are factors of a and b, or
 * the number of an activation. `node` is named where the step fails. */
typedef struct {
    int32_t step;
    int32_t kind;
    int32_t flags;
    int64_t at[4];
    int32_t a[4];
    int32_t a_stride[4];
    int32_t b[4];
    int32_t y[4];
    int32_t y_stride[4];
    int32_t window[2];
    int32_t pad[2];
    int32_t stride[2];
    int32_t dilation[2];
    int32_t groups;
    int32_t sizes[6];
    float alpha;
    float beta;
} aot_cudnn_step_params;
aot_status aot_cudnn_step(void **step, void **region, void **a, void **b, void **z,
                          const void *node, const aot_cudnn_step_params *p);
void aot_cudnn_step_release(void **step);

/* The CUDA graph of a region, slot 0, made when all regions and steps are; NULL where the libraries
 * cannot be recorded. The steps run once before, since libraries load kernels at their first use.
 */
aot_status aot_cudnn_graph(void **graph, void **region);
void aot_cudnn_graph_release(void **graph);

/* In a run: copies to the GPU, all steps, copies from it, which await what came before. */
typedef struct {
    int64_t at;
    int64_t bytes;
} aot_cudnn_upload_params;
typedef aot_cudnn_upload_params aot_cudnn_download_params;
aot_status aot_cudnn_upload(void **region, const void *from, const aot_cudnn_upload_params *p);
aot_status aot_cudnn_run(void **graph, void **region);
aot_status aot_cudnn_download(void **region, void *to, const aot_cudnn_download_params *p);

/* Says on stderr which call of which library failed for a node. */
void aot_cudnn_error(const char *node, aot_status status);

#endif /* AOT_CUDNN_H */
