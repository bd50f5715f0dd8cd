/* SPDX-License-Identifier: MIT-0 */
/* Part of runner.c in the build with AOT_TRACE: writes what every call leaves (--trace DIR), or how
 * long it takes (--profile N). */
#ifndef AOT_HOST_TRACE_H
#define AOT_HOST_TRACE_H

typedef struct dumping {
    const char *folder;
    FILE *index;
} dumping;

/* DIR/rCALL_K.bin, if there is such a file, takes the place of what the call wrote. */
static void put_back(const dumping *d, int32_t call, int32_t k, void *data, size_t bytes) {
    char path[4096];
    FILE *f;
    if (snprintf(path, sizeof path, "%s/r%" PRId32 "_%" PRId32 ".bin", d->folder, call, k) >=
        (int)sizeof path) {
        die(1, "%s: path too long", d->folder);
    }
    f = fopen(path, "rb");
    if (f == NULL) {
        return;
    }
    (void)fclose(f);
    read_file(path, data, bytes, 0, 1);
}

static void dump(void *user, int32_t call, int32_t k, const char *name, const void *data,
                 size_t bytes) {
    const dumping *d = (const dumping *)user;
    char path[4096];
    if (k < 0) {
        return;
    }
    if (snprintf(path, sizeof path, "%s/%" PRId32 "_%" PRId32 ".bin", d->folder, call, k) >=
        (int)sizeof path) {
        die(1, "%s: path too long", d->folder);
    }
    write_file(path, "wb", data, bytes);
    fprintf(d->index,
            "{\"call\":%" PRId32 ",\"k\":%" PRId32 ",\"tensor\":\"%s\",\"bytes\":%zu,"
            "\"file\":\"%" PRId32 "_%" PRId32 ".bin\"}\n",
            call, k, name, bytes, call, k);
    put_back(d, call, k, (void *)(uintptr_t)data, bytes);
}

static void trace(state *s, const options *o) {
    dumping d;
    char path[4096];
    d.folder = o->trace;
    if (snprintf(path, sizeof path, "%s/index.jsonl", o->trace) >= (int)sizeof path) {
        die(1, "%s: path too long", o->trace);
    }
    d.index = fopen(path, "w");
    if (d.index == NULL) {
        die(1, "cannot write %s: %s", path, strerror(errno));
    }
    aot_model_trace_fn = dump;
    aot_model_trace_user = &d;
    run(s);
    aot_model_trace_fn = NULL;
    if (fclose(d.index) != 0) {
        die(1, "cannot write %s: %s", path, strerror(errno));
    }
}

typedef struct profiling {
    int64_t *cpu;  /* [call][run] */
    int64_t *wall; /* [call][run] */
    long runs;
    long at;
    int64_t last_cpu;
    int64_t last_wall;
} profiling;

static void restart(profiling *p) {
    p->last_wall = now(CLOCK_MONOTONIC);
    p->last_cpu = now(CLOCK_THREAD_CPUTIME_ID);
}

static void stamp(void *user, int32_t call, int32_t k, const char *name, const void *data,
                  size_t bytes) {
    profiling *p = (profiling *)user;
    (void)name;
    (void)data;
    (void)bytes;
    if (k > 0) { /* once per call */
        return;
    }
    p->cpu[call * p->runs + p->at] = now(CLOCK_THREAD_CPUTIME_ID) - p->last_cpu;
    p->wall[call * p->runs + p->at] = now(CLOCK_MONOTONIC) - p->last_wall;
    restart(p);
}

static void profile(state *s, const options *o) {
    profiling p;
    int i;
    p.runs = o->profile;
    p.cpu = (int64_t *)memory(64, (size_t)CALLS * (size_t)p.runs * sizeof(int64_t));
    p.wall = (int64_t *)memory(64, (size_t)CALLS * (size_t)p.runs * sizeof(int64_t));
    for (i = 0; i < o->warmup; ++i) {
        run(s);
    }
    aot_model_trace_fn = stamp;
    aot_model_trace_user = &p;
    for (p.at = 0; p.at < p.runs; ++p.at) {
        restart(&p);
        run(s);
    }
    aot_model_trace_fn = NULL;
    printf("{\"name\":\"%s\",\"runs\":%ld,\"calls\":[", AOT_MODEL_NAME, p.runs);
    for (i = 0; i < AOT_MODEL_CALLS; ++i) {
        printf("%s{\"call\":%d,\"cpu_median_ns\":%" PRId64 ",\"wall_median_ns\":%" PRId64 "}",
               i > 0 ? "," : "", i, median(p.cpu + i * p.runs, (size_t)p.runs),
               median(p.wall + i * p.runs, (size_t)p.runs));
    }
    printf("]}\n");
}

#endif /* AOT_HOST_TRACE_H */
