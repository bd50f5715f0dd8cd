/* SPDX-License-Identifier: MIT-0 */
/* Runs a model on files of the debugging host, by semihosting, on boards.
 *
 *   NAME [--input I=FILE].. [--extents I=FILE].. [--output I=FILE].. [--shape I=FILE]..
 *        [--fill 0] [--steps N] [--repeat N [--warmup W]] [--report FILE] [--trace DIR]
 *        [--profile FILE]
 *
 * Files are raw little-endian row-major bytes; names have no spaces. With --steps they hold that
 * many tensors, one for each run. --repeat writes one line of JSON to --report, and what the last
 * run gave. --trace and --profile need the build with AOT_TRACE. Without arguments the image tests
 * itself. Exit status: 0, 1 failed, 2 usage.
 *
 * The arguments are asked for again whenever one is needed: nothing of them stays in memory.
 */
#include "board.h"

#include <string.h>

#include "../host/model.h" /* a model may be called "model" */

#ifdef AOT_TRACE
#include "aot_trace.h"
extern aot_trace_fn *aot_model_trace_fn;
extern void *aot_model_trace_user;
#endif

#define IN (AOT_MODEL_INPUTS > 0 ? AOT_MODEL_INPUTS : 1)
#define OUT (AOT_MODEL_OUTPUTS > 0 ? AOT_MODEL_OUTPUTS : 1)
#ifdef AOT_MODEL_SELFTEST
#include "selftest.h"
#endif

#define LINE (24 * (IN + OUT + AOT_MODEL_SHAPES + (AOT_MODEL_EXTENTS > 0 ? IN : 0)) + 200)
#define PAINT 0x5AFEC0DEU
/* A function whose variables are not on the stack while the model runs. */
#define ALONE __attribute__((noinline))

static aot_model_context context;
#if !AOT_MODEL_IO_ARENA
static DLTensor tensors[IN + OUT];
static const DLTensor *inputs[IN];
static DLTensor *outputs[OUT];
static AOT_ALIGNED(16) unsigned char io[AOT_MODEL_IO_BYTES > 0 ? AOT_MODEL_IO_BYTES : 1];
#if AOT_MODEL_EXTENTS
static int64_t shapes[IN][8]; /* what has more axes has none that a run says */
#endif
#endif

static const char model[] = AOT_MODEL_NAME ": ";

static void die(int code, const char *what, const char *which) {
    aot_print(model);
    aot_print(what);
    aot_print(which);
    aot_print("\n");
    aot_exit(code);
}

/* Like strlen and strcmp, whose fast versions are larger than all of this. */
static size_t length(const char *text) {
    const char *end = text;
    while (*end != '\0') {
        ++end;
    }
    return (size_t)(end - text);
}

static int same(const char *a, const char *b) {
    for (; *a != '\0' && *a == *b; ++a) {
        ++b;
    }
    return *a == *b;
}

/* -- Files --------------------------------------------------------------------------------------
 */

enum { OPEN = 1, CLOSE = 2, WRITE = 5, READ = 6, SEEK = 10, LENGTH = 12, COMMAND_LINE = 21 };
enum { READ_BINARY = 1, UPDATE_BINARY = 3, WRITE_BINARY = 5 };

static intptr_t ask(intptr_t operation, intptr_t file, const void *data, size_t bytes) {
    const intptr_t arguments[3] = {file, (intptr_t)data, (intptr_t)bytes};
    return aot_semihost(operation, arguments);
}

static intptr_t open_file(const char *path, intptr_t mode) {
    const intptr_t arguments[3] = {(intptr_t)path, mode, (intptr_t)length(path)};
    const intptr_t file = aot_semihost(OPEN, arguments);
    if (file < 0) {
        die(1, "cannot open ", path);
    }
    return file;
}

/* Part number `step` of `steps` of a file. */
static void read_file(const char *path, void *data, size_t bytes, uint32_t step, uint32_t steps) {
    const intptr_t file = open_file(path, READ_BINARY);
    if (ask(LENGTH, file, NULL, 0) != (intptr_t)(bytes * steps)) {
        die(1, "wrong size: ", path);
    }
    if (bytes > 0) {
        (void)ask(SEEK, file, (const void *)(uintptr_t)(bytes * step), 0);
        if (ask(READ, file, data, bytes) != 0) {
            die(1, "cannot read ", path);
        }
    }
    (void)ask(CLOSE, file, NULL, 0);
}

static void write_file(const char *path, const void *data, size_t bytes, uint32_t step) {
    const intptr_t file = open_file(path, step > 0 ? UPDATE_BINARY : WRITE_BINARY);
    if (step > 0) {
        (void)ask(SEEK, file, (const void *)(uintptr_t)(bytes * step), 0);
    }
    if (bytes > 0 && ask(WRITE, file, data, bytes) != 0) {
        die(1, "cannot write ", path);
    }
    (void)ask(CLOSE, file, NULL, 0);
}

/* -- Command line -------------------------------------------------------------------------------
 */

/* What the arguments are looked through for. */
typedef struct request {
    char letter; /* see `known`; 0 checks all arguments */
    int index;   /* of the input or output */
    void *data;  /* of it, or room for the text of --trace */
    size_t bytes;
    uint32_t step;
    uint32_t steps;
    uint32_t value; /* the number, or the file that was opened */
    int found;
} request;

/* A request with nothing else in it; not {0}, for which compilers call memset. */
static void begin(request *r, char letter) {
    r->letter = letter;
    r->index = 0;
    r->data = NULL;
    r->bytes = 0;
    r->step = 0;
    r->steps = 1;
    r->value = 0;
    r->found = 0;
}

/* The number `text` begins with, or -1; `end` is what follows. */
static int32_t number(const char *text, const char **end) {
    int32_t value = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9'; ++c) {
        if (value > 99999999) {
            return -1;
        }
        value = 10 * value + (*c - '0');
    }
    *end = c;
    return c == text ? -1 : value;
}

/* Each option's name, what it takes (t: I=FILE of a tensor, n: a number, f: a file to write,
 * w: a word) and its letter. */
static const char known[] = "--input\0ti--output\0to--steps\0ns--repeat\0nn--warmup\0nw"
                            "--fill\0nf--report\0fr"
#if AOT_MODEL_SHAPES
                            "--shape\0td"
#endif
#if AOT_MODEL_EXTENTS
                            "--extents\0te"
#endif
#ifdef AOT_TRACE
                            "--trace\0wt--profile\0fp"
#endif
    ;

static const char *kind_of(const char *name) {
    const char *at = known;
    for (; *at != '\0'; at += length(at) + 3) {
        if (same(at, name)) {
            return at + length(at) + 1;
        }
    }
    die(2, "unknown option ", name);
    return NULL;
}

static void option(const char *name, const char *text, request *r) {
    const char *const how = kind_of(name);
    const char kind = how[0];
    const char *end;
    const int32_t value = number(text, &end);
    if (kind == 'n' && (value < 0 || *end != '\0')) {
        die(2, "not a number: ", text);
    }
    if (kind == 't') {
        if (value < 0 || *end != '=' || end[1] == '\0') {
            die(2, "write I=FILE: ", text);
        }
        if (value >= (how[1] == 'i' || how[1] == 'e' ? AOT_MODEL_INPUTS : AOT_MODEL_OUTPUTS)) {
            die(2, "no such tensor: ", text);
        }
    }
    if (r->letter != how[1] || (kind == 't' && value != r->index)) {
        return;
    }
    if (kind == 't') {
        if (how[1] == 'i' || how[1] == 'e') {
            read_file(end + 1, r->data, r->bytes, r->step, r->steps);
        } else {
            write_file(end + 1, r->data, r->bytes, r->step);
        }
    } else if (kind == 'f') {
        r->value = (uint32_t)open_file(text, WRITE_BINARY);
#ifdef AOT_TRACE
    } else if (kind == 'w') {
        if (length(text) >= r->bytes) {
            die(2, "path too long: ", text);
        }
        (void)strcpy((char *)r->data, text);
#endif
    } else {
        r->value = (uint32_t)value;
    }
    r->found = 1;
}

/* Look through the arguments; gives whether there were any. */
ALONE static int look(request *r) {
    char line[LINE];
    char *c = line, *name = NULL;
    int count = 0;
    const intptr_t arguments[2] = {(intptr_t)line, LINE};
    if (aot_semihost(COMMAND_LINE, arguments) != 0) {
        return 0; /* nobody listens */
    }
    while (*c != '\0') {
        char *const word = c;
        int last;
        while (*c != ' ' && *c != '\0') {
            ++c;
        }
        last = *c == '\0';
        *c = '\0';
        c += !last;
        if (*word == '\0') {
            continue;
        }
        if (count++ % 2 != 0) {
            name = word;
        } else if (name != NULL) {
            option(name, word, r);
        }
    }
    if (count > 1 && count % 2 == 0) {
        die(2, "needs a value: ", name);
    }
    return count > 1;
}

ALONE static uint32_t setting(char letter, uint32_t otherwise) {
    request r;
    begin(&r, letter);
    (void)look(&r);
    return r.found ? r.value : otherwise;
}

/* -- Running ------------------------------------------------------------------------------------
 */

static void *place(int i, const aot_spec **spec) {
    const int o = i - AOT_MODEL_INPUTS;
    *spec = o < 0 ? &aot_model_input_specs[i] : &aot_model_output_specs[o];
#if AOT_MODEL_IO_ARENA
    return o < 0 ? aot_model_input(&context, i) : aot_model_output(&context, o);
#else
    return tensors[i].data;
#endif
}

/* Values that every model accepts: floats of small magnitude, integers 0 and 1. Elements have one,
 * two, four or eight bytes. */
static void fill(unsigned char *data, const aot_spec *spec) {
    const size_t mask = (size_t)spec->align - 1;
    const int real = spec->code == kDLFloat || spec->code == kDLBfloat;
    size_t i;
    for (i = 0; i < spec->bytes; ++i) {
        const unsigned char odd = (unsigned char)((i & (mask + 1)) != 0);
        const unsigned char byte = real ? (unsigned char)(0x3CU | odd << 7) : odd;
        data[i] = (i & mask) == (real ? mask : 0) ? byte : 0;
    }
}

/* The texts of all statuses would be a large part of the image: `aotc run` adds them. */
static void check(aot_status status, const char *what) {
    char digits[20];
    if (status != AOT_OK) {
        die(1, what, aot_hex(digits + sizeof digits, (uint64_t)status));
    }
}

ALONE static void prepare(void) {
#if !AOT_MODEL_IO_ARENA
    unsigned char *at = io;
    int i;
    for (i = 0; i < AOT_MODEL_INPUTS + AOT_MODEL_OUTPUTS; ++i) {
        const int o = i - AOT_MODEL_INPUTS;
        const aot_spec *spec = o < 0 ? &aot_model_input_specs[i] : &aot_model_output_specs[o];
        DLTensor *t = &tensors[i];
        t->data = at;
        t->device.device_type = kDLCPU;
        t->ndim = spec->ndim;
        t->dtype.code = spec->code;
        t->dtype.bits = spec->bits;
        t->dtype.lanes = 1;
        t->shape = (int64_t *)(uintptr_t)(aot_model_extents + spec->extents); /* only read */
        at += (spec->bytes + 15) / 16 * 16;
        if (o < 0) {
            inputs[i] = t;
        } else {
            outputs[o] = t;
        }
    }
#endif
    check(aot_model_init(&context, aot_model_arena(), AOT_MODEL_ARENA_BYTES), "init: status ");
}

#if AOT_MODEL_EXTENTS
static void set_shape(int i, const aot_spec *spec, const int64_t *shape) {
    if (spec->ndim > 8) {
        return; /* it is at its bound */
    }
#if AOT_MODEL_IO_ARENA
    check(aot_model_set_input_shape(&context, i, shape), "shape: status ");
#else
    (void)memcpy(shapes[i], shape, (size_t)spec->ndim * sizeof shape[0]);
    tensors[i].shape = shapes[i];
#endif
}

/* The shapes of the inputs that are said; the others are at their bounds. */
ALONE static void load_shapes(uint32_t step, uint32_t steps) {
    request r;
    begin(&r, 'e');
    for (; r.index < AOT_MODEL_INPUTS; ++r.index) {
        const aot_spec *spec = &aot_model_input_specs[r.index];
        int64_t shape[8];
        if (spec->ndim > 8) {
            continue;
        }
        r.data = shape;
        r.bytes = (size_t)spec->ndim * sizeof shape[0];
        r.step = step;
        r.steps = steps;
        r.found = 0;
        (void)look(&r);
        if (r.found) {
            set_shape(r.index, spec, shape);
        }
    }
}
#endif

/* Runs destroy the inputs: they are read before each. */
ALONE static void load(uint32_t step, uint32_t steps, int filled) {
    request r;
#if AOT_MODEL_EXTENTS
    if (!filled) {
        load_shapes(step, steps);
    }
#endif
    begin(&r, 'i');
    for (; r.index < AOT_MODEL_INPUTS; ++r.index) {
        const aot_spec *spec;
        void *const data = place(r.index, &spec);
        r.data = data;
        r.bytes = spec->bytes;
        r.step = step;
        r.steps = steps;
        r.found = 0;
        if (!filled) {
            (void)look(&r);
        }
        if (r.found) {
            continue;
        }
        if (!filled && setting('f', UINT32_MAX) == UINT32_MAX) {
            die(2, "an input is missing", "");
        }
        fill((unsigned char *)data, spec);
    }
}

ALONE static void store(uint32_t step) {
    request r;
    begin(&r, 'o');
    for (; r.index < AOT_MODEL_OUTPUTS; ++r.index) {
        const aot_spec *spec;
        r.data = place(AOT_MODEL_INPUTS + r.index, &spec);
        r.bytes = spec->bytes;
        r.step = step;
        (void)look(&r);
    }
#if AOT_MODEL_SHAPES
    begin(&r, 'd');
    for (; r.index < AOT_MODEL_OUTPUTS; ++r.index) {
        int64_t shape[8]; /* what has more axes cannot depend on the data */
        const int32_t axes = aot_model_output_specs[r.index].ndim;
        if (axes > 8) {
            continue;
        }
        check(aot_model_output_shape(&context, r.index, shape), "shape: status ");
        r.data = shape;
        r.bytes = (size_t)axes * sizeof shape[0];
        r.step = step;
        (void)look(&r);
    }
#endif
}

AOT_INLINE void run(void) {
#if AOT_MODEL_IO_ARENA
    check(aot_model_run(&context, NULL, NULL), "run: status ");
#else
    check(aot_model_run(&context, inputs, outputs), "run: status ");
#endif
}

#include "self_test.h"

#include "measure.h"
#ifdef AOT_TRACE
#include "trace.h"
#endif

/* Whether there are arguments, all of which are checked. */
ALONE static int asked(void) {
    request all;
    begin(&all, 0);
    return look(&all);
}

ALONE static void run_steps(void) {
    const uint32_t steps = setting('s', 1);
    uint32_t step;
    for (step = 0; step < steps; ++step) {
        load(step, steps, 0);
#ifdef AOT_TRACE
        traced();
#else
        run();
#endif
        store(step);
    }
}

ALONE static uint32_t repeats(void) {
    return setting('n', 0);
}

int main(void) {
    const int files = asked();
    prepare();
    if (!files) {
        self_test();
    } else if (repeats() > 0) {
        measure(repeats(), setting('w', 1));
        store(0);
    } else {
        run_steps();
    }
    return 0;
}
