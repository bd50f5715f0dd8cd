/* SPDX-License-Identifier: MIT-0 */
/* The distinct slices of a tensor along an axis, or its distinct elements. */
#ifndef AOT_UNIQUE_H
#define AOT_UNIQUE_H

#include <stdint.h>
#include <string.h>

#include "aot/port.h"

typedef struct aot_unique_params {
    int64_t outer;  /* product of the axes before */
    int64_t axis;   /* slices of x; 1-D for elements: outer = inner = 1 */
    int64_t inner;  /* product of the axes after */
    int32_t sorted; /* 1: ascending, 0: in order of first appearance */
} aot_unique_params;

/* Order of two elements of E bytes and kind K (0 unsigned, 1 signed, 2 float): <0, 0, >0. NaN is
   greater than all else and equal to NaN. */
AOT_INLINE int aot_unique_order(const unsigned char *a, const unsigned char *b, int E, int K) {
    if (K == 2 && E == 4) {
        float x, y;
        (void)memcpy(&x, a, 4);
        (void)memcpy(&y, b, 4);
        return x < y ? -1 : (x > y ? 1 : (x != x) - (y != y));
    }
    if (K == 2) {
        double x, y;
        (void)memcpy(&x, a, 8);
        (void)memcpy(&y, b, 8);
        return x < y ? -1 : (x > y ? 1 : (x != x) - (y != y));
    }
    if (E == 1) {
        const int x = K ? (int8_t)*a : *a, y = K ? (int8_t)*b : *b;
        return (x > y) - (x < y);
    }
    if (E == 2 && K) {
        int16_t x, y;
        (void)memcpy(&x, a, 2);
        (void)memcpy(&y, b, 2);
        return (x > y) - (x < y);
    }
    if (E == 2) {
        uint16_t x, y;
        (void)memcpy(&x, a, 2);
        (void)memcpy(&y, b, 2);
        return (x > y) - (x < y);
    }
    if (E == 4 && K) {
        int32_t x, y;
        (void)memcpy(&x, a, 4);
        (void)memcpy(&y, b, 4);
        return (x > y) - (x < y);
    }
    if (E == 4) {
        uint32_t x, y;
        (void)memcpy(&x, a, 4);
        (void)memcpy(&y, b, 4);
        return (x > y) - (x < y);
    }
    if (K != 0) {
        int64_t x, y;
        (void)memcpy(&x, a, 8);
        (void)memcpy(&y, b, 8);
        return (x > y) - (x < y);
    } else {
        uint64_t x, y;
        (void)memcpy(&x, a, 8);
        (void)memcpy(&y, b, 8);
        return (x > y) - (x < y);
    }
}

/* Order of the slices i and j of x. */
AOT_INLINE int aot_unique_slices(const unsigned char *x, int64_t i, int64_t j,
                                 const aot_unique_params *p, int E, int K) {
    for (int64_t o = 0; o < p->outer; ++o) {
        for (int64_t k = 0; k < p->inner; ++k) {
            const int c = aot_unique_order(x + ((o * p->axis + i) * p->inner + k) * E,
                                           x + ((o * p->axis + j) * p->inner + k) * E, E, K);
            if (c != 0) {
                return c;
            }
        }
    }
    return 0;
}

/* Whether slice i comes before slice j: by content, then by place; by place alone without x. */
AOT_INLINE int aot_unique_before(const unsigned char *x, int64_t i, int64_t j,
                                 const aot_unique_params *p, int E, int K) {
    const int c = x != NULL ? aot_unique_slices(x, i, j, p, E, K) : 0;
    return c != 0 ? c < 0 : i < j;
}

/* Lets the entry at `root` of the heap v [n] sink to where it belongs. */
AOT_INLINE void aot_unique_sink(int64_t *v, int64_t root, int64_t n, const unsigned char *x,
                                const aot_unique_params *p, int E, int K) {
    for (;;) {
        int64_t child = 2 * root + 1, t;
        if (child >= n) {
            return;
        }
        if (child + 1 < n && aot_unique_before(x, v[child], v[child + 1], p, E, K)) {
            ++child;
        }
        if (!aot_unique_before(x, v[root], v[child], p, E, K)) {
            return;
        }
        t = v[root];
        v[root] = v[child];
        v[child] = t;
        root = child;
    }
}

AOT_INLINE void aot_unique_sort(int64_t *v, int64_t n, const unsigned char *x,
                                const aot_unique_params *p, int E, int K) {
    for (int64_t i = n / 2 - 1; i >= 0; --i) {
        aot_unique_sink(v, i, n, x, p, E, K);
    }
    for (int64_t i = n - 1; i > 0; --i) {
        const int64_t t = v[0];
        v[0] = v[i];
        v[i] = t;
        aot_unique_sink(v, 0, i, x, p, E, K);
    }
}

/* x [outer][axis][inner], of which the first m [1] slices are there. y of the same shape = the
   distinct slices; n [1] how many; first [axis] = where each appears first, inverse [axis] = which
   one every slice of x is, counts [axis] = how often each appears. Padding is 0. `order` and
   `group` [axis] are scratch. Heap sort: no worse than axis * log2(axis) comparisons. Not in place.
 */
AOT_INLINE void aot_unique(void *y, int64_t *first, int64_t *inverse, int64_t *counts, int64_t *n,
                           const void *from, const int64_t *m, int64_t *order, int64_t *group,
                           const aot_unique_params *p, int E, int K) {
    const unsigned char *x = (const unsigned char *)from;
    unsigned char *to = (unsigned char *)y;
    const size_t bytes = (size_t)p->axis * sizeof(int64_t);
    const int64_t size = *m < 0 ? 0 : (*m > p->axis ? p->axis : *m);
    int64_t found = 0;
    *n = 0;
    if (p->axis <= 0) {
        return;
    }
    (void)memset(first, 0, bytes);
    (void)memset(inverse, 0, bytes);
    (void)memset(counts, 0, bytes);
    if (p->outer * p->inner > 0) {
        (void)memset(y, 0, (size_t)(p->outer * p->axis * p->inner * E));
    }
    for (int64_t i = 0; i < size; ++i) {
        order[i] = i;
    }
    aot_unique_sort(order, size, x, p, E, K);
    /* group [i] = the first slice equal to slice i. */
    for (int64_t i = 0; i < size; ++i) {
        const int same = i > 0 && aot_unique_slices(x, order[i - 1], order[i], p, E, K) == 0;
        group[order[i]] = same ? group[order[i - 1]] : order[i];
        if (!same) {
            first[found++] = order[i];
        }
    }
    if (!p->sorted) {
        aot_unique_sort(first, found, 0, p, E, K);
    }
    for (int64_t k = 0; k < found; ++k) {
        order[first[k]] = k;
    }
    for (int64_t i = 0; i < size; ++i) {
        inverse[i] = order[group[i]];
        ++counts[inverse[i]];
    }
    for (int64_t o = 0; o < p->outer; ++o) {
        for (int64_t k = 0; k < found; ++k) {
            if (p->inner > 0) {
                (void)memcpy(to + (o * p->axis + k) * p->inner * E,
                             x + (o * p->axis + first[k]) * p->inner * E, (size_t)(p->inner * E));
            }
        }
    }
    *n = found;
}

#endif
