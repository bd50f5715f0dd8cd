/* SPDX-License-Identifier: MIT-0 */
#include "aot_ort.h"

#include <stdbool.h>

#include "aot_ort_api.h"

#ifndef AOT_ORT_THREADS
#define AOT_ORT_THREADS 1
#endif

enum { ENV, SESSION, MEMORY, MOST = 8, LEVEL_ERROR = 3, DEVICE_ALLOCATOR = 0, DEFAULT_MEMORY = 0 };

/* NULL if the library is too old. */
static const OrtApi *api(void) {
    return OrtGetApiBase()->GetApi(AOT_ORT_INTERFACE);
}

/* Whether a call went well; its status is released. */
static bool good(OrtStatus *status) {
    if (status != NULL)
        api()->ReleaseStatus(status);
    return status == NULL;
}

aot_status aot_ort_open(void **slots, const void *model, const aot_ort_open_params *p) {
    const OrtApi *ort = api();
    OrtEnv *env = NULL;
    OrtSession *session = NULL;
    OrtMemoryInfo *memory = NULL;
    OrtSessionOptions *options = NULL;
    if (ort == NULL)
        return AOT_VENDOR;
    const bool made =
        good(ort->CreateEnv(LEVEL_ERROR, "aot", &env)) &&
        good(ort->CreateSessionOptions(&options)) &&
        good(ort->SetIntraOpNumThreads(options, AOT_ORT_THREADS)) &&
        good(ort->CreateSessionFromArray(env, model, (size_t)p->bytes, options, &session)) &&
        good(ort->CreateCpuMemoryInfo(DEVICE_ALLOCATOR, DEFAULT_MEMORY, &memory));
    if (options != NULL)
        ort->ReleaseSessionOptions(options);
    slots[ENV] = env;
    slots[SESSION] = session;
    slots[MEMORY] = memory;
    return made ? AOT_OK : AOT_VENDOR;
}

void aot_ort_close(void **slots) {
    const OrtApi *ort = api();
    if (slots[SESSION] != NULL)
        ort->ReleaseSession((OrtSession *)slots[SESSION]);
    if (slots[MEMORY] != NULL)
        ort->ReleaseMemoryInfo((OrtMemoryInfo *)slots[MEMORY]);
    if (slots[ENV] != NULL)
        ort->ReleaseEnv((OrtEnv *)slots[ENV]);
    slots[SESSION] = slots[MEMORY] = slots[ENV] = NULL;
}

/* A tensor of the library that is `data`. */
static bool wrapped(void **slots, void *data, int32_t bytes, int32_t rank, const int32_t *shape,
                    int32_t type, OrtValue **value) {
    int64_t extents[MOST];
    for (int i = 0; i < MOST; ++i)
        extents[i] = shape[i];
    return good(api()->CreateTensorWithDataAsOrtValue((const OrtMemoryInfo *)slots[MEMORY], data,
                                                      (size_t)bytes, extents, (size_t)rank, type,
                                                      value));
}

aot_status aot_ort_run(void **slots, void *y0, void *y1, void *y2, void *y3, void *y4, void *y5,
                       void *y6, void *y7, const void *x0, const void *x1, const void *x2,
                       const void *x3, const void *x4, const void *x5, const void *x6,
                       const void *x7, const aot_ort_run_params *p) {
    static const char *const results[MOST] = {"o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7"};
    static const char *const names[MOST] = {"i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7"};
    void *const y[MOST] = {y0, y1, y2, y3, y4, y5, y6, y7};
    /* The library takes all memory as writable; it writes to no input. */
    void *const x[MOST] = {(void *)(uintptr_t)x0, (void *)(uintptr_t)x1, (void *)(uintptr_t)x2,
                           (void *)(uintptr_t)x3, (void *)(uintptr_t)x4, (void *)(uintptr_t)x5,
                           (void *)(uintptr_t)x6, (void *)(uintptr_t)x7};
    OrtValue *outputs[MOST] = {NULL}, *inputs[MOST] = {NULL};
    const OrtApi *ort = api();
    bool well = true;
    for (int32_t i = 0; well && i < p->outputs; ++i)
        well = wrapped(slots, y[i], p->out_bytes[i], p->out_rank[i], p->out_shape + MOST * i,
                       p->out_type[i], &outputs[i]);
    for (int32_t i = 0; well && i < p->inputs; ++i)
        well = wrapped(slots, x[i], p->in_bytes[i], p->in_rank[i], p->in_shape + MOST * i,
                       p->in_type[i], &inputs[i]);
    well = well &&
           good(ort->Run((OrtSession *)slots[SESSION], NULL, names, (const OrtValue *const *)inputs,
                         (size_t)p->inputs, results, (size_t)p->outputs, outputs));
    for (int i = 0; i < MOST; ++i) {
        if (outputs[i] != NULL)
            ort->ReleaseValue(outputs[i]);
        if (inputs[i] != NULL)
            ort->ReleaseValue(inputs[i]);
    }
    return well ? AOT_OK : AOT_VENDOR;
}
