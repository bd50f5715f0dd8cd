/* SPDX-License-Identifier: MIT-0 */
/* Elements whose type does not matter, only their size: what the tests of data movement share. */
#ifndef AOT_TESTS_ELEMENTS_H
#define AOT_TESTS_ELEMENTS_H

#include "check.h"

/* y[i] = x[j] for elements of `size` bytes. */
static AOT_UNUSED void put(void *y, int64_t i, const void *x, int64_t j, int size) {
    (void)memcpy((unsigned char *)y + i * size, (const unsigned char *)x + j * size, (size_t)size);
}

/* A buffer of n elements of any bytes. */
static AOT_UNUSED uint8_t *some_elements(int64_t n, int size) {
    uint8_t *x = NEW(uint8_t, n * size);
    for (int64_t i = 0; i < n * size; ++i) {
        x[i] = (uint8_t)check_random();
    }
    return x;
}

/* An index tensor of I bytes per element (4 or 8). */
static AOT_UNUSED void *indices(const int64_t *from, int64_t n, int I) {
    int32_t *narrow = NEW(int32_t, n);
    int64_t *wide = NEW(int64_t, n);
    for (int64_t i = 0; i < n; ++i) {
        narrow[i] = (int32_t)from[i];
        wide[i] = from[i];
    }
    return I == 4 ? (void *)narrow : (void *)wide;
}

#endif /* AOT_TESTS_ELEMENTS_H */
