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

/* A part of the arena that a call may touch. */
typedef struct aot_trace_part {
    size_t offset;
    size_t bytes;
} aot_trace_part;

/* With AddressSanitizer the trace build also guards the arena: outside the tensors of the call
 * under way it is poisoned, so that a kernel which leaves them is stopped where it does. */
#if defined(__SANITIZE_ADDRESS__)
#define AOT_TRACE_GUARD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define AOT_TRACE_GUARD 1
#endif
#endif
#ifdef AOT_TRACE_GUARD
#include <sanitizer/asan_interface.h>
#define AOT_TRACE_CLOSE(p, n) __asan_poison_memory_region((p), (n))
#define AOT_TRACE_OPEN(p, n) __asan_unpoison_memory_region((p), (n))
#else
#define AOT_TRACE_CLOSE(p, n) ((void)(p))
#define AOT_TRACE_OPEN(p, n) ((void)(p))
#endif

#endif /* AOT_TRACE_H */
