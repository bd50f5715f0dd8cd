/* SPDX-License-Identifier: MIT-0 */
/* Ensembles of decision trees: aot_trees_<type>(y, x, split, node, leaf, weight, target, root,
 * base, set, p, AGGREGATE, SETS), types f32 and f64.
 *
 * x [rows][features]; node k is {feature, mode | missing << 8, next if true, next if false} with
 * threshold split[k]; a next n >= 0 is a node, else leaf ~n; leaf l has the entries leaf[l] ..
 * leaf[l + 1] - 1 of weight and target; root [trees] as a next. With SETS mode 6 asks whether the
 * feature is among set[(int)split[k] + 1 ..], whose count is set[(int)split[k]].
 * Modes: 0 <=, 1 <, 2 >=, 3 >, 4 ==, 5 !=, 6 member. `missing`: NaN goes the way of true.
 * AGGREGATE 0 mean, 1 sum, 2 min, 3 max over the trees (targets no tree speaks of: 0), then base
 * [targets] (or NULL) is added; y [rows][targets]. No scratch, not in place.
 */
#ifndef AOT_TREES_H
#define AOT_TREES_H

#include <stddef.h>
#include <stdint.h>

#include "aot/port.h"

typedef struct {
    int32_t rows, features, targets, trees;
} aot_trees_params;

#define AOT_TREES(SHORT, T)                                                                        \
    typedef aot_trees_params aot_trees_##SHORT##_params;                                           \
    AOT_INLINE int aot_trees_member_##SHORT(const T *set, T v) {                                   \
        const int32_t count = (int32_t)set[0];                                                     \
        int32_t i;                                                                                 \
        for (i = 1; i <= count; ++i) {                                                             \
            if (set[i] <= v && set[i] >= v) {                                                      \
                return 1;                                                                          \
            }                                                                                      \
        }                                                                                          \
        return 0;                                                                                  \
    }                                                                                              \
    AOT_INLINE int aot_trees_test_##SHORT(T v, T split, int32_t mode, const T *set, int SETS) {    \
        const int above = v > split, below = v < split, same = v >= split && v <= split;           \
        if (SETS && (mode & 255) == 6) {                                                           \
            return aot_trees_member_##SHORT(set + (int32_t)split, v) ||                            \
                   (mode > 255 && !(v <= 0 || v > 0));                                             \
        }                                                                                          \
        if (!(v <= 0 || v > 0)) {                                                                  \
            return mode > 255 || (mode & 255) == 5;                                                \
        }                                                                                          \
        switch (mode & 255) {                                                                      \
        case 0:                                                                                    \
            return below || same;                                                                  \
        case 1:                                                                                    \
            return below;                                                                          \
        case 2:                                                                                    \
            return above || same;                                                                  \
        case 3:                                                                                    \
            return above;                                                                          \
        case 4:                                                                                    \
            return same;                                                                           \
        default:                                                                                   \
            return !same;                                                                          \
        }                                                                                          \
    }                                                                                              \
    /* The leaf that x falls into. */                                                              \
    AOT_INLINE int32_t aot_trees_walk_##SHORT(const T *x, const T *split, const int32_t *node,     \
                                              const T *set, int32_t at, int SETS) {                \
        while (at >= 0) {                                                                          \
            const int32_t *n = node + (ptrdiff_t)at * 4;                                           \
            at = aot_trees_test_##SHORT(x[n[0]], split[at], n[1], set, SETS) ? n[2] : n[3];        \
        }                                                                                          \
        return -1 - at;                                                                            \
    }                                                                                              \
    AOT_INLINE void aot_trees_##SHORT(T *y, const T *x, const T *split, const int32_t *node,       \
                                      const int32_t *leaf, const T *weight, const int32_t *target, \
                                      const int32_t *root, const T *base, const T *set,            \
                                      const aot_trees_params *p, int AGGREGATE, int SETS) {        \
        int32_t r, t, k;                                                                           \
        for (r = 0; r < p->rows; ++r, x += p->features, y += p->targets) {                         \
            for (k = 0; k < p->targets; ++k) {                                                     \
                int seen = 0;                                                                      \
                T total = 0;                                                                       \
                for (t = 0; t < p->trees; ++t) {                                                   \
                    const int32_t l = aot_trees_walk_##SHORT(x, split, node, set, root[t], SETS);  \
                    int32_t e;                                                                     \
                    for (e = leaf[l]; e < leaf[l + 1]; ++e) {                                      \
                        const T w = weight[e];                                                     \
                        if (target[e] != k) {                                                      \
                            continue;                                                              \
                        }                                                                          \
                        total = AGGREGATE < 2                     ? total + w                      \
                                : !seen                           ? w                              \
                                : (AGGREGATE == 2) == (w < total) ? w                              \
                                                                  : total;                         \
                        seen = 1;                                                                  \
                    }                                                                              \
                }                                                                                  \
                total = AGGREGATE == 0 ? total / (T)p->trees : total;                              \
                y[k] = base != NULL ? total + base[k] : total;                                     \
            }                                                                                      \
        }                                                                                          \
    }
AOT_TREES(f32, float)
AOT_TREES(f64, double)

#endif /* AOT_TREES_H */
