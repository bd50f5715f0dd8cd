/* SPDX-License-Identifier: MIT-0 */
/* Shapes of broadcast operands that the tests of elementwise kernels share. */
#ifndef AOT_TESTS_BROADCASTS_H
#define AOT_TESTS_BROADCASTS_H

#include "aot_broadcast.h"
#include "check.h"

#define BROADCAST_CASES 12

/* An iteration space and, per operand, which of its axes it has (the others are broadcast). */
typedef struct broadcast {
    int64_t dims[6];
    int has[3][6];
} broadcast;

#define ALL                                                                                        \
    { 1, 1, 1, 1, 1, 1 }
#define NONE                                                                                       \
    { 0, 0, 0, 0, 0, 0 }
#define LAST                                                                                       \
    { 0, 0, 0, 0, 0, 1 }
#define ROWS                                                                                       \
    { 1, 1, 1, 1, 1, 0 }
static const broadcast broadcasts[BROADCAST_CASES] = {
    {{1, 1, 1, 1, 1, 1}, {ALL, ALL, ALL}},
    {{1, 1, 1, 1, 1, 16}, {ALL, ALL, NONE}},
    {{1, 1, 1, 1, 1, 37}, {ALL, ALL, ALL}},
    {{1, 1, 1, 1, 3, 5}, {ALL, NONE, LAST}},
    {{1, 1, 1, 1, 4, 17}, {NONE, ALL, ROWS}},
    {{1, 1, 1, 2, 3, 8}, {ALL, LAST, ALL}},
    {{1, 1, 1, 2, 3, 9}, {ROWS, ALL, ALL}},
    {{1, 1, 1, 2, 3, 4}, {LAST, ROWS, ROWS}},
    {{2, 3, 2, 2, 3, 3}, {ALL, {1, 0, 1, 0, 1, 1}, {0, 1, 0, 1, 0, 1}}},
    {{2, 1, 3, 1, 2, 7}, {{0, 1, 1, 0, 1, 0}, ALL, NONE}},
    {{1, 1, 2, 0, 3, 4}, {ALL, ALL, ALL}},
    {{1, 1, 1, 1, 5, 1}, {ALL, ALL, ROWS}},
};
#undef ALL
#undef NONE
#undef LAST
#undef ROWS

static AOT_UNUSED ptrdiff_t broadcast_elements(const broadcast *b) {
    ptrdiff_t n = 1;
    for (int d = 0; d < 6; ++d) {
        n *= (ptrdiff_t)b->dims[d];
    }
    return n;
}

/* The strides of an operand with rows of its own axes; how many elements it has. */
static AOT_UNUSED ptrdiff_t broadcast_strides(const broadcast *b, int operand, int64_t *strides) {
    ptrdiff_t n = 1;
    for (int d = 5; d >= 0; --d) {
        strides[d] = b->has[operand][d] ? (int64_t)n : 0;
        n *= b->has[operand][d] ? (ptrdiff_t)b->dims[d] : 1;
    }
    return n;
}

/* Where element `i` of the result, counted in rows, finds its value in an operand. */
static AOT_UNUSED ptrdiff_t broadcast_at(const broadcast *b, const int64_t *strides, ptrdiff_t i) {
    ptrdiff_t at = 0;
    for (int d = 5; d >= 0; --d) {
        at += i % (ptrdiff_t)b->dims[d] * (ptrdiff_t)strides[d];
        i /= (ptrdiff_t)b->dims[d];
    }
    return at;
}

#endif /* AOT_TESTS_BROADCASTS_H */
