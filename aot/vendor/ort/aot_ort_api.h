/* SPDX-License-Identifier: MIT-0 */
/* The part of onnxruntime's C interface that aot_ort.c calls, declared here because Python's wheel
 * has the library without headers. The table of functions only grows from version to version: all
 * that is named here has been at its place since version 1. */
#ifndef AOT_ORT_API_H
#define AOT_ORT_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct OrtStatus OrtStatus;
typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtValue OrtValue;

/* A status is NULL where all went well. Numbers in the names of gaps are the places before which
 * these end. */
typedef struct OrtApi {
    void *until_3[3];
    OrtStatus *(*CreateEnv)(int level, const char *name, OrtEnv **env);
    void *until_8[4];
    OrtStatus *(*CreateSessionFromArray)(const OrtEnv *env, const void *model, size_t bytes,
                                         const OrtSessionOptions *options, OrtSession **session);
    OrtStatus *(*Run)(OrtSession *session, const OrtRunOptions *options, const char *const *names,
                      const OrtValue *const *inputs, size_t count, const char *const *results,
                      size_t wanted, OrtValue **outputs);
    OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **options);
    void *until_24[13];
    OrtStatus *(*SetIntraOpNumThreads)(OrtSessionOptions *options, int threads);
    void *until_49[24];
    OrtStatus *(*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo *memory, void *data,
                                                 size_t bytes, const int64_t *shape, size_t rank,
                                                 int type, OrtValue **value);
    void *until_69[19];
    OrtStatus *(*CreateCpuMemoryInfo)(int allocator, int kind, OrtMemoryInfo **memory);
    void *until_92[22];
    void (*ReleaseEnv)(OrtEnv *env);
    void (*ReleaseStatus)(OrtStatus *status);
    void (*ReleaseMemoryInfo)(OrtMemoryInfo *memory);
    void (*ReleaseSession)(OrtSession *session);
    void (*ReleaseValue)(OrtValue *value);
    void *until_100[3];
    void (*ReleaseSessionOptions)(OrtSessionOptions *options);
} OrtApi;

/* GetApi gives NULL for a version that is newer than the library. */
typedef struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
} OrtApiBase;

const OrtApiBase *OrtGetApiBase(void);

#ifdef __cplusplus
}
#endif

#endif /* AOT_ORT_API_H */
