/* SPDX-License-Identifier: MIT-0 */
/* Part of runner.c in the build with AOT_TRACE: writes what every call leaves (--trace DIR, where
 * files may replace it), or how many ticks it takes (--profile FILE). */
#ifndef AOT_BOARD_TRACE_H
#define AOT_BOARD_TRACE_H

static char path[256];
static intptr_t list; /* DIR/index.jsonl, or FILE */
static uint64_t stamp;

/* `number_` in decimal at `at`; gives the end. */
static char *decimal(char *at, uint32_t number_) {
    char digits[11], *c = digits + sizeof digits;
    *--c = '\0';
    do {
        *--c = (char)('0' + number_ % 10);
        number_ /= 10;
    } while (number_ != 0);
    (void)strcpy(at, c);
    return at + length(at);
}

static void item(const char *key, const char *text) {
    (void)ask(WRITE, list, key, length(key));
    (void)ask(WRITE, list, text, length(text));
}

/* DIR/rCALL_K.bin, if there is such a file, takes the place of what the call wrote. `file` is
 * CALL_K.bin in `path`, `end` its dot. */
static void put_back(char *file, const char *end, const void *data, size_t bytes) {
    const size_t letters = (size_t)(end - file) + 5; /* with .bin and the end */
    intptr_t arguments[3] = {(intptr_t)path, READ_BINARY, 0}, found;
    size_t i;
    for (i = letters; i > 0; --i) {
        file[i] = file[i - 1];
    }
    file[0] = 'r';
    arguments[2] = (intptr_t)length(path);
    found = aot_semihost(OPEN, arguments);
    if (found >= 0) {
        if (bytes > 0 && ask(READ, found, data, bytes) != 0) {
            die(1, "cannot read ", path);
        }
        (void)ask(CLOSE, found, NULL, 0);
    }
    for (i = 0; i < letters; ++i) {
        file[i] = file[i + 1];
    }
}

static void dump(void *user, int32_t call, int32_t k, const char *name, const void *data,
                 size_t bytes) {
    char digits[12];
    char *const file = path + *(const size_t *)user, *end;
    if (k < 0) {
        return;
    }
    end = decimal(file, (uint32_t)call);
    *end++ = '_';
    end = decimal(end, (uint32_t)k);
    (void)strcpy(end, ".bin");
    write_file(path, data, bytes, 0);
    put_back(file, end, data, bytes);
    (void)decimal(digits, (uint32_t)call);
    item("{\"call\":", digits);
    (void)decimal(digits, (uint32_t)k);
    item(",\"k\":", digits);
    item(",\"tensor\":\"", name);
    (void)decimal(digits, (uint32_t)bytes);
    item("\",\"bytes\":", digits);
    item(",\"file\":\"", file);
    item("\"}\n", "");
}

/* Ticks since the last call. */
static void tick(void *user, int32_t call, int32_t k, const char *name, const void *data,
                 size_t bytes) {
    const uint64_t now = aot_count();
    (void)user;
    (void)name;
    (void)data;
    (void)bytes;
    if (k <= 0) { /* once per call */
        value(list, call > 0 ? "\",\"" : "{\"calls\":[\"", now - stamp);
        stamp = aot_count();
    }
}

/* A run, and the reports that were asked for. */
static void traced(void) {
    static size_t folder;
    request r;
    begin(&r, 't');
    r.data = path;
    r.bytes = sizeof path - 40;
    (void)look(&r);
    list = (intptr_t)setting('p', 0);
    if (r.found) {
        (void)strcat(path, "/");
        folder = length(path);
        (void)strcat(path, "index.jsonl");
        list = open_file(path, WRITE_BINARY);
        aot_model_trace_fn = dump;
        aot_model_trace_user = &folder;
    } else if (list != 0) {
        aot_model_trace_fn = tick;
        aot_count_start();
        stamp = aot_count();
    }
    run();
    if (aot_model_trace_fn == tick) {
        item("\"]}\n", "");
    }
    aot_model_trace_fn = NULL;
    if (list != 0) {
        (void)ask(CLOSE, list, NULL, 0);
    }
}

#endif /* AOT_BOARD_TRACE_H */
