/* SPDX-License-Identifier: MIT-0 */
/* What the tests of kernels share: named cases, deterministic data, guarded buffers, comparisons.
 *
 * A test is one program of one family of kernels:
 *
 *     int main(void) {
 *         check_case("softmax axis=%d", 7);      names what follows
 *         x = NEW(float, n);                     a buffer with guards, filled with NaN
 *         ...                                    the kernel, and the formula in doubles
 *         close_f32("y", y, want, n, 1e-6, 0.0);
 *         check_free();                          looks at the guards, frees the buffers
 *         return check_end();
 *     }
 *
 * The first failures are printed with the case, the index, the expected value and the one got; the
 * program ends with 1. A program without a single comparison fails too.
 */
#ifndef AOT_TESTS_CHECK_H
#define AOT_TESTS_CHECK_H

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aot/port.h"

#define CHECK_SHOWN 20
#define CHECK_BUFFERS 64

/* A buffer ends where its allocation ends under the address sanitizer, else where its guard starts.
 */
#if defined(__SANITIZE_ADDRESS__)
#define CHECK_GUARD 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECK_GUARD 0
#endif
#endif
#ifndef CHECK_GUARD
#define CHECK_GUARD 64
#endif

static struct {
    char name[200];
    long compared, failed;
    uint64_t seed;
    int buffers;
    unsigned char *buffer[CHECK_BUFFERS];
    size_t size[CHECK_BUFFERS];
} check_state = {"(no case)", 0, 0, 1, 0, {NULL}, {0}};

#if defined(__GNUC__)
#define CHECK_PRINTF(n) __attribute__((format(printf, n, n + 1), unused))
#else
#define CHECK_PRINTF(n)
#endif

/* Names the case that follows. */
static CHECK_PRINTF(1) void check_case(const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(check_state.name, sizeof check_state.name, format, args);
    va_end(args);
}

static CHECK_PRINTF(1) void check_fail(const char *format, ...) {
    va_list args;
    if (++check_state.failed <= CHECK_SHOWN) {
        (void)printf("FAILED %s: ", check_state.name);
        va_start(args, format);
        (void)vprintf(format, args);
        va_end(args);
        (void)printf("\n");
    }
}

/* A truth about the case. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        ++check_state.compared;                                                                    \
        if (!(condition)) {                                                                        \
            check_fail("line %d: %s", __LINE__, #condition);                                       \
        }                                                                                          \
    } while (0)

/* `size` bytes of 0xFF (NaN as floats, -1 as integers), as aligned as malloc's result. */
static AOT_UNUSED void *check_new(size_t size) {
    unsigned char *p = (unsigned char *)malloc(size + 2U * CHECK_GUARD + (size == 0U));
    if (p == NULL || check_state.buffers == CHECK_BUFFERS) {
        (void)printf("FAILED %s: no room for %lu bytes\n", check_state.name, (unsigned long)size);
        exit(1);
    }
    (void)memset(p, 0xA5, size + 2U * CHECK_GUARD);
    (void)memset(p + CHECK_GUARD, 0xFF, size);
    check_state.buffer[check_state.buffers] = p;
    check_state.size[check_state.buffers++] = size;
    return p + CHECK_GUARD;
}
#define NEW(T, n) ((T *)check_new(sizeof(T) * (size_t)(n)))

/* Frees all buffers; a guard that has changed is a failure. */
static AOT_UNUSED void check_free(void) {
    while (check_state.buffers > 0) {
        const int b = --check_state.buffers;
        const unsigned char *p = check_state.buffer[b];
        const size_t guard = CHECK_GUARD;
        for (size_t i = 0; i < guard; ++i) {
            if (p[i] != 0xA5 || p[guard + check_state.size[b] + i] != 0xA5) {
                check_fail("buffer %d of %lu bytes: written outside", b,
                           (unsigned long)check_state.size[b]);
                break;
            }
        }
        free(check_state.buffer[b]);
    }
}

/* The exit code of the program. */
static AOT_UNUSED int check_end(void) {
    check_free();
    if (check_state.compared == 0) {
        (void)printf("FAILED: nothing was compared\n");
        return 1;
    }
    (void)printf("%ld comparisons, %ld failed\n", check_state.compared, check_state.failed);
    return check_state.failed > 0;
}

/* Deterministic data: Knuth's 64-bit congruential generator, upper half. */
static AOT_UNUSED uint32_t check_random(void) {
    check_state.seed =
        check_state.seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(check_state.seed >> 32);
}
/* lo <= result < hi */
static AOT_UNUSED double check_uniform(double lo, double hi) {
    return lo + (hi - lo) * (check_random() / 4294967296.0);
}
/* lo <= result <= hi, which differ by less than 2^32 */
static AOT_UNUSED int64_t check_integer(int64_t lo, int64_t hi) {
    return lo + (int64_t)(((uint64_t)check_random() * (uint64_t)(hi - lo + 1)) >> 32);
}

static AOT_UNUSED void fill_f32(float *x, ptrdiff_t n, double lo, double hi) {
    for (ptrdiff_t i = 0; i < n; ++i) {
        x[i] = (float)check_uniform(lo, hi);
    }
}
static AOT_UNUSED void fill_f64(double *x, ptrdiff_t n, double lo, double hi) {
    for (ptrdiff_t i = 0; i < n; ++i) {
        x[i] = check_uniform(lo, hi);
    }
}
/* Integers lo..hi, the ends among them: fill_s8, fill_u8 … */
#define CHECK_FILL(SHORT, T)                                                                       \
    static AOT_UNUSED void fill_##SHORT(T *x, ptrdiff_t n, int64_t lo, int64_t hi) {               \
        for (ptrdiff_t i = 0; i < n; ++i) {                                                        \
            const int64_t which = check_integer(0, 15);                                            \
            x[i] = (T)(which == 0 ? lo : which == 1 ? hi : check_integer(lo, hi));                 \
        }                                                                                          \
    }
CHECK_FILL(s8, int8_t)
CHECK_FILL(u8, uint8_t)
CHECK_FILL(s16, int16_t)
CHECK_FILL(u16, uint16_t)
CHECK_FILL(s32, int32_t)
CHECK_FILL(s64, int64_t)

/* NaN wants NaN, an infinity itself, a number one within absolute + relative * |want|. */
static AOT_UNUSED int check_close(double got, double want, double relative, double absolute) {
    if (isnan(want) || isnan(got)) {
        return isnan(want) && isnan(got);
    }
    if (isinf(want) || isinf(got)) {
        return got >= want && got <= want;
    }
    return fabs(got - want) <= absolute + relative * fabs(want);
}

static AOT_UNUSED void close_at(const char *what, ptrdiff_t at, double got, double want,
                                double relative, double absolute) {
    ++check_state.compared;
    if (!check_close(got, want, relative, absolute)) {
        check_fail("%s[%ld] is %.9g, expected %.9g within %.2g + %.2g of it", what, (long)at, got,
                   want, absolute, relative);
    }
}
/* What a float holds of a number: beyond its range, an infinity. */
static AOT_UNUSED double check_single(double want) {
    return fabs(want) > 3.4028235677973366e38 ? copysign((double)INFINITY, want) : want;
}
static AOT_UNUSED void close_f32(const char *what, const float *got, const double *want,
                                 ptrdiff_t n, double relative, double absolute) {
    for (ptrdiff_t i = 0; i < n; ++i) {
        close_at(what, i, (double)got[i], check_single(want[i]), relative, absolute);
    }
}
static AOT_UNUSED void close_f64(const char *what, const double *got, const double *want,
                                 ptrdiff_t n, double relative, double absolute) {
    for (ptrdiff_t i = 0; i < n; ++i) {
        close_at(what, i, got[i], want[i], relative, absolute);
    }
}

/* Integers are the same: same_s8("y", y, want, n) …; `want` is int64. */
static AOT_UNUSED void same_at(const char *what, ptrdiff_t at, int64_t got, int64_t want) {
    ++check_state.compared;
    if (got != want) {
        check_fail("%s[%ld] is %lld, expected %lld", what, (long)at, (long long)got,
                   (long long)want);
    }
}
#define CHECK_SAME(SHORT, T)                                                                       \
    static AOT_UNUSED void same_##SHORT(const char *what, const T *got, const int64_t *want,       \
                                        ptrdiff_t n) {                                             \
        for (ptrdiff_t i = 0; i < n; ++i) {                                                        \
            same_at(what, i, (int64_t)got[i], want[i]);                                            \
        }                                                                                          \
    }
CHECK_SAME(s8, int8_t)
CHECK_SAME(u8, uint8_t)
CHECK_SAME(s16, int16_t)
CHECK_SAME(u16, uint16_t)
CHECK_SAME(s32, int32_t)
CHECK_SAME(u32, uint32_t)
CHECK_SAME(s64, int64_t)
CHECK_SAME(u64, uint64_t)

/* Bytes are the same: what moves data must not change it. */
static AOT_UNUSED void same_bytes(const char *what, const void *got, const void *want, size_t n) {
    const unsigned char *g = (const unsigned char *)got, *w = (const unsigned char *)want;
    for (size_t i = 0; i < n; ++i) {
        ++check_state.compared;
        if (g[i] != w[i]) {
            check_fail("byte %lu of %s is 0x%02x, expected 0x%02x", (unsigned long)i, what, g[i],
                       w[i]);
            return;
        }
    }
}

#endif /* AOT_TESTS_CHECK_H */
