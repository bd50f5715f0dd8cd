/* SPDX-License-Identifier: MIT-0 */
/* Runs a model on files of the debugging host, by semihosting, on boards.
 *
 *   NAME [--input I=FILE].. [--output I=FILE].. [--fill SEED] [--repeat N [--warmup W]]
 *        [--report FILE] [--trace DIR]
 *
 * Files are raw little-endian row-major bytes; names have no spaces. --repeat writes one line of
 * JSON to --report. --trace needs the build with AOT_TRACE. Without arguments: two runs on made-up
 * inputs must give the same outputs, whose checksum is printed. Exit status: 0, 1 failed, 2 usage.
 */
#include "board.h"

#include <string.h>

#include "model.h"

#ifdef AOT_TRACE
#include "aot_trace.h"
extern aot_trace_fn *aot_model_trace_fn;
extern void *aot_model_trace_user;
#endif

#define IN (AOT_MODEL_INPUTS > 0 ? AOT_MODEL_INPUTS : 1)
#define OUT (AOT_MODEL_OUTPUTS > 0 ? AOT_MODEL_OUTPUTS : 1)
#define WORDS (2 * (IN + OUT) + 12)
#define LINE (24 * (IN + OUT) + 200)
#define PAINT 0x5AFEC0DEU

typedef struct options {
    const char *input[IN];
    const char *output[OUT];
    const char *trace;
    const char *report;
    uint32_t repeat;
    uint32_t warmup;
    uint32_t seed;
    int fill;
} options;

static options asked;
static aot_model_context context;
static DLTensor tensors[IN + OUT];
static const DLTensor *inputs[IN];
static DLTensor *outputs[OUT];
static AOT_ALIGNED(16) unsigned char io[AOT_MODEL_IO_BYTES > 0 ? AOT_MODEL_IO_BYTES : 1];

static void die(int code, const char *what, const char *which) {
    aot_print(AOT_MODEL_NAME ": ");
    aot_print(what);
    aot_print(which);
    aot_print("\n");
    aot_exit(code);
}

/* -- Files ----------------------------------------------------------------------------------------
 */

enum { OPEN = 1, CLOSE = 2, WRITE = 5, READ = 6, LENGTH = 12, COMMAND_LINE = 21 };
enum { READ_BINARY = 1, WRITE_BINARY = 5 };

static intptr_t open_file(const char *path, intptr_t mode) {
    const intptr_t arguments[3] = {(intptr_t)path, mode, (intptr_t)strlen(path)};
    const intptr_t file = aot_semihost(OPEN, arguments);
    if (file < 0)
        die(1, "cannot open ", path);
    return file;
}

/* Gives how many bytes were left to do. */
static intptr_t transfer(intptr_t operation, intptr_t file, const void *data, size_t bytes) {
    const intptr_t arguments[3] = {file, (intptr_t)data, (intptr_t)bytes};
    return bytes > 0 ? aot_semihost(operation, arguments) : 0;
}

static void close_file(intptr_t file) {
    const intptr_t arguments[1] = {file};
    (void)aot_semihost(CLOSE, arguments);
}

static void read_file(const char *path, void *data, size_t bytes) {
    const intptr_t file = open_file(path, READ_BINARY);
    const intptr_t arguments[1] = {file};
    if (aot_semihost(LENGTH, arguments) != (intptr_t)bytes)
        die(1, "not as many bytes as the tensor: ", path);
    if (transfer(READ, file, data, bytes) != 0)
        die(1, "cannot read ", path);
    close_file(file);
}

static void put(intptr_t file, const void *data, size_t bytes, const char *path) {
    if (transfer(WRITE, file, data, bytes) != 0)
        die(1, "cannot write ", path);
}

static void write_file(const char *path, const void *data, size_t bytes) {
    const intptr_t file = open_file(path, WRITE_BINARY);
    put(file, data, bytes, path);
    close_file(file);
}

/* -- Command line -------------------------------------------------------------------------------
 */

/* The number `text` begins with, or -1; `end` is what follows. */
static int32_t number(const char *text, const char **end) {
    int32_t value = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9'; ++c) {
        if (value > 99999999)
            return -1;
        value = 10 * value + (*c - '0');
    }
    *end = c;
    return c == text ? -1 : value;
}

static uint32_t integer(const char *text) {
    const char *end;
    const int32_t value = number(text, &end);
    if (value < 0 || *end != '\0')
        die(2, "not a number: ", text);
    return (uint32_t)value;
}

static void file_option(const char *text, const char **files, int count) {
    const char *end;
    const int32_t index = number(text, &end);
    if (index < 0 || *end != '=' || end[1] == '\0')
        die(2, "write I=FILE: ", text);
    if (index >= count)
        die(2, "there are not so many: ", text);
    files[index] = end + 1;
}

static void value_option(const char *name, const char *value) {
    if (strcmp(name, "--input") == 0) {
        file_option(value, asked.input, AOT_MODEL_INPUTS);
    } else if (strcmp(name, "--output") == 0) {
        file_option(value, asked.output, AOT_MODEL_OUTPUTS);
    } else if (strcmp(name, "--repeat") == 0) {
        asked.repeat = integer(value);
    } else if (strcmp(name, "--warmup") == 0) {
        asked.warmup = integer(value);
    } else if (strcmp(name, "--report") == 0) {
        asked.report = value;
    } else if (strcmp(name, "--fill") == 0) {
        asked.seed = integer(value);
        asked.fill = 1;
#ifdef AOT_TRACE
    } else if (strcmp(name, "--trace") == 0) {
        asked.trace = value;
#endif
    } else {
        die(2, "unknown option ", name);
    }
}

/* Gives whether there were arguments. */
static int parse(void) {
    static char line[LINE];
    const char *words[WORDS];
    intptr_t arguments[2];
    int count = 0, i;
    char *c;
    arguments[0] = (intptr_t)line;
    arguments[1] = LINE;
    asked.warmup = 1;
    if (aot_semihost(COMMAND_LINE, arguments) != 0)
        return 0; /* nobody listens */
    for (c = line; *c != '\0';) {
        while (*c == ' ')
            *c++ = '\0';
        if (*c == '\0')
            break;
        if (count == WORDS)
            die(2, "too many arguments", "");
        words[count++] = c;
        while (*c != ' ' && *c != '\0')
            ++c;
    }
    for (i = 1; i + 1 < count; i += 2)
        value_option(words[i], words[i + 1]);
    if (i < count)
        die(2, "needs a value (or is unknown): ", words[i]);
    return count > 1;
}

/* -- Running ------------------------------------------------------------------------------------
 */

/* Values that every model accepts: floats of magnitude 0.5 to 1, integers 0 or 1. */
static void fill(unsigned char *data, const aot_spec *spec, uint32_t *state) {
    const size_t element = spec->align;
    size_t i;
    memset(data, 0, spec->bytes);
    for (i = 0; i + element <= spec->bytes; i += element) {
        uint32_t z = *state += 0x9E3779B9U;
        z = (z ^ (z >> 16)) * 0x85EBCA6BU;
        z = (z ^ (z >> 13)) * 0xC2B2AE35U;
        z ^= z >> 16;
        if (spec->code == kDLFloat && spec->bits == 32)
            z = (z & 0x807FFFFFU) | 0x3F000000U;
        else if (spec->code == kDLFloat && spec->bits == 64)
            z = (z & 0x800FFFFFU) | 0x3FE00000U;
        else if (spec->code == kDLFloat)
            z = (z & 0x83FFU) | 0x3800U;
        else if (spec->code == kDLBfloat)
            z = (z & 0x807FU) | 0x3F00U;
        else
            z &= 1U;
        if (element == 8 && spec->code == kDLFloat)
            memcpy(data + i + 4, &z, 4);
        else
            memcpy(data + i, &z, element < 4 ? element : 4);
    }
}

static unsigned char *tensor(DLTensor *t, const aot_spec *spec, unsigned char *place) {
    t->data = place;
    t->device.device_type = kDLCPU;
    t->ndim = spec->ndim;
    t->dtype.code = spec->code;
    t->dtype.bits = spec->bits;
    t->dtype.lanes = 1;
    t->shape = (int64_t *)(uintptr_t)(aot_model_extents + spec->extents); /* only read */
    return place + (spec->bytes + 15) / 16 * 16;
}

static void prepare(void) {
    uint32_t seed = asked.seed;
    unsigned char *place = io;
    aot_status status;
    int i;
    for (i = 0; i < AOT_MODEL_INPUTS; ++i) {
        const aot_spec *spec = &aot_model_input_specs[i];
        place = tensor(&tensors[i], spec, place);
        inputs[i] = &tensors[i];
        if (asked.input[i] != NULL)
            read_file(asked.input[i], tensors[i].data, spec->bytes);
        else if (asked.fill)
            fill((unsigned char *)tensors[i].data, spec, &seed);
        else
            die(2, "an input is missing: --input I=FILE for each, or --fill SEED", "");
    }
    for (i = 0; i < AOT_MODEL_OUTPUTS; ++i) {
        place = tensor(&tensors[IN + i], &aot_model_output_specs[i], place);
        outputs[i] = &tensors[IN + i];
    }
    status = aot_model_init(&context, NULL, 0);
    if (status != AOT_OK)
        die(1, "init: ", aot_status_text(status));
}

static void run(void) {
    const aot_status status = aot_model_run(&context, inputs, outputs);
    if (status != AOT_OK)
        die(1, "run: ", aot_status_text(status));
}

static uint32_t checksum(void) {
    uint32_t sum = 2166136261U;
    size_t k;
    int i;
    for (i = 0; i < AOT_MODEL_OUTPUTS; ++i)
        for (k = 0; k < aot_model_output_specs[i].bytes; ++k)
            sum = (sum ^ ((const unsigned char *)tensors[IN + i].data)[k]) * 16777619U;
    return sum;
}

static void self_test(void) {
    uint32_t first;
    asked.fill = 1;
    prepare();
    run();
    first = checksum();
    run();
    if (checksum() != first)
        die(1, "two runs gave different outputs", "");
    aot_print(AOT_MODEL_NAME ": ran twice, outputs ");
    aot_print_hex(first);
    aot_print("\n");
}

/* -- Measuring ------------------------------------------------------------------------------------
 */

/* Fill what is free of the stack, far enough below this very function's frame. */
__attribute__((noinline)) static void paint(void) {
    volatile uint32_t *p = (volatile uint32_t *)(void *)aot_stack_limit;
    const volatile uint32_t *const end = (const volatile uint32_t *)__builtin_frame_address(0) - 32;
    for (; p < end; ++p)
        *p = PAINT;
}

/* Bytes of the stack that were used since. */
static uintptr_t stack_used(void) {
    const uint32_t *p = (const uint32_t *)(const void *)aot_stack_limit;
    const uint32_t *const end = (const uint32_t *)(const void *)aot_stack_top;
    while (p < end && *p == PAINT)
        ++p;
    return (uintptr_t)end - (uintptr_t)p;
}

static void text(intptr_t file, const char *words) {
    put(file, words, strlen(words), asked.report);
}

static void value(intptr_t file, const char *before, uint64_t number_) {
    char digits[20];
    text(file, before);
    text(file, "\"");
    text(file, aot_hex(digits + sizeof digits, number_));
    text(file, "\"");
}

/* Ticks of each run as hexadecimal text, those of nothing, and the stack. */
static void measure(void) {
    const intptr_t file = open_file(asked.report != NULL ? asked.report : ":tt", WRITE_BINARY);
    uint64_t began, ended;
    uint32_t i;
    aot_count_start();
    for (i = 0; i < asked.warmup; ++i)
        run();
    began = aot_count();
    ended = aot_count();
    value(file, "{\"name\":\"" AOT_MODEL_NAME "\",\"empty\":", ended - began);
    text(file, ",\"ticks\":[");
    paint();
    for (i = 0; i < asked.repeat; ++i) {
        began = aot_count();
        run();
        ended = aot_count();
        value(file, i > 0 ? "," : "", ended - began);
    }
    value(file, "],\"stack\":", stack_used());
    text(file, "}\n");
    close_file(file);
}

#ifdef AOT_TRACE

typedef struct dumping {
    intptr_t index;
    char path[256];
} dumping;

/* `value` in decimal at `at`; gives the end. */
static char *decimal(char *at, uint32_t number_) {
    char digits[11], *c = digits + sizeof digits;
    *--c = '\0';
    do {
        *--c = (char)('0' + number_ % 10);
        number_ /= 10;
    } while (number_ != 0);
    strcpy(at, c);
    return at + strlen(at);
}

static void item(dumping *d, const char *key, const char *text_) {
    put(d->index, key, strlen(key), "the index");
    put(d->index, text_, strlen(text_), "the index");
}

static void dump(void *user, int32_t call, int32_t k, const char *name, const void *data,
                 size_t bytes) {
    dumping *d = (dumping *)user;
    char digits[12];
    char *file = d->path + strlen(asked.trace) + 1, *end;
    if (k < 0)
        return;
    end = decimal(file, (uint32_t)call);
    *end++ = '_';
    end = decimal(end, (uint32_t)k);
    strcpy(end, ".bin");
    write_file(d->path, data, bytes);
    (void)decimal(digits, (uint32_t)call);
    item(d, "{\"call\":", digits);
    (void)decimal(digits, (uint32_t)k);
    item(d, ",\"k\":", digits);
    item(d, ",\"tensor\":\"", name);
    (void)decimal(digits, (uint32_t)bytes);
    item(d, "\",\"bytes\":", digits);
    item(d, ",\"file\":\"", file);
    item(d, "\"}\n", "");
}

static void trace(void) {
    static dumping d;
    const size_t length = strlen(asked.trace);
    if (length + 40 > sizeof d.path)
        die(2, "path too long: ", asked.trace);
    memcpy(d.path, asked.trace, length);
    strcpy(d.path + length, "/index.jsonl");
    d.index = open_file(d.path, WRITE_BINARY);
    aot_model_trace_fn = dump;
    aot_model_trace_user = &d;
    run();
    aot_model_trace_fn = NULL;
    close_file(d.index);
}

#endif

int main(void) {
    int i;
    if (!parse()) {
        self_test();
        return 0;
    }
    prepare();
#ifdef AOT_TRACE
    if (asked.trace != NULL)
        trace();
    else
#endif
        if (asked.repeat > 0)
        measure();
    else
        run();
    aot_model_shutdown(&context);
    for (i = 0; i < AOT_MODEL_OUTPUTS; ++i)
        if (asked.output[i] != NULL)
            write_file(asked.output[i], tensors[IN + i].data, aot_model_output_specs[i].bytes);
    return 0;
}
