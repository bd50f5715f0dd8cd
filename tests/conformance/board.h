/* SPDX-License-Identifier: MIT-0 */
/* What the executables of the tests need of an operating system, by semihosting on a Cortex-M board.
 * Included before everything else (-include). */
#ifndef CONFORMANCE_BOARD_H
#define CONFORMANCE_BOARD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static intptr_t board_ask(int operation, const void *arguments) {
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = arguments;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

__attribute__((noreturn)) static void board_exit(int code) {
    for (;;)
        (void)board_ask(0x18, (const void *)(code == 0 ? 0x20026 : 0x20023));
}

static FILE *board_open(const char *path, int write) {
    const intptr_t arguments[3] = {(intptr_t)path, write ? 5 : 1, (intptr_t)strlen(path)};
    const intptr_t file = board_ask(1, arguments);
    return file < 0 ? NULL : (FILE *)(file + 1);
}

static size_t board_move(int operation, const void *data, size_t bytes, FILE *file) {
    const intptr_t arguments[3] = {(intptr_t)file - 1, (intptr_t)data, (intptr_t)bytes};
    return bytes - (size_t)board_ask(operation, arguments);
}

static int board_close(FILE *file) {
    const intptr_t argument = (intptr_t)file - 1;
    return (int)board_ask(2, &argument);
}

/* All memory is given back at once. */
extern unsigned char board_heap[], board_heap_end[];
static unsigned char *board_free_from = board_heap;

static int board_take(void **p, size_t align, size_t bytes) {
    unsigned char *at = board_free_from + (align - (uintptr_t)board_free_from % align) % align;
    if (at > board_heap_end || bytes > (size_t)(board_heap_end - at))
        return 1;
    board_free_from = at + bytes;
    *p = at;
    return 0;
}

static void board_give(void) {
    board_free_from = board_heap;
}

int main(int argc, char **argv);
extern unsigned char board_stack[];

__attribute__((used, noreturn)) static void board_reset(void) {
    static char *names[] = {(char *)"", (char *)"in.bin", (char *)"out.bin", NULL};
    *(volatile uint32_t *)0xE000ED88U |= 0xFU << 20; /* the FPU */
    __asm__ volatile("dsb\n\tisb");
    board_exit(main(3, names));
}

__attribute__((used, noreturn)) static void board_fault(void) {
    board_exit(1);
}

__attribute__((used, section(".vectors"))) static const struct {
    unsigned char *stack;
    void (*handlers[6])(void);
} board_vectors = {
    board_stack,
    {board_reset, board_fault, board_fault, board_fault, board_fault, board_fault},
};

#define fopen(path, mode) board_open(path, (mode)[0] == 'w')
#define fread(data, size, count, file) board_move(6, data, (size) * (count), file)
#define fwrite(data, size, count, file) board_move(5, data, (size) * (count), file)
#define fclose(file) board_close(file)
#define fprintf(...) ((void)0)
#define posix_memalign(p, align, bytes) board_take(p, align, bytes)
#define free(p) ((void)(p), board_give())
#define abort() board_exit(1)

#endif
