/* SPDX-License-Identifier: MIT-0 */
/* Softmax and log-softmax along one axis.
 *
 * y, x: [outer, axis, inner] floats, row-major. LOG: 1 for the logarithm of the softmax. The
 * maximum is subtracted first, so nothing overflows; a line of -inf gives NaN, as ONNX defines.
 * y may be x. No scratch.
 */
#ifndef AOT_SOFTMAX_F32_H
#define AOT_SOFTMAX_F32_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "aot_reduce_f32.h"

typedef struct aot_softmax_f32_params {
    int64_t outer, axis, inner;
} aot_softmax_f32_params;

/* One contiguous line of n. */
AOT_INLINE void aot_softmax_row(float *y, const float *x, ptrdiff_t n, int LOG) {
    const aot_vf top = aot_vset1(aot_reduce_max_row(x, n, 0));
    aot_vf sums = aot_vzero(), scale;
    const int rest = (int)(n % AOT_VLEN);
    const ptrdiff_t whole = n - rest;
    ptrdiff_t i;
    float total;
    for (i = 0; i < whole; i += AOT_VLEN) {
        const aot_vf d = aot_vload(x + i) - top, e = aot_vexp(d);
        sums = sums + e;
        aot_vstore(y + i, LOG ? d : e);
    }
    if (rest > 0) {
        const aot_vf d = aot_vload_n(x + i, rest, -(float)INFINITY) - top;
        const aot_vf e = aot_vexp(d);
        float lane[AOT_VLEN];
        int k;
        aot_vstore(lane, e);
        for (k = rest; k < AOT_VLEN; ++k) {
            lane[k] = 0.0F;
        }
        sums = sums + aot_vload(lane);
        aot_vstore_n(y + i, LOG ? d : e, rest);
    }
    total = aot_vsum(sums);
    scale = aot_vset1(LOG ? aot_slog(total) : 1.0F / total);
    for (i = 0; i < whole; i += AOT_VLEN) {
        const aot_vf v = aot_vload(y + i);
        aot_vstore(y + i, LOG ? v - scale : v * scale);
    }
    if (rest > 0) {
        const aot_vf v = aot_vload_n(y + i, rest, 0.0F);
        aot_vstore_n(y + i, LOG ? v - scale : v * scale, rest);
    }
}

/* A whole vector where `lanes` (a constant of the caller) says so, else part of one. */
AOT_INLINE aot_vf aot_softmax_load(const float *p, int lanes) {
    return lanes == AOT_VLEN ? aot_vload(p) : aot_vload_n(p, lanes, 0.0F);
}
AOT_INLINE void aot_softmax_store(float *p, aot_vf v, int lanes) {
    if (lanes == AOT_VLEN) {
        aot_vstore(p, v);
    } else {
        aot_vstore_n(p, v, lanes);
    }
}

/* Up to V neighbouring lines of `n` elements `step` apart. */
AOT_INLINE void aot_softmax_cols(float *y, const float *x, ptrdiff_t n, ptrdiff_t step, int lanes,
                                 int LOG) {
    const aot_vf top = aot_reduce_max_cols(x, n, step, lanes, 0);
    aot_vf sums = aot_vzero(), scale;
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        const aot_vf d = aot_softmax_load(x + i * step, lanes) - top, e = aot_vexp(d);
        sums = sums + e;
        aot_softmax_store(y + i * step, LOG ? d : e, lanes);
    }
    scale = LOG ? aot_vlog(sums) : 1.0F / sums;
    for (i = 0; i < n; ++i) {
        const aot_vf v = aot_softmax_load(y + i * step, lanes);
        aot_softmax_store(y + i * step, LOG ? v - scale : v * scale, lanes);
    }
}

/* Up to V contiguous lines of n < V elements: lines become lanes. */
AOT_INLINE void aot_softmax_short(float *y, const float *x, ptrdiff_t n, ptrdiff_t lines, int LOG) {
    float lane[AOT_VLEN * AOT_VLEN];
    ptrdiff_t i, k;
    for (k = 0; k < n; ++k) {
        for (i = 0; i < AOT_VLEN; ++i) {
            lane[k * AOT_VLEN + i] = i < lines ? x[i * n + k] : 0.0F;
        }
    }
    aot_softmax_cols(lane, lane, n, AOT_VLEN, AOT_VLEN, LOG);
    for (i = 0; i < lines; ++i) {
        for (k = 0; k < n; ++k) {
            y[i * n + k] = lane[k * AOT_VLEN + i];
        }
    }
}

AOT_INLINE void aot_softmax_f32(float *y, const float *x, const aot_softmax_f32_params *p,
                                int LOG) {
    const ptrdiff_t axis = (ptrdiff_t)p->axis, inner = (ptrdiff_t)p->inner;
    const ptrdiff_t outer = (ptrdiff_t)p->outer;
    ptrdiff_t o, j;
    if (inner == 1 && axis < AOT_VLEN) {
        for (o = 0; o < outer; o += AOT_VLEN) {
            const ptrdiff_t lines = outer - o < AOT_VLEN ? outer - o : AOT_VLEN;
            aot_softmax_short(y + o * axis, x + o * axis, axis, lines, LOG);
        }
        return;
    }
    for (o = 0; o < outer; ++o, x += axis * inner, y += axis * inner) {
        if (inner == 1) {
            aot_softmax_row(y, x, axis, LOG);
            continue;
        }
        for (j = 0; j + AOT_VLEN <= inner; j += AOT_VLEN) {
            aot_softmax_cols(y + j, x + j, axis, inner, AOT_VLEN, LOG);
        }
        if (j < inner) {
            aot_softmax_cols(y + j, x + j, axis, inner, (int)(inner - j), LOG);
        }
    }
}

#endif /* AOT_SOFTMAX_F32_H */
