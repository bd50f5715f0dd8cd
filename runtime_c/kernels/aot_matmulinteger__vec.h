/* SPDX-License-Identifier: MIT-0 */
/* y[m][n] = sum over k of (a[m][k] - az) * b[k][n], b constant, on vectors: a of int8 or uint8, y
 * the int32 sums; weights as aot_qvec.h says.
 *
 * b is int8 values less their zero points; with WZ lacking[C] is what every value of a column of
 * the weights lacks, C = n rounded up to whole panels; zeros[C] are zeros. az is one zero point of
 * a, or NULL. P rows of a are copied to scratch, less az: 2 * P * (k rounded up to an even number)
 * bytes. y must not overlap a.
 */
#ifndef AOT_MATMULINTEGER__VEC_H
#define AOT_MATMULINTEGER__VEC_H

#include "aot_quantised.h"
#include "aot_qvec.h"

typedef struct {
    int32_t m, k, n;
} aot_matmulinteger__vec_params;

/* P rows of columns times all weights; stores the sums of the first `rows`. */
AOT_INLINE void aot_matmulinteger_tiles(int32_t *y, const int16_t *x, const int32_t *totals,
                                        const int8_t *w, const int32_t *zeros,
                                        const int32_t *lacking, int32_t rows,
                                        const aot_matmulinteger__vec_params *p, int P, int O,
                                        int PAIR, int WZ) {
    const int32_t k = (p->k + 1) & ~1;
    int32_t c, i, j;
    for (c = 0; c < p->n; c += O * AOT_VLEN, w += (ptrdiff_t)k * O * AOT_VLEN) {
        aot_vi s[AOT_QVEC_MAX];
        aot_qvec_out none = {NULL, NULL, 0, 0, 0};
        aot_qvec_tile(s, x, k, k, w, zeros + c, P, O, PAIR);
        AOT_UNROLL(16) for (i = 0; i < P; ++i) {
            AOT_UNROLL(16) for (j = 0; j < O; ++j) {
                const int32_t at = c + j * AOT_VLEN, left = p->n - at;
                if (i < rows && left > 0) {
                    if (WZ != 0) {
                        s[i * O + j] += aot_viload(lacking + at) * totals[i];
                    }
                    aot_qvec_store((int8_t *)(y + (ptrdiff_t)i * p->n + at), s[i * O + j], &none, 0,
                                   left < AOT_VLEN ? (int)left : AOT_VLEN, AOT_REQUANT_NONE, 0);
                }
            }
        }
    }
}

/* Instance: AT of aot_quantised.h; P rows times O vectors at once, PAIR as in aot_qvec.h. */
AOT_INLINE void aot_matmulinteger__vec(int32_t *y, const void *a, const int8_t *w,
                                       const int32_t *zeros, const int32_t *lacking, const void *az,
                                       void *scratch, const aot_matmulinteger__vec_params *p,
                                       int AT, int WZ, int P, int O, int PAIR) {
    const int32_t k = (p->k + 1) & ~1, zero = az != NULL ? aot_q_load(az, 0, AT) : 0;
    int16_t *const columns = (int16_t *)scratch;
    int32_t row, c, i;
    for (row = 0; row < p->m; row += P, y += (ptrdiff_t)P * p->n) {
        const int32_t rows = p->m - row < P ? p->m - row : P;
        int32_t totals[AOT_QVEC_MAX];
        for (i = 0; i < P; ++i) {
            int16_t *const d = columns + (ptrdiff_t)i * k;
            const int64_t from = (int64_t)(row + (i < rows ? i : 0)) * p->k;
            totals[i] = 0;
            d[k - 1] = 0;
            for (c = 0; c < p->k; ++c) {
                d[c] = (int16_t)(aot_q_load(a, from + c, AT) - zero);
                totals[i] += d[c];
            }
        }
        aot_matmulinteger_tiles(y, columns, totals, w, zeros, lacking, rows, p, P, O, PAIR, WZ);
    }
}

#endif /* AOT_MATMULINTEGER__VEC_H */
