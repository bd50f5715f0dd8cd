/* SPDX-License-Identifier: MIT-0 */
/* Runs the cases of a batch one after the other; the batch defines `cases` and `case_count`.
 *
 * Every buffer is a heap block of its exact size, inputs and outputs only element-aligned, arenas
 * full of ones (NaN), gaps between tensors poisoned: AddressSanitizer sees every stray access.
 *
 *   batch IN OUT FIRST    run the cases from number FIRST on
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void __asan_poison_memory_region(void const volatile *at, size_t bytes);
void __asan_unpoison_memory_region(void const volatile *at, size_t bytes);

static void die(const char *why) {
    fprintf(stderr, "fuzz: %s\n", why);
    exit(3);
}

/* `n` bytes, `off` bytes behind an address of the strictest alignment. */
static unsigned char *take(size_t n, size_t off, void **block) {
    void *p = NULL;
    if (posix_memalign(&p, 64, n + off + (n + off == 0)) != 0)
        die("out of memory");
    memset(p, 0xFF, n + off);
    *block = p;
    return (unsigned char *)p + off;
}

static void poison(unsigned char *base, const fuzz_range *gaps, int n) {
    int i;
    for (i = 0; i < n; ++i)
        __asan_poison_memory_region(base + gaps[i].at, gaps[i].bytes);
}

static void run(const fuzz_case *c, const unsigned char *data, FILE *file) {
    void *blocks[2 + 64];
    const unsigned char *in[64];
    unsigned char *out[64], *arena, *weights;
    int used = 0, i, status;
    if (c->inputs + c->outputs > 62)
        die("too many inputs");
    for (i = 0; i < c->inputs; ++i) {
        unsigned char *p = take(c->ends[i].bytes, c->ends[i].elem, &blocks[used++]);
        memcpy(p, data, c->ends[i].bytes);
        data += c->ends[i].bytes;
        in[i] = p;
    }
    for (; i < c->inputs + c->outputs; ++i)
        out[i - c->inputs] = take(c->ends[i].bytes, c->ends[i].elem, &blocks[used++]);
    weights = take(c->weights, 0, &blocks[used++]);
    if (c->weights)
        memcpy(weights, data, c->weights);
    arena = take(c->arena, 0, &blocks[used++]);
    for (i = 0; i < c->zeros; ++i)
        memset(arena + c->zero[i].at, 0, c->zero[i].bytes);
    poison(weights, c->weight_gap, c->weight_gaps);
    poison(arena, c->arena_gap, c->arena_gaps);
    *c->place = weights;
    status = c->execute(arena, in, out);
    for (i = 1; i < c->steps && status == 0; ++i)
        status = c->execute(arena, in, out);
    __asan_unpoison_memory_region(arena, c->arena);
    __asan_unpoison_memory_region(weights, c->weights);
    fwrite(&status, 1, sizeof status, file);
    for (i = 0; i < c->outputs; ++i)
        fwrite(out[i], 1, c->ends[c->inputs + i].bytes, file);
    for (i = 0; i < c->reads; ++i)
        fwrite(arena + c->read[i].at, 1, c->read[i].bytes, file);
    fflush(file);
    while (used)
        free(blocks[--used]);
}

int main(int argc, char **argv) {
    FILE *in, *out;
    unsigned char *data;
    long size;
    int k;
    if (argc != 4 || (in = fopen(argv[1], "rb")) == NULL || (out = fopen(argv[2], "wb")) == NULL)
        return 2;
    fseek(in, 0, SEEK_END);
    size = ftell(in);
    rewind(in);
    data = malloc((size_t)size + 1);
    if (data == NULL || fread(data, 1, (size_t)size, in) != (size_t)size)
        return 2;
    fclose(in);
    for (k = atoi(argv[3]); k < case_count; ++k)
        run(&cases[k], data + cases[k].data, out);
    free(data);
    return fclose(out);
}
