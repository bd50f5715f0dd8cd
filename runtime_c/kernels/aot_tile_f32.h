/* SPDX-License-Identifier: MIT-0 */
/* The register tile on which convolution, GEMM and Winograd run.
 *
 * A tile computes P pixels by O vectors of output channels:
 *
 *     y[p][o] = act(bias[o] + r[p][o] + sum over a, b, c of x[p, a, b, c] * w[a][b][c][o])
 *
 * x is addressed by one offset per pixel plus a loop nest: `na` steps of `xa` floats, `nb` steps of
 * `xb`, and `kc` channels in blocks of `kblk` contiguous floats `xstep` apart (with AOT_VLEN 1
 * there `xstep` is the distance of two channels). So a blocked KxK convolution has (a, b, c) =
 * (kernel row, kernel column, channel), a convolution of a plain tensor (channel, kernel row,
 * kernel column), a matrix product (1, 1, k). w is a packed panel read straight through:
 * [na][nb][kc][O * V].
 *
 * Rounding: a long sum loses digits in one accumulator. After at most `run` products a tile starts
 * again from zero, and y takes the total. Where products cancel (spectra), tiles with RUNS also
 * keep what the total rounds away. With RUNS 2 a number of x and of w is a word of two bfloat16
 * (aot_bf16.h), of which both products are added; bias, r and y are floats as ever.
 *
 * An `edge` tile has pixels whose taps fall outside the image: those read zeros instead.
 * Accumulators are scalars with explicit names (arrays would live in memory); instances of the
 * template are functions of their own, shared by every layer of the file.
 */
#ifndef AOT_TILE_F32_H
#define AOT_TILE_F32_H

#include <float.h>
#include <stddef.h>

#include "aot_bf16.h"
#include "aot_rows.h"
#include "aot_simd.h"

#define AOT_TILE_MAX_P 14
/* Products of a convolution that are summed up before they join a total: as many as others sum. */
#define AOT_TILE_RUN 128
/* Whether tiles of products that do not cancel have runs: one float at a time only in bundles that
 * want equal bits, as boards have little memory for code. */
#if AOT_VLEN > 1 || defined(AOT_STRICT)
#define AOT_TILE_CUTS 1
#else
#define AOT_TILE_CUTS 0
#endif
/* Whether tiles have ways of their own for pixels that follow each other, as a tile has more pixels
 * than x86 has registers for addresses, and for results with a lower bound alone. */
#define AOT_TILE_WAYS (AOT_VLEN >= 8)
#define AOT_TILE_CLOSE (AOT_TILE_WAYS ? -1 : 0) /* `edge` of the former */
#define AOT_TILE_EVEN (AOT_TILE_WAYS ? -2 : 0)  /* `edge` of pixels that are equally far apart */

typedef struct {
    const float *x;    /* the image */
    const float *w;    /* panel, 4-byte aligned at least */
    const float *bias; /* O * V floats */
    float *y;          /* first pixel, first block */
    const float *r;    /* added before the activation, laid out as y (may be y); or NULL */
    uintptr_t next;    /* address from which weights are prefetched, also beyond their end; or 0 */
    ptrdiff_t off[AOT_TILE_MAX_P]; /* of each pixel from x, in floats, at a = b = c = 0 */
    int32_t row[AOT_TILE_MAX_P];   /* image row and column of it; read in edge tiles only */
    int32_t col[AOT_TILE_MAX_P];
    int32_t rows, cols; /* size of the image, for edge tiles */
    int32_t da, db;     /* rows per step of a, columns per step of b, for edge tiles */
    int32_t na, nb, kc, kblk;
    int32_t run; /* products in a run, 0 for one run (read by tiles with RUNS or AOT_TILE_CUTS) */
    ptrdiff_t xa, xb, xstep;
    ptrdiff_t y_pixel, y_block; /* floats from pixel to pixel, from block to block */
    int32_t n;    /* pixels to store, 1..P; the offsets of the others repeat a valid one */
    int32_t edge; /* AOT_TILE_CLOSE: no edge, and all P pixels exist, one block of channels from the
                     next; AOT_TILE_EVEN: as far from the next as the first from the second */
    int32_t clamp; /* whether to limit to lo..hi */
    float lo, hi;
#if AOT_ROWS_APART
    const void *at; /* the table of the image's rows (aot_rows.h), or NULL: they are xa apart */
    int32_t above;  /* rows of the window above the image */
#endif
} aot_tile_f32_job;

/* Floats from x to where step a of the loops begins. */
AOT_INLINE ptrdiff_t aot_tile_f32_step(const aot_tile_f32_job *j, int32_t a) {
#if AOT_ROWS_APART
    if (j->at != NULL) {
        const int32_t row = a * j->da - j->above;
        const int inside = row >= 0 && row < j->rows;
        return inside ? AOT_AT_F32(j->at, row, 0, 0) - AOT_AT_F32(j->at, 0, 0, 0) : 0;
    }
#endif
    return a * j->xa;
}

/* What a pixel outside the image reads: a block of channels. */
static const float aot_tile_f32_zeros[16] = {0};

#define AOT_T_P1(M) M(0)
#define AOT_T_P2(M) AOT_T_P1(M) M(1)
#define AOT_T_P3(M) AOT_T_P2(M) M(2)
#define AOT_T_P4(M) AOT_T_P3(M) M(3)
#define AOT_T_P6(M) AOT_T_P4(M) M(4) M(5)
#define AOT_T_P7(M) AOT_T_P6(M) M(6)
#define AOT_T_P14(M) AOT_T_P7(M) M(7) M(8) M(9) M(10) M(11) M(12) M(13)
#define AOT_T_O1(M) M(0)
#define AOT_T_O2(M) AOT_T_O1(M) M(1)
#define AOT_T_O4(M) AOT_T_O2(M) M(2) M(3)
#define AOT_T_Q1(M, p) M(p, 0)
#define AOT_T_Q2(M, p) AOT_T_Q1(M, p) M(p, 1)
#define AOT_T_Q4(M, p) AOT_T_Q2(M, p) M(p, 2) M(p, 3)
#define AOT_T_CAT2(a, b) a##b
#define AOT_T_CAT(a, b) AOT_T_CAT2(a, b)
#define AOT_T_NAME2(p, o, runs) aot_tile_f32_##p##x##o##_##runs
#define AOT_T_NAME(p, o, runs) AOT_T_NAME2(p, o, runs)

#define AOT_TILE_RUNS 0
#include "aot_tile_f32_set.h"
#define AOT_TILE_RUNS 1
#include "aot_tile_f32_set.h"
#ifdef AOT_BF16_MADD
#define AOT_TILE_RUNS 2
#include "aot_tile_f32_set.h"
#define AOT_T_WORDS(p, o) AOT_T_NAME(p, o, 2)(j)
#else
#define AOT_T_WORDS(p, o) ((void)0)
#endif

/* The most pixels a tile function takes when `n` are left: a smaller one wastes fewer. Seven and
 * eight are as four and four, as a tile of two pixels waits for its weights. */
AOT_INLINE int32_t aot_tile_f32_size(int P, int32_t n) {
    if (P == 14) {
        return n > 7 ? 14 : n > 3 ? 7 : n > 1 ? 3 : 1;
    }
    if (P == 6) {
        return n == 4 || n == 7 || n == 8 ? 4 : n > 3 ? 6 : n > 1 ? 3 : 1;
    }
    return n > 2 ? 4 : n > 1 ? 2 : 1;
}

#define AOT_T_CALL(p, o)                                                                           \
    do {                                                                                           \
        if (RUNS == 2) {                                                                           \
            AOT_T_WORDS(p, o);                                                                     \
        } else if (RUNS != 0) {                                                                    \
            AOT_T_NAME(p, o, 1)(j);                                                                \
        } else {                                                                                   \
            AOT_T_NAME(p, o, 0)(j);                                                                \
        }                                                                                          \
    } while (0)
#define AOT_T_RUN(p)                                                                               \
    do {                                                                                           \
        if (o == 1) {                                                                              \
            AOT_T_CALL(p, 1);                                                                      \
        } else {                                                                                   \
            AOT_T_CALL(p, 2);                                                                      \
        }                                                                                          \
    } while (0)
#define AOT_T_RUN4(p)                                                                              \
    do {                                                                                           \
        if (o == 4) {                                                                              \
            AOT_T_CALL(p, 4);                                                                      \
        } else {                                                                                   \
            AOT_T_RUN(p);                                                                          \
        }                                                                                          \
    } while (0)

/* Run a tile of family (P, O) on j->n pixels and `o` blocks (O or a smaller power of two).
 * Families: 14x2, 6x4, 6x2, 4x4, 4x2. P, O and RUNS must be compile-time
 * constants. */
AOT_INLINE void aot_tile_f32_run(const aot_tile_f32_job *j, int32_t o, int P, int O, int RUNS) {
    const int32_t p = aot_tile_f32_size(P, j->n);
    if (P == 14) {
        if (p == 14) {
            AOT_T_RUN(14);
        } else if (p == 7) {
            AOT_T_RUN(7);
        } else if (p == 3) {
            AOT_T_RUN(3);
        } else {
            AOT_T_RUN(1);
        }
    } else if (P == 6 && O == 4) {
        if (p == 6) {
            AOT_T_RUN4(6);
        } else if (p == 4) {
            AOT_T_RUN4(4);
        } else if (p == 3) {
            AOT_T_RUN4(3);
        } else {
            AOT_T_RUN4(1);
        }
    } else if (P == 6) {
        if (p == 6) {
            AOT_T_RUN(6);
        } else if (p == 4) {
            AOT_T_RUN(4);
        } else if (p == 3) {
            AOT_T_RUN(3);
        } else {
            AOT_T_RUN(1);
        }
    } else if (O == 4) {
        if (p == 4) {
            AOT_T_RUN4(4);
        } else if (p == 2) {
            AOT_T_RUN4(2);
        } else {
            AOT_T_RUN4(1);
        }
    } else {
        if (p == 4) {
            AOT_T_RUN(4);
        } else if (p == 2) {
            AOT_T_RUN(2);
        } else {
            AOT_T_RUN(1);
        }
    }
}

/* Output blocks of the group that starts at block b of `vecs`: O, or less at the end. */
AOT_INLINE int32_t aot_tile_f32_group(int32_t b, int32_t vecs, int O) {
    int32_t o = O;
    while (o > vecs - b) {
        o /= 2;
    }
    return o;
}

#define AOT_TILE_EDGE (AOT_TILE_MAX_P * 2 * AOT_VLEN) /* floats of the largest tile, 28 vectors */

/* A tile [o][P][V] of `cols` channels and `n` pixels to or from a plain tensor, whose channels are
 * `plane` floats apart. */
AOT_INLINE void aot_tile_f32_scatter(float *y, ptrdiff_t plane, const float *tile, int32_t n,
                                     int32_t cols, int P) {
    int32_t c, i;
    for (c = 0; c < cols; ++c) {
        const float *s = tile + (ptrdiff_t)(c / AOT_VLEN) * P * AOT_VLEN + c % AOT_VLEN;
        for (i = 0; i < n; ++i) {
            y[c * plane + i] = s[(ptrdiff_t)i * AOT_VLEN];
        }
    }
}
AOT_INLINE void aot_tile_f32_gather(float *tile, const float *r, ptrdiff_t plane, int32_t n,
                                    int32_t cols, int P) {
    int32_t c, i;
    (void)memset(tile, 0, AOT_TILE_EDGE * sizeof(float));
    for (c = 0; c < cols; ++c) {
        float *d = tile + (ptrdiff_t)(c / AOT_VLEN) * P * AOT_VLEN + c % AOT_VLEN;
        for (i = 0; i < n; ++i) {
            d[(ptrdiff_t)i * AOT_VLEN] = r[c * plane + i];
        }
    }
}

#endif /* AOT_TILE_F32_H */
