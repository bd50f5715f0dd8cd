/* SPDX-License-Identifier: MIT-0 */
/* Runs a model on files, for POSIX hosts.
 *
 *   NAME [--input I=FILE].. [--extents I=FILE].. [--output I=FILE].. [--shape I=FILE]..
 *        [--fill SEED] [--repeat N [--warmup W]] [--steps N] [--trace DIR] [--profile N] [--info]
 *
 * Without arguments, where the bundle holds test vectors: a self-test.
 * Files are raw little-endian row-major bytes; with --steps they hold that many tensors, one for
 * each run. An output whose shape depends on the data is written at its bound, elements first, then
 * zeros; --shape writes its true extents (int64). In the same way the files of inputs are as long
 * as their bounds say; --extents reads true ones (int64). --repeat and --profile print one line of
 * JSON.
 * --trace and --profile need the build with AOT_TRACE. Exit status: 0, 1 failed, 2 usage. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1 /* madvise */
#endif
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "model.h"

#ifdef AOT_TRACE
#include "aot_trace.h"
extern aot_trace_fn *aot_model_trace_fn;
extern void *aot_model_trace_user;
#define HAS_TRACE 1
#else
#define HAS_TRACE 0
#endif

#define IN (AOT_MODEL_INPUTS > 0 ? AOT_MODEL_INPUTS : 1)
#define OUT (AOT_MODEL_OUTPUTS > 0 ? AOT_MODEL_OUTPUTS : 1)
#ifdef AOT_MODEL_SELFTEST
#include "selftest.h"
#endif

#define CALLS (AOT_MODEL_CALLS > 0 ? AOT_MODEL_CALLS : 1)

typedef struct options {
    const char *input[IN];
    const char *extents[IN];
    const char *output[OUT];
    const char *shape[OUT];
    const char *trace;
    long repeat;
    long warmup;
    long profile;
    long steps;
    long seed;
    int fill;
    int info;
} options;

static void die(int code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fprintf(stderr, "%s: ", AOT_MODEL_NAME);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(code);
}

/* -- Command line -------------------------------------------------------------------------------
 */

static long integer(const char *option, const char *text, long least) {
    char *end;
    long value;
    errno = 0;
    value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > 100000000L)
        die(2, "%s %s: not an integer from %ld on", option, text, least);
    return value;
}

static void file_option(const char *option, const char *text, const char **files, int count) {
    char *end;
    const long index = strtol(text, &end, 10);
    if (end == text || *end != '=' || end[1] == '\0')
        die(2, "%s %s: write I=FILE", option, text);
    if (index < 0 || index >= count)
        die(2, "%s %s: there are %d", option, text, count);
    files[index] = end + 1;
}

static void value_option(options *o, const char *name, const char *value) {
    if (strcmp(name, "--input") == 0) {
        file_option(name, value, o->input, AOT_MODEL_INPUTS);
    } else if (strcmp(name, "--extents") == 0) {
        file_option(name, value, o->extents, AOT_MODEL_INPUTS);
    } else if (strcmp(name, "--output") == 0) {
        file_option(name, value, o->output, AOT_MODEL_OUTPUTS);
    } else if (strcmp(name, "--shape") == 0) {
        file_option(name, value, o->shape, AOT_MODEL_OUTPUTS);
    } else if (strcmp(name, "--repeat") == 0) {
        o->repeat = integer(name, value, 1);
    } else if (strcmp(name, "--warmup") == 0) {
        o->warmup = integer(name, value, 0);
    } else if (strcmp(name, "--profile") == 0) {
        o->profile = integer(name, value, 1);
    } else if (strcmp(name, "--steps") == 0) {
        o->steps = integer(name, value, 1);
    } else if (strcmp(name, "--fill") == 0) {
        o->seed = integer(name, value, 0);
        o->fill = 1;
    } else if (strcmp(name, "--trace") == 0) {
        o->trace = value;
    } else {
        die(2, "unknown option %s", name);
    }
}

static void parse(options *o, int argc, char **argv) {
    int i;
    (void)memset(o, 0, sizeof *o);
    o->warmup = 1;
    o->steps = 1;
    for (i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--info") == 0) {
            o->info = 1;
            continue;
        }
        if (strncmp(argv[i], "--", 2) != 0)
            die(2, "unexpected argument %s", argv[i]);
        if (i + 1 == argc)
            die(2, "%s: needs a value (or is unknown)", argv[i]);
        value_option(o, argv[i], argv[i + 1]);
        ++i;
    }
    if (!HAS_TRACE && (o->trace != NULL || o->profile > 0))
        die(2, "--trace and --profile need the program %s-trace", AOT_MODEL_NAME);
    if ((o->trace != NULL) + (o->profile > 0) + (o->repeat > 0) > 1)
        die(2, "only one of --repeat, --trace and --profile at a time");
}

/* -- Memory and files ---------------------------------------------------------------------------
 */

static void *blocks[2 * IN + 2 * OUT + 8];
static size_t block_count;

/* Zeroed memory for `bytes` bytes at a multiple of `align`, which lives until `free_memory`. */
static void *memory(size_t align, size_t bytes) {
    void *p = NULL;
    const size_t huge = (size_t)2 << 20; /* the pages that Linux may use for large blocks */
    const size_t least = align < sizeof(void *) ? sizeof(void *) : align;
    const size_t size = bytes > 0 ? bytes : 1;
    if (posix_memalign(&p, size > 2 * huge && least < huge ? huge : least, size) != 0)
        die(1, "no memory for %zu bytes", bytes);
    blocks[block_count++] = p;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (size > 2 * huge)
        (void)madvise(p, size, MADV_HUGEPAGE);
#endif
    (void)memset(p, 0, size);
    return p;
}

static void free_memory(void) {
    while (block_count > 0)
        free(blocks[--block_count]);
}

/* Tensor number `step` of the `steps` that the file holds. */
static void read_file(const char *path, void *data, size_t bytes, long step, long steps) {
    FILE *f = fopen(path, "rb");
    size_t got = 0;
    long i;
    int more;
    if (f == NULL)
        die(1, "cannot open %s: %s", path, strerror(errno));
    for (i = 0; i <= step; ++i)
        got = fread(data, 1, bytes, f);
    more = step + 1 == steps && fgetc(f) != EOF;
    (void)fclose(f);
    if (got != bytes || more)
        die(1, "%s has %s bytes than the %zu of the tensor", path, more ? "more" : "fewer", bytes);
}

static void write_file(const char *path, const char *mode, const void *data, size_t bytes) {
    FILE *f = fopen(path, mode);
    if (f == NULL)
        die(1, "cannot write %s: %s", path, strerror(errno));
    if (fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0)
        die(1, "cannot write %s: %s", path, strerror(errno));
}

/* Values that every model accepts: floats in [-1, 1), integers 0 or 1. */
static void fill(unsigned char *data, const aot_spec *spec, uint64_t *state) {
    const size_t element = spec->align;
    size_t i;
    (void)memset(data, 0, spec->bytes);
    for (i = 0; i + element <= spec->bytes; i += element) {
        uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
        if (spec->code == kDLFloat && spec->bits == 32) {
            const float v = (float)((double)(z >> 11) * 0x1p-52 - 1.0);
            (void)memcpy(data + i, &v, sizeof v);
        } else if (spec->code == kDLFloat && spec->bits == 64) {
            const double v = (double)(z >> 11) * 0x1p-52 - 1.0;
            (void)memcpy(data + i, &v, sizeof v);
        } else if (spec->code == kDLFloat || spec->code == kDLBfloat) {
            /* 1.0 or 0.0 as 16 bits */
            const uint16_t one = spec->code == kDLFloat ? 0x3c00U : 0x3f80U;
            const uint16_t v = (z & 1U) != 0 ? one : 0;
            (void)memcpy(data + i, &v, sizeof v);
        } else {
            const uint16_t probe = 1;
            const int little = *(const unsigned char *)&probe == 1;
            data[little ? i : i + element - 1] = (unsigned char)(z & 1U);
        }
    }
}

/* -- Timing -------------------------------------------------------------------------------------
 */

static int64_t now(clockid_t clock) {
    struct timespec t;
    if (clock_gettime(clock, &t) != 0)
        die(1, "clock_gettime: %s", strerror(errno));
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static int64_t median(int64_t *values, size_t count) {
    qsort(values, count, sizeof values[0], ascending);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void print_list(const char *name, const int64_t *values, long count) {
    long i;
    printf("\"%s\":[", name);
    for (i = 0; i < count; ++i)
        printf("%s%" PRId64, i > 0 ? "," : "", values[i]);
    printf("]");
}

static void print_summary(const char *name, int64_t *values, long count) {
    const int64_t middle = median(values, (size_t)count);
    printf(",\"%s_median_ns\":%" PRId64 ",\"%s_min_ns\":%" PRId64 ",\"%s_max_ns\":%" PRId64, name,
           middle, name, values[0], name, values[count - 1]);
}

/* -- Running ------------------------------------------------------------------------------------
 */

typedef struct state {
    aot_model_context context;
    DLTensor in[IN];
    DLTensor out[OUT];
    const DLTensor *inputs[IN];
    DLTensor *outputs[OUT];
} state;

/* Strides of a tensor without gaps. */
static void stride(DLTensor *t) {
    int64_t step = 1;
    int32_t i;
    for (i = t->ndim - 1; i >= 0; --i) {
        t->strides[i] = step;
        step *= t->shape[i];
    }
}

static DLTensor tensor(const aot_spec *spec) {
    DLTensor t;
    int64_t *extents = (int64_t *)memory(64, 2 * (size_t)spec->ndim * sizeof(int64_t));
    int32_t i;
    (void)memset(&t, 0, sizeof t);
    t.data = memory(64, spec->bytes);
    t.device.device_type = kDLCPU;
    t.ndim = spec->ndim;
    t.dtype.code = spec->code;
    t.dtype.bits = spec->bits;
    t.dtype.lanes = 1;
    t.shape = extents;
    t.strides = extents + spec->ndim;
    for (i = 0; i < spec->ndim; ++i)
        t.shape[i] = aot_model_extents[spec->extents + i];
    stride(&t);
    return t;
}

/* The inputs of run number `step`. */
static void load(state *s, const options *o, long step) {
    uint64_t seed = (uint64_t)o->seed;
    int i;
    for (i = 0; i < AOT_MODEL_INPUTS; ++i) {
        if (o->input[i] != NULL)
            read_file(o->input[i], s->in[i].data, aot_model_input_specs[i].bytes, step, o->steps);
        else if (o->fill)
            fill((unsigned char *)s->in[i].data, &aot_model_input_specs[i], &seed);
        else
            die(2, "input %d is missing: --input %d=FILE, or --fill SEED", i, i);
        if (o->extents[i] != NULL) {
            const size_t bytes = (size_t)s->in[i].ndim * sizeof s->in[i].shape[0];
            read_file(o->extents[i], s->in[i].shape, bytes, step, o->steps);
            stride(&s->in[i]);
        }
    }
}

static void store(const state *s, const options *o, long step) {
    const char *const mode = step > 0 ? "ab" : "wb";
    int i;
    for (i = 0; i < AOT_MODEL_OUTPUTS; ++i) {
        const aot_spec *spec = &aot_model_output_specs[i];
        if (o->output[i] != NULL)
            write_file(o->output[i], mode, s->out[i].data, spec->bytes);
        if (o->shape[i] != NULL) {
            int64_t *shape = s->out[i].shape; /* the bounds are put back for the next run */
            const aot_status status = aot_model_output_shape(&s->context, i, shape);
            int32_t axis;
            if (status != AOT_OK)
                die(1, "shape: %s", aot_status_text(status));
            write_file(o->shape[i], mode, shape, (size_t)spec->ndim * sizeof shape[0]);
            for (axis = 0; axis < spec->ndim; ++axis)
                shape[axis] = aot_model_extents[spec->extents + axis];
        }
    }
}

static void prepare(state *s, const options *o) {
    aot_status status;
    int i;
    for (i = 0; i < AOT_MODEL_INPUTS; ++i) {
        s->in[i] = tensor(&aot_model_input_specs[i]);
        s->inputs[i] = &s->in[i];
    }
    load(s, o, 0);
    for (i = 0; i < AOT_MODEL_OUTPUTS; ++i) {
        s->out[i] = tensor(&aot_model_output_specs[i]);
        s->outputs[i] = &s->out[i];
    }
    status = aot_model_init(&s->context, memory(AOT_MODEL_ARENA_ALIGN, AOT_MODEL_ARENA_BYTES),
                            AOT_MODEL_ARENA_BYTES);
    if (status != AOT_OK)
        die(1, "init: %s", aot_status_text(status));
}

static void run(state *s) {
    const aot_status status = aot_model_run(&s->context, s->inputs, s->outputs);
    if (status != AOT_OK)
        die(1, "run: %s", aot_status_text(status));
}

static void repeat(state *s, const options *o) {
    const size_t size = (size_t)o->repeat * sizeof(int64_t);
    int64_t *cpu = (int64_t *)memory(64, size), *wall = (int64_t *)memory(64, size);
    long i;
    for (i = 0; i < o->warmup; ++i)
        run(s);
    for (i = 0; i < o->repeat; ++i) {
        wall[i] = now(CLOCK_MONOTONIC);
        cpu[i] = now(CLOCK_THREAD_CPUTIME_ID);
        run(s);
        cpu[i] = now(CLOCK_THREAD_CPUTIME_ID) - cpu[i];
        wall[i] = now(CLOCK_MONOTONIC) - wall[i];
    }
    printf("{\"name\":\"%s\",\"runs\":%ld,", AOT_MODEL_NAME, o->repeat);
    print_list("cpu_ns", cpu, o->repeat);
    printf(",");
    print_list("wall_ns", wall, o->repeat);
    print_summary("cpu", cpu, o->repeat);
    print_summary("wall", wall, o->repeat);
    printf("}\n");
}

static void info(void) {
    int i;
    printf("{\"name\":\"%s\",\"arena_bytes\":%zu,\"inputs\":[", AOT_MODEL_NAME,
           (size_t)AOT_MODEL_ARENA_BYTES);
    for (i = 0; i < AOT_MODEL_INPUTS; ++i)
        printf("%s%zu", i > 0 ? "," : "", aot_model_input_specs[i].bytes);
    printf("],\"outputs\":[");
    for (i = 0; i < AOT_MODEL_OUTPUTS; ++i)
        printf("%s%zu", i > 0 ? "," : "", aot_model_output_specs[i].bytes);
    printf("]}\n");
}

#ifdef AOT_TRACE
#include "trace.h"
#else

static void trace(state *s, const options *o) {
    (void)s;
    (void)o;
}

static void profile(state *s, const options *o) {
    (void)s;
    (void)o;
}

#endif

#ifdef AOT_MODEL_SELFTEST
/* Every sample in turn, in one context. */
static void self_test(state *s) {
    options none;
    int k, i;
    (void)memset(&none, 0, sizeof none);
    none.fill = 1;
    prepare(s, &none);
    for (k = 0; k < AOT_SELFTEST_SAMPLES; ++k) {
        for (i = 0; i < AOT_MODEL_INPUTS; ++i)
            if (aot_model_input_specs[i].bytes > 0)
                (void)memcpy(s->in[i].data, selftest_in[k][i], aot_model_input_specs[i].bytes);
#if AOT_MODEL_EXTENTS
        for (i = 0; i < AOT_MODEL_INPUTS; ++i)
            if (s->in[i].ndim <= 8) {
                (void)memcpy(s->in[i].shape, selftest_shape[k][i],
                             (size_t)s->in[i].ndim * sizeof s->in[i].shape[0]);
                stride(&s->in[i]);
            }
#endif
        run(s);
        for (i = 0; i < AOT_MODEL_OUTPUTS; ++i) {
            const unsigned char *want = selftest_out[k][i];
            const int32_t at =
                want != NULL ? selftest_differs((const unsigned char *)s->out[i].data, want,
                                                &aot_model_output_specs[i], selftest_tolerance[i])
                             : -1;
            if (at >= 0)
                die(1, "self-test: sample %d, output %d differs at element %" PRId32, k, i, at);
        }
    }
    printf("%s: self-test passed, samples %d\n", AOT_MODEL_NAME, AOT_SELFTEST_SAMPLES);
}
#endif

int main(int argc, char **argv) {
    static state s;
    options o;
    long step;
#ifdef AOT_MODEL_SELFTEST
    if (argc == 1) {
        self_test(&s);
        aot_model_shutdown(&s.context);
        free_memory();
        return fflush(stdout) == 0 ? 0 : 1;
    }
#endif
    parse(&o, argc, argv);
    if (o.info) {
        info();
        return 0;
    }
    prepare(&s, &o);
    if (o.repeat > 0)
        repeat(&s, &o);
    else if (o.trace != NULL)
        trace(&s, &o);
    else if (o.profile > 0)
        profile(&s, &o);
    else
        run(&s);
    store(&s, &o, 0);
    for (step = 1; step < o.steps; ++step) {
        load(&s, &o, step);
        run(&s);
        store(&s, &o, step);
    }
    aot_model_shutdown(&s.context);
    free_memory();
    return fflush(stdout) == 0 ? 0 : 1;
}
