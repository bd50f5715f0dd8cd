/* SPDX-License-Identifier: MIT-0 */
/* Random numbers: draw i of a node is a hash of (seed, draws before). */
#ifndef AOT_RANDOM_H
#define AOT_RANDOM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "aot/port.h"
#include "aot_rare_f32.h"

typedef struct aot_random_params {
    int64_t n;    /* elements of y */
    int64_t seed; /* the bits of the seed */
    double a, b;  /* bounds of a uniform number; mean and deviation of a normal one */
} aot_random_params;

typedef aot_random_params aot_random_f32_params;
typedef aot_random_params aot_random_f64_params;

/* Draw `index` of the generator with this seed: SplitMix64, 64 even bits. */
AOT_INLINE uint64_t aot_random_bits(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1U) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* In [0, 1), a multiple of 2^-24: exact as float, too. */
AOT_INLINE double aot_random_unit(uint64_t bits) {
    return (double)(int32_t)(bits >> 40) * (1.0 / 16777216.0);
}

/* Mean 0, deviation 1 (Box and Muller). */
static inline double aot_random_normal(uint64_t bits) {
    const double u = ((double)(int32_t)(bits >> 40) + 1.0) * (1.0 / 16777216.0);
    const float angle = (float)(int32_t)(bits & 0x7FFFFFU) * (6.28318530718F / 8388608.0F);
    return sqrt(-2.0 * aot_rare_log(u)) * aot_rare_wave(angle, 1);
}

/* aot_random_<t>: y[n]; drawn[0] counts the draws of this node since init, so that every run gives
   others. NORMAL: 0 uniform in [a, b), 1 normal. No scratch. */
#define AOT_RANDOM(name, type)                                                                     \
    AOT_INLINE void name(type *y, uint64_t *drawn, const name##_params *p, int NORMAL) {           \
        const uint64_t first = drawn[0];                                                           \
        for (int64_t i = 0; i < p->n; ++i) {                                                       \
            const uint64_t bits = aot_random_bits((uint64_t)p->seed, first + (uint64_t)i);         \
            if (NORMAL != 0) {                                                                     \
                y[i] = (type)(p->a + p->b * aot_random_normal(bits));                              \
            } else {                                                                               \
                const type v = (type)(p->a + (p->b - p->a) * aot_random_unit(bits));               \
                y[i] = v < (type)p->b || p->b <= p->a ? v : (type)p->a;                            \
            }                                                                                      \
        }                                                                                          \
        drawn[0] = first + (uint64_t)p->n;                                                         \
    }

AOT_RANDOM(aot_random_f32, float)
AOT_RANDOM(aot_random_f64, double)

#endif /* AOT_RANDOM_H */
