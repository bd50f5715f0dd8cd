/* SPDX-License-Identifier: MIT-0 */
/* How a compiled model uses onnxruntime: a session per region of the graph, which NAME_init makes
 * of the region's ONNX bytes; a run hands it the region's tensors where they lie. */
#ifndef AOT_ORT_H
#define AOT_ORT_H

#include <stdint.h>

#include "aot/aot.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aot_ort_open_params {
    int32_t bytes;
} aot_ort_open_params;

/* Slots: the library's environment, the session, the kind of memory. AOT_VENDOR if the library is
 * older than the one that the model was compiled with, or makes no session. */
aot_status aot_ort_open(void **slots, const void *model, const aot_ort_open_params *p);
void aot_ort_close(void **slots);

/* Of each tensor: ONNX's number of the element type, the size in bytes, the rank, eight extents. */
typedef struct aot_ort_run_params {
    int32_t outputs;
    int32_t inputs;
    int32_t out_type[8];
    int32_t out_bytes[8];
    int32_t out_rank[8];
    int32_t out_shape[64];
    int32_t in_type[8];
    int32_t in_bytes[8];
    int32_t in_rank[8];
    int32_t in_shape[64];
} aot_ort_run_params;

/* Computes the region; unused tensors are NULL. AOT_VENDOR if the library reports an error: it
 * prints the reason to the standard error. */
aot_status aot_ort_run(void **slots, void *y0, void *y1, void *y2, void *y3, void *y4, void *y5,
                       void *y6, void *y7, const void *x0, const void *x1, const void *x2,
                       const void *x3, const void *x4, const void *x5, const void *x6,
                       const void *x7, const aot_ort_run_params *p);

#ifdef __cplusplus
}
#endif

#endif /* AOT_ORT_H */
