/* SPDX-License-Identifier: MIT-0 */
/* Depthwise convolution of int8 values by dot products: parameters in aot_qconv_s8_params.h (ic =
 * oc channels).
 *
 * A block is 4 * W channels, W = V, but the last one has W = V / 2 where V is 16 and no more than
 * 2 * V channels are left. Lane l of vector v of a block is its channel 16 * (l / 4) + 4 * v + l %
 * 4: interleaving the bytes of four rows and packing sums into bytes both keep that order. Weights
 * are [block][set][kw][group][4][W][4], a group being four rows of the window; zero past the last
 * row and the last channel. With SETS 2 weights are the sums of those of two sets. bias is
 * [block][4][W], with SETS 2 followed by a number per block that tells whether its second set is
 * needed. x counts as unsigned with its top bits flipped (the bias holds -128 times the sum of the
 * weights).
 *
 * Columns of AOT_QDW_COLUMNS results at a time are interleaved in scratch: int32 [AOT_QDW_COLUMNS *
 * sw + kw * dw][group][4][V]. y must not overlap x.
 */
#ifndef AOT_QDWCONV_S8__DOT_H
#define AOT_QDWCONV_S8__DOT_H

#include "aot_qconv_s8_params.h"
#include "aot_qdot.h"

#define AOT_QDW_COLUMNS 28
#define AOT_QDW_FLIP 0x80

typedef aot_qdwconv_s8_params aot_qdwconv_s8__dot_params;

/* The block that begins at channel c: W and, of a channel counted from c, its number by lanes. */
AOT_INLINE int32_t aot_qdw_lanes(int32_t c, int32_t channels) {
    return AOT_VLEN == 16 && channels - c <= 2 * AOT_VLEN ? AOT_VLEN / 2 : AOT_VLEN;
}
AOT_INLINE int32_t aot_qdw_place(int32_t channel, int32_t lanes) {
    return channel % 16 / 4 * lanes + channel / 16 * 4 + channel % 4;
}

/* Some results of a row, and what they are made from: n of the channels of a block exist. The next
 * column of row i is step[i] bytes from x[i], which is `pad` and 0 for rows that are not in the
 * image. Columns `left` to `right` - 1 of `count` are in the image. */
typedef struct {
    int8_t *y;
    const int8_t *x[4];
    ptrdiff_t step[4];
    const int8_t *w;
    const int32_t *bias;
    int32_t *columns;
    int32_t n, sets, left, right, count;
    int8_t pad[4 * AOT_VLEN];
    int32_t mult[4 * AOT_VLEN]; /* in the order of the lanes */
} aot_qdw_part;

#define AOT_QDW_CAST_16(v) _mm512_castsi512_ps(v)
#define AOT_QDW_CAST_8(v) _mm256_castsi256_ps(v)
#define AOT_QDW_MASKED_16(p, n) _mm512_maskz_loadu_epi8(~UINT64_C(0) >> (64 - (n)), p)
#define AOT_QDW_MASKED_8(p, n) _mm256_maskz_loadu_epi8(~UINT32_C(0) >> (32 - (n)), p)
#define AOT_QDW_STORE_16(p, n, v) _mm512_mask_storeu_epi8(p, ~UINT64_C(0) >> (64 - (n)), v)
#define AOT_QDW_STORE_8(p, n, v) _mm256_mask_storeu_epi8(p, ~UINT32_C(0) >> (32 - (n)), v)
#define AOT_QDW_JOIN2(a, b) a##b
#define AOT_QDW_JOIN(a, b) AOT_QDW_JOIN2(a, b)

#if defined(AOT_QDOT_FLIP) && AOT_QDOT_FLIP == 128 && AOT_VLEN == 16 && defined(__AVX512BW__) &&   \
    defined(__AVX512VL__)
#define AOT_QDW_VECTORS 1
#define AOT_QDW_W 16
#include "aot_qdwconv_s8__dot_body.h"
#undef AOT_QDW_W
#define AOT_QDW_W 8
#include "aot_qdwconv_s8__dot_body.h"
#undef AOT_QDW_W
#elif defined(AOT_QDOT_FLIP) && AOT_QDOT_FLIP == 128 && AOT_VLEN == 8
#define AOT_QDW_VECTORS 1
#define AOT_QDW_W 8
#include "aot_qdwconv_s8__dot_body.h"
#undef AOT_QDW_W
#else
#define AOT_QDW_VECTORS 0
#endif

/* One result: the sum of a channel whose weights of a block are at w, `lane` of `lanes` * 4. */
AOT_INLINE int32_t aot_qdw_sum(const int8_t *x, const int8_t *w, int32_t bias, int32_t lane,
                               int32_t lanes, const aot_qdwconv_s8_params *p, int32_t iy,
                               int32_t ix, int32_t c, int SETS) {
    const int32_t groups = (p->kh + 3) / 4;
    uint32_t sum = (uint32_t)bias;
    int32_t set, a, b;
    for (set = 0; set < SETS; ++set) {
        for (b = 0; b < p->kw; ++b) {
            for (a = 0; a < p->kh; ++a) {
                const int32_t row = iy + a * p->dh, col = ix + b * p->dw;
                const ptrdiff_t at = ((ptrdiff_t)(set * p->kw + b) * groups + a / 4) * 16 * lanes;
                uint8_t v = (uint8_t)p->x_zero;
                if (row >= 0 && row < p->ih && col >= 0 && col < p->iw) {
                    v = (uint8_t)*AOT_AT(x, row - p->x_row0, col * p->ic + c,
                                         x + ((ptrdiff_t)(row - p->x_row0) * p->iw + col) * p->ic +
                                             c);
                }
                sum += (uint32_t)((v ^ AOT_QDW_FLIP) * w[at + 4 * lane + a % 4]);
            }
        }
    }
    return (int32_t)sum;
}

/* One row of results, in plain C. */
static AOT_NOINLINE AOT_UNUSED void aot_qdw_plain(int8_t *y, const int8_t *x, const int8_t *w,
                                                  const int32_t *bias, const int32_t *mult,
                                                  const int8_t *shift,
                                                  const aot_qdwconv_s8_params *p, int32_t iy,
                                                  int RQ, int PC, int SETS) {
    const int32_t taps = (p->kh + 3) / 4 * p->kw * SETS;
    int32_t c, ox, i;
    for (c = 0; c < p->oc; c += 4 * AOT_VLEN) {
        const int32_t lanes = aot_qdw_lanes(c, p->oc), left = p->oc - c;
        for (ox = 0; ox < p->ow; ++ox) {
            for (i = 0; i < left && i < 4 * lanes; ++i) {
                const int32_t lane = aot_qdw_place(i, lanes), k = PC != 0 ? c + i : 0;
                const int32_t sum =
                    aot_qdw_sum(x, w + (ptrdiff_t)c * taps * 4, bias[c + lane], lane, lanes, p, iy,
                                ox * p->sw - p->pl, c + i, SETS);
                y[(ptrdiff_t)ox * p->oc + c + i] = (int8_t)aot_requant_value(
                    sum, mult[k], RQ != 0 ? shift[k] : 0, p->y_zero, p->lo, p->hi, RQ);
            }
        }
    }
}

#if AOT_QDW_VECTORS
/* The multipliers of a block in the order of its lanes. */
AOT_INLINE void aot_qdw_mult(aot_qdw_part *t, const int32_t *mult, int32_t lanes, int PC) {
    int32_t natural[4 * AOT_VLEN], i;
    const int32_t *from = mult;
    if (PC == 0 || t->n < 4 * lanes) {
        for (i = 0; i < 4 * lanes; ++i) {
            natural[i] = mult[PC != 0 && i < t->n ? i : 0];
        }
        from = natural;
    }
    for (i = 0; i < lanes; ++i) {
        (void)memcpy(t->mult + aot_qdw_place(4 * i, lanes), from + 4 * i, 4 * sizeof *from);
    }
}

/* One row of results. */
AOT_INLINE void aot_qdw_row(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                            const int32_t *mult, int32_t *columns, const aot_qdwconv_s8_params *p,
                            int32_t iy, int PC, int SETS, int KW, int G) {
    const int32_t blocks = (p->oc + 4 * AOT_VLEN - 1) / (4 * AOT_VLEN);
    const int32_t *second = bias;
    int32_t ox, block;
    aot_qdw_part t;
    t.columns = columns;
    (void)memset(t.pad, p->x_zero, sizeof t.pad);
    for (block = 0; block < blocks; ++block) {
        second += 4 * aot_qdw_lanes(block * 4 * AOT_VLEN, p->oc);
    }
    for (block = 0; block < blocks; ++block) {
        const int32_t c = block * 4 * AOT_VLEN, lanes = aot_qdw_lanes(c, p->oc);
        t.n = p->oc - c < 4 * AOT_VLEN ? p->oc - c : 4 * AOT_VLEN;
        t.w = w + (ptrdiff_t)c * SETS * KW * G * 4;
        t.bias = bias + c;
        t.sets = SETS > 1 && second[block] != 0 ? 2 : 1;
        aot_qdw_mult(&t, mult + (PC != 0 ? c : 0), lanes, PC);
        for (ox = 0; ox < p->ow; ox += AOT_QDW_COLUMNS) {
            const int32_t left = p->ow - ox, n = left < AOT_QDW_COLUMNS ? left : AOT_QDW_COLUMNS;
            const int32_t ix = ox * p->sw - p->pl;
            t.y = y + (ptrdiff_t)ox * p->oc + c;
            t.count = (n - 1) * p->sw + (KW - 1) * p->dw + 1;
            t.left = ix < 0 ? (-ix < t.count ? -ix : t.count) : 0;
            t.right = p->iw - ix < t.count ? p->iw - ix : t.count;
            t.right = t.right < t.left ? t.left : t.right;
            if (AOT_VLEN == 16 && lanes == 16) {
                AOT_QDW_JOIN(aot_qdw_part_, AOT_VLEN)(&t, x, p, iy, ix, c, n, KW, G);
            } else {
                aot_qdw_part_8(&t, x, p, iy, ix, c, n, KW, G);
            }
        }
    }
}
#endif

/* Instance: RQ and PC as in aot_requant.h; KW the width of the window and G its groups of rows (0:
 * the parameters tell); SETS. */
AOT_INLINE void aot_qdwconv_s8__dot(int8_t *y, const int8_t *x, const int8_t *w,
                                    const int32_t *bias, const int32_t *mult, const int8_t *shift,
                                    void *scratch, const aot_qdwconv_s8_params *p, int RQ, int PC,
                                    int KW, int G, int SETS) {
    const int32_t kw = KW != 0 ? KW : p->kw, groups = G != 0 ? G : (p->kh + 3) / 4;
    int32_t image, oy;
    (void)scratch;
    (void)kw;
    (void)groups;
    for (image = 0; image < p->n; ++image, x += (ptrdiff_t)p->ih * p->iw * p->ic) {
        int8_t *d = y + ((ptrdiff_t)image * p->oh + (p->y0 - p->y_row0)) * p->ow * p->oc;
        for (oy = p->y0; oy < p->y1; ++oy, d += (ptrdiff_t)p->ow * p->oc) {
            const int32_t iy = oy * p->sh - p->pt;
#if AOT_QDW_VECTORS
            if (RQ == 0) {
                aot_qdw_row(d, x, w, bias, mult, (int32_t *)scratch, p, iy, PC, SETS, kw, groups);
                continue;
            }
#endif
            aot_qdw_plain(d, x, w, bias, mult, shift, p, iy, RQ, PC, SETS);
        }
    }
}

#endif /* AOT_QDWCONV_S8__DOT_H */
