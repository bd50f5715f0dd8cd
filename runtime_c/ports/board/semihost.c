/* SPDX-License-Identifier: MIT-0 */
/* Preparing memory, and text and exit by semihosting: the same on every board. */
#include "board.h"

#define SYS_WRITE0 0x04
#define SYS_EXIT_EXTENDED 0x20
#define APPLICATION_EXIT 0x20026

#define GUARD 0x5AFEC0DEU /* at the end of the stack; the runner paints with the same */

#ifdef __thumb__
#define CODE_BIT 1U /* of every return address */
#else
#define CODE_BIT 0U
#endif

int main(void);
void *memset(void *data, int value, size_t bytes);

/* In place of libc's, which is three times as large. */
void *memset(void *data, int value, size_t bytes) {
    const uint32_t byte = (unsigned char)value, word = byte * 0x01010101U;
    unsigned char *p = (unsigned char *)data, *const end = p + bytes;
    while (p < end && ((uintptr_t)p & 3U) != 0) {
        *p++ = (unsigned char)byte;
    }
    for (; end - p >= 4; p += 4) {
        *(uint32_t *)(void *)p = word;
    }
    while (p < end) {
        *p++ = (unsigned char)byte;
    }
    return data;
}

void aot_print(const char *text) {
    (void)aot_semihost(SYS_WRITE0, text);
}

char *aot_hex(char *end, uint64_t value) {
    *--end = '\0';
    do {
        *--end = "0123456789abcdef"[value & 15U];
        value >>= 4;
    } while (value != 0);
    *--end = 'x';
    *--end = '0';
    return end;
}

void aot_print_decimal(uint32_t value) {
    char text[11], *first = text + sizeof text;
    *--first = '\0';
    do {
        *--first = (char)('0' + value % 10U);
        value /= 10U;
    } while (value != 0);
    aot_print(first);
}

void aot_print_hex(uintptr_t value) {
    char text[20];
    aot_print(aot_hex(text + sizeof text, value));
}

void aot_exit(int code) {
    const uintptr_t arguments[2] = {APPLICATION_EXIT, (uintptr_t)code};
    (void)aot_semihost(SYS_EXIT_EXTENDED, arguments);
    for (;;) {
    }
}

/* Words of a section from `source`, or zeros; not memcpy, which may be large. */
__attribute__((noinline)) static void set(unsigned char *begin, const unsigned char *end,
                                          const unsigned char *source) {
    uint32_t *to = (uint32_t *)(void *)begin;
    const uint32_t *from = (const uint32_t *)(const void *)source;
    while (to < (const uint32_t *)(const void *)end) {
        *to++ = from != NULL ? *from++ : 0;
    }
}

__attribute__((used)) void aot_start(void) { /* start-up code calls it, in assembly */
    volatile uint32_t *const guard = (volatile uint32_t *)(void *)aot_stack_limit;
    int code;
    guard[0] = guard[1] = GUARD;
    set(aot_data_start, aot_data_end, aot_data_load);
    set(aot_hot_start, aot_hot_end, aot_hot_load);
    set(aot_bss_start, aot_bss_end, NULL);
    set(aot_arena_start, aot_arena_end, NULL);
    code = main();
    if (guard[0] != GUARD || guard[1] != GUARD) {
        aot_print("fault: stack overflow\n");
        code = 1;
    }
    aot_exit(code);
}

/* Whether a word of the stack may be a return address. */
static int is_code(uintptr_t word) {
    const int slow = word > (uintptr_t)aot_code_start + 64 && word < (uintptr_t)aot_code_end;
    const int hot = word > (uintptr_t)aot_hot_start && word < (uintptr_t)aot_hot_end;
    return (slow || hot) && (word & CODE_BIT) == CODE_BIT;
}

void aot_fault_end(const uintptr_t *stack) {
    const uintptr_t *const top = (const uintptr_t *)(const void *)aot_stack_top;
    int shown = 0;
    if (stack < (const uintptr_t *)(const void *)aot_stack_limit) {
        aot_print(" stack overflow");
    } else {
        for (; stack < top && shown < 12; ++stack) {
            if (is_code(*stack)) {
                aot_print(shown == 0 ? " stack " : " ");
                aot_print_hex(*stack);
                ++shown;
            }
        }
    }
    aot_print("\n");
    aot_exit(1);
}
