/* SPDX-License-Identifier: MIT-0 */
/* Part of runner.c: counts the instructions of runs and the stack they use (--repeat). */
#ifndef AOT_BOARD_MEASURE_H
#define AOT_BOARD_MEASURE_H

/* Fill what is free of the stack, far enough below this very function's frame. */
ALONE static void paint(void) {
    volatile uint32_t *p = (volatile uint32_t *)(void *)aot_stack_limit;
    const volatile uint32_t *const end = (const volatile uint32_t *)__builtin_frame_address(0) - 8;
    for (; p < end; ++p) {
        *p = PAINT;
    }
}

/* Bytes of the stack that were used since. */
static uintptr_t stack_used(void) {
    const uint32_t *p = (const uint32_t *)(const void *)aot_stack_limit;
    const uint32_t *const end = (const uint32_t *)(const void *)aot_stack_top;
    while (p < end && *p == PAINT) {
        ++p;
    }
    return (uintptr_t)end - (uintptr_t)p;
}

ALONE static void value(intptr_t file, const char *before, uint64_t number_) {
    char digits[20];
    const char *text = aot_hex(digits + sizeof digits, number_);
    (void)ask(WRITE, file, before, length(before));
    (void)ask(WRITE, file, text, length(text));
}

ALONE static intptr_t report_file(void) {
    const intptr_t report = (intptr_t)setting('r', 0);
    return report != 0 ? report : open_file(":tt", WRITE_BINARY);
}

ALONE static void finish(intptr_t file) {
    (void)ask(WRITE, file, "\"}\n", 3);
    (void)ask(CLOSE, file, NULL, 0);
}

#ifdef aot_model_step
/* Ticks of the longest step of a run. */
ALONE static uint64_t longest_step(void) {
    uint64_t most = 0, ticks;
    aot_status status;
    load(0, 1, 0);
    do {
        aot_count_start();
#if AOT_MODEL_IO_ARENA
        status = aot_model_step(&context, NULL, NULL, AOT_MODEL_STEP);
#else
        status = aot_model_step(&context, inputs, outputs, AOT_MODEL_STEP);
#endif
        ticks = aot_count();
        most = ticks > most ? ticks : most;
    } while (status == AOT_MORE);
    check(status, "step: status ");
    return most;
}
#endif

/* Ticks of nothing and of each run as hexadecimal text, and the stack. Little is kept while the
 * model runs: it would count as its stack. */
ALONE static void measure(uint32_t repeat, uint32_t warmup) {
    const intptr_t file = report_file();
    uint32_t i = warmup + repeat;
    uintptr_t most = 0;
    aot_count_start();
    value(file, "{\"ticks\":[\"", aot_count());
    for (; i > 0; --i) {
        uint64_t ticks;
        uintptr_t used;
        load(0, 1, 0);
        paint();
        aot_count_start();
        run();
        ticks = aot_count();
        used = stack_used();
        most = used > most ? used : most;
        if (i <= repeat) {
            value(file, "\",\"", ticks);
        }
    }
    value(file, "\"],\"stack\":\"", most);
#ifdef aot_model_step
    value(file, "\",\"longest_step\":\"", longest_step());
#endif
    finish(file);
}

#endif /* AOT_BOARD_MEASURE_H */
