/* SPDX-License-Identifier: MIT-0 */
/* Part of runner.c: what an image does without arguments, on vectors of the user's or on numbers
 * that are made up.
 */
#ifndef AOT_BOARD_SELF_TEST_H
#define AOT_BOARD_SELF_TEST_H

#ifdef AOT_MODEL_SELFTEST
static void report(const char *what, int32_t number_) {
    aot_print(what);
    aot_print_decimal((uint32_t)number_);
}

/* Every sample in turn, in one context; what differs is told by numbers from 0 on. */
ALONE static void self_test(void) {
    int k, i;
    for (k = 0; k < AOT_SELFTEST_SAMPLES; ++k) {
        const aot_spec *spec;
        for (i = 0; i < AOT_MODEL_INPUTS; ++i) {
            unsigned char *const data = (unsigned char *)place(i, &spec);
            if (spec->bytes > 0) {
                (void)memcpy(data, selftest_in[k][i], spec->bytes);
            }
#if AOT_MODEL_EXTENTS
            set_shape(i, spec, selftest_shape[k][i]);
#endif
        }
        run();
        for (i = 0; i < AOT_MODEL_OUTPUTS; ++i) {
            const unsigned char *const data = (unsigned char *)place(AOT_MODEL_INPUTS + i, &spec);
            const unsigned char *const want = selftest_out[k][i];
            const int32_t at =
                want != NULL ? selftest_differs(data, want, spec, selftest_tolerance[i]) : -1;
            if (at < 0) {
                continue;
            }
            aot_print(model);
            report("self-test: sample ", k);
            report(", output ", i);
            report(" differs at element ", at);
            aot_print("\n");
            aot_exit(1);
        }
    }
    aot_print(model);
    report("self-test passed, samples ", AOT_SELFTEST_SAMPLES);
    aot_print("\n");
}
#else
static uint32_t test_run(void) {
    uint32_t sum = 2166136261U;
    size_t k;
    int i;
#if AOT_MODEL_CARRIED
    check(aot_model_reset_state(&context), "reset: status ");
#endif
    load(0, 1, 1);
    run();
    for (i = 0; i < AOT_MODEL_OUTPUTS; ++i) {
        const aot_spec *spec;
        const unsigned char *data = (const unsigned char *)place(AOT_MODEL_INPUTS + i, &spec);
        for (k = 0; k < spec->bytes; ++k) {
            sum = (sum ^ data[k]) * 16777619U;
        }
    }
    return sum;
}

ALONE static void self_test(void) {
    const uint32_t first = test_run();
    if (test_run() != first) {
        die(1, "two runs gave different outputs", "");
    }
    aot_print(model);
    aot_print("ran twice, outputs ");
    aot_print_hex(first);
    aot_print("\n");
}
#endif

#endif /* AOT_BOARD_SELF_TEST_H */
