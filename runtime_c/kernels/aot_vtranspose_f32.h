/* SPDX-License-Identifier: MIT-0 */
/* A square of AOT_VLEN by AOT_VLEN floats, transposed in registers. */
#ifndef AOT_VTRANSPOSE_F32_H
#define AOT_VTRANSPOSE_F32_H

#include <stddef.h>

#include "aot_simd.h"

#if AOT_VLEN == 16
#define AOT_VZIP_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define AOT_VZIP_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif AOT_VLEN == 8
#define AOT_VZIP_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define AOT_VZIP_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif AOT_VLEN == 4
#define AOT_VZIP_LOW 0, 4, 1, 5
#define AOT_VZIP_HIGH 2, 6, 3, 7
#endif

#if AOT_VLEN > 1 && defined(__clang__)
#define AOT_VZIP(a, b, order) __builtin_shufflevector(a, b, order)
#elif AOT_VLEN > 1
#define AOT_VZIP(a, b, order) __builtin_shuffle(a, b, (aot_vi){order})
#endif

/* Lanes of the lower halves of a and b in turn, and of the upper halves. */
AOT_INLINE void aot_vtranspose_f32_zip(aot_vf *low, aot_vf *high, aot_vf a, aot_vf b) {
#if AOT_VLEN > 1
    *low = AOT_VZIP(a, b, AOT_VZIP_LOW);
    *high = AOT_VZIP(a, b, AOT_VZIP_HIGH);
#else
    *low = a;
    *high = b;
#endif
}

/* Lane j of row i becomes lane i of row j: after log2(AOT_VLEN) rounds in which rows i and
 * i + AOT_VLEN / 2 are zipped, lanes are rows. */
AOT_INLINE void aot_vtranspose_f32_turn(aot_vf *row) {
    aot_vf next[AOT_VLEN];
    int i, round;
    AOT_UNROLL(4) for (round = 1; round < AOT_VLEN; round *= 2) {
        AOT_UNROLL(8) for (i = 0; i < AOT_VLEN / 2; ++i) {
            aot_vtranspose_f32_zip(&next[2 * i], &next[2 * i + 1], row[i], row[i + AOT_VLEN / 2]);
        }
        AOT_UNROLL(16) for (i = 0; i < AOT_VLEN; ++i) {
            row[i] = next[i];
        }
    }
}

/* Row i of the square at d, d_row floats apart, is column i of the one at s, bit by bit. */
AOT_INLINE void aot_vtranspose_f32_copy(float *d, ptrdiff_t d_row, const float *s,
                                        ptrdiff_t s_row) {
    aot_vf row[AOT_VLEN];
    int i;
    AOT_UNROLL(16) for (i = 0; i < AOT_VLEN; ++i) {
        row[i] = aot_vload(s + i * s_row);
    }
    aot_vtranspose_f32_turn(row);
    AOT_UNROLL(16) for (i = 0; i < AOT_VLEN; ++i) {
        aot_vstore(d + i * d_row, row[i]);
    }
}

/* The same times `scale`. */
AOT_INLINE void aot_vtranspose_f32(float *d, ptrdiff_t d_row, const float *s, ptrdiff_t s_row,
                                   float scale) {
    aot_vf row[AOT_VLEN];
    int i;
    AOT_UNROLL(16) for (i = 0; i < AOT_VLEN; ++i) {
        row[i] = aot_vload(s + i * s_row);
    }
    aot_vtranspose_f32_turn(row);
    AOT_UNROLL(16) for (i = 0; i < AOT_VLEN; ++i) {
        aot_vstore(d + i * d_row, row[i] * scale);
    }
}

#endif /* AOT_VTRANSPOSE_F32_H */
