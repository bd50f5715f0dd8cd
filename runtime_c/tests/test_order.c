/* SPDX-License-Identifier: MIT-0 */
/* Orders and lists: TopK, Unique, non-maximum suppression, trees, n-grams. */
#include "elements.h"

#include "aot_ngrams.h"
#include "aot_nms_f32.h"
#include "aot_topk.h"
#include "aot_trees.h"
#include "aot_unique.h"

/* Element j is at place r of the order if r others come before it: those that are larger (or
 * smaller), and equal ones with a lower position. */
#define TOPK(SHORT, T, LO, HI)                                                                     \
    static void topk_##SHORT(int k, int largest, int shown) {                                      \
        const aot_topk_params p = {2, 9, 3, k, largest};                                           \
        T *x = NEW(T, 54), *y = NEW(T, 6 * k);                                                     \
        int64_t *at = NEW(int64_t, 6 * k);                                                         \
        check_case("the %d %s of %s", k, largest ? "largest" : "smallest", #SHORT);                \
        for (int i = 0; i < 54; ++i) {                                                             \
            x[i] = (T)check_integer(LO, HI);                                                       \
        }                                                                                          \
        aot_topk_##SHORT(y, shown ? at : NULL, x, &p);                                             \
        for (int i = 0; i < 54; ++i) {                                                             \
            const T *line = x + i / 27 * 27 + i % 3;                                               \
            const int j = i / 3 % 9;                                                               \
            int before = 0;                                                                        \
            for (int o = 0; o < 9; ++o) {                                                          \
                const T v = line[o * 3];                                                           \
                before += (largest ? v > x[i] : v < x[i]) || (v >= x[i] && v <= x[i] && o < j);    \
            }                                                                                      \
            if (before < k) {                                                                      \
                const int to = (i / 27 * k + before) * 3 + i % 3;                                  \
                CHECK(y[to] >= x[i] && y[to] <= x[i]);                                             \
                same_at("position", to, shown ? at[to] : j, j);                                    \
            }                                                                                      \
        }                                                                                          \
        check_free();                                                                              \
    }
TOPK(f32, float, -5, 5)
TOPK(f64, double, -5, 5)
TOPK(s8, int8_t, -128, 127)
TOPK(s16, int16_t, -5, 5)
TOPK(s32, int32_t, -5, 5)
TOPK(s64, int64_t, -5, 5)
TOPK(u8, uint8_t, 0, 255)
TOPK(u16, uint16_t, 0, 9)
TOPK(u32, uint32_t, 0, 9)
TOPK(u64, uint64_t, 0, 9)

/* An element of kind K (0 unsigned, 1 signed, 2 float) as a number; small ones are exact. */
static double number(const uint8_t *p, int E, int K) {
    uint64_t bits = 0;
    float f = 0.0F;
    double d = 0.0;
    for (int b = 0; b < E; ++b) {
        bits |= (uint64_t)p[b] << (8 * b); /* the tests run on little-endian machines */
    }
    if (K == 2) {
        if (E == 4) {
            (void)memcpy(&f, p, sizeof f);
            return (double)f;
        }
        (void)memcpy(&d, p, sizeof d);
        return d;
    }
    return K == 1 && bits >> (8 * E - 1)
               ? -(double)((UINT64_C(0) - bits) & (~UINT64_C(0) >> (64 - 8 * E)))
               : (double)bits;
}

/* <0, 0 or >0; NaN is greater than all else and equal to NaN. */
static int slices(const uint8_t *x, int i, int j, int outer, int axis, int inner, int E, int K) {
    for (int o = 0; o < outer * inner; ++o) {
        const int at = o / inner * axis * inner + o % inner;
        const double a = number(x + (at + i * inner) * E, E, K);
        const double b = number(x + (at + j * inner) * E, E, K);
        const int c = isnan(a) || isnan(b) ? isnan(a) - isnan(b) : (a > b) - (a < b);
        if (c != 0) {
            return c;
        }
    }
    return 0;
}

static void test_unique(int outer, int axis, int inner, int E, int K, int sorted, int64_t given) {
    const aot_unique_params p = {outer, axis, inner, sorted};
    const int n = outer * axis * inner, m = given < 0 ? 0 : given > axis ? axis : (int)given;
    uint8_t *x = NEW(uint8_t, (n + 1) * 8), *y = NEW(uint8_t, n * E);
    int64_t *first = NEW(int64_t, axis), *inverse = NEW(int64_t, axis),
            *counts = NEW(int64_t, axis);
    int64_t *order = NEW(int64_t, axis), *group = NEW(int64_t, axis), found = -1;
    int distinct = 0;
    check_case("unique of [%d, %d, %d], %d of them, %d bytes, kind %d, sorted %d", outer, axis,
               inner, m, E, K, sorted);
    for (int i = 0; i < n; ++i) {
        const int64_t v = check_integer(K == 0 ? 0 : -2, 2);
        const float f = v == 2 ? (float)NAN : (float)v;
        const double d = v == 2 ? (double)NAN : (double)v;
        (void)memcpy(x + i * E,
                     K == 2 && E == 4 ? (const void *)&f
                     : K == 2         ? (const void *)&d
                                      : &v,
                     (size_t)E);
    }
    aot_unique(y, first, inverse, counts, &found, x, &given, order, group, &p, E, K);
    for (int i = 0; i < m; ++i) {
        int place = 0, leader = i, times = 0;
        for (int j = m - 1; j >= 0; --j) {
            const int same = slices(x, i, j, outer, axis, inner, E, K) == 0;
            leader = same ? j : leader;
            times += same;
        }
        distinct += leader == i;
        for (int j = 0; j < m; ++j) {
            int other = 1;
            for (int k = 0; k < j; ++k) {
                other = other && slices(x, k, j, outer, axis, inner, E, K) != 0;
            }
            place += other && (sorted ? slices(x, j, i, outer, axis, inner, E, K) < 0 : j < leader);
        }
        same_at("inverse", i, inverse[i], place);
        same_at("first", place, first[place], leader);
        same_at("counts", place, counts[place], times);
        for (int o = 0; o < outer * inner; ++o) {
            const int at = o / inner * axis * inner + o % inner;
            const double got = number(y + (at + place * inner) * E, E, K);
            close_at("y", at, got, number(x + (at + i * inner) * E, E, K), 0.0, 0.0);
        }
    }
    same_at("number", 0, found, distinct);
    for (int i = distinct; i < axis; ++i) {
        CHECK(first[i] == 0 && counts[i] == 0 && number(y + i * inner * E, E, K) >= 0.0);
    }
    check_free();
}

/* The overlap of two boxes over their union, from their corners. */
static double overlap(const float *a, const float *b, int center) {
    double low[2][2], high[2][2], both = 1.0, area[2] = {1.0, 1.0};
    for (int k = 0; k < 2; ++k) {
        const float *box = k ? b : a;
        for (int axis = 0; axis < 2; ++axis) {
            const double u = (double)box[axis], v = (double)box[axis + 2];
            low[k][axis] = center ? u - v / 2 : fmin(u, v);
            high[k][axis] = center ? u + v / 2 : fmax(u, v);
            area[k] *= high[k][axis] - low[k][axis];
        }
    }
    for (int axis = 0; axis < 2; ++axis) {
        both *= fmax(0.0, fmin(high[0][axis], high[1][axis]) - fmax(low[0][axis], low[1][axis]));
    }
    return area[0] > 0 && area[1] > 0 && both > 0 ? both / (area[0] + area[1] - both) : 0.0;
}

static void test_nms(int center, int64_t most, int limited, int scored, int counted) {
    enum { N = 2, C = 3, B = 17, LIMIT = 6 };
    const int64_t shape[3] = {N, C - counted, B - 4 * counted};
    const int lines = (int)(shape[0] * shape[1]), wide = (int)shape[2];
    const aot_nms_f32_params p = {N, C, B, LIMIT, center};
    const float iou = 0.3F, threshold = 0.25F;
    float *boxes = NEW(float, N *B * 4), *scores = NEW(float, N *C *B);
    int64_t *y = NEW(int64_t, N * C * LIMIT * 3), *heap = NEW(int64_t, B), count = -1, want = 0;
    check_case("boxes, center %d, at most %d (%d), threshold %d", center, (int)most, limited,
               scored);
    for (int i = 0; i < N * B * 4; ++i) { /* quarters, so that overlaps are not near the bound */
        boxes[i] = (float)check_integer(center && i % 4 > 1 ? 0 : 1, 16) / 4.0F;
    }
    for (int i = 0; i < N * C * B; ++i) {
        scores[i] = i % 19 == 5 ? (float)NAN : (float)check_integer(0, 16) / 16.0F;
    }
    aot_nms_f32(y, &count, boxes, scores, limited ? &most : NULL, &iou, scored ? &threshold : NULL,
                counted ? shape : NULL, heap, &p);
    for (int line = 0; line < lines; ++line) {
        const int image = line / (int)shape[1], which = line % (int)shape[1];
        const float *s = scores + (image * C + which) * B, *b = boxes + image * B * 4;
        const int64_t room = !limited || most < 0 ? 0 : most < LIMIT ? most : LIMIT;
        int done[B] = {0}, chosen[LIMIT], taken = 0;
        while (taken < room) {
            int best = -1, good = 1;
            for (int i = 0; i < wide; ++i) {
                const int higher = best >= 0 && (isnan(s[i]) || s[i] <= s[best]) && !isnan(s[best]);
                const int never = done[i] || (scored && !(s[i] > threshold));
                best = never || higher || (best >= 0 && isnan(s[i])) ? best : i;
            }
            if (best < 0) {
                break;
            }
            done[best] = 1;
            for (int k = 0; k < taken; ++k) {
                good = good && !(overlap(b + 4 * best, b + 4 * chosen[k], center) > (double)iou);
            }
            if (good) {
                chosen[taken++] = best;
                same_at("image", (ptrdiff_t)want, y[3 * want], image);
                same_at("class", (ptrdiff_t)want, y[3 * want + 1], which);
                same_at("box", (ptrdiff_t)want, y[3 * want + 2], best);
                ++want;
            }
        }
    }
    same_at("number", 0, count, want);
    for (int64_t i = 3 * want; i < N * C * LIMIT * 3; ++i) {
        same_at("tail", (ptrdiff_t)i, y[i], 0);
    }
    check_free();
}

/* Two trees: one asks x0 MODE 0.5 and then whether x1 is in {2, 3}, the other is one leaf. Leaves
 * give weights to targets 0 and 1; the third target has none. */
#define TREES(SHORT, T)                                                                            \
    static void trees_##SHORT(int mode, int missing, int aggregate, int with_base) {               \
        const aot_trees_params p = {6, 2, 3, 2};                                                   \
        static const T x[6][2] = {{(T)0.5, 2}, {0, 3}, {1, 2}, {1, 5}, {(T)NAN, 3}, {1, (T)NAN}};  \
        static const T split[2] = {(T)0.5, 0}, set[3] = {2, 2, 3};                                 \
        static const int32_t leaf[5] = {0, 1, 3, 4, 6}, target[6] = {0, 0, 1, 1, 0, 1};            \
        static const T weight[6] = {1, 2, 3, 5, -7, 4}, base[3] = {10, 20, 30};                    \
        const int32_t node[8] = {0, mode | missing << 8, -1, 1, 1, 6 | missing << 8, -2, -3};      \
        static const int32_t root[2] = {0, -4};                                                    \
        T y[18];                                                                                   \
        check_case("trees of %s, mode %d, missing %d, aggregate %d", #SHORT, mode, missing,        \
                   aggregate);                                                                     \
        aot_trees_##SHORT(y, &x[0][0], split, node, leaf, weight, target, root,                    \
                          with_base ? base : NULL, set, &p, aggregate, 1);                         \
        for (int i = 0; i < 18; ++i) {                                                             \
            const double a = (double)x[i / 3][0], b = (double)x[i / 3][1];                         \
            const int yes = isnan(a)    ? missing || mode == 5                                     \
                            : mode == 0 ? a <= 0.5                                                 \
                            : mode == 1 ? a < 0.5                                                  \
                            : mode == 2 ? a >= 0.5                                                 \
                            : mode == 3 ? a > 0.5                                                  \
                            : mode == 4 ? !(a < 0.5) && !(a > 0.5)                                 \
                                        : a < 0.5 || a > 0.5;                                      \
            const int in = isnan(b) ? missing : (b > 1.5 && b < 3.5);                              \
            /* What the leaves say of targets 0 and 1; the second tree's says -7 and 4. */         \
            const double first[2][3] = {{1, 2, 0}, {0, 3, 5}};                                     \
            const int l = yes ? 0 : in ? 1 : 2, t = i % 3;                                         \
            const int speaks = t < 2 && !(t == 0 && l == 2) && !(t == 1 && l == 0);                \
            const double u = speaks ? first[t][l] : 0, v = t == 0 ? -7 : t == 1 ? 4 : 0;           \
            const double want = aggregate == 0   ? (u + v) / 2                                     \
                                : aggregate == 1 ? u + v                                           \
                                : !speaks        ? v                                               \
                                : aggregate == 2 ? fmin(u, v)                                      \
                                                 : fmax(u, v);                                     \
            close_at("y", i, (double)y[i], want + (with_base ? 10.0 * (t + 1) : 0.0), 0.0, 0.0);   \
        }                                                                                          \
    }
TREES(f32, float)
TREES(f64, double)

/* Counts of the n-grams (1), (2, 1), (1, 1, 2), (9) with up to `skips` tokens left out. */
static void test_ngrams(int skips, int mode, int E) {
    static const int64_t pool[7] = {1, 2, 1, 1, 1, 2, 9};
    static const int32_t places[12] = {0, 1, 2, 1, 2, 0, 3, 3, 1, 6, 1, 3};
    static const float weights[4] = {0.5F, 2.0F, -1.0F, 3.0F};
    const aot_ngrams_params p = {2, 11, 4, 4, skips};
    int64_t x[22];
    uint8_t *tokens = NEW(uint8_t, 22 * E), *grams = NEW(uint8_t, 7 * E);
    float y[8];
    check_case("n-grams, %d skips, MODE %d, tokens of %d bytes", skips, mode, E);
    for (int i = 0; i < 22; ++i) {
        x[i] = check_integer(1, 2);
        (void)memcpy(tokens + i * E, &x[i], (size_t)E); /* little-endian, small numbers */
    }
    for (int i = 0; i < 7; ++i) {
        (void)memcpy(grams + i * E, &pool[i], (size_t)E);
    }
    aot_ngrams(y, tokens, grams, places, weights, &p, mode, E);
    for (int r = 0; r < 2; ++r) {
        double want[4] = {0, 0, 0, 0};
        for (int g = 0; g < 4; ++g) {
            const int n = places[3 * g + 1], column = places[3 * g + 2];
            double count = 0;
            for (int step = 1; step <= (n == 1 ? 1 : skips + 1); ++step) {
                for (int i = 0; i + (n - 1) * step < 11; ++i) {
                    int same = 1;
                    for (int k = 0; k < n; ++k) {
                        same = same && x[r * 11 + i + k * step] == pool[places[3 * g] + k];
                    }
                    count += same;
                }
            }
            want[column] += mode == 0   ? count
                            : mode == 1 ? (count > 0 ? (double)weights[g] : 0.0)
                                        : count * (double)weights[g];
        }
        close_f32("y", y + 4 * r, want, 4, 0.0, 0.0);
    }
    check_free();
}

int main(void) {
    for (int k = 0; k < 12; ++k) {
        const int take = k / 2 == 5 ? 9 : k / 2, largest = k % 2;
        topk_f32(take, largest, 1);
        topk_f64(take, largest, 1);
        topk_s8(take, largest, k > 3);
        topk_s16(take, largest, 1);
        topk_s32(take, largest, 1);
        topk_s64(take, largest, 1);
        topk_u8(take, largest, 1);
        topk_u16(take, largest, 1);
        topk_u32(take, largest, 1);
        topk_u64(take, largest, 1);
    }
    for (int sorted = 0; sorted < 2; ++sorted) {
        for (int E = 1; E <= 8; E *= 2) {
            for (int K = 0; K < (E >= 4 ? 3 : 2); ++K) {
                test_unique(1, 23, 1, E, K, sorted, 23);
                test_unique(2, 14, 2, E, K, sorted, 11);
                test_unique(1, 1, 1, E, K, sorted, -4);
            }
        }
    }
    for (int k = 0; k < 16; ++k) {
        test_nms(k & 1, k & 2 ? 3 : 99, k & 4 ? 1 : k > 8, k >> 3, 0);
        test_nms(k & 1, k & 2 ? 3 : 99, k & 4 ? 1 : k > 8, k >> 3, 1);
    }
    test_nms(0, -3, 1, 1, 0);
    for (int k = 0; k < 96; ++k) {
        trees_f32(k % 6, k / 6 % 2, k / 12 % 4, k / 48);
        trees_f64(k % 6, k / 6 % 2, k / 12 % 4, k / 48);
    }
    for (int k = 0; k < 9; ++k) {
        test_ngrams(k / 3, k % 3, 4);
        test_ngrams(k / 3, k % 3, 8);
    }
    return check_end();
}
