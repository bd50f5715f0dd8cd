/* SPDX-License-Identifier: MIT-0 */
/* The trace build reports every tensor a call wrote. Private to the bundle. */
#ifndef AOT_TRACE_H
#define AOT_TRACE_H

#include <stddef.h>
#include <stdint.h>

/* After call number `call`: its `k`-th written tensor and the bytes it holds now. A call that
 * writes none reports k = -1 and NULLs. */
typedef void aot_trace_fn(void *user, int32_t call, int32_t k, const char *tensor, const void *data,
                          size_t bytes);

/* A written tensor: in output number `output`, or in the arena if that is negative. */
typedef struct aot_trace_write {
    int32_t output;
    size_t offset;
    size_t bytes;
    const char *tensor;
} aot_trace_write;

#endif /* AOT_TRACE_H */
