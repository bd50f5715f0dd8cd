/* SPDX-License-Identifier: MIT-0 */
/* Softmax and log-softmax of float64 along one axis: the rules of aot_softmax_f32.h, with the C
 * library's exp and log. y, x: [outer, axis, inner]; y may be x. No scratch. */
#ifndef AOT_SOFTMAX_F64_H
#define AOT_SOFTMAX_F64_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "aot/port.h"

typedef struct aot_softmax_f64_params {
    int64_t outer, axis, inner;
} aot_softmax_f64_params;

AOT_INLINE void aot_softmax_f64(double *y, const double *x, const aot_softmax_f64_params *p,
                                int LOG) {
    const ptrdiff_t axis = (ptrdiff_t)p->axis, inner = (ptrdiff_t)p->inner;
    ptrdiff_t o, j, i;
    for (o = 0; o < (ptrdiff_t)p->outer; ++o, x += axis * inner, y += axis * inner) {
        for (j = 0; j < inner; ++j) {
            double top = -(double)INFINITY, sum = 0.0;
            for (i = 0; i < axis; ++i) {
                top = x[i * inner + j] > top ? x[i * inner + j] : top;
            }
            for (i = 0; i < axis; ++i) {
                const double d = x[i * inner + j] - top, e = exp(d);
                sum += e;
                y[i * inner + j] = LOG ? d : e;
            }
            sum = LOG ? log(sum) : 1.0 / sum;
            for (i = 0; i < axis; ++i) {
                y[i * inner + j] = LOG ? y[i * inner + j] - sum : y[i * inner + j] * sum;
            }
        }
    }
}

#endif /* AOT_SOFTMAX_F64_H */
