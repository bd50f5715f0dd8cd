/* SPDX-License-Identifier: MIT-0 */
/* Determinants of a batch of square matrices. */
#ifndef AOT_DET_H
#define AOT_DET_H

#include <stddef.h>
#include <stdint.h>

#include "aot/port.h"

typedef struct aot_det_params {
    int32_t batch; /* matrices */
    int32_t n;     /* rows and columns; 0: the determinant is 1 */
} aot_det_params;

typedef aot_det_params aot_det_f32_params;
typedef aot_det_params aot_det_f64_params;

/* The determinant of a[n][n], which is destroyed: elimination with the largest pivot of a column.
 */
static inline double aot_det_of(double *a, int32_t n) {
    double det = 1.0;
    for (int32_t k = 0; k < n; ++k) {
        int32_t best = k;
        for (int32_t i = k + 1; i < n; ++i) {
            const double u = a[(size_t)i * (size_t)n + (size_t)k];
            const double v = a[(size_t)best * (size_t)n + (size_t)k];
            if ((u < 0 ? -u : u) > (v < 0 ? -v : v)) {
                best = i;
            }
        }
        const double pivot = a[(size_t)best * (size_t)n + (size_t)k];
        for (int32_t j = 0; best != k && j < n; ++j) {
            const size_t p = (size_t)best * (size_t)n + (size_t)j;
            const size_t q = (size_t)k * (size_t)n + (size_t)j;
            const double held = a[p];
            a[p] = a[q];
            a[q] = held;
        }
        det *= best != k ? -pivot : pivot;
        if (pivot == 0.0) {
            return det;
        }
        for (int32_t i = k + 1; i < n; ++i) {
            const double f = a[(size_t)i * (size_t)n + (size_t)k] / pivot;
            for (int32_t j = k + 1; j < n; ++j) {
                a[(size_t)i * (size_t)n + (size_t)j] -= f * a[(size_t)k * (size_t)n + (size_t)j];
            }
        }
    }
    return det;
}

/* aot_det_<t>: y[batch] = determinants of x[batch][n][n], computed in float64.
   work: n * n doubles of scratch, NULL for n = 0. Not in place. */
#define AOT_DET(name, type)                                                                        \
    AOT_INLINE void name(type *y, const type *x, double *work, const name##_params *p) {           \
        const size_t size = (size_t)p->n * (size_t)p->n;                                           \
        for (int32_t b = 0; b < p->batch; ++b, x += size) {                                        \
            for (size_t i = 0; i < size; ++i) {                                                    \
                work[i] = (double)x[i];                                                            \
            }                                                                                      \
            y[b] = (type)aot_det_of(work, p->n);                                                   \
        }                                                                                          \
    }

AOT_DET(aot_det_f32, float)
AOT_DET(aot_det_f64, double)

#endif /* AOT_DET_H */
