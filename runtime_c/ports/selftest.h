/* SPDX-License-Identifier: MIT-0 */
/* Part of the runners when the bundle holds test vectors: compares outputs with what they must be.
 */
#ifndef AOT_SELFTEST_H
#define AOT_SELFTEST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "selftest_vectors.h"

/* An element of a float type; half-precision ones by their bits. */
static double selftest_number(const unsigned char *p, const aot_spec *spec) {
    uint16_t half;
    if (spec->bits == 64) {
        double v;
        (void)memcpy(&v, p, sizeof v);
        return v;
    }
    if (spec->bits == 32) {
        float v;
        (void)memcpy(&v, p, sizeof v);
        return (double)v;
    }
    (void)memcpy(&half, p, sizeof half);
    if (spec->code == kDLBfloat) {
        const uint32_t bits = (uint32_t)half << 16;
        float v;
        (void)memcpy(&v, &bits, sizeof v);
        return (double)v;
    } else {
        const uint32_t exponent = half >> 10 & 31U, mantissa = half & 1023U;
        const uint32_t sign = (uint32_t)(half & 0x8000U) << 16;
        uint32_t bits = sign | (exponent == 31 ? 255U : exponent + 112U) << 23 | mantissa << 13;
        float v;
        if (exponent == 0) {
            v = (float)mantissa / 16777216.0F;
            return sign != 0 ? -(double)v : (double)v;
        }
        (void)memcpy(&v, &bits, sizeof v);
        return (double)v;
    }
}

static double selftest_size(double v) {
    return v < 0.0 ? -v : v;
}

/* Gives the number of the first element that is not what it must be, or -1. */
static int32_t selftest_differs(const unsigned char *got, const unsigned char *want,
                                const aot_spec *spec, const double *tolerance) {
    const int real = (spec->code == kDLFloat || spec->code == kDLBfloat) && spec->bits >= 16;
    const size_t element = spec->align;
    double largest = 0.0;
    size_t i;
    for (i = 0; real && i + element <= spec->bytes; i += element) {
        const double v = selftest_size(selftest_number(want + i, spec));
        largest = v > largest && v < 1e300 ? v : largest;
    }
    for (i = 0; i + element <= spec->bytes; i += element) {
        double a, b, most;
        if (memcmp(got + i, want + i, element) == 0) {
            continue;
        }
        if (!real) {
            return (int32_t)(i / element);
        }
        a = selftest_number(got + i, spec);
        b = selftest_number(want + i, spec);
        most = tolerance[0] * selftest_size(b) + tolerance[1] * largest + tolerance[2];
        if (a != a && b != b) {
            continue; /* both are not numbers */
        }
        if (a != b && !(selftest_size(a - b) <= most && selftest_size(b) < 1e300)) {
            return (int32_t)(i / element);
        }
    }
    return -1;
}

#endif /* AOT_SELFTEST_H */
