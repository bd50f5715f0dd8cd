/* SPDX-License-Identifier: MIT-0 */
/* Products of the rows of a matrix by dot products: what kernels share that have no window.
 *
 * Rows [m][k] of int8 values, or with TURNED 128 of uint8 ones that stand for values 128 lower, are
 * copied to scratch, as many at a time as `STRIP` bytes hold. Weights, bias and the other instance
 * constants are as aot_qconv_s8__dot.h has them.
 */
#ifndef AOT_QDOT_ROWS_H
#define AOT_QDOT_ROWS_H

#include "aot_qconv_s8__dot.h"

AOT_INLINE int32_t aot_qdot_padded(int32_t n) {
    return (n + AOT_VLEN - 1) / AOT_VLEN * AOT_VLEN;
}

/* The int32 sums, or with another RQ the quantised values, of [m][k] times the weights of n. */
AOT_INLINE void aot_qdot_rows(const aot_qdot_result *z, const int8_t *a, const int8_t *w,
                              const int32_t *bias, void *scratch, int32_t m, int32_t k, int32_t n,
                              int TURNED, int RQ, int L, int S, int O, int FLIP, int WZ,
                              int STRIP) {
    uint8_t *const copy = (uint8_t *)scratch;
    const int32_t most = STRIP / k < 1 ? 1 : STRIP / k;
    int32_t *totals, rows, row;
    aot_qdot_strip s;
    (void)memset(&s, 0, sizeof s);
    s.rows = most < m ? most : m;
    s.pixels = s.window.rows = s.window.cols = s.flat = 1;
    s.step = s.pitch = s.down = k;
    s.window.four = (k + 3) / 4;
    totals = (int32_t *)(void *)(copy + (s.rows * s.pitch + AOT_QDOT_LENGTH * s.step +
                                         AOT_QDOT_SLACK + 63) /
                                            64 * 64);
    for (row = 0; row < m; row += rows, a += (ptrdiff_t)rows * k) {
        rows = m - row < s.rows ? m - row : s.rows;
        aot_qdot_copy(copy, a, (ptrdiff_t)rows * k, FLIP ^ TURNED);
        if (WZ != 0) {
            aot_qdot_pixels(totals, copy, rows, k, k, FLIP);
        }
        aot_qdot_products(z, copy, totals, w, bias, &s, rows, n, (ptrdiff_t)row * n,
                          AOT_QDOT_NO_EPILOGUE, RQ, 0, L, S, O, FLIP, WZ);
    }
}

/* V columns of a row of b of which `left` exist, as int32; the others are 0. */
AOT_INLINE aot_vi aot_qdot_columns(const int8_t *b, int32_t left) {
    int8_t some[AOT_VLEN] = {0};
    if (left >= AOT_VLEN) {
        return aot_qvec_widen(b);
    }
    (void)memcpy(some, b, (size_t)left);
    return aot_qvec_widen(some);
}

/* Panels w of b [k][n], and sums[C] of its columns, C = n rounded up to whole vectors. */
AOT_INLINE void aot_qdot_pack(int8_t *w, int32_t *sums, const int8_t *b, int32_t k, int32_t n,
                              int O) {
    const int32_t padded = aot_qdot_padded(n), four = (k + 3) / 4;
    int32_t c, g, e;
    for (c = 0; c < padded; c += AOT_VLEN) {
        const int32_t first = c / (O * AOT_VLEN) * (O * AOT_VLEN), left = padded - first;
        const int32_t wide = left < O * AOT_VLEN ? left : O * AOT_VLEN;
        int8_t *to = w + (ptrdiff_t)first * four * 4 + (ptrdiff_t)(c - first) * 4;
        aot_vi total = aot_viset1(0);
        for (g = 0; g < four; ++g, to += (ptrdiff_t)wide * 4) {
            aot_vi bytes = aot_viset1(0);
            for (e = 0; e < 4 && 4 * g + e < k; ++e) {
                const aot_vi v = aot_qdot_columns(b + (ptrdiff_t)(4 * g + e) * n + c, n - c);
                total += v;
                bytes |= (v & 255) << 8 * e;
            }
            (void)memcpy(to, &bytes, sizeof bytes);
        }
        aot_vistore(sums + c, total);
    }
}

#endif /* AOT_QDOT_ROWS_H */
